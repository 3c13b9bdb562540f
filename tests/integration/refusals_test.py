#!/usr/bin/env python3
"""Requests without a meaning: each is refused with a clear answer, and the daemon stays healthy.

Usage: refusals_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import collections
import contextlib
import json
import pathlib
import resource
import signal
import socket
import struct
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from daemon_case import DaemonTest, MIB, PATIENCE  # noqa: E402


class RefusalsTest(DaemonTest):
    memory = "4GiB"

    def refused(self, status, code, body, method="POST", path="/v1/jobs"):
        answer = self.request(method, path, body)
        self.assertEqual((answer.status, answer.code()), (status, code), answer.body)
        error = answer.json()["error"]
        self.assertTrue(error["message"])
        return error["message"] + " " + (error["hint"] or "")

    def test_invalid_sizes_are_refused(self):
        for size in (-1, 0, "0", "-5MiB", "lots", "99999999999999999999", "8XB", 1 << 63, "0%", "101%", "", [], True, 1.5):
            self.refused(400, "invalid_argument", self.run_request("t", "true", memory=size))
        self.assertIn("4GiB", self.refused(422, "unsatisfiable", self.run_request("t", "true", memory="1TiB")))
        self.refused(400, "invalid_argument", self.run_request("t", "true", memory="1GiB", soft="2GiB"))

    def test_a_size_of_null_is_no_limit(self):
        self.assertIsNone(self.job(self.start("t", "true", memory=None, soft=None))["memory"]["limit"])

    def test_unknown_jobs_and_gpus_are_refused(self):
        self.refused(404, "not_found", self.run_request("t", "true", gpus=["7"]))
        self.refused(404, "not_found", None, "GET", "/v1/jobs/nobody")
        self.refused(404, "not_found", {}, "PATCH", "/v1/jobs/nobody")
        self.refused(404, "not_found", None, "DELETE", "/v1/jobs/99")
        self.refused(404, "not_found", None, "GET", "/v1/gpus/5")
        self.assertEqual(self.request("GET", "/v1/nothing", checked=False).status, 404)
        self.assertEqual(self.request("PUT", "/v1/jobs", checked=False).status, 405)

    def test_tag_in_use_is_refused(self):
        self.start("t", "exec sleep 1000")
        self.refused(409, "already_exists", self.run_request("t", "true"))

    def test_requests_with_mistakes_name_them(self):
        good = self.run_request("t", "true")
        self.assertIn("memroy", self.refused(400, "invalid_argument", {**good, "memroy": "1GiB"}))
        for name, wrong in (("tag", ""), ("tag", "a/b"), ("tag", "12"), ("tag", "x" * 1000), ("command", []), ("command", [""]),
                            ("command", "true"), ("directory", "relative"), ("priority", 256), ("priority", -1),
                            ("restart", "sometimes"), ("grace", "-1s"), ("gpus", "0"), ("environment", {"": "x"}),
                            ("environment", {"A=B": "x"}), ("command", ["a\0b"]), ("preload", "no")):
            self.refused(400, "invalid_argument", {**good, name: wrong})

    def test_invalid_bodies_are_refused(self):
        for body in ("", "{", "[]", "null", "42", '"x"', "{}", b"\xff\xfe{}", '{"tag":"\xff"}'.encode("latin-1"),
                     "[" * 100_000, json.dumps(self.run_request("t", "true"))[:-5]):
            self.refused(400, "invalid_argument", body)
        huge = self.refused(413, "invalid_argument", "x" * (20 * MIB))
        self.assertIn("4194304", huge)
        self.assertEqual(self.request("GET", "/v1/jobs?all=1").json()["jobs"], [])

    def raw(self, data):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(PATIENCE)
            s.connect(self.m.env["GPUMAN_SOCKET"])
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            got = b""
            with contextlib.suppress(ConnectionResetError):
                while chunk := s.recv(65536):
                    got += chunk
            return got

    def test_things_that_are_no_http_leave_the_daemon_well(self):
        for data in (b"", b"\0" * 100, b"GET\r\n\r\n", b"GET /v1/jobs HTTP/9.9\r\n\r\n", b"GET / HTTP/1.1\r\nX: " + b"y" * 100_000,
                     b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
                     b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", b"GET /v1/jobs/%zz HTTP/1.1\r\nHost: x\r\n\r\n",
                     b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"):
            got = self.raw(data)
            self.assertNotIn(b" 200 ", got.split(b"\r\n")[0])
        self.assertEqual(self.request("GET", "/healthz").status, 200)

    def lingering(self):
        """A socket whose last close waits for an hour, since its peer does not read what it has sent; and that peer."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            ours = socket.create_connection(server.getsockname())
            peer = server.accept()[0]
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 3600))
        ours.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                ours.send(bytes(65536))
        peer.settimeout(PATIENCE)
        self.addCleanup(peer.close)
        return ours, peer

    def test_descriptors_that_are_passed_along_hold_up_nobody(self):
        main = pathlib.Path(self.m.env["GPUMAN_SOCKET"])
        request = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
        for path, kind, first in ((main, socket.SOCK_STREAM, b""), (main, socket.SOCK_STREAM, request),
                                  (main.with_name("shim.sock"), socket.SOCK_SEQPACKET, b"")):
            ours, peer = self.lingering()
            with socket.socket(socket.AF_UNIX, kind) as client:
                client.connect(str(path))
                if first:
                    client.sendall(first)
                    client.recv(65536)
                self.m.daemon.send_signal(signal.SIGSTOP)  # so that the daemon has the last reference
                try:
                    socket.send_fds(client, [b"x"], [ours.fileno()])
                except PermissionError:  # since Linux 6.16 the daemon's socket accepts no descriptors
                    ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    continue
                finally:
                    ours.close()
                    self.m.daemon.send_signal(signal.SIGCONT)
            self.assertEqual(self.request("GET", "/healthz").status, 200)
            self.assertEqual(self.wait(self.start("t", "exit 4"))["exit_code"], 4)
            self.request("DELETE", "/v1/jobs/t")
            while peer.recv(1 << 20):  # until all have closed it
                pass

    def test_ten_thousand_silent_clients_do_not_keep_others_out(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 10_500)), hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        at_once = min(10_000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 200)
        held = collections.deque()
        try:
            for i in range(10_000):
                s = socket.socket(socket.AF_UNIX)
                s.settimeout(PATIENCE)
                s.connect(self.m.env["GPUMAN_SOCKET"])
                held.append(s)
                if len(held) > at_once:
                    held.popleft().close()
                if i % 1000 == 0:
                    self.assertEqual(self.request("GET", "/healthz").status, 200)
            self.assertEqual(self.request("GET", "/v1/status").status, 200)
            self.assertEqual(self.wait(self.start("t", "exit 4"))["exit_code"], 4)
        finally:
            for s in held:
                s.close()

    def test_a_long_job_name_in_a_path_is_just_not_found(self):
        self.assertEqual(self.request("GET", "/v1/jobs/" + "x" * 5000, checked=False).status, 404)


if __name__ == "__main__":
    unittest.main(verbosity=2)

#!/usr/bin/env python3
"""Webhooks of ordinary users: to which addresses can they make the machine connect?

Runs in a network of its own, whose names are in a file of the test. No packet reaches another machine.

Usage: webhooks_test.py [UNITTEST ARGUMENTS]    (as root; GPUMAN_BUILD_DIR names the build tree)
"""

import ctypes
import fcntl
import http.server
import os
import pathlib
import socket
import struct
import sys
import tempfile
import threading
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1] / "harness")]
from daemon_case import until  # noqa: E402
from hostile_case import ATTACKER, NEIGHBOUR, HostileTest, lay_over, main  # noqa: E402

OWN = "203.0.113.77"  # an address of this machine, and public
ELSEWHERE = "198.51.100.7"  # public, without a host
ALLOWED = "127.0.0.9"  # allowed by the administrator


def own_network():
    """Makes a network namespace for this process and its children. OSError if that is not allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    CLONE_NEWNET, SIOCSIFADDR, SIOCSIFFLAGS, IFF_UP = 0x40000000, 0x8916, 0x8914, 1
    if libc.unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "a network of its own")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        fcntl.ioctl(s, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))
        address = struct.pack("16sHH4s8x", b"lo:1", socket.AF_INET, 0, socket.inet_aton(OWN))
        fcntl.ioctl(s, SIOCSIFADDR, address)


class Receiver:
    """A server on an address. Keeps what it gets; `to`: where it redirects clients; `answers` False: it does not
    answer."""

    def __init__(self, address, port=0, status=204, to=None, answers=True):
        self.got, self.closing = [], threading.Event()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                receiver.got.append(self.path)
                if not answers:
                    receiver.closing.wait()
                    return
                self.send_response(status)
                if to:
                    self.send_header("Location", to)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_GET = do_PUT = do_POST

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            address_family = socket.AF_INET6 if ":" in address else socket.AF_INET

        self.server = Server((address, port), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        host = f"[{address}]" if ":" in address else address
        self.url = f"http://{host}:{self.port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.closing.set()
        self.server.shutdown()
        self.server.server_close()


class Webhooks(HostileTest):
    config = (f'[notify]\nallow = ["{ALLOWED}"]\ntimeout = "5m"\nretry_delay = "100ms"\nretry_longest = "200ms"\n'
              'give_up = "2s"\n')

    @classmethod
    def prepare(cls):
        try:
            own_network()
        except OSError as error:
            raise unittest.SkipTest(str(error)) from None
        names = tempfile.NamedTemporaryFile("w", prefix="gpuman-names-", delete=False)
        cls.addClassCleanup(os.unlink, names.name)
        names.close()
        cls.names = pathlib.Path(names.name)
        cls.names.chmod(0o644)
        cls.name()
        lay_over({cls.names: "/etc/hosts"})

    @classmethod
    def name(cls, **names):
        """Sets the addresses of names."""
        text = "127.0.0.1 localhost\n" + "".join(f"{address} {name}.example\n" for name, all in names.items() for address in all)
        with open(cls.names, "w") as file:
            file.write(text)

    def receiver(self, *arguments, **more):
        receiver = Receiver(*arguments, **more)
        self.addCleanup(receiver.close)
        return receiver

    def submit(self, user, *urls, script="exit 0"):
        environment = {"PATH": os.environ["PATH"]}
        return self.as_user(user, "POST", "/v1/submissions", {
            "jobs": [{"command": ["/bin/sh", "-c", script], "notify": {"webhooks": list(urls)}, "gpus": {"count": 0}}],
            "directory": "/", "environment": environment})

    def job_of(self, submitted):
        self.assertEqual(submitted.status, 201, submitted)
        return submitted.json()["jobs"][0]["id"]

    def is_given_up(self, job):
        return until("it is given up", lambda: [event["message"] for event in self.events()
                                                if event["kind"] == "notification_failed" and event["job"] == job])[0]

    def test_addresses_that_are_not_for_users_however_they_are_written(self):
        secret = self.receiver("0.0.0.0")
        port = secret.port
        secret6 = self.receiver("::1", port)
        self.name(local=["127.0.0.1"], own=[OWN], link=["169.254.169.254"], private=["10.0.0.1"], mapped=["::ffff:127.0.0.1"])
        refused = 0
        for host in ("127.0.0.1", "127.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "017700000001", "0", "0.0.0.0",
                     "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "localhost", "LOCALHOST.",
                     "local.example", "mapped.example", "own.example", OWN, f"[::ffff:{OWN}]", "link.example", "169.254.169.254",
                     "private.example", "127.0.0.1.", "user:pass@127.0.0.1", "user@local.example", "%31%32%37.0.0.1",
                     "127.0.0.1%00.example", "①②⑦.0.0.1"):
            with self.subTest(host=host):
                answered = self.submit(ATTACKER, f"http://{host}:{port}/secret")
                if answered.status == 201:
                    self.is_given_up(self.job_of(answered))
                else:
                    self.assertEqual(answered.code(), "invalid_argument", answered)
                    refused += 1
                self.assertEqual(secret.got + secret6.got, [])
        self.assertGreater(refused, 0)

    def test_urls_that_are_none(self):
        secret = self.receiver("127.0.0.1")
        for url in (f"file:///etc/passwd", f"gopher://127.0.0.1:{secret.port}/_x", f"http://127.0.0.1:{secret.port}\\@elsewhere.example/",
                    f"http://elsewhere.example#@127.0.0.1:{secret.port}/", f"http://elsewhere.example:80@127.0.0.1:{secret.port}/",
                    f"http://elsewhere.example/\r\nHost: x", "dict://127.0.0.1:1/", "http:///", "http://", f"//127.0.0.1:{secret.port}/"):
            with self.subTest(url=url):
                self.name(elsewhere=[ELSEWHERE])
                answered = self.submit(ATTACKER, url)
                if answered.status == 201:
                    self.is_given_up(self.job_of(answered))
                self.assertEqual(secret.got, [])

    def test_a_name_that_means_something_else_later(self):
        secret = self.receiver("127.0.0.1")
        self.name(rebinds=[ELSEWHERE])
        gate = self.scratch(ATTACKER) / "go"
        job = self.job_of(self.submit(ATTACKER, f"http://rebinds.example:{secret.port}/", script=f"while ! [ -e {gate} ]; do sleep 0.05; done"))
        self.becomes(job, "running")
        self.name(rebinds=["127.0.0.1"])
        gate.touch()
        self.assertIn("the machine itself", self.is_given_up(job))
        self.assertEqual(secret.got, [])

    def test_a_name_with_two_addresses(self):
        secret = self.receiver("127.0.0.1")
        for both in ([ELSEWHERE, "127.0.0.1"], ["127.0.0.1", ELSEWHERE]):
            self.name(two=both)
            self.is_given_up(self.job_of(self.submit(ATTACKER, f"http://two.example:{secret.port}/")))
            self.assertEqual(secret.got, [])

    def test_receivers_that_send_the_message_elsewhere(self):
        secret = self.receiver("127.0.0.1")
        for status in (301, 302, 303, 307, 308):
            redirects = self.receiver(ALLOWED, status=status, to=secret.url + "/secret")
            said = self.is_given_up(self.job_of(self.submit(ATTACKER, redirects.url + "/")))
            self.assertIn(str(status), said)
            self.assertEqual((redirects.got, secret.got), (["/"], []))

    def test_receivers_that_never_answer_keep_nobody_elses_message_waiting(self):
        silent = [self.receiver(ALLOWED, answers=False) for _ in range(10)]
        fine = self.receiver(ALLOWED)
        for _ in range(5):
            self.job_of(self.submit(ATTACKER, *(one.url + "/" for one in silent)))
        until("some hang", lambda: sum(len(one.got) for one in silent) >= 2)
        with self.beside("webhooks of 10 receivers that never answer"):
            for number in range(5):
                self.job_of(self.submit(NEIGHBOUR, f"{fine.url}/{number}"))
            until("the neighbour's are delivered", lambda: len(fine.got) == 5)


if __name__ == "__main__":
    main()

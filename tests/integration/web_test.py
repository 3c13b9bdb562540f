#!/usr/bin/env python3
"""The server of `gpuman web`: what it passes on to the daemon, whom it refuses, and how it ends.

web_page_test.py has what the browser shows. tests/hostile/web_test.py has other users.

Usage: web_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import json
import pathlib
import re
import select
import signal
import socket
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from daemon_case import DaemonTest, until  # noqa: E402
from machine import free_port, program  # noqa: E402
from web import start_page  # noqa: E402


class WebTest(DaemonTest):
    def web(self, *arguments, **environment):
        return start_page(self, [program("gpuman"), "web", *arguments], {**self.m.env, **environment})

    def test_the_page_needs_no_secret_and_says_what_it_may_load(self):
        page = self.web()
        for path, kind in (("/", "text/html"), ("/app.js", "text/javascript"), ("/style.css", "text/css"),
                           ("/dygraph.min.js", "text/javascript"), ("/?x=1", "text/html")):
            answer = page.ask(path, Authorization=None)
            self.assertEqual((answer.status, answer.headers["Content-Type"].split(";")[0]), (200, kind), path)
            self.assertIn("default-src 'none'", answer.headers["Content-Security-Policy"])
            self.assertEqual(answer.headers["X-Content-Type-Options"], "nosniff")
            self.assertNotIn("Set-Cookie", answer.headers)
            self.assertNotIn(page.secret.encode(), answer.body)
        for path in ("/nothing", "/../app.js", "/%2e%2e/etc/passwd", "//etc/passwd", "/v1"):
            self.assertEqual(page.ask(path).status, 404, path)
        self.assertEqual(page.ask("/", "POST", {}).status, 405)

    def test_the_page_loads_nothing_of_others_and_has_no_code_in_its_html(self):
        page = self.web()
        html = page.ask("/").body.decode()
        loaded = re.findall(r'<(?:script|link)\b[^>]*?(?:src|href)="([^"]+)"', html)
        self.assertGreater(len(loaded), 2)
        for name in loaded:
            if not name.startswith("data:"):
                self.assertEqual(page.ask("/" + name.removeprefix("/")).status, 200, name)
        for inline in ("<script>", " style=", " onclick=", "<style"):
            self.assertNotIn(inline, html, "the content security policy refuses it")

    def test_requests_reach_the_daemon_and_its_words_come_back(self):
        page = self.web()
        self.assertEqual([gpu["index"] for gpu in page.ask("/v1/gpus").json()["gpus"]],
                         [gpu["index"] for gpu in self.request("GET", "/v1/gpus").json()["gpus"]])
        self.start("shown", "exec sleep 1000")
        self.assertIn("shown", [job["tag"] for job in page.ask("/v1/jobs").json()["jobs"]])
        refused = page.ask("/v1/jobs/nosuchjob")
        self.assertEqual((refused.status, refused.error),
                         (404, self.request("GET", "/v1/jobs/nosuchjob").json()["error"]["message"]))
        self.assertLess(page.ask("/v1/jobs/shown", "DELETE").status, 300)
        until("the job is gone", lambda: self.request("GET", "/v1/jobs/shown").status == 404)

    def test_a_wrong_secret_host_or_origin_gets_nothing(self):
        page = self.web()
        own = f"http://127.0.0.1:{page.port}"
        wrong = [(401, dict(Authorization=None)), (401, dict(Authorization="Bearer " + "0" * len(page.secret))),
                 (401, dict(Authorization=f"Bearer {page.secret[:-1]}")), (401, dict(Cookie=f"secret={page.secret}", Authorization=None)),
                 (421, dict(Host="evil.example")), (421, dict(Host=f"127.0.0.1.evil.example:{page.port}")), (421, dict(Host="")),
                 (403, dict(Origin="https://evil.example")), (403, dict(Origin="null")),
                 (403, dict(Origin=f"http://127.0.0.1:{page.port + 1}")), (403, dict(Sec_Fetch_Site="cross-site")),
                 (403, dict(Sec_Fetch_Site="same-site"))]
        self.start("kept", "exec sleep 1000")
        self.becomes("kept", "running")
        for status, headers in wrong:
            for method, path in (("GET", "/v1/status"), ("DELETE", "/v1/jobs/kept"), ("OPTIONS", "/v1/status")):
                answer = page.ask(path, method, **headers)
                self.assertEqual(answer.status, status, (method, headers))
                self.assertNotIn(b"kept", answer.body)
                self.assertNotIn("Access-Control-Allow-Origin", answer.headers)
        self.assertEqual(page.ask(f"/v1/status?secret={page.secret}", Authorization=None).status, 401)
        self.assertEqual(self.job("kept")["state"], "running")
        right = [dict(Host=f"localhost:{page.port}"), dict(Host="localhost"), dict(Host=f"[::1]:{page.port}"),
                 dict(Origin=own), dict(Sec_Fetch_Site="same-origin")]
        for headers in right:
            self.assertEqual(page.ask("/v1/status", **headers).status, 200, headers)

    def test_two_links_have_two_secrets(self):
        one, other = self.web(), self.web()
        self.assertNotEqual(one.secret, other.secret)
        self.assertEqual(len(one.secret), 32)
        self.assertEqual(one.ask("/v1/status", Authorization=f"Bearer {other.secret}").status, 401)

    def test_events_come_as_they_happen_and_end_with_the_browser(self):
        page = self.web()
        connection = page.connect()
        connection.request("GET", "/v1/events?follow=1", headers=page.headers(Accept="text/event-stream"))
        stream = connection.getresponse()
        self.assertEqual((stream.status, stream.getheader("Content-Type").split(";")[0]), (200, "text/event-stream"))
        self.start("seen", "exit 0")
        kinds = []
        while "job_finished" not in kinds:
            line = stream.readline().decode()
            self.assertTrue(line, "the stream ended")
            if line.startswith("data:"):
                event = json.loads(line[5:])
                if event["tag"] == "seen":
                    kinds.append(event["kind"])
        self.assertEqual(kinds, ["job_started", "job_finished"])
        threads = pathlib.Path(f"/proc/{page.process.pid}/task")
        self.assertEqual(len(list(threads.iterdir())), 2)
        stream.close()
        connection.close()
        until("its thread has ended", lambda: len(list(threads.iterdir())) == 1)

    def test_more_connections_than_it_serves_are_closed_and_come_back(self):
        page = self.web()
        silent = [socket.create_connection(("127.0.0.1", page.port)) for _ in range(80)]
        until("those above the number are closed", lambda: len(self.closed(silent)) >= 80 - 64)
        self.assertEqual(len(self.closed(silent)), 80 - 64)
        for s in silent:
            s.close()
        until("it answers", lambda: self.answers(page))

    @staticmethod
    def closed(sockets):
        """Those that the other end closed; none has anything else to read."""
        return select.select(sockets, [], [], 0)[0]

    @staticmethod
    def answers(page):
        try:
            return page.ask("/v1/status").status == 200
        except OSError:
            return False

    def test_the_daemon_away_is_said_and_back_again(self):
        page = self.web()
        self.m.stop_daemon(signal.SIGKILL)
        answer = page.ask("/v1/status")
        self.assertEqual(answer.status, 503)
        self.assertIn("no daemon serves", answer.error)
        self.m.start_daemon()
        self.assertEqual(page.ask("/v1/status").status, 200)

    def test_it_says_the_link_the_forward_and_ends_by_a_signal(self):
        for how in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            page = self.web(SSH_CONNECTION="192.0.2.7 50000 192.0.2.8 22", USER="ann")
            self.assertEqual(page.link, f"http://127.0.0.1:{page.port}/#secret={page.secret}")
            self.assertEqual(page.ask("/v1/status").status, 200)
            status, (rest, said) = page.end(how)
            self.assertEqual((status, rest), (0, b""))
            self.assertIn(f"ssh -N -L {page.port}:127.0.0.1:{page.port} ann@{socket.gethostname()}", said.decode())
        json_page = self.m.popen("web", "--json", stdout=subprocess.PIPE)
        self.addCleanup(lambda: (json_page.kill(), json_page.communicate()))
        text = b""
        while not text.rstrip().endswith(b"}"):
            text += json_page.stdout.readline()
        self.assertEqual(json.loads(text)["forward"], None)

    def test_a_port_that_is_taken_is_refused(self):
        page = self.web()
        own = free_port()
        self.assertEqual(self.web("--port", str(own)).port, own)
        done = self.m.run("web", "--port", str(page.port))
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"port {page.port} is in use", done.stderr)
        for port in ("0", "65536", "x"):
            self.assertEqual(self.m.run("web", "--port", port).returncode, 2, port)


if __name__ == "__main__":
    unittest.main(verbosity=2)

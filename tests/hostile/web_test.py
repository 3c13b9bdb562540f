#!/usr/bin/env python3
"""The neighbour's page (`gpuman web`), and the page for everybody, whose ports every user of the machine can reach.

Usage: web_test.py [UNITTEST ARGUMENTS]    (as root; GPUMAN_BUILD_DIR names the build tree)
"""

import pathlib
import signal
import socket
import subprocess
import sys
import time
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1] / "harness")]
import browser  # noqa: E402
from daemon_case import until  # noqa: E402
from hostile_case import ATTACKER, NEIGHBOUR, HostileTest, main  # noqa: E402
from machine import free_port, program  # noqa: E402
from other_origin import OtherOrigin  # noqa: E402
from web import Linked, Page  # noqa: E402

# One request; prints its status, or 0 where the connection is closed without one.
ASK = """
import http.client, sys
port, method, path, authorization, host = sys.argv[1:6]
connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=60)
try:
    connection.request(method, path, headers={"Host": host, "Authorization": authorization})
    print(connection.getresponse().status)
except (ConnectionError, http.client.HTTPException):
    print(0)
"""
# Requests that end a job, on connections that are closed at once.
SEND_AND_CLOSE = """
import socket, sys
port, path, secret = sys.argv[1:4]
for _ in range(20):
    with socket.create_connection(("127.0.0.1", int(port))) as s:
        s.sendall(f"DELETE {path} HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\nAuthorization: Bearer {secret}\\r\\n\\r\\n".encode())
print("sent", flush=True)
"""
# Connections that say nothing, kept until the process is killed; prints how many the server has closed, once these are
# as many as the last argument says.
HOLD = """
import select, socket, sys
held = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(int(sys.argv[2]))]
closed = 0
while closed < int(sys.argv[3]):
    ready = select.select([s for s in held if s.fileno() >= 0], [], [])[0]
    for s in ready:
        s.close()
    closed += len(ready)
print(closed, flush=True)
sys.stdin.read()
"""

# Asks for the whole queue on connections that take nothing of it; says when so many of the answers have begun.
TAKE_NOTHING = """
import select, socket, sys
port, authorization, count, begun = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
kept = []
for _ in range(count):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.connect(("127.0.0.1", port))
    s.sendall(f"GET /v1/queue?states=all HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\nAuthorization: {authorization}\\r\\n\\r\\n".encode())
    kept.append(s)
while len(select.select(kept, [], [], 0.01)[0]) < begun:
    pass
print("begun", flush=True)
sys.stdin.read()
"""


class TheNeighboursPage(HostileTest):
    def setUp(self):
        process = NEIGHBOUR.popen([program("gpuman"), "web"], env=self.m.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(self.end, process)
        self.page = Page(process)

    def ask(self, user, path, method="GET", authorization=None, host="127.0.0.1"):
        process = self.python_as(user, ASK, self.page.port, method, path, authorization or f"Bearer {self.page.secret}", host)
        return int(process.stdout.readline())

    def test_another_user_gets_nothing_not_even_with_the_secret(self):
        self.assertEqual(self.ask(NEIGHBOUR, "/v1/jobs"), 200)
        job = self.start_as(NEIGHBOUR, "kept", "exec sleep 1000")
        until("it runs", lambda: self.request("GET", f"/v1/jobs/{job}").json()["state"] == "running")
        for path, method in (("/", "GET"), ("/v1/jobs", "GET"), (f"/v1/jobs/{job}", "DELETE")):
            self.assertEqual(self.ask(ATTACKER, path, method), 0, path)
        self.untouched(job)

    def untouched(self, job):
        """Nobody has asked to end the job: what was asked before an owner's later act would have come first."""
        self.assertEqual(self.as_user(NEIGHBOUR, "PATCH", f"/v1/jobs/{job}", {"priority": 9}).status, 200)
        self.assertEqual(self.request("GET", f"/v1/jobs/{job}").json()["state"], "running")

    def test_a_request_whose_sender_has_closed_is_nobodys(self):
        """The kernel shows root as the user of a socket that was closed."""
        job = self.start_as(NEIGHBOUR, "kept-too", "exec sleep 1000")
        until("it runs", lambda: self.request("GET", f"/v1/jobs/{job}").json()["state"] == "running")
        self.page.process.send_signal(signal.SIGSTOP)  # what it accepts was closed before
        attack = self.python_as(ATTACKER, SEND_AND_CLOSE, self.page.port, f"/v1/jobs/{job}", self.page.secret)
        self.assertEqual(attack.stdout.readline(), "sent\n")
        time.sleep(0.3)  # until the kernel has forgotten whose the socket was
        self.page.process.send_signal(signal.SIGCONT)
        self.assertEqual(self.ask(NEIGHBOUR, "/v1/jobs"), 200)
        self.untouched(job)

    def test_the_owner_without_the_secret_or_by_another_name_gets_nothing(self):
        self.assertEqual(self.ask(NEIGHBOUR, "/v1/jobs", authorization="Bearer x"), 401)
        self.assertEqual(self.ask(NEIGHBOUR, "/v1/jobs", host="evil.example"), 421)

    def test_the_page_acts_as_its_user(self):
        job = self.start_as(ATTACKER, "others", "exec sleep 1000")
        self.assertIn(self.ask(NEIGHBOUR, f"/v1/jobs/{job}", "DELETE"), (403, 404))
        until("it runs", lambda: self.request("GET", f"/v1/jobs/{job}").json()["state"] == "running")

    @unittest.skipIf(browser.missing(), f"{', '.join(browser.missing())} is not installed")
    def test_the_browser_offers_nothing_for_a_job_of_another_user(self):
        own, others = (self.start_as(user, f"of-{user.name}", "exec sleep 1000") for user in (NEIGHBOUR, ATTACKER))
        for job in own, others:
            until("it runs", lambda job=job: self.request("GET", f"/v1/jobs/{job}").json()["state"] == "running")
        with browser.Browser() as view:  # root's: it may see the page of every user, and acts there as that user
            def buttons():
                return view.run("return [...document.querySelectorAll('main button')].map((one) => one.innerText)")
            view.open(self.page.link)
            until("it shows both", lambda: "of-neighbour" in view.text("tbody") and "of-attacker" in view.text("tbody"), lambda: view.text())
            view.run("location.hash = arguments[0]", f"#/job/{own}")
            until("it offers what an owner may", lambda: buttons() == ["Suspend", "Restart", "Cancel", "End"], lambda: view.text())
            view.run("location.hash = arguments[0]", f"#/job/{others}")
            until("it shows the other one", lambda: "of-attacker" in view.text("h1") and "running" in view.text(".facts"), lambda: view.text())
            refused = self.as_user(NEIGHBOUR, "DELETE", f"/v1/jobs/{others}")
            self.assertEqual(refused.status, 403, refused)
            words = refused.json()["error"]["message"]
            until("it says why it offers nothing", lambda: words in view.text("main [role=status]"), lambda: f"{view.text()}, not {words}")
            self.assertEqual(buttons(), [])

    def test_connections_of_another_user_take_up_none_of_the_owners(self):
        with self.beside("200 connections to the neighbour's page"):
            attack = self.python_as(ATTACKER, HOLD, self.page.port, 200, 200)
            self.assertEqual(attack.stdout.readline(), "200\n")
        self.assertEqual(self.ask(NEIGHBOUR, "/v1/jobs"), 200)

    def test_its_secret_is_in_no_place_that_others_read(self):
        read = self.python_as(ATTACKER, "import sys\nprint(open(sys.argv[1]).read())", f"/proc/{self.page.process.pid}/cmdline")
        said = read.stdout.readline()
        self.assertIn("web", said)
        self.assertNotIn(self.page.secret, said)


PORT = free_port()


class ThePageForEverybody(HostileTest):
    config = f'[web]\nlisten = "127.0.0.1:{PORT}"\n[http]\nconnections = 40\n'

    def link(self, user=ATTACKER):
        done = user.popen([program("gpuman"), "web", "--everybody"], env=self.m.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        out, told = done.communicate(timeout=60)
        self.assertEqual(done.returncode, 0, told)
        return out.strip()

    def setUp(self):
        self.page = Linked(self.link())

    def running(self, user, tag, script="exec sleep 1000"):
        job = self.start_as(user, tag, script)
        until("it runs", lambda: self.request("GET", f"/v1/jobs/{job}").json()["state"] == "running")
        return job

    def test_it_shows_the_machine_and_changes_nothing(self):
        job, own = self.running(NEIGHBOUR, "kept", "echo words; exec sleep 1000"), self.running(ATTACKER, "own", "echo words; exec sleep 1000")
        self.assertIn("kept", [one["tag"] for one in self.page.ask("/v1/jobs").json()["jobs"]])
        for path in ("/", "/v1/gpus", f"/v1/jobs/{job}", f"/v1/jobs/{job}/why", f"/v1/history?job={job}", "/v1/share", "/v1/queue",
                     "/v1/queue/rows", "/v1/stats", "/v1/status", "/v1/health"):
            answer = self.page.ask(path)
            self.assertEqual(answer.status, 200, path)
            for header, value in (("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer")):
                self.assertEqual(answer.headers[header], value, path)
            self.assertIn("frame-ancestors 'none'", answer.headers["Content-Security-Policy"])
        for one in (job, own):
            for method, path, body in (("DELETE", f"/v1/jobs/{one}", None), ("POST", f"/v1/jobs/{one}/cancel", None), ("POST", f"/v1/jobs/{one}/suspend", None),
                                       ("PATCH", f"/v1/jobs/{one}", {"priority": 3}), ("GET", f"/v1/jobs/{one}/log", None),
                                       ("POST", "/v1/cancellations", {"jobs": [str(one)], "dry_run": True}),
                                       ("POST", "/v1/submissions", {"jobs": [{"command": ["true"]}], "directory": "/"}),
                                       ("POST", "/v1/jobs", self.run_request("mine", "true")), ("PUT", "/v1/share", {"pause": True})):
                answer = self.page.ask(path, method, body)
                self.assertEqual((answer.status, answer.json()["error"]["code"]), (403, "permission_denied"), (method, path))
        self.assertEqual({self.request("GET", f"/v1/jobs/{one}").json()["state"] for one in (job, own)}, {"running"})
        self.assertFalse(self.request("GET", "/v1/share").json()["settings"]["pause"])

    def test_without_its_secret_or_under_another_name_or_origin_it_answers_nothing(self):
        for status, headers in ((401, {"Authorization": None}), (401, {"Authorization": "Bearer " + "0" * 32}), (421, {"Host": "evil.example"}),
                                (403, {"Origin": "https://evil.example"}), (403, {"Sec_Fetch_Site": "cross-site"})):
            answer = self.page.ask("/v1/jobs", **headers)
            self.assertEqual(answer.status, status, headers)
            self.assertNotIn("jobs", answer.json())
        self.assertEqual(self.page.ask("/", Authorization=None).status, 200)
        self.assertEqual(self.page.ask("/nothing").status, 404)
        self.assertEqual(self.page.ask("/", "POST", {}).status, 405)
        self.assertEqual(self.page.ask("/metrics").status, 404, "it is no file of the page")

    def test_connections_of_one_user_leave_room_for_others(self):
        with self.beside("200 connections to the page for everybody"):
            attack = self.python_as(ATTACKER, HOLD, PORT, 200, 160)
            self.assertGreaterEqual(int(attack.stdout.readline()), 160)
        ask = self.python_as(NEIGHBOUR, ASK, PORT, "GET", "/v1/jobs", f"Bearer {self.page.secret}", "127.0.0.1")
        self.assertEqual(ask.stdout.readline(), "200\n")
        self.assertIsNone(attack.poll())

    def test_slow_lists_of_one_viewer_keep_no_other_viewer_waiting(self):
        """All viewers have the rights of nobody; each counts for the user at the other end."""
        array = {"indices": [{"first": 0, "last": 11_999}]}
        held = self.as_user(ATTACKER, "POST", "/v1/submissions",
                            {"jobs": [{"command": ["true"], "gpus": {"count": 1}, "hold": True, "array": array}], "directory": "/"})
        self.assertEqual(held.status, 201, held.body[:300])
        attack = self.python_as(ATTACKER, TAKE_NOTHING, PORT, f"Bearer {self.page.secret}", 8, 4)
        self.assertEqual(attack.stdout.readline(), "begun\n")
        ask = self.python_as(NEIGHBOUR, ASK, PORT, "GET", "/v1/queue?limit=1", f"Bearer {self.page.secret}", "127.0.0.1")
        self.assertEqual(ask.stdout.readline(), "200\n")
        self.assertIsNone(attack.poll())

    def test_events_come_as_they_happen(self):
        connection = self.page.connect()
        self.addCleanup(connection.close)
        connection.request("GET", "/v1/events?follow=1&limit=0", headers=self.page.headers())
        stream = connection.getresponse()
        self.assertEqual((stream.status, stream.getheader("X-Content-Type-Options")), (200, "nosniff"))
        self.start_as(NEIGHBOUR, "seen", "exit 0")
        line = b"\n"
        while line and b'"seen"' not in line:
            line = stream.readline()
        self.assertIn(b'"seen"', line)

    def test_the_link_outlasts_the_daemon_and_a_port_that_is_taken_does_not_stop_it(self):
        link = self.link()
        self.m.stop_daemon()
        self.m.start_daemon()
        self.assertEqual(self.link(NEIGHBOUR), link)
        self.m.stop_daemon(signal.SIGKILL)
        with socket.create_server(("127.0.0.1", PORT)):
            self.m.start_daemon()
            self.addCleanup(self.m.stop_daemon, signal.SIGTERM)
            done = self.m.run("web", "--everybody", check=False)
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertIn("this machine serves no page for everybody", done.stderr)
        self.doCleanups()
        self.m.start_daemon()
        self.assertEqual(self.link(), link)

    @unittest.skipIf(browser.missing(), f"{', '.join(browser.missing())} is not installed")
    def test_the_browser_shows_a_job_without_its_log_and_without_buttons(self):
        job = self.running(NEIGHBOUR, "train", "echo words; exec sleep 1000")
        with browser.Browser() as view:
            view.open(self.page.link)
            until("it shows the job", lambda: "train" in view.text("tbody"))
            view.run("location.hash = arguments[0]", f"#/job/{job}")
            until("it says that it changes nothing", lambda: "changes nothing" in view.text("main"), lambda: view.text())
            until("it says that the log is not for everybody", lambda: "changes nothing" in view.text("section:has(#log)"), lambda: view.text())
            self.assertIn("started", view.text(".story"))
            self.assertEqual(view.run("return document.querySelectorAll('main button').length"), 0)
            self.assertNotIn("words", view.text("pre"))

    @unittest.skipIf(browser.missing(), f"{', '.join(browser.missing())} is not installed")
    def test_a_page_of_another_origin_reads_nothing(self):
        """tests/integration/web_origin_test.py has the page of `gpuman web`, and that the attempts work elsewhere."""
        self.running(NEIGHBOUR, "kept")
        other = OtherOrigin()
        self.addCleanup(other.close)
        with browser.Browser(arguments=["--disable-popup-blocking"]) as view:
            view.open(self.page.link)
            until("it shows the job", lambda: "kept" in view.text("tbody"))
            view.open_window("about:blank")
            for name in ("127.0.0.1", "localhost"):
                read = other.attack(view, name, f"http://127.0.0.1:{PORT}", self.page.secret, [("PUT", "/v1/share", {"pause": True})])
                self.assertEqual([attempt for attempt, text in read.items() if text], [], name)
                self.assertIn("frame-ancestors", " ".join(view.console()), "nobody puts the page into a frame")
        self.assertFalse(self.request("GET", "/v1/share").json()["settings"]["pause"])


if __name__ == "__main__":
    main()

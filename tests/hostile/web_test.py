#!/usr/bin/env python3
"""The neighbour's page (`gpuman web`), whose port every user of the machine can reach.

Usage: web_test.py [UNITTEST ARGUMENTS]    (as root; GPUMAN_BUILD_DIR names the build tree)
"""

import pathlib
import signal
import subprocess
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1] / "harness")]
from daemon_case import until  # noqa: E402
from hostile_case import ATTACKER, NEIGHBOUR, HostileTest, main  # noqa: E402
from machine import program  # noqa: E402
from web import Page  # noqa: E402

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
# Connections that say nothing, kept until the process is killed; prints how many the server has closed.
HOLD = """
import select, socket, sys
held = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(int(sys.argv[2]))]
closed = 0
while closed < len(held):
    ready = select.select([s for s in held if s.fileno() >= 0], [], [])[0]
    for s in ready:
        s.close()
    closed += len(ready)
print(closed, flush=True)
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

    def test_connections_of_another_user_take_up_none_of_the_owners(self):
        attack = self.python_as(ATTACKER, HOLD, self.page.port, 200)
        self.assertEqual(attack.stdout.readline(), "200\n")
        self.assertEqual(self.ask(NEIGHBOUR, "/v1/jobs"), 200)

    def test_its_secret_is_in_no_place_that_others_read(self):
        read = self.python_as(ATTACKER, "import sys\nprint(open(sys.argv[1]).read())", f"/proc/{self.page.process.pid}/cmdline")
        said = read.stdout.readline()
        self.assertIn("web", said)
        self.assertNotIn(self.page.secret, said)


if __name__ == "__main__":
    main()

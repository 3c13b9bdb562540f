#!/usr/bin/env python3
"""Hundreds of connections: idle, slow, and greedy ones.

Usage: connections_test.py [UNITTEST ARGUMENTS]    (as root; GPUMAN_BUILD_DIR names the build tree)
"""

import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from hostile_case import ATTACKER, OUTSIDER, HostileTest, main  # noqa: E402
from machine import free_port  # noqa: E402
from users import PATIENCE, User, read_line  # noqa: E402

# Sends one byte of a request at a time on each of many connections, and reopens closed ones.
TRICKLE = """
import resource, select, socket, sys, time
path, count = sys.argv[1], int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_NOFILE, (count + 100, count + 100))
request = b"GET /v1/jobs HTTP/1.1\\r\\nHost: " + b"x" * 10000
connections = {}
def connect():
    s = socket.socket(socket.AF_UNIX)
    s.setblocking(False)
    try:
        s.connect(path)
    except OSError:
        s.close()
        return False
    connections[s] = 0
    return True
told = False
while not select.select([sys.stdin], [], [], 0)[0]:
    while len(connections) < count and connect():
        pass
    if not told:
        print("connected", flush=True)
        told = True
    for s in list(connections):
        try:
            s.send(request[connections[s]:connections[s] + 1])
            connections[s] += 1
        except OSError:
            s.close()
            del connections[s]
"""

# Asks for /metrics again and again, on persistent connections. Reports of each answer which scrape it was made for.
SCRAPE = """
import http.client, re, socket, sys, threading
family, address, loops = sys.argv[1], sys.argv[2], int(sys.argv[3])
def connect():
    if family == "tcp":
        host, port = address.rsplit(":", 1)
        return socket.create_connection((host, int(port)))
    s = socket.socket(socket.AF_UNIX)
    s.connect(address)
    return s
def loop():
    c = http.client.HTTPConnection("localhost")
    while True:
        try:
            if c.sock is None:
                c.sock = connect()
            c.request("GET", "/metrics")
            text = c.getresponse().read()
            sys.stdout.write(re.search(rb"(?m)^gpuman_scrapes_total (\\d+)$", text).group(1).decode() + "\\n")
        except (OSError, http.client.HTTPException):
            c.close()
for _ in range(loops):
    threading.Thread(target=loop, daemon=True).start()
sys.stdin.read()
"""


PORT = free_port()


class Connections(HostileTest):
    config = f'[metrics]\nlisten = "127.0.0.1:{PORT}"\n'

    def trickle(self, count=900):
        self.assertEqual(read_line(self.python_as(ATTACKER, TRICKLE, self.m.env["GPUMAN_SOCKET"], count)), "connected")

    def test_nine_hundred_sockets_trickle_and_the_neighbour_is_answered(self):
        with self.beside("900 connections that send a byte at a time", least=10):
            self.trickle()

    def test_nine_hundred_sockets_trickle_and_root_and_newcomers_are_answered(self):
        for who in (User("root", 0, 0), OUTSIDER):
            with self.beside(f"900 connections that send a byte at a time, asked by {who.name}", who=who, least=10):
                self.trickle()

    def hold_jobs(self, count):
        array = {"indices": [{"first": 0, "last": count - 1}]}
        answered = self.as_user(ATTACKER, "POST", "/v1/submissions",
                                {"jobs": [{"command": ["true"], "gpus": {"count": 1}, "hold": True, "array": array}],
                                 "directory": "/"})
        self.assertEqual(answered.status, 201, answered.body[:300])

    # Of its time the daemon gives a twentieth for new answers; beyond that the last one is given again. How often that
    # is depends on the machine: the test reads the daemon's own count of that time. Each answer has the number of the
    # scrape that it was made for.
    def scrape(self, attempt, *where):
        self.hold_jobs(200)
        spent, begin = self.metric("gpuman_scrape_render_seconds_total"), time.monotonic()
        with self.beside(attempt) as attack:
            process = self.python_as(ATTACKER, SCRAPE, *where, 8)
            made_for = []

            def read():
                made_for.extend(int(line) for line in process.stdout)

            reader = threading.Thread(target=read)
            reader.start()

            def is_over():
                passed = time.monotonic() - begin
                return passed > PATIENCE or (passed > 10 and len(made_for) > len(set(made_for)) + 1000)
            attack.over = is_over
        process.kill()
        reader.join()
        self.assertGreater(len(made_for), len(set(made_for)) + 1000, "answers, and those that were made")
        spent, passed = self.metric("gpuman_scrape_render_seconds_total") - spent, time.monotonic() - begin
        self.assertLess(spent, passed / 20 + 0.4, f"seconds for answers, of {passed}")

    def test_metrics_are_asked_for_in_eight_loops(self):
        self.scrape("/metrics in 8 loops over the socket, 200 jobs wait", "unix", self.m.env["GPUMAN_SOCKET"])

    def test_metrics_are_asked_for_in_eight_loops_over_tcp(self):
        self.scrape("/metrics in 8 loops over TCP, 200 jobs wait", "tcp", f"127.0.0.1:{PORT}")


if __name__ == "__main__":
    main()

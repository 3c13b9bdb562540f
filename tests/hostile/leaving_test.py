#!/usr/bin/env python3
"""Requests whose clients leave: what nobody waits for any more takes neither memory nor others' turns.

Usage: leaving_test.py [UNITTEST ARGUMENTS]    (as root; GPUMAN_BUILD_DIR names the build tree)
"""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from hostile_case import ATTACKER, NEIGHBOUR, HostileTest, build_dir, main  # noqa: E402
from daemon_case import MIB, until  # noqa: E402
from users import User, read_line  # noqa: E402

ROOT = User("root", 0, 0)

# Sends many large bodies. Three clients at a time wait; the oldest leaves when the next has sent its body, which has
# the daemon take the body before. Bodies that are refused count as well. The fewer letters a word has, the longer it
# takes to read the body, and the more memory.
LEAVE_BODIES = """
import socket, sys
path, target, count, size, letters = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
words = b'"%s",' % (b"x" * letters) * ((size - 200) // (letters + 3))
body = b'{"command":["true",' + words + b'"x"],"directory":"/","gpus":{"count":1}}'
if target == "/v1/submissions":
    body = b'{"jobs":[' + body + b'],"directory":"/"}'
head = f"POST {target} HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: {len(body)}\\r\\n\\r\\n".encode()
waiting = []
for _ in range(count):
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    try:
        s.sendall(head + body)
    except OSError:
        pass  # refused
    waiting.append(s)
    if len(waiting) > 3:
        waiting.pop(0).close()
print("left", flush=True)
sys.stdin.read()
"""

# Asks on many connections, leaves all of them, and does it again; reports each round. Ends with its input.
ASK_AND_LEAVE = """
import select, socket, sys
path, count, targets = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
def request(target):
    method, body = ("POST", b'{"devices":[{"instances":["7g.141gb"]}]}') if target.endswith("/plan") else ("GET", b"")
    return f"{method} {target} HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: {len(body)}\\r\\n\\r\\n".encode() + body
requests = [request(target) for target in targets]
while not select.select([sys.stdin], [], [], 0)[0]:
    clients = []
    for i in range(count):
        s = socket.socket(socket.AF_UNIX)
        try:
            s.connect(path)
            s.sendall(requests[i % len(requests)])
        except OSError:
            pass
        clients.append(s)
    for s in clients:
        s.close()
    print("left", flush=True)
"""

# A request whose body is large enough to be read off the daemon's loop.
TRIAL = {"jobs": [{"command": ["true", "x" * 20_000], "gpus": {"count": 1}}], "directory": "/", "dry_run": True}


class Leaving(HostileTest):
    config = f'[http]\nconnections = 1000\n[mps]\ncontrol = "{build_dir() / "lib/sim/bin/nvidia-cuda-mps-control"}"\n'

    def setUp(self):
        self.before = self.descriptors()
        pathlib.Path(f"/proc/{self.m.daemon.pid}/clear_refs").write_text("5")  # the peak begins anew
        self.resident = self.memory_of("VmHWM")

    def memory_of(self, name):
        text = pathlib.Path(f"/proc/{self.m.daemon.pid}/status").read_text()
        return int(text.split(name + ":")[1].split()[0]) << 10

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.m.daemon.pid}/fd"))

    def assert_nothing_stays(self, most):
        """The daemon's memory has never grown by more than `most` bytes, and its descriptors are as many as before."""
        self.assertLess(self.memory_of("VmHWM") - self.resident, most)
        until("the descriptors are back", lambda: self.descriptors() <= self.before + 8,
              lambda: f"{self.before} before, {self.descriptors()} now")

    def tearDown(self):
        """What is under way of an attempt ends with its daemon, so that the next test measures its own."""
        self.m.stop_daemon()
        self.m.start_daemon()

    def leave_bodies(self, target, count, size, letters):
        steps = [("GET", "/v1/jobs"), ("POST", "/v1/submissions", TRIAL)]
        attempt = f"{count} bodies of {size / MIB:.0f} MiB to {target} whose clients leave"
        with self.beside(attempt, steps=steps, least=10):
            process = self.python_as(ATTACKER, LEAVE_BODIES, self.m.env["GPUMAN_SOCKET"], target, count, size, letters)
            self.assertEqual(read_line(process), "left")
        self.assert_nothing_stays(512 * MIB)

    def test_bodies_whose_clients_leave_take_no_memory(self):
        self.leave_bodies("/v1/jobs", 500, 4 * MIB, 1)

    def test_large_submissions_whose_clients_leave_take_no_memory(self):
        self.leave_bodies("/v1/submissions", 60, 24 * MIB, 10)

    def flood(self, attempt, targets, steps, who=NEIGHBOUR, count=100, rounds=20):
        """The attacker asks and leaves while the neighbour asks; both for a number of rounds at least."""
        with self.beside(attempt, steps=steps, who=who, least=10):
            process = self.python_as(ATTACKER, ASK_AND_LEAVE, self.m.env["GPUMAN_SOCKET"], count, *targets)
            for _ in range(rounds):
                self.assertEqual(read_line(process), "left")
        self.end(process)
        self.assert_nothing_stays(128 * MIB)

    def test_why_and_statistics_are_asked_by_clients_that_leave(self):
        mine = self.start_as(ATTACKER, "asked-about", "exec sleep 1000")
        its = self.start_as(NEIGHBOUR, "neighbours", "exec sleep 1000")
        self.flood("why and stats of 100 clients that leave, again and again", [f"/v1/jobs/{mine}/why", "/v1/stats"],
                   [("GET", f"/v1/jobs/{its}/why"), ("GET", "/v1/stats")])
        for user, job in ((ATTACKER, mine), (NEIGHBOUR, its)):
            self.as_user(user, "DELETE", f"/v1/jobs/{job}")

    def test_a_history_is_asked_by_clients_that_leave(self):
        self.flood("/v1/history of 100 clients that leave, again and again", ["/v1/history?gpu=0"],
                   [("GET", "/v1/history?gpu=0"), ("POST", "/v1/submissions", TRIAL)])

    def test_mps_and_mig_are_asked_by_clients_that_leave(self):
        orders = [("POST", "/v1/mps/start", {"gpus": ["0"]}), ("GET", "/v1/mps"), ("GET", "/v1/mig"),
                  ("POST", "/v1/mps/stop", {"gpus": ["0"]})]
        self.flood("mps, mig and mig/plan of 700 clients that leave, while root starts and stops MPS",
                   ["/v1/mps", "/v1/mig", "/v1/mig/plan"], orders, who=ROOT, count=700, rounds=5)


if __name__ == "__main__":
    main()

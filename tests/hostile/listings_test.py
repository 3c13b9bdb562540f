#!/usr/bin/env python3
"""Lists without end, request bodies that do not come, and submissions by the ten thousand.

Usage: listings_test.py [UNITTEST ARGUMENTS]    (as root; GPUMAN_BUILD_DIR names the build tree)
"""

import json
import os
import pathlib
import shutil
import signal
import socket
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from hostile_case import ATTACKER, NEIGHBOUR, HostileTest, main  # noqa: E402
from daemon_case import MIB, until  # noqa: E402
from users import PATIENCE, read_line  # noqa: E402

# The attacker's jobs; GPUMAN_HOSTILE_JOBS sets more: 200,000 were tried by hand.
HELD = int(os.environ.get("GPUMAN_HOSTILE_JOBS", 12_000))

# Answers that are as long as their users have jobs or events.
LISTS = ("/v1/queue?states=all", "/v1/queue/rows?states=all", "/v1/status?all=1", "/v1/jobs?all=1",
         "/v1/events?limit=100000")

# Lists of jobs, and the bytes that are written of them at once.
JOB_LISTS = ("/v1/queue", "/v1/status", "/v1/jobs")
PIECE = 64 << 10

# Requests a list on many connections, and reads each answer to its end, or only a number of bytes of it. Reports when
# each connection has had a part of an answer; ends with its input.
ASK_FOR_LISTS = """
import http.client, socket, sys, threading
path, target, count, most = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
begun = threading.Semaphore(0)
kept = []
def ask():
    told = False
    while True:
        s = socket.socket(socket.AF_UNIX)
        kept.append(s)
        try:
            s.connect(path)
            s.sendall(f"GET {target} HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n".encode())
            got = 0
            while got < most:
                piece = s.recv(1 << 16)
                if not piece:
                    break
                got += len(piece)
                if not told:
                    begun.release()
                    told = True
            if got >= most:
                return
        except OSError:
            pass
        kept.remove(s)
        s.close()
for _ in range(count):
    threading.Thread(target=ask, daemon=True).start()
for _ in range(int(sys.argv[5])):
    begun.acquire()
print("asked", flush=True)
sys.stdin.read()
"""

# Sends the first part of a large body on each of many connections, and counts the refusals.
HALF_BODIES = """
import select, socket, sys
path, count, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
kept, refused = [], 0
for _ in range(count):
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    s.setblocking(False)
    kept.append(s)
    data = f"POST /v1/jobs HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: {size}\\r\\n\\r\\n".encode() + b"[" * (size - 1)
    while data:
        readable, writable, _ = select.select([s], [s], [], 60)
        if readable:
            refused += b" 503 " in s.recv(4096)
            break
        data = data[s.send(data):]
print(refused, flush=True)
sys.stdin.read()
"""

# Submits a number of different jobs, in requests of several each, on one connection.
SUBMIT = """
import http.client, json, socket, sys
path, requests, jobs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
c = http.client.HTTPConnection("localhost")
c.sock = socket.socket(socket.AF_UNIX)
c.sock.connect(path)
for request in range(requests):
    body = {"jobs": [{"command": ["true", str(n)], "gpus": {"count": 1}, "hold": True} for n in range(jobs)], "directory": "/"}
    c.request("POST", "/v1/submissions", json.dumps(body))
    answer = c.getresponse()
    answer.read()
    print(answer.status, flush=True)
"""


# Sends dry runs of a job on many connections; reports when all are sent, and counts the answers.
TRY_OUT = """
import json, socket, sys
path, count = sys.argv[1], int(sys.argv[2])
body = json.dumps({"jobs": [{"command": ["true"], "gpus": {"count": 1}}], "directory": "/", "dry_run": True}).encode()
sockets = []
for _ in range(count):
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    sockets.append(s)
for s in sockets:
    s.sendall(b"POST /v1/submissions HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body) + body)
print("asked", flush=True)
answers = []
for s in sockets:
    answer = b""
    while piece := s.recv(1 << 16):
        answer += piece
    answers.append(answer.split()[1].decode())
print(answers.count("200"), flush=True)
"""


# Follows the events on many connections, all kept; prints the statuses of the answers, and whether one more is answered
# when the first has ended.
FOLLOW = """
import socket, sys, time
path, count = sys.argv[1], int(sys.argv[2])
def follow():
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    s.sendall(b"GET /v1/events?follow=1 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
    answer = b""
    while b"\\r\\n\\r\\n" not in answer:
        answer += s.recv(4096)
    return s, answer.split()[1].decode()
kept = [follow() for _ in range(count)]
print(*(status for _, status in kept), flush=True)
kept[0][0].close()
last = follow()  # and kept: a connection that nobody has is closed
while last[1] != "200":
    time.sleep(0.01)
    last = follow()
print("200", flush=True)
sys.stdin.read()
"""


class Listings(HostileTest):
    config = f"[queue]\nqueued_jobs = {4 * HELD}\n"

    def resident(self):
        text = pathlib.Path(f"/proc/{self.m.daemon.pid}/status").read_text()
        return int(text.split("VmRSS:")[1].split()[0]) << 10

    def hold_arrays(self):
        for _ in range(2):
            array = {"indices": [{"first": 0, "last": HELD // 2 - 1}]}
            answered = self.as_user(ATTACKER, "POST", "/v1/submissions",
                                    {"jobs": [{"command": ["true"], "gpus": {"count": 1}, "hold": True, "array": array}],
                                     "directory": "/"})
            self.assertEqual(answered.status, 201, answered.body[:300])

    def tearDown(self):
        """The next test has a daemon without jobs: to remove thousands of them, one request each, would take longer
        than the tests."""
        self.m.stop_daemon(signal.SIGKILL)
        for file in (self.m.dir / "lib").iterdir():
            file.unlink() if file.is_file() else shutil.rmtree(file)
        self.m.start_daemon()

    def lists(self, target, count, most=1 << 40, begun=None):
        process = self.python_as(ATTACKER, ASK_FOR_LISTS, self.m.env["GPUMAN_SOCKET"], target, count, most, begun or count)
        self.assertEqual(read_line(process), "asked")
        return process

    def pieces(self, target):
        """The sizes of the pieces in which the answer comes, by what HTTP calls chunks; none if it comes as one."""
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(PATIENCE)
            client.connect(self.m.env["GPUMAN_SOCKET"])
            client.sendall(f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            with client.makefile("rb") as answer:
                head = list(iter(answer.readline, b"\r\n"))
                self.assertIn(b" 200 ", head[0])
                if b"transfer-encoding: chunked\r\n" not in [line.lower() for line in head]:
                    return []
                sizes = []
                while size := int(answer.readline(), 16):
                    sizes.append(size)
                    answer.read(size + 2)
                return sizes

    # No time is asserted here: that nobody waits for more than a slice is held by src/daemon/core/list_answer_streamer_test.cc
    # and src/base/sliced_work_test.cc, and here, that each list is made in such slices.
    def test_long_lists_are_made_in_pieces(self):
        self.hold_arrays()
        for target in LISTS:
            with self.subTest(target):
                sizes = self.pieces(target)
                self.assertTrue(sizes, "it is made at once")
                self.assertLess(max(sizes), 256 << 10)

    # The figures that this prints are the measure; the test before it tells.
    def test_eight_clients_list_the_whole_queue_again_and_again(self):
        self.hold_arrays()
        for target in (*LISTS, "/v1/stats"):
            with self.subTest(target), self.beside(f"{target} in 8 loops, {HELD} jobs wait"):
                process = self.lists(target, 8, begun=1)
            self.end(process)
        with self.beside("the same, when its clients have gone"):
            pass

    def test_sixty_trials_of_a_submission_are_made_in_turn_with_others_looks(self):
        self.hold_arrays()
        with self.beside(f"60 trials at a time (dry_run), {HELD} jobs wait", steps=[("GET", "/v1/queue?users=neighbour")],
                         least=10) as attack:
            process = self.python_as(ATTACKER, TRY_OUT, self.m.env["GPUMAN_SOCKET"], 60)
            self.assertEqual(read_line(process), "asked")
            told = []
            reader = threading.Thread(target=lambda: told.append(read_line(process)))
            reader.start()
            attack.over = lambda: not reader.is_alive()
        self.assertEqual(told, ["60"])

    def test_a_hundred_clients_ask_for_the_queue_and_take_nothing(self):
        self.hold_arrays()
        before = self.resident()
        with self.beside("100 clients that ask for the whole queue and read a little of it"):
            self.lists("/v1/queue?states=all", 100, most=1, begun=1)
            self.assertEqual(self.as_user(ATTACKER, "GET", "/v1/version").status, 200)
        self.assertLess(self.resident() - before, 128 * MIB)

    def hold(self, **more):
        """A held job of the attacker; returns its id."""
        answered = self.as_user(ATTACKER, "POST", "/v1/submissions",
                                {"jobs": [{"gpus": {"count": 1}, "hold": True, **more}], "directory": "/"})
        self.assertEqual(answered.status, 201, answered.body[:300])
        return answered.json()["jobs"][0]["id"]

    def each_list_is_whole(self, job):
        """Each list ends whole for the neighbour, in small pieces, and says what of the job it shows."""
        for target in JOB_LISTS:
            with self.subTest(target):
                sizes = self.pieces(target)
                self.assertLessEqual(max(sizes), PIECE)
                self.assertLess(sum(sizes), MIB)
                listed = self.as_user(NEIGHBOUR, "GET", target)
                self.assertEqual(listed.status, 200, listed.error)
                yield next(one for one in listed.json()["jobs"] if one["id"] == job)

    def test_a_job_with_a_huge_command_is_listed_and_no_list_is_cut_off(self):
        command = ["true", *["\x01" * 130_000] * 40]
        job = self.hold(command=command)
        for listed in self.each_list_is_whole(job):
            self.assertTrue(listed["cut"])
            self.assertEqual(listed["command"][0], "true")
            self.assertTrue(listed["command"][-1].endswith("\x01…"))
            self.assertLess(sum(map(len, listed["command"])), 5000)
        whole = self.request("GET", f"/v1/jobs/{job}").json()
        self.assertFalse(whole["cut"])
        self.assertEqual(whole["command"], command)
        with self.beside("lists with a job whose command has 6 MB", steps=[("GET", target) for target in JOB_LISTS]):
            self.lists(f"/v1/jobs/{job}", 4, begun=1)
        for words in (["status"], ["queue"], ["queue", "--json"], ["job", "show", str(job)]):
            done = self.m.run(*words)
            self.assertEqual(done.returncode, 0, (words, done.stderr[-300:]))

    def test_a_job_with_very_many_dependencies_is_listed_by_its_first_hundred(self):
        array = self.hold(command=["true"], array={"indices": [{"first": 0, "last": HELD - 1}]})
        job = self.hold(command=["true"], depends={"list": [{"job": str(array)}]})
        for target in ("/v1/queue?states=all", f"/v1/queue?states=all&after={job - 1}&limit=1"):
            listed = next(one for one in self.as_user(NEIGHBOUR, "GET", target).json()["jobs"] if one["id"] == job)
            self.assertTrue(listed["cut"])
            self.assertEqual(len(listed["queue"]["depends"]["list"]), 100)
        whole = self.request("GET", f"/v1/jobs/{job}").json()
        self.assertFalse(whole["cut"])
        self.assertEqual(len(whole["queue"]["depends"]["list"]), HELD)

    def test_jobs_wait_for_each_other_by_the_million(self):
        tasks = 5000
        array = self.hold(command=["true"], array={"indices": [{"first": 1, "last": tasks}]})
        chain = [self.hold(command=["true"])]

        def waits_for_all_before():  # no two lists are equal
            return {"jobs": [{"command": ["true"], "gpus": {"count": 1}, "hold": True,
                              "depends": {"list": [{"job": str(array)}, {"job": str(chain[-1])}]}}], "directory": "/"}
        with self.beside("jobs that wait for 5,000 others each are submitted, up to a million"):
            while (answered := self.as_user(ATTACKER, "POST", "/v1/submissions", waits_for_all_before())).status == 201:
                chain.append(answered.json()["jobs"][0]["id"])
        self.assertEqual((answered.status, answered.code()), (422, "unsatisfiable"), answered.body[:300])
        self.assertEqual(len(chain), 1 + 1_000_000 // (tasks + 1))
        with self.beside("their priorities are changed, and what a cancellation would end is looked up"):
            for job in (chain[0], chain[1], chain[-1]):
                done = self.as_user(ATTACKER, "PATCH", f"/v1/jobs/{job}", {"priority": 1})
                self.assertEqual(done.status, 200, done.body[:300])
            tried = self.as_user(ATTACKER, "POST", "/v1/cancellations", {"jobs": [str(array)], "dry_run": True})
            self.assertEqual(tried.status, 200, tried.body[:300])
        with self.beside("all of them are cancelled"):
            done = self.as_user(ATTACKER, "POST", "/v1/cancellations", {"jobs": [str(array), str(chain[0])]})
            self.assertEqual(done.status, 200, done.body[:300])
        until("they are gone", lambda: not self.request("GET", "/v1/queue?limit=1").json()["jobs"])

    def test_events_are_followed_on_a_hundred_connections(self):
        with self.beside("100 connections that follow the events"):
            attack = self.python_as(ATTACKER, FOLLOW, self.m.env["GPUMAN_SOCKET"], 100)
            self.assertEqual(read_line(attack).split(), ["200"] * 64 + ["429"] * 36)
        self.assertEqual(read_line(attack), "200", "one more, when one has ended")
        refused = self.as_user(ATTACKER, "GET", "/v1/events?follow=1")
        self.assertEqual((refused.status, refused.code()), (429, "exhausted"))
        self.assertIn("gpuman events --follow", refused.json()["error"]["hint"])
        self.assertEqual(self.as_user(ATTACKER, "GET", "/v1/events").status, 200)
        with socket.socket(socket.AF_UNIX) as client:  # of another user
            client.settimeout(PATIENCE)
            client.connect(self.m.env["GPUMAN_SOCKET"])
            client.sendall(b"GET /v1/events?follow=1 HTTP/1.1\r\nHost: x\r\n\r\n")
            self.assertIn(b" 200 ", client.recv(4096))

    def test_two_hundred_bodies_are_sent_by_half(self):
        before = self.resident()
        with self.beside("200 bodies of 4 MiB of which the last byte does not come"):
            process = self.python_as(ATTACKER, HALF_BODIES, self.m.env["GPUMAN_SOCKET"], 200, 4 * MIB)
            self.assertGreater(int(read_line(process)), 100)
        self.assertLess(self.resident() - before, 128 * MIB)

    def test_jobs_are_submitted_by_the_thousand(self):
        each = HELD // 2
        with self.beside(f"{3 * each} jobs are submitted, {each} at a time", steps=[("GET", "/v1/jobs"), ("GET", "/v1/queue?users=neighbour")]) as attack:
            process = self.python_as(ATTACKER, SUBMIT, self.m.env["GPUMAN_SOCKET"], 3, each)
            told = []
            reader = threading.Thread(target=lambda: told.extend(process.stdout.read().split()))
            reader.start()
            attack.over = lambda: not reader.is_alive()
        self.assertEqual(told, ["201"] * 3)
        names = [job["id"] for job in json.loads(self.request("GET", f"/v1/queue?users=attacker&after=0&limit={3 * each}").body)["jobs"]]
        self.assertEqual(len(names), 3 * each)
        with self.beside("all of them are cancelled in one request"):
            done = self.as_user(ATTACKER, "POST", "/v1/cancellations", {"jobs": [str(name) for name in names]})
            self.assertEqual(done.status, 200, done.body[:300])
        until("they are gone", lambda: not self.request("GET", "/v1/queue?limit=1").json()["jobs"])


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What a user may do with their own log, which the daemon reads to others.

Usage: logs_test.py [UNITTEST ARGUMENTS]    (as root; GPUMAN_BUILD_DIR names the build tree)
"""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from hostile_case import ATTACKER, NEIGHBOUR, ROUNDS, HostileTest, main  # noqa: E402
from daemon_case import MIB, until  # noqa: E402
from users import read_line  # noqa: E402

SEARCHED = 128 * MIB  # data without a line end, at the end of a log

ASK = """
import contextlib, socket, sys
path, target, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
connections = []
for _ in range(count):
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    with contextlib.suppress(ConnectionError):  # the daemon closes connections of a user who has too many
        s.sendall(f"GET {target} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n".encode())
    connections.append(s)
print("asked", flush=True)
sys.stdin.read()
"""


# The same; then, for each line of its input, reports how many of its requests have no answer yet.
ASK_AND_COUNT = """
import select, socket, sys
path, target, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
connections = []
for _ in range(count):
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    s.sendall(f"GET {target} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n".encode())
    connections.append(s)
print("asked", flush=True)
for _ in sys.stdin:
    print(count - len(select.select(connections, [], [], 0)[0]), flush=True)
"""


# Keeps a lease against the kernel's signal; the kernel breaks it after /proc/sys/fs/lease-break-time. Only the owner of
# a file gets one.
LEASE = """
import fcntl, os, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
try:
    fd = os.open(sys.argv[1], os.O_RDWR)
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    print("leased", flush=True)
except PermissionError:
    print("refused", flush=True)
sys.stdin.read()
"""


class Logs(HostileTest):
    def log_of(self, user, tag, script):
        """The log of a job of the user that has ended."""
        job = self.start_as(user, tag, script)
        return pathlib.Path(self.wait(job)["log_path"]), job

    # Nothing but an answer within users.PATIENCE is asserted here: tail_search_test.cc and the next test tell.
    def test_the_end_of_a_log_of_holes_is_asked_for_by_many(self):
        log, job = self.log_of(ATTACKER, "holes", "echo first")
        os.truncate(log, 1 << 43)
        with self.beside("tail of a log of 8 TiB of holes, 240 times"):
            self.assertEqual(read_line(self.python_as(ATTACKER, ASK, self.m.env["GPUMAN_SOCKET"], f"/v1/jobs/{job}/log?tail=3", 240)), "asked")

    # The order of answers tells, and no time: each search takes long, also where holes are passed over, and users take
    # turns. Were searches made by the daemon's loop, each of the neighbour's requests would wait for one, and the
    # attacker's would have their answers when the neighbour's have. That holes are passed over is held by
    # src/daemon/jobs/tail_search_test.cc.
    def test_the_end_of_a_log_without_lines_is_asked_for_while_the_neighbour_is_answered(self):
        log, job = self.log_of(ATTACKER, "holes", "echo first")
        with log.open("r+b") as file:
            file.seek((1 << 43) - SEARCHED)
            for _ in range(SEARCHED // MIB):
                file.write(b"x" * MIB)
        neighbour = self.asker(NEIGHBOUR, [("GET", "/v1/jobs")])
        process = self.python_as(ATTACKER, ASK_AND_COUNT, self.m.env["GPUMAN_SOCKET"], f"/v1/jobs/{job}/log?tail=3",
                                 ROUNDS)

        def unanswered():
            process.stdin.write("\n")
            return int(read_line(process))

        self.assertEqual(read_line(process), "asked")
        neighbour.measure(ROUNDS)
        self.assertGreater(unanswered(), 0, "each of the neighbour's requests waited for one of the attacker's")
        until("each of them has an answer", lambda: unanswered() == 0)

    def test_a_whole_log_of_holes_is_asked_for_by_many_who_read_nothing(self):
        log, job = self.log_of(ATTACKER, "holes", "echo first")
        os.truncate(log, 1 << 43)
        with self.beside("a log of 8 TiB of holes, 240 times, unread"):
            self.assertEqual(read_line(self.python_as(ATTACKER, ASK, self.m.env["GPUMAN_SOCKET"], f"/v1/jobs/{job}/log", 240)), "asked")

    def test_a_lease_on_the_own_log_is_kept_while_it_is_asked_for(self):
        log, job = self.log_of(ATTACKER, "leased", "echo first")
        # Where the file system has no access control lists, the log is the user's.
        expected = "leased" if log.stat().st_uid == ATTACKER.uid else "refused"
        with self.beside("a lease on the own log (fcntl), and 20 who ask for that log"):
            self.assertEqual(read_line(self.python_as(ATTACKER, LEASE, log)), expected)
            self.assertEqual(read_line(self.python_as(ATTACKER, ASK, self.m.env["GPUMAN_SOCKET"], f"/v1/jobs/{job}/log", 20)), "asked")

    def test_another_users_log_is_not_read(self):
        _, job = self.log_of(NEIGHBOUR, "private", "echo secret")
        answered = self.as_user(ATTACKER, "GET", f"/v1/jobs/{job}/log")
        self.assertEqual((answered.status, answered.code()), (403, "permission_denied"))
        self.assertIn("secret", self.as_user(NEIGHBOUR, "GET", f"/v1/jobs/{job}/log").body)


if __name__ == "__main__":
    main()

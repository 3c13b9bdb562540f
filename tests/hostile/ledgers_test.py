#!/usr/bin/env python3
"""The shims' socket: whose ledger does a process get, and what is believed of what it writes there?

Usage: ledgers_test.py [UNITTEST ARGUMENTS]    (as root; GPUMAN_BUILD_DIR names the build tree)
"""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from hostile_case import ATTACKER, NEIGHBOUR, HostileTest, main, until  # noqa: E402
from machine import build_dir  # noqa: E402
from users import read_line  # noqa: E402

LAST_PID = pathlib.Path("/proc/sys/kernel/ns_last_pid")

# Connects from processes that end, keeps the connections, and tells their pids. Then it says hello on the connection of
# each pid that it is told, and prints how many descriptors came with the answer.
CONNECT = """
import os, socket, struct, sys
path, count, job = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
kept = {}
for _ in range(count):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    child = os.fork()
    if child == 0:
        s.connect(path)
        os._exit(0)
    os.waitpid(child, 0)
    kept[child] = s
print(*kept, flush=True)
for line in sys.stdin:
    s = kept[int(line)]
    s.settimeout(60)
    try:
        s.send(struct.pack("IIQ112s", 0x484d5047, int(sys.argv[4]), job, b""))
        data, descriptors, _, _ = socket.recv_fds(s, 4096, 8)
    except OSError as error:
        data, descriptors = b"", []
    print(len(descriptors), data[:16].hex() or "nothing", flush=True)
"""


def version():
    """Of the ledger, as the shim says it."""
    text = (pathlib.Path(__file__).resolve().parents[2] / "src/ledger/wire/layout.h").read_text()
    return int(text.split("kVersion = ")[1].split(";")[0])


@unittest.skipUnless((build_dir() / "lib/libgpuman.so").exists(), "this build has no libgpuman.so")
class Ledgers(HostileTest):
    config = '[sampling]\nrest = "20ms"\n'

    def shim_socket(self):
        return pathlib.Path(self.m.env["GPUMAN_SOCKET"]).parent / "shim.sock"

    @unittest.skipUnless(LAST_PID.exists(), "this kernel does not let tests choose pids")
    def test_a_connection_of_a_process_that_ended_says_hello_when_a_job_has_its_pid(self):
        pipe = self.scratch(NEIGHBOUR) / "go"
        # For each line a child that stays; the shell tells its pid.
        job = self.start_as(NEIGHBOUR, "neighbour", f"mkfifo {pipe}; exec 3<>{pipe}; while read line <&3; do sleep 1000 & echo $!; done")
        self.becomes(job, "running")
        until("the pipe", pipe.exists)
        attacker = self.python_as(ATTACKER, CONNECT, self.shim_socket(), 300, job, version())
        kept = [int(pid) for pid in read_line(attacker).split()]
        hits = 0
        for _ in range(100):
            told = len(self.log(job).split())
            LAST_PID.write_text(str(kept[hits] - 1))
            with open(pipe, "w") as go:
                go.write("go\n")
            until("a process of the job", lambda: len(self.log(job).split()) > told)
            pid = int(self.log(job).split()[-1])
            if pid not in kept:
                continue
            hits += 1
            attacker.stdin.write(f"{pid}\n")
            attacker.stdin.flush()
            count, answer = read_line(attacker).split()
            self.assertEqual(int(count), 0, f"pid {pid} is of job {job} now, and the attacker has its ledger: {answer}")
            if hits == 20:
                break
        self.assertGreater(hits, 0, "no process of the job got one of those pids")


if __name__ == "__main__":
    main()

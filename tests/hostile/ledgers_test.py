#!/usr/bin/env python3
"""The shims' socket: whose ledger does a process get, and which of its writes does the daemon believe?

Usage: ledgers_test.py [UNITTEST ARGUMENTS]    (as root; GPUMAN_BUILD_DIR names the build tree)
"""

import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from hostile_case import ATTACKER, NEIGHBOUR, OUTSIDER, HostileTest, main, until  # noqa: E402
from machine import build_dir, program  # noqa: E402
from users import read_line  # noqa: E402

PYTHON = "/usr/bin/python3"  # which jobs of other users can reach
LAST_PID = pathlib.Path("/proc/sys/kernel/ns_last_pid")

# Connects from processes that end, keeps the connections, and prints their pids. Then it says hello on the connection
# of each pid that it reads, and prints how many descriptors came with the answer.
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


# Says hello on connections of its own, again and again, in several processes.
HELLO = """
import os, socket, struct, sys
path, job, version, processes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
told = False
for _ in range(processes - 1):
    if os.fork() == 0:
        told = True  # one process says it: two lines at once would come mixed
        break
while True:
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        s.connect(path)
        s.send(struct.pack("IIQ112s", 0x484d5047, version, job, b""))
        s.recv(4096)
    except OSError:
        pass
    s.close()
    if not told:
        told = True
        print("said", flush=True)
"""

# A process of a job: requests its ledger and writes random data into it all the time.
SCRIBBLE = """
import mmap, os, random, socket, struct, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.connect(os.environ["GPUMAN_SHIM_SOCKET"])
s.send(struct.pack("IIQ112s", 0x484d5047, int(sys.argv[1]), int(os.environ["GPUMAN_JOB_ID"]), b""))
data, descriptors, _, _ = socket.recv_fds(s, 4096, 8)
page = mmap.mmap(descriptors[1], os.fstat(descriptors[1]).st_size)
print("joined", flush=True)
numbers = random.Random(1)
while True:
    at = numbers.randrange(0, len(page) - 4096)
    page[at:at + 4096] = random.choice([b"\\xff" * 4096, b"\\0" * 4096, numbers.randbytes(4096)])
    page[0:4096] = numbers.randbytes(4096)
"""


# A process of a job: joins the ledger, and notifies the daemon of something new without end.
NOTIFY = """
import os, socket, struct, sys
def call(magic):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(os.environ["GPUMAN_SHIM_SOCKET"])
    s.send(struct.pack("IIQ112s", magic, int(sys.argv[1]), int(os.environ["GPUMAN_JOB_ID"]), b""))
    return s
joined = socket.recv_fds(call(0x484d5047), 4096, 8)[1]
assert len(joined) == 2, joined
for number in range(1 << 62):
    try:
        call(0x444d5047).close()
    except OSError:
        pass  # too many wait
    if number == 1000:
        print("notifies", flush=True)
"""

# A process that says hello in a child of its own for each line "UID JOB", as that user, and prints how many descriptors
# came with the answer.
SAYS_HELLO_AS = """
import os, socket, struct, sys
for line in sys.stdin:
    uid, job = map(int, line.split())
    if os.fork() == 0:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.settimeout(60)
        descriptors = []
        try:
            s.connect(sys.argv[1])
            s.send(struct.pack("IIQ112s", 0x484d5047, int(sys.argv[2]), job, b""))
            _, descriptors, _, _ = socket.recv_fds(s, 4096, 8)
        except OSError:
            pass
        print(len(descriptors), flush=True)
        os._exit(0)
    os.wait()
"""

# Processes of a job that join its ledger. The first takes locks on it without end, far behind those of the slots and
# each before the last: that is cheapest for the kernel.
LOCKS = """
import fcntl, os, socket, struct, sys, time
SET_LOCK, WRITE = 37, 1
def join():
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(os.environ["GPUMAN_SHIM_SOCKET"])
    s.send(struct.pack("IIQ112s", 0x484d5047, int(sys.argv[1]), int(os.environ["GPUMAN_JOB_ID"]), b""))
    return socket.recv_fds(s, 4096, 8)[1]
for _ in range(30):
    if os.fork() == 0:
        joined = join()
        time.sleep(3600)
joined = join()
print("locks", flush=True)
for at in range(1 << 40, 0, -2):
    fcntl.fcntl(joined[0], SET_LOCK, struct.pack("hh4xqqi4x", WRITE, os.SEEK_SET, at, 1, 0))
"""


def version():
    """The version of the ledger, from the shim's header."""
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
        # For each line the shell starts a child that stays, and prints its pid.
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

    def test_a_process_of_another_user_in_a_job_says_hello(self):
        starter = subprocess.Popen([sys.executable, "-c", SAYS_HELLO_AS, str(self.shim_socket()), str(version())],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
        self.addCleanup(self.end, starter)
        # Root has started a process for the neighbour, such as a step of Slurm, and it runs a program as somebody else.
        job = self.request("POST", "/v1/attachments", {"pid": starter.pid, "tag": "step", "uid": NEIGHBOUR.uid, "memory": "1GiB", "gpus": ["0"]})
        self.assertEqual(job.status, 201, job.body)
        for user, descriptors in ((NEIGHBOUR, 2), (ATTACKER, 0), (OUTSIDER, 0)):
            starter.stdin.write(f"{user.uid} {job.json()['id']}\n")
            starter.stdin.flush()
            self.assertEqual(int(read_line(starter)), descriptors, user.name)

    def test_a_job_takes_locks_on_its_own_ledger_without_end(self):
        script = self.scratch(ATTACKER) / "locks.py"
        script.write_text(LOCKS)
        script.chmod(0o644)
        job = self.start_as(ATTACKER, "locker", f"exec {PYTHON} -B {script} {version()}", share=True, restart="always")

        def ended():
            return len([event for event in self.events() if event["job"] == job and event["kind"] == "ledger_locks"])
        with self.beside("locks on the own ledger, without end", steps=(("GET", "/v1/jobs"), ("GET", "/v1/share"))) as attack:
            attack.over = lambda: ended() >= 2
        self.assertGreaterEqual(ended(), 2, "also when it runs again")
        self.request("DELETE", f"/v1/jobs/{job}")

    def test_hello_is_said_in_eight_loops(self):
        job = self.start_as(ATTACKER, "own", "sleep 1000")
        self.becomes(job, "running")
        with self.beside("hello to the shims' socket in 8 loops"):
            self.assertEqual(read_line(self.python_as(ATTACKER, HELLO, self.shim_socket(), job, version(), 8)), "said")

    def test_a_process_of_a_job_notifies_without_end(self):
        script = self.scratch(ATTACKER) / "notify.py"
        script.write_text(NOTIFY)
        script.chmod(0o644)
        job = self.start_as(ATTACKER, "notifier", f"{program('gpuman-load')} --alloc 1MiB --hold 1h & exec {PYTHON} -B {script} {version()}",
                            share=True)
        until("it is on the GPU", lambda: (self.job(job)["memory"]["used"] or 0) > 0)
        with self.beside("notifications of an own process, without end", steps=(("GET", "/v1/jobs"), ("GET", "/v1/share"))):
            until("it notifies", lambda: "notifies" in self.log(job))
        self.assertEqual(self.job(job)["state"], "running", self.log(job))

    def test_a_job_writes_into_its_own_ledger_whatever_comes(self):
        # The job's processes have a context on the GPU, so that the daemon reads the ledger.
        script = self.scratch(ATTACKER) / "scribble.py"
        script.write_text(SCRIBBLE)
        script.chmod(0o644)
        go = script.with_name("go")
        before = self.m.api("GET", "/v1/version")["pid"]
        job = self.start_as(ATTACKER, "scribbler", f"{program('gpuman-load')} --alloc 1MiB --hold 1h & "
                            f"until [ -e {go} ]; do sleep 0.05; done; exec {PYTHON} -B {script} {version()}", share=True)
        # A load that finds nonsense at its begin ends, and the daemon does not read the ledger of a job that is on no
        # GPU.
        until("it is on the GPU", lambda: (self.job(job)["memory"]["used"] or 0) > 0)
        go.touch()
        with self.beside("nonsense in the own ledger, all the time", steps=(("GET", "/v1/jobs"), ("GET", "/v1/share"), ("GET", "/metrics"))):
            until("it has joined", lambda: "joined" in self.log(job))
        until("it is told", lambda: any(e["kind"] == "ledger_overwritten" and e["job"] == job for e in self.events()))
        self.assertEqual(self.m.api("GET", "/v1/version")["pid"], before)
        shown = self.job(job)
        self.assertLessEqual(shown["memory"]["used"], 1 << 34, "the driver's figures are believed, not the ledger's")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""A user's mover and the processes whose memory it moves: what can their owner do to others with them?

The test measures the neighbour, who suspends and resumes a job all the time.

Usage: mover_test.py [UNITTEST ARGUMENTS]    (as root; GPUMAN_BUILD_DIR names the build tree)
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1] / "harness")]
from daemon_case import until  # noqa: E402
from hostile_case import ATTACKER, NEIGHBOUR, HostileTest, main  # noqa: E402
from machine import build_dir, program  # noqa: E402
from users import read_line  # noqa: E402

PYTHON = "/usr/bin/python3"  # which both users may run, wherever the test's own interpreter is
MIB = 1 << 20
ROUNDS = 20  # the neighbour's requests: half of them suspend, half of them resume

# Sends a request, and prints the result.
ASK = """
import sys
from machine import UnixConnection
c = UnixConnection(sys.argv[1], timeout=600)
c.request("POST", sys.argv[2], "{}")
print("asked", flush=True)
a = c.getresponse()
print(a.status, a.read().decode().replace("\\n", " "), flush=True)
"""

# Tries all that a process may do to another process of its user. Prints what succeeded.
LOOK_IN = """
import ctypes, fcntl, os, sys
pid = int(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
got = []
process = libc.syscall(434, pid, 0)
if process < 0:
    print("it has ended", flush=True)
    sys.exit()
for number in range(64):
    fd = libc.syscall(438, process, number, 0)
    if fd >= 0:
        got.append("descriptor %d" % number)
        try: fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError: pass
if libc.ptrace(16, pid, 0, 0) == 0: got.append("ptrace")
for name in ("mem", "environ", "maps", "fd/0", "cwd/."):
    try:
        os.stat("/proc/%d/%s" % (pid, name)) if "/" in name else open("/proc/%d/%s" % (pid, name), "rb").read(1)
        got.append(name)
    except OSError: pass
buffer = ctypes.create_string_buffer(8)
class Part(ctypes.Structure): _fields_ = [("at", ctypes.c_void_p), ("size", ctypes.c_size_t)]
here, there = Part(ctypes.cast(buffer, ctypes.c_void_p), 8), Part(0x400000, 8)
if libc.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0) > 0: got.append("process_vm_readv")
print("got:", *got, flush=True)
sys.stdin.read()
"""

# Kills every mover of its user as soon as it appears, and prints how many so far.
KILL = """
import os, sys, threading, time
def movers():
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if os.stat("/proc/" + name).st_uid in (0, os.getuid()) and "gpuman-mover" in open("/proc/%s/comm" % name).read():
                    yield int(name)
            except OSError: pass
count = 0
def loop():
    global count
    while True:
        for pid in movers():
            try: os.kill(pid, 9); count += 1
            except OSError: pass
        time.sleep(0.005)
threading.Thread(target=loop, daemon=True).start()
for line in sys.stdin: print(count, flush=True)
"""

# A process of a job: joins the job's ledger as the shim does, and writes messages to the daemon and to the mover
# itself.
FORGE = """
import array, mmap, os, resource, socket, struct, sys, time
path, version, how = sys.argv[1], int(sys.argv[2]), sys.argv[3]
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
HELLO, OUT, BACK, PARTS, REPLY = 0x484d5047, 0x4f4d5047, 0x424d5047, 0x504d5047, 0x524d5047
def connect(magic):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(path)
    s.send(struct.pack("IIQ112s", magic, version, 0, b""))
    return s
def join():
    while True:
        s = connect(HELLO)
        data, fds, _, _ = socket.recv_fds(s, 4096, 8)
        if len(fds) == 2:
            return mmap.mmap(fds[0], struct.unpack("IIIIQ8x", data)[4]), fds[1], os.close(fds[0])
        time.sleep(0.01)
ledger = join()
def parts(count, last=1, more=0, total=4 << 20, size=2 << 20, magic=PARTS):
    return struct.pack("IIIIQ", magic, count, last, more, total) + struct.pack("QQ", 0x700000000000, size) * 32
def pass_on(s, data, fds):
    try: s.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else [])
    except OSError: pass
def memory():
    fd = os.memfd_create("x")
    os.truncate(fd, 2 << 20)
    return fd
def lingering():
    listening = socket.create_server(("127.0.0.1", 0))
    s = socket.create_connection(listening.getsockname())
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 3600))
    kept.append(listening.accept()[0])
    s.setblocking(False)
    try:
        while True: s.send(bytes(65536))
    except OSError: pass
    return s.detach()
kept = []
WRONG = [
    lambda s: pass_on(s, parts(0, last=0), []),
    lambda s: pass_on(s, parts(1, total=(1 << 64) - 1), [memory()]),
    lambda s: pass_on(s, parts(1, total=1 << 50), [memory()]),
    lambda s: pass_on(s, parts(1, size=0), [memory()]),
    lambda s: pass_on(s, parts(1, size=(1 << 64) - 1), [memory()]),
    lambda s: pass_on(s, parts(2), [memory()]),
    lambda s: pass_on(s, parts(32, total=64 << 20), [memory()] * 32),
    lambda s: pass_on(s, parts(33), [memory()] * 33),
    lambda s: pass_on(s, parts(1, total=2 << 20), [os.open("/dev/zero", os.O_RDWR)]),
    lambda s: pass_on(s, parts(1, total=2 << 20), [os.open("/proc/self/status", os.O_RDONLY)]),
    lambda s: pass_on(s, parts(1, total=2 << 20), [os.pipe()[0]]),
    lambda s: pass_on(s, parts(1, more=1, total=2 << 20), [memory()]),
    lambda s: pass_on(s, parts(1, magic=1), [memory()]),
    lambda s: pass_on(s, b"x", [lingering()]),
    lambda s: pass_on(s, parts(1, total=2 << 20), [lingering()]),
    lambda s: pass_on(s, parts(253), [memory()] * 253),
    lambda s: pass_on(s, struct.pack("IIII", REPLY, 0, 1, 0), []),
    lambda s: None,
]
print("joined", flush=True)
if how == "wrong":
    for wrong in WRONG * 3:
        for magic in (OUT, BACK):
            try: s = connect(magic)
            except OSError: continue
            wrong(s)
            kept.append(s)
            s.settimeout(0.05)
            try: s.recv(4096)
            except OSError: pass
elif how == "many":
    for _ in range(3000):
        try: kept.append(connect(OUT))
        except OSError: pass
print("done", flush=True)
time.sleep(100000)
"""


def version():
    """The version of the ledger, from the shim's header."""
    text = (pathlib.Path(__file__).resolve().parents[2] / "src/ledger/wire/layout.h").read_text()
    return int(text.split("kVersion = ")[1].split(";")[0])


@unittest.skipUnless((build_dir() / "lib/libgpuman.so").exists(), "this build has no libgpuman.so")
class Movers(HostileTest):
    profile, memory = "h200", "8GiB"
    config = '[sampling]\nrest = "20ms"\n[suspend]\npatience = "1m"\n'

    def setUp(self):
        self.theirs = self.busy(NEIGHBOUR, "neighbour")

    def tearDown(self):
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if process.stat().st_uid == ATTACKER.uid:
                    os.kill(int(process.name), signal.SIGCONT)
            except OSError:
                pass
        super().tearDown()

    def busy(self, user, tag, size="96MiB", *options, **more):
        """Starts a load of the user on GPU 0 that works, for two fifths of the time. Returns once it holds its memory."""
        options = options or ("--kernel-time", "1ms", "--duty", "0.4")
        job = self.start_as(user, tag, "exec " + self.load(size, "--hold", "1h", *options),
                            **{"gpus": ["0"], "grace": "50ms", **more})
        until("it holds memory", lambda: (self.job(job)["memory"]["used"] or 0) > 64 * MIB)
        return job

    def mover_of(self, user):
        """The user's mover of this daemon; a mover that another daemon left ends by itself."""
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if (entry / "comm").read_text().strip() == "gpuman-mover":
                    status = (entry / "status").read_text()
                    if f"\nUid:\t{user.uid}\t" in status and f"\nPPid:\t{self.m.daemon.pid}\n" in status:
                        return int(entry.name)
            except OSError:
                pass
        return None

    def post(self, user, target):
        process = self.python_as(user, ASK, self.m.env["GPUMAN_SOCKET"], target)
        self.assertEqual(read_line(process), "asked")
        return process

    def with_mover(self, job):
        """The attacker's mover, after it has made a call for the job."""
        for what in ("suspend", "resume"):
            answered = self.as_user(ATTACKER, "POST", f"/v1/jobs/{job}/{what}", {})
            self.assertEqual(answered.status, 200, answered)
        return until("the mover is there", lambda: self.mover_of(ATTACKER))

    def neighbours_cycle(self, attempt):
        steps = [("POST", f"/v1/jobs/{self.theirs}/{what}", {}) for what in ("suspend", "resume")]
        return self.beside(attempt, steps=steps, least=ROUNDS)

    def test_a_mover_that_is_stopped(self):
        """SIGSTOPs the own mover and suspends an own job: the call never ends."""
        job = self.busy(ATTACKER, "attacker", preload=False)
        with self.neighbours_cycle("the own mover stopped, and an own job suspended"):
            os.kill(self.with_mover(job), 0)
            mover = self.mover_of(ATTACKER)
            stopped = ATTACKER.run(["kill", "-STOP", str(mover)])
            self.assertEqual(stopped.returncode, 0, stopped.stderr)
            self.post(ATTACKER, f"/v1/jobs/{job}/suspend")
        self.assertEqual(self.job(job)["state"], "running", "the attacker's own waits")

    def test_a_process_of_the_own_job_that_is_stopped(self):
        """The driver waits for the process whose memory it saves, regardless of the time limit (measured)."""
        job = self.busy(ATTACKER, "attacker", preload=False)
        pid = self.job(job)["pid"]
        with self.neighbours_cycle("a process stopped and its job suspended"):
            self.with_mover(job)
            self.assertEqual(ATTACKER.run(["kill", "-STOP", str(pid)]).returncode, 0)
            self.post(ATTACKER, f"/v1/jobs/{job}/suspend")

    def test_gpu_work_that_does_not_end(self):
        job = self.busy(ATTACKER, "attacker", "96MiB", "--kernel-time", "10m", preload=False)
        with self.neighbours_cycle("a job suspended whose kernel takes ten minutes"):
            self.post(ATTACKER, f"/v1/jobs/{job}/suspend")

    def test_a_mover_that_is_killed_again_and_again(self):
        self.busy(ATTACKER, "attacker", share=True)  # so that the daemon starts its mover in advance
        killer = self.python_as(ATTACKER, KILL)

        def killed():
            killer.stdin.write("\n")
            killer.stdin.flush()
            return int(read_line(killer))
        with self.neighbours_cycle("the own movers killed as they come"):
            until("some were killed", lambda: killed() > 3)
        pid = self.mover_of(NEIGHBOUR)
        self.assertIsNotNone(pid, "the neighbour's is as it was")

    def test_nobody_looks_into_a_mover_or_takes_what_it_has(self):
        job = self.busy(ATTACKER, "attacker")

        def looked_into():
            said = read_line(self.python_as(ATTACKER, LOOK_IN, self.with_mover(job)))
            return said != "it has ended" and said  # a mover that has nothing to do ends
        with self.neighbours_cycle("the own mover's descriptors taken, and locked"):
            self.assertEqual(until("a mover is looked into", looked_into), "got:")

    def test_suspensions_of_many_own_jobs_at_once(self):
        jobs = [self.busy(ATTACKER, f"attacker{i}", preload=False) for i in range(6)]
        with self.neighbours_cycle("6 own jobs suspended at once"):
            for job in jobs:
                self.post(ATTACKER, f"/v1/jobs/{job}/suspend")

    def forge(self, how, attempt):
        shim = pathlib.Path(self.m.env["GPUMAN_SOCKET"]).parent / "shim.sock"
        script = self.scratch(ATTACKER) / "forge.py"
        script.write_text(FORGE)
        script.chmod(0o644)
        self.busy(ATTACKER, "attacker", share=True)  # so that there is a mover
        before = len(os.listdir(f"/proc/{self.m.daemon.pid}/fd"))
        job = self.start_as(ATTACKER, "forger", f"exec {PYTHON} -S {script} {shim} {version()} {how}",
                            gpus=["0"], grace="50ms", share=True)
        with self.neighbours_cycle(attempt):
            until("it has begun", lambda: "joined" in self.log(job))
        until("it has tried all", lambda: "done" in self.log(job))
        held = len(os.listdir(f"/proc/{self.m.daemon.pid}/fd")) - before
        self.assertLess(held, 2000, "descriptors that the daemon has of it")
        self.assertIsNone(self.m.daemon.poll())
        for what in ("suspend", "resume"):
            answered = self.as_user(NEIGHBOUR, "POST", f"/v1/jobs/{self.theirs}/{what}", {})
            self.assertEqual(answered.status, 200, answered)

    def test_transfers_that_are_wrong(self):
        self.forge("wrong", "wrong sizes, wrong counts and no memory handed to the mover")

    def test_transfers_by_the_thousand(self):
        self.forge("many", "3,000 transfers begun by one process")


class NamedLikeAMover(HostileTest):
    """Every user can give a program the name of gpuman's own."""
    gpus, config = 1, '[sampling]\nslow = "100ms"\n[queue]\nhoarder_idle = "200ms"\n'

    def queue_gpu(self):
        return self.request("GET", "/v1/queue/info").json()["gpus"][0]

    def test_a_program_with_the_name_of_a_mover_is_a_process_like_any_other(self):
        scratch = self.scratch(ATTACKER)
        named = scratch / "gpuman-mover"
        shutil.copy(program("gpuman-load"), named)
        named.chmod(0o755)
        process = ATTACKER.popen([str(named), "--alloc", "256MiB", "--hold", "1h"], env=self.m.env, stdout=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        seen = until("it is on the GPU", lambda: next((one for one in self.queue_gpu()["processes"] if one["name"] == "gpuman-mover"), None))
        self.assertFalse(seen["gpuman"])
        self.assertEqual(seen["user"], ATTACKER.name)
        until("the GPU is not handed out", lambda: self.queue_gpu()["state"] == "unmanaged")
        until("it is suspected of holding it without use", lambda: self.queue_gpu()["processes"][0]["hoarding"])
        text = self.m.run("info").stdout
        self.assertIn(f"pid {seen['pid']}", text)
        self.assertIn("gpuman-mover", text)


if __name__ == "__main__":
    main()

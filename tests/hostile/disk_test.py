#!/usr/bin/env python3
"""Full disks and quotas that are used up: a user's own, and the disk of the daemon's state.

Usage: disk_test.py [UNITTEST ARGUMENTS]    (as root; GPUMAN_BUILD_DIR names the build tree)
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import quota  # noqa: E402
from hostile_case import ATTACKER, NEIGHBOUR, HostileTest, main, until  # noqa: E402
from machine import fill_disk, program  # noqa: E402

MIB = 1 << 20
STATE_DISK = 32 * MIB

# Writes to the file until that fails, single bytes at last, and prints the error.
FILL = """
import errno, os, sys
try:
    with open(sys.argv[1], "ab", buffering=0) as file:
        for size in (65536, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError as error:
                last = error
                os.fsync(file.fileno())
except OSError as error:
    last = error
print(errno.errorcode[last.errno], flush=True)
"""


def big(number):
    """A value that the books keep anew for each number."""
    return str(number).rjust(100_000, "x")


def mount(directory, size, user=None):
    owner = f",uid={user.uid},gid={user.gid}" if user else ""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=755{owner}", "tmpfs", directory], check=True)


class DiskTest(HostileTest):
    def fills(self, user, file, error):
        self.assertEqual(self.python_as(user, FILL, file).stdout.readline(), error + "\n")

    def gpuman(self, user, home, *words, **options):
        client = self.scratch(user) / "gpuman"  # the build may be where the user cannot reach it
        shutil.copy(program("gpuman"), client)
        environment = {**self.m.env, "HOME": str(home), "TMPDIR": str(home), "XDG_STATE_HOME": str(home / "state"),
                       "XDG_CONFIG_HOME": str(home / "config"), "XDG_CACHE_HOME": str(home / "cache")}
        return user.run([client, *words], env=environment, cwd=home, **options)

    def the_neighbour_works(self):
        """A job of `run` and one of the queue are taken, run and have their output, also after the daemon's crash."""
        first = self.start_as(NEIGHBOUR, "run", "echo said")
        answered = self.as_user(NEIGHBOUR, "POST", "/v1/submissions", {
            "jobs": [{"command": ["/bin/sh", "-c", "echo said"], "gpus": {"count": 1}}], "directory": "/",
            "environment": {"PATH": os.environ["PATH"]}})
        self.assertEqual(answered.status, 201, answered)
        jobs = [first, answered.json()["jobs"][0]["id"]]
        for _ in range(2):
            for job in jobs:
                self.assertEqual(self.wait(job)["state"], "finished")
                self.assertEqual(self.as_user(NEIGHBOUR, "GET", f"/v1/jobs/{job}/log").body, "said\n")
            self.m.stop_daemon(signal.SIGKILL)
            self.m.start_daemon()

    def works_without_room(self, home, attempt, error):
        """`home`, working directory and temporary files of the attacker have no room, and the kernel says `error`."""
        with self.beside(attempt):
            for number in range(10):
                done = self.gpuman(ATTACKER, home, "submit", "--name", f"full-{number}", "--", "sh", "-c",
                                   "echo kept; head -c 99999 /dev/zero > made; exec sleep 1000")
                self.assertEqual(done.returncode, 0, done.stderr)
        until("it has written", lambda: error in self.as_user(ATTACKER, "GET", "/v1/jobs/full-0/log").body)
        asked = self.gpuman(ATTACKER, home, "queue")
        self.assertEqual(asked.returncode, 0, asked.stderr)
        self.assertIn("full-9", asked.stdout)
        with open(home / "filler", "ab") as onto_it:
            done = self.gpuman(ATTACKER, home, "cancel", *(f"full-{number}" for number in range(10)))
            self.assertEqual(done.returncode, 0, done.stderr)
            client = self.scratch(ATTACKER) / "gpuman"
            shutil.copy(program("gpuman"), client)
            printed = subprocess.run([client, "logs", "full-0"], env=self.m.env, stdout=onto_it, stderr=subprocess.PIPE,
                                     text=True, user=ATTACKER.uid, group=ATTACKER.gid, extra_groups=[])
        self.assertEqual(printed.returncode, 1, printed.stderr)
        self.assertIn(error, printed.stderr)
        self.assertIn("kept\n", self.gpuman(ATTACKER, home, "logs", "full-0").stdout)
        self.the_neighbour_works()


class FullDisk(DiskTest):
    gpus = 2
    config = '[jobs]\nlog_size = "1GiB"\n[sampling]\nrest = "20ms"\n'

    @classmethod
    def prepare(cls):
        cls.state = pathlib.Path(cls.m.env["GPUMAN_STATE_DIR"])
        mount(cls.state, STATE_DISK)
        cls.addClassCleanup(shutil.rmtree, cls.m.dir, ignore_errors=True)
        cls.addClassCleanup(subprocess.run, ["umount", "-l", cls.state])
        # Class clean-ups run last in, first out: the machine's own must run before these.
        cls.addClassCleanup(cls.m.__exit__)

    def left(self):
        disk = os.statvfs(self.state)
        return disk.f_bavail * disk.f_frsize

    def test_a_user_whose_own_disk_is_full_submits_asks_and_cancels(self):
        home = self.scratch(ATTACKER)
        mount(home, MIB, ATTACKER)
        self.addCleanup(subprocess.run, ["umount", "-l", home])
        self.fills(ATTACKER, home / "filler", "ENOSPC")
        self.works_without_room(home, "a user whose home, working directory and temporary files have no room",
                                "No space left")

    def test_a_user_whose_quota_is_used_up_submits_asks_and_cancels(self):
        home = quota.mount(self.scratch(ATTACKER), ATTACKER, MIB, self.addCleanup)
        self.fills(ATTACKER, home / "filler", "EDQUOT")
        self.works_without_room(home, "a user whose quota is used up", "Disk quota exceeded")

    def tearDown(self):
        self.free()
        super().tearDown()

    def fill(self):
        """Root's own processes fill the disk of the daemon's state, to the last byte."""
        fill_disk(self.state / "filler")

    def free(self):
        (self.state / "filler").unlink(missing_ok=True)

    def is_refused(self, user):
        """The books may have room of their own for some jobs, and none for the next: what the user is told then."""
        for number in range(300):
            body = {"jobs": [{"command": ["/bin/sh", "-c", "exit 3"], "hold": True, "gpus": {"count": 0}}],
                    "directory": "/", "environment": {"PATH": os.environ["PATH"], "BIG": big(number)}}
            answered = self.as_user(user, "POST", "/v1/submissions", body)
            if answered.status != 201:
                break
        self.assertEqual(answered.status, 507, answered)
        self.assertIn("full", answered.json()["error"]["message"])
        self.assertIn("free space", answered.json()["error"]["hint"])
        return body

    def test_jobs_that_run_and_their_limits_hold_while_the_disk_of_the_state_is_full(self):
        go = self.scratch(NEIGHBOUR) / "go"
        steady = self.start_as(NEIGHBOUR, "steady", "exec " + self.load("256MiB", "--hold", "1h"), memory="512MiB")
        grows = self.start_as(NEIGHBOUR, "grows", f"until [ -e {go} ]; do sleep 0.01; done; exec "
                              + self.load("2GiB", "--step", "64MiB", "--interval", "5ms", "--hold", "1h"),
                              memory="512MiB", preload=False)
        for job in (steady, grows):
            self.becomes(job, "running")
        until("it has its memory", lambda: self.job(steady)["memory"]["used"] >= 256 * MIB)
        with self.beside("the disk of the daemon's state is full", steps=[("GET", "/v1/status")]):
            self.fill()
            self.is_refused(ATTACKER)
        refused = self.is_refused(NEIGHBOUR)
        go.touch()
        self.assertEqual(self.wait(grows)["reason"], "memory_limit")
        self.assertEqual(self.left(), 0, "the disk was not full all the time")
        self.assertEqual(self.job(steady)["state"], "running")
        self.assertGreaterEqual(self.job(steady)["memory"]["used"], 256 * MIB)
        shown = self.gpuman(NEIGHBOUR, go.parent, "status")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("steady", shown.stdout)
        self.free()
        self.assertEqual(self.as_user(NEIGHBOUR, "POST", "/v1/submissions", refused).status, 201)
        self.the_neighbour_works()
        self.assertEqual(self.wait(grows)["reason"], "memory_limit")
        self.assertEqual(self.job(steady)["state"], "running")

    def test_a_job_that_fills_its_log_leaves_room_for_others_jobs(self):
        with self.beside("a job that writes to its log until the disk of the daemon's state is full") as attack:
            line = "0123456789" * 6
            job = self.start_as(ATTACKER, "writes", f"yes {line} | head -c 100000000; exec sleep 1000")
            attack.over = lambda: self.left() < MIB
        until("it was told", lambda: "output is dropped" in self.as_user(ATTACKER, "GET", f"/v1/jobs/{job}/log?tail=1").body)
        with self.beside("the disk of the daemon's state has no room for logs"):
            self.the_neighbour_works()
        self.assertEqual(self.as_user(ATTACKER, "POST", f"/v1/jobs/{job}/cancel").status, 200)
        self.assertIn("kept for gpuman's own records", self.as_user(ATTACKER, "GET", f"/v1/jobs/{job}/log?tail=3").body)

    def test_nobody_writes_into_the_own_log_past_the_job(self):
        job = self.start_as(ATTACKER, "own", "echo begun")
        log = self.wait(job)["log_path"]
        if os.stat(log).st_uid == ATTACKER.uid:
            self.skipTest("this file system has no access control lists")
        with self.beside("writes into the own log until the disk of the daemon's state is full"):
            process = self.python_as(ATTACKER, FILL, log)
            self.assertEqual(process.stdout.readline(), "EACCES\n")
        self.assertEqual(ATTACKER.run(["cat", log]).stdout, "begun\n")
        self.assertNotEqual(NEIGHBOUR.run(["cat", log]).returncode, 0)


class OwnDaemon(DiskTest):
    """The user's own daemon, with its state in the home."""

    def start_daemon(self, environment, log):
        socket = pathlib.Path(environment["GPUMAN_SOCKET"])
        socket.unlink(missing_ok=True)
        daemon = ATTACKER.popen([program("gpumand"), "--user"], env=environment, cwd="/", stdout=log, stderr=log)
        self.addCleanup(self.end, daemon)
        until("it serves", lambda: socket.exists() or daemon.poll() is not None)
        log.seek(0)
        home = pathlib.Path(environment["HOME"])
        self.assertIsNone(daemon.poll(), log.read() + subprocess.run(["du", "-ak", home], capture_output=True, text=True).stdout)
        return daemon

    def test_the_own_daemon_goes_on_without_quota_and_says_what_it_cannot_keep(self):
        home = quota.mount(self.scratch(ATTACKER), ATTACKER, 8 * MIB, self.addCleanup)
        self.addCleanup(ATTACKER.run, ["sh", "-c", "kill -KILL -1"])  # also a keeper that could not write its journal
        run, log = self.scratch(ATTACKER), self.enterContext(tempfile.TemporaryFile("w+"))
        client, go, filler = run / "client", run / "go", home / "filler"
        shutil.copy(program("gpuman"), client)
        environment = {**self.m.env, "HOME": str(home), "GPUMAN_SOCKET": str(run / "socket"),
                       "GPUMAN_STATE_DIR": str(home / "own"), "XDG_RUNTIME_DIR": str(run), "XDG_CONFIG_HOME": str(run)}
        del environment["GPUMAN_CONFIG"]

        def gpuman(*words, **more):
            return ATTACKER.run([client, *words], env={**environment, **more}, cwd=run)

        def submitted(name, *words, **more):
            done = gpuman("submit", "--name", name, "--gpus", "0", *words, **more)
            self.assertEqual(done.returncode, 0, done.stderr)

        daemon = self.start_daemon(environment, log)
        submitted("runs", "--", "sh", "-c", f"echo begun; until [ -e {go} ]; do sleep 0.01; done; exit 3")
        until("it has begun", lambda: "begun" in gpuman("logs", "runs").stdout)
        self.fills(ATTACKER, filler, "EDQUOT")
        for number in range(100):
            refused = gpuman("submit", "--hold", "--gpus", "0", "--", "true", BIG=big(number))
            if refused.returncode != 0:
                break
        self.assertEqual(refused.returncode, 1, refused.stderr)
        self.assertIn("Disk quota exceeded", refused.stderr)
        self.assertIn("have the quota there raised", refused.stderr)
        self.assertIn("runs", gpuman("queue").stdout)
        go.touch()
        daemon.terminate()
        self.assertEqual(daemon.wait(), 0, "it was killed where it found no room")
        filler.unlink()
        # btrfs takes a file off the quota some time after it was deleted, with its next transaction.
        until("there is room", lambda: subprocess.run(["sync", "--file-system", home]).returncode == 0 and ATTACKER.run(
            ["sh", "-c", f"head -c 1000000 /dev/zero >{filler} && rm {filler}"]).returncode == 0)
        daemon = self.start_daemon(environment, log)
        self.assertEqual(gpuman("job", "wait", "runs").returncode, 3)
        self.assertEqual(gpuman("logs", "runs").stdout, "begun\n")
        submitted("later", "--hold", "--", "true", BIG=big(-1))
        daemon.terminate()
        self.assertEqual(daemon.wait(), 0)


class QuotaOnTheDiskOfTheState(DiskTest):
    @classmethod
    def prepare(cls):
        cls.state = pathlib.Path(cls.m.env["GPUMAN_STATE_DIR"])
        cls.addClassCleanup(shutil.rmtree, cls.m.dir, ignore_errors=True)
        cls.own = quota.mount(cls.state, ATTACKER, MIB, cls.addClassCleanup, quota.OF_USERS)
        cls.state.chmod(0o755)
        cls.addClassCleanup(cls.m.__exit__)

    def test_logs_count_for_no_quota_of_their_user(self):
        self.fills(ATTACKER, self.own / "filler", "EDQUOT")
        with self.beside("a user without quota on the disk of the daemon's state"):
            jobs = [self.start_as(ATTACKER, f"writes-{i}", "head -c 4000000 /dev/zero | tr '\\0' x; exit 3")
                    for i in range(5)]
            for job in jobs:
                self.assertEqual(self.wait(job)["exit_code"], 3)
        for job in jobs:
            log = os.stat(self.job(job)["log_path"])
            self.assertEqual(log.st_uid, 0)
            self.assertGreaterEqual(log.st_size, 4_000_000)
        self.the_neighbour_works()


if __name__ == "__main__":
    main()

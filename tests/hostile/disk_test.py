#!/usr/bin/env python3
"""Full disks: a user's own, and the one of the daemon's state as far as a user can fill it.

Usage: disk_test.py [UNITTEST ARGUMENTS]    (as root; GPUMAN_BUILD_DIR names the build tree)
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from hostile_case import ATTACKER, NEIGHBOUR, HostileTest, main, until  # noqa: E402
from machine import program  # noqa: E402

MIB = 1 << 20
STATE_DISK = 32 * MIB

# Writes to the file as long as that goes, and says how it ended.
FILL = """
import errno, os, sys
try:
    with open(sys.argv[1], "ab", buffering=0) as file:
        while True:
            file.write(b"x" * 65536)
except OSError as error:
    print(errno.errorcode[error.errno], flush=True)
"""


def mount(directory, size, user=None):
    owner = f",uid={user.uid},gid={user.gid}" if user else ""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=755{owner}", "tmpfs", directory], check=True)


class FullDisk(HostileTest):
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

    def full_home(self):
        """A file system of the attacker's own, on which nothing has room."""
        home = self.scratch(ATTACKER)
        mount(home, MIB, ATTACKER)
        self.addCleanup(subprocess.run, ["umount", "-l", home])
        self.assertEqual(self.python_as(ATTACKER, FILL, home / "filler").stdout.readline(), "ENOSPC\n")
        return home

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

    def test_a_user_whose_own_disk_is_full_submits_asks_and_cancels(self):
        home = self.full_home()
        with self.beside("a user whose home, working directory and temporary files have no room"):
            for number in range(10):
                done = self.gpuman(ATTACKER, home, "submit", "--name", f"full-{number}", "--", "sh", "-c",
                                   "echo kept; head -c 99999 /dev/zero > made; exec sleep 1000")
                self.assertEqual(done.returncode, 0, done.stderr)
        until("it has written", lambda: "No space left" in self.as_user(ATTACKER, "GET", "/v1/jobs/full-0/log").body)
        with open(home / "filler", "ab") as onto_it:
            done = self.gpuman(ATTACKER, home, "cancel", *(f"full-{number}" for number in range(10)))
            self.assertEqual(done.returncode, 0, done.stderr)
            client = self.scratch(ATTACKER) / "gpuman"
            shutil.copy(program("gpuman"), client)
            printed = subprocess.run([client, "logs", "full-0"], env=self.m.env, stdout=onto_it, stderr=subprocess.PIPE,
                                     text=True, user=ATTACKER.uid, group=ATTACKER.gid, extra_groups=[])
        self.assertEqual(printed.returncode, 1, printed.stderr)
        self.assertIn("No space left", printed.stderr)
        self.the_neighbour_works()

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


if __name__ == "__main__":
    main()

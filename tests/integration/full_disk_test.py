#!/usr/bin/env python3
"""The disk of the state directory fills up while jobs run. Needs root, to make a small file system; else skipped (77).

Usage: full_disk_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from daemon_case import DaemonTest, until  # noqa: E402
from machine import fill_disk  # noqa: E402

SKIPPED = 77


class FullDiskTest(DaemonTest):
    @classmethod
    def prepare(cls):
        cls.state = pathlib.Path(cls.m.env["GPUMAN_STATE_DIR"])
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "tmpfs", cls.state], check=True)
        cls.addClassCleanup(shutil.rmtree, cls.m.dir, ignore_errors=True)
        cls.addClassCleanup(subprocess.run, ["umount", "-l", cls.state])
        # Class clean-ups run last in, first out: the machine's own must run before these.
        cls.addClassCleanup(cls.m.__exit__)

    def tearDown(self):
        self.free()
        super().tearDown()

    def fill(self):
        fill_disk(self.state / "filler")

    def free(self):
        (self.state / "filler").unlink(missing_ok=True)

    def test_a_job_that_cannot_be_written_down_is_refused_and_taken_when_there_is_room(self):
        self.fill()
        request = self.run_request("big", "exit 3")
        request["environment"]["BIG"] = "x" * 100_000
        answer = self.request("POST", "/v1/jobs", request)
        self.assertGreaterEqual(answer.status, 500)
        self.assertIn("full", answer.json()["error"]["message"])
        self.assertIn("free space", answer.json()["error"]["hint"])
        self.assertEqual(self.request("GET", "/v1/jobs?all=1").json()["jobs"], [])
        self.assertEqual(self.request("GET", "/v1/status").status, 200)
        self.free()
        self.assertEqual(self.request("POST", "/v1/jobs", request).status, 201)
        self.assertEqual(self.wait("big")["exit_code"], 3)

    def test_the_end_of_a_job_is_known_and_kept_though_the_disk_was_full(self):
        go = self.m.dir / "go"
        self.addCleanup(go.unlink, missing_ok=True)
        self.start("old", f"echo begun; until [ -e {go} ]; do sleep 0.01; done; exit 5")
        self.becomes("old", "running")
        until("it has written", lambda: self.log("old"))
        self.fill()
        go.touch()
        self.assertEqual(self.wait("old")["exit_code"], 5)
        self.free()
        self.m.stop_daemon(signal.SIGKILL)
        self.m.start_daemon()
        self.assertEqual(self.wait("old")["exit_code"], 5)
        self.assertEqual(self.log("old"), "begun\n")

    def test_jobs_of_the_queue_that_the_disk_has_no_room_for_start_when_it_has(self):
        environment = {"PATH": os.environ["PATH"], **{f"BIG{i}": "x" * 100_000 for i in range(4)}}
        jobs = [{"command": ["/bin/sh", "-c", "exit 3"], "hold": True, "gpus": {"count": 0}} for _ in range(3)]
        answer = self.request("POST", "/v1/submissions", {"jobs": jobs, "directory": "/", "environment": environment})
        self.assertEqual(answer.status, 201, answer.body)
        ids = [job["id"] for job in answer.json()["jobs"]]
        self.fill()
        filler = self.state / "filler"
        full = filler.stat().st_size
        os.truncate(filler, full - 200_000)  # enough for records, but not for a keeper's spec
        for job in ids:
            while (released := self.request("POST", f"/v1/jobs/{job}/release")).status == 507:
                os.truncate(filler, filler.stat().st_size - 20_000)  # the records of the first ones took the room
                self.assertGreater(filler.stat().st_size, full - 380_000, "a keeper's spec would find room")
            self.assertEqual(released.status, 200)
        until("the daemon has tried each", lambda: all(
            f"job {job} (job-{job}): starting the keeper" in (self.m.dir / "daemon.log").read_text() for job in ids))
        for job in ids:
            # queued: not even the record that it starts found room.
            self.assertIn(self.job(job)["state"], ("queued", "starting"))
        self.free()
        for job in ids:
            self.assertEqual(self.wait(job)["exit_code"], 3)


if __name__ == "__main__":
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]).returncode != 0:
        print("needs root and mount")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)

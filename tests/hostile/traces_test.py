#!/usr/bin/env python3
"""What a user may do with their own traces of allocations, and with those of others.

Usage: traces_test.py [UNITTEST ARGUMENTS]    (as root; GPUMAN_BUILD_DIR names the build tree)
"""

import ctypes.util
import os
import pathlib
import shutil
import stat
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from hostile_case import ATTACKER, NEIGHBOUR, HostileTest, main  # noqa: E402
from daemon_case import until  # noqa: E402
from machine import program  # noqa: E402


class Traces(HostileTest):
    def tearDown(self):
        super().tearDown()
        if parent := getattr(self, "parent", None):
            until("the traces are gone", lambda: not parent.exists() or not list(parent.iterdir()))
            shutil.rmtree(parent, ignore_errors=True)

    def traced(self, user, tag="traced"):
        """A job of the user that has ended, and the directory of its traces."""
        job = self.start_as(user, tag, self.load("64MiB"), trace_allocations=True)
        ended = self.wait(job)
        self.assertEqual(ended["exit_code"], 0, self.log(job))
        traces = pathlib.Path(ended["trace_path"])
        self.parent = traces.parent
        return job, traces

    def why(self, user, job):
        command = [program("gpuman"), "why", str(job), "--allocations"]
        if user is not None:
            command = ["setpriv", "--reuid", str(user.uid), "--regid", str(user.gid), "--clear-groups", *command]
        return subprocess.run(command, env=self.m.env, capture_output=True, text=True, timeout=120)

    def test_another_users_traces_are_not_read(self):
        job, traces = self.traced(NEIGHBOUR)
        self.assertEqual((traces.stat().st_uid, stat.S_IMODE(traces.stat().st_mode)), (NEIGHBOUR.uid, 0o700))
        self.assertEqual(self.parent.stat().st_uid, 0)
        self.assertIn("64MiB", self.why(NEIGHBOUR, job).stdout)
        self.assertIn("64MiB", self.why(None, job).stdout)
        refused = self.why(ATTACKER, job)
        self.assertEqual(refused.returncode, 5, refused)
        self.assertIn("permission", refused.stderr.lower())
        for command in (["ls", str(traces)], ["cat", str(traces / "0.trace")], ["touch", str(traces / "1.trace")],
                        ["mv", str(traces), str(traces) + "x"], ["mkdir", str(self.parent / "999")]):
            done = subprocess.run(["setpriv", "--reuid", str(ATTACKER.uid), "--regid", str(ATTACKER.gid), "--clear-groups", *command],
                                  capture_output=True)
            self.assertNotEqual(done.returncode, 0, command)

    def test_root_looks_at_a_trace_of_fifos_links_and_nonsense(self):
        job, traces = self.traced(ATTACKER)
        secret = self.scratch(NEIGHBOUR) / "secret"
        secret.write_text("GPMTRACE secret")
        good = (traces / "0.trace").read_bytes()
        (traces / "0.trace").unlink()
        os.mkfifo(traces / "0.trace")
        (traces / "1.trace").symlink_to(secret)
        (traces / "2.trace").write_bytes(os.urandom(100_000))
        (traces / "3.trace").mkdir()
        (traces / "4.trace").write_bytes(good.replace(b"/gpuman-load", b"/../dev/zero"))
        (traces / "5.trace").write_bytes(good)
        os.truncate(traces / "5.trace", 1 << 40)
        with self.beside("root looks at a trace of FIFOs, links and nonsense"):
            told = self.why(None, job)
        self.assertEqual(told.returncode, 0, told.stderr)
        for number in range(4):
            self.assertIn(f"{number}.trace could not be read", told.stdout)
        self.assertNotIn("secret", told.stdout)
        self.assertIn("64MiB", told.stdout)

    def test_a_program_of_a_strangers_making_is_not_parsed(self):
        if not ctypes.util.find_library("dw"):
            self.skipTest("there is no libdw, which names functions")
        own = self.scratch(ATTACKER) / "gpuman-load"
        shutil.copy(program("gpuman-load"), own)
        os.chown(own, ATTACKER.uid, ATTACKER.gid)
        job = self.start_as(ATTACKER, "own", f"{own} --alloc 64MiB", trace_allocations=True)
        ended = self.wait(job)
        self.assertEqual(ended["exit_code"], 0, self.log(job))
        self.parent = pathlib.Path(ended["trace_path"]).parent
        self.assertIn("gpuman::load::", self.why(ATTACKER, job).stdout)
        told = self.why(None, job).stdout
        self.assertNotIn("gpuman::load::", told)
        self.assertIn("gpuman-load+0x", told)

    def test_the_end_of_a_job_deletes_what_is_in_it_and_nothing_else(self):
        job, traces = self.traced(ATTACKER)
        kept = self.scratch(NEIGHBOUR)
        (kept / "file").write_text("kept")
        (traces / "link").symlink_to(kept)
        (traces / "deep").mkdir()
        (traces / "deep" / "link").symlink_to(kept)
        self.request("DELETE", f"/v1/jobs/{job}")
        until("the traces are gone", lambda: not traces.exists())
        self.assertEqual((kept / "file").read_text(), "kept")

    def test_a_directory_that_somebody_else_made_is_not_used(self):
        _, traces = self.traced(NEIGHBOUR, "first")
        shutil.rmtree(self.parent)
        other = self.scratch(ATTACKER)
        for make in (lambda: self.parent.symlink_to(other), lambda: self.parent.mkdir(0o755)):
            make()
            os.chown(self.parent, ATTACKER.uid, ATTACKER.gid, follow_symlinks=False)
            job = self.start_as(NEIGHBOUR, "second", self.load("64MiB"), trace_allocations=True)
            ended = self.wait(job)
            self.assertEqual(ended["exit_code"], 0, self.log(job))
            self.assertTrue(any("not traced" in note for note in ended["notes"]), ended["notes"])
            (other / str(job)).mkdir()
            (other / str(job) / "file").write_text("kept")
            self.request("DELETE", f"/v1/jobs/{job}")
            until("the job is gone", lambda: self.request("GET", f"/v1/jobs/{job}").status == 404)
            self.assertEqual((other / str(job) / "file").read_text(), "kept")
            self.assertEqual(list(self.parent.iterdir()) if not self.parent.is_symlink() else [], [])
            self.parent.unlink() if self.parent.is_symlink() else self.parent.rmdir()


if __name__ == "__main__":
    main()

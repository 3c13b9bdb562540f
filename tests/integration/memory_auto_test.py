#!/usr/bin/env python3
"""`--memory auto`: what past runs of a name used is the limit of the next, and a job that it refuses memory runs once
more with more. Simulated driver.

Usage: memory_auto_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import contextlib
import pathlib
import re
import shutil
import signal
import sqlite3
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from daemon_case import DaemonTest, MIB, until  # noqa: E402
from machine import program  # noqa: E402
from share_test import build_dir, learn_what_a_context_takes  # noqa: E402


class MemoryAuto(DaemonTest):
    gpus, memory, config = 1, "4GiB", '[sampling]\nrest = "20ms"\n'

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        learn_what_a_context_takes(cls.m)

    def setUp(self):
        (self.m.dir / "end").unlink(missing_ok=True)

    def tearDown(self):
        self.pause(False)
        super().tearDown()

    def pause(self, paused):
        self.assertEqual(self.request("PATCH", "/v1/queue/settings", {"paused": paused}).status, 200)

    def submit(self, name, script, *options):
        """The job's id, and what gpuman said beside it."""
        return self.queued("submit", "--gpus", "1", "--name", name, *options, "--", "/bin/sh", "-c", script)

    def queued(self, *words):
        done = self.m.run(*words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return int(re.match(r"(?:job|array) (\d+) ", done.stdout)[1]), done.stderr

    def uses(self, size):
        return "exec " + self.load(size, "--step", "64MiB", "--hold", "0s")

    def held(self, size):
        """Holds memory until there is the file `end`, and then finishes."""
        return (f"{self.load(size, '--step', '64MiB', '--interval', '5ms', '--hold', '1h')} & "
                f"until [ -e {self.m.dir}/end ]; do sleep 0.02; done; kill $!; exit 0")

    def ran(self, name, size, *options):
        job, said = self.submit(name, self.uses(size), *options)
        ended = self.wait(job)
        self.assertEqual(ended["state"], "finished", self.log(job))
        return ended, said

    def known(self, name, size="512MiB", times=3):
        """So many runs are known; returns their peak."""
        peaks = {self.ran(name, size)[0]["memory"]["peak"] for _ in range(times)}
        self.assertEqual(len(peaks), 1, peaks)
        return peaks.pop()

    def texts(self, job):
        return "\n".join(line["text"] for line in self.request("GET", f"/v1/jobs/{job}/why").json()["story"])

    def test_memory_is_chosen_from_past_runs_with_a_margin(self):
        self.assertRegex(self.ran("train", "512MiB", "--memory", "auto")[1], "all of the GPU, as no run of 'train' is known yet")
        peak = self.known("train", times=2)
        job, said = self.ran("train", "512MiB", "--memory", "auto")
        limit = job["memory"]["limit"]
        self.assertTrue(1.05 * peak < limit < 1.4 * peak and limit % (64 * MIB) == 0, (limit, peak))
        self.assertRegex(said, rf"memory: {limit // MIB}MiB, as the most of 3 runs of 'train' was {peak // MIB}MiB")
        self.assertEqual((job["queue"]["asked"]["memory_auto"], job["queue"]["asked"]["memory"]), (True, limit))
        self.assertRegex(self.m.run("job", "show", str(job["id"])).stdout,
                         rf"(?m)^GPU memory +at most {limit // MIB}MiB on each \(chosen by --memory auto\)$")

    def test_past_runs_of_unnamed_job_are_found_by_its_program(self):
        command = [program("gpuman-load"), "--alloc", "256MiB", "--hold", "0s"]
        for expected in ("no run of 'gpuman-load' is known", "the one known run of 'gpuman-load' used"):
            job, said = self.queued("submit", "--gpus", "1", "--memory", "auto", "--", *command)
            self.assertRegex(said, expected)
            self.wait(job)

    def test_refused_job_is_queued_once_more_and_finishes(self):
        self.known("grows")
        job, said = self.submit("grows", self.uses("1GiB"), "--memory", "auto")
        limit = int(re.search(r"memory: (\d+)MiB", said)[1]) * MIB
        ended = self.wait(job)
        self.assertEqual((ended["state"], ended["memory"]["limit"], ended["queue"]["attempts"]), ("finished", 2 * limit, 2))
        told = f"refused 64MiB at {limit // MIB}MiB; queued once more with {2 * limit / MIB / 1024:.1f}GiB"
        self.assertIn(told, [event["message"] for event in self.events() if event["kind"] == "job_requeued"])
        self.assertIn(f"requeued: {told}", self.texts(job))
        self.assertIn("allocation refused: 64MiB was refused at its limit", self.texts(job))
        again, _ = self.submit("grows", self.uses("1GiB"), "--memory", "auto")
        self.assertEqual(self.wait(again)["queue"]["attempts"], 1, "what it needs is known now")

    def test_job_refused_twice_has_failed(self):
        self.known("huge")
        job, _ = self.submit("huge", self.uses("3GiB"), "--memory", "auto")
        ended = self.wait(job)
        self.assertEqual((ended["state"], ended["queue"]["attempts"]), ("failed", 2))
        self.assertEqual(self.request("GET", f"/v1/jobs/{job}/why").json()["cause"], "memory_refused")
        again, said = self.queued("job", "redo", str(job))
        self.assertRegex(said, "memory: .* as a run of 'huge' was refused memory and needed", "what it needed at least is known")
        self.assertGreater(self.job(again)["memory"]["limit"], ended["memory"]["limit"])

    def test_refused_job_with_chosen_size_is_not_queued_again(self):
        job, _ = self.submit("fixed", self.uses("1GiB"), "--memory", "512MiB")
        self.assertEqual((self.wait(job)["state"], self.job(job)["queue"]["attempts"]), ("failed", 1))

    def stored(self, job):
        # A copy: on btrfs nobody but the daemon can open the database.
        with tempfile.TemporaryDirectory() as copy:
            for name in ("gpuman.db", "gpuman.db-wal"):
                shutil.copy(self.m.dir / "lib" / name, copy)
            try:
                with contextlib.closing(sqlite3.connect(f"{copy}/gpuman.db")) as database:
                    return database.execute("SELECT state FROM jobs WHERE id = ?", (job,)).fetchone()[0]
            except sqlite3.DatabaseError:  # the daemon wrote between the two copies
                return None

    def restart(self):
        self.m.stop_daemon(signal.SIGKILL)
        self.m.start_daemon()

    def test_a_restart_of_the_daemon_before_the_refusal_or_between_the_end_and_the_next_run_changes_nothing(self):
        self.known("resumed")
        gate = f"until [ -e {self.m.dir}/end ]; do sleep 0.02; done; "
        job, _ = self.submit("resumed", gate + self.uses("1GiB"), "--memory", "auto")
        limit = self.becomes(job, "running")["memory"]["limit"]
        self.pause(True)
        self.restart()
        (self.m.dir / "end").touch()
        until("it waits again", lambda: self.job(job)["memory"]["limit"] == 2 * limit, self.what_stands)
        # Nobody knows of the refusal if the daemon is killed before that is on the disk.
        until("that is on the disk", lambda: self.stored(job) == "queued", self.what_stands)
        self.restart()
        self.assertEqual(self.becomes(job, "queued")["memory"]["limit"], 2 * limit)
        self.pause(False)
        ended = self.wait(job)
        self.assertEqual((ended["state"], ended["queue"]["attempts"]), ("finished", 2), self.log(job))
        _, said = self.submit("resumed", "true", "--memory", "auto")
        self.assertRegex(said, "as the most of 4 runs of 'resumed' was", "the runs are known after the restart")

    def test_runs_of_another_user_do_not_count(self):
        self.known("shared-name", times=1)
        self.m.stop_daemon()
        with contextlib.closing(sqlite3.connect(self.m.dir / "lib" / "gpuman.db")) as database:
            database.execute("UPDATE accounting SET user = 'somebody' WHERE name = 'shared-name'")
            database.commit()
        self.m.start_daemon()
        _, said = self.submit("shared-name", "true", "--memory", "auto")
        self.assertRegex(said, "all of the GPU, as no run of 'shared-name' is known yet")

    def test_jobs_that_share_are_given_all_of_the_gpu_at_first(self):
        first = self.ran("shares", "512MiB", "--memory", "auto", "--share")[0]["memory"]["limit"]
        self.assertGreater(first, 3 << 30)
        second = self.ran("shares", "512MiB", "--memory", "auto", "--share")[0]["memory"]["limit"]
        self.assertLess(second, 1 << 30)

    def test_runs_without_the_library_count_by_samples_and_guard(self):
        job, _ = self.submit("plain", self.held("256MiB"), "--no-preload")
        until("its peak is known", lambda: (self.job(job)["memory"]["peak"] or 0) > 256 * MIB)
        (self.m.dir / "end").touch()
        self.assertEqual(self.wait(job)["state"], "finished")
        (self.m.dir / "end").unlink()
        go = self.m.dir / "go"
        job, _ = self.submit("plain", f"until [ -e {go} ]; do sleep 0.02; done; {self.held('2GiB')}", "--no-preload",
                             "--memory", "auto")
        limit = self.becomes(job, "running")["memory"]["limit"]
        self.pause(True)  # else it may start again before it is seen to wait
        go.touch()
        waits = until("it waits again", lambda: (view := self.job(job))["state"] == "queued" and view, self.what_stands)
        self.assertGreaterEqual(waits["memory"]["limit"], 2 * limit)
        self.assertIn("used more than its limit of", self.texts(job))

    def test_memory_auto_works_for_arrays_dry_runs_scripts_and_files(self):
        self.known("many")
        chosen = r"memory: \d+MiB, as the most of 3 runs of 'many' was"
        dry = self.m.run("submit", "--dry-run", "--gpus", "1", "--name", "many", "--memory", "auto", "--", "true")
        self.assertRegex(dry.stderr, chosen)
        with_notes = self.m.run_json("submit", "--dry-run", "--gpus", "1", "--name", "many", "--memory", "auto", "--", "true")
        self.assertRegex(with_notes["notes"][0], chosen)
        array, said = self.submit("many", self.uses("512MiB"), "--memory", "auto", "--array", "0-2")
        self.assertEqual(len(re.findall(chosen, said)), 1, said)
        limits = {self.wait(job)["memory"]["limit"] for job in range(array, array + 3)}
        self.assertEqual(len(limits), 1, limits)
        self.assertIsNotNone(limits.pop())
        script = self.m.dir / "many.sh"
        script.write_text("#!/bin/sh\n# GPUMAN --gpus 1 --name many --memory auto\ntrue\n")
        self.assertRegex(self.m.run("submit", str(script)).stderr, "memory: .* runs of 'many'")
        jobs = self.m.dir / "jobs.txt"
        jobs.write_text("--gpus 1 --name many --memory auto -- true\n"
                        '{"name": "new", "command": ["true"], "gpus": {"count": 1}, "memory_auto": true}\n')
        said = self.m.run("submit", "--jobs", str(jobs)).stderr
        self.assertRegex(said, "runs of 'many'(?s:.*)no run of 'new' is known")
        until("all have ended", lambda: not self.request("GET", "/v1/queue").json()["jobs"])
        ran = self.m.run("run", "--gpus", "1", "--tag", "many", "--memory", "auto", "--", "true")
        self.assertEqual((ran.returncode, bool(re.search("runs of 'many'", ran.stderr))), (0, True), ran.stderr)

    def test_a_finished_run_sets_the_memory_of_waiting_jobs(self):
        script = f'[ "$GPUMAN_ARRAY_TASK_ID" = 0 ] && {self.uses("512MiB")}; {self.held("512MiB")}'
        array, said = self.submit("sweep", script, "--memory", "auto", "--share", "--array", "0-5")
        self.assertIn("no run of 'sweep' is known yet", said)
        self.assertGreater(self.wait(array)["memory"]["limit"], 3 << 30)
        tasks = range(array + 1, array + 6)
        until("they run beside each other", lambda: sum(self.job(task)["state"] == "running" for task in tasks) >= 3, self.what_stands)
        (self.m.dir / "end").touch()
        limits = [self.wait(task)["memory"]["limit"] for task in tasks]
        self.assertTrue(all(limit < 1 << 30 for limit in limits), limits)
        self.assertRegex(self.texts(array + 5), r"memory chosen: \d+MiB, as ")

    def test_waiting_job_may_be_changed_to_memory_auto_and_back(self):
        self.known("later")
        job, _ = self.submit("later", "true", "--hold", "--memory", "2GiB")
        changed = self.m.run("job", "update", str(job), "--memory", "auto")
        self.assertEqual(changed.returncode, 0, changed.stderr)
        self.assertRegex(changed.stderr, "as the most of 3 runs of 'later' was")
        self.assertLess(self.job(job)["memory"]["limit"], 1 << 30)
        self.m.run("job", "update", str(job), "--memory", "3GiB")
        self.assertEqual(self.job(job)["memory"]["limit"], 3 << 30)
        self.assertNotIn("memory_auto", self.job(job)["queue"]["asked"])

    def test_memory_auto_where_no_size_can_be_chosen_is_refused_with_advice(self):
        for words, expected in (
                (("submit", "--memory", "auto", "--", "true"), "the job asks for none; give --gpus"),
                (("run", "--tag", "now", "--memory", "auto", "--", "true"), "--memory auto needs --gpus"),
                (("update", "now", "--memory", "auto"), "a size is chosen for jobs that wait in the queue"),
                (("restart", "now", "--memory", "auto"), "gpuman job redo JOB --memory auto"),
                (("submit", "--gpus", "1", "--memory", "auto", "--to", "slurm", "--", "true"), "--memory auto: what past runs used")):
            done = self.m.run(*words)
            self.assertEqual(done.returncode, 6 if "slurm" in words else 2, (words, done.stderr))
            self.assertIn(expected, done.stderr)
        answer = self.request("POST", "/v1/submissions", {"directory": "/", "jobs": [
            {"command": ["true"], "gpus": {"count": 1}, "memory": "1GiB", "memory_auto": True}]})
        self.assertEqual((answer.status, answer.code()), (400, "invalid_argument"), answer.body)
        answer = self.request("POST", "/v1/jobs", self.run_request("t", "true", memory_auto=True), checked=False)
        self.assertEqual((answer.status, answer.code()), (400, "invalid_argument"), answer.body)


if __name__ == "__main__":
    if not (build_dir() / "lib/libgpuman.so").exists():
        print("skipped: there is no libgpuman.so here")
        sys.exit(77)
    unittest.main(verbosity=2)

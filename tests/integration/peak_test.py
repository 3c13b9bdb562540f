#!/usr/bin/env python3
"""The peak of a job and what it was, and its refusals, are exact, however short they were (simulated driver).

Usage: peak_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree; GPUMAN_PROGRAMS=N: how many random
programs of each kind)
"""

import functools
import getpass
import json
import os
import pathlib
import re
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from daemon_case import DaemonTest, MIB, until  # noqa: E402
from machine import program  # noqa: E402
from share_test import build_dir, learn_what_a_context_takes  # noqa: E402

PROGRAM = pathlib.Path(__file__).with_name("peak_program.py")
PROGRAMS = int(os.environ.get("GPUMAN_PROGRAMS", "4"))


class PeakCase(DaemonTest):
    gpus, memory = 1, "4GiB"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        learn_what_a_context_takes(cls.m)

    @functools.cached_property
    def free_without_jobs(self):
        memory = self.request("GET", "/v1/gpus/0").json()["memory"]
        return memory["total"] - memory["reserved"]

    @functools.cached_property
    def context_bytes(self):
        """What a context takes, as the daemon has stored it."""
        (known,) = json.loads((self.m.dir / "lib" / "contexts.json").read_text()).values()
        return known["bytes"]

    def ran(self, tag, *words, **more):
        job = self.start(tag, f"exec {sys.executable} {PROGRAM} {' '.join(map(str, words))} --context {self.context_bytes}",
                         gpus=["0"], **more)
        ended = self.wait(job)
        self.assertEqual(ended["state"], "finished", self.log(job))
        said = json.loads(self.log(job).splitlines()[-1])
        self.assertTrue(0 < said["least"] <= said["most"], said)
        return ended, said

    def is_told_whole(self, ended, said):
        """A single process: each refusal counts, and what the peak was is known."""
        self.assertEqual(ended["memory"]["peak"], said["most"], said)
        parts = {kind: size for kind, size in ended["memory"]["peak_parts"].items() if size}
        self.assertEqual(parts, {kind: size for kind, size in said["parts"].items() if size}, said)
        self.counts_refusals(ended, said)

    def counts_refusals(self, ended, said):
        refusal = ended["refusal"]
        self.assertEqual(refusal["count"] if refusal else 0, said["refused"], (refusal, said))
        if refusal:
            self.assertEqual([refusal["first"]["asked"], refusal["asked"]], said["asked"], (refusal, said))
            for one in (refusal["first"], refusal):
                self.assertEqual(sum(one["parts"].values()), one["used"], refusal)
                self.assertLessEqual(one["pools_unused"], one["parts"]["pools"])
                # A job that shares waited for room, and the driver is not asked then. These programs' memory is counted to
                # the byte: what the daemon takes for uncounted is from samples, and may be gone.
                counted = one["used"] - one["parts"]["uncounted"]
                free = None if refusal["by"] == "sharing" else self.free_without_jobs - counted
                self.assertEqual(one["device_free"], free, refusal)

    def counts_refusals_but_for_interrupted_calls(self, ended, said):
        """A call in which a process was killed may have been refused, and may have been written down by half."""
        refusal, unsure = ended["refusal"], said["interrupted"]
        if not refusal:
            return self.assertEqual(said["refused"], 0, said)
        self.assertIn(refusal["asked"], [said["asked"][1], *unsure], (refusal, said))
        if not refusal["first"]:
            return self.assertTrue(unsure, (refusal, said))
        self.assertIn(refusal["first"]["asked"], [said["asked"][0], *unsure], (refusal, said))
        self.assertTrue(said["refused"] <= refusal["count"] <= said["refused"] + len(unsure), (refusal, said))


class Peak(PeakCase):
    def test_peak_of_single_process_is_exact(self):
        for seed in range(PROGRAMS):
            self.is_told_whole(*self.ran(f"alone{seed}", seed, "--steps", 100))

    def test_peak_of_program_at_its_limit_is_exact(self):
        refused = 0
        for seed in range(PROGRAMS):
            ended, said = self.ran(f"limit{seed}", seed, "--steps", 100, memory=700 * MIB)
            self.is_told_whole(ended, said)
            self.assertLessEqual(ended["memory"]["peak"], 700 * MIB)
            refused += said["refused"]
        self.assertGreater(refused, PROGRAMS, "most programs are refused memory several times")

    def test_peak_of_program_with_pool_is_exact(self):
        """Near its limit, too, where it has memory aside that no program has."""
        for seed in range(PROGRAMS):
            for limit in (None, 700 * MIB):
                self.is_told_whole(*self.ran(f"pool{seed}", seed, "--steps", 100, "--pool", memory=limit))

    def peaks_of(self, job):
        """Of the job on its GPU, and of its processes: pid and bytes."""
        whole, *processes = self.request("GET", f"/v1/jobs/{job['id']}/why").json()["peaks"]
        self.assertEqual([whole["pid"], whole["number"], whole["bytes"]], [None, "0", job["memory"]["peak"]])
        self.assertEqual(sorted(processes, key=lambda one: -one["bytes"]), processes)
        for one in processes:
            self.assertEqual([sum(one["parts"].values()), one["number"]], [one["bytes"], "0"], one)
            self.assertEqual(one["program"], pathlib.Path(sys.executable).name[:16])
        return [(one["pid"], one["bytes"]) for one in processes]

    def test_peak_of_several_processes_is_of_their_sum(self):
        for seed in range(PROGRAMS):
            ended, said = self.ran(f"three{seed}", seed, "--steps", 60, "--processes", 3)
            self.assertEqual(sorted(self.peaks_of(ended)), sorted((pid, most) for pid, _, most in said["processes"]), said)
            self.assertEqual(ended["memory"]["peak"], said["most"], (seed, said))
            self.assertEqual(sum(ended["memory"]["peak_parts"].values()), said["most"], said)
            self.counts_refusals(ended, said)

    def test_peak_is_bounded_where_processes_are_killed(self):
        refused = 0
        for seed in range(PROGRAMS):
            ended, said = self.ran(f"killed{seed}", seed, "--steps", 400, "--processes", 3, "--kills", 8)
            self.counts_refusals_but_for_interrupted_calls(ended, said)
            refused += said["refused"]
            self.assertTrue(said["least"] <= ended["memory"]["peak"] <= said["most"], (seed, said, ended["memory"]))
            bounds = {pid: (least, most) for pid, least, most in said["processes"] if most}
            for pid, bytes_ in (peaks := self.peaks_of(ended)):
                self.assertTrue(bounds[pid][0] <= bytes_ <= bounds[pid][1], (pid, bytes_, said))
            self.assertTrue({pid for pid, (least, _) in bounds.items() if least} <= {pid for pid, _ in peaks}, (peaks, said))
        self.assertGreater(refused, PROGRAMS, "most programs are refused memory several times")

    def test_statistics_by_name_have_times_and_utilization_of_runs(self):
        for gpus in (["0"], []):  # and one that names no GPU
            job = self.start("busy", "exec " + self.load("100MiB", "--hold", "8s", "--kernel-time", "50ms"), gpus=gpus)
            self.assertEqual(self.wait(job)["state"], "finished")
        self.wait(self.start("quick", "exit 0", gpus=["0"]))
        rows = {row["name"]: row for row in self.m.run_json("stats", "--by", "name")["rows"]}
        time, busy = rows["busy"]["run_time"], rows["busy"]["utilization"]
        self.assertEqual([time["runs"], busy["runs"]], [2, 2])
        self.assertTrue(8 <= time["median_s"] <= time["p95_s"] == time["most_s"], time)
        self.assertTrue(0 < busy["median"] <= busy["p95"] == busy["most"] <= 100, busy)
        self.assertIsNone(rows["quick"]["utilization"])
        shown = self.m.run("stats", "--by", "name").stdout
        self.assertRegex(shown, r"(?m)^NAME +TIME MEDIAN +95% +MOST +OF RUNS +UTIL MEDIAN +95% +MOST +OF RUNS\n(.*\n)*busy +(\S+ +){3}2 ")
        self.assertRegex(shown, r"(?m)^quick .* 1 +n/a +n/a +n/a +0$")

    def test_statistics_by_name_have_the_peaks_of_runs(self):
        for size in ("100MiB", "300MiB", "200MiB"):
            self.wait(self.start("named", "exec " + self.load(size, "--hold", "0s"), gpus=["0"]))
        used = {"runs": 3, **{name: self.context_bytes + size * MIB for name, size in
                              (("median", 200), ("p95", 300), ("most", 300))}}
        for more in ((), ("-u", getpass.getuser())):
            rows = {row["name"]: row for row in self.m.run_json("stats", "--by", "name", *more)["rows"]}
            self.assertEqual(rows["named"]["peak"], used)
        self.assertEqual(self.m.run_json("stats", "--by", "name", "-u", "nobody")["rows"], [])
        self.assertRegex(self.m.run("stats", "--by", "name").stdout,
                         r"(?m)^NAME .* PEAK MEDIAN +95% +MOST +OF RUNS\n(.*\n)*named +3 +3 +3 +0 .* 304MiB +404MiB +404MiB +3$")
        self.assertIn(f",3,{used['median']},{used['p95']},{used['most']},", self.m.run("stats", "--by", "name", "-o", "csv").stdout)
        self.assertRegex(self.m.run("stats", "--waste").stdout,
                         rf"(?m)^USER +RUNS +GIB-HOURS +KNOWN +UNUSED +PART\n(.*\n)*{getpass.getuser()} +\d+ .* \d+%$", "by users")
        self.assertRegex(self.m.run("stats", "--waste", "--by", "name").stdout,
                         r"(?m)^NAME +RUNS +GIB-HOURS +KNOWN +UNUSED +PART\n(.*\n)*named +3 .* 9\d%$")

    def test_job_with_much_unused_memory_gets_a_notice(self):
        for tag, limit, told in (("wide", "3GiB", True), ("fits", "800MiB", False)):
            job = self.start(tag, "exec " + self.load("200MiB", "--hold", "0s"), gpus=["0"], memory=limit)
            self.assertEqual(self.wait(job)["state"], "finished")
            notes = [note for note in self.job(job)["notes"] if "is enough" in note]
            self.assertEqual(notes, [self.ENOUGH] if told else [])
            self.assertEqual([event["message"] for event in self.events_of(job)], notes)
            story = self.request("GET", f"/v1/jobs/{job}/why").json()
            self.assertEqual(story["because"], "it finished with exit status 0" + (f"; {self.ENOUGH}" if told else ""))
            self.assertEqual([line["text"] for line in story["story"] if "is enough" in line["text"]],
                             [f"limit above need: {self.ENOUGH}"] if told else [])
            waited = self.m.run("job", "wait", str(job))
            self.assertEqual((waited.returncode, f"gpuman: job {job} '{tag}': {self.ENOUGH}\n" in waited.stderr), (0, told), waited.stderr)
        (event,) = self.events_of(self.job("wide")["id"])
        self.assertEqual(event["data"], {"limit": 3072 * MIB, "peak": self.context_bytes + 200 * MIB, "enough": 384 * MIB})

    ENOUGH = "its limit was 3GiB on each GPU, and it used 304MiB at most: `--memory 384MiB` is enough for such a run"

    def events_of(self, job):
        return [event for event in self.events() if event["job"] == job and event["kind"] == "limit_above_need"]

    def test_waiting_command_prints_notice_of_unused_memory_at_the_end(self):
        load = ("--memory", "3GiB", "--", program("gpuman-load"), "--alloc", "200MiB", "--hold", "0s")
        for words in (("run", "--tag", "front", "--gpu", "0", "--wait"), ("submit", "--name", "queued", "--gpus", "1", "--wait"),
                      ("run", "--tag", "turns", "--gpus", "1")):
            done = self.m.run(*words, *load)
            self.assertEqual(done.returncode, 0, done.stderr)
            said = [line for line in done.stderr.splitlines() if "is enough" in line]
            self.assertRegex("\n".join(said), rf"^gpuman: job \d+ '{words[2]}': {re.escape(self.ENOUGH)}$")
        done = self.m.run("submit", "--name", "tasks", "--array", "1-2", "--gpus", "1", "--wait", *load)
        self.assertEqual(sum(line.endswith(f"'tasks': {self.ENOUGH}") for line in done.stderr.splitlines()), 2, done.stderr)
        self.assertNotIn("is enough", self.m.run("run", "--tag", "json", "--gpu", "0", "--wait", "--json", *load).stderr)

    def test_restarted_job_gets_the_notice_of_unused_memory_once(self):
        job = self.start("again", "exec " + self.load("200MiB", "--hold", "0s"), gpus=["0"], memory="3GiB", restart="always")
        until("it has run three times", lambda: self.job(job)["restarts"] >= 2)
        self.assertEqual(self.events_of(job), [])

    def killed_meanwhile(self, tag, before, after="exit 0", **more):
        """Starts a job that does the one, waits, and does the other; the daemon is killed while it waits. Returns the job, and
        the file that lets it go on."""
        flag = self.m.dir / f"flag-{tag}"
        job = self.start(tag, f"{before}; echo waits; while [ ! -e {flag} ]; do sleep 0.05; done; {after}", gpus=["0"], **more)
        until("it waits", lambda: "waits" in self.log(job), lambda: self.log(job))
        self.m.stop_daemon(signal.SIGKILL)
        return job, flag

    def test_peak_is_known_when_job_ended_without_daemon(self):
        """Nothing of the job is there any more but what its keeper has saved."""
        self.ends_without_a_daemon()

    def test_peak_is_known_when_next_daemon_learns_late_of_gpus(self):
        self.ends_without_a_daemon(late=True)

    def ends_without_a_daemon(self, late=False):
        early = []  # jobs that had ended before a GPU was known
        for seed in range(PROGRAMS):
            program = f"{sys.executable} {PROGRAM} {seed} --steps 100 --context {self.context_bytes}"
            job, flag = self.killed_meanwhile(f"{'late' if late else 'away'}{seed}", program, memory=700 * MIB)
            flag.touch()
            journal = self.m.dir / "lib" / "jobs" / str(job) / "journal"
            until("it has ended", lambda journal=journal: '"t":"end"' in journal.read_text())
            if late:
                self.inject("nvml-slow", "--delay", "500ms")
            self.m.start_daemon()
            ended = self.wait(job)
            self.assertEqual(ended["state"], "finished", self.log(job))
            if late:
                if not self.request("GET", "/v1/gpus").json()["gpus"]:
                    early.append(job)
                self.inject("clear")
                until("the GPU is known", lambda: self.request("GET", "/v1/gpus").json()["gpus"])
            self.is_told_whole(ended, json.loads(self.log(job).splitlines()[0]))
            self.assertTrue(self.peaks_of(ended))
        self.assertEqual(bool(early), late)

    def test_peaks_before_and_after_kill_of_daemon_both_count(self):
        load = "exec " + self.load("100MiB", "--hold", "0s")
        job, flag = self.killed_meanwhile("two", self.load("300MiB", "--hold", "0s"), load)
        self.m.start_daemon()
        flag.touch()
        ended = self.wait(job)
        self.assertEqual([ended["state"], ended["memory"]["peak"]], ["finished", self.context_bytes + 300 * MIB], ended["memory"])

    def test_peak_is_known_while_the_job_runs(self):
        job = self.start("runs", "exec " + self.load("100MiB", "--hold", "1h"), gpus=["0"])
        until("its peak is known", lambda: self.job(job)["memory"]["peak"] == self.context_bytes + 100 * MIB,
              lambda: self.job(job)["memory"])


class PeakOfASharingJob(PeakCase):
    """With a GPU of its own: what moves the memory of sharing jobs has a context there for some time."""

    def test_peak_of_sharing_job_is_exact(self):
        for seed in range(PROGRAMS):
            self.is_told_whole(*self.ran(f"shares{seed}", seed, "--steps", 100, share=True))


if __name__ == "__main__":
    if not (build_dir() / "lib/libgpuman.so").exists():
        print("skipped: there is no libgpuman.so here")
        sys.exit(77)
    unittest.main(verbosity=2)

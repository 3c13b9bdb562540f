#!/usr/bin/env python3
"""The energy of jobs that have a GPU alone, in turns and at once, and what it costs. Simulated driver, whose counter knows
the power of an idle GPU and that of one where a kernel runs.

Usage: energy_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import csv
import io
import json
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from daemon_case import DaemonTest, until  # noqa: E402
from machine import program  # noqa: E402
from share_test import learn_what_a_context_takes  # noqa: E402

ABOVE_REST = 0.9 * (700 - 78.29)  # watts that a kernel draws on the simulated H200
CONFIG = """
[sampling]
rest = "20ms"
slow = "100ms"
[share]
capacity = "1046MiB"
quantum_min = "400ms"
quantum_max = "1s"
idle = "100ms"
"""


class EnergyCase(DaemonTest):
    profile, gpus, memory, config = "h200", 1, "4GiB", CONFIG

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        learn_what_a_context_takes(cls.m)

    def setUp(self):
        self.loads = 0
        until("the GPU rests", lambda: not self.request("GET", "/v1/gpus/0").json()["processes"])
        # The rest power is known from two seconds of rest on. What was used before may be told in one of these steps, each
        # of which takes longer than a second.
        for _ in range(3):
            rested = self.parts()["idle"]
            until("its rest power was seen", lambda: self.parts()["idle"] > rested + 150)

    def parts(self):
        """Returns the joules of jobs, idle time and others, and the counter."""
        parts = {part: self.metric("gpuman_gpu_energy_part_joules_total", part=part) for part in ("jobs", "idle", "others")}
        return {**parts, "counter": self.metric("gpuman_gpu_energy_joules_total")}

    def adds_up_since(self, before):
        """The sum of the parts has grown as the counter has; the last reading may not be split yet."""
        def adds_up():
            now = self.parts()
            counted = now["counter"] - before["counter"]
            split = sum(now[part] - before[part] for part in ("jobs", "idle", "others"))
            return counted > 500 and abs(split - counted) < 0.02 * counted and now
        return until("the parts are the counter", adds_up, lambda: f"{before} {self.parts()}")

    def work(self, tag, *options, size="8MiB", share=True, **more):
        """Starts a load that works until it is told to end; its own file of iterations is its log."""
        self.loads += 1
        end = self.m.dir / f"end-{tag}-{self.loads}"
        job = self.start(tag, "exec " + self.load(size, "--step", "4MiB", "--until", str(end), "--json", *options),
                         gpus=["0"], share=share, **more)
        self.addCleanup(end.touch)
        return job, end

    def iterations(self, job):
        """Returns how long each iteration took, from its launch to its end, with the wait for a turn."""
        lines = [json.loads(line) for line in self.log(job).splitlines() if line.startswith("{") and line.endswith("}")]
        return [line["seconds"] for line in lines if line["event"] == "iteration"]

    def ends(self, job, end):
        end.touch()
        view = self.wait(job)
        self.assertEqual(view["state"], "finished", view)
        return view

    def expect_energy_of_work(self, job, energy):
        """An iteration of a job that never waits is one kernel, and takes longer on a loaded machine."""
        worked = sum(self.iterations(job)) * ABOVE_REST
        self.assertGreater(energy, 0.3 * worked)
        self.assertLess(energy, 1.2 * worked)

    def why(self, job):
        return self.request("GET", f"/v1/jobs/{job}/why").json()


class Split(EnergyCase):
    def test_a_job_alone_has_used_what_its_work_draws_and_the_rest_is_idle(self):
        before = self.parts()
        job, end = self.work("alone", "--kernel-time", "20ms", share=False)
        until("it worked", lambda: (self.job(job)["energy_j"] or 0) > 600)
        energy = self.ends(job, end)["energy_j"]
        self.expect_energy_of_work(job, energy)
        now = self.adds_up_since(before)
        self.assertGreater(now["idle"], before["idle"])
        self.assertAlmostEqual(now["jobs"] - before["jobs"], energy, delta=0.15 * energy)
        self.assertEqual(now["others"], before["others"], "a process of a job that has just ended is no stranger")

    def test_jobs_in_turns_have_each_what_they_used_in_their_turns(self):
        before = self.parts()
        jobs = [self.work("always", "--kernel-time", "5ms"), self.work("seldom", "--kernel-time", "5ms", "--duty", "0.25")]
        hand_overs = lambda: sum(gpu["hand_overs"] for gpu in self.request("GET", "/v1/share").json()["gpus"])  # noqa: E731
        until("they take turns", lambda: hand_overs() >= 10, self.what_stands)
        each = [self.ends(job, end)["energy_j"] / len(self.iterations(job)) for job, end in jobs]
        # Their kernels are alike, and one works a quarter of the time: split by time alone it would have four times as much
        # for each. How long a kernel takes depends on what else the machine does.
        self.assertLess(max(each) / min(each), 2.7, each)
        self.adds_up_since(before)

    def test_of_jobs_at_once_the_one_without_work_has_next_to_nothing(self):
        worker, end = self.work("worker", "--kernel-time", "20ms", size="1MiB")
        until("it works", lambda: self.job(worker)["energy_j"])
        sleeper = self.start("sleeper", "exec " + self.load("1MiB", "--hold", "1h"), gpus=["0"], share=True)
        def there():
            return {process["job"] for process in self.request("GET", "/v1/gpus/0").json()["processes"]}
        until("both are there", lambda: {worker, sleeper} <= there(), self.what_stands)
        started = self.job(sleeper)["energy_j"] or 0
        until("one works", lambda: (self.job(worker)["energy_j"] or 0) > 2000)
        energy = self.ends(worker, end)["energy_j"]
        self.expect_energy_of_work(worker, energy)
        self.assertLess(self.job(sleeper)["energy_j"] - started, 0.3 * energy)

    def test_energy_of_processes_outside_jobs_counts_as_others(self):
        before = self.parts()
        outside = subprocess.Popen([program("gpuman-load"), "--alloc", "1MiB", "--kernel-time", "20ms", "--hold", "1h"],
                                   env=self.m.env, stdout=subprocess.DEVNULL)
        self.addCleanup(outside.wait)
        self.addCleanup(outside.kill)
        until("others use energy", lambda: self.parts()["others"] > before["others"] + 300)
        self.assertAlmostEqual(self.parts()["jobs"], before["jobs"], delta=50)
        self.adds_up_since(before)

    def test_a_suspended_job_uses_nothing(self):
        job, end = self.work("away", "--kernel-time", "20ms")
        until("it worked", lambda: (self.job(job)["energy_j"] or 0) > 300)
        self.assertEqual(self.request("POST", f"/v1/jobs/{job}/suspend").status, 200)
        self.becomes(job, "suspended")
        idle = self.parts()["idle"]
        until("the GPU was idle", lambda: self.parts()["idle"] > idle + 40)
        used, idle = self.job(job)["energy_j"], self.parts()["idle"]
        until("and still is", lambda: self.parts()["idle"] > idle + 80)
        self.assertEqual(self.job(job)["energy_j"], used)
        self.assertEqual(self.request("POST", f"/v1/jobs/{job}/resume").status, 200)
        self.becomes(job, "running")
        self.assertGreaterEqual(self.ends(job, end)["energy_j"], used)

    def test_a_daemon_that_was_killed_loses_nothing(self):
        before = self.parts()
        job, end = self.work("survivor", "--kernel-time", "20ms", share=False)
        until("it worked", lambda: (self.job(job)["energy_j"] or 0) > 300)
        self.m.stop_daemon(signal.SIGKILL)
        time.sleep(1)
        self.m.start_daemon()
        self.becomes(job, "running")
        used = until("it is measured", lambda: self.job(job)["energy_j"])
        until("it works on", lambda: self.job(job)["energy_j"] > used + 300)
        self.expect_energy_of_work(job, self.ends(job, end)["energy_j"])
        self.adds_up_since(before)


class Cost(EnergyCase):
    config = CONFIG + '[cost]\ngpu_hour = 3600\nkwh = 1000\ncurrency = "EUR"\n'

    def test_a_job_tells_what_it_used_and_what_that_costs(self):
        job, end = self.work("train", "--kernel-time", "20ms", share=False)
        until("it worked", lambda: (self.job(job)["energy_j"] or 0) > 300)
        self.assertRegex(self.why(job)["used"], r"^It has used [\d.]+ Wh, [\d.]+ EUR with its GPU time so far\.$")
        view = self.ends(job, end)
        self.assertGreater(view["cost"], view["energy_j"] / 3600)
        self.assertEqual(view["currency"], "EUR")
        self.assertRegex(self.m.run("why", str(job)).stdout, r"\n  It used [\d.]+ Wh, [\d.]+ EUR with its GPU time\.\n")
        row = next(row for row in self.request("GET", "/v1/stats?by=name").json()["rows"] if row["name"] == "train")
        self.assertAlmostEqual(row["energy_j"], view["energy_j"], places=2)
        self.assertAlmostEqual(row["cost"], row["gpu_hours"] * 3600 + row["energy_j"] / 3600, places=3)
        self.assertEqual(self.metric("gpuman_cost_kwh", currency="EUR"), 1000)

    def test_statistics_are_by_day_and_in_csv(self):
        job, end = self.work("daily", "--kernel-time", "20ms", share=False)
        until("it worked", lambda: (self.job(job)["energy_j"] or 0) > 100)
        day = self.ends(job, end)["ended_at"][:10]
        rows = list(csv.DictReader(io.StringIO(self.m.run("stats", "--by", "day", "-o", "csv").stdout)))
        row = next(row for row in rows if row["day"] == day)
        self.assertGreater(float(row["energy_j"]), 0)
        self.assertGreater(float(row["cost"]), 0)
        self.assertEqual(row["currency"], "EUR")
        self.assertRegex(self.m.run("stats", "--by", "day").stdout.splitlines()[0], r"^DAY .* ENERGY .* COST EUR$")
        self.assertEqual(self.request("GET", "/v1/stats?by=week").status, 400)


class Unmeasured(DaemonTest):
    """A kind of GPU that does not count its energy."""
    profile = "rtx4050"

    def test_unmeasured_energy_and_its_cost_are_null(self):
        job = self.start("blind", "exec " + self.load("1MiB", "--kernel-time", "5ms", "--hold", "200ms"))
        view = self.wait(job)
        self.assertEqual((view["energy_j"], view["cost"], view["currency"]), (None, None, None))
        self.assertIsNone(self.request("GET", f"/v1/jobs/{job}/why").json()["used"])
        stats = self.request("GET", "/v1/stats?by=day").json()
        self.assertEqual((stats["total"]["energy_j"], stats["total"]["cost"], stats["currency"]), (None, None, None))
        self.assertNotIn("COST", self.m.run("stats").stdout)
        self.assertFalse(re.search(r"^gpuman_(gpu_energy_part|job_energy)", self.request("GET", "/metrics").body.decode(), re.M))


if __name__ == "__main__":
    unittest.main()

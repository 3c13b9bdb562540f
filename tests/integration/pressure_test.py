#!/usr/bin/env python3
"""A GPU that runs full: jobs leave it instead of being ended, and come back, on the simulated driver.

Usage: pressure_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import json
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from daemon_case import DaemonTest, MIB, until  # noqa: E402
from machine import build_dir, program  # noqa: E402

CONFIG = """
[sampling]
rest = "20ms"
[guard]
reserve = "384MiB"
on_pressure = "suspend"
return_after = "200ms"
[suspend]
patience = "1m"
"""


class PressureCase(DaemonTest):
    gpus, memory, config = 1, "1536MiB", CONFIG

    def setUp(self):
        self.foreigners = []

    def tearDown(self):
        for process in self.foreigners:
            process.kill()
            process.wait()
            process.stdout.close()
        super().tearDown()
        until("the GPU is empty", lambda: not self.request("GET", "/v1/gpus/0").json()["processes"])

    def said(self, ref):
        return [json.loads(line) for line in self.log(ref).splitlines() if line.startswith("{")]

    def verified(self, tag, size, hold="1h", **more):
        """Starts a job that works on its memory, for two fifths of this time, and then verifies it. Returns once the job
        holds its memory."""
        options = ["--verify", "--kernel-time", "1ms", "--duty", "0.4", "--json", "--hold", hold]
        job = self.start(tag, "exec " + self.load(size, *options), **more)
        until("it holds memory", lambda: any(e["event"] == "alloc" for e in self.said(tag)))
        return job

    def foreign(self, size):
        """Starts a process outside gpuman."""
        process = subprocess.Popen([program("gpuman-load"), "--alloc", size, "--hold", "1h", "--json"], env=self.m.env,
                                   stdout=subprocess.PIPE, text=True)
        self.foreigners.append(process)
        while '"alloc"' not in process.stdout.readline():
            self.assertIsNone(process.poll())
        return process

    def of_job(self, job, kind=None):
        return [e for e in self.events() if e["job"] == job and (kind is None or e["kind"] == kind)]

    def free(self):
        return self.request("GET", "/v1/gpus/0").json()["memory"]["free"]


class SuspendTest(PressureCase):
    def test_unchanged_memory_is_not_copied_again(self):
        low = self.start("still", "exec " + self.load("256MiB", "--verify", "--json", "--hold", "1h"), priority=10, share=True)
        self.verified("high", "256MiB", priority=200, idle_suspend_s=3600)  # so the mover stays, with the key of its hash
        until("it has written its memory", lambda: any(e["event"] == "alloc" for e in self.said("still")))
        for number in (1, 2):
            other = self.foreign("300MiB")
            self.becomes("still", "suspended")
            until("the event", lambda count=number: len(self.of_job(low, "job_suspended")) == count)
            other.kill()
            other.wait()
            until("it is back", lambda count=number: len(self.of_job(low, "job_resumed")) == count)
        first, second = (event["data"] for event in self.of_job(low, "job_suspended"))
        self.assertEqual(second["evicted"], first["evicted"])
        self.assertGreaterEqual(first["copied"], 256 * MIB)
        self.assertEqual(second["copied"], 0)

    def test_the_least_important_job_leaves_and_comes_back_with_its_data(self):
        low = self.verified("low", "256MiB", hold="40s", priority=10, share=True)  # the guard leaves it alone for 10 s
        high = self.verified("high", "256MiB", priority=200)
        other = self.foreign("300MiB")
        job = self.becomes("low", "suspended")
        self.assertEqual(job["reason"], "device_pressure")
        self.assertRegex(job["reason_detail"], r"GPU 0 had .* free, below its reserve of 384MiB .*job \d+ 'low'.*priority 10")
        self.assertGreaterEqual(job["memory"]["host"], 256 * MIB)
        asked = self.of_job(low, "device_pressure_suspend")
        self.assertEqual(len(asked), 1)
        self.assertGreater(asked[0]["data"]["used"], 256 * MIB)
        self.assertLess(asked[0]["data"]["free"], 384 * MIB)
        until("there is room for others", lambda: self.free() >= 500 * MIB)
        self.assertEqual(self.job("high")["state"], "running")
        self.assertIsNone(other.poll(), "nothing is done to what is not ours")
        self.assertRegex(until("it says what it waits for", lambda: "waits for" in self.job("low")["reason_detail"]
                               and self.job("low")["reason_detail"]), r"waits for .* on GPU .*, where .* are free")
        other.kill()
        other.wait()
        ended = self.wait("low")
        self.assertEqual(ended["state"], "finished", self.log("low"))
        checks = [e for e in self.said("low") if e["event"] == "verify"]
        self.assertTrue(checks)
        self.assertFalse([e for e in checks if e["wrong_words"]])
        self.assertEqual([e["kind"] for e in self.of_job(low) if "suspend" in e["kind"] or e["kind"] == "job_resumed"],
                         ["device_pressure_suspend", "job_suspended", "job_resumed"])
        self.assertFalse(self.of_job(high, "device_pressure"))

    def test_a_job_that_its_user_suspends_stays_where_it_is(self):
        self.verified("held", "128MiB", priority=10)
        self.verified("other", "128MiB", priority=20)
        process = self.foreign("632MiB")
        self.becomes("held", "suspended")
        self.becomes("other", "suspended")
        self.assertEqual(self.request("POST", "/v1/jobs/held/suspend").json()["reason"], "held_by_user")
        process.kill()
        process.wait()
        self.becomes("other", "running")
        job = self.job("held")
        self.assertEqual((job["state"], job["reason"]), ("suspended", "held_by_user"))
        self.assertEqual(self.request("POST", "/v1/jobs/held/resume").json()["state"], "running")

    def test_resume_by_user_waits_until_there_is_room(self):
        self.verified("low", "256MiB", priority=10)
        self.verified("high", "256MiB", priority=200)
        other = self.foreign("300MiB")
        self.becomes("low", "suspended")
        answer = self.request("POST", "/v1/jobs/low/resume").json()
        self.assertEqual((answer["state"], answer["reason"]), ("suspended", "resources"))
        other.kill()
        self.becomes("low", "running")

    def test_a_job_that_could_not_come_back_beside_the_reserve_is_ended(self):
        self.start("big", self.load("1000MiB", "--hold", "1h"))
        ended = self.wait("big")
        self.assertEqual((ended["state"], ended["reason"]), ("killed", "device_pressure"))
        self.assertIn("could not be suspended", ended["reason_detail"])

    def test_job_suspended_by_pressure_comes_back_after_kill_of_daemon(self):
        self.verified("low", "256MiB", priority=10)
        self.verified("high", "256MiB", priority=200)
        other = self.foreign("300MiB")
        self.becomes("low", "suspended")
        self.m.stop_daemon(9)
        self.m.start_daemon()
        self.assertEqual(self.becomes("low", "suspended")["reason"], "device_pressure")
        other.kill()
        other.wait()
        self.becomes("low", "running")


class OldDriverTest(PressureCase):
    driver = "535.183.01"

    def test_a_job_that_cannot_be_suspended_is_ended_as_before(self):
        low = self.start("low", self.load("256MiB", "--hold", "1h"), priority=10, preload=False)
        self.start("high", self.load("256MiB", "--hold", "1h"), priority=200, preload=False)
        until("both are there", lambda: len(self.request("GET", "/v1/gpus/0").json()["processes"]) == 2)
        other = self.foreign("300MiB")
        ended = self.wait("low")
        self.assertEqual((ended["state"], ended["reason"]), ("killed", "device_pressure"))
        self.assertRegex(ended["reason_detail"], "which could not be suspended: .*cannot checkpoint")
        self.assertEqual(self.job("high")["state"], "running")
        self.assertIsNone(other.poll())
        kinds = [e["kind"] for e in self.of_job(low)]
        self.assertLess(kinds.index("device_pressure_suspend"), kinds.index("device_pressure"))


if __name__ == "__main__":
    if not (build_dir() / "lib/libgpuman.so").exists():
        print("libgpuman.so is not built")
        sys.exit(77)
    unittest.main(verbosity=2)

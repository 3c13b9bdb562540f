#!/usr/bin/env python3
"""The doctor: its findings on a simulated machine, with injected faults, and without a daemon.

Usage: doctor_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from daemon_case import DaemonTest, until  # noqa: E402
from machine import program  # noqa: E402


class DoctorTest(DaemonTest):
    gpus, memory, profile = 2, "4GiB", "h200"
    config = '[sampling]\nrest = "20ms"\nslow = "100ms"\n[health]\nkernel_log = ""\n[queue]\nhoarder_idle = "100ms"\n'

    def tearDown(self):
        self.inject("clear", "--gpu", "0")
        self.inject("clear", "--counters")
        super().tearDown()

    def findings(self, check):
        return [f for f in self.m.run_json("doctor")["findings"] if f["check"] == check]

    def test_a_machine_as_it_should_be(self):
        for check in ("driver", "driver_versions", "gpus", "health", "persistence", "ecc", "throttling", "daemon", "access",
                      "config", "mps", "peer_access"):
            self.assertEqual([f["severity"] for f in self.findings(check)], ["ok"], self.findings(check))

    def test_throttling_is_found_with_its_gpu_and_a_way_out(self):
        self.inject("throttle", "--gpu", "0")
        found = until("it is held back", lambda: [f for f in self.findings("throttling") if f["severity"] == "error"])
        self.assertEqual(found[0]["subject"], "GPU 0")
        self.assertIn("heat", found[0]["text"])
        self.assertTrue(found[0]["remedy"])
        self.assertFalse(self.m.run_json("doctor")["ok"])
        self.assertEqual(self.m.run("doctor").returncode, 0)
        self.assertEqual(self.m.run("doctor", "--strict").returncode, 1)

    def test_faults_that_the_daemon_knows_are_shown(self):
        self.inject("xid", "62", "--gpu", "0")
        found = until("it is told", lambda: [f for f in self.findings("health") if f["severity"] == "error"])
        self.assertIn("xid_62", found[0]["text"])
        self.inject("lost", "--gpu", "0")
        until("it cannot be talked to", lambda: [f for f in self.findings("gpus") if f["severity"] == "error"])

    def test_a_process_that_holds_memory_and_does_nothing_is_named(self):
        holder = subprocess.Popen([program("gpuman-load"), "--alloc", "64MiB", "--hold", "1h"], env=self.m.env,
                                  stdout=subprocess.DEVNULL)
        try:
            found = until("it is found idle", lambda: [f for f in self.findings("idle_processes") if f["severity"] == "warning"])
            self.assertIn(f"pid {holder.pid}", found[0]["text"])
        finally:
            holder.kill()
            holder.wait()

    def test_without_a_daemon_it_says_so_and_looks_at_the_rest(self):
        done = self.m.run("doctor", "--socket", str(self.m.dir / "nobody.sock"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"error +daemon: the daemon cannot be asked")
        self.assertRegex(done.stdout, r"ok +gpus: 2 GPUs answer")
        self.assertRegex(done.stdout, r"unknown +idle_processes: n/a")

    def test_the_first_call_is_measured(self):
        measured = self.m.run_json("doctor", "--measure")["cold_start"]
        self.assertIsNone(measured["problem"])
        self.assertGreaterEqual(measured["cold_s"], 0)
        self.assertGreaterEqual(measured["warm_s"], 0)
        self.assertIsNone(self.m.run_json("doctor")["cold_start"])

    def test_a_wrong_configuration_is_shown(self):
        path = self.m.dir / "gpumand.toml"
        before = path.read_text()
        path.write_text("guard.grac = 1\n")
        try:
            found = self.findings("config")[0]
            self.assertEqual(found["severity"], "error")
            self.assertIn("guard.grac", found["text"])
        finally:
            path.write_text(before)


class GpusApart(DaemonTest):
    gpus, memory, profile = 2, "4GiB", "rtx4050"  # these GPUs do not reach each other

    def test_gpus_that_do_not_reach_each_other_are_named_with_what_that_means(self):
        found = [f for f in self.m.run_json("doctor")["findings"] if f["check"] == "peer_access"]
        self.assertEqual([f["severity"] for f in found], ["note"], found)
        self.assertRegex(found[0]["text"], "0 and 1; the memory of a process that sees two such GPUs stays there")
        self.assertIn("CUDA_VISIBLE_DEVICES", found[0]["remedy"])


if __name__ == "__main__":
    unittest.main()

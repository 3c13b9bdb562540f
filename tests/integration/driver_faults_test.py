#!/usr/bin/env python3
"""A driver that is missing, has no devices, hangs or loses a GPU.

Usage: driver_faults_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import pathlib
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from daemon_case import DaemonTest, until  # noqa: E402


class DriverFaultsTest(DaemonTest):
    gpus, memory = 2, "4GiB"
    config = "[sampling]\ncall_limit = \"2s\"\nretry = \"200ms\"\n"

    def tearDown(self):
        self.inject("clear")
        self.inject("reset", "--gpu", "0")
        super().tearDown()
        until("both are well again", lambda: self.health(0) == self.health(1) == "healthy")

    def health(self, index):
        return self.request("GET", f"/v1/gpus/{index}").json()["health"]["state"]

    def kinds_since(self, last):
        return [event["kind"] for event in self.events() if event["id"] > last]

    def last_event(self):
        return max((event["id"] for event in self.events()), default=0)

    def holds_memory(self, tag, gpu, limit="2GiB"):
        self.start(tag, self.load("128MiB", "--hold", "1h"), gpus=[gpu], memory=limit, preload=False)
        until("it holds memory", lambda: self.job(tag)["memory"]["used"])

    def test_a_lost_gpu_is_shown_its_jobs_live_and_others_are_held_to_their_limits(self):
        self.holds_memory("on0", "0")
        self.holds_memory("on1", "1")
        before = self.last_event()
        self.inject("lost", "--gpu", "0")
        until("the GPU is unhealthy", lambda: self.health(0) == "unhealthy")
        self.assertEqual(self.health(1), "healthy")
        self.assertIn("gpu_lost", self.kinds_since(before))
        self.assertEqual(self.job("on0")["state"], "running")
        self.request("PATCH", "/v1/jobs/on1", {"memory": "64MiB"})
        self.assertEqual(self.wait("on1")["reason"], "memory_limit")
        self.assertEqual(self.request("DELETE", "/v1/jobs/on0").json()["state"], "killed")

    def test_a_call_that_hangs_hangs_neither_the_daemon_nor_the_other_gpu(self):
        self.holds_memory("on1", "1")
        before = self.last_event()
        self.inject("nvml-hang", "--gpu", "0")
        until("it is told", lambda: "gpu_unresponsive" in self.kinds_since(before))
        self.assertNotEqual(self.health(0), "healthy")
        self.assertEqual(self.health(1), "healthy")
        self.request("PATCH", "/v1/jobs/on1", {"memory": "64MiB"})
        self.assertEqual(self.wait("on1")["reason"], "memory_limit")
        self.inject("clear")
        until("it is back", lambda: self.health(0) == "healthy")

    def test_a_daemon_can_be_stopped_and_started_while_every_call_hangs(self):
        self.start("plain", "exec sleep 1000")
        self.becomes("plain", "running")
        before = self.last_event()
        self.inject("nvml-hang")
        until("it is told", lambda: "gpu_unresponsive" in self.kinds_since(before))
        self.m.stop_daemon(signal.SIGTERM)
        # It leaves the thread that hangs without a destruction of what that thread uses.
        self.assertEqual(self.m.daemon.returncode, 0)
        self.assertIn("a call of the driver or of the kernel has not come back", (self.m.dir / "daemon.log").read_text())
        self.m.start_daemon()
        self.assertEqual(self.job("plain")["state"], "running")


class WithoutGpus:
    """Jobs run; the daemon refuses only limits that it cannot enforce."""

    says = None

    def test_a_limit_that_cannot_be_held_is_refused_and_a_job_without_one_runs(self):
        status = self.request("GET", "/v1/status").json()
        self.assertEqual(status["gpus"], [])
        self.assertIn(self.says, status["driver_error"])
        refused = self.request("POST", "/v1/jobs", self.run_request("t", "true", memory="1GiB"))
        self.assertEqual((refused.status, refused.code()), (501, "not_supported"))
        self.assertIn(self.says, refused.json()["error"]["message"])
        self.assertEqual(self.request("POST", "/v1/jobs", self.run_request("t", "true", gpus=["0"])).code(), "not_found")
        self.assertEqual(self.wait(self.start("t", "exit 6"))["exit_code"], 6)


class NoDevicesTest(WithoutGpus, DaemonTest):
    gpus, says = 0, "has no device"


class NoNvmlTest(WithoutGpus, DaemonTest):
    real, says = True, "libnvidia-ml.so.1"

    @classmethod
    def prepare(cls):
        # Replaces the library of this machine.
        (cls.m.dir / "libnvidia-ml.so.1").write_text("no library\n")
        cls.m.env["LD_LIBRARY_PATH"] = str(cls.m.dir)


if __name__ == "__main__":
    unittest.main(verbosity=2)

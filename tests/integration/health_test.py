#!/usr/bin/env python3
"""Faults of GPUs: detected, reported, drained from the queue, acknowledged, kept. On the simulated driver.

Usage: health_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import json
import pathlib
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from daemon_case import DaemonTest, until  # noqa: E402
from gang_case import Gangs  # noqa: E402


class HealthCase(DaemonTest):
    gpus, memory, profile = 2, "4GiB", "h200"
    config = '[sampling]\nrest = "20ms"\nslow = "100ms"\nretry = "200ms"\n[health]\nkernel_log = ""\n'

    def setUp(self):
        super().setUp()
        self.assertEqual(self.state(), "healthy")  # after the first look the daemon listens to the driver's errors

    def tearDown(self):
        self.inject("clear", "--counters")
        for gpu in (0, 1):
            if self.codes(gpu):
                self.reset(gpu)
        self.request("PATCH", "/v1/queue/settings", {"undrain": ["0", "1"]})
        super().tearDown()

    def reset(self, gpu):
        """Removes the GPU for a moment, as during a reset."""
        self.inject("lost", "--gpu", str(gpu))
        until("it cannot be talked to", lambda: "lost" in self.codes(gpu))
        self.inject("clear", "--gpu", str(gpu))
        until("it is well", lambda: not self.codes(gpu))

    def health(self, index=0):
        answer = self.request("GET", "/v1/health")
        self.assertEqual(answer.status, 200, answer.body)
        return next(gpu for gpu in answer.json()["gpus"] if gpu["index"] == index)

    def state(self, index=0):
        return self.health(index)["health"]["state"]

    def codes(self, index=0):
        return [fault["code"] for fault in self.health(index)["faults"]]

    def last_event(self):
        return max((event["id"] for event in self.events()), default=0)

    def told_since(self, last):
        return [(event["kind"], event["gpu"]) for event in self.events() if event["id"] > last]

    def uuid(self, index=0):
        return self.request("GET", f"/v1/gpus/{index}").json()["uuid"]

    def submit(self, command, **more):
        job = {"command": ["/bin/sh", "-c", command], "gpus": {"count": 1}, **more}
        answer = self.request("POST", "/v1/submissions", {"jobs": [job], "directory": str(self.m.dir), "environment": {}})
        self.assertEqual(answer.status, 201, answer.body)
        return answer.json()["jobs"][0]["id"]

    def queue_gpu(self, index):
        return self.request("GET", "/v1/queue/info").json()["gpus"][index]


class HealthTest(HealthCase):
    def test_an_error_that_breaks_the_gpu_drains_it_and_a_reset_brings_it_back(self):
        before = self.last_event()
        self.inject("xid", "62", "--gpu", "0")
        until("it is unhealthy", lambda: self.state() == "unhealthy")
        self.assertEqual(self.codes(), ["xid_62"])
        self.assertEqual(self.health()["action"], "reset")
        self.assertEqual(self.state(1), "healthy")
        self.assertIn(("gpu_fault", self.uuid()), self.told_since(before))
        self.assertEqual(self.request("GET", "/v1/gpus/0").json()["health"]["state"], "unhealthy")
        jobs = [self.submit("exec sleep 1000") for _ in range(2)]
        until("the first has the healthy GPU", lambda: self.job(jobs[0])["state"] == "running")
        self.assertEqual(self.job(jobs[0])["gpus"], [self.uuid(1)])
        waits = self.job(jobs[1])
        self.assertEqual(waits["state"], "queued")
        self.assertIn("; unhealthy: GPU 0", waits["reason_detail"])
        self.assertRegex(self.m.run("info").stdout, r"(?m)^0 .*B  unhealthy$")
        self.assertEqual(self.queue_gpu(0)["unfit"], ["unhealthy"])
        self.assertEqual(self.m.run("gpu", "drain", "0").returncode, 0)
        self.assertRegex(self.m.run("info").stdout, r"(?m)^0 .*B  unhealthy, drained$")
        self.assertEqual(self.m.run("gpu", "undrain", "0").returncode, 0)
        self.reset(0)
        self.assertEqual(self.state(), "healthy")
        until("the second runs there", lambda: self.job(jobs[1])["state"] == "running")
        self.assertIn(("gpu_fault_over", self.uuid()), self.told_since(before))
        for job in jobs:
            self.request("DELETE", f"/v1/jobs/{job}")

    def test_a_program_s_own_error_is_told_to_its_job_and_breaks_nothing(self):
        self.start("faulty", self.load("128MiB", "--hold", "1h"), gpus=["0"])
        until("it holds memory", lambda: self.job("faulty")["memory"]["used"])
        before = self.last_event()
        self.inject("xid", "31", "--gpu", "0")
        until("it is told", lambda: ("gpu_xid", self.uuid()) in self.told_since(before))
        self.assertEqual(self.state(), "healthy")
        until("its log has it", lambda: "Xid 31: GPU memory page fault" in self.log("faulty"))
        self.request("DELETE", "/v1/jobs/faulty")

    def test_error_counters_raise_a_fault_with_their_figures(self):
        self.inject("row-remap", "--count", "3", "--pending", "--gpu", "0")
        until("it is degraded", lambda: self.state() == "degraded")
        self.assertEqual((self.codes(), self.health()["action"]), (["row_remap_pending"], "reset_when_idle"))
        self.inject("ecc", "--uncorrected", "--count", "2", "--gpu", "0")
        until("it is unhealthy", lambda: self.state() == "unhealthy")
        self.assertEqual(self.codes(), ["double_bit_ecc", "row_remap_pending"])
        self.assertIn("2 uncorrected memory errors", self.health()["health"]["reasons"][0])

    def test_on_chip_memory_past_the_threshold_is_a_case_for_diagnostics(self):
        self.inject("ecc", "--sram-threshold", "--gpu", "1")
        until("it is unhealthy", lambda: self.state(1) == "unhealthy")
        self.assertEqual((self.codes(1), self.health(1)["action"]), (["sram_threshold"], "field_diagnostics"))

    def test_an_acknowledged_fault_counts_only_when_it_returns(self):
        self.inject("xid", "74", "--gpu", "0")
        until("it is degraded", lambda: self.state() == "degraded")
        self.assertEqual(self.request("POST", "/v1/health/acknowledge", {"gpu": "0", "code": "xid_79"}).status, 404)
        answer = self.request("POST", "/v1/health/acknowledge", {"gpu": "0", "code": "xid_74"})
        self.assertEqual(answer.status, 200, answer.body)
        self.assertEqual((self.state(), self.codes()), ("healthy", ["xid_74"]))
        self.inject("xid", "74", "--gpu", "0")
        until("it is degraded again", lambda: self.state() == "degraded")
        self.assertEqual(self.health()["faults"][0]["count"], 2)

    def test_a_daemon_that_is_killed_forgets_nothing(self):
        self.inject("xid", "79", "--gpu", "0")
        until("it is unhealthy", lambda: self.state() == "unhealthy")
        since = self.health()["faults"][0]["since"]
        # The store writes in order: once this job is acknowledged, the fault is stored.
        self.start("written", "true")
        self.m.stop_daemon(signal.SIGKILL)
        self.m.start_daemon()
        self.assertEqual((self.state(), self.health()["faults"][0]["since"]), ("unhealthy", since))

    def test_an_unknown_acknowledgement_is_refused(self):
        for body in ({}, {"gpu": 0}, {"gpu": "0", "cod": "x"}, {"gpu": "7"}):
            answer = self.request("POST", "/v1/health/acknowledge", body)
            self.assertIn(answer.status, (400, 404), answer.body)

    def test_the_command_line_shows_it_and_says_it_by_its_exit_status(self):
        self.assertEqual(self.m.run("health").returncode, 0)
        self.inject("xid", "48", "--gpu", "0")
        until("it is unhealthy", lambda: self.state() == "unhealthy")
        shown = self.m.run("health")
        self.assertEqual(shown.returncode, 1)
        self.assertIn("xid_48: Xid 48: double-bit ECC error", shown.stdout)
        self.assertIn("nvidia-smi --gpu-reset", shown.stdout)
        said = json.loads(self.m.run("health", "--json").stdout)
        self.assertEqual(said["gpus"][0]["health"]["state"], "unhealthy")
        self.assertEqual(self.m.run("health", "acknowledge", "0").returncode, 0)
        self.assertEqual(self.m.run("health").returncode, 0)
        self.assertEqual(self.m.run("health", "acknowledge", "0").returncode, 4)
        self.assertEqual(self.m.run("health", "acknowledge", "9").returncode, 4)

    def test_a_gpu_is_drained_by_hand_and_stays_so(self):
        self.assertRegex(self.m.run("gpu", "drain", "0").stdout, r"Drained GPUs.*: 0\n")
        self.assertRegex(self.m.run("info").stdout, r"(?m)^0 .*B  drained$")
        self.assertEqual((self.queue_gpu(0)["unfit"], self.queue_gpu(1)["unfit"]), (["drained"], []))
        job = self.submit("exec sleep 1000")
        until("it runs on the other", lambda: self.job(job)["gpus"] == [self.uuid(1)])
        waits = self.submit("exec sleep 1000")
        self.assertEqual(self.job(waits)["state"], "queued")
        self.m.stop_daemon(signal.SIGKILL)
        self.m.start_daemon()
        self.assertEqual(self.job(waits)["state"], "queued")
        self.assertEqual(self.m.run("gpu", "undrain", "0").returncode, 0)
        until("it runs there", lambda: self.job(waits)["gpus"] == [self.uuid(0)])
        self.assertEqual(self.m.run("gpu", "drain", "7").returncode, 4)
        for one in (job, waits):
            self.request("DELETE", f"/v1/jobs/{one}")

    def told_by(self, *words):
        done = self.m.run(*words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr

    def test_a_run_on_a_drained_or_unhealthy_gpu_gets_a_note(self):
        self.told_by("gpu", "drain", "0")
        drained = r"GPU 0 is drained \(by \S+\); the job uses it all the same, as it was named"
        self.assertRegex(self.told_by("run", "--tag", "named", "--gpu", "0", "--", "sleep", "1000"), drained)
        self.assertRegex(self.told_by("restart", "named"), drained)
        self.told_by("cancel", "named")
        self.wait("named")
        self.assertRegex(self.told_by("job", "redo", "named"), drained)
        self.told_by("cancel", "named")
        self.assertIn("the job may use it all the same", self.told_by("run", "--tag", "any", "--", "true"))
        self.assertNotIn("GPU 1 is", self.told_by("run", "--tag", "other", "--gpu", "1", "--", "true"))
        self.told_by("gpu", "undrain", "0")
        self.inject("xid", "62", "--gpu", "0")
        until("it is unhealthy", lambda: self.state() == "unhealthy")
        self.assertRegex(self.told_by("run", "--tag", "ill", "--gpu", "0", "--", "true"),
                         r"GPU 0 is unhealthy \(.+\); the job uses it all the same, as it was named")


class LeavingTest(HealthCase):
    config = HealthCase.config + 'on_unhealthy = "end"\n'

    def test_jobs_on_a_gpu_that_turns_unhealthy_are_ended_where_that_is_asked_for(self):
        self.start("ends", self.load("128MiB", "--hold", "1h"), gpus=["0"])
        self.start("stays", self.load("128MiB", "--hold", "1h"), gpus=["1"])
        for tag in ("ends", "stays"):
            until("it holds memory", lambda: self.job(tag)["memory"]["used"])
        self.inject("xid", "48", "--gpu", "0")
        ended = self.wait("ends")
        self.assertEqual((ended["state"], ended["reason"]), ("killed", "gpu_unhealthy"))
        self.assertIn("Xid 48", ended["reason_detail"])
        self.assertEqual(self.job("stays")["state"], "running")
        self.request("DELETE", "/v1/jobs/stays")


class MovingTest(HealthCase):
    config = HealthCase.config + 'on_unhealthy = "move"\n[suspend]\npatience = "1m"\n'

    def test_jobs_on_a_gpu_that_turns_unhealthy_are_moved_where_that_is_asked_for(self):
        self.start("moves", self.load("128MiB", "--verify", "--kernel-time", "1ms", "--duty", "0.4", "--hold", "1h"), gpus=["0"])
        until("it holds memory", lambda: self.job("moves")["memory"]["used"])
        self.inject("xid", "48", "--gpu", "0")
        until("it runs on the other", lambda: (one := self.job("moves"))["state"] == "running" and one["gpus"] == [self.uuid(1)])
        self.request("DELETE", "/v1/jobs/moves")

    def test_a_job_in_an_instance_stays_and_is_told_why(self):
        split = {"devices": [{"gpus": ["0"], "instances": ["1g.18gb"]}]}
        whole = {"devices": [{"gpus": ["0"], "enabled": False, "instances": []}], "forget": True}
        answer = self.request("POST", "/v1/mig/apply", split)
        self.assertEqual(answer.status, 200, answer.body)
        self.addCleanup(lambda: until("the GPU is whole again", lambda: self.request("POST", "/v1/mig/apply", whole).status == 200))
        job = self.start("inside", self.load("64MiB", "--hold", "1h"), gpus=["0:0"])
        self.addCleanup(self.request, "DELETE", "/v1/jobs/inside")
        until("it holds memory", lambda: self.job("inside")["memory"]["used"])
        self.inject("xid", "48", "--gpu", "0")
        until("it is told", lambda: "cannot be moved" in self.log(job))
        self.assertEqual(self.job("inside")["state"], "running")
        self.request("DELETE", "/v1/jobs/inside")
        until("the GPU is whole again", lambda: self.request("POST", "/v1/mig/apply", whole).status == 200)


class GangCase(DaemonTest, Gangs):
    """A job whose two ranks need each other, on GPU 0 and GPU 1; GPU 2 is free."""
    gpus, memory, profile = 3, "4GiB", "h200"

    def setUp(self):
        super().setUp()
        self.job_on_both = self.gang("both", gpus=[0, 1])

    def gpu_fails(self):
        self.inject("xid", "48", "--gpu", "1")
        until("it is unhealthy", lambda: self.request("GET", "/v1/health").json()["gpus"][1]["health"]["state"] == "unhealthy")


class LeavingGangTest(GangCase):
    config = LeavingTest.config

    def test_a_job_of_which_one_gpu_turns_unhealthy_is_ended_whole(self):
        pids = self.rank_pids("both")
        self.gpu_fails()
        ended = self.wait("both")
        self.assertEqual((ended["state"], ended["reason"]), ("killed", "gpu_unhealthy"))
        self.assertEqual(len(self.all_told("job_killed", self.job_on_both)), 1)
        until("no rank is left", lambda: not any(pathlib.Path(f"/proc/{pid}/task").exists() for pid in pids))


class MovingGangTest(GangCase):
    config = MovingTest.config

    def test_a_job_of_which_one_gpu_turns_unhealthy_stays_and_is_told_why(self):
        self.gpu_fails()
        until("it is told", lambda: "it stays on the unhealthy GPU: " in self.log("both"), lambda: self.log("both")[-800:])
        view = self.job("both")
        self.assertEqual((view["state"], view["gpus"]), ("running", [self.request("GET", f"/v1/gpus/{gpu}").json()["uuid"] for gpu in "01"]))
        self.goes_on("both")
        self.ends_with_its_data("both")

    def test_one_that_is_suspended_stays_so_and_comes_back(self):
        self.assertEqual(self.request("POST", f"/v1/jobs/{self.job_on_both}/suspend").status, 200)
        self.gpu_fails()
        self.assertEqual(self.job("both")["state"], "suspended")
        self.assertEqual(self.request("POST", f"/v1/jobs/{self.job_on_both}/resume").status, 200)
        self.becomes("both", "running")
        self.goes_on("both")
        self.ends_with_its_data("both")


class KernelLogTest(HealthCase):
    def test_errors_of_before_the_start_are_found_in_the_kernels_log_once(self):
        bus = "0000:00:06"  # the first simulated H200
        log = self.m.dir / "kmsg"
        log.write_text(f"4,1,1000000,-;NVRM: Xid (PCI:{bus}): 79, pid='<unknown>', GPU has fallen off the bus.\n")
        self.m.stop_daemon(signal.SIGTERM)
        config = self.m.dir / "gpumand.toml"
        config.write_text(config.read_text().replace('kernel_log = ""', f'kernel_log = "{log}"'))
        self.m.start_daemon()
        until("it is unhealthy", lambda: self.state() == "unhealthy")
        self.assertEqual(self.codes(), ["xid_79"])
        self.request("POST", "/v1/health/acknowledge", {"gpu": "0"})
        self.m.stop_daemon(signal.SIGTERM)
        self.m.start_daemon()
        until("it was looked at", lambda: self.state() != "unknown")
        self.assertEqual((self.state(), self.health()["faults"][0]["count"]), ("healthy", 1))


if __name__ == "__main__":
    unittest.main(verbosity=2)

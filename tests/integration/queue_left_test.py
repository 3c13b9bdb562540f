#!/usr/bin/env python3
"""What stays on the GPUs of a suspended job whose processes share memory, for those who decide: the queue, the guard,
and who asks for a move. Real daemon, the simulated driver; the jobs are gpuman-load's ranks, which check every sum.

Usage: queue_left_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import re
import signal
import sys
import unittest

from queue_test import QueueCase
from share_test import build_dir, learn_what_a_context_takes
from daemon_case import MIB, DaemonTest, until  # noqa: E402, I100
from machine import program  # noqa: E402, I100

SHARES = r"share memory \(NCCL, CUDA IPC\): it can be suspended, not moved"
CONTEXT = 518  # MiB, of one process


class Ranks:
    """For a DaemonTest: jobs of two ranks that need each other, and reach each other's memory by CUDA IPC."""

    def command(self, stop, alloc="64MiB"):
        return (f"exec {program('gpuman-load')} --ranks 2 --peer ipc --work 60ms --verify --json --alloc {alloc} "
                f"--until {stop}")

    def steps(self, job):
        """The number of the last step in the log."""
        return int(([0] + re.findall(r'"event":"step".*"number":(\d+)', self.log(job)))[-1])

    def goes_on(self, job):
        before = self.steps(job)
        until(f"job {job} makes steps after {before}", lambda: self.steps(job) != before, lambda: self.log(job)[-1500:])
        return job

    def told(self, job):
        return [event["kind"] for event in self.events() if event["job"] == job]


class LeftCase(QueueCase, Ranks):
    """Of 4 GiB on each GPU, 518 MiB are the context of a rank, and as much is that of the mover."""
    profile, gpus, memory = "h200", 2, "4GiB"
    config = '[sampling]\nrest = "20ms"\n[queue]\npreempt_after = "0s"\n'

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        learn_what_a_context_takes(cls.m)

    def gang(self, gpus=2):
        job = self.submit(self.command(self.dir / "stop"), gpus=gpus, share=True, memory="2GiB", preemptible=True, priority=10)
        self.becomes(job, "running")
        return self.goes_on(job)

    def wants(self, free, script, gpus=1, **more):
        return self.submit_all({**self.shell(script), "gpus": {"count": gpus, "free_memory": free}, **more})[0]["id"]

    def left_in_info(self):
        return {gpu["uuid"]: gpu["left"] for gpu in self.request("GET", "/v1/queue/info").json()["gpus"]}

    def ends_well(self, job):
        self.open("stop")
        self.assertEqual(self.wait(job)["state"], "finished", self.log(job)[-1500:])


class Waits(LeftCase):
    def test_a_job_too_large_beside_kept_memory_waits(self):
        gang = self.gang()
        off = self.act(gang, "suspend")
        self.assertEqual(off.status, 200, off.body)
        left = off.json()["memory"]["left"]
        self.assertEqual(len(left), 2)
        self.assertTrue(all(bytes > 500 * MIB for bytes in left.values()), left)
        tag = off.json()["tag"]
        self.assertEqual(self.left_in_info(), {gpu: [{"job": gang, "tag": tag, "bytes": bytes}] for gpu, bytes in left.items()})
        self.assertRegex(self.m.run("info").stdout, rf"Stays of suspended jobs:\nGPU 0: 5\d\d(\.\d)?MiB of job {gang} ")
        # No more important than the gang: they do not end it when it is back.
        big = self.wants("3800MiB", self.gate("end"), priority=10)
        limited = self.submit(self.gate("end"), memory="3800MiB", priority=10)
        stays = rf"asks for 3\.7GiB on each, and 5\d\d(\.\d)?MiB of suspended job {gang} stay on GPU 0, and .* on GPU 1"
        for _ in range(2):
            for job in (big, limited):
                # A daemon that has just begun knows no GPU yet.
                until("it says what stays", lambda job=job: re.search(stays, self.waits_for(job, "resources")["reason_detail"]))
            small = self.wants("2GiB", "exit 0")
            self.assertEqual(self.wait(small)["state"], "finished", "what it asks for is there")
            self.m.stop_daemon(signal.SIGKILL)
            self.m.start_daemon()
        self.assertRegex(self.m.run("resume", str(gang)).stdout, rf"^job {gang} .*(comes back as soon as|is running)")
        self.becomes(gang, "running")
        until("nothing stays now", lambda: not any(self.left_in_info().values()))
        self.ends_well(gang)
        self.becomes(limited, "running")
        self.open("end")


class Preempts(LeftCase):
    def test_a_victim_that_frees_too_little_is_queued_again(self):
        gang = self.gang()
        fits = self.wants("2GiB", self.gate("one"), gpus=2, priority=250)
        self.becomes(fits, "running")
        view = self.job(gang)
        self.assertEqual((view["state"], view["reason"]), ("suspended", "preempted"), view)
        self.open("one")
        self.becomes(gang, "running")
        self.goes_on(gang)
        big = self.submit(self.gate("two"), gpus=2, memory="3800MiB", priority=250)
        self.becomes(big, "running")
        view = self.job(gang)
        self.assertEqual((view["state"], view["queue"]["attempts"]), ("queued", 1), view)
        self.assertEqual(self.told(gang).count("job_suspended"), 1, "it was not suspended in vain")
        self.open("two")
        self.becomes(gang, "running")
        self.ends_well(gang)

    def test_no_job_leaves_for_one_that_could_not_start_anyway(self):
        other = self.gang()
        self.act(other, "suspend")
        gang = self.gang()
        big = self.submit("exit 0", gpus=2, memory="3800MiB", priority=250)
        self.assertRegex(self.waits_for(big, "resources")["reason_detail"], f"suspended job {other} stay")
        self.assertEqual(self.job(gang)["state"], "running")
        self.assertNotIn("job_suspended", self.told(gang))


class Moves(LeftCase):
    def test_move_of_job_with_shared_memory_is_refused_and_not_tried(self):
        gang = self.gang(gpus=1)
        here = self.job(gang)["gpus"][0]
        there = next(gpu for gpu in self.left_in_info() if gpu != here)
        answer = self.request("POST", f"/v1/jobs/{gang}/move", {"gpu": there})
        self.assertEqual(answer.code(), "unsatisfiable", answer.body)
        self.assertRegex(answer.json()["error"]["message"], SHARES)
        named = self.submit_all({**self.shell("exit 0"), "gpus": {"devices": [here]}, "priority": 10})[0]["id"]
        self.waits_for(named, "resources")
        self.request("DELETE", f"/v1/jobs/{named}")
        urgent = self.submit_all({**self.shell(self.gate("end")), "gpus": {"devices": [here]}, "priority": 250})[0]["id"]
        self.becomes(urgent, "running")
        self.assertEqual(self.job(gang)["state"], "suspended", "it can be suspended all the same")
        answer = self.request("POST", f"/v1/jobs/{gang}/resume", {"gpu": there})
        self.assertEqual(answer.code(), "unsatisfiable", answer.body)
        self.assertRegex(answer.json()["error"]["message"], SHARES)
        self.open("end")
        self.becomes(gang, "running")
        self.assertEqual([kind for kind in self.told(gang) if "move" in kind], ["move_refused"])
        self.ends_well(gang)


class Pressure(DaemonTest, Ranks):
    """The two contexts of a job would stay: its suspension gives 64 MiB."""
    profile, gpus, memory = "h200", 1, "4GiB"
    config = '[sampling]\nrest = "20ms"\n[guard]\nreserve = "384MiB"\non_pressure = "suspend"\nreturn_after = "200ms"\n'

    def gang(self, priority=10, alloc="32MiB"):
        self.start("gang", self.command(self.m.dir / "stop", alloc), gpus=["0"], share=True, priority=priority)
        return self.goes_on("gang")

    def fills(self):
        """Takes all but 150 MiB. More of the reserve is missing then than the gang has beside its contexts."""
        free = self.request("GET", "/v1/gpus").json()["gpus"][0]["memory"]["free"] // MIB
        load = self.load(f"{free - CONTEXT - 150}MiB", "--hold", "1h")
        self.start("fills", "exec " + load, gpus=["0"], priority=250)

    def tearDown(self):
        for tag in ("gang", "plain", "fills"):
            self.request("DELETE", f"/v1/jobs/{tag}")
        super().tearDown()

    def test_job_that_would_free_too_little_is_ended_with_the_reason(self):
        self.gang()
        self.fills()
        ended = self.wait("gang")
        self.assertEqual((ended["state"], ended["reason"]), ("killed", "device_pressure"), ended)
        self.assertRegex(ended["reason_detail"], r"as its suspension would not help: 1(\.\d)?GiB of it would stay on GPU 0")
        self.assertNotIn("job_suspended", self.told(ended["id"]))

    def test_job_that_frees_enough_is_suspended_and_comes_back(self):
        self.gang(alloc="256MiB")
        self.fills()
        view = self.becomes("gang", "suspended")
        self.assertEqual(view["reason"], "device_pressure", view)
        (left,) = view["memory"]["left"].values()
        self.assertGreater(left, 2 * CONTEXT * MIB)
        until("the driver shows as much", lambda: left == sum(
            process["memory"] for process in self.request("GET", "/v1/gpus/0").json()["processes"] if process["job"] == view["id"]))
        self.assertEqual(self.job("fills")["state"], "running")
        self.request("DELETE", "/v1/jobs/fills")
        self.becomes("gang", "running")
        self.goes_on("gang")
        (self.m.dir / "stop").touch()
        self.addCleanup((self.m.dir / "stop").unlink)
        self.assertEqual(self.wait("gang")["state"], "finished", self.log("gang")[-1500:])

    def test_other_job_of_lower_priority_is_suspended_instead(self):
        self.start("plain", "exec " + self.load("300MiB", "--hold", "1h"), gpus=["0"], priority=10)
        until("it is there", lambda: (self.job("plain")["memory"]["used"] or 0) > 300 * MIB)
        self.gang()
        self.fills()
        view = self.becomes("plain", "suspended")
        self.assertEqual(view["reason"], "device_pressure", view)
        self.assertRegex(view["reason_detail"], r"and not job \d+ 'gang': 1(\.\d)?GiB of it would stay on GPU 0")
        self.assertEqual(self.job("gang")["state"], "running")


if __name__ == "__main__":
    if not (build_dir() / "lib/libgpuman.so").exists():
        print("skipped: there is no libgpuman.so here")
        sys.exit(77)
    unittest.main(verbosity=2)

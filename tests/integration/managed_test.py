#!/usr/bin/env python3
"""Jobs with managed memory, which the driver moves: more memory than the GPU has, and turns if it does not fit.

Usage: managed_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)

Never try this on a GPU that others use: a real driver may stop all programs while it makes room.
"""

import signal
import sys
import time
import unittest

from share_test import DaemonTest, MIB, ShareCase, build_dir, learn_what_a_context_takes, until


class LargerCase(DaemonTest):
    memory = "346MiB"  # of which the driver has 225 and a context 104

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        learn_what_a_context_takes(cls.m)

    def larger(self, tag, *options, **more):
        return self.start(tag, "exec " + self.load("24MiB", "--step", "4MiB", "--verify", "--json", *options), **more)

    def ends(self, ref):
        return self.wait(ref)["exit_code"]


class LargerThanTheGpu(LargerCase):
    def test_job_with_oversubscribe_finishes_with_its_data(self):
        job = self.larger("asked", "--iterations", "2", oversubscribe=True)
        self.assertTrue(self.job(job)["oversubscribe"])
        self.assertEqual(self.ends(job), 0, self.log(job)[-1500:])
        self.assertIn('"wrong_words":0', self.log(job))

    def test_job_without_oversubscribe_is_out_of_memory(self):
        self.assertEqual(self.ends(self.larger("plain")), 3)
        self.assertEqual(self.ends(self.larger("sharing", share=True)), 3)

    def test_sharing_job_with_oversubscribe_finishes(self):
        job = self.larger("shares", "--iterations", "2", oversubscribe=True, share=True)
        self.assertEqual(self.ends(job), 0, self.log(job)[-1500:])

    def test_a_limit_holds_and_may_be_larger_than_the_gpu(self):
        self.assertEqual(self.ends(self.larger("kept", memory="120MiB", oversubscribe=True)), 3)
        self.assertEqual(self.ends(self.larger("large", memory="600MiB", oversubscribe=True)), 0)
        answer = self.request("POST", "/v1/jobs", self.run_request("no", "true", memory="600MiB"))
        self.assertEqual((answer.status, answer.code()), (422, "unsatisfiable"), answer.body)
        self.assertIn("--oversubscribe", answer.body.decode())

    def test_oversubscribe_without_the_library_is_refused(self):
        for options in ({"oversubscribe": True}, {"share": True}):
            answer = self.request("POST", "/v1/jobs", self.run_request("no", "true", preload=False, **options))
            self.assertEqual((answer.status, answer.code()), (400, "invalid_argument"), answer.body)
            queued = {"command": ["true"], "gpus": {"count": 1}, "memory": 1 << 26, "preload": False, **options}
            answer = self.request("POST", "/v1/submissions", {"jobs": [queued], "directory": "/", "environment": {}})
            self.assertEqual((answer.status, answer.code()), (400, "invalid_argument"), answer.body)
            self.assertIn("--no-preload", answer.body.decode())

    def test_suspend_of_managed_memory_is_refused_with_the_reason(self):
        job = self.larger("stays", "--hold", "1h", oversubscribe=True)
        until("it has its memory", lambda: "alloc" in self.log(job) and self.suspended_reason(job))
        answer = self.request("POST", f"/v1/jobs/{job}/suspend")
        self.assertGreaterEqual(answer.status, 400, answer.body)
        # The ledger has its memory at once, a sample shows it on the GPU later.
        until("a sample shows it", lambda: any(
            process["job"] == job for process in self.request("GET", "/v1/gpus/0").json()["processes"]))
        answer = self.request("POST", f"/v1/jobs/{job}/move", {"gpu": "0"})
        self.assertEqual(answer.status, 200, ("it is there already", answer.body))
        self.assertEqual(self.job(job)["state"], "running")

    def test_idle_job_with_managed_memory_stays_and_the_reason_is_shown(self):
        job = self.larger("idle", "--hold", "1h", oversubscribe=True, idle_suspend_s=0.2)
        told = lambda: [event["message"] for event in self.events()
                        if event["kind"] == "idle_suspend_refused" and event["job"] == job]
        until("it is told", told, self.what_stands)
        self.assertIn("managed memory", told()[0])
        note = next(note for note in self.job(job)["notes"] if "not suspended when it is idle" in note)
        self.assertIn("managed memory", note)
        self.assertIn(note, self.m.run("job", "show", str(job)).stdout)
        listed = next(one for one in self.m.run_json("status")["jobs"] if one["id"] == job)
        self.assertIn(note, listed["notes"])
        before = self.metric("gpuman_sampler_round_seconds_count")
        until("it was looked at again", lambda: self.metric("gpuman_sampler_round_seconds_count") >= before + 20)
        self.assertEqual((self.job(job)["state"], len(told())), ("running", 1))
        self.assertIn(self.job(job)["pid"], [process["pid"] for process in self.request("GET", "/v1/gpus/0").json()["processes"]])

    def suspended_reason(self, job):
        answer = self.request("POST", f"/v1/jobs/{job}/suspend")
        if answer.status < 400:  # the job had none yet
            self.request("POST", f"/v1/jobs/{job}/resume")
            return False
        self.assertEqual(answer.code(), "not_supported", answer.body)
        self.assertIn("managed memory", answer.json()["error"]["message"])
        return True


class BesideAReserve(LargerCase):
    config = """
[guard]
reserve = "4MiB"
"""

    def test_gpu_full_of_managed_memory_is_not_under_pressure(self):
        job = self.larger("fills", "--hold", "1h", "--kernel-time", "1ms", oversubscribe=True)
        until("the GPU is full", lambda: self.request("GET", "/v1/gpus/0").json()["memory"]["free"] < 4 * MIB)
        self.assertEqual(self.job(job)["state"], "running")
        self.assertNotIn("device_pressure", [event["kind"] for event in self.events()])


class ManagedCase(ShareCase):
    def takes_turns_with_its_data(self):
        before = self.gpu().get("moved_out", 0)
        end = self.m.dir / "both"
        end.unlink(missing_ok=True)
        jobs = [self.busy(tag, iterations=None, options=["--until", str(end)]) for tag in ("first", "second")]
        seen = 0

        def both_have_had_turns():
            nonlocal seen
            if len(self.gpu()["jobs"]) < 2:
                return False
            for gpu in self.share()["gpus"]:
                self.within_capacity(gpu)
                seen = max([seen, *(job["memory"]["managed"] for job in gpu["jobs"])])
            return self.hand_overs() > 1 and seen >= 8 * MIB
        until("they take turns with it", both_have_had_turns, self.what_stands)
        end.touch()
        for job in jobs:
            self.finishes_with_its_data(job)
        self.assertEqual(self.gpu().get("moved_out", 0), before, "nothing of it is moved by gpuman")
        self.assertNotIn("share_move_failed", self.kinds())

    def within_capacity(self, gpu):
        here = sum(job["memory"]["resident"] + job["memory"]["pinned"] +
                   (job["memory"]["managed"] if job["gate"] != "closed" else 0) for job in gpu["jobs"])
        self.assertLessEqual(here, gpu["capacity"] + 8 * MIB, gpu)


class Managed(ManagedCase):
    config = ShareCase.config + 'memory = "managed"\n'

    def test_two_jobs_that_do_not_fit_together_take_turns_and_finish(self):
        self.takes_turns_with_its_data()

    def test_jobs_run_together_when_turns_for_managed_memory_are_off(self):
        self.share(managed_turns=False)
        self.addCleanup(self.share, managed_turns=True)
        before = self.hand_overs()
        jobs = [self.busy("left"), self.busy("right")]
        for job in jobs:
            self.finishes_with_its_data(job)
        self.assertEqual(self.hand_overs(), before)

    def test_job_larger_than_the_gpu_takes_turns_with_job_that_is_evicted(self):
        self.share(memory="vmm")
        self.addCleanup(self.share, memory="managed")
        end = self.m.dir / "large"
        small = self.busy("small", iterations=0)
        large = self.busy("large", "24MiB", iterations=None, options=["--until", str(end)], oversubscribe=True)
        self.takes_turns(2)
        managed = {job["tag"]: job["memory"]["managed"] for job in self.gpu()["jobs"]}
        self.assertEqual(managed["small"], 0)
        end.touch()
        self.finishes_with_its_data(large)
        until("the other has the GPU", lambda: self.tenant(small)["gate"] == "open")

    def test_jobs_finish_after_the_daemon_is_killed(self):
        end = self.m.dir / "other"
        jobs = [self.busy("one", iterations=0), self.busy("other", iterations=None, options=["--until", str(end)])]
        self.takes_turns(2)
        self.m.stop_daemon(signal.SIGKILL)
        self.m.start_daemon()
        until("both take part again", lambda: len(self.gpu()["jobs"]) == 2)
        self.takes_turns(2)
        end.touch()
        self.finishes_with_its_data(jobs[1])


class WithoutVirtualMemory(ManagedCase):
    vmm = False

    def test_two_jobs_that_do_not_fit_together_take_turns_and_finish(self):
        self.takes_turns_with_its_data()


if __name__ == "__main__":
    if not (build_dir() / "lib/libgpuman.so").exists():
        print("skipped: there is no libgpuman.so here")
        sys.exit(77)
    unittest.main(verbosity=2)

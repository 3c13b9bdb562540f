#!/usr/bin/env python3
"""A job that uses several GPUs from one process, as JAX and tensor-parallel servers do: it leaves all of them at the
same moment, and comes back to all of them with its data.

Usage: share_one_process_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)

gpuman-load --threads is the program: a thread for each GPU, kernels that wait for each other, every sum checked in its
step. Its ranks reach each other's memory by addresses, and that memory leaves as well. gang_faults_test.py has what
may go wrong with such jobs.
"""

import sys
import time
import unittest

import share_gangs_test
from gang_case import MIB, SIZE, GangCase, Gangs, build_dir, until
from share_test import learn_what_a_context_takes
from daemon_case import DaemonTest  # noqa: E402, I100


class Turns(GangCase):
    peer = "threads"

    def memory_of(self, job):
        """What the job has on each of its GPUs, and what is away, by the GPU's index."""
        return {gpu["index"]: one["memory"] for gpu in self.share()["gpus"] for one in gpu["jobs"] if one["id"] == job}

    def is_off_both(self, job):
        """As far as the other job needs the place, and nothing stays but its contexts. One reading has both: a moment
        later the memory may be on its way back, and what is on its way counts as pinned until it is there."""
        memory = self.memory_of(job).values()
        return (len(memory) == 2 and min(one["away"] for one in memory) >= SIZE // 2 * MIB
                and max(one["pinned"] for one in memory) < (self.context + 1) * MIB)

    def test_two_jobs_take_turns_on_both_gpus_and_keep_their_data(self):
        jobs = {tag: self.begin_gang(tag) for tag in ("one", "other")}
        for tag, job in jobs.items():
            until(f"{tag} is off both GPUs", lambda job=job: self.is_off_both(job), self.what_stands)
            self.goes_on(tag)
        self.take_turns(12)
        for tag, job in jobs.items():
            self.goes_on(tag)
            self.ends_with_its_data(tag)
            # One that still takes its memory is let go at once, and asked again.
            told = [event["message"] for event in self.all_told("share_not_yielded", job)]
            self.assertEqual([message for message in told if "waits for room" not in message], [])
            self.assertEqual(self.all_told("share_move_failed", job), [])

    def test_job_takes_turns_with_ordinary_jobs_on_either_of_its_gpus(self):
        job = self.gang("wide")
        plain = [self.checking(f"plain{gpu}", "--rest", 0.005, "--blocks", 8, gpus=(gpu,)) for gpu in ("0", "1")]
        self.take_turns(8)
        self.goes_on("wide")
        self.ends_with_its_data("wide")
        self.assertEqual(self.all_told("share_not_yielded", job), [])
        self.ends_right(plain)

    def test_job_leaves_only_the_gpu_that_another_needs(self):
        job = self.gang("wide")
        plain = self.checking("plain", "--rest", 0.005, "--blocks", 8, gpus=("1",))
        until("they take turns there", lambda: self.share()["gpus"][1]["hand_overs"] >= 8, self.what_stands)
        self.goes_on("wide")
        first, second = self.share()["gpus"]
        self.assertEqual(first["moved_out"], 0)
        self.assertGreater(second["moved_out"], 0)
        self.assertEqual(self.memory_of(job)[0]["away"], 0)
        self.ends_with_its_data("wide")
        self.ends_right([plain])

    def test_growing_job_waits_for_room_on_the_full_gpu(self):
        def hand_overs():
            gpus = self.share()["gpus"]  # none where no job shares
            return gpus[1]["hand_overs"] if len(gpus) > 1 else 0

        before = hand_overs()
        plain = self.checking("plain", "--rest", 0.005, "--blocks", 12, gpus=("1",))
        until("it holds its memory", lambda: '"holds"' in self.log(plain), self.what_stands)
        job = self.gang("wide")
        self.assertEqual(set(self.memory_of(job)), {0, 1})
        # The first is counted when its memory has come, which may be after the job's first step.
        until("they take turns there", lambda: hand_overs() > before, self.what_stands)
        self.ends_with_its_data("wide")
        self.ends_right([plain])

    def test_job_suspended_beside_another_leaves_both_gpus_and_gets_its_turn_back(self):
        jobs = {tag: self.gang(tag) for tag in ("one", "other")}
        for _ in range(3):
            answer = self.request("POST", "/v1/jobs/one/suspend")
            self.assertEqual((answer.status, answer.json().get("state")), (200, "suspended"), answer.body)
            before = self.steps("one")
            self.goes_on("other", 20)
            self.assertLessEqual(self.steps("one"), before + 4)  # that were over on the GPU, and are written down now
            answer = self.request("POST", "/v1/jobs/one/resume")
            self.assertEqual((answer.status, answer.json().get("state")), (200, "running"), answer.body)
            for tag in jobs:
                self.goes_on(tag)
        self.take_turns(2)
        for tag in jobs:
            self.goes_on(tag)
            self.ends_with_its_data(tag)


class Growing(share_gangs_test.Growing):
    """As there, where a thread of the same process waits on the other GPU."""
    peer = "threads"


class OffCase(DaemonTest, Gangs):
    """One such job, and GPUs on which it fits."""
    gpus, profile, memory, config, peer = 2, "h200", "4GiB", '[sampling]\nrest = "20ms"\n', "threads"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        learn_what_a_context_takes(cls.m)

    def on_gpus(self):
        return self.request("GET", "/v1/gpus").json()["gpus"]

    def held_on(self, job):
        """What the job's process holds on each GPU, as the driver shows it."""
        held = {}
        for gpu in self.on_gpus():
            for process in gpu["processes"]:
                if process["job"] == job and process["memory"]:
                    held[gpu["uuid"]] = held.get(gpu["uuid"], 0) + process["memory"]
        return held

    def goes(self, tag):
        answer = self.request("POST", f"/v1/jobs/{tag}/suspend")
        view = answer.json()
        self.assertEqual((view["state"], view["reason"]), ("suspended", "held_by_user"), answer.body)
        self.assertGreaterEqual(view["memory"]["host"], 2 * self.size * MIB)
        return view

    def comes_back(self, tag):
        before = self.steps(tag)
        time.sleep(0.4)  # ten of its steps; the ones that were over on the GPU may still be written down
        self.assertLessEqual(self.steps(tag), before + 4, "it makes no steps")
        answer = self.request("POST", f"/v1/jobs/{tag}/resume")
        self.assertEqual((answer.status, answer.json().get("state")), (200, "running"), answer.body)
        self.goes_on(tag)


class Suspended(OffCase):
    size = 48

    def test_suspended_job_leaves_both_gpus_and_comes_back_with_its_data(self):
        def was_granted_calls():
            return any(event["data"]["steps"] for event in self.all_told("job_suspended", job))

        job = self.gang("job", size=self.size, options=("--ahead", 4, "--think", "40ms"))
        for number in range(20):
            if number >= 4 and was_granted_calls():  # most come to rest by themselves
                break
            left = self.goes("job")["memory"]["left"]
            self.assertLessEqual(max(left.values(), default=0), SIZE * MIB, "the driver takes the contexts as well")
            until("the driver shows no more of it", lambda: all(
                used <= left.get(gpu, 0) for gpu, used in self.held_on(job).items()), lambda: (left, self.held_on(job)))
            self.comes_back("job")
        self.assertTrue(was_granted_calls())
        self.ends_with_its_data("job")

    def test_host_memory_is_made_ready_for_both_gpus(self):
        self.gang("job", size=self.size)
        for index in range(2):
            until(f"the mover has its context on GPU {index}", lambda index=index: any(
                process["name"] == "gpuman-mover" for process in self.on_gpus()[index]["processes"]), self.on_gpus)
        self.ends_with_its_data("job")


class ContextsStay(OffCase):
    """The driver cannot checkpoint: the contexts stay."""
    size, driver = 48, "535.183.01"

    def test_kept_memory_is_reported_for_each_gpu(self):
        job = self.gang("job", size=self.size)
        gpus = {gpu["uuid"] for gpu in self.on_gpus()}
        for _ in range(2):
            view = self.goes("job")
            left = view["memory"]["left"]
            self.assertEqual(set(left), gpus)
            for index in range(2):
                self.assertRegex(view["reason_detail"], rf"[\d.]+[MG]iB (stay )?on GPU {index}\b")
            until("the driver shows as much", lambda: self.held_on(job) == left, lambda: (left, self.held_on(job)))
            self.assertLess(max(left.values()), 600 * MIB)
            self.comes_back("job")
        self.ends_with_its_data("job")


class Pressure(OffCase):
    """One of its GPUs runs full: it leaves both, and comes back when there is room."""
    memory = "3GiB"
    config = '[sampling]\nrest = "20ms"\n[guard]\nreserve = "384MiB"\non_pressure = "suspend"\n'

    def test_job_under_pressure_leaves_and_comes_back_when_there_is_room(self):
        job = self.gang("leaves", size=48, priority=10)
        high = self.start("high", "exec " + self.load("700MiB", "--hold", "1h"), gpus=["1"], priority=200)
        view = self.becomes("leaves", "suspended")
        self.assertEqual(view["reason"], "device_pressure", view)
        until("the driver shows that it left", lambda: max(self.held_on(job).values(), default=0) <= SIZE * MIB,
              lambda: self.held_on(job))
        self.assertEqual(self.job(high)["state"], "running")
        self.request("DELETE", f"/v1/jobs/{high}")
        self.becomes("leaves", "running")
        self.goes_on("leaves")
        self.ends_with_its_data("leaves")


if __name__ == "__main__":
    if not (build_dir() / "lib/libgpuman.so").exists():
        print("skipped: there is no libgpuman.so here")
        sys.exit(77)
    unittest.main(verbosity=2)

#!/usr/bin/env python3
"""GPUs split into instances: planned, made, used by programs, made again after a reset. On the simulated driver.

Usage: mig_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from daemon_case import MIB, DaemonTest, until  # noqa: E402
from machine import program  # noqa: E402

if os.geteuid() != 0:
    print("skipped: the driver shows and changes instances for root alone")
    sys.exit(77)


class MigCase(DaemonTest):
    gpus, memory, profile = 2, "8GiB", "h200"
    config = '[sampling]\nrest = "20ms"\nslow = "100ms"\nretry = "200ms"\n[mig]\ncheck = "100ms"\n' \
             '[share]\nquantum_min = "50ms"\nquantum_max = "200ms"\n'

    def tearDown(self):
        self.inject("clear")
        super().tearDown()  # a job keeps its instance
        until("the jobs have ended", lambda: not self.request("GET", "/v1/jobs").json()["jobs"]
              or all(job["ended_at"] for job in self.request("GET", "/v1/jobs").json()["jobs"]))
        # The next test needs the GPUs whole, also if the mode only waits for a reset.
        self.change("apply", [], enabled=False, forget=True)
        for gpu in ("0", "1"):
            self.inject("reset", "--gpu", gpu)

    def mig(self, index=0):
        answer = self.request("GET", f"/v1/mig?gpu={index}")
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json()["gpus"][0]

    def layout(self, index=0):
        return self.mig(index)["layout"]

    def change(self, what, instances, gpus=(), enabled=True, forget=False):
        devices = {"gpus": list(gpus), "enabled": enabled, "instances": instances}
        return self.request("POST", f"/v1/mig/{what}", {"devices": [devices], "forget": forget})

    def apply(self, *instances, gpus=("0",)):
        answer = self.change("apply", list(instances), gpus)
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json()["gpus"]

    def uuids(self, index=0):
        return [compute["uuid"] for instance in self.mig(index)["instances"] for compute in instance["compute"]]

    def instance(self, profile, index=0):
        return next(each for each in self.mig(index)["instances"] if each["profile"] == profile)

    def run_load(self, uuid, *arguments):
        env = {**self.m.env, "CUDA_VISIBLE_DEVICES": uuid}
        return subprocess.run([program("gpuman-load"), *arguments], env=env, capture_output=True, text=True)

    @contextlib.contextmanager
    def busy(self, uuid):
        """Starts a program that holds memory of the instance."""
        env = {**self.m.env, "CUDA_VISIBLE_DEVICES": uuid}
        load = subprocess.Popen([program("gpuman-load"), "--alloc", "64MiB", "--hold", "1h"], env=env, stdout=subprocess.DEVNULL)
        try:
            until("it is seen", lambda: load.pid in [p["pid"] for i in self.mig()["instances"] for p in i["processes"]])
            yield load.pid
        finally:
            load.kill()
            load.wait()

    def setUp(self):
        super().setUp()
        self.first = max((event["id"] for event in self.events()), default=0)

    def kinds(self):
        return [event["kind"] for event in self.events() if event["id"] > self.first]


class MigTest(MigCase):
    def test_a_gpu_says_what_it_can_be_split_into(self):
        gpu = self.mig()
        self.assertEqual((gpu["supported"], gpu["enabled"], gpu["instances"], gpu["wanted"]), (True, False, [], None))
        profiles = {profile["name"]: profile for profile in gpu["profiles"]}
        self.assertEqual(len(profiles), 7)
        self.assertEqual((profiles["3g.71gb"]["most"], profiles["3g.71gb"]["starts"]), (2, [0, 4]))
        self.assertEqual(profiles["1g.18gb+me"]["most"], 1)

    def test_a_plan_does_nothing(self):
        answer = self.change("plan", ["3g.71gb", "2x1g.18gb"], ["0"])
        self.assertEqual(answer.status, 200, answer.body)
        steps = [step["kind"] for step in answer.json()["gpus"][0]["steps"]]
        self.assertEqual(steps, ["enable"] + ["create_gpu", "create_compute"] * 3)
        self.assertFalse(self.mig()["enabled"])

    def test_instances_are_made_and_programs_have_their_memory_alone(self):
        self.assertTrue(self.apply("3g.71gb", "2x1g.18gb")[0]["done"])
        self.assertEqual(self.layout(), ["3g.71gb", "2x1g.18gb"])
        self.assertEqual(len(set(self.uuids())), 3)
        self.assertFalse(self.mig(1)["enabled"])
        small = self.instance("1g.18gb")
        uuid = small["compute"][0]["uuid"]
        self.assertEqual(self.run_load(uuid, "--alloc", str(small["memory"] // 2)).returncode, 0)
        self.assertEqual(self.run_load(uuid, "--alloc", str(small["memory"] + MIB)).returncode, 3)
        big = self.instance("3g.71gb")["compute"][0]["uuid"]
        self.assertEqual(self.run_load(big, "--alloc", str(small["memory"] + MIB)).returncode, 0)
        # The GPU is already split that way.
        self.assertEqual(self.apply("2x1g.18gb", "3g.71gb")[0]["steps"], [])
        self.assertIn("mig_changed", self.kinds())

    def test_an_instance_in_use_stays_or_is_named(self):
        self.apply("3g.71gb", "1g.18gb")
        with self.busy(self.instance("3g.71gb")["compute"][0]["uuid"]) as pid:
            answer = self.change("apply", ["7g.141gb"], ["0"])
            self.assertEqual(answer.status, 409, answer.body)
            self.assertIn(f"{pid} (gpuman-load)", answer.json()["error"]["message"])
            self.assertEqual(self.layout(), ["3g.71gb", "1g.18gb"])
            self.assertEqual(self.change("apply", [], ["0"], enabled=False).status, 409)
            before = self.instance("3g.71gb")["id"]
            self.apply("3g.71gb", "2g.35gb")
            self.assertEqual(self.instance("3g.71gb")["id"], before)
            self.assertEqual(self.layout(), ["3g.71gb", "2g.35gb"])
        until("it is gone", lambda: not self.instance("3g.71gb")["processes"])
        self.apply("7g.141gb")

    def test_an_impossible_layout_is_refused_with_the_reason(self):
        for instances, status, words in ((["3x3g.71gb"], 422, "3 of 3g.71gb are too many"),
                                         (["3g.72gb"], 404, "it has 1g.18gb"),
                                         (["4g.71gb", "3g.71gb", "1g.18gb"], 422, "9 slices"),
                                         (["huge"], 400, "names no MIG instance"),
                                         (["4c.3g.71gb"], 422, "3 slice")):
            for what in ("plan", "apply"):
                answer = self.change(what, instances, ["0"])
                self.assertEqual(answer.status, status, answer.body)
                self.assertIn(words, answer.json()["error"]["message"])
        self.assertEqual(self.change("plan", ["1g.18gb"], ["7"]).status, 404)
        self.assertFalse(self.mig()["enabled"])

    def test_bad_requests_are_refused(self):
        for body in ({}, {"devices": []}, {"devices": [{"instances": "x"}]}, {"devices": [{"gpu": "0", "instances": []}]}, {"devices": [{}]},
                     {"devices": [{"enabled": False, "instances": ["1g.18gb"]}]},
                     {"devices": [{"filters": ["H200"], "instances": []}]},
                     {"devices": [{"keep_mode": True, "instances": []}]},
                     {"devices": [{"keep_mode": True, "instances": ["1g.18gb"]}], "forget": True},
                     {"devices": [{"instances": []}, {"gpus": ["1"], "instances": []}]}):
            answer = self.request("POST", "/v1/mig/apply", body, checked=False)
            self.assertEqual(answer.status, 400, answer.body)

    def test_gpus_are_chosen_by_their_kind(self):
        ours = {"devices": [{"filters": ["0x233510DE"], "instances": ["7g.141gb"]}]}
        self.assertEqual(len(self.request("POST", "/v1/mig/plan", ours).json()["gpus"]), 2)
        others = {"devices": [{"filters": ["0x20B210DE"], "instances": ["7g.141gb"]}]}
        self.assertEqual(self.request("POST", "/v1/mig/plan", others).status, 404)

    def numbered_instances(self):
        """The instances once the daemon has seen each as a device, which gives it a number."""
        instances = lambda: self.mig()["instances"]
        until("each has a number", lambda: all(compute["number"] for one in instances() for compute in one["compute"]))
        return instances()

    def test_a_failure_in_the_middle_leaves_it_as_it_was(self):
        self.apply("4g.71gb", "1g.18gb")
        before = self.numbered_instances()
        self.inject("mig-create-fail", "--nth", "2")
        answer = self.change("apply", ["2x3g.71gb"], ["0"])
        self.assertEqual(answer.code(), "exhausted")
        self.assertIn("it is as it was before", answer.json()["error"]["message"])
        self.assertEqual(self.numbered_instances(), before)
        self.assertEqual(self.mig()["wanted"], ["4g.71gb", "1g.18gb"])
        self.assertFalse(self.mig()["drifted"])

    def test_a_reset_takes_the_instances_and_they_are_made_again(self):
        self.apply("3g.71gb", "2x1g.18gb")
        before = self.uuids()
        self.inject("reset", "--gpu", "0")
        until("they are told", lambda: "mig_restored" in self.kinds())
        self.assertEqual(self.uuids(), before)
        self.assertEqual(self.kinds().count("mig_restored"), 1)

    def test_a_daemon_that_is_killed_forgets_nothing(self):
        self.apply("2g.35gb")
        self.m.stop_daemon(signal.SIGKILL)
        self.inject("reset", "--gpu", "0")
        self.m.start_daemon()
        until("it is made again", lambda: self.layout() == ["2g.35gb"])

    def test_a_cleared_layout_is_not_made_again(self):
        self.apply("2g.35gb")
        self.assertEqual(self.change("apply", [], ["0"], forget=True).status, 200)
        self.assertEqual((self.layout(), self.mig()["enabled"], self.mig()["wanted"]), ([], True, None))
        self.apply("1g.18gb", gpus=("1",))
        self.inject("reset", "--gpu", "0")
        self.inject("reset", "--gpu", "1")
        until("the other is made again", lambda: self.layout(1) == ["1g.18gb"])
        self.assertEqual(self.layout(), [])

    def test_a_mode_that_needs_a_reset_says_so_and_goes_on_after_it(self):
        self.inject("mig-needs-reset", "--gpu", "0")
        gpu = self.apply("7g.141gb")[0]
        self.assertTrue(gpu["done"])
        self.assertIn("from the next reset", gpu["needs_reset"])
        self.assertEqual((self.mig()["enabled"], self.mig()["pending"]), (False, True))
        self.inject("reset", "--gpu", "0")
        until("it is made", lambda: self.layout() == ["7g.141gb"])


class InstanceCase(MigCase):
    """Instances as devices of jobs."""

    def gpus_now(self):
        return self.request("GET", "/v1/gpus").json()["gpus"]

    def gpu(self, name):
        return self.request("GET", f"/v1/gpus/{name}").json()

    def looked_at(self, name):
        """The memory of an instance, known from its first sample on."""
        return until("it was looked at", lambda: self.gpu(name)["memory"])

    def queue_gpu(self, uuid):
        return next(gpu for gpu in self.request("GET", "/v1/queue/info").json()["gpus"] if gpu["uuid"] == uuid)

    def submit(self, script="exec sleep 1000", status=201, **more):
        job = {"command": ["/bin/sh", "-c", script], **more}
        body = {"jobs": [job], "directory": str(self.m.dir), "environment": self.run_request("x", "true")["environment"]}
        answer = self.request("POST", "/v1/submissions", body)
        self.assertEqual(answer.status, status, answer.body)
        return answer.json()["jobs"][0]["id"] if status == 201 else answer.json()["error"]

    def refused(self, status, **more):
        answer = self.request("POST", "/v1/jobs", self.run_request("refused", "true", **more))
        self.assertEqual(answer.status, status, answer.body)
        return answer.json()["error"]

    def holds(self, job, uuid):
        """Waits until the driver shows memory of the instance for the job's program; returns the processes."""
        return until("it is seen", lambda: [p for p in self.gpu(uuid)["processes"] if p["job"] == job])


class InstanceTest(InstanceCase):
    def test_instances_are_devices_behind_their_gpu(self):
        self.apply("3g.71gb", "2x1g.18gb")
        gpus = until("each has been looked at", lambda: (now := self.gpus_now()) and all(gpu["memory"] for gpu in now) and now)
        self.assertEqual([gpu["number"] for gpu in gpus], ["0", "0:0", "0:1", "0:2", "1"])
        self.assertEqual([gpu["split"] for gpu in gpus], [True, False, False, False, False])
        self.assertEqual([gpu["index"] for gpu in gpus], [0, None, None, None, 1])
        self.assertEqual([gpu["uuid"] for gpu in gpus[1:4]], self.uuids())
        self.assertEqual(gpus[1]["name"], "NVIDIA H200 MIG 3g.71gb")
        self.assertEqual(gpus[1]["mig"], {"parent": gpus[0]["uuid"], "gpu_instance": self.instance("3g.71gb")["id"],
                                          "compute_instance": 0, "profile": "3g.71gb"})
        self.assertEqual(gpus[1]["memory"]["total"], self.instance("3g.71gb")["memory"])
        for name in ("0:2", gpus[3]["uuid"], gpus[3]["uuid"][:12]):
            self.assertEqual(self.gpu(name)["number"], "0:2")
        self.assertEqual(len(self.request("GET", "/v1/health").json()["gpus"]), 2)
        self.assertEqual([d["index"] for d in self.request("GET", "/v1/devices").json()["devices"]], [0, 1])
        self.change("apply", [], ["0"], enabled=False, forget=True)
        self.assertEqual([gpu["number"] for gpu in self.gpus_now()], ["0", "1"])

    def test_a_limit_is_held_where_memory_of_the_instance_is_allocated(self):
        self.apply("2x1g.18gb")
        total = self.looked_at("0:1")["total"]
        half = total // 2
        over = self.load(half + 64 * MIB, "--json") + "; echo status $?; echo $CUDA_VISIBLE_DEVICES"
        self.start("greedy", over, gpus=["0:1"], memory="50%")
        self.assertEqual(self.wait("greedy")["state"], "finished")
        self.assertIn("status 3", self.log("greedy"))
        self.assertIn(self.uuids()[1], self.log("greedy"))
        self.assertEqual(self.job("greedy")["memory"]["limit"], half)
        self.assertEqual(self.job("greedy")["gpus"], [self.uuids()[1]])
        self.assertNotIn("hard_limit", self.kinds())
        self.start("modest", self.load(half // 2, "--hold", "1h"), gpus=["0:1"], memory="50%")
        self.holds(self.job("modest")["id"], "0:1")
        self.assertEqual(self.gpu("0:0")["processes"], [])
        self.assertEqual(self.gpu("0")["processes"], [])
        self.assertEqual(self.job("modest")["state"], "running")
        self.assertEqual(self.job("modest")["unshimmed"], [])

    def test_the_guard_ends_what_passes_its_limit_without_the_library(self):
        self.apply("2x1g.18gb")
        self.start("greedy", self.load("300MiB", "--hold", "1h"), gpus=["0:0"], memory="256MiB", preload=False)
        self.start("beside", self.load("64MiB", "--hold", "1h"), gpus=["0:1"], memory="256MiB", preload=False)
        ended = self.wait("greedy")
        self.assertEqual((ended["state"], ended["reason"]), ("killed", "memory_limit"), self.log("greedy"))
        self.assertIn("GPU 0:0", ended["reason_detail"])
        self.assertEqual(self.kinds().count("hard_limit"), 1)
        until("the other is unharmed", lambda: self.job("beside")["state"] == "running")

    def test_a_limit_is_not_more_than_the_instance_has(self):
        self.apply("1g.18gb")
        total = self.looked_at("0:0")["total"]
        self.assertIn("than GPU 0:0 has", self.refused(422, gpus=["0:0"], memory=total + MIB)["message"])

    def test_the_queue_gives_jobs_an_instance_each_and_nobody_the_gpu_that_is_split(self):
        self.apply("2x1g.18gb")
        small = [self.submit(gpus={"count": 1, "model": "1g.18gb"}) for _ in range(3)]
        for job in small[:2]:
            self.becomes(job, "running")
        self.assertEqual(sorted(self.job(small[0])["gpus"] + self.job(small[1])["gpus"]), sorted(self.uuids()))
        any_one = [self.submit(gpus={"count": 1}) for _ in range(2)]
        whole = self.gpu("1")["uuid"]
        until("the first has the whole GPU", lambda: self.job(any_one[0])["gpus"] == [whole])
        self.assertEqual((self.job(any_one[1])["state"], self.job(small[2])["state"]), ("queued", "queued"))
        self.assertEqual([self.queue_gpu(uuid)["state"] for uuid in (self.gpu("0")["uuid"], self.uuids()[0], whole)],
                         ["split", "allocated", "allocated"])
        self.request("POST", f"/v1/jobs/{small[0]}/cancel")
        self.becomes(small[2], "running")
        self.assertEqual(self.job(small[2])["gpus"], self.job(small[0])["gpus"])
        # Once an instance is free, the other waiting job gets it.
        for job in small[1:]:
            self.request("POST", f"/v1/jobs/{job}/cancel")
        until("the other has an instance", lambda: self.job(any_one[1])["state"] == "running")

    def test_a_request_beyond_an_instance_gets_a_whole_gpu(self):
        self.apply("1g.18gb")
        memory = self.looked_at("0:0")["total"]
        jobs = [self.submit(gpus={"count": 1, "model": "H200"}), self.submit(gpus={"count": 1, "free_memory": memory + MIB})]
        self.becomes(jobs[0], "running")
        self.assertEqual(self.job(jobs[0])["gpus"], [self.gpu("1")["uuid"]])
        self.assertEqual(self.job(jobs[1])["state"], "queued")
        self.assertEqual(self.queue_gpu(self.uuids()[0])["state"], "idle")

    def test_one_instance_a_job_and_none_suspended_or_moved(self):
        self.apply("2x1g.18gb")
        self.assertIn("one instance", self.refused(409, gpus=["0:0", "0:1"])["message"])
        self.assertIn("one instance", self.refused(409, gpus=["1", "0:1"])["message"])
        self.assertIn("0:0 (1g.18gb", self.refused(409, gpus=["0"])["message"])
        self.assertIn("whole GPUs", self.refused(501, gpus=["0:0"], mps=True)["message"])
        self.assertIn("one instance", self.submit(status=409, gpus={"devices": ["0:0", "0:1"]})["message"])
        self.assertIn("instances (MIG) count as GPUs", self.submit(status=422, gpus={"count": 3})["hint"])
        self.start("there", "exec sleep 1000", gpus=["0:0"])
        self.becomes("there", "running")
        for order, body in (("suspend", None), ("move", {"gpu": "1"})):
            answer = self.request("POST", f"/v1/jobs/there/{order}", body)
            self.assertEqual((answer.status, answer.code()), (501, "not_supported"), answer.body)
            self.assertIn("instance", answer.json()["error"]["message"])
        self.start("whole", "exec sleep 1000", gpus=["1"])
        self.becomes("whole", "running")
        self.assertEqual(self.request("POST", "/v1/jobs/whole/move", {"gpu": "0:1"}).status, 501)

    def test_an_idle_job_stays_in_its_instance_and_the_daemon_says_why(self):
        self.apply("1g.18gb")
        job = self.start("idle", self.load("64MiB", "--hold", "1h"), gpus=["0:0"], idle_suspend_s=0.2)
        until("it is told", lambda: "idle_suspend_refused" in self.kinds(), self.what_stands)
        told = next(event for event in self.events() if event["kind"] == "idle_suspend_refused" and event["job"] == job)
        self.assertIn("an instance of a GPU (MIG)", told["message"])
        notes = self.job(job)["notes"]
        self.assertTrue(any("not suspended when it is idle" in note and "(MIG)" in note for note in notes), notes)
        self.holds(job, "0:0")
        self.assertEqual(self.job(job)["state"], "running")

    def test_jobs_share_an_instance_and_take_turns(self):
        self.apply("3g.71gb")
        uuid = self.uuids()[0]
        self.addCleanup(self.request, "PUT", "/v1/share", {"clear_capacity": True})
        end = self.m.dir / "both"
        jobs = [self.start(tag, "exec " + self.load("24MiB", "--verify", "--kernel-time", "20ms", "--duty", "0.5",
                                                      "--until", str(end), "--json"),
                           gpus=[uuid], share=True) for tag in ("one", "other")]

        def shared():
            return next((gpu for gpu in self.request("GET", "/v1/share").json()["gpus"] if gpu["uuid"] == uuid), None)

        # With less than one of them needs, that one would be denied its memory.
        until("both have their memory", lambda: [job["memory"]["resident"] + job["memory"]["away"] >= 24 * MIB
                                                 for job in (shared() or {"jobs": []})["jobs"]] == [True, True])
        shown, demand = set(), 0

        def they_took_turns():
            nonlocal demand
            gpu = shared() or {"jobs": [], "hand_overs": 0}
            # The demand changes with what the daemon learns of contexts.
            if gpu["demand"] != demand:
                demand = gpu["demand"]
                self.request("PUT", "/v1/share", {"capacity": demand - 16 * MIB})
            shown.update(process["name"] for process in self.gpu("0:0")["processes"])
            plan = self.change("plan", [], ["0"], enabled=False).json()["gpus"][0]
            self.assertEqual([each for each in plan["in_the_way"] if each["name"] == "gpuman-mover" and not each["gpuman"]], [])
            return gpu["hand_overs"] >= 2 and "gpuman-mover" in shown
        until("they take turns, by a mover that is shown", they_took_turns, self.what_stands)
        end.touch()
        for job in jobs:
            ended = self.wait(job)
            self.assertEqual(ended["state"], "finished", self.log(job)[-1500:])
            said = [json.loads(line) for line in self.log(job).splitlines() if line.startswith("{")]
            self.assertEqual([e["wrong_words"] for e in said if e["event"] == "verify"], [0], self.log(job)[-1500:])
        until("what gpuman itself had there is not in the way", lambda: self.change("apply", [], ["0"], enabled=False).status == 200)

    def test_a_compute_instance_that_is_a_part_is_not_shared(self):
        self.apply("1c.3g.71gb", "1c.3g.71gb")
        self.assertIn("together with other compute instances", self.refused(501, gpus=["0:0"], share=True, memory="1GiB")["message"])

    def test_a_job_keeps_its_instance_and_is_named_to_who_wants_to_change_it(self):
        self.apply("1g.18gb", "3g.71gb")
        small = self.instance("1g.18gb")["compute"][0]["uuid"]
        job = self.start("idle", "exec sleep 1000", gpus=[small])  # uses no CUDA yet
        self.becomes("idle", "running")
        answer = self.change("apply", ["7g.141gb"], ["0"])
        self.assertEqual((answer.status, answer.code()), (409, "conflict"), answer.body)
        number = self.instance("1g.18gb")["compute"][0]["number"]
        self.assertRegex(number, "^0:[01]$")
        self.assertIn(f"job {job} 'idle' has GPU {number}", answer.json()["error"]["message"])
        self.assertRegex(self.m.run("mig", "show", "0").stdout, rf"\n{number} +1g.18gb .* {small}\n")
        self.assertEqual(self.change("apply", [], ["0"], enabled=False).status, 409)
        whole = self.start("whole", "exec sleep 1000", gpus=["1"])
        self.becomes("whole", "running")
        self.assertIn(f"job {whole} 'whole'", self.change("apply", ["7g.141gb"], ["1"]).json()["error"]["message"])
        self.apply("1g.18gb", "2g.35gb")  # the instance may stay
        self.assertIn(small, self.uuids())
        self.request("DELETE", "/v1/jobs/idle")
        self.wait("idle")
        self.apply("7g.141gb")

    def test_a_job_waits_for_an_instance_that_somebody_cleared(self):
        self.apply("1g.18gb")
        uuid = self.uuids()[0]
        job = self.submit(gpus={"devices": [uuid]}, hold=True)
        self.assertEqual(self.change("apply", [], ["0"]).status, 200)
        self.request("POST", f"/v1/jobs/{job}/release")
        until("it is said why it waits", lambda: "not here now" in (self.job(job)["reason_detail"] or ""))
        self.assertEqual((self.job(job)["state"], self.job(job)["reason"]), ("queued", "resources"))
        self.assertEqual(self.request("GET", f"/v1/gpus/{uuid}").status, 404)
        self.apply("1g.18gb")  # the same place, so the same name
        self.becomes(job, "running")
        self.assertEqual(self.job(job)["gpus"], [uuid])

    def test_an_instance_lost_to_a_reset_is_no_lost_gpu(self):
        self.apply("1g.18gb")
        uuid = self.uuids()[0]
        self.inject("reset", "--gpu", "0")
        until("it is made again", lambda: "mig_restored" in self.kinds())
        until("it is a device again", lambda: uuid in [gpu["uuid"] for gpu in self.gpus_now()])
        self.assertNotIn("gpu_lost", self.kinds())

    def test_a_daemon_that_is_killed_finds_the_job_in_its_instance(self):
        self.apply("2x1g.18gb")
        job = self.start("stays", self.load("200MiB", "--hold", "1h"), gpus=["0:1"], memory="512MiB")
        self.holds(job, "0:1")
        self.m.stop_daemon(signal.SIGKILL)
        self.m.start_daemon()
        self.holds(job, "0:1")
        self.assertEqual(self.job("stays")["state"], "running")
        self.assertEqual(self.job("stays")["gpus"], [self.uuids()[1]])
        until("it counts", lambda: self.job("stays")["unshimmed"] == [])
        self.assertEqual(self.change("apply", [], ["0"], enabled=False).status, 409)
        self.assertEqual(self.queue_gpu(self.uuids()[1])["jobs"], [job])

    def test_metrics_have_the_labels_of_dcgm_exporter(self):
        self.apply("1g.18gb")
        uuid, parent, part = self.uuids()[0], self.gpu("0")["uuid"], self.instance("1g.18gb")
        job = self.start("there", self.load("64MiB", "--hold", "1h"), gpus=[uuid], memory="512MiB")
        self.holds(job, uuid)
        text = self.request("GET", "/metrics").body.decode()
        rows = [line for line in text.splitlines() if line.startswith("DCGM_FI_DEV_FB_USED{") and f'UUID="{parent}"' in line]
        self.assertEqual(len(rows), 1, rows)
        self.assertIn(f'GPU_I_PROFILE="1g.18gb",GPU_I_ID="{part["id"]}"', rows[0])
        used = [line for line in text.splitlines() if line.startswith("gpuman_job_memory_used_bytes{") and f'uuid="{uuid}"' in line]
        self.assertEqual(len(used), 1, text)
        self.assertIn('gpu="0:0"', used[0])
        self.assertGreaterEqual(float(used[0].split()[-1]), 64 * MIB)


class UnhealthyTest(InstanceCase):
    def test_a_fault_and_a_drain_of_the_gpu_are_its_instances_too(self):
        self.apply("2x1g.18gb")
        uuid = self.uuids()[0]
        self.request("PATCH", "/v1/queue/settings", {"drain": ["0"]})
        until("it is drained", lambda: self.queue_gpu(uuid)["state"] == "drained")
        self.request("PATCH", "/v1/queue/settings", {"undrain": ["0"]})
        until("it is not", lambda: self.queue_gpu(uuid)["state"] == "idle")
        self.start("there", self.load("64MiB", "--hold", "1h"), gpus=[uuid])
        self.holds(self.job("there")["id"], uuid)
        self.inject("xid", "79", "--gpu", "0")
        until("its GPU is unhealthy", lambda: self.gpu(uuid)["health"]["state"] == "unhealthy")
        until("nothing more is given", lambda: self.queue_gpu(self.uuids()[1])["state"] == "drained")
        until("the job is told", lambda: any("Xid 79" in note for note in [self.log("there")]))


class CommandTest(MigCase):
    def gpuman(self, *arguments, status=0):
        done = self.m.run(*arguments)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout if status in (0, 1) else done.stderr

    def test_a_job_that_names_a_gpu_that_is_split_is_refused(self):
        self.apply("1g.18gb")
        refused = self.request("POST", "/v1/jobs", self.run_request("whole", "true", gpus=["0"]))
        self.assertEqual((refused.status, refused.code()), (409, "conflict"), refused.body)
        self.assertIn("gpuman mig clear --gpu 0 --disable", refused.json()["error"]["hint"])
        self.start("beside", "true", gpus=["1"])
        self.assertEqual(self.wait("beside")["state"], "finished")

    def test_the_commands_know_instances_by_their_number(self):
        self.gpuman("mig", "apply", "--gpu", "0", "2x1g.18gb")
        self.assertIn("0:1", self.gpuman("status"))
        self.assertIn("NVIDIA H200 MIG 1g.18gb", self.gpuman("gpu", "show", "0:1"))
        self.assertIn("0:1", self.gpuman("info"))
        self.gpuman("run", "--tag", "named", "--gpu", "0:1", "--wait", "--", "true")
        self.assertEqual(self.job("named")["gpus"], [self.uuids()[1]])
        self.gpuman("gpu", "restrict", "0:0")
        states = {gpu["number"]: gpu["state"] for gpu in self.request("GET", "/v1/queue/info").json()["gpus"]}
        self.assertEqual((states["0:0"], states["0:1"], states["1"]), ("restricted", "idle", "idle"))
        self.gpuman("gpu", "allow", "0")
        self.gpuman("gpu", "restrict", "0")
        states = {gpu["number"]: gpu["state"] for gpu in self.request("GET", "/v1/queue/info").json()["gpus"]}
        self.assertEqual((states["0:0"], states["0:1"], states["1"]), ("restricted", "restricted", "idle"))
        self.gpuman("gpu", "allow", "all")

    def test_the_commands_lead_from_a_whole_gpu_there_and_back(self):
        self.assertIn("3g.71gb", self.gpuman("mig", "profiles", "--gpu", "0"))
        self.assertIn("create 3g.71gb at slice 0", self.gpuman("mig", "plan", "--gpu", "0", "3g.71gb", "2x1g.18gb"))
        self.assertIn("create 3g.71gb", self.gpuman("mig", "apply", "--dry-run", "--gpu", "0", "3g.71gb"))
        self.assertFalse(self.mig()["enabled"])
        self.assertIn("done", self.gpuman("mig", "apply", "--gpu", "0", "3g.71gb", "2x1g.18gb"))
        shown = self.gpuman("mig", "show")
        for uuid in self.uuids():
            self.assertIn(uuid, shown)
        self.assertIn("nothing to change", self.gpuman("mig", "apply", "--gpu", "0", "2x1g.18gb", "3g.71gb"))
        said = json.loads(self.gpuman("mig", "show", "--json"))
        self.assertEqual(said["gpus"][0]["layout"], ["3g.71gb", "2x1g.18gb"])
        self.gpuman("mig", "clear", "--gpu", "0", "--disable")
        self.assertFalse(self.mig()["enabled"])

    def test_clear_leaves_the_mode_of_a_gpu_alone(self):
        nothing = "GPU 0: nothing to change\nGPU 1: nothing to change\n"
        self.assertEqual(self.gpuman("mig", "clear", "--dry-run"), nothing)
        self.gpuman("mig", "apply", "--gpu", "0", "1g.18gb")
        self.assertEqual(self.gpuman("mig", "clear"), "GPU 0: done\nGPU 1: nothing to change\n")
        self.assertEqual([(gpu["enabled"], gpu["layout"], gpu["wanted"]) for gpu in (self.mig(0), self.mig(1))],
                         [(True, [], None), (False, [], None)])

    def test_clear_decides_by_the_mode_that_the_daemon_finds(self):
        cleared = {"devices": [{"gpus": ["0"], "instances": [], "keep_mode": True}], "forget": True}
        for on in (False, True):
            if on:
                self.apply("1g.18gb")
            self.assertEqual(self.request("POST", "/v1/mig/apply", cleared).status, 200)
            self.assertEqual((self.mig()["enabled"], self.layout()), (on, []))

    def test_clear_leaves_a_mode_alone_that_waits_for_a_reset(self):
        self.inject("mig-needs-reset", "--gpu", "0")
        self.apply("7g.141gb")
        self.assertEqual(self.gpuman("mig", "clear", "--gpu", "0", "--dry-run"), "GPU 0: nothing to change\n")
        self.gpuman("mig", "clear", "--gpu", "0")
        self.assertEqual((self.mig()["enabled"], self.mig()["pending"]), (False, True))

    def test_a_file_that_was_exported_makes_it_again(self):
        self.gpuman("mig", "apply", "--gpu", "0", "3g.71gb", "2x1g.18gb")
        for form in ("toml", "mig-parted"):
            file = self.m.dir / f"layouts.{form}"
            file.write_text(self.gpuman("mig", "export", "--format", form, "--name", "today"))
            self.gpuman("mig", "clear", "--disable")
            self.gpuman("mig", "apply", "--file", str(file), "--layout", "today")
            self.assertEqual(self.layout(), ["3g.71gb", "2x1g.18gb"])
            self.assertFalse(self.mig(1)["enabled"])

    def test_exit_statuses_say_what_is_wrong(self):
        file = self.m.dir / "wrong.toml"
        file.write_text("[[layouts.a]]\ninstance = []\n")
        self.assertIn("did you mean instances?", self.gpuman("mig", "plan", "--file", str(file), status=2))
        self.gpuman("mig", "plan", "--gpu", "0", status=2)
        self.gpuman("mig", "plan", "--gpu", "0", "3x3g.71gb", status=6)
        self.gpuman("mig", "plan", "--gpu", "9", "3g.71gb", status=4)
        self.gpuman("mig", "plan", "--gpu", "0", "3g.17gb", status=4)
        file.write_text("[[layouts.a]]\ninstances = []\n[[layouts.b]]\ninstances = []\n")
        self.assertIn("--layout: a, b", self.gpuman("mig", "plan", "--file", str(file), status=2))
        self.gpuman("mig", "plan", "--file", str(file), "--layout", "c", status=4)


class LaptopTest(MigCase):
    gpus, memory, profile = 1, None, "rtx4050"

    def tearDown(self):
        DaemonTest.tearDown(self)

    def test_a_gpu_that_cannot_be_split_says_so(self):
        gpu = self.mig()
        self.assertFalse(gpu["supported"])
        self.assertIn("cannot be split", gpu["error"])
        self.assertEqual(self.change("apply", ["1g.18gb"], ["0"]).status, 501)
        self.assertIn("not supported", self.m.run("mig", "show").stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)

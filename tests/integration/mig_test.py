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
    config = '[sampling]\nrest = "20ms"\nslow = "100ms"\nretry = "200ms"\n[mig]\ncheck = "100ms"\n'

    def tearDown(self):
        self.inject("clear")
        # What a test left has to go for the next one, also where the mode only waits for a reset.
        self.change("apply", [], enabled=False, forget=True)
        for gpu in ("0", "1"):
            self.inject("reset", "--gpu", gpu)
        super().tearDown()

    def inject(self, *arguments):
        done = subprocess.run([program("gpuman-sim"), "inject", *arguments], env=self.m.env, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

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
        """A program that holds memory of the instance."""
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
        # It is so already.
        self.assertEqual(self.apply("2x1g.18gb", "3g.71gb")[0]["steps"], [])
        self.assertIn("mig_changed", self.kinds())

    def test_what_is_in_use_stays_or_is_named(self):
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

    def test_what_cannot_be_is_refused_with_the_reason(self):
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
                     {"devices": [{"instances": []}, {"gpus": ["1"], "instances": []}]}):
            answer = self.request("POST", "/v1/mig/apply", body, checked=False)
            self.assertEqual(answer.status, 400, answer.body)

    def test_gpus_are_chosen_by_their_kind(self):
        ours = {"devices": [{"filters": ["0x233510DE"], "instances": ["7g.141gb"]}]}
        self.assertEqual(len(self.request("POST", "/v1/mig/plan", ours).json()["gpus"]), 2)
        others = {"devices": [{"filters": ["0x20B210DE"], "instances": ["7g.141gb"]}]}
        self.assertEqual(self.request("POST", "/v1/mig/plan", others).status, 404)

    def test_a_failure_in_the_middle_leaves_it_as_it_was(self):
        self.apply("4g.71gb", "1g.18gb")
        before = self.mig()["instances"]
        self.inject("mig-create-fail", "--nth", "2")
        answer = self.change("apply", ["2x3g.71gb"], ["0"])
        self.assertEqual(answer.code(), "exhausted")
        self.assertIn("it is as it was before", answer.json()["error"]["message"])
        self.assertEqual(self.mig()["instances"], before)
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

    def test_what_is_cleared_stays_away(self):
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

    def test_the_queue_starts_nothing_on_a_gpu_that_is_split(self):
        self.apply("7g.141gb")
        job = {"command": ["/bin/sh", "-c", "exec sleep 1000"], "gpus": {"count": 1}}
        ids = []
        for _ in range(2):
            answer = self.request("POST", "/v1/submissions", {"jobs": [job], "directory": str(self.m.dir), "environment": {}})
            ids.append(answer.json()["jobs"][0]["id"])
        whole = self.request("GET", "/v1/gpus/1").json()["uuid"]
        until("the first has the whole GPU", lambda: self.job(ids[0])["gpus"] == [whole])
        self.assertEqual(self.job(ids[1])["state"], "queued")
        self.change("apply", [], ["0"], enabled=False, forget=True)
        until("the second has the other", lambda: self.job(ids[1])["state"] == "running")


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

    def test_the_commands_lead_from_a_whole_gpu_there_and_back(self):
        self.assertIn("3g.71gb", self.gpuman("mig", "profiles", "--gpu", "0"))
        self.assertIn("create 3g.71gb at slice 0", self.gpuman("mig", "plan", "--gpu", "0", "3g.71gb", "2x1g.18gb"))
        self.assertIn("create 3g.71gb", self.gpuman("mig", "apply", "--dry-run", "--gpu", "0", "3g.71gb"))
        self.assertFalse(self.mig()["enabled"])
        self.assertIn("done", self.gpuman("mig", "apply", "--gpu", "0", "3g.71gb", "2x1g.18gb"))
        shown = self.gpuman("mig", "show")
        for uuid in self.uuids():
            self.assertIn(uuid, shown)
        self.assertIn("it is so already", self.gpuman("mig", "apply", "--gpu", "0", "2x1g.18gb", "3g.71gb"))
        said = json.loads(self.gpuman("mig", "show", "--json"))
        self.assertEqual(said["gpus"][0]["layout"], ["3g.71gb", "2x1g.18gb"])
        self.gpuman("mig", "clear", "--gpu", "0", "--disable")
        self.assertFalse(self.mig()["enabled"])

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

#!/usr/bin/env python3
"""Settings of GPUs: shown, changed all or none, kept, set again, by profile and by job. On the simulated driver.

Usage: device_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from daemon_case import DaemonTest, until  # noqa: E402

# Sets the power limit as a program outside gpuman does: GPU and watts are the arguments.
SET_POWER = """
import ctypes, sys
nvml = ctypes.CDLL("libnvidia-ml.so.1")
device = ctypes.c_void_p()
assert nvml.nvmlInit_v2() == 0
assert nvml.nvmlDeviceGetHandleByIndex_v2(int(sys.argv[1]), ctypes.byref(device)) == 0
assert nvml.nvmlDeviceSetPowerManagementLimit(device, int(sys.argv[2]) * 1000) == 0
"""


@unittest.skipUnless(os.geteuid() == 0, "the driver lets only root change settings")
class DeviceCase(DaemonTest):
    gpus, memory, profile = 2, "4GiB", "h200"
    config = '[sampling]\nrest = "20ms"\nslow = "100ms"\nretry = "200ms"\ncall_limit = "1s"\n[device]\ncheck = "100ms"\ncall_limit = "2s"\n'

    def tearDown(self):
        super().tearDown()
        self.inject("clear")
        until("GPUs are well", lambda: all(not gpu["problem"] for gpu in self.devices()))
        self.post("profile", {"name": None})
        self.post("settings", {"set": {"persistence": "on", "compute_mode": "default"},
                               "reset": ["power", "memory_clocks", "graphics_clocks"]})

    def post(self, what, body, status=200):
        answer = self.request("POST", f"/v1/devices/{what}", body)
        self.assertEqual(answer.status, status, answer.body)
        return answer.json()

    def set(self, gpus=(), status=200, **settings):
        return self.post("settings", {"gpus": list(gpus), "set": settings}, status)

    def devices(self):
        answer = self.request("GET", "/v1/devices")
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json()["devices"]

    def setting(self, name, gpu=0):
        return next(one for one in self.devices()[gpu]["settings"] if one["name"] == name)

    def now(self, name, gpu=0):
        return self.setting(name, gpu)["now"]

    def clock(self, gpu=0):
        return self.devices()[gpu]["clocks_mhz"]["graphics"]

    def told(self, kind):
        return [event["message"] for event in self.events() if event["kind"] == kind]

    def hold(self, tag, **more):
        self.start(tag, self.load("64MiB", "--hold", "1h"), **more)
        until("it holds memory", lambda: self.job(tag)["memory"]["used"])

    def kill_daemon(self):
        self.m.stop_daemon(signal.SIGKILL)
        self.m.start_daemon()


class DeviceTest(DeviceCase):
    def test_each_setting_says_what_it_is_and_can_be(self):
        power = self.setting("power")
        self.assertEqual((power["now"], power["default"], power["range"], power["wanted"]),
                         ("700W", "700W", {"min": 200, "max": 700}, None))
        clocks = self.setting("graphics_clocks")
        self.assertEqual((clocks["now"], clocks["supported"], clocks["range"]["max"]), (None, True, 1980))
        self.assertEqual(self.setting("memory_clocks")["choices"], ["2201", "3201"])
        self.assertEqual(self.setting("ecc")["now"], "on")
        shown = self.m.run("device", "show", "1")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("GPU 1  NVIDIA H200", shown.stdout)
        self.assertIn("n/a (not readable)", shown.stdout)
        self.assertEqual(self.m.run_json("device", "show", "1")["index"], 1)
        self.assertEqual(self.m.run("device", "show", "7").returncode, 4)

    def test_commands_change_what_they_say(self):
        for words, name, value in (
                (["persistence", "off"], "persistence", "off"),
                (["compute-mode", "exclusive-process"], "compute_mode", "exclusive-process"),
                (["power", "set", "250W"], "power", "250W"),
                (["power", "set", "50%"], "power", "350W"),
                (["power", "reset"], "power", "700W"),
                (["persistence", "on"], "persistence", "on"),
                (["compute-mode", "default"], "compute_mode", "default")):
            done = self.m.run("device", *words, "--gpu", "1")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(self.now(name, 1), value)
        self.assertEqual(self.m.run("device", "clocks", "lock", "--graphics", "1200", "--memory", "max", "-g", "0").returncode, 0)
        self.assertEqual((self.setting("graphics_clocks")["wanted"], self.setting("memory_clocks")["wanted"]),
                         ("1200,1200", "3201,3201"))
        self.assertEqual(self.clock(), 1200)
        self.assertEqual(self.m.run("device", "clocks", "reset", "--graphics").returncode, 0)
        self.assertEqual((self.setting("graphics_clocks")["wanted"], self.setting("memory_clocks")["wanted"]),
                         (None, "3201,3201"))
        self.assertTrue(any("by root" in text for text in self.told("device_changed")))

    def test_ecc_waits_for_a_reset_and_says_when_it_came(self):
        report = self.set(gpus=["1"], ecc="off")
        self.assertIn("next reset", report["notes"][0])
        self.assertEqual((self.now("ecc", 1), self.setting("ecc", 1)["pending"]), ("on", "off"))
        self.assertIn("on (off after a reset)", self.m.run("device", "show", "1").stdout)
        self.inject("reset", "--gpu", "1")
        until("it is in effect", lambda: self.setting("ecc", 1)["since"])
        self.assertEqual(self.now("ecc", 1), "off")
        self.assertEqual(self.m.run("device", "ecc", "clear", "volatile", "--gpu", "1").returncode, 1)
        self.set(gpus=["1"], ecc="on")
        self.inject("reset", "--gpu", "1")
        until("it is back", lambda: self.now("ecc", 1) == "on")

    def test_error_counters_that_are_set_to_zero_are_reported_and_told(self):
        self.inject("ecc", "--count", "3", "--gpu", "1")
        dry = self.m.run("device", "ecc", "clear", "volatile", "--gpu", "1", "--dry-run")
        self.assertEqual((dry.returncode, dry.stdout), (0, "would set GPU 1: volatile ecc errors n/a -> 0\n"))
        self.assertEqual([text for text in self.told("device_changed") if "ECC error counters" in text], [])
        done = self.m.run("device", "ecc", "clear", "volatile", "--gpu", "1")
        self.assertEqual((done.returncode, done.stdout), (0, "GPU 1: volatile ecc errors n/a -> 0\n"))
        self.assertIn("GPU 1: volatile ECC error counters set to zero (by root)", self.told("device_changed"))
        steps = self.m.run_json("device", "ecc", "clear", "aggregate")["steps"]
        self.assertEqual([(step["index"], step["setting"], step["from"], step["to"]) for step in steps],
                         [(0, "aggregate_ecc_errors", None, "0"), (1, "aggregate_ecc_errors", None, "0")])

    def test_change_on_lost_gpu_is_refused_naming_the_gpu(self):
        self.inject("lost", "--gpu", "1")
        self.addCleanup(self.inject, "clear", "--gpu", "1")
        done = self.m.run("device", "power", "set", "250W")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("GPU 1: ", done.stderr)
        self.assertIn("lost", done.stderr)
        self.assertEqual(self.setting("power")["wanted"], None)

    def test_dry_run_shows_the_change_and_makes_none(self):
        done = self.m.run("device", "power", "set", "250W", "--dry-run")
        self.assertEqual(done.stdout, "would set GPU 0: power 700W -> 250W\nwould set GPU 1: power 700W -> 250W\n")
        self.assertEqual((self.now("power"), self.setting("power")["wanted"]), ("700W", None))

    def test_an_impossible_setting_is_refused_with_the_choices(self):
        for words, status, text in (
                (["power", "set", "900W"], 2, "this GPU takes 200W to 700W"),
                (["clocks", "lock", "--graphics", "1201"], 2, "next to it are 1200 and 1215"),
                (["clocks", "lock"], 2, "--graphics"),
                (["power", "set", "lots"], 2, "is no power"),
                (["persistence", "maybe"], 2, "maybe"),
                (["power", "set", "250W", "--gpu", "7"], 4, "7"),
                (["power", "set", "250W", "--gpu", "1:0"], 4, "instance (MIG)"),
                (["profile", "apply", "benchmark", "--for", "0s"], 2, "longer than no time"),
                (["profile", "apply", "quiet"], 4, "there are benchmark, efficiency, performance"),
                (["profile", "show", "quiet"], 4, "quiet")):
            done = self.m.run("device", *words)
            self.assertEqual(done.returncode, status, (words, done.stderr))
            self.assertIn(text, done.stderr)
        for what, body in (("settings", {}), ("settings", {"set": {"colour": "red"}}), ("settings", {"reset": ["colour"]}),
                           ("settings", {"clear_ecc": "all"}), ("settings", {"set": {"power": "250W"}, "reset": ["power"]}),
                           ("profile", {"for": "1h"}), ("profile", {"nam": "benchmark"})):
            self.assertEqual(self.request("POST", f"/v1/devices/{what}", body, checked=False).status, 400, body)

    def test_a_failure_in_the_middle_leaves_nothing_behind(self):
        self.inject("refuse", "--function", "nvmlDeviceSetPowerManagementLimit_v2", "--gpu", "1")
        error = self.set(power="250W", compute_mode="exclusive-process", status=500)["error"]["message"]
        self.assertIn("GPU 1: power limit: nvmlDeviceSetPowerManagementLimit_v2", error)
        self.assertIn("GPU 0: put back: power limit to 700W", error)
        for gpu in (0, 1):
            self.assertEqual((self.now("power", gpu), self.now("compute_mode", gpu)), ("700W", "default"))
            self.assertIsNone(self.setting("power", gpu)["wanted"])

    def test_each_error_of_the_driver_has_its_own_message(self):
        self.hold("user", gpus=["0"])
        for status, code, text in (("no-permission", 403, "Insufficient Permissions"), ("in-use", 409, "In use by another client"),
                                   ("ignored", 409, "shows 700W")):
            self.inject("refuse", "--function", "nvmlDeviceSetPowerManagementLimit_v2", "--status", status)
            error = self.set(gpus=["0"], power="250W", status=code)["error"]
            self.assertIn(text, error["message"])
            if status == "in-use":
                self.assertIn("in use by pid", error["hint"])
            if status == "no-permission":
                self.assertIn("root", error["hint"])

    def test_a_gpu_that_is_lost_in_the_middle_is_named_and_set_when_it_is_back(self):
        self.set(gpus=["1"], power="300W")
        self.inject("refuse", "--function", "nvmlDeviceSetComputeMode", "--status", "lost", "--gpu", "1")
        error = self.set(power="250W", compute_mode="prohibited", status=503)["error"]["message"]
        self.assertIn("GPU 1: compute mode", error)
        self.assertEqual(self.now("compute_mode", 0), "default")
        until("it is told to be lost", lambda: self.request("GET", "/v1/gpus/1").json()["memory"] is None)
        self.inject("reset", "--gpu", "1")
        until("it is as it was wanted", lambda: not self.devices()[1]["problem"] and self.now("power", 1) == "300W")

    def test_a_call_that_hangs_holds_up_nobody_else(self):
        self.inject("nvml-hang", "--function", "nvmlDeviceSetPowerManagementLimit_v2", "--gpu", "0")
        error = self.set(gpus=["0"], power="250W", status=504)["error"]["message"]
        self.assertIn("GPU 0: the driver has not answered within 2s", error)
        self.assertIn("has not come back", self.set(gpus=["0"], power="250W", status=503)["error"]["message"])
        self.set(gpus=["1"], power="250W")
        self.assertEqual(self.now("power", 1), "250W")
        self.inject("clear")
        until("it takes changes again", lambda: self.request("POST", "/v1/devices/settings", {"gpus": ["0"], "set": {"power": "350W"}}).status == 200)
        self.assertEqual(self.now("power"), "350W")

    def test_an_acknowledged_setting_outlasts_daemon_and_driver(self):
        self.set(gpus=["0"], power="250W", graphics_clocks="1200,1500")
        self.m.stop_daemon(signal.SIGKILL)
        self.inject("reset", "--gpu", "0")
        self.m.start_daemon()
        until("it is set again", lambda: self.now("power") == "250W")
        until("that is told", lambda: any("power limit 250W" in text for text in self.told("device_reapplied")))
        self.assertEqual(self.setting("graphics_clocks")["wanted"], "1200,1500")

    def test_a_reset_while_the_daemon_runs_is_noticed(self):
        self.set(gpus=["0"], power="250W")
        before = len(self.told("device_reapplied"))
        self.inject("reset", "--gpu", "0")
        until("it is set again", lambda: self.now("power") == "250W")
        until("that is told", lambda: len(self.told("device_reapplied")) > before)

    def test_a_foreign_change_is_reported_and_left(self):
        self.set(gpus=["0"], power="250W")
        subprocess.run([sys.executable, "-c", SET_POWER, "0", "300"], env=self.m.env, check=True)
        until("it is told", lambda: any("power limit 300W, wanted 250W" in text for text in self.told("device_drift")))
        power = self.setting("power")
        self.assertEqual((power["now"], power["wanted"], power["drift"]), ("300W", "250W", True))
        self.assertIn("power is not as it is wanted", self.m.run("device", "show", "0").stdout)
        before = len(self.told("device_drift_over"))
        self.set(gpus=["0"], power="250W")
        until("it is over", lambda: len(self.told("device_drift_over")) > before)

    def test_profile_can_be_set_and_removed(self):
        self.assertEqual(sorted(p["name"] for p in self.request("GET", "/v1/devices/profiles").json()["profiles"]),
                         ["benchmark", "efficiency", "performance"])
        self.assertIn("75%", self.m.run("device", "profile", "show", "benchmark").stdout)
        done = self.m.run("device", "profile", "apply", "benchmark", "--gpu", "0", "--for", "2h")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.clock(), 1485)
        self.assertNotEqual(self.clock(1), 1485)
        self.assertTrue(self.setting("graphics_clocks")["because"].startswith("profile benchmark until"))
        self.kill_daemon()
        self.assertEqual(self.setting("graphics_clocks")["wanted"], "1485,1485")
        self.assertEqual(self.m.run("device", "profile", "clear").returncode, 0)
        self.assertIsNone(self.setting("graphics_clocks")["wanted"])
        self.assertNotEqual(self.clock(), 1485)

    def test_a_profile_ends_by_itself(self):
        self.post("profile", {"gpus": ["0"], "name": "efficiency", "for": "1s"})
        until("it is over", lambda: self.now("power") == "700W" and not self.devices()[0]["profiles"])
        until("that is told", lambda: any("profile efficiency is over" in text for text in self.told("device_profile_over")))

    def test_a_profile_ends_also_while_no_daemon_runs(self):
        self.post("profile", {"gpus": ["0"], "name": "efficiency", "for": "1s"})
        self.m.stop_daemon(signal.SIGKILL)
        self.m.start_daemon()
        until("it is over", lambda: self.now("power") == "700W" and not self.devices()[0]["profiles"])


class MendingTest(DeviceCase):
    config = DeviceCase.config + 'mend_drift = true\n[device.profiles.night]\npower = "40%"\n'

    def test_a_foreign_change_is_undone_where_configured(self):
        self.set(gpus=["0"], power="250W")
        subprocess.run([sys.executable, "-c", SET_POWER, "0", "300"], env=self.m.env, check=True)
        until("it is told", lambda: any("somebody had changed it" in text for text in self.told("device_reapplied")))
        self.assertEqual(self.now("power"), "250W")

    def test_a_profile_of_the_configuration_is_one(self):
        self.post("profile", {"gpus": ["1"], "name": "night"})
        self.assertEqual(self.now("power", 1), "280W")


class JobProfileTest(DeviceCase):
    def test_a_job_has_its_profile_while_it_runs(self):
        self.hold("bench", gpus=["0"], device_profile="efficiency")
        until("it is put on", lambda: self.now("power") == "420W")
        self.assertEqual(self.now("power", 1), "700W")
        self.assertEqual(self.job("bench")["device_profile"], "efficiency")
        self.assertIn(f"job {self.job('bench')['id']} (profile efficiency)", self.setting("power")["because"])
        os.kill(self.job("bench")["pid"], signal.SIGKILL)
        until("it is taken off", lambda: self.now("power") == "700W")

    def test_profile_is_removed_after_crash_of_job_and_daemon(self):
        self.hold("bench", gpus=["0"], device_profile="efficiency")
        until("it is put on", lambda: self.now("power") == "420W")
        self.m.stop_daemon(signal.SIGKILL)
        self.m.start_daemon()
        self.assertEqual(self.now("power"), "420W")
        pid = self.job("bench")["pid"]
        self.m.stop_daemon(signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
        self.m.start_daemon()
        until("it is taken off", lambda: self.now("power") == "700W")

    def test_a_job_that_is_not_alone_runs_without_and_is_told(self):
        self.hold("other", gpus=["0"])
        self.hold("bench", gpus=["0"], device_profile="efficiency")
        until("it is told", lambda: any("runs there too" in note for note in self.job("bench")["notes"]))
        self.assertTrue(any("(bench)" in text for text in self.told("device_profile_not_given")))
        self.assertEqual(self.now("power"), "700W")
        self.request("DELETE", "/v1/jobs/other")
        until("it is put on", lambda: self.now("power") == "420W")
        self.assertFalse([note for note in self.job("bench")["notes"] if "profile" in note or "runs there too" in note])
        self.hold("third", gpus=["0"])
        until("it is taken off", lambda: self.now("power") == "700W")

    def test_queued_job_gets_its_profile(self):
        done = self.m.run("submit", "--gpus", "1", "--device-profile", "efficiency", "--json", "--", "sleep", "1000")
        self.assertEqual(done.returncode, 0, done.stderr)
        job = json.loads(done.stdout)["id"]
        until("it runs", lambda: self.job(job)["state"] == "running")
        until("it is put on", lambda: "420W" in (self.now("power", 0), self.now("power", 1)))
        self.request("DELETE", f"/v1/jobs/{job}")
        until("it is taken off", lambda: (self.now("power", 0), self.now("power", 1)) == ("700W", "700W"))

    def test_redone_job_gets_its_profile_again(self):
        done = self.m.run("submit", "--gpus", "1", "--device-profile", "efficiency", "--json", "--", "true")
        self.assertEqual(done.returncode, 0, done.stderr)
        job = json.loads(done.stdout)["id"]
        self.wait(job)
        again = self.request("POST", f"/v1/jobs/{job}/redo", {}).json()["jobs"][0]["id"]
        self.assertEqual(self.job(again)["device_profile"], "efficiency")

    def test_a_profile_that_nobody_knows_is_refused(self):
        for words in (["run", "--tag", "x", "--device-profile", "quiet", "--", "true"],
                      ["submit", "--gpus", "1", "--device-profile", "quiet", "--", "true"]):
            done = self.m.run(*words)
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertIn("there is no device profile 'quiet'", done.stderr)

    def test_update_or_redo_with_unknown_profile_is_refused(self):
        done = self.m.run("submit", "--gpus", "1", "--hold", "--json", "--", "true")
        self.assertEqual(done.returncode, 0, done.stderr)
        job = str(json.loads(done.stdout)["id"])
        for words in (["update", job], ["redo", job]):
            done = self.m.run("job", *words, "--device-profile", "quiet")
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertIn("there is no device profile 'quiet'", done.stderr)
        for profile in ("efficiency", "none"):
            done = self.m.run("job", "update", job, "--device-profile", profile)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.request("DELETE", f"/v1/jobs/{job}")

    def test_profile_that_the_gpu_refuses_is_reported_to_the_job(self):
        self.inject("refuse", "--function", "nvmlDeviceSetPowerManagementLimit_v2", "--gpu", "0")
        self.hold("bench", gpus=["0"], device_profile="efficiency")
        until("it is told", lambda: any("power limit" in note for note in self.job("bench")["notes"]))
        self.assertEqual(self.now("power"), "700W")


class LaptopTest(DeviceCase):
    gpus, memory, profile = 1, None, "rtx4050"

    def tearDown(self):
        DaemonTest.tearDown(self)

    def test_setting_that_a_laptop_lacks_is_unknown_and_cannot_be_set(self):
        for name in ("power", "ecc"):
            setting = self.setting(name)
            self.assertEqual((setting["supported"], setting["now"], setting["range"]), (False, None, None))
        self.assertIn("not supported", self.m.run("device", "show").stdout)
        done = self.m.run("device", "power", "set", "50W")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("does not have it", done.stderr)
        report = self.post("profile", {"name": "performance"})
        self.assertTrue(any("power limit" in note for note in report["notes"]))
        self.post("profile", {"name": None})


if __name__ == "__main__":
    unittest.main()

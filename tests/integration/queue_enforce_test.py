#!/usr/bin/env python3
"""The daemon enforces and counts what jobs of the queue asked for: host memory, processors, links between GPUs, energy,
GPU-hours.

Usage: queue_enforce_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import os
import pathlib
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from daemon_case import MIB, until  # noqa: E402
from machine import program  # noqa: E402
from queue_test import QueueCase  # noqa: E402


def limiting_cgroup():
    """A cgroup v2 in which this process may make groups with a memory limit; None: there is none."""
    mounts = [line.split() for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()]
    tops = [pathlib.Path(words[4]) for words in mounts if words[words.index("-") + 1] == "cgroup2" and not words[3].startswith("/..")]
    lines = pathlib.Path("/proc/self/cgroup").read_text().splitlines()
    own = next((line[3:] for line in lines if line.startswith("0::/")), None)
    if not tops or own is None:
        return None
    place = tops[0] / own.lstrip("/")
    while True:
        control = place / "cgroup.subtree_control"
        handed_down = control.read_text().split() if control.exists() else []
        if "memory" in handed_down and os.access(place, os.W_OK) and os.access(place / "cgroup.procs", os.W_OK):
            return place
        if place == tops[0]:
            return None
        place = place.parent


class HostTest(QueueCase):
    def test_host_memory_is_held_or_the_job_says_why_not(self):
        job = self.submit(self.gate("end"), 0, host_memory=64 * MIB)
        view = self.becomes(job, "running")
        self.assertEqual(view["queue"]["host_memory"], 64 * MIB)
        text = self.m.run("job", "show", str(job)).stdout
        if limiting_cgroup():
            self.assertEqual(view["notes"], [])
        else:
            self.assertRegex(view["notes"][0], "^its host memory is not limited to 64MiB: .+")
            self.assertIn(view["notes"][0][:40], text)
            self.assertIn(view["notes"][0], next(e for e in self.events() if e["kind"] == "job_started" and e["job"] == job)["message"])
        self.open("end")
        self.assertEqual(self.wait(job)["state"], "finished")

    @unittest.skipUnless(limiting_cgroup(), "no cgroup v2 here with a memory controller that may be handed on")
    def test_a_job_that_wants_more_host_memory_is_ended_with_the_numbers(self):
        hog = "import time; a = bytearray(400 << 20); time.sleep(1000)"
        job = self.submit_all({"command": [sys.executable, "-c", hog], "gpus": {"count": 0}, "host_memory": 128 * MIB})[0]["id"]
        ended = self.wait(job)
        self.assertEqual((ended["state"], ended["reason"]), ("killed", "host_memory_limit"))
        self.assertIn("128MiB", ended["reason_detail"])
        self.assertIn("128MiB", self.log(job))

    @unittest.skipUnless(limiting_cgroup(), "no cgroup v2 here with a memory controller that may be handed on")
    def test_the_limit_of_host_memory_holds_while_no_daemon_lives(self):
        hog = self.gate("go") + "; exec " + sys.executable + " -c 'a = bytearray(400 << 20); import time; time.sleep(1000)'"
        job = self.submit(hog, 0, host_memory=128 * MIB)
        pid = self.becomes(job, "running")["pid"]
        self.m.stop_daemon(signal.SIGKILL)
        self.open("go")
        until("it has been ended", lambda: not pathlib.Path(f"/proc/{pid}").exists())
        self.m.start_daemon()
        self.assertEqual(self.wait(job)["reason"], "host_memory_limit")

    def test_a_job_has_no_more_processors_than_it_asked_for(self):
        job = self.submit("nproc; cat /proc/self/cgroup", 0, cpus=1)
        self.assertEqual(self.wait(job)["state"], "finished")
        processors, *cgroups = self.log(job).split()
        own = next(line[3:] for line in cgroups if line.startswith("0::"))
        if processors != "1":  # then the daemon limits its processor time
            limits = list(pathlib.Path("/sys/fs/cgroup").rglob("gpuman/cpu.max"))
            self.assertIn("gpuman/job-", own)
            self.assertTrue(limits)


class LinksTest(QueueCase):
    """NVLink joins two pairs of GPUs: 0 and 3, 1 and 2."""
    profile, gpus, memory, nvlink = "h200", 4, "4GiB", "0-3,1-2"

    def choose(self, how):
        self.assertEqual(self.request("PATCH", "/v1/queue/settings", {"choice": how}).status, 200)
        self.addCleanup(self.request, "PATCH", "/v1/queue/settings", {"choice": "sequential"})

    def places(self, job):
        uuids = [gpu["uuid"] for gpu in self.request("GET", "/v1/queue/info").json()["gpus"]]
        return {uuids.index(gpu) for gpu in self.becomes(job, "running")["gpus"]}

    def test_a_job_of_two_gpus_gets_a_pair_that_is_linked(self):
        self.choose("topology")
        pairs = [self.places(self.submit(self.gate("end"), 2)) for _ in range(2)]
        self.assertCountEqual(pairs, [{0, 3}, {1, 2}])
        self.open("end")

    def test_a_pair_is_left_together(self):
        self.choose("topology")
        first = self.places(self.submit(self.gate("end"), 1))
        second = self.places(self.submit(self.gate("end"), 2))
        self.assertIn(second, ({0, 3}, {1, 2}))
        self.assertFalse(first & second)
        self.open("end")

    def test_the_links_are_shown(self):
        gpus = self.request("GET", "/v1/queue/info").json()["gpus"]
        self.assertEqual([gpu["links"] for gpu in gpus], [
            ["self", "switch", "node", "nvlink"], ["switch", "self", "nvlink", "node"],
            ["node", "nvlink", "self", "switch"], ["nvlink", "node", "switch", "self"]])
        shown = self.m.run("info", "--topology")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertEqual(shown.stdout.splitlines()[1].split(), ["0", "-", "switch", "node", "nvlink"])


class UnmeasuredTest(QueueCase):
    """A kind of GPU that does not report its energy."""
    profile = "rtx4050"

    def test_energy_that_is_not_measured_is_null(self):
        self.wait(self.submit("true", project="unmeasured"))
        total = self.request("GET", "/v1/stats").json()["total"]
        self.assertIsNone(total["energy_j"])


class HoarderTest(QueueCase):
    gpus, config = 1, '[sampling]\nslow = "100ms"\n[queue]\nhoarder_idle = "200ms"\n'

    def foreign(self, pid):
        processes = self.request("GET", "/v1/queue/info").json()["gpus"][0]["processes"]
        return next((p for p in processes if p["pid"] == pid), None)

    def load_outside(self, *arguments):
        process = subprocess.Popen([program("gpuman-load"), *arguments], env=self.m.env, stdout=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        until("it is seen", lambda: self.foreign(process.pid))
        return process.pid

    def test_a_foreign_process_that_does_nothing_is_suspected(self):
        pid = self.load_outside("--alloc", "256MiB", "--hold", "1h")
        seen = until("it is suspected", lambda: (p := self.foreign(pid))["hoarding"] and p)
        self.assertGreaterEqual(seen["idle_s"], 0.2)
        self.assertGreater(seen["age_s"], seen["idle_s"])
        self.assertGreaterEqual(seen["memory"], 256 * MIB)
        text = self.m.run("info").stdout
        self.assertIn(f"pid {pid}", text.partition("Probably holding a GPU without using it:")[2])

    def test_one_that_is_ignored_is_not(self):
        pid = self.load_outside("--alloc", "256MiB", "--hold", "1h")
        rule = self.request("POST", "/v1/ignored-processes", {"pid": pid}).json()["id"]
        self.addCleanup(self.request, "DELETE", f"/v1/ignored-processes/{rule}")
        seen = until("it is idle for long", lambda: (p := self.foreign(pid))["idle_s"] and p["idle_s"] > 0.3 and p)
        self.assertTrue(seen["ignored"])
        self.assertFalse(seen["hoarding"])


class AgainTest(QueueCase):
    def test_a_job_that_is_done_again_asks_for_the_same(self):
        asked = {"command": ["true"], "gpus": {"count": 1}, "share": True, "memory": "10%", "soft": "5%",
                 "host_memory": 1 << 30, "cpus": 2, "time_limit_s": 60, "priority": 200, "preemptible": True, "weight": 2.5,
                 "grace": 3, "retries": {"count": 2, "delay_s": 1, "on_exit_codes": [75]}, "group": "g", "max_concurrent": 3,
                 "project": "vision", "stdout": "out-%j", "oversubscribe": True}
        answer = self.request("POST", "/v1/submissions", {"jobs": [asked], "directory": str(self.m.dir)})
        self.assertEqual(answer.status, 201, answer.body)
        first = answer.json()["jobs"][0]["id"]
        self.wait(first)
        answer = self.request("POST", f"/v1/jobs/{first}/redo", {})
        self.assertEqual(answer.status, 201, answer.body)
        again = answer.json()["jobs"][0]["id"]

        def asks(job):
            view = self.job(job)
            of_queue = {key: value for key, value in view["queue"].items()
                        if key not in ("attempts", "redo_of", "position", "estimated_start", "estimate_presumed", "advantage")}
            return {key: view[key] for key in ("priority", "share", "weight", "oversubscribe", "restart", "command")} | of_queue
        self.assertEqual(asks(again), asks(first))
        self.assertEqual((asks(again)["weight"], asks(again)["cpus"], asks(again)["project"]), (2.5, 2, "vision"))

    def test_a_job_of_the_queue_has_no_restart_policy(self):
        job = self.submit("sleep 1000", 1)
        answer = self.request("PATCH", f"/v1/jobs/{job}", {"restart": "always"})
        self.assertEqual(answer.status, 400, answer.body)
        self.assertIn("--retries", answer.json()["error"]["hint"])
        self.assertEqual(self.job(job)["restart"], "no")

    def test_a_job_that_is_done_again_says_which(self):
        first = self.submit("exit 3", 0)
        self.wait(first)
        again = self.request("POST", f"/v1/jobs/{first}/redo", {}).json()["jobs"][0]["id"]
        self.assertEqual(self.job(again)["queue"]["redo_of"], first)
        self.assertIsNone(self.job(first)["queue"]["redo_of"])
        self.m.stop_daemon(signal.SIGKILL)
        self.m.start_daemon()
        self.assertEqual(self.job(again)["queue"]["redo_of"], first)
        self.assertIn(f"job {first}", self.m.run("job", "show", str(again)).stdout)

    def test_a_job_that_has_not_ended_is_not_done_again(self):
        job = self.submit("exec sleep 1000", 0, name="r1")
        answer = self.request("POST", f"/v1/jobs/{job}/redo", {})
        self.assertEqual((answer.status, answer.code()), (409, "conflict"), answer.body)
        self.assertEqual(answer.json()["error"]["message"], f"job {job} 'r1' has not ended")
        self.assertIn(f"gpuman cancel {job}", answer.json()["error"]["hint"])
        self.assertEqual(self.request("POST", f"/v1/jobs/{job}/cancel").status, 200)
        self.wait(job)
        self.assertEqual(self.request("POST", f"/v1/jobs/{job}/redo", {}).status, 201)

    def test_gpu_hours_are_a_quota(self):
        first = self.submit("sleep 0.1")
        user = self.wait(first)["user"]
        put = self.request("PUT", f"/v1/quotas/user/{user}", {"gpu_hours": 0.002})
        self.assertEqual(put.status, 200, put.body)
        self.addCleanup(self.request, "DELETE", f"/v1/quotas/user/{user}")
        used = self.request("GET", "/v1/quotas").json()["quotas"][0]["used"]["gpu_hours"]
        self.assertGreaterEqual(used, 0.1 / 3600)
        self.assertIn("time limit", self.refused(self.shell("true")))
        waits = self.submit("true", time_limit_s=7.15)  # 7.2 s, minus the first job's part
        view = self.waits_for(waits, "quota")
        self.assertRegex(view["reason_detail"], r"used (<0.0001|0.00\d+) GPU-hours .* this job 0.002; the quota allows 0.002$")
        self.assertEqual(self.wait(self.submit("true", 0, time_limit_s=60))["state"], "finished", "what has no GPU takes no GPU-hours")
        self.request("PUT", f"/v1/quotas/user/{user}", {"gpu_hours": 1000})
        self.assertEqual(self.wait(waits)["state"], "finished")

    def test_a_run_that_ended_without_a_daemon_counts_once(self):
        job = self.submit(self.gate("go"))
        self.becomes(job, "running")
        user = self.job(job)["user"]
        self.assertEqual(self.request("PUT", f"/v1/quotas/user/{user}", {"gpu_hours": 1000}).status, 200)
        self.addCleanup(self.request, "DELETE", f"/v1/quotas/user/{user}")
        journal = pathlib.Path(self.m.env["GPUMAN_STATE_DIR"]) / "jobs" / str(job) / "journal"
        self.m.stop_daemon(signal.SIGKILL)
        self.open("go")
        until("it has ended", lambda: '"t":"end"' in journal.read_text())
        inject = [program("gpuman-sim"), "inject"]
        subprocess.run([*inject, "nvml-hang"], env=self.m.env, check=True)
        self.addCleanup(subprocess.run, [*inject, "clear"], env=self.m.env, check=True)
        self.m.start_daemon()
        self.wait(job)
        # The daemon adds the past usage when it has seen the GPUs, and starts no job before.
        subprocess.run([*inject, "clear"], env=self.m.env, check=True)
        self.wait(self.submit("true", time_limit_s=60))
        total = self.request("GET", "/v1/stats?by=user").json()["total"]["gpu_hours"]
        used = self.request("GET", "/v1/quotas").json()["quotas"][0]["used"]["gpu_hours"]
        self.assertAlmostEqual(used, total, delta=total / 10)

    def test_a_command_runs_in_its_conda_environment(self):
        conda = self.dir / "conda"
        conda.write_text('#!/bin/sh\n[ "$1 $2" = "shell.posix hook" ] || exit 9\n'
                         "echo 'conda() { [ \"$1\" = activate ] && export CONDA_DEFAULT_ENV=\"$2\"; }'\n")
        conda.chmod(0o755)
        job = {"command": ["/bin/sh", "-c", 'echo "in $CONDA_DEFAULT_ENV with $1"', "x", "a b"], "gpus": {"count": 0},
               "conda_env": "torch 2"}
        body = self.body(job)
        body["environment"]["PATH"] = f"{self.dir}:{os.environ['PATH']}"
        number = self.request("POST", "/v1/submissions", body).json()["jobs"][0]["id"]
        self.assertEqual(self.wait(number)["state"], "finished", self.log(number))
        self.assertEqual(self.log(number).strip(), "in torch 2 with a b")
        self.assertEqual(self.job(number)["queue"]["conda_env"], "torch 2")
        self.assertEqual(self.job(number)["command"], job["command"], "what runs it in there is not the user's")
        self.assertIn("in $CONDA_DEFAULT_ENV with", self.m.run("status", "--all").stdout)
        self.assertNotIn("activate", self.m.run("status", "--all").stdout + self.m.run("job", "show", str(number)).stdout)

    def test_without_conda_the_job_fails_with_a_line_that_says_so(self):
        job = self.submit_all({"command": ["true"], "gpus": {"count": 0}, "conda_env": "none"})[0]["id"]
        ended = self.wait(job)
        self.assertEqual(ended["state"], "failed", ended)
        self.assertIn("conda", self.log(job))


class RequeueTest(QueueCase):
    """A driver that cannot take a process off its GPU."""
    gpus, driver, config = 1, "550.54.15", '[queue]\npreempt_after = "0s"\n'

    def test_a_job_that_cannot_be_suspended_makes_room_by_starting_again_later(self):
        low = self.submit(f"[ -e {self.dir}/began ] && exit 7; touch {self.dir}/began; exec " + self.load("256MiB", "--hold", "1h"),
                          preemptible=True, priority=10, preload=False)
        until("it holds memory", lambda: self.job(low)["memory"]["used"])
        urgent = self.submit(self.gate("end"), priority=250)
        self.becomes(urgent, "running")
        self.becomes(low, "queued")
        self.open("end")
        self.assertEqual(self.wait(low)["exit_code"], 7, "it began anew")


class MoveTest(QueueCase):
    profile, gpus, memory, config = "h200", 2, "4GiB", '[queue]\npreempt_after = "0s"\n'

    def test_a_job_is_moved_to_make_room_for_one_that_wants_its_gpu(self):
        info = self.request("GET", "/v1/queue/info").json()["gpus"]
        first = self.submit(f"echo began >> {self.dir}/began; exec " + self.load("256MiB", "--hold", "1h"))
        until("it holds memory", lambda: self.job(first)["memory"]["used"])
        self.assertEqual(self.job(first)["gpus"], [info[0]["uuid"]])
        pid = self.job(first)["pid"]
        wants = self.submit_all({"command": ["/bin/sh", "-c", self.gate("end")], "gpus": {"devices": ["0"]}})[0]["id"]
        self.becomes(wants, "running")
        self.assertEqual(self.job(wants)["gpus"], [info[0]["uuid"]])
        moved = until("it goes on elsewhere", lambda: (job := self.job(first))["state"] == "running"
                      and job["gpus"] == [info[1]["uuid"]] and job)
        self.assertEqual(moved["pid"], pid)
        self.assertEqual((self.dir / "began").read_text(), "began\n")
        self.open("end")
        self.assertEqual(self.wait(wants)["state"], "finished")


if __name__ == "__main__":
    unittest.main(verbosity=2)

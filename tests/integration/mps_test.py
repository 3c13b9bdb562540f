#!/usr/bin/env python3
"""MPS: started, limited, watched and stopped, with jobs as its clients. On the simulated driver and control program.

Usage: mps_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from daemon_case import NOBODY, DaemonTest, needs_reach, until  # noqa: E402
from machine import build_dir, command_line, has_ended, program  # noqa: E402

CONTROL = str(build_dir() / "lib/sim/bin/nvidia-cuda-mps-control")
MPS = f'[mps]\ncontrol = "{CONTROL}"\nlook = "100ms"\n'
SAMPLING = '[sampling]\nrest = "20ms"\nslow = "100ms"\nretry = "200ms"\n[health]\nkernel_log = ""\n'


class MpsCase(DaemonTest):
    gpus, memory, profile = 2, "4GiB", "h200"
    config = SAMPLING + MPS

    def tearDown(self):
        super().tearDown()
        until("no job is left", lambda: not [j for j in self.m.jobs() if j["ended_at"] is None])
        if any(gpu["state"] not in ("off", "foreign") for gpu in self.report()["gpus"]):
            answer = self.request("POST", "/v1/mps/stop", {"force": True})
            self.assertEqual(answer.status, 200, answer.body)

    def report(self):
        answer = self.request("GET", "/v1/mps")
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json()

    def gpu(self, index=0):
        return next(gpu for gpu in self.report()["gpus"] if gpu["index"] == index)

    def order(self, what, expected=200, **body):
        answer = self.request("POST", f"/v1/mps/{what}", body)
        self.assertEqual(answer.status, expected, answer.body)
        return answer.json() if expected == 200 else answer.json()["error"]

    def clients(self, index=0):
        return [client for server in self.gpu(index)["servers"] for client in server["clients"]]

    def kinds(self):
        return [event["kind"] for event in self.events()]

    def told(self, kind, count=1):
        until(f"{kind} is told", lambda: self.kinds().count(kind) >= count)

    def client(self, tag, size="64MiB", **more):
        """Starts a job that stays on GPU 0 as a client."""
        more = {"gpus": ["0"], "mps": True, **more}
        job = self.start(tag, f"exec {self.load(size, '--hold', '1h')}", **more)
        until(f"{tag} is a client", lambda: tag in [client["tag"] for client in self.clients()])
        return job

    def control_pid(self, index=0):
        return self.gpu(index)["pid"]


class MpsTest(MpsCase):
    def test_a_client_that_names_no_gpu_gets_one_that_is_not_drained(self):
        self.order("start", gpus=["0", "1"])
        self.addCleanup(self.request, "PATCH", "/v1/queue/settings", {"undrain": ["0", "1"]})
        for drained, gets in (("0", 1), ("1", 0)):
            self.request("PATCH", "/v1/queue/settings", {"drain": [drained], "undrain": [str(gets)]})
            job = self.start(f"free{gets}", "exec sleep 1000", mps=True)
            self.assertEqual(self.job(job)["gpus"], [self.gpu(gets)["uuid"]])
        self.request("PATCH", "/v1/queue/settings", {"drain": ["0", "1"]})
        done = self.m.run("run", "--tag", "none", "--mps", "--", "sleep", "1000")
        self.assertIn("the job uses it all the same, as MPS runs on no other GPU that is fit", done.stderr)
        for tag in ("free0", "free1", "none"):
            self.request("DELETE", f"/v1/jobs/{tag}")

    def test_each_gpu_has_its_own_and_is_started_and_stopped_alone(self):
        self.assertEqual([gpu["state"] for gpu in self.report()["gpus"]], ["off", "off"])
        self.assertEqual(self.report()["program"], CONTROL)
        started = self.order("start", gpus=["1"])
        self.assertEqual([gpu["state"] for gpu in started["gpus"]], ["off", "running"])
        self.assertIn("fault", started["notes"][0])
        pid = self.control_pid(1)
        self.assertIn("nvidia-cuda-mps-control", " ".join(command_line(pid)))
        pipe = pathlib.Path(self.gpu(1)["pipe_directory"])
        self.assertTrue((pipe / "control").exists())
        self.assertIn("already", self.order("start", 409, gpus=["1"])["message"])
        self.order("stop", gpus=["1"])
        self.assertEqual(self.gpu(1)["state"], "off")
        until("its process is gone", lambda: not pathlib.Path(f"/proc/{pid}").exists())
        self.assertIn("no MPS", self.order("stop", 409, gpus=["1"])["message"])
        self.assertIn("mps_started", self.kinds())
        self.assertIn("mps_stopped", self.kinds())

    def test_a_job_is_a_client_and_its_limits_hold(self):
        self.order("start", gpus=["0"], memory="1GiB", threads=50)
        job = self.client("small", mps_threads=25)
        view = self.job(job)
        self.assertTrue(view["mps"])
        self.assertEqual(view["mps_threads"], 25)
        client = self.clients()[0]
        self.assertEqual((client["job"], client["threads"]), (job, 25))
        server = self.gpu()["servers"][0]
        self.assertEqual((server["threads"], server["memory"]), (50, 1 << 30))
        big = self.start("big", f"exec {self.load('2GiB')}", gpus=["0"], mps=True)
        self.assertEqual(self.wait(big)["exit_code"], 3)  # out of memory: the server has a limit of its own
        beside = self.start("beside", f"exec {self.load('2GiB')}", gpus=["0"])
        self.assertEqual(self.wait(beside)["exit_code"], 0)

    def test_limits_change_for_those_who_come(self):
        self.order("start", gpus=["0"], memory="3GiB")
        self.client("first")
        self.order("limit", gpus=["0"], memory="512MiB", threads=10)
        gpu = self.gpu()
        self.assertEqual((gpu["memory"], gpu["threads"]), (512 << 20, 10))
        self.assertEqual(gpu["servers"][0]["memory"], 512 << 20)
        self.assertEqual([(client["memory"], client["threads"]) for client in self.clients()], [(3 << 30, 100)])
        late = self.start("late", f"exec {self.load('1GiB')}", gpus=["0"], mps=True)
        self.assertEqual(self.wait(late)["exit_code"], 3)

    def test_an_older_client_is_shown_with_its_own_limits(self):
        self.order("start", gpus=["0"], threads=50)
        self.client("first")
        self.order("limit", threads=20)  # on every GPU where it runs
        self.client("second", mps_threads=40)
        self.assertEqual({client["tag"]: client["threads"] for client in self.clients()}, {"first": 50, "second": 20})
        self.assertRegex(self.m.run("mps", "status").stdout, r"first +50% +-\n")
        # A daemon that did not run cannot know it.
        self.m.stop_daemon(signal.SIGKILL)
        self.m.start_daemon()
        until("it is looked at", lambda: len(self.clients()) == 2)
        self.assertEqual([(client["limits_known"], client["threads"]) for client in self.clients()], [(False, None)] * 2)
        self.assertRegex(self.m.run("mps", "status").stdout, r"first +n/a +n/a\n")
        self.client("third")
        self.assertEqual([c["threads"] for c in self.clients() if c["tag"] == "third"], [20])

    def test_a_gpu_that_is_split_has_none_and_one_that_has_it_is_not_split(self):
        split = {"devices": [{"gpus": ["1"], "instances": ["1g.18gb"]}]}
        whole = {"devices": [{"gpus": ["1"], "enabled": False, "instances": []}], "forget": True}
        self.order("start", gpus=["1"])
        answer = self.request("POST", "/v1/mig/apply", split)
        self.assertEqual(answer.status, 409, answer.body)
        self.assertIn("MPS is on (gpuman mps stop --gpu 1)", answer.json()["error"]["message"])
        self.order("stop", gpus=["1"])
        self.assertEqual(self.request("POST", "/v1/mig/apply", split).status, 200)
        self.addCleanup(lambda: self.assertEqual(self.request("POST", "/v1/mig/apply", whole).status, 200))
        for gpus in (["1"], []):
            refused = self.order("start", 409, gpus=gpus)
            self.assertIn("GPU 1 is split into instances (MIG)", refused["message"])
            self.assertIn("mig clear --gpu 1 --disable", refused["hint"])
        self.assertEqual([gpu["state"] for gpu in self.report()["gpus"]], ["off", "off"])

    def test_of_several_none_is_left_started_where_one_cannot_be(self):
        pipe = self.m.dir / "beside"
        pipe.mkdir()
        env = {**self.m.env, "CUDA_MPS_PIPE_DIRECTORY": str(pipe), "CUDA_VISIBLE_DEVICES": self.gpu(1)["uuid"]}
        theirs = subprocess.Popen([CONTROL, "-f"], env=env)
        self.addCleanup(theirs.wait)
        self.addCleanup(theirs.kill)
        until("it answers", lambda: (pipe / "control").exists())
        refused = self.order("start", 409)
        self.assertIn(f"pid {theirs.pid}", refused["message"])
        self.assertIn("GPU 0: stopped again", refused["message"])
        self.assertEqual([gpu["state"] for gpu in self.report()["gpus"]], ["off", "foreign"])

    def test_stop_names_the_clients_in_the_way_and_force_ends_their_work(self):
        self.order("start", gpus=["0"])
        job = self.client("holds")
        refused = self.order("stop", 409, gpus=["0"])
        self.assertIn(f"job {job}", refused["message"])
        self.assertIn("--force", refused["hint"])
        self.assertEqual(self.gpu()["state"], "running")
        self.order("stop", gpus=["0"], force=True)
        self.assertEqual(self.gpu()["state"], "off")

    def test_one_client_is_terminated_and_the_other_goes_on(self):
        self.order("start", gpus=["0"])
        self.client("stays")
        self.client("goes")
        pid = next(client["pid"] for client in self.clients() if client["tag"] == "goes")
        self.order("terminate", pid=pid)
        until("it is no client", lambda: [client["tag"] for client in self.clients()] == ["stays"])
        self.assertEqual(self.order("terminate", 404, pid=pid)["code"], "not_found")
        self.told("mps_client_terminated")

    def test_a_process_outside_mps_is_shown_and_reported(self):
        self.order("start", gpus=["0"])
        self.client("inside")
        job = self.start("outside", f"exec {self.load('64MiB', '--hold', '1h')}", gpus=["0"])
        until("it is outside", lambda: [p["job"] for p in self.gpu()["outside"]] == [job])
        self.told("mps_outside")

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to be somebody else")
    def test_a_job_waits_while_the_server_is_another_users(self):
        needs_reach(self, program("gpuman-load"))
        self.order("start", gpus=["0"])
        for directory in (self.m.env["GPUMAN_SIM_DIR"], self.m.dir / "run", self.m.dir):
            os.chmod(directory, 0o711)
            self.addCleanup(os.chmod, directory, 0o700)
        who = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
        environment = {**self.m.env, "CUDA_MPS_PIPE_DIRECTORY": self.gpu()["pipe_directory"]}
        other = subprocess.Popen([*who, program("gpuman-load"), "--alloc", "64MiB", "--hold", "1h"], env=environment, stdout=subprocess.DEVNULL)
        self.addCleanup(other.wait)
        self.addCleanup(other.kill)
        until("somebody else is a client", lambda: [client["pid"] for client in self.clients()] == [other.pid])
        job = self.start("mine", f"exec {self.load('64MiB', '--hold', '1h')}", gpus=["0"], mps=True)
        until("that it waits is shown", lambda: self.gpu()["waiting"] == [job])
        self.assertIn("waits until the clients of the other user have ended", self.m.run("mps", "status").stdout)
        other.kill()
        until("it is a client", lambda: [client["job"] for client in self.clients()] == [job])
        self.assertEqual(self.gpu()["waiting"], [])
        self.assertNotIn("mps_server_died", self.kinds())

    def test_a_server_that_dies_is_told_and_the_next_client_starts_another(self):
        self.order("start", gpus=["0"])
        job = self.client("one")
        until("it has its memory", lambda: "alloc [" in self.log(job))
        server = self.gpu()["servers"][0]["pid"]
        os.kill(server, signal.SIGKILL)
        self.told("mps_server_died")
        said = [event["message"] for event in self.events() if event["kind"] == "mps_server_died"][-1]
        self.assertRegex(said, rf"the work of pid \d+ \([^()]+, user [^,]+, job {job}\) with it")
        until("its log says so", lambda: "MPS server" in self.log(job))
        self.client("two")
        self.assertNotEqual(self.gpu()["servers"][0]["pid"], server)

    def test_a_control_daemon_that_dies_is_told_and_stays_dead_until_it_is_started(self):
        self.order("start", gpus=["0"], threads=40)
        before = self.kinds().count("mps_died")
        os.kill(self.control_pid(), signal.SIGKILL)
        self.told("mps_died", before + 1)
        self.assertEqual(self.gpu()["state"], "dead")
        refused = self.request("POST", "/v1/jobs", self.run_request("late", "true", gpus=["0"], mps=True))
        self.assertEqual(refused.status, 409, refused.body)
        self.order("start", gpus=["0"])
        self.assertEqual(self.gpu()["state"], "running")

    def test_a_daemon_that_was_restarted_finds_it_again(self):
        self.order("start", gpus=["0"], threads=30)
        self.client("goes-on")
        before = self.control_pid()
        self.m.stop_daemon(signal.SIGKILL)
        self.m.start_daemon()
        until("it is looked at", lambda: [client["tag"] for client in self.clients()] == ["goes-on"])
        gpu = self.gpu()
        self.assertEqual((gpu["state"], gpu["pid"], gpu["threads"]), ("running", before, 30))

    def test_one_that_ended_while_the_daemon_was_away_is_told(self):
        self.order("start", gpus=["0"])
        pid, before = self.control_pid(), self.kinds().count("mps_died")
        self.m.stop_daemon(signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
        until("it is gone", lambda: has_ended(pid))
        self.m.start_daemon()
        self.assertEqual(self.gpu()["state"], "dead")
        self.told("mps_died", before + 1)

    def test_somebody_elses_is_left_alone_and_named(self):
        pipe = self.m.dir / "theirs"
        pipe.mkdir()
        env = {**self.m.env, "CUDA_MPS_PIPE_DIRECTORY": str(pipe)}
        theirs = subprocess.Popen([CONTROL, "-f"], env=env)
        try:
            until("it answers", lambda: (pipe / "control").exists())
            refused = self.order("start", 409, gpus=["0"])
            self.assertIn(f"pid {theirs.pid}", refused["message"])
            self.assertEqual((self.gpu()["state"], self.gpu()["pid"]), ("foreign", theirs.pid))
            self.assertIsNone(theirs.poll())
            subprocess.run([CONTROL], input="quit\n", env=env, text=True, check=True)
            theirs.wait(timeout=60)
            self.order("start", gpus=["0"])
        finally:
            with contextlib.suppress(ProcessLookupError):
                theirs.kill()
            theirs.wait()

    def test_a_job_of_the_queue_goes_where_mps_runs(self):
        self.order("start", gpus=["1"])
        job = {"command": ["/bin/sh", "-c", f"exec {self.load('64MiB', '--hold', '1h')}"], "gpus": {"count": 1},
               "share": True, "memory": "1GiB", "mps": True}
        body = {"jobs": [{**job, "name": "q1"}, {**job, "name": "q2"}], "directory": str(self.m.dir),
                "environment": self.run_request("x", "true")["environment"]}
        answer = self.request("POST", "/v1/submissions", body)
        self.assertEqual(answer.status, 201, answer.body)
        until("both are clients", lambda: sorted(c["tag"] for c in self.clients(1)) == ["q1", "q2"])
        both = {**job, "gpus": {"count": 2}}
        answer = self.request("POST", "/v1/submissions", {**body, "jobs": [both]})
        self.assertEqual(answer.status, 400, answer.body)

    def test_a_job_that_starts_when_mps_has_gone_is_told_so(self):
        self.order("start", gpus=["0"])
        job = {"name": "held", "command": ["/bin/sh", "-c", "sleep 600"], "gpus": {"count": 1}, "mps": True, "hold": True}
        body = {"jobs": [job], "directory": str(self.m.dir), "environment": {}}
        answer = self.request("POST", "/v1/submissions", body)
        self.assertEqual(answer.status, 201, answer.body)
        held = answer.json()["jobs"][0]["id"]
        self.order("stop", gpus=["0"])
        self.assertEqual(self.m.run("job", "release", str(held)).returncode, 0)
        self.becomes(held, "running")
        self.told("mps_missing")

    def test_wrong_orders_are_refused_with_the_reason(self):
        for body, words in [({"threads": 0}, "1% and 100%"), ({"threads": 101}, "1% and 100%"),
                            ({"memory": "5GiB"}, "4GiB"), ({"memory": "1MiB"}, "64MiB")]:
            answer = self.request("POST", "/v1/mps/start", {"gpus": ["0"], **body}, checked=False)
            self.assertEqual(answer.status, 400, answer.body)
            self.assertIn(words, answer.json()["error"]["message"])
        self.assertEqual(self.order("start", 404, gpus=["7"])["code"], "not_found")
        self.assertIn("no limit", self.order("limit", 400, gpus=["0"])["message"])
        self.assertIn("no MPS", self.order("limit", 409, gpus=["0"], threads=10)["message"])
        for more, status in [({"mps": True, "gpus": ["0", "1"]}, 400), ({"mps": True, "gpus": ["0"]}, 409),
                             ({"mps_threads": 10, "gpus": ["0"]}, 400),
                             ({"mps": True, "mps_threads": 0, "gpus": ["0"]}, 400)]:
            answer = self.request("POST", "/v1/jobs", self.run_request("wrong", "true", **more), checked=False)
            self.assertEqual(answer.status, status, answer.body)

    def test_the_command_line(self):
        done = self.m.run("mps", "start", "--gpu", "0", "--threads", "50%", "--memory", "25%")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("running", done.stdout)
        self.assertIn("fault of one client", done.stderr)
        run = self.m.run("run", "--tag", "cli", "--gpu", "0", "--mps-threads", "20%", "--", program("gpuman-load"),
                         "--alloc", "64MiB", "--hold", "1h")
        self.assertEqual(run.returncode, 0, run.stderr)
        until("it is a client", lambda: self.clients())
        shown = self.m.run("mps", "status").stdout
        self.assertRegex(shown, r"0 +\d+ +\d+ +\S+ +gpuman-load +\d+ cli +20% +1GiB")
        self.assertEqual(self.m.run_json("mps", "status")["gpus"][0]["threads"], 50)
        self.assertEqual(self.m.run("mps", "limit", "--gpu", "0", "--threads", "30%").returncode, 0)
        refused = self.m.run("mps", "stop")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("clients", refused.stderr)
        self.assertEqual(self.m.run("mps", "stop", "--gpu", "all", "--force").returncode, 0)
        self.assertEqual(self.m.run("mps", "start", "--threads", "0%").returncode, 2)
        self.assertEqual(self.m.run("mps", "terminate", "1").returncode, 4)


class MpsByItselfTest(MpsCase):
    config = SAMPLING + MPS + "auto_start = true\nrestart = true\n"

    def test_a_job_that_asks_for_it_starts_it(self):
        self.client("asks")
        self.assertEqual(self.gpu()["state"], "running")

    def test_a_control_daemon_that_died_is_started_again_with_its_limits(self):
        self.order("start", gpus=["0"], threads=35)
        pid = self.control_pid()
        os.kill(pid, signal.SIGKILL)
        until("it serves again", lambda: self.gpu()["state"] == "running" and self.control_pid() != pid)
        self.assertEqual(self.gpu()["threads"], 35)


class MpsMissingTest(MpsCase):
    config = SAMPLING + '[mps]\ncontrol = "/nowhere/nvidia-cuda-mps-control"\n'

    def test_without_the_program_it_is_said_so(self):
        error = self.order("start", 404, gpus=["0"])
        self.assertIn("/nowhere/nvidia-cuda-mps-control", error["message"])
        self.assertEqual(self.gpu()["state"], "off")


if __name__ == "__main__":
    unittest.main()

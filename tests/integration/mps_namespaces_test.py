#!/usr/bin/env python3
"""MPS by protocol 3 (driver 615 and later): a server for each user, a namespace for each job.

The simulated driver and control program follow NVIDIA's documentation; no hardware had it.

Usage: mps_namespaces_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from daemon_case import NOBODY, needs_reach, until  # noqa: E402
from machine import has_ended, program  # noqa: E402
from mps_test import CONTROL, MPS, SAMPLING, MpsCase  # noqa: E402

GIB = 1 << 30
REFUSED = 3  # gpuman-load: out of memory
OWN = f"u{os.getuid()}"  # the server of this user


class NamespacesCase(MpsCase):
    driver = "615.71.09"

    def ask(self, *words, index=0):
        """Asks the control program itself."""
        env = {**self.m.env, "CUDA_MPS_PIPE_DIRECTORY": self.gpu(index)["pipe_directory"]}
        done = subprocess.run([CONTROL, "-p", "3", *words], env=env, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout.strip()

    def servers(self):
        return {server["name"]: server for server in self.gpu()["servers"]}

    def namespaces(self, server=OWN):
        """The limits of the jobs' namespaces, by job."""
        there = self.servers().get(server, {"namespaces": []})["namespaces"]
        return {each["job"]: (each["threads"], each["memory"]) for each in there if each["job"] is not None}

    def new_path(self, name):
        directory = pathlib.Path(tempfile.mkdtemp(prefix="gpuman-mps-"))
        self.addCleanup(shutil.rmtree, directory)
        return directory / name

    def when_told(self, tag, script, **more):
        """A job whose program starts when the file is there that this returns."""
        gate = self.new_path("go")
        job = self.start(tag, f"until test -e {gate}; do sleep 0.02; done; {script}", gpus=["0"], mps=True, **more)
        self.becomes(tag, "running")
        return job, gate

    def ends(self, ref):
        self.assertEqual(self.request("DELETE", f"/v1/jobs/{ref}").status, 200)


class NamespacesTest(NamespacesCase):
    def test_a_jobs_programs_are_clients_in_a_namespace_with_the_lower_limits(self):
        self.order("start", gpus=["0"], threads=50, memory="3GiB")
        self.assertEqual((self.gpu()["protocol"], self.gpu()["servers"]), (3, []))
        small = self.client("small", mps_threads=25, memory="1GiB")
        plain = self.client("plain")
        self.assertEqual(list(self.servers()), [OWN])
        self.assertEqual(self.namespaces(), {small: (25, GIB), plain: (50, 3 * GIB)})
        server = self.servers()[OWN]
        self.assertEqual((server["threads"], server["memory"], server["time_slice"]), (50, 3 * GIB, None))
        self.assertEqual({c["job"]: (c["namespace"], c["threads"], c["memory"]) for c in self.clients()},
                         {small: (f"job{small}", 25, GIB), plain: (f"job{plain}", 50, 3 * GIB)})
        self.assertEqual(self.gpu()["waiting"], [])
        shown = self.m.run("mps", "status").stdout
        self.assertRegex(shown, rf"0 +\d+ +{OWN} +job{small} +\d+ +\S+ +gpuman-load +{small} small +25% +1GiB")
        self.assertRegex(shown, r"running +3 +\d+ +50% +3GiB +2")

    def test_no_variable_of_a_program_raises_its_limit(self):
        self.order("start", gpus=["0"], memory="3GiB")
        # Without the library, which would hold the job's limit as well.
        for at, (variable, size, status) in enumerate([("", "1GiB", 0), ("", "2560MiB", REFUSED), ("0=3G", "2560MiB", REFUSED),
                                                       ("0=1G", "1GiB", REFUSED)]):
            setting = f"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT={variable}" if variable else ""
            self.start(f"row{at}", f"{setting} exec {self.load(size)}", gpus=["0"], mps=True, memory="2GiB", preload=False)
            self.assertEqual(self.wait(f"row{at}")["exit_code"], status, (variable, size))

    def test_where_a_variable_takes_the_limit_of_mps_away_gpumans_own_holds(self):
        self.order("start", gpus=["0"])
        self.start("unseen", f"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=1=3G exec {self.load('2560MiB', '--hold', '1h')}", gpus=["0"],
                   mps=True, memory="2GiB", preload=False, grace="0s")
        self.assertEqual(self.wait("unseen")["reason"], "memory_limit")

    def test_a_namespace_ends_with_its_job_and_a_server_with_its_last_one(self):
        self.order("start", gpus=["0"])
        first, second = self.client("first"), self.client("second")
        server = self.servers()[OWN]["pid"]
        self.ends(first)
        until("its namespace is gone", lambda: list(self.namespaces()) == [second])
        self.assertEqual(self.servers()[OWN]["pid"], server)
        self.ends(second)
        until("the server is gone", lambda: self.servers() == {})
        self.assertEqual(self.ask("server", "list", "--format=csv,noheader"), "")
        self.assertNotIn("mps_server_died", self.kinds())
        self.assertEqual(self.gpu()["state"], "running")

    def test_what_somebody_else_made_there_stays(self):
        self.order("start", gpus=["0"])
        job = self.client("mine")
        self.ask("server", "create", "theirs", f"--uid={os.getuid()}")
        self.ask("namespace", "create", "kept", f"--server={OWN}")
        self.ask("namespace", "create", "job987654", f"--server={OWN}")
        until("that of a job that never was is deleted", lambda: 987654 not in self.namespaces())
        self.assertEqual(set(self.servers()), {OWN, "theirs"})
        self.assertIn("kept", [each["name"] for each in self.servers()[OWN]["namespaces"]])
        self.assertIn(job, self.namespaces())

    def test_limits_change_for_those_who_come(self):
        self.order("start", gpus=["0"], memory="3GiB")
        job, gate = self.when_told("late", f"exec {self.load('1GiB')}", preload=False)
        other = self.client("first")
        self.order("limit", gpus=["0"], memory="512MiB", threads=10)
        self.assertEqual(self.namespaces(), {job: (10, GIB // 2), other: (10, GIB // 2)})
        self.assertEqual([(c["threads"], c["memory"]) for c in self.clients()], [(100, 3 * GIB)])
        gate.touch()
        self.assertEqual(self.wait("late")["exit_code"], REFUSED)

    def test_a_new_limit_of_a_job_is_its_namespaces(self):
        self.order("start", gpus=["0"])
        job = self.client("grows", memory="1GiB")
        self.assertEqual(self.namespaces(), {job: (100, GIB)})
        self.assertEqual(self.request("PATCH", "/v1/jobs/grows", {"memory": "2GiB"}).status, 200)
        until("it is told", lambda: self.namespaces() == {job: (100, 2 * GIB)})

    def test_a_daemon_that_was_restarted_finds_them_and_deletes_what_nobody_needs(self):
        self.order("start", gpus=["0"], threads=30)
        stays, pipe = self.client("stays"), self.gpu()["pipe_directory"]
        goes = self.client("goes")
        before = self.control_pid(), self.servers()[OWN]["pid"]
        end = next(c["pid"] for c in self.clients() if c["job"] == goes)
        self.m.stop_daemon(signal.SIGKILL)
        os.kill(end, signal.SIGKILL)
        until("it is gone", lambda: has_ended(end))
        self.assertTrue(pathlib.Path(pipe, OWN, f"job{goes}", "control").exists())
        self.m.start_daemon()
        until("only what is needed is there", lambda: list(self.namespaces()) == [stays])
        self.assertEqual((self.control_pid(), self.servers()[OWN]["pid"]), before)
        self.assertEqual([c["job"] for c in self.clients()], [stays])
        self.assertEqual(self.gpu()["protocol"], 3)
        late = self.client("late")
        self.assertEqual(set(self.namespaces()), {stays, late})

    def test_a_server_that_dies_is_made_anew_for_programs_that_come(self):
        self.order("start", gpus=["0"])
        lost = self.client("lost")
        job, gate = self.when_told("next", f"exec {self.load('64MiB', '--hold', '1h')}", memory="1GiB")
        server = self.servers()[OWN]["pid"]
        os.kill(server, signal.SIGKILL)
        self.told("mps_server_died")
        said = [event["message"] for event in self.events() if event["kind"] == "mps_server_died"][-1]
        self.assertRegex(said, rf"job {lost}\) with it; gpumand starts a new one")
        until("another is there", lambda: self.servers().get(OWN, {"pid": server})["pid"] != server and
              self.namespaces().get(job) == (100, GIB))
        gate.touch()
        until("it is a client there", lambda: job in [c["job"] for c in self.clients()])

    def test_a_client_is_terminated_and_a_stop_names_those_that_are_there(self):
        self.order("start", gpus=["0"])
        self.client("goes")
        stays = self.client("stays")
        pid = next(c["pid"] for c in self.clients() if c["tag"] == "goes")
        self.order("terminate", pid=pid)
        until("it is no client", lambda: [c["tag"] for c in self.clients()] == ["stays"])
        self.assertEqual(self.order("terminate", 404, pid=pid)["code"], "not_found")
        self.assertIn(f"job {stays}", self.order("stop", 409, gpus=["0"])["message"])
        self.assertEqual(self.gpu()["state"], "running")
        control = self.control_pid()
        self.order("stop", gpus=["0"], force=True)
        self.assertEqual((self.gpu()["state"], self.gpu()["protocol"]), ("off", None))
        until("its process is gone", lambda: has_ended(control))

    def test_a_job_of_the_queue_gets_its_namespace_each_time_it_starts(self):
        self.order("start", gpus=["0"])
        gate = self.new_path("again")
        script = f"[ -e {gate} ] || {{ touch {gate}; {self.load('64MiB')}; exit 1; }}; exec {self.load('64MiB', '--hold', '1h')}"
        body = {"jobs": [{"name": "q", "command": ["/bin/sh", "-c", script], "gpus": {"count": 1}, "share": True,
                          "memory": "1GiB", "mps": True, "retries": {"count": 1}}],
                "directory": str(self.m.dir), "environment": self.run_request("x", "true")["environment"]}
        answer = self.request("POST", "/v1/submissions", body)
        self.assertEqual(answer.status, 201, answer.body)
        job = answer.json()["jobs"][0]["id"]
        until("its second run is a client", lambda: [c["namespace"] for c in self.clients()] == [f"job{job}"])
        self.assertTrue(gate.exists())
        self.assertNotIn("mps_missing", self.kinds())

    def test_without_time_slices_a_share_of_the_time_is_refused_with_the_reason(self):
        self.order("start", gpus=["0"])
        share = {"compute": {"percent": 30}}
        refused = self.request("POST", "/v1/jobs", self.run_request("x", "true", gpus=["0"], mps=True, **share))
        self.assertGreaterEqual(refused.status, 400)
        self.assertIn("from driver 620 on", refused.json()["error"]["message"])
        self.assertIn("--mps-threads", refused.json()["error"]["hint"])
        job = {"command": ["true"], "gpus": {"count": 1}, "share": True, "memory": "1GiB", "mps": True, **share}
        refused = self.request("POST", "/v1/submissions", {"jobs": [job], "directory": "/", "environment": {}})
        self.assertIn("from driver 620 on", refused.json()["error"]["message"])
        self.assertEqual(self.gpu()["servers"], [])


class TimeSlicesTest(NamespacesCase):
    driver = "620.10"

    def test_a_job_with_a_share_has_a_server_of_its_own_with_that_time_slice(self):
        self.order("start", gpus=["0"], threads=50)
        plain = self.client("plain")
        job = self.client("weighted", compute={"percent": 30}, memory="1GiB")
        self.assertEqual(set(self.servers()), {OWN, f"job{job}"})
        self.assertEqual(self.namespaces(f"job{job}"), {job: (50, GIB)})
        self.assertEqual(list(self.namespaces()), [plain])
        self.assertEqual((self.servers()[f"job{job}"]["time_slice"], self.servers()[OWN]["time_slice"]), (30, None))
        self.assertEqual(self.ask("server", "get", f"job{job}", "timeslice-pct"), "30")
        refused = self.request("PATCH", "/v1/jobs/weighted", {"compute": {"percent": 50}})
        self.assertEqual(refused.status, 400, refused.body)
        self.assertIn("from its start", refused.json()["error"]["message"])
        self.ends(job)
        until("its server is gone", lambda: set(self.servers()) == {OWN})
        self.assertNotIn("mps_server_died", self.kinds())

    def test_a_job_of_the_queue_has_its_share_as_well(self):
        self.order("start", gpus=["0"])
        queued = {"name": "q", "command": ["/bin/sh", "-c", f"exec {self.load('64MiB', '--hold', '1h')}"], "gpus": {"count": 1},
                  "share": True, "memory": "1GiB", "mps": True, "compute": {"percent": 20, "may_exceed": True}}
        answer = self.request("POST", "/v1/submissions", {"jobs": [queued], "directory": str(self.m.dir),
                                                          "environment": self.run_request("x", "true")["environment"]})
        self.assertEqual(answer.status, 201, answer.body)
        job = answer.json()["jobs"][0]["id"]
        until("it is a client of its own server", lambda: (f"job{job}", f"job{job}") in [
            (server["name"], client["namespace"]) for server in self.gpu()["servers"] for client in server["clients"]])
        self.assertEqual(self.ask("server", "get", f"job{job}", "timeslice-pct"), "20")


class ByItselfTest(NamespacesCase):
    config = SAMPLING + MPS + "auto_start = true\nrestart = true\n"

    def test_a_control_daemon_that_died_comes_back_with_the_namespaces_of_jobs(self):
        job, gate = self.when_told("asks", f"exec {self.load('64MiB', '--hold', '1h')}", memory="1GiB")
        self.assertEqual(self.namespaces(), {job: (100, GIB)})
        pid = self.control_pid()
        os.kill(pid, signal.SIGKILL)
        until("it serves again", lambda: self.gpu()["state"] == "running" and self.control_pid() != pid)
        until("the namespace is there again", lambda: self.namespaces() == {job: (100, GIB)})
        gate.touch()
        until("it is a client", lambda: [c["namespace"] for c in self.clients()] == [f"job{job}"])

    def test_a_share_of_the_time_is_refused_when_mps_has_started_and_has_none(self):
        refused = self.request("POST", "/v1/jobs", self.run_request("x", "true", gpus=["0"], mps=True, compute={"percent": 30}))
        self.assertIn("from driver 620 on", refused.json()["error"]["message"])


class OlderProtocolTest(NamespacesCase):
    config = SAMPLING + MPS + 'protocol = "2"\n'

    def test_the_older_protocol_is_used_where_the_configuration_says_so(self):
        self.order("start", gpus=["0"], memory="1GiB")
        self.assertEqual(self.gpu()["protocol"], 2)
        self.client("plain", mps_threads=25)
        client = self.clients()[0]
        self.assertEqual((client["namespace"], client["threads"], client["memory"]), (None, 25, GIB))
        self.assertEqual((self.gpu()["servers"][0]["name"], self.gpu()["servers"][0]["namespaces"]), (None, []))
        refused = self.request("POST", "/v1/jobs", self.run_request("x", "true", gpus=["0"], mps=True, compute={"percent": 30}))
        self.assertIn("was started by protocol 2", refused.json()["error"]["message"])


class NewerProtocolTest(MpsCase):
    config = SAMPLING + MPS + 'protocol = "3"\n'

    def test_an_older_program_is_not_used_where_the_configuration_wants_the_newer_protocol(self):
        refused = self.order("start", 501, gpus=["0"])
        self.assertIn("speaks only 2", refused["message"])
        self.assertEqual(self.gpu()["state"], "off")


@unittest.skipUnless(os.geteuid() == 0, "needs root, to be somebody else")
class UsersTest(NamespacesCase):
    config = SAMPLING + MPS + '[access]\nsubmit_group = "root"\n'

    @classmethod
    def prepare(cls):
        cls.m.daemon_arguments = lambda: []  # a system daemon: it serves every user
        for directory in (cls.m.dir / "run", cls.m.dir):
            directory.chmod(0o711)

    def setUp(self):
        needs_reach(self, program("gpuman-load"))
        os.chmod(self.m.env["GPUMAN_SIM_DIR"], 0o711)

    def as_nobody(self, *command, **variables):
        who = ["setpriv", "--reuid", str(NOBODY), "--regid", "0", "--clear-groups"]
        return subprocess.run([*who, *command], env={**self.m.env, **variables}, capture_output=True, text=True, cwd="/")

    def test_users_are_clients_at_the_same_time(self):
        self.order("start", gpus=["0"])
        mine = self.client("mine")
        done = self.as_nobody(program("gpuman"), "run", "--tag", "theirs", "--gpu", "0", "--mps", "--", program("gpuman-load"),
                              "--alloc", "64MiB", "--hold", "1h")
        self.assertEqual(done.returncode, 0, done.stderr)
        until("both are clients", lambda: sorted(c["tag"] or "" for c in self.clients()) == ["mine", "theirs"])
        theirs = self.job("theirs")["id"]
        servers = self.servers()
        self.assertEqual(set(servers), {"u0", f"u{NOBODY}"})
        self.assertEqual([c["namespace"] for c in servers[f"u{NOBODY}"]["clients"]], [f"job{theirs}"])
        self.assertEqual([c["namespace"] for c in servers["u0"]["clients"]], [f"job{mine}"])
        self.assertEqual(self.gpu()["waiting"], [])

    def test_a_user_gets_not_into_the_namespace_of_another_user(self):
        self.order("start", gpus=["0"])
        job = self.client("mine")
        inner = f"{self.gpu()['pipe_directory']}/u0/job{job}"
        done = self.as_nobody(program("gpuman-load"), "--alloc", "64MiB", CUDA_MPS_PIPE_DIRECTORY=inner)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual([c["job"] for c in self.clients()], [job])


if __name__ == "__main__":
    unittest.main()

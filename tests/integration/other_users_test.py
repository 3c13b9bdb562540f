#!/usr/bin/env python3
"""A system daemon with requests of a user who is not root.

Usage: other_users_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import contextlib
import grp
import json
import os
import pathlib
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from daemon_case import NOBODY, PATIENCE, until  # noqa: E402
from routes import table  # noqa: E402
from machine import Machine, build_dir, program  # noqa: E402


SOMEBODY = 61234  # has no name and, except for this test, no processes
ADMINISTRATOR = 61235  # likewise, and in the group of the administrators, which is root's here


def processes_of(uid):
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if entry.stat().st_uid == uid and "Z" not in (entry / "stat").read_text().rsplit(")", 1)[1][:3]:
                found.append(int(entry.name))
    return found


class SystemDaemonTest(unittest.TestCase):
    """A system daemon with requests of a user who is not root."""

    submitters = "root"

    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("needs root, to be somebody else")
        self.dir = tempfile.TemporaryDirectory()
        directory = pathlib.Path(self.dir.name)
        directory.chmod(0o755)
        self.socket = directory / "gpumand.sock"
        (directory / "gpumand.toml").write_text(f'[access]\nsubmit_group = "{self.submitters}"\nadmin_group = "root"\n')
        self.daemon = subprocess.Popen([program("gpumand"), "--config", str(directory / "gpumand.toml"), "--socket",
                                        str(self.socket), "--state-dir", str(directory / "state")], stderr=subprocess.DEVNULL)
        until("the socket", self.socket.exists)

    def tearDown(self):
        if hasattr(self, "daemon"):
            for job in self.ask(0, "GET", "/v1/jobs?all=1")[1]["jobs"]:
                self.ask(0, "DELETE", f"/v1/jobs/{job['id']}")
            self.daemon.terminate()
            self.daemon.wait(timeout=PATIENCE)
            self.dir.cleanup()

    def ask(self, uid, method, path, body=None, gid=NOBODY):
        """Sends the request as another user: the kernel records credentials, and the daemon the limits, when the socket
        is connected."""
        script = ("import http.client,json,os,resource,socket,sys\n"
                  "uid,gid,path,method,target,body=sys.argv[1:]\n"
                  "if int(uid):\n"
                  "  resource.setrlimit(resource.RLIMIT_NPROC,(30,30))\n"
                  "  os.setgroups([]); os.setgid(int(gid)); os.setuid(int(uid))\n"
                  "s=socket.socket(socket.AF_UNIX); s.connect(path)\n"
                  "c=http.client.HTTPConnection('localhost'); c.sock=s\n"
                  "c.request(method,target,body or None); r=c.getresponse()\n"
                  "print(r.status); print(r.read().decode())\n")
        done = subprocess.run([sys.executable, "-IS", "-c", script, str(uid), str(gid), str(self.socket), method, path, json.dumps(body) if body else ""],
                              capture_output=True, text=True, timeout=PATIENCE)
        status, _, text = done.stdout.partition("\n")
        self.assertTrue(status, done.stderr)
        return int(status), json.loads(text) if text.strip().startswith("{") else text


class OtherUsersTest(SystemDaemonTest):
    def test_others_see_and_touch_nothing(self):
        self.assertTrue(stat.S_ISSOCK(self.socket.stat().st_mode))
        status, job = self.ask(0, "POST", "/v1/jobs", {"tag": "mine", "command": ["sleep", "1000"], "directory": "/",
                                                       "environment": {"PATH": os.environ["PATH"]}})
        self.assertEqual(status, 201, job)
        self.assertEqual(self.ask(NOBODY, "GET", "/v1/jobs/mine")[0], 200)
        for method, path, body in (("PATCH", "/v1/jobs/mine", {"priority": 1}), ("DELETE", "/v1/jobs/mine", None),
                                   ("POST", "/v1/jobs/mine/restart", None), ("GET", "/v1/jobs/mine/log", None),
                                   ("POST", "/v1/devices/settings", {"set": {"power": "250W"}}),
                                   ("POST", "/v1/devices/profile", {"name": "benchmark"}),
                                   ("POST", "/v1/jobs", {"tag": "x", "command": ["true"], "directory": "/"})):
            status, answer = self.ask(NOBODY, method, path, body)
            self.assertEqual((status, answer["error"]["code"]), (403, "permission_denied"), (method, path))
        for path, body in (("/v1/devices/settings", {"set": {"power": "250W"}}), ("/v1/devices/profile", {"name": "benchmark"})):
            self.assertNotEqual(self.ask(NOBODY, "POST", path, {**body, "dry_run": True})[0], 403, "what would be set is no secret")
        until("it runs", lambda: self.ask(0, "GET", "/v1/jobs/mine")[1]["state"] == "running")
        self.assertEqual(self.ask(0, "GET", "/v1/jobs/mine")[1]["priority"], 128)

    def test_each_route_that_is_not_for_everybody_refuses_before_it_reads_the_body(self):
        status, job = self.ask(0, "POST", "/v1/jobs", {"tag": "mine", "command": ["sleep", "1000"], "directory": "/",
                                                       "environment": {"PATH": os.environ["PATH"]}})
        self.assertEqual(status, 201, job)
        refused = 0
        for route in table():
            if route.right not in ("submit", "control_job", "read_log", "manage"):
                continue
            path = route.path.replace("/jobs/{ref}", "/jobs/mine").replace("{subject}", "user")
            path = path.replace("{ref}", "1").replace("{name}", "root")
            status, answer = self.ask(NOBODY, route.method, path)
            self.assertEqual((status, answer["error"]["code"]), (403, "permission_denied"), route)
            refused += 1
        self.assertGreater(refused, 20)


class UserOfTheGroupTest(SystemDaemonTest):
    submitters = grp.getgrgid(NOBODY).gr_name

    def run_job(self, tag, command, directory="/"):
        status, job = self.ask(SOMEBODY, "POST", "/v1/jobs", {"tag": tag, "command": command, "directory": str(directory),
                                                              "environment": {"PATH": os.environ["PATH"]}, "grace": "50ms"})
        self.assertEqual(status, 201, job)
        return job

    def test_a_directory_that_the_user_may_not_enter(self):
        with tempfile.TemporaryDirectory() as directory:
            self.run_job("t", ["true"], directory)
            ended = self.ask(SOMEBODY, "GET", "/v1/jobs/t/wait")[1]
            self.assertEqual((ended["state"], ended["reason"]), ("failed", "directory_unusable"))
            self.assertIn(directory, ended["reason_detail"])

    def test_a_fork_bomb_is_held_by_the_users_own_limit_and_removed_to_the_last_process(self):
        """Bounded: the job has its user's limit on processes (30), and the user has no other processes."""
        with tempfile.TemporaryDirectory() as directory:  # which the user can reach, wherever the build tree is
            os.chmod(directory, 0o755)
            self.bomb(shutil.copy(build_dir() / "tests" / "keeper_fork_bomb", directory))

    def bomb(self, program):
        self.run_job("bomb", [program])
        until("it has forked", lambda: len(processes_of(SOMEBODY)) > 20)
        self.assertEqual(self.ask(SOMEBODY, "GET", "/v1/jobs/bomb")[1]["state"], "running")
        status, gone = self.ask(SOMEBODY, "DELETE", "/v1/jobs/bomb")
        self.assertEqual((status, gone["state"]), (200, "killed"))
        self.assertEqual(processes_of(SOMEBODY), [])

    def test_a_job_never_has_the_wider_limits_of_the_daemon(self):
        """The process that connected ends, and its child sends the request: whose limits would the job have?"""
        script = ("import os,resource,socket,sys\n"
                  "resource.setrlimit(resource.RLIMIT_NPROC,(30,30))\n"
                  "os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[1]))\n"
                  "a=os.fork()\n"
                  "if a: os.waitpid(a,0); os._exit(0)\n"
                  "s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[3])\n"
                  "p=os.getpid()\n"
                  "if os.fork(): os._exit(0)\n"
                  "try:\n"
                  "  while True: os.kill(p,0)\n"
                  "except OSError: pass\n"  # also where a process of another user has got its pid
                  "b=sys.argv[4].encode()\n"
                  "s.sendall(b'POST /v1/jobs HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\nContent-Length: %d\\r\\n\\r\\n' % len(b) + b)\n"
                  "while (d:=s.recv(65536)): os.write(1,d)\n")
        body = json.dumps({"tag": "wide", "command": ["grep", "Max processes", "/proc/self/limits"], "directory": "/", "environment": {"PATH": os.environ["PATH"]}})
        done = subprocess.run([sys.executable, "-IS", "-c", script, str(SOMEBODY), str(NOBODY), str(self.socket), body],
                              capture_output=True, text=True, timeout=PATIENCE)
        self.assertIn("HTTP/1.1 409", done.stdout, done.stderr)
        self.assertIn("has ended", done.stdout)
        self.assertEqual(self.ask(0, "GET", "/v1/jobs/wide")[0], 404)
        self.run_job("narrow", ["grep", "Max processes", "/proc/self/limits"])
        self.ask(SOMEBODY, "GET", "/v1/jobs/narrow/wait")
        # ld.so prints a message above it if that user cannot reach libgpuman.so.
        self.assertRegex(self.ask(SOMEBODY, "GET", "/v1/jobs/narrow/log")[1], r"(?m)^Max processes +30 +30 ")

    def test_the_end_of_a_log_that_its_user_made_huge_is_looked_for_while_others_are_answered(self):
        self.run_job("huge", ["true"])
        log = self.ask(SOMEBODY, "GET", "/v1/jobs/huge/wait")[1]["log_path"]
        os.truncate(log, 1 << 43)  # a sparse file
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(str(self.socket))
            asking.sendall(b"GET /v1/jobs/huge/log?tail=3 HTTP/1.1\r\nHost: x\r\n\r\n")
            for _ in range(5):
                self.assertEqual(self.ask(SOMEBODY, "GET", "/v1/jobs/huge")[0], 200)
            self.assertTrue(asking.recv(1 << 16).startswith(b"HTTP/1.1 200"), "holes are passed over")

    def test_an_administrator_acts_on_a_job_and_does_not_change_what_it_runs(self):
        status, answer = self.ask(SOMEBODY, "POST", "/v1/submissions", {
            "jobs": [{"name": "waits", "command": ["true"], "hold": True, "gpus": {"count": 0}}], "directory": "/", "environment": {}})
        self.assertEqual(status, 201, answer)
        for change in ({"command": ["id"]}, {"script": "id"}, {"conda_env": "/tmp/env"}, {"conda_env": None}):
            for method, path, body in (("PATCH", "/v1/jobs/waits", {"queue": change}),
                                       ("POST", "/v1/jobs/waits/redo", {"changes": {"queue": change}})):
                status, answer = self.ask(ADMINISTRATOR, method, path, body, gid=0)
                self.assertEqual((status, answer["error"]["code"]), (403, "permission_denied"), (method, change))
        self.assertEqual(self.ask(ADMINISTRATOR, "PATCH", "/v1/jobs/waits", {"priority": 7}, gid=0)[0], 200)
        status, job = self.ask(SOMEBODY, "PATCH", "/v1/jobs/waits", {"queue": {"command": ["id"]}})
        self.assertEqual((status, job["command"], job["priority"]), (200, ["id"], 7))


class SystemMachine(Machine):
    def daemon_arguments(self):
        return []


class AllottedTest(SystemDaemonTest):
    """Jobs that root attached for a user, as Slurm's plugin does."""

    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("needs root, to be somebody else")
        machine = SystemMachine(profile="rtx4050", config='[access]\nsubmit_group = "root"\nadmin_group = "root"\n')
        machine.dir.chmod(0o755)
        self.addCleanup(machine.__exit__)
        machine.__enter__()
        self.socket = machine.env["GPUMAN_SOCKET"]
        self.step = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        self.addCleanup(self.step.wait)
        self.addCleanup(self.step.kill)
        status, job = self.ask(0, "POST", "/v1/attachments", {"pid": self.step.pid, "tag": "step", "uid": SOMEBODY, "memory": "2GiB",
                                                              "at_most": "1GiB", "gpus": ["0"]})
        self.assertEqual(status, 201, job)

    def tearDown(self):
        pass

    def test_its_user_may_lower_the_limit_and_not_get_out_of_it(self):
        for method, path, body in (("PATCH", "/v1/jobs/step", {"memory": "1025MiB"}), ("PATCH", "/v1/jobs/step", {"memory": "90%"}),
                                   ("PATCH", "/v1/jobs/step", {"memory": None}), ("DELETE", "/v1/jobs/step?keep_running=1", None)):
            status, answer = self.ask(SOMEBODY, method, path, body)
            self.assertEqual((status, answer["error"]["code"]), (403, "permission_denied"), (method, path, body))
        self.assertEqual(self.ask(SOMEBODY, "PATCH", "/v1/jobs/step", {"memory": "512MiB"})[0], 200)
        self.assertEqual(self.ask(SOMEBODY, "GET", "/v1/jobs/step")[1]["memory"]["limit"], 512 << 20)
        self.assertEqual(self.ask(ADMINISTRATOR, "PATCH", "/v1/jobs/step", {"memory": "2GiB"}, gid=0)[0], 200)


if __name__ == "__main__":
    unittest.main(verbosity=2)

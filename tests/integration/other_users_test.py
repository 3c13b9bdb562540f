#!/usr/bin/env python3
"""A system daemon, asked by somebody who is not root.

Usage: other_users_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import contextlib
import grp
import json
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from daemon_case import NOBODY, PATIENCE, until  # noqa: E402
from machine import build_dir, program  # noqa: E402


SOMEBODY = 61234  # has no name and, but for us, no processes


def processes_of(uid):
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if entry.stat().st_uid == uid and "Z" not in (entry / "stat").read_text().rsplit(")", 1)[1][:3]:
                found.append(int(entry.name))
    return found


class SystemDaemonTest(unittest.TestCase):
    """A system daemon, asked by somebody who is not root."""

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

    def ask(self, uid, method, path, body=None):
        """The request as another user: credentials and limits are taken when the socket is connected."""
        script = ("import http.client,json,os,resource,socket,sys\n"
                  "uid,gid,path,method,target,body=sys.argv[1:]\n"
                  "if int(uid):\n"
                  "  resource.setrlimit(resource.RLIMIT_NPROC,(30,30))\n"
                  "  os.setgroups([]); os.setgid(int(gid)); os.setuid(int(uid))\n"
                  "s=socket.socket(socket.AF_UNIX); s.connect(path)\n"
                  "c=http.client.HTTPConnection('localhost'); c.sock=s\n"
                  "c.request(method,target,body or None); r=c.getresponse()\n"
                  "print(r.status); print(r.read().decode())\n")
        done = subprocess.run([sys.executable, "-IS", "-c", script, str(uid), str(NOBODY), str(self.socket), method, path, json.dumps(body) if body else ""],
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
        """Bounded: the job has the limit on processes that its user had (30), and the user has nothing else."""
        with tempfile.TemporaryDirectory() as directory:  # which the user gets at, wherever the build tree is
            os.chmod(directory, 0o755)
            self.bomb(shutil.copy(build_dir() / "tests" / "keeper_fork_bomb", directory))

    def bomb(self, program):
        self.run_job("bomb", [program])
        until("it has forked", lambda: len(processes_of(SOMEBODY)) > 20)
        self.assertEqual(self.ask(SOMEBODY, "GET", "/v1/jobs/bomb")[1]["state"], "running")
        status, gone = self.ask(SOMEBODY, "DELETE", "/v1/jobs/bomb")
        self.assertEqual((status, gone["state"]), (200, "killed"))
        self.assertEqual(processes_of(SOMEBODY), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)

#!/usr/bin/env python3
"""What a daemon refuses to start with and its messages; a start beside another daemon; a reload of the configuration.

Usage: start_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import contextlib
import json
import os
import pathlib
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from daemon_case import DaemonTest, NOBODY, PATIENCE, needs_reach, until  # noqa: E402
from machine import UnixConnection, program  # noqa: E402


class Daemon:
    """A daemon that starts, in `path`, without a driver."""

    def __init__(self, path):
        self.path = path

    def __enter__(self):
        self.process = subprocess.Popen([program("gpumand"), "--user", "--state-dir", str(self.path / "state"), "--socket",
                                         str(self.path / "s"), "--config", os.devnull], stderr=subprocess.DEVNULL)
        until("it answers", self.answers)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=PATIENCE)

    def answers(self):
        with contextlib.suppress(OSError):
            return self.ask("GET", "/v1/version")["pid"] == self.process.pid

    def ask(self, method, path, body=None):
        with contextlib.closing(UnixConnection(str(self.path / "s"), timeout=PATIENCE)) as connection:
            connection.request(method, path, json.dumps(body) if body else None)
            return json.loads(connection.getresponse().read())


class StartTest(unittest.TestCase):
    """What a daemon refuses to start with, and its messages."""

    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.dir.name)

    def tearDown(self):
        self.dir.cleanup()

    def refused(self, *arguments, config=None, **options):
        if config is not None:
            (self.path / "c.toml").write_text(config)
            arguments += ("--config", str(self.path / "c.toml"))
        if "--config" not in arguments:
            arguments += ("--config", os.devnull)
        if "--socket" not in arguments:
            arguments += ("--socket", str(self.path / "s"))
        done = subprocess.run([program("gpumand"), "--user", "--state-dir", str(self.path / "state"), *arguments],
                              capture_output=True, text=True, timeout=PATIENCE, **options)
        self.assertNotEqual(done.returncode, 0)
        self.assertTrue(done.stderr.strip())
        return done.stderr

    def test_wrong_configuration_is_refused_with_file_line_and_key(self):
        self.assertRegex(self.refused(config="\n[guard]\ngrace = \"soon\"\n"), r"c\.toml:3: guard\.grace: ")
        self.assertIn("guard.grace", self.refused(config="[guard]\ngarce = 1\n"))
        self.assertIn("c.toml:2", self.refused(config="[guard]\n= 3\n"))
        self.assertIn("nowhere.toml", self.refused("--config", str(self.path / "nowhere.toml")))

    def made_database(self):
        """A database that a daemon left, with a job in it."""
        with Daemon(self.path) as daemon:
            daemon.ask("POST", "/v1/jobs", {"tag": "t", "command": ["true"], "directory": "/"})
            daemon.ask("GET", "/v1/jobs/t/wait")
        return self.path / "state" / "gpuman.db"

    def test_invalid_database_is_refused_and_left_alone(self):
        (self.path / "state").mkdir()
        database = self.path / "state" / "gpuman.db"
        database.write_bytes(b"not a database " * 1000)
        said = self.refused()
        self.assertIn("gpuman.db", said)
        self.assertIn("hint: ", said)
        self.assertEqual(database.read_bytes(), b"not a database " * 1000)

    def test_damaged_database_is_refused_and_left_alone(self):
        database = self.made_database()
        content = bytearray(database.read_bytes())
        content[4096:] = b"\xa5" * (len(content) - 4096)
        database.write_bytes(content)
        said = self.refused()
        self.assertIn("gpuman.db", said)
        self.assertIn("put back a copy", said)
        self.assertEqual(database.read_bytes(), content)

    def test_database_of_newer_version_is_refused_and_left_alone(self):
        database = self.made_database()
        with contextlib.closing(sqlite3.connect(database)) as connection:
            connection.execute("PRAGMA user_version=99")
            connection.execute("PRAGMA journal_mode=DELETE")
        content = database.read_bytes()
        self.assertIn("newer gpuman (schema 99", self.refused())
        with contextlib.closing(sqlite3.connect(database)) as connection:
            self.assertEqual(connection.execute("SELECT tag FROM jobs").fetchall(), [("t",)])
            self.assertEqual(connection.execute("PRAGMA user_version").fetchone(), (99,))
        self.assertEqual(len(database.read_bytes()), len(content))

    def test_read_only_database_is_refused(self):
        database = self.made_database()
        state = database.parent
        if os.geteuid() == 0:  # root may write everywhere: run as another user
            needs_reach(self, program("gpumand"))
            self.path.chmod(0o755)
            for path in (state, *state.rglob("*")):
                os.chown(path, NOBODY, NOBODY)
            database.chmod(0o444)
            os.chown(database, 0, 0)
            said = self.refused(user=NOBODY, group=NOBODY, extra_groups=[])
        else:
            database.chmod(0o444)
            said = self.refused()
        self.assertIn("gpuman.db", said)
        self.assertIn("must be writable", said)

    def test_a_daemon_for_all_users_that_cannot_start_speaks_of_user_mode(self):
        with Daemon(self.path):
            words = ["--config", os.devnull, "--state-dir", str(self.path / "other"), "--socket", str(self.path / "s")]
            done = subprocess.run([program("gpumand"), *words], capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 1)
        self.assertIn("a daemon already serves", done.stderr)
        self.assertIn("gpumand --user serves its user alone", done.stderr)

    def test_a_socket_that_a_killed_daemon_left_is_taken_over(self):
        with Daemon(self.path) as first:
            first.process.kill()
            first.process.wait()
        self.assertTrue((self.path / "s").is_socket())
        with Daemon(self.path) as second:
            self.assertEqual(second.ask("GET", "/v1/version")["pid"], second.process.pid)
        self.assertFalse((self.path / "s").exists())

    def test_socket_path_that_is_too_long_is_refused(self):
        self.assertIn("107", self.refused("--socket", str(self.path / ("x" * 120))))

    def test_other_file_in_place_of_the_socket_is_refused(self):
        (self.path / "s").write_text("precious")
        self.refused()
        self.assertEqual((self.path / "s").read_text(), "precious")


class TwinTest(DaemonTest):
    def test_a_second_daemon_is_refused_and_the_first_goes_on(self):
        for extra in ((), ("--socket", str(self.m.dir / "other.sock")), ("--state-dir", str(self.m.dir / "other"))):
            done = subprocess.run([program("gpumand"), "--user", *extra], env=self.m.env, capture_output=True, text=True,
                                  timeout=PATIENCE)
            self.assertNotEqual(done.returncode, 0, extra)
            self.assertIn(str(self.m.daemon.pid) if not extra else "", done.stderr)
        self.assertEqual(self.request("GET", "/v1/version").json()["pid"], self.m.daemon.pid)

    def test_reloading_takes_a_right_file_and_refuses_a_wrong_one(self):
        file = pathlib.Path(self.m.env["GPUMAN_CONFIG"])
        self.start("t", self.load("512MiB", "--hold", "1h"))
        until("it holds memory", lambda: self.job("t")["memory"]["used"])
        file.write_text("[guard]\nreserve = \"nonsense\"\n")
        self.m.daemon.send_signal(signal.SIGHUP)
        until("the complaint", lambda: "guard.reserve" in (self.m.dir / "daemon.log").read_text())
        self.assertEqual(self.job("t")["state"], "running")
        file.write_text("[guard]\nreserve = \"99%\"\n")
        self.m.daemon.send_signal(signal.SIGHUP)
        self.assertEqual(self.wait("t")["reason"], "device_pressure")
        file.write_text("")
        self.m.daemon.send_signal(signal.SIGHUP)

    def test_reloading_takes_the_log_level(self):
        file, log = pathlib.Path(self.m.env["GPUMAN_CONFIG"]), self.m.dir / "daemon.log"

        def said_of_a_job():
            before = len(log.read_text())
            self.wait(self.start("speaks", "true"))
            return log.read_text()[before:]

        self.assertIn("job_started", said_of_a_job())
        read = log.read_text().count("configuration read again")
        file.write_text("[log]\nlevel = \"error\"\n")
        self.m.daemon.send_signal(signal.SIGHUP)
        until("it is read", lambda: log.read_text().count("configuration read again") > read)
        self.assertEqual(said_of_a_job(), "")
        file.write_text("")
        self.m.daemon.send_signal(signal.SIGHUP)
        until("it speaks again", lambda: "job_started" in said_of_a_job())

    def test_a_shells_limit_of_files_is_not_the_daemons_and_stays_the_jobs(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
        self.m.stop_daemon()
        self.m.start_daemon()
        enough = 65536 if hard == resource.RLIM_INFINITY else min(hard, 65536)
        self.assertEqual(resource.prlimit(self.m.daemon.pid, resource.RLIMIT_NOFILE), (enough, hard))
        self.wait(self.start("t", "ulimit -n"))
        self.assertEqual(self.log("t"), "200\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)

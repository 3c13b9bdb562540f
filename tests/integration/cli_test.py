#!/usr/bin/env python3
"""Every command of gpuman as a user types it, with a daemon that starts on demand, on the simulated driver.

Usage: gpuman-sim exec --profile rtx4050 --gpus 2 -- cli_test.py --bin DIRECTORY [UNITTEST ARGUMENTS]

Standard library only. Exits with 77 (skipped) where a system-wide daemon would be found instead of ours.
"""

import argparse
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from machine import has_ended  # noqa: E402
from users import User, within_reach  # noqa: E402

MIB = 1 << 20
PATIENCE = 60  # seconds; nothing here takes long, and nothing is measured


class Machine:
    """A user's own home, and gpuman in it."""

    def __init__(self):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="gpuman-cli-"))
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("GPUMAN_") or
                    name.startswith("GPUMAN_SIM")}
        self.env.update(HOME=str(self.home), PATH=f"{BIN}:{os.environ['PATH']}", XDG_RUNTIME_DIR=str(self.home / "run"),
                        XDG_STATE_HOME=str(self.home / "state"), XDG_CONFIG_HOME=str(self.home / "config"))
        (self.home / "run").mkdir(mode=0o700)

    def run(self, *arguments, **options):
        return subprocess.run(["gpuman", *arguments], env=self.env, cwd=self.home, text=True, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=PATIENCE, **options)

    def json(self, *arguments):
        done = self.run(*arguments, "--json")
        assert done.returncode == 0, f"gpuman {arguments}: exit {done.returncode}: {done.stderr}"
        assert done.stderr == "", done.stderr
        return json.loads(done.stdout)

    def job(self, tag):
        found = [job for job in self.json("status", "--all")["jobs"] if job["tag"] == tag]
        return max(found, key=lambda job: job["id"]) if found else None

    def until(self, what, true):
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            value = true()
            if value:
                return value
            time.sleep(0.02)
        raise AssertionError(f"{what}: not within {PATIENCE} s\n" + self.run("status", "--all").stdout +
                             self.run("events").stdout)

    def daemon_pid(self):
        try:
            text = (self.home / "state/gpuman/gpumand.log").read_text()
        except FileNotFoundError:
            text = ""
        done = subprocess.run(["curl", "-s", "--unix-socket", str(self.home / "run/gpuman/gpumand.sock"),
                               "http://localhost/v1/version"], capture_output=True, text=True)
        return json.loads(done.stdout)["pid"] if done.stdout else None, text

    def close(self):
        for job in self.json("status")["jobs"]:
            self.run("remove", str(job["id"]))
        pid, _ = self.daemon_pid()
        if pid:
            os.kill(pid, signal.SIGTERM)
            self.until("the daemon ends", lambda: has_ended(pid))
        shutil.rmtree(self.home, ignore_errors=True)


class RelativePathsTest(unittest.TestCase):
    def test_the_daemon_that_is_started_reads_the_paths_from_where_the_user_is(self):
        m = Machine()
        self.addCleanup(m.close)
        (m.home / "mine.toml").write_text('[log]\nlevel = "debug"\n')
        m.env.update(GPUMAN_CONFIG="mine.toml", GPUMAN_STATE_DIR="own/state")
        done = m.run("status")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("started gpumand --user", done.stderr)
        self.assertIn("serves", (m.home / "own/state/gpumand.log").read_text())


class CliTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.m = Machine()
        cls.first = cls.m.run("status")

    @classmethod
    def tearDownClass(cls):
        cls.m.close()

    def ok(self, *arguments):
        done = self.m.run(*arguments)
        self.assertEqual(done.returncode, 0, f"gpuman {' '.join(arguments)}: {done.stderr}")
        return done.stdout

    def refused(self, status, says, *arguments):
        done = self.m.run(*arguments)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertIn(says, done.stderr)
        self.assertEqual(done.stdout, "")
        error = self.m.run(*arguments[:1], "--json", *arguments[1:])
        self.assertEqual(error.returncode, status)
        self.assertIn("message", json.loads(error.stderr)["error"])

    def start(self, tag, *load, limit=None, run=()):
        limits = ["--memory", limit] if limit else []
        self.ok("run", "--tag", tag, *limits, *run, "--", "gpuman-load", *load)

    def test_the_first_command_starts_a_daemon_and_says_so_once(self):
        self.assertEqual(self.first.returncode, 0, self.first.stderr)
        self.assertRegex(self.first.stderr, r"started gpumand --user \(pid \d+, log .*gpumand\.log\)")
        self.assertEqual(self.m.run("status").stderr, "")

    def test_status_shows_gpus_and_jobs(self):
        text = self.ok("status")
        self.assertEqual(text.count("RTX 4050"), 2)
        self.assertIn("HEALTH", text)
        status = self.m.json("status")
        gpu = status["gpus"][0]
        self.assertEqual(sorted(gpu["memory"]), ["free", "reserved", "total", "used"])
        self.assertEqual(sorted(gpu["utilization"]), ["gpu", "memory"])
        self.assertEqual(gpu["health"], {"state": "healthy", "reasons": []})
        self.assertTrue(gpu["uuid"].startswith("GPU-"))

    def test_the_first_tools_command_line_works(self):
        program = self.m.home / "cuda_mem_stable"
        program.write_text("#!/bin/sh\nexec gpuman-load --alloc 64MiB --hold 1h\n")
        program.chmod(0o755)
        self.ok("run", "--tag", "test_cuda_app", "--command", str(program), "--memory", "536870912")
        used = self.m.until("it holds memory", lambda: (self.m.job("test_cuda_app")["memory"]["used"] or 0) >= 64 * MIB)
        self.assertTrue(used)
        job = self.m.job("test_cuda_app")
        self.assertEqual(job["state"], "running")
        self.assertEqual(job["memory"]["limit"], 536870912)
        self.assertEqual(job["command"], [str(program)])
        listed = [p for p in self.m.json("proclist")["processes"] if p["job"] == job["id"]]
        self.assertEqual(listed[0]["tag"], "test_cuda_app")
        self.assertGreaterEqual(listed[0]["memory"], 64 * MIB)
        self.assertRegex(self.ok("proclist"), r"test_cuda.* gpuman-load --alloc 64MiB")
        self.ok("remove", "--tag", "test_cuda_app")

    def test_a_job_above_its_limit_is_stopped_and_says_why(self):
        done = self.m.run("run", "--tag", "hog", "--memory", "512MiB", "--no-preload", "--wait", "--", "gpuman-load",
                          "--alloc", "2GiB", "--step", "64MiB", "--interval", "20ms", "--hold", "1h")
        self.assertEqual(done.returncode, 128 + signal.SIGKILL, done.stderr)
        self.assertIn("limit", done.stderr)
        job = self.m.job("hog")
        self.assertEqual((job["state"], job["reason"], job["signal"]), ("killed", "memory_limit", 9))
        self.assertIn("512MiB", job["reason_detail"])
        self.assertGreater(job["memory"]["peak"], 512 * MIB)
        self.assertIn("killed (memory_limit)", self.ok("status", "--all"))
        self.assertTrue([e for e in self.m.json("events")["events"] if e["tag"] == "hog" and "limit" in e["kind"]])
        self.assertIn("hog", self.ok("events"))

    def test_a_job_that_asks_for_more_than_its_limit_is_refused_it(self):
        done = self.m.run("run", "--tag", "greedy", "--memory", "512MiB", "--wait", "--", "gpuman-load", "--alloc", "2GiB",
                          "--step", "64MiB", "--json")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn('"event":"oom"', done.stdout)
        self.assertEqual(self.m.job("greedy")["state"], "failed")
        self.assertLessEqual(self.m.job("greedy")["memory"]["peak"] or 0, 512 * MIB)

    def test_wait_exits_as_the_job_does_and_shows_its_output(self):
        done = self.m.run("run", "--tag", "exits", "--wait", "--command", "echo out; echo err >&2; exit 7")
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertIn("out\n", done.stdout)
        self.assertIn("err\n", done.stdout)
        self.assertEqual(self.m.run("run", "--tag", "well", "--wait", "--", "true").returncode, 0)
        ended = self.m.run("run", "--tag", "json", "--wait", "--json", "--", "sh", "-c", "echo x; kill -TERM $$")
        self.assertEqual(ended.returncode, 128 + signal.SIGTERM)
        self.assertEqual(json.loads(ended.stdout)["signal"], signal.SIGTERM)

    def test_a_job_gets_directory_environment_and_umask_of_the_caller(self):
        self.m.env["GPUMAN_TEST_WORD"] = "a  b"
        done = subprocess.run(["sh", "-c", "umask 027; exec gpuman run --tag place --wait --command "
                               "'pwd; umask; echo \"$GPUMAN_TEST_WORD\"; echo $GPUMAN_JOB_TAG'"],
                              env=self.m.env, cwd=self.m.home, capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(done.stdout, f"{self.m.home}\n0027\na  b\nplace\n", done.stderr)

    def test_ctrl_c_goes_to_the_job(self):
        master, slave = pty.openpty()
        waiting = subprocess.Popen(["gpuman", "run", "--tag", "ctrl-c", "--wait", "--command",
                                    "trap 'echo got it; exit 5' INT; echo begun; while :; do sleep 0.05; done"],
                                   env=self.m.env, cwd=self.m.home, stdin=slave, stdout=slave, stderr=slave,
                                   start_new_session=True)
        os.close(slave)
        shown = self.read_until(master, "begun")
        waiting.send_signal(signal.SIGINT)
        shown += self.read_until(master, "got it")
        self.assertEqual(waiting.wait(timeout=PATIENCE), 5, shown)
        os.close(master)

    def test_a_second_ctrl_c_leaves_the_job_running(self):
        waiting = subprocess.Popen(["gpuman", "run", "--tag", "stubborn", "--wait", "--command",
                                    "trap '' INT; echo begun; while :; do sleep 0.05; done"], env=self.m.env,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(waiting.stdout.readline(), "begun\n")
        waiting.send_signal(signal.SIGINT)
        self.assertIn("again to leave it running", waiting.stderr.readline())
        waiting.send_signal(signal.SIGINT)
        _, err = waiting.communicate(timeout=PATIENCE)
        self.assertEqual(waiting.returncode, 130)
        self.assertIn(f"gpuman remove {self.m.job('stubborn')['id']}", err)
        self.assertEqual(self.m.job("stubborn")["state"], "running")
        self.ok("remove", "stubborn")

    def read_until(self, fd, text):
        shown = ""
        deadline = time.monotonic() + PATIENCE
        while text not in shown and time.monotonic() < deadline:
            if select.select([fd], [], [], 1)[0]:
                try:
                    shown += os.read(fd, 65536).decode()
                except OSError:
                    break
        self.assertIn(text, shown)
        return shown

    def test_update_changes_a_running_job(self):
        self.start("updated", "--alloc", "64MiB", "--hold", "1h", limit="1GiB")
        self.assertIn("at most 2GiB", self.ok("update", "updated", "--memory", "2GiB", "--soft", "1GiB", "--priority",
                                              "9", "--restart", "on-failure", "--grace", "5s"))
        job = self.m.job("updated")
        self.assertEqual((job["memory"]["limit"], job["memory"]["soft"]), (2048 * MIB, 1024 * MIB))
        self.assertEqual((job["priority"], job["restart"]), (9, "on-failure"))
        self.assertIsNone(self.m.json("update", "updated", "--memory", "none")["memory"]["limit"])
        self.ok("remove", "updated")

    def test_restart_starts_the_same_job_again(self):
        self.ok("run", "--tag", "again", "--command", "echo one run; exec sleep 1000")
        before = self.m.until("it runs", lambda: (j := self.m.job("again"))["pid"] and j)
        self.ok("restart", "again")
        after = self.m.until("it runs again", lambda: (j := self.m.job("again"))["pid"] not in (None, before["pid"]) and j)
        self.assertEqual(after["id"], before["id"])
        self.assertEqual(after["restarts"], 1)
        self.ok("remove", "again")

    def test_remove_stops_or_lets_go(self):
        self.ok("run", "--tag", "gone", "--", "sleep", "1000")
        pid = self.m.until("it runs", lambda: self.m.job("gone")["pid"])
        self.ok("remove", "gone")
        self.assertFalse(alive(pid))
        self.assertNotIn("gone", [job["tag"] for job in self.m.json("status")["jobs"]])
        self.ok("run", "--tag", "free", "--memory", "512MiB", "--", "sleep", "1000")
        pid = self.m.until("it runs", lambda: self.m.job("free")["pid"])
        said = self.ok("remove", "free", "--keep-running")
        self.assertIn("no longer managed: job ", said)
        self.assertNotIn("at most", said, "nobody holds the limit any more")
        self.assertTrue(alive(pid))
        os.kill(pid, signal.SIGKILL)

    def test_logs_are_printed_and_followed(self):
        fifo = self.m.home / "fifo"
        os.mkfifo(fifo)
        self.ok("run", "--tag", "talks", "--command", f"echo 1; echo 2; echo 3; cat {fifo}; echo end")
        self.m.until("three lines", lambda: self.ok("logs", "talks") == "1\n2\n3\n")
        self.assertEqual(self.ok("logs", "talks", "--tail", "2"), "2\n3\n")
        self.assertEqual(self.ok("logs", "talks", "--json"), '{"line":"1"}\n{"line":"2"}\n{"line":"3"}\n')
        following = subprocess.Popen(["gpuman", "logs", "-f", "talks"], env=self.m.env, stdout=subprocess.PIPE, text=True)
        self.assertEqual([following.stdout.readline() for _ in range(3)], ["1\n", "2\n", "3\n"])
        with open(fifo, "w", encoding="utf-8") as writer:
            writer.write("4\n")
        rest, _ = following.communicate(timeout=PATIENCE)
        self.assertEqual(rest, "4\nend\n")
        self.assertEqual(following.returncode, 0)

    def test_events_are_followed(self):
        following = subprocess.Popen(["gpuman", "events", "-f", "--json"], env=self.m.env, stdout=subprocess.PIPE, text=True)
        self.ok("run", "--tag", "eventful", "--wait", "--", "true")
        for line in following.stdout:
            if json.loads(line)["tag"] == "eventful":
                break
        following.kill()
        following.communicate()
        last = self.m.json("events", "--limit", "1")["events"]
        self.assertEqual(len(last), 1)
        self.assertEqual(self.m.json("events", "--since", str(last[0]["id"]))["events"], [])

    def test_events_of_the_last_hour_are_asked_for_as_in_history(self):
        self.ok("run", "--tag", "lately", "--wait", "--", "true")
        for since in ("1h", "yesterday", "2026-01-01"):
            self.assertIn("job_finished", self.ok("events", "--since", since))
        self.assertEqual(self.ok("events", "--since", "0s"), "")
        following = subprocess.Popen(["gpuman", "events", "-f", "--since", "1h", "-n", "1"], env=self.m.env, stdout=subprocess.PIPE,
                                     text=True)
        self.assertIn("job_finished", following.stdout.readline())
        self.ok("run", "--tag", "after", "--wait", "--", "true")
        self.assertRegex(following.stdout.readline(), "job_started.*after")
        following.kill()
        following.communicate()
        done = self.m.run("events", "--since", "whenever")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--since: 'whenever' is not a time", done.stderr)

    def test_a_follower_of_events_sees_the_last_ones_first(self):
        self.ok("run", "--tag", "before", "--wait", "--", "true")
        following = subprocess.Popen(["gpuman", "events", "-f"], env=self.m.env, stdout=subprocess.PIPE, text=True)
        seen = []
        while not any("job_finished" in line and "before" in line for line in seen):
            seen.append(following.stdout.readline())
            self.assertTrue(seen[-1])
        self.ok("run", "--tag", "after", "--wait", "--", "true")
        while not any("job_finished" in line and "after" in line for line in seen):
            seen.append(following.stdout.readline())
            self.assertTrue(seen[-1])
        following.kill()
        following.communicate()
        self.assertEqual(sum("job_finished" in line and "before" in line for line in seen), 1)

    def test_output_that_cannot_be_written_is_a_failure_with_the_reason(self):
        self.m.run("run", "--tag", "says", "--wait", "--", "sh", "-c", "echo something")
        for words in (("status",), ("status", "--json"), ("logs", "says"), ("--help",), ("--version",), ("events", "-f"),
                      ("queue", "--watch")):
            with open("/dev/full", "w") as full:
                done = subprocess.run(["gpuman", *words], env=self.m.env, cwd=self.m.home, stdout=full, stderr=subprocess.PIPE,
                                      text=True, timeout=PATIENCE)
            self.assertEqual(done.returncode, 1, words)
            self.assertIn("writing the output: No space left on device", done.stderr, words)

    def test_programs_beside_gpuman_say_that_their_output_cannot_be_written(self):
        config = self.m.home / "gpumand-to-check.toml"
        config.touch()
        for words in (("gbatch", "--help"), ("gjob", "--version"), ("gpumand", "--help"), ("gpumand", "--version"),
                      ("gpumand", "--config", str(config), "--check-config"), ("gpuman-load", "--help"),
                      ("gpuman-kube-plugin", "--help"), ("gpuman-kube-plugin", "--version"), ("gpuman-sim", "--help"),
                      ("gpuman-sim", "show"), ("gpuman-keeper", "--help"), ("gpuman-mover", "--help"), ("gpuman-notifier", "--help")):
            if not (pathlib.Path(BIN) / words[0]).exists():  # built without Kubernetes
                continue
            with open("/dev/full", "w") as full:
                done = subprocess.run(words, env=self.m.env, cwd=self.m.home, stdout=full,
                                      stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
            self.assertEqual(done.returncode, 1, words)
            self.assertIn("writing the output: No space left on device", done.stderr, words)

    def test_events_of_a_job_are_shown_alone(self):
        for tag in ("one", "two", "three"):
            self.ok("run", "--tag", tag, "--wait", "--", "true")
        ids = {tag: json.loads(self.ok("job", "show", tag, "--json"))["id"] for tag in ("one", "two", "three")}

        def jobs_of(*words):
            return [event["job"] for event in json.loads(self.ok("events", "--json", *words))["events"]]
        self.assertEqual(set(jobs_of("two")), {ids["two"]})
        self.assertEqual(len(jobs_of("one", "-n", "1")), 1, "the newest of its own, though there are newer ones of others")
        self.assertEqual(set(jobs_of("one", str(ids["three"]))), {ids["one"], ids["three"]})
        self.assertEqual(jobs_of("999999"), [])
        self.assertEqual(self.m.run("events", "nosuch").returncode, 4)
        with subprocess.Popen(["gpuman", "events", "one", "-f", "--json", "--since", "0"], env=self.m.env, stdout=subprocess.PIPE,
                              text=True) as following:
            first = json.loads(following.stdout.readline())
            following.kill()
        self.assertEqual(first["job"], ids["one"])

    def test_a_reader_who_has_enough_is_told_nothing(self):
        for ignores in (False, True):  # SIGPIPE ends the program, or a write fails with EPIPE
            reader, writer = os.pipe()
            os.close(reader)
            done = subprocess.run(["gpuman", "status"], env=self.m.env, cwd=self.m.home, stdout=writer, stderr=subprocess.PIPE,
                                  text=True, timeout=PATIENCE, restore_signals=not ignores)
            os.close(writer)
            self.assertEqual(done.stderr, "")
            self.assertEqual(done.returncode, 1 if ignores else -signal.SIGPIPE)

    def test_gpus_are_shown(self):
        self.assertEqual(self.ok("gpu", "list").count("RTX 4050"), 2)
        gpus = self.m.json("gpu", "list")["gpus"]
        self.assertEqual([gpu["index"] for gpu in gpus], [0, 1])
        self.assertIn(gpus[1]["uuid"], self.ok("gpu", "show", "1"))
        self.assertEqual(self.m.json("gpu", "show", gpus[1]["uuid"])["index"], 1)
        self.refused(4, "", "gpu", "show", "7")

    def test_a_job_is_kept_to_its_gpu(self):
        gpus = self.m.json("gpu", "list")["gpus"]
        self.start("second", "--alloc", "64MiB", "--hold", "1h", run=("--gpu", "1"))
        self.assertEqual(self.m.job("second")["gpus"], [gpus[1]["uuid"]])
        self.m.until("it is on GPU 1", lambda: [p for p in self.m.json("gpu", "show", "1")["processes"]
                                                if p["tag"] == "second"])
        self.ok("remove", "second")

    def test_a_socket_that_cannot_be_used_says_why(self):
        plain = self.m.home / "plain"
        plain.write_text("")
        self.refused(3, f"{plain} is no socket", "status", "--socket", str(plain))
        stale = self.m.home / "stale.sock"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(stale))
        self.refused(3, "that made this socket does not run", "status", "--socket", str(stale))
        self.refused(3, "there is no such socket", "status", "--socket", str(self.m.home / "none"))

    @unittest.skipUnless(os.geteuid() == 0, "only root becomes another user")
    def test_another_users_daemon_is_named(self):
        """Runs gpuman as user 54321, who may not enter the directory of the daemon's socket."""
        own = self.m.home / "run/gpuman/gpumand.sock"
        self.m.home.chmod(0o711)
        gpuman = within_reach(pathlib.Path(BIN) / "gpuman", self.m.home)

        def as_other(*arguments):
            return User("other", 54321, 54321).run([gpuman, *arguments], env=self.m.env, cwd="/", stdin=subprocess.DEVNULL)
        done = as_other("status", "--socket", str(own))
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn(f"its directory {self.m.home}/run belongs to the user root alone", done.stderr)
        done = as_other("status")
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn("you may not use", done.stderr)
        # A directory of that user, as XDG_RUNTIME_DIR is after `sudo -E`: gpuman starts no daemon there.
        foreign = self.m.home / "foreign"
        foreign.mkdir(mode=0o700)
        os.chown(foreign, 54321, 54321)
        done = subprocess.run(["gpuman", "status"], env={**self.m.env, "XDG_RUNTIME_DIR": str(foreign)}, text=True,
                              capture_output=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn(f"{foreign} belongs to the user 54321", done.stderr)
        self.assertIn("unset XDG_RUNTIME_DIR", done.stderr)
        self.assertEqual(list(foreign.iterdir()), [])

    def test_commands_of_other_tools_get_a_hint(self):
        for words, says in ((("kill", "7"), "gpuman cancel JOB"), (("ps",), "gpuman proclist"),
                            (("status", "-w"), "gpuman top"), (("run", "-it", "bash"), "--pty"),
                            (("device", "set", "power", "250"), "gpuman device power set 250W"),
                            (("run", "--gpsu", "1", "--", "true"), "did you mean --gpus?"),
                            (("logs",), "for example: gpuman logs train -f")):
            self.refused(2, says, *words)
        self.refused(4, "there is no file", "submit", "nosuch.sh")
        self.assertEqual(self.ok("help", "run"), self.ok("run", "--help"))

    def test_configurations_are_checked(self):
        bad = self.m.home / "bad.toml"
        bad.write_text("[guard]\nno_such_key = 1\n")
        self.refused(2, "no_such_key", "config", "check", str(bad))
        done = subprocess.run(["gpumand", "--user", "--config", str(bad)], env=self.m.env, text=True,
                              capture_output=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 2, "the same status from the daemon that does not start")
        bad.write_text('[sampling]\nrest = "soon"\n[guard]\nno_such_key = 1\nreserve = "nonsense"\n')
        done = self.m.run("config", "check", str(bad))
        self.assertEqual(done.returncode, 2)
        begins = [line[:line.index(": ", len("gpuman: "))] for line in done.stderr.splitlines()]
        self.assertEqual(begins, [f"gpuman: {bad}:{line}" for line in (2, 4, 5)], done.stderr)
        good = self.m.home / "good.toml"
        good.write_text("")
        self.ok("config", "check", str(good))
        self.assertEqual(self.m.json("config", "check", str(good)), {"valid": True, "file": str(good), "exists": True})
        missing = self.m.home / "no_such.toml"
        self.refused(4, f"there is no file {missing}", "config", "check", str(missing))
        done = subprocess.run(["gpumand", "--check-config", "--config", str(missing)], env=self.m.env, text=True,
                              capture_output=True, timeout=PATIENCE)
        self.assertEqual((done.returncode, done.stderr), (4, f"there is no file {missing}\n"))
        said = self.ok("config", "check")
        if "there is no such file" in said:
            self.assertIn("the defaults are used", said)
            self.assertFalse(self.m.json("config", "check")["exists"])
        else:
            self.assertIn(": valid", said)
        self.m.env["GPUMAN_CONFIG"] = str(missing)
        self.addCleanup(self.m.env.pop, "GPUMAN_CONFIG")
        self.refused(4, f"there is no file {missing}", "config", "check")

    def test_jobs_that_share_a_gpu_are_shown(self):
        self.start("sharer", "--alloc", "64MiB", "--hold", "1h", run=("--share", "--gpu", "1"))
        text = self.m.until("it is there", lambda: "sharer" in (text := self.ok("share", "status")) and text)
        self.assertRegex(text, r"GPU 1: everybody runs; .* wanted of ")
        self.assertNotIn("MANAGED", text)
        job = self.m.json("share", "status")["gpus"][-1]["jobs"][-1]
        self.assertEqual((job["tag"], job["gate"], job["memory"]["managed"]), ("sharer", "open", 0))
        self.ok("remove", "sharer")

    def test_what_has_not_changed_is_copied_only_where_that_is_set(self):
        self.assertEqual(self.settings()["unchanged"], "hash")
        self.assertRegex(self.ok("share", "set", "--unchanged", "off"), r"(?m)^unchanged +off$")
        self.assertEqual(self.settings()["unchanged"], "off")
        self.assertRegex(self.ok("share", "set", "--unchanged", "compare"), r"(?m)^unchanged +compare$")
        self.refused(2, "hash, compare, off", "share", "set", "--unchanged", "guess")
        self.ok("share", "set", "--unchanged", "hash")

    def nvsharectl(self, *arguments):
        return subprocess.run(["nvsharectl", *arguments], env=self.m.env, cwd=self.m.home, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE)

    def settings(self):
        return self.m.json("share", "status")["settings"]

    def test_nvshare_commands_work_as_they_do_there(self):
        before = self.settings()
        for typed in (["-T", "40"], ["-T41"], ["--set-tq=42"], ["--set-tq", "43"]):
            done = self.nvsharectl(*typed)
            self.assertEqual((done.returncode, done.stderr), (0, ""), typed)
            seconds = int(re.search(r"\d+", "".join(typed)).group())
            self.assertEqual(done.stdout, f"While other jobs wait, a turn lasts {seconds}s.\n")
            self.assertEqual((self.settings()["quantum_min"], self.settings()["quantum_max"]), (seconds, seconds))
        self.assertEqual(self.nvsharectl("-T", "2147483647").returncode, 0)
        self.assertEqual(self.settings()["quantum_max"], 86400, "a day is as long as turns get")
        self.ok("share", "set", "--compute", "exclusive")
        self.assertIn("run at the same time", self.nvsharectl("--anti-thrash=off").stdout)
        self.assertEqual(self.settings()["compute"], "concurrent")
        self.assertFalse(self.settings()["managed_turns"])
        both = self.nvsharectl("-S", "on", "-T", "30")
        self.assertEqual((both.returncode, both.stdout.count("\n")), (0, 2), both.stderr)
        self.ok("share", "set", "--quantum-min", f"{before['quantum_min']}s", "--quantum-max", f"{before['quantum_max']}s")
        self.assertEqual(self.settings(), before)

    def test_nvshares_variables_count_for_jobs_that_share(self):
        def run(tag, *options, **variables):
            done = subprocess.run(["gpuman", "run", "--tag", tag, *options, "--wait", "--", "printenv", "LD_PRELOAD"],
                                  env={**self.m.env, **variables}, cwd=self.m.home, text=True, stdin=subprocess.DEVNULL,
                                  capture_output=True, timeout=PATIENCE)
            return self.m.job(tag)["oversubscribe"], done.stderr, done.stdout
        self.assertTrue(run("nv-one", "--share", NVSHARE_ENABLE_SINGLE_OVERSUB="1")[0])
        self.assertFalse(run("nv-zero", "--share", NVSHARE_ENABLE_SINGLE_OVERSUB="0")[0])
        self.assertFalse(run("nv-alone", NVSHARE_ENABLE_SINGLE_OVERSUB="1")[0])
        self.assertTrue(run("nv-ours", "--oversubscribe")[0])
        self.assertIn("gpuman share status", run("nv-debug", "--share", NVSHARE_DEBUG="1")[1])
        _, said, preloaded = run("nv-preload", "--share", LD_PRELOAD="/usr/local/lib/libnvshare.so:libm.so.6")
        self.assertIn("libnvshare.so was removed", said)
        self.assertNotIn("libnvshare", preloaded)
        self.assertTrue(preloaded.endswith(":libm.so.6\n"), preloaded)

    def test_nvsharectl_says_what_it_takes(self):
        for typed in (["-h"], ["--help"]):
            done = self.nvsharectl(*typed)
            self.assertEqual((done.returncode, done.stderr), (0, ""), typed)
            for option in ("-T,--set-tq", "-S,--anti-thrash", "-h,--help"):
                self.assertIn(option, done.stdout)
        for typed in ([], ["-T", "0"], ["-T", "-5"], ["-T", "soon"], ["-T"], ["-S", "maybe"], ["-S"], ["-x"], ["word"]):
            done = self.nvsharectl(*typed)
            self.assertEqual((done.returncode, done.stdout), (2, ""), typed)
            self.assertIn("nvsharectl --help", done.stderr)

    def test_an_impossible_command_is_refused_with_the_reason(self):
        self.refused(6, "", "run", "--tag", "x", "--memory", "1TiB", "--", "true")
        self.refused(4, "", "run", "--tag", "x", "--gpu", "9", "--", "true")
        self.refused(2, "", "run", "--tag", "x y", "--", "true")
        self.refused(2, "negative", "run", "--tag", "x", "--memory", "-1", "--", "true")
        self.ok("run", "--tag", "train-one", "--", "sleep", "1000")
        self.refused(1, "train-one", "run", "--tag", "train-one", "--", "true")
        for command in (["logs"], ["restart"], ["remove"], ["update", "--memory", "1G"]):
            self.refused(4, "did you mean 'train-one'?", command[0], "trainone", *command[1:])
        self.refused(6, "", "update", "train-one", "--memory", "1TiB")
        self.ok("remove", "train-one")

    def test_a_command_that_cannot_start_says_so(self):
        for command in ("no-such-program-anywhere", "/etc/passwd", "/"):
            done = self.m.run("run", "--tag", "cannot", "--wait", "--", command)
            self.assertNotEqual(done.returncode, 0, command)
            self.assertIn(command, done.stderr)

    def test_a_table_fits_a_terminal_and_has_no_colour_without_leave(self):
        master, slave = pty.openpty()
        import fcntl
        import struct
        import termios
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        subprocess.run(["gpuman", "status"], env={**self.m.env, "NO_COLOR": "1", "TERM": "xterm"}, stdout=slave,
                       timeout=PATIENCE, check=True)
        shown = os.read(master, 65536).decode()
        self.assertNotIn("\033", shown)
        for line in shown.replace("\r", "").split("\n"):
            if not re.match(r"(job|GPU) \d+", line):
                self.assertLessEqual(len(line), 80, line)
        self.assertRegex(shown, r"\[ *#* *\]")
        subprocess.run(["gpuman", "status"], env={**self.m.env, "TERM": "xterm"}, stdout=slave, timeout=PATIENCE, check=True)
        self.assertIn("\033[", os.read(master, 65536).decode())
        os.close(master)
        os.close(slave)


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    options, rest = parser.parse_known_args()
    BIN = os.path.abspath(options.bin)
    if pathlib.Path("/run/gpuman/gpumand.sock").exists() or any(
            pathlib.Path(folder, "gpumand.service").exists()
            for folder in ("/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")):
        print("skipped: this machine has gpumand as a service")
        sys.exit(77)
    os.environ["PATH"] = f"{BIN}:{os.environ['PATH']}"
    unittest.main(argv=sys.argv[:1] + rest)

#!/usr/bin/env python3
"""Jobs that make no call leave their GPU, and their next call brings them back: daemon, shim and gpuman-mover, on the
simulated driver.

Usage: idle_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import atexit
import json
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from daemon_case import DaemonTest, MIB, until  # noqa: E402
from machine import build_dir, program  # noqa: E402
from pods import Container, unified_tree  # noqa: E402
from queue_terminal_test import Terminal  # noqa: E402

PROGRAM = pathlib.Path(__file__).with_name("idle_program.py")
SOON, NEVER = 0.4, 3600  # seconds
LIMIT = 15  # seconds; long enough to start on a busy machine
FOR_PRESSURE = 11  # more than IdleSettings::for_pressure
LOGS = tempfile.mkdtemp(prefix="gpuman-logs-")
atexit.register(shutil.rmtree, LOGS, True)
CONFIG = '[sampling]\nrest = "20ms"\n[suspend]\npatience = "1m"\n'  # simulated work is slow on a busy machine


class IdleCase(DaemonTest):
    gpus, memory, config = 2, "4GiB", CONFIG

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="idle-", dir=self.m.dir))
        self.words = {}

    def tearDown(self):
        shutil.rmtree(self.dir, ignore_errors=True)
        super().tearDown()
        until("the GPUs are empty for the next", lambda: not any(
            gpu["processes"] for gpu in self.request("GET", "/v1/gpus").json()["gpus"]))

    def script(self, tag, *more):
        (self.dir / tag).mkdir()
        self.words[tag] = 0
        return " ".join(["exec", sys.executable, str(PROGRAM), str(self.dir / tag), *more])

    def notebook(self, tag, *more, **options):
        """Starts a job that uses its GPU when it is told to; returns once it has filled its memory."""
        settings = {"gpus": ["0"], "idle_suspend_s": SOON, **options}
        job = self.start(tag, self.script(tag, *more), **{name: value for name, value in settings.items() if value is not None})
        self.is_ready(job)
        return job

    def is_ready(self, job, processes=1):
        until("it has its memory", lambda: self.log(job).count('"ready"') == processes, self.what_stands)

    def said(self, ref):
        return [json.loads(line) for line in self.log(ref).splitlines() if line.startswith("{")]

    def tell(self, tag, word):
        """Tells the program to do something. Returns its number."""
        self.words[tag] += 1
        number = self.words[tag]
        half = self.dir / tag / "half"
        half.write_text(word, encoding="utf-8")
        half.rename(self.dir / tag / str(number))
        return number

    def done(self, tag):
        """Waits until the program has done all that it was told to; returns what it said of the last."""
        until(f"{tag} has done it", lambda: len(self.said(tag)) > self.words[tag], self.what_stands)
        return self.said(tag)[self.words[tag]]

    def does(self, tag, word):
        self.tell(tag, word)
        return self.done(tag)

    def is_right(self, tag):
        self.assertTrue(self.does(tag, "check")["right"])

    def ends_with_its_data(self, tag):
        self.tell(tag, "end")
        ended = self.wait(tag)
        self.assertEqual(ended["state"], "finished", self.log(tag)[-1500:])

    def goes_away(self, tag):
        job = self.becomes(tag, "suspended")
        self.assertEqual(job["reason"], "idle")
        return job

    def update(self, ref, **changes):
        return self.request("PATCH", f"/v1/jobs/{ref}", changes)

    def suspend(self, ref):
        answer = self.request("POST", f"/v1/jobs/{ref}/suspend")
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json()

    def resume(self, ref):
        answer = self.request("POST", f"/v1/jobs/{ref}/resume", {})
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json()

    def told(self, job, kind):
        return [event for event in self.events() if event["job"] == job and event["kind"] == kind]

    def on_gpu(self, index=0):
        return [process["pid"] for process in self.request("GET", f"/v1/gpus/{index}").json()["processes"]]

    def has_looked(self, count=12):
        """The daemon has taken so many samples more, and looked at the jobs after each."""
        before = self.metric("gpuman_sampler_round_seconds_count")
        until("samples", lambda: self.metric("gpuman_sampler_round_seconds_count") >= before + count)


class IdleTest(IdleCase):
    def test_idle_job_leaves_whole_and_its_next_call_brings_back_its_data(self):
        for share in (False, True):
            with self.subTest(share=share):
                tag = f"note-{share}".lower()
                job = self.notebook(tag, share=share)
                self.assertEqual(self.job(tag)["idle_suspend_s"], SOON)
                away = self.goes_away(tag)
                self.assertGreaterEqual(away["memory"]["host"], 96 * MIB)
                self.assertRegex(away["reason_detail"], r"^no GPU call for \S+.*; .* in host memory")
                until("its context is gone as well", lambda pid=away["pid"]: pid not in self.on_gpu())
                # The event comes when the record is on the disk. Where the program started slowly, it was idle before it
                # had its memory as well.
                until("the event", lambda one=job: len(self.told(one, "job_suspended")) > len(self.told(one, "job_resumed")),
                      self.what_stands)
                event = self.told(job, "job_suspended")[-1]
                self.assertGreaterEqual(event["data"]["freed"], 96 * MIB)
                self.assertGreaterEqual(event["data"]["milliseconds_idle"], SOON * 1000)
                self.assertTrue(self.does(tag, "check")["right"])
                until("the event of its return", lambda one=job: self.told(one, "job_resumed"), self.what_stands)
                self.goes_away(tag)
                self.ends_with_its_data(tag)
                self.assertFalse(self.told(job, "suspend_failed"))

    def test_metrics_count_idle_job_while_suspended(self):
        self.notebook("note")
        self.goes_away("note")
        until("it is counted", lambda: self.metric("gpuman_idle_jobs", state="away") == 1)
        self.assertEqual(self.metric("gpuman_idle_jobs", state="on_gpu"), 0)
        self.ends_with_its_data("note")
        until("it is gone", lambda: self.metric("gpuman_idle_jobs", state="away") == 0)

    def test_why_tells_that_no_call_came(self):
        self.notebook("note")
        self.goes_away("note")
        why = self.request("GET", "/v1/jobs/note/why").json()
        self.assertIn("no GPU call", json.dumps(why))
        self.ends_with_its_data("note")

    def test_job_with_unfinished_gpu_work_stays(self):
        job = self.notebook("note", idle_suspend_s=NEVER)
        for word in ("work", "aside"):
            self.does("note", word)
            self.assertEqual(self.update("note", idle_suspend_s=SOON).status, 200)
            self.has_looked(60)
            until("no try is on", lambda: self.job("note")["reason"] is None, self.what_stands)
            self.assertEqual(self.job("note")["state"], "running")
            self.assertFalse(self.told(job, "job_suspended"))
            self.assertFalse(self.told(job, "suspend_failed"))
            self.assertEqual(self.update("note", idle_suspend_s=NEVER).status, 200)
            self.does("note", "release")
            self.is_right("note")
        self.assertEqual(self.update("note", idle_suspend_s=SOON).status, 200)
        self.goes_away("note")
        self.ends_with_its_data("note")

    def test_job_that_makes_calls_stays(self):
        job = self.notebook("note", idle_suspend_s=8)
        end = time.monotonic() + 12
        while time.monotonic() < end:
            self.is_right("note")
            self.has_looked(2)
        self.assertFalse(self.told(job, "job_suspended"))
        self.goes_away("note")
        self.ends_with_its_data("note")

    def test_setting_can_be_changed_while_the_job_runs(self):
        self.notebook("note", idle_suspend_s=NEVER)
        self.has_looked()
        self.assertEqual(self.job("note")["state"], "running")
        self.assertEqual(self.update("note", idle_suspend_s=SOON).status, 200)
        self.goes_away("note")
        self.assertEqual(self.update("note", idle_suspend_s=None).status, 200)
        self.assertIsNone(self.job("note")["idle_suspend_s"])
        self.has_looked()
        self.assertEqual(self.job("note")["state"], "suspended", "a setting brings nothing back")
        self.is_right("note")  # its call does, also now
        self.has_looked(60)
        self.assertEqual(self.job("note")["state"], "running")
        self.ends_with_its_data("note")

    def test_call_does_not_resume_job_suspended_by_its_user(self):
        self.notebook("note")
        self.goes_away("note")
        job = self.suspend("note")
        self.assertEqual((job["state"], job["reason"]), ("suspended", "held_by_user"))
        number = self.tell("note", "check")
        self.has_looked(40)
        self.assertEqual(self.job("note")["reason"], "held_by_user")
        self.assertEqual(len(self.said("note")), number, "the call waits")
        self.resume("note")
        self.assertTrue(self.done("note")["right"])
        self.ends_with_its_data("note")

    def test_resume_brings_back_idle_job_without_a_call(self):
        self.notebook("note")
        self.goes_away("note")
        self.assertEqual(self.update("note", idle_suspend_s=NEVER).status, 200)
        self.assertEqual(self.resume("note")["state"], "running")
        self.ends_with_its_data("note")

    def test_query_calls_bring_back_idle_job(self):
        self.notebook("note")
        for word in ("query", "event"):
            away = self.goes_away("note")
            until("its context is gone", lambda pid=away["pid"]: pid not in self.on_gpu())
            self.assertEqual(self.does("note", word)["status"], 0)
        self.ends_with_its_data("note")

    def test_call_after_restart_of_daemon_brings_back_idle_job(self):
        self.notebook("note")
        self.goes_away("note")
        self.m.stop_daemon(signal.SIGKILL)
        self.m.start_daemon()
        self.assertEqual(self.goes_away("note")["reason"], "idle")
        self.is_right("note")
        self.goes_away("note")
        self.m.stop_daemon(signal.SIGKILL)
        self.tell("note", "check")  # nobody is there
        self.m.start_daemon()
        self.assertTrue(self.done("note")["right"])
        self.ends_with_its_data("note")

    def test_idle_suspension_continues_after_kill_of_daemon(self):
        job = self.notebook("note", "--size", str(384 * MIB))
        # Where the program started slowly, it was idle before it had its memory.
        started = len(self.told(job, "job_suspended"))
        for number in range(6):
            until("it leaves", lambda: self.job("note")["reason"] == "idle", self.what_stands)
            self.m.stop_daemon(signal.SIGKILL)
            if number % 2:
                self.tell("note", "check")
            self.m.start_daemon()
            if not number % 2:
                self.goes_away("note")
                self.tell("note", "check")
            self.assertTrue(self.done("note")["right"])
        self.assertFalse(self.told(job, "resume_failed"))
        # A daemon that counts the job as away before it has found its processes gives no order back.
        self.assertFalse([event for event in self.told(job, "job_suspended")[started:] if not event["data"]["evicted"]])
        self.ends_with_its_data("note")

    def test_all_processes_have_to_be_idle_and_any_call_wakes_all(self):
        job = self.start("pair", self.script("pair", "--children", "1", "--size", str(80 * MIB)), gpus=["0"],
                         idle_suspend_s=SOON)
        self.is_ready(job, processes=2)
        away = self.goes_away("pair")
        self.assertGreaterEqual(away["memory"]["host"], 160 * MIB)
        self.tell("pair", "check")
        until("it is back", lambda: self.job("pair")["state"] == "running", self.what_stands)
        self.ends_with_its_data("pair")

    def test_new_process_brings_back_idle_job(self):
        """A new kernel of a notebook server, for example."""
        first, second = self.script("first"), self.script("second")
        begin = self.dir / "begin"
        self.start("lab", f"({first}) & while [ ! -e {begin} ]; do sleep 0.05; done; ({second}) & wait", gpus=["0"],
                   idle_suspend_s=SOON)
        self.is_ready("lab")
        self.goes_away("lab")
        begin.touch()
        self.is_ready("lab", 2)
        until("it runs", lambda: self.job("lab")["state"] == "running")
        self.goes_away("lab")
        for tag in ("first", "second"):
            self.tell(tag, "end")
        ended = self.wait("lab")
        self.assertEqual(ended["state"], "finished", self.log("lab")[-1500:])

    def test_new_process_without_gate_brings_back_idle_job(self):
        """Its call waits in the driver, which has taken it off the GPU as well, and shows nowhere."""
        first, second = self.script("first"), self.script("second")[len("exec "):]
        begin = self.dir / "begin"
        self.start("lab", f"({first}) & while [ ! -e {begin} ]; do sleep 0.05; done; env -u LD_PRELOAD {second} & wait",
                   gpus=["0"], idle_suspend_s=SOON)
        self.is_ready("lab")
        self.goes_away("lab")
        begin.touch()
        self.is_ready("lab", 2)
        for tag in ("first", "second"):
            self.tell(tag, "end")
        ended = self.wait("lab")
        self.assertEqual(ended["state"], "finished", self.log("lab")[-1500:])

    def test_process_without_the_shim_keeps_idle_job_on_the_gpu(self):
        job = self.start("note", "env -u LD_PRELOAD " + self.script("note")[len("exec "):], gpus=["0"], idle_suspend_s=SOON)
        self.is_ready(job)
        until("the daemon says why", lambda: any(
            "not suspended when it is idle" in note and "libgpuman.so" in note for note in self.job("note")["notes"]))
        self.has_looked(60)
        self.assertEqual(self.job("note")["state"], "running")
        self.ends_with_its_data("note")

    def test_settings_that_mean_nothing_are_refused(self):
        for value in (0, -5, 0.05, "soon"):
            answer = self.request("POST", "/v1/jobs", self.run_request("bad", "true", idle_suspend_s=value), checked=False)
            self.assertEqual(answer.status, 400, answer.body)
            self.assertIn("idle_suspend_s", answer.json()["error"]["message"])
        for more, word in ((("--no-preload",), "preload"), (("--mps",), "MPS")):
            done = self.m.run("run", "--tag", "bad", "--idle-suspend", "10m", *more, "--", "true")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(word, done.stderr)
        for text in ("0", "-5m", "soon", ""):
            done = self.m.run("run", "--tag", "bad", f"--idle-suspend={text}", "--", "true")
            self.assertNotEqual(done.returncode, 0, text)
            self.assertIn("idle", done.stderr)

    def test_a_job_without_a_gate_does_not_take_the_setting(self):
        job = self.notebook("note", idle_suspend_s=None)
        answer = self.update(job, idle_suspend_s=SOON)
        self.assertEqual(answer.status, 409, answer.body)
        self.assertIn("start it again with --idle-suspend", answer.json()["error"]["hint"])
        self.ends_with_its_data("note")


class CommandTest(IdleCase):
    """The same by the command line."""

    def gpuman(self, *words):
        done = self.m.run(*words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def setting_is(self, ref, seconds):
        self.assertEqual(self.job(ref)["idle_suspend_s"], seconds)

    def test_run_takes_the_time_and_update_changes_it(self):
        script = self.script("note")
        self.gpuman("run", "--gpu", "0", "--tag", "note", "--detach", "--idle-suspend", f"{SOON * 1000:.0f}ms", "--",
                    "sh", "-c", script)
        self.is_ready("note")
        self.setting_is("note", SOON)
        self.goes_away("note")
        self.is_right("note")
        self.goes_away("note")
        self.gpuman("update", "note", "--idle-suspend", "30m")
        self.setting_is("note", 1800)
        self.assertIn("leaves its GPU after 30m without a call", self.gpuman("job", "show", "note"))
        self.is_right("note")
        self.gpuman("update", "note", "--idle-suspend", "none")
        self.setting_is("note", None)
        self.has_looked(60)
        self.assertEqual(self.job("note")["state"], "running")
        self.gpuman("update", "note", "--idle-suspend", f"{SOON * 1000:.0f}ms")
        self.goes_away("note")
        for text in ("soon", "0", "50ms"):
            done = self.m.run("update", "note", f"--idle-suspend={text}")
            self.assertNotEqual(done.returncode, 0, text)
            self.assertIn("idle", done.stderr)
            self.setting_is("note", SOON)
        self.ends_with_its_data("note")
        self.setting_is("note", SOON)

    def test_submit_takes_the_time_and_job_update_changes_it(self):
        script = self.script("note")
        self.gpuman("submit", "--gpus", "1", "--name", "note", "--idle-suspend", f"{SOON * 1000:.0f}ms", "--", "sh", "-c", script)
        self.is_ready("note")
        self.setting_is("note", SOON)
        self.goes_away("note")
        self.is_right("note")
        self.gpuman("job", "update", "note", "--idle-suspend", "30m")
        self.setting_is("note", 1800)
        self.gpuman("job", "update", "note", "--idle-suspend", "none")
        self.setting_is("note", None)
        self.ends_with_its_data("note")

    def test_job_update_changes_the_time_of_a_job_that_waits(self):
        self.gpuman("submit", "--gpus", "1", "--hold", "--name", "later", "--idle-suspend", "10m", "--", "true")
        self.setting_is("later", 600)
        self.gpuman("job", "update", "later", "--idle-suspend", "30m")
        self.setting_is("later", 1800)
        self.gpuman("job", "update", "later", "--idle-suspend", "none")
        self.setting_is("later", None)
        self.gpuman("cancel", "later")


class TerminalTest(IdleCase):
    def terminal(self):
        """A program in a terminal, which leaves."""
        terminal = Terminal(self, "run", "--gpus", "1", "--tag", "note", "--pty", "--idle-suspend", f"{SOON}s", "--", "sh", "-c",
                            self.script("note"))
        terminal.read_until(b'"ready"')
        away = self.goes_away("note")
        self.assertGreaterEqual(away["memory"]["host"], 96 * MIB)
        until("its context is gone as well", lambda: away["pid"] not in self.on_gpu())
        return terminal

    def test_a_program_in_a_terminal_leaves_and_its_next_call_brings_it_back(self):
        terminal = self.terminal()
        for _ in range(2):
            terminal.shown = b""
            self.tell("note", "check")
            terminal.read_until(b'"right": true')
            self.goes_away("note")
        self.tell("note", "end")
        self.assertEqual(terminal.status(), 0, terminal.shown)
        self.assertEqual(self.job("note")["state"], "finished")

    def test_a_program_that_is_away_hears_its_terminal(self):
        terminal = self.terminal()
        os.write(terminal.fd, b"\x03")
        self.assertEqual(terminal.status(), 130, terminal.shown)
        self.assertIn(b"KeyboardInterrupt", terminal.shown)


class ConfiguredTest(IdleCase):
    config = CONFIG + f'[idle]\nsuspend_after = "{SOON}s"\n'

    def test_the_setting_for_all_holds_for_jobs_without_their_own(self):
        self.notebook("own", idle_suspend_s=NEVER)
        self.notebook("note", idle_suspend_s=None)
        self.assertEqual(self.job("note")["idle_suspend_s"], SOON)
        self.goes_away("note")
        self.assertEqual(self.job("own")["state"], "running")
        self.assertEqual(self.update("own", idle_suspend_s=None).status, 200)
        self.goes_away("own")
        for tag in ("note", "own"):
            self.ends_with_its_data(tag)
        job = self.start("bare", self.script("bare"), gpus=["0"], preload=False)
        self.is_ready(job)
        self.assertIn("not suspended when it is idle: libgpuman.so is not loaded into it", " ".join(self.job("bare")["notes"]))
        self.ends_with_its_data("bare")


class UsersTest(IdleCase):
    """`[idle.users]` goes before the setting for all."""
    user = pwd.getpwuid(os.getuid()).pw_name
    config = CONFIG + f'[idle]\nsuspend_after = "1h"\n[idle.users]\n"{user}" = "{SOON}s"\n'

    def configure(self, idle):
        """Gives the daemon another file, and waits until it holds."""
        log = self.m.dir / "daemon.log"
        read = log.read_text().count("configuration read again")
        pathlib.Path(self.m.env["GPUMAN_CONFIG"]).write_text(CONFIG + idle)
        self.m.daemon.send_signal(signal.SIGHUP)
        until("it is read", lambda: log.read_text().count("configuration read again") > read)

    def users(self, after):
        self.configure(f'[idle]\nsuspend_after = "{SOON}s"\n[idle.users]\n"{self.user}" = "{after}"\n')

    def setting_is(self, seconds):
        self.assertEqual(self.job("note")["idle_suspend_s"], seconds)

    def stays(self):
        self.has_looked(60)
        self.assertEqual(self.job("note")["state"], "running")

    def test_the_setting_for_its_user_holds_for_a_job_also_after_a_change_of_the_file(self):
        self.notebook("note", idle_suspend_s=None)
        self.setting_is(SOON)
        self.goes_away("note")
        self.users("never")
        self.setting_is(None)
        self.assertEqual(self.job("note")["state"], "suspended", "a setting brings nothing back")
        self.is_right("note")
        self.stays()
        self.users(f"{NEVER}s")
        self.setting_is(NEVER)
        self.stays()
        self.users(f"{SOON}s")
        self.goes_away("note")
        self.is_right("note")
        self.configure('[idle]\nsuspend_after = "1h"\n')
        self.setting_is(3600)
        self.ends_with_its_data("note")

    def test_a_user_who_is_not_there_is_refused_and_the_setting_stays(self):
        self.users(f"{SOON}s")
        file = pathlib.Path(self.m.env["GPUMAN_CONFIG"])
        file.write_text(CONFIG + '[idle.users]\nnobody_of_this_name = "1h"\n')
        self.m.daemon.send_signal(signal.SIGHUP)
        until("the complaint", lambda: "nobody_of_this_name" in (self.m.dir / "daemon.log").read_text())
        self.notebook("note", idle_suspend_s=None)
        self.setting_is(SOON)
        self.goes_away("note")
        self.ends_with_its_data("note")


class ForeignTest(IdleCase):
    """Programs that somebody else has started: a step of Slurm, a container of Kubernetes. The file's setting holds."""
    config = CONFIG + f'[idle]\nsuspend_after = "{SOON}s"\n[kubernetes]\nlogs = "{LOGS}"\n'

    def goes_and_comes(self, ref, tag, process):
        """The program writes to a pipe that is its log."""
        self.assertEqual(json.loads(process.stdout.readline())["word"], "ready")
        self.goes_away(ref)
        until("the next sample shows that it is away", lambda: not self.job(ref)["memory"]["used"], self.what_stands)
        self.assertNotIn(process.pid, self.on_gpu())
        self.tell(tag, "check")
        self.assertTrue(json.loads(process.stdout.readline())["right"])
        self.goes_away(ref)
        self.tell(tag, "end")
        self.assertEqual(process.wait(180), 0, process.stdout.read())

    def test_a_step_of_slurm_leaves_and_its_next_call_brings_it_back(self):
        keeper = subprocess.Popen(["sleep", "1000"])
        self.addCleanup(keeper.wait)
        self.addCleanup(keeper.kill)
        answer = self.request("POST", "/v1/attachments", {"pid": keeper.pid, "tag": "step", "gpus": ["0"]})
        self.assertEqual(answer.status, 201, answer.body)
        process = subprocess.Popen(["sh", "-c", self.script("step")], env={**self.m.env, **answer.json()["environment"]},
                                   stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        self.goes_and_comes("step", "step", process)

    @unittest.skipUnless(unified_tree(), "cgroups can be made by root where there is a tree of version 2")
    def test_a_container_with_turns_leaves_and_its_next_call_brings_it_back(self):
        container = Container(LOGS, "lab")
        self.addCleanup(container.close)
        gpu = self.request("GET", "/v1/gpus/0").json()["uuid"]
        answer = self.request("PUT", "/v1/containers", {"containers": [container.given(gpus=[gpu], share=True)]})
        self.assertEqual(answer.status, 200, answer.body)
        files = answer.json()["files"]
        environment = {**self.m.env, "LD_PRELOAD": pathlib.Path(files["preload"]).read_text().strip(),
                       "GPUMAN_SHIM_SOCKET": files["socket_directory"] + "/shim.sock", "GPUMAN_SHIM_EVICTABLE": "1"}
        process = container.start(["sh", "-c", self.script("lab")], environment)
        self.goes_and_comes("kube:team:lab:main", "lab", process)


class QueueCase(IdleCase):
    def submit(self, tag, *more, **options):
        request = self.run_request(tag, self.script(tag, *more), gpus={"count": 1}, **options)
        environment, directory = request.pop("environment"), request.pop("directory")
        request["name"] = request.pop("tag")
        answer = self.request("POST", "/v1/submissions", {"jobs": [request], "directory": directory, "environment": environment})
        self.assertEqual(answer.status, 201, answer.body)
        return answer.json()["jobs"][0]["id"]


class QueueTest(QueueCase):
    gpus = 1

    def test_a_waiting_job_gets_the_place_of_an_idle_one_which_comes_back_after_it(self):
        note = self.submit("note", idle_suspend_s=SOON)
        self.is_ready(note)
        other = self.submit("other")
        self.is_ready(other)
        self.assertEqual(self.job(note)["reason"], "idle")
        self.tell("note", "check")
        self.has_looked(40)
        self.assertEqual(self.job(note)["state"], "suspended", "its GPU is another's")
        self.ends_with_its_data("other")
        self.assertTrue(self.done("note")["right"])
        self.ends_with_its_data("note")

    def test_time_off_the_gpu_does_not_count_for_the_time_limit(self):
        note = self.submit("note", idle_suspend_s=SOON, time_limit_s=LIMIT)
        self.is_ready(note)
        self.goes_away(note)
        end = time.monotonic() + LIMIT
        until("its time would be over", lambda: time.monotonic() > end)
        self.assertEqual(self.job(note)["state"], "suspended")
        self.ends_with_its_data("note")

    def test_what_its_user_suspended_stays_although_a_call_had_asked_for_its_place(self):
        note = self.submit("note", idle_suspend_s=SOON)
        self.is_ready(note)
        other = self.submit("other")
        self.is_ready(other)
        self.tell("note", "check")
        self.has_looked()
        self.assertEqual(self.suspend(note)["reason"], "held_by_user")
        self.ends_with_its_data("other")
        self.has_looked(40)
        self.assertEqual(self.job(note)["reason"], "held_by_user")
        self.resume(note)
        self.assertTrue(self.done("note")["right"])
        self.ends_with_its_data("note")


class PreemptTest(QueueCase):
    """Two jobs that may be preempted, and a third that waits for a place."""
    gpus, config = 2, CONFIG + '[queue]\npreempt_after = "0s"\n'

    def preemptible(self, tag, **options):
        job = self.submit(tag, preemptible=True, **options)
        self.is_ready(job)
        return job

    def counts_as_idle(self, number):
        until("so many jobs may leave for others", lambda: self.metric("gpuman_idle_jobs", state="on_gpu") == number,
              self.what_stands)

    def test_an_idle_job_is_preempted_before_a_busy_one_of_lower_priority(self):
        busy = self.preemptible("busy", idle_suspend_s=NEVER, priority=5)
        self.does("busy", "work")  # work in flight, until it is released
        idle = self.preemptible("idle", idle_suspend_s=NEVER, priority=20)
        self.counts_as_idle(1)
        self.assertEqual(self.job(idle)["state"], "running", "its own time is long")
        urgent = self.submit("urgent", priority=250)
        self.is_ready(urgent)
        self.assertEqual(self.job(idle)["gpus"], self.job(urgent)["gpus"])
        away = self.job(idle)
        self.assertEqual((away["state"], away["reason"]), ("suspended", "idle"))
        self.assertIn(f"made room for job {urgent}", away["reason_detail"])
        self.assertEqual(self.job(busy)["state"], "running")
        self.assertFalse(self.told(busy, "job_suspended"))
        self.ends_with_its_data("urgent")
        self.has_looked(40)
        self.assertEqual(self.job(idle)["state"], "suspended", "a place alone does not bring it back")
        self.is_right("idle")
        self.does("busy", "release")
        for tag in ("busy", "idle"):
            self.ends_with_its_data(tag)

    def test_unchanged_memory_is_not_copied_at_next_preemption(self):
        low = self.preemptible("low", priority=5, share=True, memory="512MiB")
        self.preemptible("high", priority=20)
        for number in (1, 2):
            urgent = self.submit(f"urgent{number}", priority=250)
            self.is_ready(urgent)
            until("the event", lambda count=number: len(self.told(low, "job_suspended")) == count, self.what_stands)
            self.ends_with_its_data(f"urgent{number}")
            until("it is back", lambda count=number: len(self.told(low, "job_resumed")) == count, self.what_stands)
        first, second = (event["data"] for event in self.told(low, "job_suspended"))
        self.assertGreaterEqual(first["copied"], 96 * MIB)
        self.assertEqual((second["evicted"], second["copied"]), (first["evicted"], 0))
        for tag in ("low", "high"):
            self.ends_with_its_data(tag)

    def test_without_an_idle_one_the_job_of_the_lower_priority_is_preempted(self):
        low = self.preemptible("low", priority=5)
        high = self.preemptible("high", priority=20)
        urgent = self.submit("urgent", priority=250)
        self.is_ready(urgent)
        self.assertEqual((self.job(low)["state"], self.job(low)["reason"]), ("suspended", "preempted"))
        self.assertEqual(self.job(high)["state"], "running")
        self.ends_with_its_data("urgent")
        self.becomes(low, "running")
        for tag in ("low", "high"):
            self.ends_with_its_data(tag)


class PressureTest(IdleCase):
    """The guard ends jobs here, but not idle ones."""
    gpus, memory = 1, "1536MiB"
    config = CONFIG + '[guard]\nreserve = "384MiB"\n'

    def test_an_idle_job_leaves_before_others_and_is_not_ended(self):
        note = self.notebook("note", "--size", str(256 * MIB), idle_suspend_s=NEVER, priority=200)
        low = self.notebook("low", "--size", str(256 * MIB), idle_suspend_s=None, priority=1)
        idle = time.monotonic() + FOR_PRESSURE
        until("it has made no call for so long that it counts as idle", lambda: time.monotonic() > idle)
        foreigner = subprocess.Popen([program("gpuman-load"), "--alloc", "300MiB", "--hold", "1h", "--json"], env=self.m.env,
                                     stdout=subprocess.DEVNULL)
        try:
            job = self.goes_away("note")
            self.assertIn("below its reserve", job["reason_detail"])
            self.assertEqual(self.job(low)["state"], "running")
            self.assertTrue(self.told(note, "device_pressure_suspend"))
            self.tell("note", "check")
            self.has_looked(40)
            self.assertEqual(self.job("note")["state"], "suspended", "there is no room for it")
        finally:
            foreigner.kill()
            foreigner.wait()
        self.assertTrue(self.done("note")["right"])
        for tag in ("note", "low"):
            self.ends_with_its_data(tag)


if __name__ == "__main__":
    if not (build_dir() / "lib/libgpuman.so").exists():
        print("libgpuman.so is not built here")
        sys.exit(77)
    unittest.main(verbosity=2)

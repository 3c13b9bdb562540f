#!/usr/bin/env python3
"""Jobs over the socket, with real keepers and a real load, on the simulated driver.

Usage: jobs_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import contextlib
import json
import os
import pathlib
import re
import signal
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from daemon_case import DaemonTest, MIB, PATIENCE, SCHEMA, until  # noqa: E402
from machine import ROOT, UnixConnection  # noqa: E402


class JobsTest(DaemonTest):
    gpus, memory = 2, "4GiB"

    @classmethod
    def prepare(cls):
        cls.kernel_log = cls.m.dir / "kmsg"
        (cls.m.dir / "gpumand.toml").write_text(f'[health]\nkernel_log = "{cls.kernel_log}"\n')

    def kernel_ends(self, *pids, facility=0):
        """Ends the processes, after lines in the kernel's log about them: no process is gone before its line is there."""
        with open(self.kernel_log, "a") as log:
            for pid in pids:
                log.write(f"{8 * facility + 4},1,{time.monotonic_ns() // 1000},-;Out of memory: Killed process {pid} (sleep) "
                          "total-vm:9kB, anon-rss:64172851kB, file-rss:4kB, shmem-rss:0kB, UID:0 pgtables:4kB oom_score_adj:0\n")
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    def test_a_hog_is_ended_at_its_limit_and_its_neighbour_finishes(self):
        neighbour = self.start("neighbour", self.load("64MiB", "--hold", "1s", "--verify"), memory="1GiB", gpus=["0"])
        until("it has begun", lambda: self.job(neighbour)["state"] in ("running", "finished"))
        hog = self.start("hog", self.load("2GiB", "--step", "64MiB", "--interval", "5ms", "--hold", "1h"), memory=512 * MIB,
                         preload=False)
        ended = self.wait("hog")
        self.assertEqual((ended["state"], ended["reason"], ended["signal"]), ("killed", "memory_limit", signal.SIGKILL))
        self.assertIn("512MiB", ended["reason_detail"])
        self.assertGreater(ended["memory"]["peak"], 512 * MIB)
        self.assertEqual(self.wait("neighbour")["state"], "finished", self.log(neighbour))
        kinds = [e["kind"] for e in self.events() if e["job"] == hog]
        self.assertLess(kinds.index("hard_limit"), kinds.index("job_killed"))

    def test_an_order_right_after_the_start_is_done(self):
        for turn in range(5):
            self.start(f"again{turn}", "exec sleep 1000")
            answer = self.request("POST", f"/v1/jobs/again{turn}/restart")
            self.assertEqual(answer.status, 200, answer.body)
            self.assertEqual((answer.json()["state"], answer.json()["restarts"]), ("running", 1))
            self.start(f"free{turn}", "exec sleep 1000")
            answer = self.request("DELETE", f"/v1/jobs/free{turn}?keep_running=1")
            self.assertEqual(answer.status, 200, answer.body)
            os.kill(answer.json()["pid"], signal.SIGKILL)
            self.start(f"off{turn}", "exec sleep 1000")
            answer = self.request("POST", f"/v1/jobs/off{turn}/suspend")
            self.assertNotIn("it is starting", str(answer.body))

    def test_children_that_leave_the_session_count_and_are_ended(self):
        load = self.load("1GiB", "--hold", "1h")
        job = self.start("family", f"setsid {load} & setsid sh -c 'sleep 1000 & exec sleep 1000' & sleep 1000",
                         memory="512MiB", preload=False)
        ended = self.wait("family")
        self.assertEqual(ended["reason"], "memory_limit")
        key, ours = f"GPUMAN_JOB_ID={job}".encode(), str(self.m.dir).encode()  # other daemons have a job of this number
        for process in pathlib.Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                environment = process.read_bytes()
                self.assertFalse(key in environment.split(b"\0") and ours in environment, process)

    def test_a_job_that_is_told_nothing_of_memory_runs_and_reports_its_status(self):
        job = self.start("plain", "echo out; echo err >&2; exit 7")
        ended = self.wait(job)
        self.assertEqual((ended["state"], ended["exit_code"], ended["reason"]), ("failed", 7, "exit_status"))
        self.assertEqual(sorted(self.log(job).split()), ["err", "out"])

    def test_the_journal_names_the_version_of_the_keeper(self):
        job = self.start("dated", "true")
        self.wait(job)
        lines = pathlib.Path(self.m.env["GPUMAN_STATE_DIR"], "jobs", str(job), "journal").read_text().splitlines()
        started = [json.loads(line.split(" ", 1)[1]) for line in lines if '"t":"keeper"' in line]
        version = re.search(r"project\(gpuman VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
        self.assertEqual([record["program"] for record in started], [version])

    def test_environment_umask_and_directory_are_the_callers(self):
        directory = tempfile.mkdtemp()
        request = self.run_request("env", 'echo "$MINE|$GPUMAN_JOB_TAG|$GPUMAN_JOB_ID|$(pwd)|$(umask)|$CUDA_VISIBLE_DEVICES"',
                                   gpus=["1"], umask=0o077)
        request["environment"]["MINE"] = "ä b"
        request["directory"] = directory
        job = self.request("POST", "/v1/jobs", request).json()
        self.assertEqual(self.wait("env")["state"], "finished")
        self.assertEqual(self.log("env").strip(), f"ä b|env|{job['id']}|{directory}|0077|{job['gpus'][0]}")

    def test_a_limit_can_be_changed_and_taken_away_while_the_job_runs(self):
        self.start("grow", self.load("1GiB", "--hold", "1h"), memory="2GiB", soft="1900MiB", preload=False)
        until("it holds memory", lambda: (self.job("grow")["memory"]["used"] or 0) > 900 * MIB)
        self.assertIsNone(self.request("PATCH", "/v1/jobs/grow", {"memory": None, "soft": None}).json()["memory"]["limit"])
        self.assertEqual(self.request("PATCH", "/v1/jobs/grow", {"priority": 7}).json()["priority"], 7)
        self.assertEqual(self.request("PATCH", "/v1/jobs/grow", {"memory": "512MiB"}).status, 200)
        self.assertEqual(self.wait("grow")["reason"], "memory_limit")

    def test_a_soft_limit_warns_and_harms_nobody(self):
        self.start("soft", self.load("512MiB", "--hold", "1h"), soft="256MiB", memory="3GiB")
        until("the event", lambda: any(e["kind"] == "soft_limit" and e["tag"] == "soft" for e in self.events()))
        self.assertEqual(self.job("soft")["state"], "running")
        until("the line in its log", lambda: "soft limit" in self.log("soft"))

    def test_a_job_that_ignores_sigterm_is_removed_all_the_same(self):
        self.start("deaf", "trap '' TERM; echo deaf; while :; do sleep 0.01; done", grace="50ms")
        until("it is deaf", lambda: "deaf" in self.log("deaf"))
        gone = self.request("DELETE", "/v1/jobs/deaf")
        self.assertEqual((gone.status, gone.json()["state"], gone.json()["signal"]), (200, "killed", signal.SIGKILL))
        self.assertEqual(self.request("GET", "/v1/jobs/deaf").code(), "not_found")

    def test_keep_running_lets_go_of_the_process(self):
        self.start("free", "exec sleep 1000")
        pid = self.becomes("free", "running")["pid"]
        self.assertEqual(self.request("DELETE", "/v1/jobs/free?keep_running=1").status, 200)
        self.assertEqual(self.request("GET", "/v1/jobs/free").status, 404)
        os.kill(pid, 0)
        os.kill(pid, signal.SIGKILL)

    def test_restart_runs_it_again(self):
        self.start("again", "echo run")
        self.assertEqual(self.wait("again")["restarts"], 0)
        self.assertEqual(self.request("POST", "/v1/jobs/again/restart").status, 200)
        until("the second run", lambda: self.job("again")["restarts"] == 1)
        self.assertEqual(self.wait("again")["state"], "finished")
        self.assertEqual(self.log("again"), "run\nrun\n")

    def test_restart_tells_of_the_new_run(self):
        self.start("fresh", "exec sleep 1000")
        before = self.becomes("fresh", "running")
        after = self.request("POST", "/v1/jobs/fresh/restart").json()
        self.assertEqual((after["state"], after["restarts"]), ("running", 1))
        self.assertNotIn(after["pid"], (None, before["pid"]))

    def test_restart_with_a_change_that_cannot_be_changes_nothing(self):
        self.start("fixed", "exec sleep 1000", memory="1GiB")
        before = self.becomes("fixed", "running")
        answer = self.request("POST", "/v1/jobs/fixed/restart", {"memory": "1GiB", "soft": "2GiB"})
        self.assertEqual(answer.status, 400, answer.body)
        after = self.job("fixed")
        self.assertEqual((after["pid"], after["memory"]["soft"]), (before["pid"], None))

    def test_a_job_of_run_is_done_again_with_another_limit(self):
        old = self.start("once", "echo run", memory="1GiB")
        self.wait(old)
        answer = self.request("POST", f"/v1/jobs/{old}/redo", {"changes": {"memory": "2GiB"}})
        self.assertEqual(answer.status, 201, answer.body)
        again = self.wait(answer.json()["jobs"][0]["id"])
        self.assertNotEqual(again["id"], old)
        self.assertEqual((again["tag"], again["state"], again["memory"]["limit"]), ("once", "finished", 2048 * MIB))
        self.assertEqual(self.log(again["id"]), "run\n")
        refused = self.request("POST", f"/v1/jobs/{old}/redo", {"changes": {"queue": {"cpus": 2}}})
        self.assertEqual(refused.status, 400, refused.body)

    def test_of_those_that_have_ended_the_last_to_end_are_shown(self):
        first = self.start("old", "true")
        self.wait(first)
        for i in range(25):
            self.start(f"later-{i}", "true")
            self.wait(f"later-{i}")
        shown = lambda: [job["id"] for job in self.request("GET", "/v1/status").json()["jobs"]]  # noqa: E731
        self.assertNotIn(first, shown())
        self.assertGreaterEqual(self.request("GET", "/v1/status").json()["ended_left_out"], 6)
        self.request("POST", f"/v1/jobs/{first}/restart")
        self.wait(first)
        self.assertIn(first, shown(), "it ended last, whatever its number")

    def test_commands_that_cannot_run_say_why(self):
        nowhere = self.run_request("a", "")
        nowhere["command"] = ["no-such-command-anywhere"]
        self.request("POST", "/v1/jobs", nowhere)
        ended = self.wait("a")
        self.assertEqual((ended["state"], ended["reason"], ended["exit_code"]), ("failed", "command_not_found", 127))
        self.assertIn("no-such-command-anywhere", ended["reason_detail"])
        nowhere["tag"], nowhere["command"] = "b", ["/etc/passwd"]
        self.request("POST", "/v1/jobs", nowhere)
        self.assertEqual((self.wait("b")["reason"], self.wait("b")["exit_code"]), ("command_not_executable", 126))
        nowhere["tag"], nowhere["command"], nowhere["directory"] = "c", ["true"], "/no/such/directory"
        self.request("POST", "/v1/jobs", nowhere)
        self.assertEqual(self.wait("c")["reason"], "directory_unusable")

    def test_a_long_log_waits_for_a_client_that_takes_its_time(self):
        self.start("long", "head -c 32M /dev/zero | tr '\\0' x")
        self.wait("long")
        with contextlib.closing(UnixConnection(self.m.env["GPUMAN_SOCKET"], timeout=PATIENCE)) as connection:
            connection.request("GET", "/v1/jobs/long/log")
            answer = connection.getresponse()
            time.sleep(0.5)  # time for the daemon to send what the client does not read
            self.assertEqual(len(answer.read()), 32 * MIB)

    def test_the_log_is_followed_to_the_end_of_the_job(self):
        with tempfile.TemporaryDirectory() as directory:
            go = pathlib.Path(directory) / "go"
            self.start("talk", f"echo one; until [ -e {go} ]; do sleep 0.01; done; echo two; echo three")
            connection = UnixConnection(self.m.env["GPUMAN_SOCKET"], timeout=PATIENCE)
            with contextlib.closing(connection):
                connection.request("GET", "/v1/jobs/talk/log?follow=1")
                answer = connection.getresponse()
                self.assertEqual(answer.readline(), b"one\n")
                go.touch()
                self.assertEqual(answer.read(), b"two\nthree\n")
        self.assertEqual(self.log("talk", "?tail=1"), "three\n")
        self.assertEqual(self.log("talk", "?offset=4"), "two\nthree\n")
        self.assertEqual(self.log("talk", "?offset=14"), "")
        self.assertEqual(self.log("talk", "?offset=15"), "one\ntwo\nthree\n", "it has taken the place of a longer one")

    def test_events_are_followed_as_they_happen(self):
        connection = UnixConnection(self.m.env["GPUMAN_SOCKET"], timeout=PATIENCE)
        with contextlib.closing(connection):
            connection.request("GET", "/v1/events?follow=1")
            answer = connection.getresponse()
            self.assertEqual(answer.getheader("Content-Type"), "text/event-stream")
            job = self.start("short", "true")
            kinds = []
            while "job_finished" not in kinds:
                line = answer.readline().decode()
                self.assertTrue(line)
                if line.startswith("data: "):
                    event = json.loads(line.removeprefix("data: "))
                    SCHEMA.check({"$ref": "#/components/schemas/Event"}, event)
                    if event["job"] == job:
                        kinds.append(event["kind"])
        self.assertEqual(kinds, ["job_started", "job_finished"])

    def test_a_killed_daemon_loses_nothing(self):
        self.start("lives", self.load("128MiB", "--hold", "1h"), memory="1GiB", preload=False)
        pid = self.becomes("lives", "running")["pid"]
        until("it holds memory", lambda: self.job("lives")["memory"]["used"])
        go = self.m.dir / "ends.go"
        self.start("ends", f"until [ -e {go} ]; do sleep 0.01; done; exit 9")
        ends = self.becomes("ends", "running")["pid"]
        self.m.stop_daemon(signal.SIGKILL)
        go.touch()
        until("it ended while nobody looked", lambda: not pathlib.Path(f"/proc/{ends}").exists())
        self.m.start_daemon()
        self.assertEqual((self.job("lives")["state"], self.job("lives")["pid"]), ("running", pid))
        self.assertEqual(self.wait("ends")["exit_code"], 9)
        until("it is seen on the GPU again", lambda: self.job("lives")["memory"]["used"])
        self.request("PATCH", "/v1/jobs/lives", {"memory": "64MiB"})
        self.assertEqual(self.wait("lives")["reason"], "memory_limit")

    def test_a_killed_command_shows_its_signal(self):
        self.start("shot", "exec sleep 1000")
        os.kill(self.becomes("shot", "running")["pid"], signal.SIGKILL)
        ended = self.wait("shot")
        self.assertEqual((ended["state"], ended["reason"], ended["signal"], ended["exit_code"]),
                         ("failed", "signal", signal.SIGKILL, None))

    def test_a_command_that_the_kernel_ended_for_host_memory_says_so(self):
        for tag in ("fat", "shot", "forged"):
            self.start(tag, "exec sleep 1000")
        pids = {tag: self.becomes(tag, "running")["pid"] for tag in ("fat", "shot", "forged")}
        self.kernel_ends(pids["fat"])
        self.kernel_ends(pids["forged"], facility=1)  # a program wrote that
        os.kill(pids["shot"], signal.SIGKILL)
        ended = self.wait("fat")
        self.assertEqual((ended["state"], ended["reason"], ended["signal"]), ("failed", "host_memory", signal.SIGKILL))
        self.assertIn(f"process {pids['fat']} (sleep), which had 61.2GiB, because the machine had no memory left", ended["reason_detail"])
        self.assertEqual([self.wait(tag)["reason"] for tag in ("shot", "forged")], ["signal", "signal"])

    def test_a_daemon_that_was_away_finds_out_that_the_kernel_ended_a_command(self):
        self.start("fat", "exec sleep 1000")
        pid = self.becomes("fat", "running")["pid"]
        self.m.stop_daemon(signal.SIGKILL)
        self.kernel_ends(pid)
        until("it ended while nobody looked", lambda: not pathlib.Path(f"/proc/{pid}").exists())
        self.m.start_daemon()
        self.assertEqual(self.wait("fat")["reason"], "host_memory")

    def test_a_killed_command_line_leaves_its_job_alone(self):
        with tempfile.TemporaryDirectory() as directory:
            go = pathlib.Path(directory) / "go"
            waiting = self.m.popen("run", "--tag", "left", "--wait", "--", "sh", "-c",
                                   f"until [ -e {go} ]; do sleep 0.01; done; exit 9", stdout=-3, stderr=-3)
            until("it runs", lambda: self.request("GET", "/v1/jobs/left").json().get("state") == "running")
            waiting.kill()
            waiting.wait()
            go.touch()
            self.assertEqual(self.wait("left")["exit_code"], 9)

    def test_a_killed_keeper_is_noticed_and_its_processes_ended(self):
        self.start("orphan", self.load("64MiB", "--hold", "1h"))
        pid = self.becomes("orphan", "running")["pid"]
        keeper = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
        os.kill(keeper, signal.SIGKILL)
        ended = self.wait("orphan")
        self.assertEqual((ended["state"], ended["reason"], ended["exit_code"]), ("failed", "keeper_lost", None))
        until("its process is gone", lambda: not pathlib.Path(f"/proc/{pid}").exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)

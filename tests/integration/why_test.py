#!/usr/bin/env python3
"""`gpuman why`: of 200 jobs that end in fourteen ways the cause is named right, on the simulated driver.

Usage: why_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import contextlib
from datetime import datetime, timezone
import fcntl
import json
import os
import pathlib
import pty
import re
import signal
import sqlite3
import struct
import subprocess
import sys
import termios
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from daemon_case import DaemonTest, MIB, until  # noqa: E402
from machine import program  # noqa: E402
from share_test import learn_what_a_context_takes  # noqa: E402

PROGRAM = pathlib.Path(__file__).with_name("unused_pool_program.py")


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


class WhyCase(DaemonTest):
    def why(self, job):
        answer = self.request("GET", f"/v1/jobs/{job}/why")
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json()

    def texts(self, job):
        return [line["text"] for line in self.why(job)["story"]]

    def submissions(self, jobs):
        environment = {"PATH": os.environ["PATH"]}
        environment.update({k: v for k, v in self.m.env.items() if k.startswith("GPUMAN_SIM") or k == "LD_LIBRARY_PATH"})
        answer = self.request("POST", "/v1/submissions", {"jobs": jobs, "directory": "/", "environment": environment})
        self.assertEqual(answer.status, 201, answer.body)
        return [job["id"] for job in answer.json()["jobs"]]

    def shells(self, script, count, gpus=0, **more):
        return self.submissions([{"command": ["/bin/sh", "-c", script], "gpus": {"count": gpus}, **more} for _ in range(count)])

    def ends(self, jobs, cause):
        """All of these jobs have ended for this cause, and say so in a sentence."""
        for job in jobs:
            ended = self.wait(job)
            story = self.why(job)
            self.assertEqual(story["cause"], cause, (story, ended))
            self.assertEqual(story["state"], ended["state"])
            self.assertGreater(len(story["because"]), 10, story)
            times = [line["at"] for line in story["story"]]
            self.assertEqual(times, sorted(times), story)
            self.assertLessEqual(len(times), 15)
        self.told[cause] = self.told.get(cause, 0) + len(jobs)


class Causes(WhyCase):
    gpus, memory = 2, "4GiB"

    @classmethod
    def prepare(cls):
        cls.kernel_log = cls.m.dir / "kmsg"
        cls.settings = f'[sampling]\nrest = "20ms"\n[health]\nkernel_log = "{cls.kernel_log}"\n'
        (cls.m.dir / "gpumand.toml").write_text(cls.settings)

    def test_causes_of_200_ended_jobs_are_named_right(self):
        self.told = {}
        for many in (self.many_at_once, self.refused, self.guarded, self.pressed, self.starved, self.faulty, self.orphaned, self.restarted):
            many()
        self.assertEqual((sum(self.told.values()), len(self.told)), (200, 14), self.told)

    def many_at_once(self):
        self.ends(self.shells("exit 3", 32), "exit_status")
        self.ends(self.shells("kill -SEGV $$", 25), "signal")
        self.ends(self.shells("exit 0", 20), "finished")
        self.ends(self.submissions([{"command": ["/nowhere/to/be/found"], "gpus": {"count": 0}}] * 20), "never_started")
        self.ends(self.shells("exec sleep 1000", 10, time_limit_s=0.3), "time_limit")
        bad, = self.shells("exit 1", 1)
        self.wait(bad)
        after = {"list": [{"kind": "afterok", "job": str(bad)}]}
        self.ends(self.shells("true", 20, depends=after), "dependency")
        for jobs in (self.shells("true", 15, hold=True), self.shells("exec sleep 1000", 15)):
            for job in jobs:
                self.assertEqual(self.request("POST", f"/v1/jobs/{job}/cancel").status, 200)
            self.ends(jobs, "cancelled")

    def refused(self):
        jobs = [self.start(f"hog{i}", self.load("2GiB", "--step", "256MiB"), memory="1GiB") for i in range(10)]
        self.ends(jobs, "memory_refused")
        story = self.why(jobs[0])
        self.assertRegex(story["because"], r"256MiB was refused at its limit of 1GiB on GPU [01].*; it ended with exit status 3 ")
        self.assertRegex(" ".join(story["advice"]), r"gpuman restart hog0 --memory SIZE")
        self.assertIn("had used at most", " ".join(self.texts(jobs[0])))

    def guarded(self):
        load = self.load("1GiB", "--step", "64MiB", "--interval", "5ms", "--hold", "1h")
        self.ends([self.start(f"over{i}", load, memory="256MiB", preload=False) for i in range(4)], "memory_limit")

    def pressed(self):
        """A process outside gpuman takes what was left of a GPU that has a reserve."""
        self.reserve("384MiB")
        for number in range(4):
            job = self.start(f"fills{number}", self.load("1GiB", "--hold", "1h", "--json"), gpus=["1"])
            until("it holds memory", lambda number=number: '"alloc"' in self.log(f"fills{number}"))
            stranger = subprocess.Popen([program("gpuman-load"), "--device", "1", "--alloc", "2400MiB", "--hold", "1h"], env=self.m.env,
                                        stdout=subprocess.DEVNULL)
            try:
                self.ends([job], "device_pressure")
            finally:
                stranger.kill()
                stranger.wait()
            self.assertRegex(self.why(job)["because"], "GPU 1 had .* free, below its reserve of 384MiB")
            until("the stranger is gone", lambda: not self.request("GET", "/v1/gpus/1").json()["processes"])
        self.reserve(None)

    def reserve(self, size):
        """The daemon reads its file again, with this reserve of each GPU."""
        log = self.m.dir / "daemon.log"
        read = log.read_text().count("configuration read again")
        (self.m.dir / "gpumand.toml").write_text(self.settings + (f'[guard]\nreserve = "{size}"\n' if size else ""))
        self.m.daemon.send_signal(signal.SIGHUP)
        until("it is read", lambda: log.read_text().count("configuration read again") > read)

    def starved(self):
        jobs = [self.start(f"fat{i}", "exec sleep 1000") for i in range(4)]
        pids = [self.becomes(job, "running")["pid"] for job in jobs]
        with open(self.kernel_log, "a") as log:
            for pid in pids:
                log.write(f"4,1,{time.monotonic_ns() // 1000},-;Out of memory: Killed process {pid} (sleep) total-vm:9kB, "
                          "anon-rss:8kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:4kB oom_score_adj:0\n")
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        self.ends(jobs, "host_memory")

    def faulty(self):
        jobs = [self.start(f"broken{i}", "until [ -e %s ]; do sleep 0.02; done; exit 9" % (self.m.dir / "end"), gpus=["1"])
                for i in range(6)]
        for job in jobs:
            self.becomes(job, "running")
        self.inject("lost", "--gpu", "1")
        until("it is told", lambda: any(event["kind"] == "gpu_fault" for event in self.events()))
        (self.m.dir / "end").touch()
        self.ends(jobs, "gpu_fault")
        self.inject("clear", "--gpu", "1")
        until("it is well", lambda: all(gpu["health"]["state"] == "healthy" for gpu in
                                        self.request("GET", "/v1/health").json()["gpus"]))
        later = self.start("later", "exit 9", gpus=["1"])
        self.wait(later)
        self.assertEqual(self.why(later)["cause"], "exit_status", "the fault was before it")

    def keeper_of(self, job):
        pid = self.becomes(job, "running")["pid"]
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])

    def orphaned(self):
        jobs = [self.start(f"orphan{i}", "exec sleep 1000") for i in range(5)]
        for job in jobs:
            os.kill(self.keeper_of(job), signal.SIGKILL)
        self.ends(jobs, "keeper_lost")

    def restarted(self):
        """As after a power cut: neither daemon nor keepers are there, and the machine has started another time."""
        jobs = [self.start(f"cut{i}", "exec sleep 1000") for i in range(10)]
        keepers = [self.keeper_of(job) for job in jobs]
        self.m.stop_daemon(signal.SIGKILL)
        for keeper in keepers:
            os.kill(keeper, signal.SIGKILL)
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        state, another = pathlib.Path(self.m.env["GPUMAN_STATE_DIR"]), boot[::-1]
        with contextlib.closing(sqlite3.connect(state / "gpuman.db")) as database:
            database.execute("UPDATE jobs SET record = replace(record, ?, ?)", (boot, another))
            database.commit()
        for job in jobs:
            journal = state / "jobs" / str(job) / "journal"
            records = [line.split(" ", 1)[1].replace(boot, another) for line in journal.read_text().splitlines()]
            journal.write_text("".join(f"{crc32c(record.encode()):08x} {record}\n" for record in records))
        self.m.start_daemon()
        self.ends(jobs, "machine_restarted")


class OfTwoGpus(WhyCase):
    gpus, memory = 2, "4GiB"

    def test_a_job_that_waits_for_processors_names_nobody_who_has_a_gpu(self):
        processors = len(os.sched_getaffinity(0))
        holder, = self.shells("exec sleep 1000", 1, gpus=1, cpus=processors)
        self.becomes(holder, "running")
        waits, = self.shells("exit 0", 1, gpus=1, cpus=1)
        story = until("it waits", lambda: (story := self.why(waits))["because"].find("processor") >= 0 and story)
        self.assertNotIn("is held by", story["because"])
        also, = self.shells("exit 0", 1, gpus=2)
        until("both GPUs are not there", lambda: f"GPU 0 is held by job {holder}" in self.why(also)["because"])
        self.assertEqual(self.request("POST", f"/v1/jobs/{holder}/cancel").status, 200)
        for job in (waits, also):
            self.wait(job)


class BehindOthers(WhyCase):
    gpus, memory, config = 2, "4GiB", '[queue]\npatience = "0s"\n'

    def test_a_job_for_which_others_come_first_names_them(self):
        holder, = self.shells("exec sleep 1000", 1, gpus=1, time_limit_s=3600)
        self.becomes(holder, "running")
        wide, = self.shells("exit 0", 1, gpus=2, name="wide")
        waits, = self.shells("exit 0", 1, gpus=1)
        story = until("it waits for the one in front", lambda: self.job(waits)["reason"] == "priority" and self.why(waits), lambda: self.job(waits))
        self.assertRegex(story["because"], rf"; job {wide} 'wide' \(root\) comes first$")
        self.assertNotIn("is held by", story["because"])
        self.assertNotIn("first", self.why(wide)["because"])
        self.assertEqual(self.request("POST", f"/v1/jobs/{holder}/cancel").status, 200)
        for job in (wide, waits):
            self.wait(job)


class Stories(WhyCase):
    gpus, memory, config = 1, "1536MiB", '[sampling]\nrest = "20ms"\n[guard]\nreserve = "384MiB"\n'

    def test_of_a_job_that_waited_names_who_had_the_gpu(self):
        self.told = {}
        holder, = self.shells("until [ -e %s ]; do sleep 0.02; done" % (self.m.dir / "go"), 1, gpus=1, name="long")
        self.becomes(holder, "running")
        waits, = self.shells("exit 4", 1, gpus=1)
        story = until("it waits", lambda: (story := self.why(waits))["because"].find("GPU") >= 0 and story)
        self.assertRegex(story["because"], rf"GPU 0 is held by job {holder} 'long' \(root\) since 2\d\d\d-\d\d-\d\dT[\d:.]+Z$")
        self.assertRegex(self.m.run("why", str(waits)).stdout,
                         rf"; GPU 0 is held by job {holder} 'long' \(root\) since 2\d\d\d-\d\d-\d\d \d\d:\d\d:\d\d\n")
        self.assertEqual((story["cause"], story["state"]), ("waits", "queued"))
        until("it has waited for more than a second", lambda: self.has_waited(waits, 1.2))
        (self.m.dir / "go").touch()
        self.ends([waits], "exit_status")
        self.assertRegex("\n".join(self.texts(waits)), rf"had waited .*; until then root had GPU 0 \(job {holder}, long\)")
        shown = self.m.run("why", str(waits)).stdout
        self.assertRegex(shown, rf"(?s)^job {waits} '.*' has ended: failed \(exit_status\)\n  ended with exit status 4\n.*"
                                rf"submitted by root.*started on GPU 0.*What to do:\n  `gpuman logs")
        self.assertEqual(json.loads(self.m.run("why", "--json", str(waits)).stdout)["cause"], "exit_status")

    def test_of_a_job_that_waits_for_a_gpu_which_a_stranger_uses_names_his_process(self):
        stranger = subprocess.Popen([program("gpuman-load"), "--alloc", "512MiB", "--hold", "1h"], env=self.m.env)
        try:
            waits = None

            def named():
                nonlocal waits
                if waits is None or self.job(waits)["state"] != "queued":  # it came before the process was seen
                    waits, = self.shells("exec sleep 1000", 1, gpus=1)
                return f"GPU 0 is held by pid {stranger.pid} (gpuman-load" in self.why(waits)["because"]
            until("the process is named", named, lambda: self.why(waits))
        finally:
            stranger.kill()
            stranger.wait()

    def test_of_a_job_that_waits_for_its_turn_says_so_and_who_has_it(self):
        # Room for both contexts and for the memory of one.
        self.assertEqual(self.request("PUT", "/v1/share", {"capacity": "500MiB", "pause": True}).status, 200)
        self.addCleanup(self.request, "PUT", "/v1/share", {"pause": False})
        load = "exec " + self.load("256MiB", "--verify", "--kernel-time", "1ms", "--hold", "1h")
        ids = {tag: self.start(tag, load, share=True) for tag in ("one", "two")}

        def waits(tag):
            other = "two" if tag == "one" else "one"
            return (story := self.why(ids[tag]))["because"].endswith(f"; job {ids[other]} '{other}' (root) has it") and story
        story = until("one of them waits", lambda: waits("one") or waits("two"), self.what_stands)
        self.assertEqual((story["cause"], story["state"]), ("runs", "running"))
        self.assertRegex(story["because"], r"^it waits for (its turn|room) on GPU 0 since 2.*Z; ")
        self.assertIn("gpuman share status", story["advice"][0])

    def has_waited(self, job, seconds):
        since = datetime.fromisoformat(self.job(job)["submitted_at"].replace("Z", "+00:00"))
        return (datetime.now(timezone.utc) - since).total_seconds() > seconds

    def test_story_of_job_that_made_room_names_the_pressure(self):
        self.told = {}
        low = self.start("low", self.load("512MiB", "--hold", "1h", "--json"), priority=10)
        until("it holds memory", lambda: '"alloc"' in self.log("low"))
        # It fits, and passes the reserve, whether or not a mover of a job before has its context still.
        other = subprocess.Popen([program("gpuman-load"), "--alloc", "256MiB", "--hold", "1h"], env=self.m.env)
        try:
            self.ends([low], "device_pressure")
        finally:
            other.kill()
            other.wait()
        self.assertRegex(self.why(low)["because"], "below its reserve of 384MiB")

    def test_story_of_running_and_of_suspended_job_has_its_state(self):
        job = self.start("runs", self.load("256MiB", "--hold", "1h", "--json"), share=True)
        until("it holds memory", lambda: '"alloc"' in self.log("runs"))
        self.assertEqual((self.why(job)["cause"], self.why(job)["state"]), ("runs", "running"))
        self.assertEqual(self.request("POST", f"/v1/jobs/{job}/suspend").status, 200)
        story = self.why(job)
        self.assertEqual((story["cause"], story["state"]), ("suspended", "suspended"))
        self.assertIn("in host memory", story["because"])
        self.assertRegex("\n".join(self.texts(job)), "suspended: .*in host memory")
        self.assertEqual(self.request("POST", f"/v1/jobs/{job}/resume").status, 200)
        self.assertRegex("\n".join(self.texts(job)), "resumed: ")

    def test_of_a_job_with_retries_has_each_run_and_why_it_ran_again(self):
        self.told = {}
        job = self.m.run_json("submit", "--retries", "1", "--", "/bin/sh", "-c", "exit 7")["id"]
        self.ends([job], "exit_status")
        texts = self.texts(job)
        self.assertEqual([re.sub(r"\d+$", "PID", text) if "process" in text else text for text in texts if "waited" not in text],
                         ["submitted by root: /bin/sh", "started as process PID", "requeued: ended with exit status 7; retry 1 of 1",
                          "started again as process PID", "failed: ended with exit status 7"])
        self.assertEqual(len({text.split()[-1] for text in texts if "as process" in text}), 2, "two runs")
        shown = self.m.run("why", str(job)).stdout
        self.assertRegex(shown, r"(?s)has ended: failed \(exit_status\)\n  ended with exit status 7\n.*started as process.*requeued: ended with "
                                r"exit status 7; retry 1 of 1\n.*started again as process.*failed: ended")

    def test_of_a_job_that_was_refused_memory_names_what_a_pool_keeps_for_nothing(self):
        """The pool is the smallest of four parts."""
        self.told = {}
        learn_what_a_context_takes(self.m)
        job = self.start("pool", f"exec {sys.executable} {PROGRAM}", gpus=["0"], memory="900MiB")
        self.ends([job], "memory_refused")
        refusal, story = self.job(job)["refusal"], self.why(job)
        parts = refusal["parts"]
        self.assertEqual([parts["allocations"], parts["virtual_memory"], parts["pools"], refusal["pools_unused"]],
                         [200 * MIB, 150 * MIB, 32 * MIB, 30 * MIB])
        self.assertGreater(parts["contexts"] + parts["uncounted"], parts["pools"], "else this tests nothing")
        self.assertRegex(story["because"], r"^512MiB was refused at its limit of 900MiB on GPU 0, of which it used \S+ \(200MiB in allocations, "
                                           r"150MiB in virtual memory, \S+ in contexts and code, 32MiB in pools, 30MiB of them unused\)")
        self.assertIn("30MiB of them unused", " ".join(self.m.run("why", str(job)).stdout.split()))

    def test_unknown_job_is_refused(self):
        answer = self.request("GET", "/v1/jobs/nobody/why")
        self.assertEqual((answer.status, answer.code()), (404, "not_found"))
        shown = self.m.run("why", "nobody")
        self.assertNotEqual(shown.returncode, 0)

    def test_story_spans_restarts_of_daemon_and_job(self):
        job = self.start("again", "exit 5")
        self.wait(job)
        self.m.stop_daemon()
        self.m.start_daemon()
        self.assertEqual(self.request("POST", f"/v1/jobs/{job}/restart").status, 200)
        self.wait(job)
        texts = self.texts(job)
        times = [line["at"] for line in self.why(job)["story"]]
        self.assertEqual(times, sorted(times))
        self.assertEqual(sum(text.startswith("failed: ended with exit status 5") for text in texts), 2, texts)


class LongStory(WhyCase):
    gpus, memory = 1, "1536MiB"

    def on_a_terminal(self, *words):
        """The lines that a terminal of 80 columns shows."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        subprocess.run([program("gpuman"), *words], env={**self.m.env, "NO_COLOR": "1", "TERM": "xterm"}, stdout=slave, check=True)
        shown = os.read(master, 65536).decode()
        os.close(slave)
        os.close(master)
        return shown.replace("\r", "").splitlines()

    def test_of_a_job_on_which_much_happened_is_one_screen(self):
        goes_on = self.m.dir / "goes_on"
        much = self.start("much", f"if [ -e {goes_on} ]; then exec {self.load('128MiB', '--hold', '1h', '--json')}; fi; "
                                  f"exec {self.load('1GiB', '--step', '128MiB')}", share=True, memory="512MiB")
        self.wait(much)
        for _ in range(3):
            self.assertEqual(self.request("POST", f"/v1/jobs/{much}/restart").status, 200)
            self.wait(much)
        refused = self.why(much)
        self.assertEqual(refused["cause"], "memory_refused")
        self.assertLessEqual(len(self.on_a_terminal("why", str(much))), 23)
        goes_on.touch()
        self.assertEqual(self.request("POST", f"/v1/jobs/{much}/restart").status, 200)
        until("it holds memory", lambda: '"alloc"' in self.log("much"))
        for _ in range(8):
            for order in ("suspend", "resume"):
                self.assertEqual(self.request("POST", f"/v1/jobs/{much}/{order}").status, 200)
        story = self.why(much)
        self.assertLessEqual(len(story["story"]), 15)
        self.assertTrue(any(line["text"].startswith("suspended") and (line["times"] > 1 or "more of this kind" in line["text"])
                            for line in story["story"]), story)
        self.assertEqual(story["left_out"], 0, story)
        lines = self.on_a_terminal("why", str(much))
        self.assertLessEqual(len(lines), 23, lines)
        for line in lines:
            self.assertLessEqual(len(line), 80, line)
        self.assertIn(f"job {much} 'much' is running", lines[0])


if __name__ == "__main__":
    unittest.main(verbosity=2)

#!/usr/bin/env python3
"""The limit holds where memory is allocated: the daemon, its ledgers and libgpuman.so together, on the simulated
driver.

Usage: allocation_limits_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import json
import os
import pathlib
import re
import signal
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from daemon_case import MIB, DaemonTest, until  # noqa: E402
from machine import build_dir, has_ended  # noqa: E402

PROBE = str(pathlib.Path(__file__).resolve().parents[1] / "shim" / "probe.py")


class FirstJobTest(DaemonTest):
    """It is not known yet what a context takes (104 MiB here), and the daemon looks every 100 ms."""

    memory = "4GiB"

    def test_the_first_context_on_a_machine_counts_before_the_first_allocation(self):
        self.start("first", self.load("448MiB", "--hold", "1h", "--json"), memory="512MiB")
        self.assertEqual(self.wait("first")["state"], "failed")
        self.assertIn('"event":"oom"', self.log("first"))


class FirstJobThatAllocatesOnAndOnTest(DaemonTest):
    memory = "4GiB"

    def test_the_first_job_on_a_machine_has_its_limit_to_the_byte(self):
        """The driver's figure is older than the ledger's while a program allocates."""
        self.start("first", self.load("1GiB", "--step", "2MiB", "--json"), memory="512MiB")
        self.assertEqual(self.wait("first")["state"], "failed")
        self.assertEqual(self.job("first")["memory"]["peak"], 512 * MIB)


class AllocationLimitsTest(DaemonTest):
    gpus, memory = 2, "4GiB"
    config = """
[sampling]
rest = "20ms"
[guard]
lowered_patience = "300ms"
"""

    def events_of(self, ref):
        """The output of the loads of a job."""
        return [json.loads(line) for line in self.log(ref).splitlines() if line.startswith("{")]

    def kinds(self, job):
        return [event["kind"] for event in self.events() if event["job"] == job]

    def held(self, tag, size, **more):
        job = self.start(tag, self.load(size, "--hold", "1h", "--json"), **more)
        until("it holds memory", lambda: any(e["event"] == "alloc" for e in self.events_of(tag)))
        return job

    def test_a_program_is_refused_what_would_pass_the_limit_and_lives(self):
        neighbour = self.start("neighbour", self.load("64MiB", "--hold", "1s", "--verify"), memory="1GiB")
        greedy = self.start("greedy", self.load("2GiB", "--step", "64MiB", "--json") + "; echo still here", memory="512MiB")
        self.assertEqual(self.wait("greedy")["state"], "finished")
        self.assertIn("still here", self.log("greedy"))
        self.assertIn("oom", [event["event"] for event in self.events_of("greedy")])
        self.assertNotIn("hard_limit", self.kinds(greedy))
        self.assertLessEqual(self.job("greedy")["memory"]["peak"] or 0, 512 * MIB)
        self.assertEqual(self.wait(neighbour)["state"], "finished")

    def test_refusals_are_counted_for_monitoring(self):
        def counted(tag):
            return self.metric("gpuman_job_refused_allocations_total", tag=tag)

        too_much = self.load("2GiB", "--step", "64MiB")
        self.start("refused", f"{too_much}; {too_much}; exec {self.load('8MiB', '--hold', '1h')}", memory="512MiB")
        self.start("never", self.load("8MiB", "--hold", "1h"), memory="512MiB")
        until("two were refused", lambda: counted("refused") >= 2)
        until("the job tells the same", lambda: self.job("refused")["refusal"]["count"] == counted("refused"))
        until("the other has none", lambda: 'refused_allocations_total{' in (text := self.request(
            "GET", "/metrics").body.decode()) and re.search(r'refused_allocations_total{[^}]*tag="never"[^}]*} 0\n', text))

    def test_every_process_of_a_job_draws_on_the_same_limit(self):
        load = self.load("1GiB", "--step", "32MiB", "--hold", "1h", "--json")
        job = self.start("family", f"{load} & setsid {load} & {load} & wait", memory="768MiB")
        # A process that starts late finds no room even for its context.
        until("all are refused more", lambda: len({event["pid"] for event in self.events_of("family")
                                                   if event["event"] in ("oom", "error")}) == 3)
        self.assertTrue(any(event["event"] == "oom" for event in self.events_of("family")))
        self.assertNotIn("hard_limit", self.kinds(job))

    def test_two_jobs_that_fight_for_a_device_are_refused_by_it_and_none_is_ended(self):
        gpu = self.request("GET", "/v1/gpus").json()["gpus"][0]["uuid"]
        first = self.held("first-there", "2GiB", memory="3GiB", gpus=[gpu])
        second = self.start("second-there", self.load("2GiB", "--step", "64MiB", "--json") + "; echo still here",
                            memory="3GiB", gpus=[gpu])
        self.assertEqual(self.wait(second)["state"], "finished", self.log(second))
        self.assertIn("oom", [event["event"] for event in self.events_of(second)])
        self.assertIn("still here", self.log(second))
        self.assertEqual(self.job(first)["state"], "running")
        self.assertNotIn("hard_limit", self.kinds(first) + self.kinds(second))

    def test_a_shim_of_another_version_is_told_so_and_its_process_named(self):
        ask = ("import os,socket,struct\n"
               "for version in (1, 99):\n"
               "  s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
               "  s.connect(os.environ['GPUMAN_SHIM_SOCKET'])\n"
               "  s.send(b'GPMH' + struct.pack('<IQ112x', version, int(os.environ['GPUMAN_JOB_ID'])))\n"
               "  print(struct.unpack('<IIII', s.recv(100)[:16])[1:3], flush=True)\n")
        with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
            script.write(ask)
            script.flush()
            self.start("other", f"{sys.executable} {script.name}; env -u LD_PRELOAD {self.load('64MiB', '--hold', '1h')}",
                       memory="1GiB")
            until("it is named", lambda: self.job("other")["unshimmed"])
            self.assertEqual(self.kinds(self.job("other")["id"]).count("shim_other_version"), 1)
        # The daemon's own version, and the answer "another version".
        answers = [line for line in self.log("other").splitlines() if line.startswith("(")]
        self.assertEqual(len(answers), 2)
        self.assertEqual(answers[0], answers[1])
        self.assertRegex(answers[0], r"^\((?!1,|99,)[1-9][0-9]*, 3\)$")

    def test_the_program_is_told_its_limit(self):
        self.start("told", f"{sys.executable} {PROBE} told", memory="512MiB")
        self.assertEqual(self.wait("told")["state"], "finished", self.log("told"))
        self.assertEqual(json.loads(self.log("told").splitlines()[-1])["total"], 512 * MIB)

    def test_a_limit_that_grows_lets_a_running_job_have_more(self):
        with tempfile.TemporaryDirectory() as directory:
            go = pathlib.Path(directory) / "go"
            self.start("grows", f"{self.load('1GiB', '--json')}; until [ -e {go} ]; do sleep 0.01; done; "
                                f"{self.load('1GiB', '--json')}", memory="512MiB")
            until("it is refused", lambda: any(e["event"] == "oom" for e in self.events_of("grows")))
            self.assertEqual(self.request("PATCH", "/v1/jobs/grows", {"memory": "3GiB"}).status, 200)
            go.touch()
            self.assertEqual(self.wait("grows")["state"], "finished", self.log("grows"))

    def test_a_limit_that_is_lowered_warns_before_it_ends_the_job(self):
        job = self.held("lowered", "1GiB", memory="2GiB")
        until("its use is known", lambda: (self.job("lowered")["memory"]["used"] or 0) >= 1024 * MIB)
        notes = self.request("PATCH", "/v1/jobs/lowered", {"memory": "256MiB"}).json()["notes"]
        self.assertIn("limit of 256MiB: it is ended unless it gives memory back within 300ms", " ".join(notes))
        self.assertEqual(self.wait("lowered")["reason"], "memory_limit")
        kinds = self.kinds(job)
        self.assertLess(kinds.index("over_limit"), kinds.index("hard_limit"))

    def test_processes_that_do_not_count_are_named(self):
        without = self.load("64MiB", "--hold", "1h", "--json")
        self.held("counts", "64MiB", memory="1GiB")
        self.start("half", f"env -u LD_PRELOAD {without} & wait", memory="1GiB")
        pids = until("it is named", lambda: self.job("half")["unshimmed"])
        self.assertEqual(pathlib.Path(f"/proc/{pids[0]}/comm").read_text().strip(), "gpuman-load")
        until("who counts is not", lambda: self.job("counts")["memory"]["used"] and self.job("counts")["unshimmed"] == [])
        self.start("plain", without, memory="1GiB", preload=False)
        self.assertIsNone(self.becomes("plain", "running")["unshimmed"], "nobody is asked to count")

    def test_uncounted_memory_takes_from_the_limit(self):
        self.start("mixed", f"env -u LD_PRELOAD {self.load('512MiB', '--hold', '1h', '--json')} & wait", memory="1GiB")
        until("the guard sees it", lambda: (self.job("mixed")["memory"]["used"] or 0) >= 512 * MIB)
        self.assertEqual(self.job("mixed")["state"], "running")

    def test_a_daemon_that_comes_back_finds_the_ledger(self):
        with tempfile.TemporaryDirectory() as directory:
            go = pathlib.Path(directory) / "go"
            self.start("stays", f"{self.load('256MiB', '--hold', '1h', '--json')} & until [ -e {go} ]; do sleep 0.01; done; "
                                f"{self.load('512MiB', '--step', '32MiB', '--json')}; kill $!", memory="768MiB")
            until("it holds memory", lambda: any(e["event"] == "alloc" for e in self.events_of("stays")))
            self.m.stop_daemon(signal.SIGKILL)
            self.m.start_daemon()
            until("who counted counts", lambda: self.job("stays")["memory"]["used"] and self.job("stays")["unshimmed"] == [])
            go.touch()
            self.assertIn(self.wait("stays")["state"], ("finished", "failed"), self.log("stays"))
            self.assertIn("oom", [event["event"] for event in self.events_of("stays")], "what the first has counts")

    def test_memory_freed_without_a_daemon_leaves_the_limit(self):
        with tempfile.TemporaryDirectory() as directory:
            go = pathlib.Path(directory) / "go"
            # A process that counts stays on the other GPU, and keeps the ledger; the process that does not count ends.
            self.start("lighter", f"{self.load('64MiB', '--device', '1', '--hold', '1h')} & "
                                  f"env -u LD_PRELOAD {self.load('1GiB', '--hold', '1h')} & echo pid $!; "
                                  f"until [ -e {go} ]; do sleep 0.01; done; {self.load('1536MiB', '--json')}", memory="2GiB")
            on_both = lambda: all(gpu["processes"] for gpu in self.request("GET", "/v1/gpus").json()["gpus"])  # noqa: E731
            until("both hold theirs", lambda: on_both() and (self.job("lighter")["memory"]["used"] or 0) >= 1024 * MIB)
            pid = int(re.search(r"^pid (\d+)$", self.log("lighter"), re.MULTILINE)[1])
            self.m.stop_daemon(signal.SIGKILL)
            os.kill(pid, signal.SIGKILL)
            until("it is gone", lambda: has_ended(pid))
            self.m.start_daemon()
            until("it has looked", lambda: [len(gpu["processes"]) for gpu in self.request("GET", "/v1/gpus").json()["gpus"]
                                            if gpu["memory"]] == [0, 1])
            go.touch()
            said = until("it is done", lambda: any(e["event"] == "done" for e in self.events_of("lighter")) and self.events_of("lighter"))
            self.assertNotIn("oom", [event["event"] for event in said])

    def restart_without_gpus(self, job):
        """The driver does not list its devices before `clear` is injected."""
        self.m.stop_daemon(signal.SIGKILL)
        self.inject("nvml-hang", "--function", "nvmlDeviceGetCount_v2")
        self.addCleanup(until, "the GPUs are known", lambda: self.request("GET", "/v1/gpus").json()["gpus"])
        self.addCleanup(self.inject, "clear")
        self.m.start_daemon()
        self.becomes(job, "running")

    def test_before_the_gpus_are_known_a_new_process_waits_for_its_limit(self):
        with tempfile.TemporaryDirectory() as directory:
            go = pathlib.Path(directory) / "go"
            self.start("early", f"until [ -e {go} ]; do sleep 0.01; done; {self.load('1GiB', '--json')}", memory="512MiB")
            self.becomes("early", "running")
            self.restart_without_gpus("early")
            go.touch()
            until("it has begun", lambda: self.events_of("early"))
            self.inject("clear")
            said = until("it is done", lambda: any(e["event"] == "done" for e in self.events_of("early")) and self.events_of("early"))
            self.assertIn("oom", [event["event"] for event in said])

    def test_before_the_gpus_are_known_a_running_process_keeps_its_limit(self):
        with tempfile.TemporaryDirectory() as directory:
            pipe = pathlib.Path(directory) / "pipe"
            os.mkfifo(pipe)
            self.start("before", f"{sys.executable} {PROBE} take_as_told < {pipe}", memory="512MiB")
            answers = lambda: [json.loads(line)["status"] for line in self.log("before").splitlines() if line.startswith('{"status"')]  # noqa: E731
            with open(pipe, "w", encoding="utf-8") as told:
                told.write("64\n")
                told.flush()
                self.assertEqual(until("it has its memory", answers), [0])
                self.restart_without_gpus("before")
                told.write("1024\n")
                told.flush()
                self.assertNotEqual(until("it is answered", lambda: answers()[1:]), [0])

    def test_a_job_that_is_let_go_of_has_no_limit_any_more(self):
        with tempfile.TemporaryDirectory() as directory:
            go, log = pathlib.Path(directory) / "go", pathlib.Path(directory) / "log"
            self.start("free", f"{self.load('64MiB', '--hold', '1h', '--json')} & until [ -e {go} ]; do sleep 0.01; done; "
                               f"{self.load('1GiB', '--json')} > {log}; kill $!", memory="768MiB")
            until("it holds memory", lambda: any(e["event"] == "alloc" for e in self.events_of("free")))
            self.assertEqual(self.request("DELETE", "/v1/jobs/free?keep_running=1").status, 200)
            go.touch()
            done = until("the second load ended", lambda: log.exists() and '"done"' in log.read_text() and log.read_text())
            self.assertNotIn('"oom"', done)

    def test_a_program_that_takes_its_limit_out_of_the_ledger_is_told_of_and_the_guard_holds_it(self):
        job = self.start("vandal", f"{sys.executable} {PROBE} overwrite_and_hold", memory="512MiB")
        until("it is told", lambda: "ledger_overwritten" in self.kinds(job))
        self.assertEqual(self.wait("vandal")["reason"], "memory_limit", self.log("vandal"))

    def test_a_limit_below_a_context_is_told_at_the_start(self):
        self.held("first", "64MiB", memory="1GiB")
        until("a context's cost is known", lambda: "context takes" in (self.m.dir / "daemon.log").read_text())
        job = self.start("tight", "exec sleep 1000", memory="32MiB")
        until("its log says so", lambda: "less than a CUDA context" in self.log("tight"))
        self.assertIn("limit_below_context", self.kinds(job))

    def test_a_limit_below_a_context_is_told_by_a_new_daemon_before_any_job_has_run(self):
        costs = self.m.dir / "lib" / "contexts.json"
        self.held("first", "64MiB", memory="1GiB")
        until("a context's cost is stored", costs.exists)
        self.request("DELETE", "/v1/jobs/first")
        self.m.stop_daemon(signal.SIGKILL)
        (self.m.dir / "daemon.log").write_text("")
        self.m.start_daemon()
        job = self.start("tight", "true", memory="32MiB")
        self.wait("tight")
        self.assertIn("limit_below_context", self.kinds(job))
        self.assertNotIn("a context takes", (self.m.dir / "daemon.log").read_text(), "nothing was seen yet")
        self.m.stop_daemon()
        costs.write_text("spoilt")
        self.m.start_daemon()
        self.held("again", "64MiB", memory="1GiB")
        until("it is learned again", lambda: "driver" in costs.read_text())

    def test_a_job_that_fails_after_its_limit_refused_it_memory_says_so_and_how_to_go_on(self):
        hog = self.start("hog", self.load("2GiB", "--step", "256MiB"), memory="1GiB")
        ended = self.wait(hog)
        self.assertEqual((ended["state"], ended["reason"]), ("failed", "memory_refused"), ended)
        said = r"256MiB was refused at its limit of 1GiB on GPU [01], of which it used .*; `gpuman restart hog --memory SIZE`"
        self.assertRegex(ended["reason_detail"], "ended with exit status 3; " + said)
        refusal = self.job(hog)["refusal"]
        self.assertEqual((refusal["asked"], refusal["limit"], refusal["by"]), (256 * MIB, 1024 * MIB, "limit"))
        self.assertGreater(refusal["used"], 0)
        told = [event for event in self.events() if event["job"] == hog and event["kind"] == "allocation_refused"]
        self.assertEqual(len(told), 1, told)
        self.assertIn("256MiB was refused at its limit of 1GiB", told[0]["message"])
        status = self.m.run("status").stdout
        self.assertRegex(status, r"job \d+ hog: ended with exit status 3; " + said)
        self.assertIn("failed (memory_refused)", status)
        self.assertRegex(self.m.run("job", "show", "hog").stdout, "Reason .*" + said)
        done = self.m.run("restart", "hog", "--memory", "3GiB")
        self.assertEqual(done.returncode, 0, done.stderr)
        ended = self.wait(hog)
        self.assertEqual((ended["state"], ended["refusal"]), ("finished", None), self.log(hog))
        self.assertEqual(ended["memory"]["limit"], 3 << 30)
        again = self.m.run_json("job", "redo", "hog", "--memory", "2560MiB")["id"]
        ended = self.wait(again)
        self.assertEqual((ended["state"], ended["memory"]["limit"]), ("finished", 2560 << 20), self.log(again))

    def test_a_program_that_is_refused_in_a_loop_is_told_of_once(self):
        loop = self.start("loop", f"{self.load('64MiB', '--hold', '1h')} & "
                                  f"while :; do {self.load('2GiB')} && break; echo refused; done", memory="512MiB")
        refusal = until("it is shown", lambda: self.job(loop)["refusal"])
        self.assertIn("`gpuman update loop --memory SIZE` gives it more", refusal["message"])
        # The view reads the ledger at once; the event comes with the next sample.
        until("it is told of", lambda: "allocation_refused" in self.kinds(loop))
        seen = self.log(loop).count("refused")
        until("it was refused again and again", lambda: self.log(loop).count("refused") > seen + 4)
        until("the last one is shown", lambda: self.job(loop)["refusal"]["at"] > refusal["at"])
        self.assertEqual(self.kinds(loop).count("allocation_refused"), 1)
        self.assertRegex(self.m.run("status").stdout, r"job \d+ loop: 2GiB was refused at its limit of 512MiB .*(just now| ago)\)")

    def test_a_refusal_by_a_full_gpu_names_the_device(self):
        gpu = self.request("GET", "/v1/gpus").json()["gpus"][0]["uuid"]
        self.held("has-it", "3GiB", gpus=[gpu])
        late = self.wait(self.start("late", self.load("2GiB"), gpus=[gpu]))
        self.assertEqual((late["refusal"]["by"], late["refusal"]["gpu"]), ("device", gpu), late)
        self.assertIn("the GPU had no memory left", late["reason_detail"])

    def test_a_context_that_the_gpu_had_no_room_for_is_told_as_that(self):
        gpu = self.request("GET", "/v1/gpus").json()["gpus"][0]
        self.held("has-nearly-all", f"{gpu['memory']['free'] // MIB // 2 * 2 - 150}MiB", gpus=[gpu["uuid"]])
        late = self.wait(self.start("late", self.load("2MiB"), gpus=[gpu["uuid"]]))
        self.assertEqual((late["refusal"]["by"], late["refusal"]["context"]), ("device", True), late)
        self.assertRegex(late["reason_detail"], "a context( of [0-9]+MiB)? was refused on GPU .*: the GPU had no memory left")
        why = self.m.run("why", "late").stdout
        self.assertRegex(why, r"^job \d+ 'late' has ended: failed \(memory_refused\)")
        self.assertIn("`gpuman status` shows who has the GPU's memory", why)

    def test_a_refusal_by_sharing_names_sharing(self):
        large = self.wait(self.start("large", self.load("6GiB"), share=True))
        self.assertEqual((large["state"], large["refusal"]["by"]), ("failed", "sharing"), large)
        self.assertIn("6GiB was refused on GPU", large["reason_detail"])

    def test_a_limit_below_a_context_is_told_to_who_sets_it(self):
        self.held("first", "64MiB", memory="1GiB")
        until("a context's cost is known", lambda: "context takes" in (self.m.dir / "daemon.log").read_text())
        for words in (["run", "--detach", "--tag", "tight", "--memory", "32MiB", "--", "sleep", "1000"],
                      ["update", "first", "--memory", "32MiB"],
                      ["submit", "--hold", "--gpus", "1", "--gpu-memory", "32MiB", "true"]):
            done = self.m.run(*words)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("its limit of 32MiB is less than a CUDA context takes", done.stderr, words)

    def test_nothing_is_preloaded_where_nobody_wants_it(self):
        self.start("with", "echo [$LD_PRELOAD]")
        self.start("without", "echo [$LD_PRELOAD]", preload=False)
        self.wait("with"), self.wait("without")
        self.assertEqual(self.log("with").strip(), f"[{build_dir() / 'lib/libgpuman.so'}]")
        self.assertEqual(self.log("without").strip(), "[]")

    def test_a_preload_of_the_callers_own_stays(self):
        request = self.run_request("both", "echo [$LD_PRELOAD]")
        request["environment"]["LD_PRELOAD"] = "/no/such/library.so"
        self.request("POST", "/v1/jobs", request)
        self.wait("both")
        self.assertIn("libgpuman.so:/no/such/library.so]", self.log("both"))


if __name__ == "__main__":
    if not (build_dir() / "lib/libgpuman.so").exists():
        print("libgpuman.so is not built")
        sys.exit(77)
    unittest.main(verbosity=2)

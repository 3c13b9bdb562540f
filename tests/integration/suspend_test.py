#!/usr/bin/env python3
"""Jobs leave the GPU and come back: daemon, shim and gpuman-mover, on the simulated driver.

Usage: suspend_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import contextlib
import json
import os
import pathlib
import random
import re
import signal
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from daemon_case import DaemonTest, MIB, until  # noqa: E402
from machine import build_dir, command_line  # noqa: E402

PAIR = pathlib.Path(__file__).with_name("pair_program.py")


class SuspendCase(DaemonTest):
    gpus, memory = 2, "4GiB"
    config = '[sampling]\nrest = "20ms"\n[suspend]\npatience = "1m"\n'  # simulated kernels are slow on a busy machine

    def busy(self, tag, size="96MiB", **more):
        """Starts a load that works on its memory, for two fifths of the time, until finishes_with_its_data is called, and
        then verifies it. Returns once the load holds its memory."""
        more = {"gpus": ["0"], "share": True, **more}
        options = ["--verify", "--kernel-time", "1ms", "--duty", "0.4", "--json", "--until", str(self.end_of(tag))]
        self.end_of(tag).unlink(missing_ok=True)
        job = self.start(tag, "exec " + self.load(size, *options), **more)
        until("it holds memory", lambda: '"event":"alloc"' in self.log(tag))
        until("the daemon knows", lambda: (self.job(tag)["memory"]["used"] or 0) > 96 * MIB)
        return job

    def tearDown(self):
        super().tearDown()
        until("the GPUs are empty for the next", lambda: not any(
            gpu["processes"] for gpu in self.request("GET", "/v1/gpus").json()["gpus"]))

    def while_daemons_die(self, tag, seed, longest, ask, *more):
        """Six times: asks the daemon, and kills it within `longest` seconds. The next daemon brings the job to an end of that
        each time, with a usual reason or one of `more`."""
        chance = random.Random(seed)
        ends = (None, "held_by_user", "suspend_failed", "resume_failed", *more)
        for number in range(6):
            def asks(number=number):
                with contextlib.suppress(OSError, ConnectionError):
                    ask(number)
            asked = threading.Thread(target=asks)
            asked.start()
            asked.join(chance.uniform(0, longest))
            self.m.stop_daemon(signal.SIGKILL)
            asked.join()
            self.m.start_daemon()
            until("it has come to rest", lambda: self.job(tag)["reason"] in ends, lambda: self.job(tag))

    def suspend(self, ref):
        return self.request("POST", f"/v1/jobs/{ref}/suspend")

    def resume(self, ref, **place):
        return self.request("POST", f"/v1/jobs/{ref}/resume", place)

    def resumed(self, ref, **place):
        """Resumes the job; returns what the daemon says of it."""
        answer = self.resume(ref, **place)
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json()

    def processes_on(self, index):
        return [p["pid"] for p in self.request("GET", f"/v1/gpus/{index}").json()["processes"]]

    def movers(self):
        pids = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            words = command_line(entry.name)
            try:
                parent = (entry / "stat").read_text().rsplit(")", 1)[1].split()[1]
            except OSError:
                continue
            if words and words[0].endswith("gpuman-mover") and int(parent) == self.m.daemon.pid:
                pids.append(int(entry.name))
        return pids

    def while_movers_die(self, chance, odds, ask, *words):
        """Sends a request, and kills the movers at random, a few times, until there is an answer."""
        asked = threading.Thread(target=ask, args=words)
        asked.start()
        rounds = 2
        while asked.is_alive() and rounds:
            asked.join(chance.uniform(0, 0.15))
            if asked.is_alive() and chance.random() < odds:
                rounds -= 1
                for pid in self.movers():
                    os.kill(pid, signal.SIGKILL)
        asked.join()

    def kinds(self, job):
        return [event["kind"] for event in self.events() if event["job"] == job]

    def end_of(self, tag):
        return self.m.dir / f"{tag}.end"

    def finishes_with_its_data(self, ref):
        self.end_of(ref).touch()
        ended = self.wait(ref)
        self.assertEqual(ended["state"], "finished", self.log(ref)[-1500:])
        said = [json.loads(line) for line in self.log(ref).splitlines() if line.startswith("{")]
        self.assertTrue([e for e in said if e["event"] == "verify"])
        self.assertFalse([e for e in said if e["event"] == "verify" and e["wrong_words"]])


class SuspendTest(SuspendCase):
    def test_a_job_leaves_the_gpu_and_comes_back_with_its_data(self):
        for share in (True, False):
            with self.subTest(share=share):
                tag = f"share{share}".lower()
                self.busy(tag, share=share)
                answer = self.suspend(tag)
                self.assertEqual(answer.status, 200, answer.body)
                job = answer.json()
                self.assertEqual((job["state"], job["reason"]), ("suspended", "held_by_user"))
                self.assertGreaterEqual(job["memory"]["host"], 96 * MIB)
                until("its GPU is free of it", lambda: job["pid"] not in self.processes_on(0))
                self.assertEqual(self.job(tag)["state"], "suspended")
                back = self.resume(tag)
                self.assertEqual((back.status, back.json()["state"]), (200, "running"), back.body)
                self.finishes_with_its_data(tag)

    def test_job_keeps_its_data_over_twenty_suspensions(self):
        self.busy("often")
        for _ in range(20):
            answers = self.suspend("often"), self.resume("often")
            self.assertEqual([a.status for a in answers], [200, 200], [a.body for a in answers])
        self.finishes_with_its_data("often")

    def test_a_job_goes_on_on_another_gpu(self):
        self.busy("mover")
        answer = self.request("POST", "/v1/jobs/mover/move", {"gpu": "1"})
        self.assertEqual((answer.status, answer.json()["state"]), (200, "running"), answer.body)
        pid = answer.json()["pid"]
        until("it is there", lambda: pid in self.processes_on(1))
        until("and no longer here", lambda: pid not in self.processes_on(0))
        self.assertEqual(self.job("mover")["gpus"], [self.request("GET", "/v1/gpus/1").json()["uuid"]])
        self.finishes_with_its_data("mover")

    def test_move_between_gpus_without_peer_access_goes_through_host_memory(self):
        job = self.busy("apart")
        self.request("POST", "/v1/jobs/apart/move", {"gpu": "1"})
        told = {event["kind"]: event["data"] for event in self.events() if event["job"] == job}
        self.assertNotIn("straight", told["job_moved"])
        self.assertIn("milliseconds_copy", told["job_suspended"])
        self.finishes_with_its_data("apart")

    def test_a_failed_resume_is_reported_to_the_caller(self):
        self.busy("back", "96MiB")
        self.assertEqual(self.suspend("back").status, 200)
        self.inject("alloc-fail", "--nth", "1")
        failed = self.resume("back")
        self.assertEqual(failed.code(), "unsatisfiable", failed.body)
        self.assertIn("OUT_OF_MEMORY", failed.json()["error"]["message"])
        self.assertEqual(self.job("back")["state"], "suspended")
        self.assertEqual(self.resume("back").json()["state"], "running")

    def test_an_ended_or_unknown_job_cannot_be_suspended(self):
        self.start("ended", "true")
        self.wait("ended")
        self.assertEqual(self.suspend("ended").code(), "conflict")
        self.assertEqual(self.suspend("nobody").code(), "not_found")
        self.busy("runs")
        self.assertEqual(self.resume("runs").json()["state"], "running", "it is where it was asked to be")
        self.assertEqual(self.request("POST", "/v1/jobs/runs/move", {"gpu": "7"}).code(), "not_found")
        self.assertEqual(self.request("POST", "/v1/jobs/runs/move", {}).code(), "invalid_argument")

    def test_a_suspended_job_is_removed_or_killed_like_any_other(self):
        self.busy("removed")
        self.suspend("removed")
        self.assertEqual(self.request("DELETE", "/v1/jobs/removed").json()["state"], "killed")
        self.busy("killed")
        self.suspend("killed")
        os.kill(self.job("killed")["pid"], signal.SIGKILL)
        self.assertEqual(self.wait("killed")["signal"], signal.SIGKILL)
        until("nothing of them is on the GPU", lambda: set(self.processes_on(0)) <= set(self.movers()))

    def test_a_resumed_job_waits_for_room_and_says_so(self):
        self.busy("waits", "1GiB")
        self.suspend("waits")
        self.start("there", self.load("3450MiB", "--hold", "1h"), gpus=["0"])
        until("it is full", lambda: (self.job("there")["memory"]["used"] or 0) > 3450 * MIB)
        answer = self.resume("waits")
        self.assertEqual((answer.status, answer.json()["state"]), (200, "suspended"), answer.body)
        self.assertEqual(answer.json()["reason"], "resources")
        self.request("DELETE", "/v1/jobs/there")
        self.becomes("waits", "running")

    def test_suspension_is_finished_after_kill_of_daemon(self):
        self.busy("survives")
        self.suspend("survives")
        self.m.stop_daemon(signal.SIGKILL)
        self.m.start_daemon()
        self.assertEqual(self.becomes("survives", "suspended")["reason"], "held_by_user")
        self.assertEqual(self.resume("survives").json()["state"], "running")
        self.finishes_with_its_data("survives")

    def test_movers_that_are_killed_at_any_moment_lose_nothing(self):
        self.busy("kept")
        chance, moved = random.Random(11), 0
        for number in range(24):
            out = number % 2 == 0
            self.while_movers_die(chance, 0.4, self.suspend if out else self.resume, "kept")
            self.assertIn(self.job("kept")["state"], ("running", "suspended"))
            moved += self.job("kept")["state"] == ("suspended" if out else "running")
        self.assertGreater(moved, 6)
        until("it is back", lambda: self.resumed("kept")["state"] == "running")
        self.finishes_with_its_data("kept")

    def test_daemons_that_are_killed_at_any_moment_lose_nothing(self):
        self.busy("kept")
        self.while_daemons_die("kept", 5, 0.3, lambda number: (self.suspend, self.resume)[number % 2]("kept"))
        until("it is back", lambda: self.resumed("kept")["state"] == "running")
        self.finishes_with_its_data("kept")

    def test_events_have_duration_of_each_part(self):
        job = self.busy("timed")
        self.suspend("timed")
        self.resume("timed")
        told = {event["kind"]: event["data"] for event in self.events() if event["job"] == job}
        for kind, parts in (("job_suspended", ("evict", "copy", "checkpoint")),
                            ("job_resumed", ("return", "copy", "restore"))):
            for part in parts:
                self.assertIn("milliseconds_" + part, told[kind])
        self.finishes_with_its_data("timed")

    def test_command_line_suspends_moves_and_resumes(self):
        self.busy("typed")
        self.assertIn("suspended", self.m.run("suspend", "typed").stdout)
        self.assertIn("suspended (held_by_user)", self.m.run("status").stdout)
        self.assertIn("running", self.m.run("resume", "typed").stdout)
        self.assertEqual(self.m.run("suspend", "nobody").returncode, 4)
        self.finishes_with_its_data("typed")

    def test_a_repeated_suspend_resume_or_move_is_no_failure(self):
        job = self.busy("typed")
        for words, says in ((("move", "typed", "--to", "0"), "is on GPU 0 already"),
                            (("resume", "typed", "--gpu", "0"), "is on GPU 0 already"),
                            (("resume", "typed"), "is not suspended"),
                            (("suspend", "typed"), None),
                            (("suspend", "typed"), "is suspended already"),
                            (("resume", "typed"), None)):
            done = self.m.run(*words)
            self.assertEqual((done.returncode, done.stderr), (0, f"gpuman: job {job} {says}\n" if says else ""), words)
        self.assertNotIn("job_moved", self.kinds(job), "it never left its GPU for that")
        self.finishes_with_its_data("typed")

    def test_resumed_jobs_return_by_priority_then_order_of_asking(self):
        # Listed in the order of starting; resumed in the order late, early, first. They do not share: only room
        # decides.
        names = ["early", "late", "first"]
        for name in names:
            self.busy(name, "128MiB", share=False, priority=200 if name == "first" else 100)
            self.assertEqual(self.suspend(name).status, 200)
        # Each small job that ends makes room for one job, whether a mover has a context beside them or not.
        sizes = {"big": "2849MiB", "small0": "150MiB", "small1": "150MiB", "small2": "150MiB"}
        for tag, size in sizes.items():
            self.start(tag, self.load(size, "--hold", "1h", "--json"), gpus=["0"])
            until("it holds memory", lambda: (self.job(tag)["memory"]["used"] or 0) > 150 * MIB)
        until("none of them has room", lambda: self.request("GET", "/v1/gpus/0").json()["memory"]["free"] < 200 * MIB)
        for name in ("late", "early", "first"):
            answer = self.resumed(name)
            self.assertEqual((answer["state"], answer["reason"]), ("suspended", "resources"), answer)
        for i, name in enumerate(["first", "late", "early"]):
            self.request("DELETE", f"/v1/jobs/small{i}")
            self.becomes(name, "running")
        tags = {self.job(name)["id"]: name for name in names}
        def back():
            return [tags[e["job"]] for e in self.events() if e["kind"] == "job_resumed" and e["job"] in tags]
        until("all three are told of", lambda: len(back()) == 3)
        self.assertEqual(back(), ["first", "late", "early"])


class RareSamplesTest(SuspendCase):
    """The daemon looks at a GPU at rest once a second: after a return the driver's figures are of before for a while."""
    config = SuspendCase.config.replace('"20ms"', '"1s"')

    def test_a_job_without_share_that_has_just_returned_leaves_again_before_it_is_called_suspended(self):
        job = self.busy("again", share=False)
        for _ in range(5):
            left = self.suspend("again")
            self.assertEqual(left.status, 200, left.body)
            self.assertGreaterEqual(left.json()["memory"]["host"], 96 * MIB, left.body)
            self.resumed("again")
        told = [(event["kind"], event["message"]) for event in self.events() if event["job"] == job]
        self.assertNotIn("suspended_process_taken", [kind for kind, _ in told], told)
        self.finishes_with_its_data("again")


class StraightTest(SuspendCase):
    """GPUs with peer access: memory moves directly from one to the other."""
    profile = "h200"

    def move(self, ref, gpu):
        return self.request("POST", f"/v1/jobs/{ref}/move", {"gpu": str(gpu)})

    def used(self, gpu):
        return self.request("GET", f"/v1/gpus/{gpu}").json()["memory"]["used"]

    def test_moved_job_resumes_on_its_last_gpu(self):
        self.busy("moved", "400MiB")
        self.move("moved", 1)
        self.assertEqual(self.suspend("moved").json()["state"], "suspended")
        self.start("wall", self.load("2GiB", "--hold", "1h", "--json"), gpus=["0"])
        until("it holds memory", lambda: (self.job("wall")["memory"]["used"] or 0) > 2048 * MIB)
        self.assertEqual(self.resumed("moved")["state"], "running")
        self.assertEqual(self.job("moved")["gpus"], [self.request("GET", "/v1/gpus/1").json()["uuid"]])
        self.finishes_with_its_data("moved")
        self.request("DELETE", "/v1/jobs/wall")

    def test_job_moves_to_and_fro_with_its_data(self):
        job = self.busy("mover")
        for gpu in (1, 0, 1, 0):
            answer = self.move("mover", gpu)
            self.assertEqual((answer.status, answer.json()["state"]), (200, "running"), answer.body)
            moved = [e for e in self.events() if e["job"] == job and e["kind"] == "job_moved"]
            self.assertGreaterEqual(moved[-1]["data"]["straight"], 96 * MIB)
            self.assertNotIn("milliseconds_copy", moved[-1]["data"])
        self.assertNotIn("move_failed", self.kinds(job))
        self.finishes_with_its_data("mover")
        until("nothing of it is left", lambda: not set(self.processes_on(0) + self.processes_on(1)))

    def test_moved_job_waits_in_host_memory_for_room_on_the_other_gpu(self):
        job = self.busy("mover", "400MiB")
        self.start("wall", self.load("2GiB", "--hold", "1h", "--json"), gpus=["1"])
        until("it holds memory", lambda: (self.job("wall")["memory"]["used"] or 0) > 2048 * MIB)
        self.move("mover", 1)
        pid = self.job("mover")["pid"]
        until("it waits", lambda: self.job("mover")["reason"] == "resources")
        until("the GPU that it left has none of it",
              lambda: pid not in self.processes_on(0) and self.used(0) < 800 * MIB)
        self.request("DELETE", "/v1/jobs/wall")
        self.becomes("mover", "running")
        self.assertNotIn("move_failed", self.kinds(job))
        self.finishes_with_its_data("mover")

    def test_movers_that_are_killed_at_any_moment_lose_nothing(self):
        self.busy("kept")
        chance, moved = random.Random(7), 0
        for number in range(16):
            self.while_movers_die(chance, 0.3, self.move, "kept", (number + 1) % 2)
            self.assertIn(self.job("kept")["state"], ("running", "suspended"))
            moved += self.job("kept")["state"] == "running"
        self.assertGreater(moved, 4)
        until("it is back", lambda: self.resumed("kept")["state"] == "running")
        here = self.request("GET", "/v1/jobs/kept").json()["gpus"][0]
        until("it is where it counts", lambda: self.job("kept")["pid"] in self.processes_on(here),
              lambda: (here, self.request("GET", "/v1/gpus").json(), self.what_stands()))
        other = next(gpu["index"] for gpu in self.request("GET", "/v1/gpus").json()["gpus"] if gpu["uuid"] != here)
        until("nothing of it is kept on the other GPU, a mover's context aside", lambda: self.used(other) < 560 * MIB)
        self.finishes_with_its_data("kept")

    def test_daemons_that_are_killed_at_any_moment_lose_nothing(self):
        self.busy("kept")
        self.while_daemons_die("kept", 3, 0.3, lambda number: self.move("kept", (number + 1) % 2), "move_failed")
        until("it is back", lambda: self.resumed("kept")["state"] == "running")
        self.finishes_with_its_data("kept")


class TurnsElsewhereTest(SuspendCase):
    """A job that takes turns gets its memory with its turn, on the GPU that it comes to."""

    def on_gpu(self, index):
        gpus = self.request("GET", "/v1/share").json()["gpus"]
        return {job["tag"]: job for gpu in gpus if gpu["index"] == index for job in gpu["jobs"]}

    def comes_to(self, tag, gpu, megabytes):
        until(f"it is on GPU {gpu} with its memory",
              lambda: self.on_gpu(gpu).get(tag, {"memory": {"resident": 0}})["memory"]["resident"] >= megabytes * MIB,
              self.what_stands)

    def test_moved_job_needs_no_room_on_the_gpu_that_it_left(self):
        self.busy("stays")
        moved = self.busy("moved", "400MiB")
        self.assertEqual(self.suspend("moved").json()["state"], "suspended")
        self.start("wall", self.load("3450MiB", "--hold", "1h", "--json"), gpus=["0"])
        until("it holds memory", lambda: (self.job("wall")["memory"]["used"] or 0) > 3450 * MIB)
        self.assertEqual(self.resumed("moved", gpu="1")["state"], "running")
        self.comes_to("moved", 1, 400)
        self.assertNotIn("moved", self.on_gpu(0))
        self.assertNotIn("share_move_failed", self.kinds(moved))
        self.finishes_with_its_data("moved")
        self.request("DELETE", "/v1/jobs/wall")
        self.finishes_with_its_data("stays")

    def test_job_moves_to_and_fro_beside_others_that_take_turns(self):
        for gpu in ("0", "1"):
            self.busy(f"stays{gpu}", gpus=[gpu])
        moved = self.busy("moved", "200MiB")
        for gpu in (1, 0, 1, 0):
            self.assertEqual(self.request("POST", "/v1/jobs/moved/move", {"gpu": str(gpu)}).status, 200)
            self.comes_to("moved", gpu, 200)
            self.assertNotIn("moved", self.on_gpu(1 - gpu))
        self.assertNotIn("share_move_failed", self.kinds(moved))
        for tag in ("moved", "stays0", "stays1"):
            self.finishes_with_its_data(tag)


class LeftTest(SuspendCase):
    """Processes that share memory leave by their shims alone; their contexts and that memory stay."""

    profile, size = "h200", 16 * MIB

    def pair(self, tag, gpus=("0",), **more):
        for old in self.m.dir.glob(f"stop.{tag}*"):
            old.unlink()
        words = [sys.executable, str(PAIR), str(self.m.dir / f"stop.{tag}"), "--size", str(self.size)]
        job = self.start(tag, "exec " + " ".join(words), gpus=list(gpus), **{"share": True, **more})
        self.goes_on(tag)
        until("the daemon knows", lambda: (self.job(tag)["memory"]["used"] or 0) > self.size)
        return job

    def rounds(self, tag):
        file = self.m.dir / f"stop.{tag}.steps"
        return int(file.read_text() or 0) if file.exists() else 0

    def goes_on(self, tag):
        before = self.rounds(tag)
        until(f"20 rounds of {tag} after {before}", lambda: self.rounds(tag) >= before + 20, lambda: self.log(tag))

    def ends_with_its_data(self, tag):
        (self.m.dir / f"stop.{tag}").touch()
        ended = self.wait(tag)
        self.assertEqual(ended["state"], "finished", self.log(tag)[-1500:])
        self.assertEqual(self.log(tag).count('"wrong": 0'), 2, self.log(tag)[-1500:])

    def off(self, tag):
        answer = self.suspend(tag)
        self.assertEqual(answer.status, 200, answer.body)
        job = answer.json()
        self.assertEqual((job["state"], job["reason"]), ("suspended", "held_by_user"), job["reason_detail"])
        return job

    def uuids(self, gpus):
        return {self.request("GET", f"/v1/gpus/{gpu}").json()["uuid"] for gpu in gpus}

    def test_host_memory_is_made_ready_for_the_memory_of_each_gpu(self):
        self.size = 48 * MIB
        self.pair("ready", ("0", "1"))
        for gpu in (0, 1):
            until(f"the mover has its context on GPU {gpu}", lambda gpu=gpu: set(self.movers()) & set(self.processes_on(gpu)))
        self.ends_with_its_data("ready")

    def test_processes_that_share_memory_are_suspended_and_rest_is_reported_per_gpu(self):
        for gpus in (("0",), ("0", "1")):
            with self.subTest(gpus=gpus):
                tag = f"pair{len(gpus)}"
                job = self.pair(tag, gpus)
                self.assertIsNone(self.job(tag)["memory"]["left"])
                for _ in range(2):
                    off = self.off(tag)
                    before = self.rounds(tag)
                    left = off["memory"]["left"]
                    self.assertEqual(set(left), self.uuids(gpus))
                    self.assertGreaterEqual(off["memory"]["host"], 2 * self.size)
                    for gpu in gpus:
                        self.assertRegex(off["reason_detail"], rf"[\d.]+[MG]iB (stay )?on GPU {gpu}\b")
                    self.assertRegex(off["reason_detail"], r": contexts, and memory that processes share \(NCCL, CUDA IPC\)$")
                    self.assertEqual(self.rounds(tag), before)
                    until("the driver shows no more of it than that", lambda: self.held_on(job) == left,
                          lambda: (left, self.held_on(job)))
                    self.assertEqual(self.resumed(tag)["state"], "running")
                    self.assertIsNone(self.job(tag)["memory"]["left"])
                    self.goes_on(tag)
                    told = {event["kind"]: event["data"] for event in self.events() if event["job"] == job}
                    for kind in ("job_suspended", "job_resumed"):
                        self.assertEqual(told[kind]["left"], sum(left.values()), kind)
                        self.assertEqual({gpu: told[kind][f"left.{gpu}"] for gpu in left}, left, kind)
                    self.assertIn("milliseconds_rest", told["job_suspended"])
                    self.assertIn("milliseconds_fetch", told["job_resumed"], "each gets its memory while it is copied")
                    self.assertNotIn("milliseconds_copy", told["job_resumed"])
                self.ends_with_its_data(tag)

    def held_on(self, job):
        """What the job's processes hold on each GPU, as the driver shows it."""
        held = {}
        for gpu in self.request("GET", "/v1/gpus").json()["gpus"]:
            for process in gpu["processes"]:
                if process["job"] == job and process["memory"]:
                    held[gpu["uuid"]] = held.get(gpu["uuid"], 0) + process["memory"]
        return held

    def test_new_daemon_reports_the_same_rest_and_resumes(self):
        self.pair("kept")
        off = self.off("kept")
        self.m.stop_daemon(signal.SIGKILL)
        self.m.start_daemon()
        job = self.job("kept")
        for what in ("state", "reason", "reason_detail", "memory"):
            if what == "memory":
                self.assertEqual((job[what]["left"], job[what]["host"]), (off[what]["left"], off[what]["host"]))
            else:
                self.assertEqual(job[what], off[what])
        until("it is back", lambda: self.resumed("kept")["state"] == "running")
        self.goes_on("kept")
        self.ends_with_its_data("kept")

    def test_daemons_that_are_killed_at_any_moment_lose_nothing(self):
        self.pair("kept")
        orders = ("suspend", "resume")
        self.while_daemons_die("kept", 5, 0.2, lambda number: self.request("POST", f"/v1/jobs/kept/{orders[number % 2]}"))
        until("it is back", lambda: self.resumed("kept")["state"] == "running")
        self.goes_on("kept")
        self.ends_with_its_data("kept")

    def test_move_of_processes_that_share_memory_is_refused_with_the_reason(self):
        job = self.pair("stays")
        answer = self.request("POST", "/v1/jobs/stays/move", {"gpu": "1"})
        refused = r"share memory \(NCCL, CUDA IPC\): it can be suspended, not moved"
        self.assertEqual(answer.code(), "unsatisfiable", answer.body)
        self.assertRegex(answer.json()["error"]["message"], refused)
        self.assertEqual(self.job("stays")["state"], "running")
        self.assertEqual([kind for kind in self.kinds(job) if "move" in kind], ["move_refused"], "nothing has moved")
        self.goes_on("stays")
        self.off("stays")
        answer = self.resume("stays", gpu="1")
        self.assertEqual(answer.code(), "unsatisfiable", answer.body)
        self.assertRegex(answer.json()["error"]["message"], refused)
        self.assertEqual(self.resumed("stays")["state"], "running")
        self.assertNotIn("move_failed", self.kinds(job))
        self.ends_with_its_data("stays")

    def test_kill_of_suspended_process_leaves_the_other_suspended(self):
        job = self.pair("torn", ("0", "1"))
        left = self.off("torn")["memory"]["left"]
        second = self.uuids(("1",))
        victim = next(p["pid"] for p in self.request("GET", "/v1/gpus/1").json()["processes"] if p["job"] == job)
        os.kill(victim, signal.SIGKILL)
        rest = {gpu: bytes for gpu, bytes in left.items() if gpu not in second}
        until("what it had left is gone", lambda: self.job("torn")["memory"]["left"] == rest,
              lambda: (left, self.job("torn")["memory"]))
        self.assertEqual(self.resumed("torn")["state"], "running")
        self.request("DELETE", "/v1/jobs/torn")


class HostBudgetTest(SuspendCase):
    config = SuspendCase.config + 'host_memory = "450MiB"\n'

    def test_suspend_beyond_the_budget_is_refused_with_the_numbers(self):
        for share in (True, False):
            with self.subTest(share=share):
                name = f"share{share}".lower()
                job = self.busy(f"a{name}", "128MiB", share=share)
                self.busy(f"b{name}", "128MiB", share=share)
                self.assertEqual(self.suspend(f"a{name}").status, 200)
                refused = self.suspend(f"b{name}")
                self.assertEqual(refused.code(), "unsatisfiable", refused.body)
                self.assertRegex(refused.json()["error"]["message"],
                                 r"takes 2\d\d(\.\d)?MiB of the host's memory; suspended jobs may have 450MiB of it, and others have 2")
                self.assertIn("suspend.host_memory", refused.json()["error"]["hint"])
                after = self.job(f"b{name}")
                self.assertEqual((after["state"], after["reason"]), ("running", None))
                self.assertEqual(self.kinds(after["id"]), ["job_started", "suspend_refused"])
                data = [e["data"] for e in self.events() if e["job"] == after["id"]][-1]
                self.assertEqual(data["budget"], 450 * MIB)
                self.assertGreater(data["needed"] + data["in_use"], data["budget"])
                self.assertEqual(self.request("DELETE", f"/v1/jobs/a{name}").json()["state"], "killed")
                self.assertEqual(self.suspend(f"b{name}").status, 200, "there is room now")
                self.assertIn("job_suspended", self.kinds(job))
                self.request("DELETE", f"/v1/jobs/b{name}")

    def test_the_budget_is_read_again_with_the_configuration(self):
        self.busy("big", "512MiB", share=True)
        self.assertEqual(self.suspend("big").code(), "unsatisfiable")
        file = self.m.dir / "gpumand.toml"
        file.write_text(file.read_text().replace("450MiB", "1GiB"))
        self.m.daemon.send_signal(signal.SIGHUP)
        until("it is read", lambda: "configuration read again" in (self.m.dir / "daemon.log").read_text())
        self.assertEqual(self.suspend("big").status, 200)


class HostMemoryTest(SuspendCase):
    """GPUs with more memory than the host has."""

    host = int(re.search(r"MemTotal:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text())[1]) * 1024
    gpus, memory = 1, f"{2 * host}"
    config = SuspendCase.config + 'host_memory = "256T"\n'

    def test_suspend_beyond_host_memory_is_refused_with_the_numbers(self):
        for share in (True, False):
            with self.subTest(share=share):
                name = f"share{share}".lower()
                job = self.start(name, self.load(self.host, "--hold", "1h", "--json"), share=share)
                until("it holds memory", lambda: (self.job(name)["memory"]["used"] or 0) > self.host)
                refused = self.suspend(name)
                self.assertEqual(refused.code(), "unsatisfiable", refused.body)
                self.assertRegex(refused.json()["error"]["message"],
                                 r"takes .*GiB of the host's memory, of which .*iB are available and .*iB have to stay free")
                self.assertEqual(self.kinds(job), ["job_started", "suspend_refused"])
                self.assertEqual(self.job(name)["state"], "running")
                self.request("DELETE", f"/v1/jobs/{name}")


class UnchangedTest(SuspendCase):
    """Memory that has not changed since it last left is not copied again."""

    def out_and_back(self, job):
        """What the suspension says of the bytes."""
        self.assertEqual(self.suspend(job).status, 200)
        self.resumed(job)
        told = [event["data"] for event in self.events() if event["kind"] == "job_suspended" and event["job"] == job]
        return told[-1]

    def test_memory_that_was_never_written_is_not_copied(self):
        job = self.start("still", "exec " + self.load("96MiB", "--hold", "1h"), gpus=["0"], share=True)
        # A context alone has 104 MiB.
        until("it holds memory", lambda: (self.job(job)["memory"]["used"] or 0) > 190 * MIB)
        first, second = self.out_and_back(job), self.out_and_back(job)
        self.assertGreaterEqual(first["evicted"], 96 * MIB)
        self.assertEqual((first["copied"], second["copied"]), (0, 0))
        self.request("PUT", "/v1/share", {"unchanged": "off"})
        self.addCleanup(self.request, "PUT", "/v1/share", {"unchanged": "hash"})
        third = self.out_and_back(job)
        self.assertEqual(third["copied"], third["evicted"], "a changed setting holds at once")

    def test_working_job_keeps_its_data_over_twenty_suspensions(self):
        self.busy("often")
        for _ in range(20):
            self.assertEqual(self.suspend("often").status, 200)
            self.resumed("often")
        self.finishes_with_its_data("often")


class ExclusiveModeTest(SuspendCase):
    """Of a GPU in compute mode exclusive-process nobody has a context beside the job, and so no mover."""

    def test_a_job_that_shares_runs_on_with_the_reason_and_another_is_taken_by_the_driver(self):
        self.m.run("device", "compute-mode", "exclusive-process", "--gpu", "0")
        self.addCleanup(self.m.run, "device", "compute-mode", "default", "--gpu", "0")
        self.busy("shares")
        answer = self.suspend("shares")
        self.assertEqual(answer.code(), "unsatisfiable", answer.body)
        self.assertIn("gpuman device compute-mode default", answer.json()["error"]["message"])
        self.assertEqual(self.job("shares")["state"], "running")
        self.finishes_with_its_data("shares")
        self.busy("alone", share=False)
        for _ in range(2):
            self.assertEqual([self.suspend("alone").status, self.resume("alone").status], [200, 200])
        self.finishes_with_its_data("alone")


class KeptWithinTheBudgetTest(SuspendCase):
    """Of one job 128 MiB are kept; the other takes 128 MiB and its context, 100 MiB or more."""
    config = SuspendCase.config + 'host_memory = "330MiB"\n'

    def test_kept_copies_are_dropped_instead_of_refusing_a_suspension(self):
        self.busy("kept", "128MiB")
        self.busy("other", "128MiB")
        self.assertEqual([self.suspend("kept").status, self.resume("kept").status], [200, 200])
        until("its copies are kept", lambda: self.metric("gpuman_kept_host_memory_bytes") >= 120 * MIB)
        self.assertEqual(self.suspend("other").status, 200)
        out = [event["data"] for event in self.events() if event["kind"] == "job_suspended"][-1]
        self.assertGreater(out["evicted"] + out["checkpointed"], 210 * MIB, "both together would be too much")

        def in_host_memory():
            return self.metric("gpuman_job_host_memory_bytes") + self.metric("gpuman_kept_host_memory_bytes")
        until("what is kept gave way", lambda: in_host_memory() <= 330 * MIB)
        self.assertEqual(self.resume("other").status, 200)
        for tag in ("kept", "other"):
            self.finishes_with_its_data(tag)


if __name__ == "__main__":
    if not (build_dir() / "lib/libgpuman.so").exists():
        print("libgpuman.so is not built")
        sys.exit(77)
    unittest.main(verbosity=2)

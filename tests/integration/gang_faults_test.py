#!/usr/bin/env python3
"""Bad days of jobs whose processes need each other: processes that die, are stopped or do not take part, GPUs, host
memory, movers and daemons that fail, in a hand-over. Others are not harmed, nobody stands still for ever, an event says
why, and no byte is wrong.

Usage: gang_faults_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import contextlib
import os
import pathlib
import re
import signal
import sys
import time
import unittest

from gang_case import MIB, SIZE, GangCase, build_dir, until
from share_meeting_test import PROGRAM

GATES = ("closing", "closed")
ENOUGH = 4096  # MiB of host memory, for all that a job has, its contexts too


class FaultsCase(GangCase):
    def tearDown(self):
        for pid in self.stopped:
            self.kill(pid, signal.SIGCONT)
        super().tearDown()

    def setUp(self):
        super().setUp()
        self.stopped = []

    def stop_process(self, pid):
        self.stopped.append(pid)
        os.kill(pid, signal.SIGSTOP)
        until("it stands", lambda: self.stands(pid))

    def learns_why_it_waits(self, job):
        until("the other learns why it waits", lambda: self.job(job)["reason"] == "share_wait", self.what_stands)

    def kill(self, pid, how=signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, how)

    def stands(self, pid):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] == "T"

    def tenants(self, job):
        """Returns the view of the job on each of its GPUs."""
        return [one for gpu in self.share()["gpus"] for one in gpu["jobs"] if one["id"] == job]

    def gates(self, job):
        return {one["gate"] for one in self.tenants(job)}

    def at_gate(self, job, gate, act):
        """Acts when the job's gate is in this state on all GPUs. `closing` is brief."""
        deadline = time.monotonic() + 5
        while self.gates(job) != {gate} and time.monotonic() < deadline:
            pass
        act()

    def make_room(self, contexts, beside):
        """Changes for this test what each GPU has room for."""
        self.share(capacity=f"{contexts * self.context + beside}MiB")
        self.addCleanup(self.share, capacity=f"{self.each * self.context + self.beside}MiB")

    def two(self, *options, **more):
        jobs = [self.begin_gang(tag, options=options, **more) for tag in ("one", "other")]
        for tag in ("one", "other"):
            until(f"{tag} makes steps", lambda: self.steps(tag) >= 2, self.what_stands)
        self.take_turns(2)
        return jobs

    def two_end_right(self):
        for tag in ("one", "other"):
            self.goes_on(tag)
        for tag in ("one", "other"):
            self.ends_with_its_data(tag)

    def fails_and_harms_nobody(self, failed, other):
        """The first job has lost a process and ends; the other has the GPUs."""
        ended = self.wait(failed)
        self.assertEqual(ended["state"], "failed", ended)
        self.goes_on(other)
        self.ends_with_its_data(other)

    def movers(self):
        found = []
        for children in pathlib.Path(f"/proc/{self.m.daemon.pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += map(int, children.read_text().split())
        names = {}
        for pid in found:
            with contextlib.suppress(OSError):
                names[pid] = pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
        return [pid for pid in names if names[pid] == "gpuman-mover"]

    def daemon_begins_anew(self):
        self.m.stop_daemon(signal.SIGKILL)
        self.m.start_daemon()

    # --- Jobs of two processes that are not gpuman-load's ---

    def meeting(self, tag, *options, gpus=("0", "1"), ends="", **more):
        self.stop_of(ends or tag).unlink(missing_ok=True)
        words = [sys.executable, PROGRAM, self.stop_of(ends or tag), "--size", SIZE * MIB, *options]
        return self.start(tag, "exec " + " ".join(map(str, words)), gpus=list(gpus), share=True, **more)

    def stop_of(self, tag):
        return self.m.dir / f"stop.{tag}"

    def rounds(self, tag):
        file = self.m.dir / f"stop.{tag}.steps"
        return int(file.read_text() or 0) if file.exists() else 0

    def meets(self, tag, more=20):
        before = self.rounds(tag)
        until(f"{more} rounds of {tag} after {before}", lambda: self.rounds(tag) >= before + more, self.what_stands)

    def meeting_ends_with_its_data(self, tag, processes=2):
        self.stop_of(tag).touch()
        ended = self.wait(tag)
        self.assertEqual(ended["state"], "finished", self.log(tag)[-1500:])
        self.assertEqual(self.log(tag).count('"wrong": 0'), processes, self.log(tag)[-1500:])


class Processes(FaultsCase):
    def test_gang_ends_and_others_run_on_when_a_rank_dies(self):
        for gate in GATES:
            with self.subTest(gate=gate):
                one, other = self.two()
                victim = self.rank_pids("one")[1]
                self.at_gate(one, gate, lambda: self.kill(victim))
                self.fails_and_harms_nobody(one, "other")
                for job in (one, other):
                    self.request("DELETE", f"/v1/jobs/{job}")

    def test_a_launcher_restarts_its_ranks_in_the_middle_of_hand_overs(self):
        end = self.end_of("torchrun")
        end.unlink(missing_ok=True)
        words = self.words_of("torchrun", 2, "ddp", "vmm", "20ms", SIZE)
        launcher = self.start("torchrun", f"while [ ! -e {end} ]; do {words}; done", gpus=["0", "1"], share=True)
        other = self.gang("other")
        until("it makes steps", lambda: self.steps("torchrun") >= 2)
        self.take_turns(2)
        for number in range(4):
            before = set(self.rank_pids("torchrun"))
            victim = self.said("torchrun", "child")[-1 - number % 2]["child_pid"]
            self.at_gate(launcher, GATES[number % 2], lambda: self.kill(victim))
            until("new ranks make steps", lambda: {line["pid"] for line in self.last_said("torchrun", "step")} - before,
                  self.what_stands)
            self.take_turns(2)
        self.assertEqual(self.job(other)["state"], "running")
        end.touch()
        self.assertEqual(self.wait("torchrun")["state"], "finished", self.log("torchrun")[-1500:])
        self.assertEqual(self.said("torchrun", "mismatch"), [])
        self.goes_on("other")
        self.ends_with_its_data("other")

    def test_a_job_adds_a_gpu_after_its_start(self):
        go, end = self.m.dir / "go", self.end_of("wide")
        ranks = self.words_of("wide", 2, "ddp", "vmm", "20ms", SIZE // 2)
        # Of the 54 the processes need 24 beside their contexts; each job has 20 of its own, so that one fits. What an
        # old figure of the driver shows too much must not make a first allocation impossible.
        self.make_room(4, 54)
        narrow = self.begin_gang("narrow", gpus=[0], size=SIZE // 2)
        both = (f"CUDA_VISIBLE_DEVICES=${{CUDA_VISIBLE_DEVICES%%,*}} {ranks} & until [ -e {go} ]; do sleep 0.02; done; "
                f"CUDA_VISIBLE_DEVICES=${{CUDA_VISIBLE_DEVICES##*,}} {ranks} && wait $!")
        wide = self.start("wide", both, gpus=["0", "1"], share=True)
        for tag in ("narrow", "wide"):
            until(f"{tag} makes steps", lambda: self.steps(tag) >= 2, self.what_stands)
        far = self.begin_gang("far", gpus=[1], size=SIZE // 2)
        until("far makes steps", lambda: self.steps("far") >= 2, self.what_stands)
        go.touch()
        until("the wide one is on both", lambda: len(self.tenants(wide)) == 2, self.what_stands)
        self.take_turns(3)
        for tag in ("narrow", "far"):
            self.goes_on(tag)
        self.assertEqual({self.job(job)["state"] for job in (narrow, wide, far)}, {"running"})
        end.touch()
        self.assertEqual(self.wait("wide")["state"], "finished", self.log("wide")[-1500:])
        self.assertFalse([line for line in self.said("wide") if line.get("wrong_words") or line.get("exit")])
        for tag in ("narrow", "far"):
            self.ends_with_its_data(tag)

    def test_a_process_that_never_uses_the_gpu_again_keeps_nobody_from_his_turn(self):
        hold, before = self.load("2MiB", "--hold", "1h"), self.hand_overs()
        words = self.words_of("one", 2, "ddp", "vmm", "20ms", SIZE)
        self.end_of("one").unlink(missing_ok=True)
        self.make_room(3, 30)
        self.start("one", f"{hold} & {words}; status=$?; kill $!; exit $status", gpus=["0", "1"], share=True)
        self.gang("other")
        until("both make steps", lambda: self.steps("one") >= 2, self.what_stands)
        until("they take turns", lambda: self.hand_overs() >= before + 4, self.what_stands)
        self.two_end_right()

    def test_gang_that_records_graphs_takes_turns(self):
        capturing = self.meeting("capturing", "--second", "captures")
        self.meets("capturing", 3)
        self.gang("other")
        self.take_turns(4)
        self.meets("capturing", 3)
        self.goes_on("other")
        self.meeting_ends_with_its_data("capturing")
        self.ends_with_its_data("other")
        self.assertEqual(self.all_told("share_move_failed", capturing), [])

    def hand_overs_of_second(self):
        return self.share()["gpus"][1]["hand_overs"]

    def test_rank_gets_room_while_other_rank_waits_for_it_on_its_gpu(self):
        self.make_room(2, 12 * SIZE)
        self.gang("other", size=3 * SIZE)
        self.meeting("grows", "--second", "grows")
        self.meets("grows")
        before = self.hand_overs_of_second()
        until("they take turns there", lambda: self.hand_overs_of_second() >= before + 2, self.what_stands)
        self.goes_on("other")
        self.meeting_ends_with_its_data("grows")
        self.ends_with_its_data("other")

    def test_gang_with_rank_stopped_before_the_cut_does_not_yield(self):
        one, other = self.two()
        pid = self.rank_pids("one")[1]

        def told():
            return re.search(rf"process {pid} is stopped", self.job(one)["reason_detail"] or "")

        def stopped_at_work():
            if self.gates(one) != {"open"}:
                return False
            self.stop_process(pid)
            until("it is told, or behind its gate", lambda: told() or self.gates(one) == {"closed"}, self.what_stands)
            if told():
                return True
            self.kill(pid, signal.SIGCONT)
            self.goes_on("one", 1)
            return False
        until("it is stopped at work", stopped_at_work)
        self.learns_why_it_waits(other)
        until("with the reason", lambda: re.search(rf"the place of job {one} .*which does not yield: .*stopped",
                                                   self.job(other)["reason_detail"] or ""), self.what_stands)
        self.kill(pid, signal.SIGCONT)
        self.take_turns(2)
        self.two_end_right()

    def test_gang_with_rank_stopped_after_the_cut_goes_on(self):
        one, _ = self.two()
        pid = self.rank_pids("one")[1]

        def stopped_behind_gate():
            if self.gates(one) != {"closed"}:
                return False
            self.stop_process(pid)
            if self.gates(one) == {"closed"}:
                return True
            self.kill(pid, signal.SIGCONT)
            return False
        until("it is stopped behind its gate", stopped_behind_gate)
        before, told = self.steps("other"), len(self.all_told("share_not_yielded", one))
        # Its gate was just about to open, and the other rank works and waits for this one; or it gave its memory away.
        until("the other goes on, or it is told", lambda: self.steps("other") >= before + 10 or
              len(self.all_told("share_not_yielded", one)) > told, self.what_stands)
        self.kill(pid, signal.SIGCONT)
        self.take_turns(2)
        self.two_end_right()


class FailsOnOneGpu(FaultsCase):
    bus = "200MiB"  # a hand-over takes a tenth of a second at least

    def setUp(self):
        super().setUp()
        self.addCleanup(self.inject, "clear")

    def test_gangs_keep_their_data_when_the_mover_is_killed(self):
        self.two()
        for number in range(4):
            until("a hand-over is on its way", lambda: self.share()["gpus"][0]["handing_over"])
            time.sleep(0.03 * number)
            for pid in self.movers():
                self.kill(pid)
            self.take_turns(2)
        self.two_end_right()

    def test_gangs_keep_their_data_when_the_daemon_is_killed(self):
        one, _ = self.two()
        for number in range(4):
            self.at_gate(one, GATES[number % 2], self.daemon_begins_anew)
            until("both take part", lambda: len(self.turns()) == 2)
            self.take_turns(2)
        self.two_end_right()

    def test_gangs_keep_their_data_when_the_mover_fails_on_one_gpu(self):
        self.two()
        for number in range(6):
            what = [["copy-fail"], ["alloc-fail"], ["copy-fail", "--for-good"]][number % 3]
            self.inject(*what, "--nth", 1 + number % 2, "--gpu", number // 3)
            self.take_turns(2)
        self.two_end_right()

    def test_gangs_run_on_when_a_gpu_becomes_unhealthy(self):
        self.two()
        self.inject("xid", 62, "--gpu", 1)
        until("it is told", lambda: [event for event in self.events() if event["kind"] == "gpu_fault"])
        until("it is unhealthy", lambda: self.request("GET", "/v1/health").json()["gpus"][1]["health"]["state"] == "unhealthy")
        for tag in ("one", "other"):
            until("its log tells", lambda: "Xid 62" in self.log(tag))
        self.take_turns(4)
        self.two_end_right()

    def test_gang_fails_and_others_run_on_when_a_gpu_is_lost(self):
        gang = self.gang("one")
        beside = self.checking("beside", "--rest", 0.005, "--blocks", 8)
        until("they take turns", lambda: self.share()["gpus"][0]["hand_overs"] >= 4, self.what_stands)
        self.inject("lost", "--gpu", 1)
        ended = self.wait(gang)
        self.assertEqual(ended["state"], "failed", ended)
        self.assertRegex(self.log("one"), "DEVICE_UNAVAILABLE")
        self.inject("clear")
        until("it is back", lambda: all(gpu["memory"] for gpu in self.on_gpus()))
        had = self.turns()[beside]
        until("the other goes on", lambda: self.turns()[beside] > had)
        self.ends_right([beside])

    def test_gang_fails_when_a_rank_has_lost_its_context(self):
        one, _ = self.two()
        lost = self.rank_pids("one")[-1]
        until("its memory is away", lambda: self.gates(one) == {"closed"} and all(
            part["memory"]["away"] for part in self.tenants(one)), self.what_stands)
        self.inject("contexts-lost", "--pid", lost)
        self.fails_and_harms_nobody(one, "other")
        self.assertEqual({line["pid"] for line in self.said("one", "error") if "ECC" in line["message"]}, {lost})


class OneProcessFailsOnOneGpu(FailsOnOneGpu):
    """The ranks are threads of one process, whose memory of each GPU goes by itself."""
    peer = "threads"

    def test_daemon_that_learns_late_of_gpus_restores_memory_on_each(self):
        """Until then it does not know which memory is of which GPU."""
        self.two()
        for _ in range(3):
            until("a hand-over is on its way", lambda: self.share()["gpus"][1]["handing_over"])
            self.m.stop_daemon(signal.SIGKILL)
            self.inject("nvml-slow", "--delay", "200ms")
            self.m.start_daemon()
            self.inject("clear")
            until("both take part", lambda: len(self.turns()) == 2)
            self.take_turns(2)
        self.two_end_right()


class HostMemory(FaultsCase):
    def host_memory(self, size):
        file, log = pathlib.Path(self.m.env["GPUMAN_CONFIG"]), self.m.dir / "daemon.log"
        read = log.read_text().count("configuration read again")
        file.write_text(self.config + f'[suspend]\nhost_memory = "{size}MiB"\n')
        self.m.daemon.send_signal(signal.SIGHUP)
        until("it is read", lambda: log.read_text().count("configuration read again") > read)

    def test_gangs_keep_their_data_when_host_memory_is_too_small(self):
        for size in (SIZE // 2, 3 * SIZE // 2):  # for no rank, for one of two
            with self.subTest(host_memory=size):
                self.host_memory(ENOUGH)
                jobs = self.two()
                self.host_memory(size)
                before = self.failures()
                until("a move failed", lambda: self.failures() > before, self.what_stands)
                until("one has its turn", lambda: any(self.gates(job) == {"open"} for job in jobs), self.what_stands)
                self.host_memory(ENOUGH)
                self.take_turns(2)
                self.two_end_right()
                for job in jobs:
                    self.request("DELETE", f"/v1/jobs/{job}")

    def failures(self):
        return [event["kind"] for event in self.events()].count("share_move_failed")

    def test_suspend_of_gang_beyond_host_memory_is_refused(self):
        self.host_memory(ENOUGH)
        job = self.gang("one")
        self.host_memory(3 * SIZE // 2)  # for one rank of two
        answer = self.request("POST", f"/v1/jobs/{job}/suspend")
        self.assertEqual(answer.code(), "unsatisfiable", answer.body)
        self.assertRegex(answer.json()["error"]["message"], "MiB")
        self.assertEqual(self.job(job)["state"], "running")
        self.goes_on("one")
        self.host_memory(ENOUGH)
        answer = self.request("POST", f"/v1/jobs/{job}/suspend")
        self.assertEqual(answer.json().get("state"), "suspended", answer.body)
        answer = self.request("POST", f"/v1/jobs/{job}/resume")
        self.assertEqual(answer.json().get("state"), "running", answer.body)
        self.goes_on("one")
        self.ends_with_its_data("one")


class HostMemoryOfOneProcess(HostMemory):
    peer = "threads"


class WithoutTheLibrary(FaultsCase):
    """One of two processes runs without libgpuman.so, as a program does that is linked statically."""
    more = FaultsCase.more + '[suspend]\npatience = "1s"\n'

    def halves(self, tag, without):
        page, halves = self.m.dir / "page", []
        page.write_bytes(bytes(4096))
        self.stop_of(tag).unlink(missing_ok=True)
        for number, gpu in enumerate(("%%,*", "##*,")):
            words = [f"CUDA_VISIBLE_DEVICES=${{CUDA_VISIBLE_DEVICES{gpu}}}", *["LD_PRELOAD="] * (number == without),
                     sys.executable, PROGRAM, self.stop_of(tag), "--size", SIZE * MIB, "--only", number, "--page", page]
            halves.append(" ".join(map(str, words)))
        return self.start(tag, f"{halves[0]} & {halves[1]} && wait $!", gpus=["0", "1"], share=True)

    def most_hand_overs(self):
        return max((gpu["hand_overs"] for gpu in self.share()["gpus"]), default=0)

    def test_rank_without_library_works_on_while_its_gang_takes_turns(self):
        for without in (0, 1):
            with self.subTest(without=without):
                mixed = self.halves("mixed", without)
                self.meets("mixed")
                other, before = self.gang("other"), self.most_hand_overs()
                until("they take turns", lambda: self.most_hand_overs() >= before + 4, self.what_stands)
                self.meets("mixed")
                self.goes_on("other")
                self.assertEqual([len(self.tenants(job)) for job in (mixed, other)], [1, 2])
                self.meeting_ends_with_its_data("mixed")
                self.goes_on("other")
                self.ends_with_its_data("other")
                self.assertEqual(self.all_told("share_move_failed", mixed), [])
                for job in (mixed, other):
                    self.request("DELETE", f"/v1/jobs/{job}")

    def test_gang_with_rank_without_library_is_suspended_whole_or_runs_on(self):
        """Nothing holds it. If its work waits for the other one, the driver takes no checkpoint of it."""
        for without in (0, 1):
            with self.subTest(without=without):
                mixed = self.halves("mixed", without)
                self.meets("mixed")
                answer = self.request("POST", f"/v1/jobs/{mixed}/suspend")
                if answer.status == 200:
                    self.assertEqual(self.job(mixed)["state"], "suspended")
                    answer = self.request("POST", f"/v1/jobs/{mixed}/resume", {})
                    self.assertEqual((answer.status, answer.json()["state"]), (200, "running"), answer.body)
                else:
                    self.assertEqual(answer.code(), "unsatisfiable", answer.body)
                    self.assertRegex(answer.json()["error"]["message"], "process .* did not come to rest within 1s")
                    self.assertEqual(self.job(mixed)["state"], "running")
                    self.told("suspend_failed", mixed)
                self.meets("mixed")
                self.meeting_ends_with_its_data("mixed")
                self.request("DELETE", f"/v1/jobs/{mixed}")


class DoNotRest(FaultsCase):
    """Others wait for these jobs, and learn why."""
    more = 'retry = "100ms"\nyield_limit = "500ms"\n[log]\nlevel = "debug"\n'

    def test_gang_with_dead_rank_is_reported_as_not_yielding(self):
        meeting = self.meeting("widow")
        self.meets("widow")
        pids = [process["pid"] for gpu in self.on_gpus() for process in gpu["processes"] if process["job"] == meeting]
        other = self.begin_gang("other")
        self.kill(max(pids))
        self.told("share_not_yielded", meeting)
        view = self.job(meeting)
        self.assertRegex(view["reason_detail"], rf"did not come to rest within .*process {min(pids)} works on GPU 0")
        self.learns_why_it_waits(other)
        self.request("DELETE", f"/v1/jobs/{meeting}")
        self.goes_on("other")
        self.ends_with_its_data("other")

    def test_gang_with_rank_of_older_library_is_reported_as_not_yielding(self):
        old = self.meeting("old", "--second", "old")
        self.meets("old")
        self.begin_gang("other")
        told = self.told("share_not_yielded", old)
        self.assertRegex(told[0]["message"], "did not come to rest within 500ms: process .* works on GPU 0")
        self.meets("old")
        self.meeting_ends_with_its_data("old")
        self.goes_on("other")
        self.ends_with_its_data("other")

    def test_two_jobs_that_need_each_other_run_on_and_harm_nobody(self):
        page = self.m.dir / "page"
        page.write_bytes(bytes(4096))
        self.make_room(3, 5 * SIZE // 2)
        halves = [self.meeting(f"half{number}", "--only", number, "--page", page, gpus=["0"], ends="halves")
                  for number in range(2)]
        self.meets("halves")
        beside = self.checking("beside", "--rest", 0.005, "--blocks", 8, gpus=["1"])
        self.meets("halves")
        third = self.checking("third", "--rest", 0.005, "--blocks", 8, gpus=["0"])
        until("one of them is told of", lambda: any(self.all_told("share_not_yielded", half) for half in halves),
              self.what_stands)
        self.stop_of("halves").touch()
        for half in halves:
            ended = self.wait(half)
            self.assertEqual(ended["state"], "finished", self.log(half))
            self.assertIn('"wrong": 0', self.log(half))
        self.ends_right([beside, third])


if __name__ == "__main__":
    if not (build_dir() / "lib/libgpuman.so").exists():
        print("skipped: there is no libgpuman.so here")
        sys.exit(77)
    unittest.main(verbosity=2)

#!/usr/bin/env python3
"""Jobs that share a GPU, and faults: work that does not end, shims that do not answer, copies that fail, hosts without
memory, daemons that die; several processes, several GPUs. No data is wrong, and the jobs continue.

Usage: share_faults_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import contextlib
import os
import pathlib
import pwd
import signal
import subprocess
import sys
import time
import unittest

from share_many_test import ManyCase
from share_test import MIB, build_dir, program, until


class FaultsCase(ManyCase):
    # On a busy machine a job must not miss the end of its turn: the default yield_limit.
    gpus, more = 1, 'retry = "100ms"'

    def tearDown(self):
        super().tearDown()
        self.share(on_no_yield="wait")

    def two(self, *options):
        jobs = [self.checking(tag, "--rest", 0.005, *options) for tag in ("one", "other")]
        self.both_take_part(jobs)
        return jobs

    def both_take_part(self, jobs):
        until("both take part", lambda: all(self.tenant(job) for job in jobs))
        self.takes_turns(2)

    def told(self, kind, job):
        return until(f"{kind} of job {job}", lambda: [
            event for event in self.events() if event["kind"] == kind and event["job"] == job])

    def pid(self, job):
        return self.job(job)["pid"]


class UnmanagedProcessesAreEnded(FaultsCase):
    """The guard ends processes that were started outside gpuman; the processes that gpuman starts for its jobs are not
    among them."""
    more = (FaultsCase.more + f'\n[[limits.unmanaged]]\nuser = "{pwd.getpwuid(os.geteuid()).pw_name}"\nceiling = "1MiB"\naction = "enforce"\n'
            '[guard]\nunmanaged_victims = true\n')

    def test_jobs_that_share_and_movers_are_not_ended_as_unmanaged(self):
        stranger = subprocess.Popen([program("gpuman-load"), "--alloc", "2MiB", "--hold", "1h"], env=self.m.env, stdout=subprocess.DEVNULL)
        until("the stranger is ended", lambda: stranger.poll() is not None)
        jobs = self.two()
        self.takes_turns(4)
        on_gpu = self.on_gpus()[0]["processes"]
        self.assertIn("gpuman-mover", [process["name"] for process in on_gpu])
        self.assertEqual({process["name"] for process in on_gpu if process["gpuman"]}, {"gpuman-mover"})
        strangers = self.request("GET", "/v1/queue/info").json()["gpus"][0]["processes"]
        self.assertEqual([process["name"] for process in strangers if not process["gpuman"]], [])
        self.assertNotIn("gpuman-mover", self.m.run("info").stdout)
        self.assertRegex(self.m.run("proclist").stdout, r"\(gpuman\) +\S*gpuman-mover")
        self.assertEqual([event["data"]["pid"] for event in self.events() if event["kind"] == "unmanaged_limit"], [stranger.pid])
        self.ends_right(jobs)


class DoesNotYield(FaultsCase):
    """A job whose kernels take longer than the others wait."""
    more = 'yield_limit = "100ms"\nretry = "100ms"'
    beside = 6  # gpuman-load takes 2 MiB more

    def stubborn(self):
        """Works until `finish`."""
        self.end = self.m.dir / "finish"
        self.end.unlink(missing_ok=True)
        return self.start("stubborn", "exec " + self.load("2MiB", "--verify", "--json", "--kernel-time", "1500ms",
                                                          "--until", str(self.end)), gpus=["0"], share=True)

    def finishes(self, stubborn):
        self.end.touch()
        self.finishes_with_its_data(stubborn)

    def stubborn_and_other(self, how):
        self.share(on_no_yield=how)
        stubborn = self.stubborn()
        until("it works", lambda: '"alloc"' in self.log(stubborn))
        other = self.checking("other", "--rest", 0.005, "--blocks", 2)
        self.told("share_not_yielded", stubborn)
        return stubborn, other

    def test_job_that_never_yields_keeps_gpu_until_it_ends(self):
        stubborn, other = self.stubborn_and_other("wait")
        self.finishes(stubborn)
        until("the other had a turn", lambda: '"holds"' in self.log(other))
        self.ends_right([other])

    def test_job_that_never_yields_is_suspended_until_resumed(self):
        stubborn, other = self.stubborn_and_other("suspend")
        self.assertEqual(self.becomes(stubborn, "suspended")["reason"], "share_not_yielded")
        until("the other had a turn", lambda: '"holds"' in self.log(other))
        self.ends_right([other])
        self.request("POST", f"/v1/jobs/{stubborn}/resume")
        self.finishes(stubborn)

    def test_job_that_never_yields_is_ended_and_no_other(self):
        stubborn, other = self.stubborn_and_other("end")
        ended = self.wait(stubborn)
        self.assertEqual((ended["state"], ended["reason"], ended["signal"]), ("killed", "share_not_yielded", signal.SIGKILL))
        until("the other had a turn", lambda: '"holds"' in self.log(other))
        self.ends_right([other])


class DoesNotAnswer(FaultsCase):
    more = 'yield_limit = "100ms"\nretry = "100ms"'

    def gate(self, job):
        return (self.tenant(job) or {}).get("gate")

    def stop_where(self, jobs, gate):
        """Stops a job whose gate is in this state; returns the job. Where a job is ended for not giving its turn back,
        that may have come first, on a loaded machine also without being stopped: then it is that one."""
        def stopped():
            ended = self.ended(jobs)
            job = next((job for job in jobs if self.gate(job) == gate), None)
            if ended or not job:
                return ended
            pid = self.pid(job)
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):  # it is ended: see above
                os.kill(pid, signal.SIGSTOP)
                until("it stands", lambda: pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] in "TZ")
                if self.gate(job) == gate:
                    return job
                os.kill(pid, signal.SIGCONT)  # the gate changed first
            return None
        return until(f"one whose gate is {gate}", stopped)

    def ended(self, jobs):
        return next((job for job in jobs if self.job(job)["state"] != "running"), None)

    def stop_at_work(self, jobs):
        """Stops a job that works on the GPU, and waits until that is told of; returns the job. A job that is stopped
        before it has learned that its gate is open stays behind it, and keeps nobody out. Where jobs are ended for not
        giving their turn back, the other one may have been before: then it is that one, and nothing is stopped."""
        def times_told(job):
            return [event["job"] for event in self.events() if event["kind"] == "share_not_yielded"].count(job)

        def stopped():
            seen = {job: times_told(job) for job in jobs}
            job = self.stop_where(jobs, "open")

            def told():
                return times_told(job) > seen[job]
            if until("it is told of, behind its gate, or one has ended", lambda: (told() and "told") or self.ended(jobs) or
                     (self.gate(job) == "closed" and "behind its gate"), self.what_stands) == "told":
                return job
            with contextlib.suppress(ProcessLookupError, FileNotFoundError, TypeError):  # it has ended: it has no pid
                os.kill(self.pid(job), signal.SIGCONT)
            # What this attempt caused may be told, or done, a moment later.
            until("it goes on, or is told of", lambda: told() or self.ended(jobs) or self.gate(job) == "open")
            return self.ended(jobs)
        return until("one is stopped at work", stopped)

    def test_stopped_job_is_reported_and_goes_on_when_continued(self):
        jobs = self.two()
        for _ in range(3):
            stopped = self.stop_at_work(jobs)
            os.kill(self.pid(stopped), signal.SIGCONT)
            self.takes_turns(6)
        self.ends_right(jobs)

    def test_job_stopped_out_of_its_turn_takes_no_other_turn(self):
        jobs = self.two()
        for _ in range(3):
            stopped = self.stop_where(jobs, "closed")
            other = next(job for job in jobs if job != stopped)
            # It was idle, or it waited at its gate: then it gets its turn, and does not give it back. Or its memory was on
            # the way out: then it does not leave.
            until("the other runs, or that is said", lambda: self.tenant(other)["gate"] == "open" or
                  "does not" in (self.tenant(stopped)["detail"] or ""), lambda: (stopped, self.what_stands()))
            os.kill(self.pid(stopped), signal.SIGCONT)
            self.takes_turns(6)
        self.ends_right(jobs)

    def test_stopped_job_is_ended_where_configured(self):
        jobs = self.two()
        self.share(on_no_yield="end")
        stopped = self.stop_at_work(jobs)
        self.assertEqual(self.wait(stopped)["reason"], "share_not_yielded")
        jobs.remove(stopped)
        until("the other runs alone", lambda: self.tenant(jobs[0])["gate"] == "open")
        self.ends_right(jobs)


class FullHost(FaultsCase):
    beside = 2

    def host_memory(self, size):
        file, log = pathlib.Path(self.m.env["GPUMAN_CONFIG"]), self.m.dir / "daemon.log"
        read = log.read_text().count("configuration read again")
        file.write_text(self.config + f'[suspend]\nhost_memory = "{size}"\n')
        self.m.daemon.send_signal(signal.SIGHUP)
        until("it is read", lambda: log.read_text().count("configuration read again") > read)

    def test_jobs_go_on_when_full_host_memory_has_room_again(self):
        for size in ("1MiB", "3MiB"):  # room for no job; room for one of the two
            with self.subTest(host_memory=size):
                self.host_memory("1GiB")
                jobs = self.two()
                self.host_memory(size)
                before = self.kinds().count("share_move_failed")
                until("a move failed", lambda: self.kinds().count("share_move_failed") > before)
                until("one of them runs on", lambda: [j for j in jobs if self.tenant(j)["gate"] == "open"])
                away = sum(self.tenant(job)["memory"]["away"] for job in jobs)
                self.assertLessEqual(away, 2 * MIB)
                self.host_memory("1GiB")
                self.takes_turns(6)
                self.ends_right(jobs)
                self.stop.unlink()


class CopiesFail(FaultsCase):
    def test_failed_copy_or_allocation_of_the_mover_is_retried(self):
        jobs = self.two("--blocks", 1)
        for number in range(12):
            self.inject("copy-fail" if number % 3 else "alloc-fail", "--nth", 1 + number % 4)
            self.takes_turns(4)
        self.ends_right(jobs)

    def test_mover_that_lost_its_context_is_replaced(self):
        jobs = self.two()
        for number in range(4):
            self.inject("copy-fail", "--nth", 1 + number, "--for-good")
            self.takes_turns(6)
        self.ends_right(jobs)


class InTheMiddle(FaultsCase):
    bus = "8MiB"  # a hand-over takes a quarter of a second at least

    def test_jobs_keep_their_data_when_daemon_is_killed_in_hand_overs(self):
        jobs = self.two()
        for number in range(8):
            before = self.hand_overs()
            until("a hand-over is on its way", lambda: self.gpu()["handing_over"] or self.hand_overs() > before + 1)
            time.sleep(0.04 * number)
            self.m.stop_daemon(signal.SIGKILL)
            self.m.start_daemon()
            self.both_take_part(jobs)
        self.ends_right(jobs)


class SeveralProcesses(FaultsCase):
    each, beside = 4, 7

    def test_the_processes_of_a_job_have_their_turns_together(self):
        family = self.checking("family", "--rest", 0.005, "--children", 3)
        alone = self.checking("alone", "--rest", 0.005, "--blocks", 2)
        until("all hold their memory", lambda: self.log(family).count("holds") == 3 and '"holds"' in self.log(alone))
        for _ in range(5):
            self.takes_turns(10)
            self.keeps_within_the_devices_capacity()
        rounds = self.ends_right([family, alone])
        self.assertEqual(len(rounds[family]), 3)
        self.assertGreater(min(rounds[family]), 2)


class SeveralGpus(FaultsCase):
    gpus = 2

    def test_a_job_on_two_gpus_runs_on_both_or_on_none(self):
        wide = self.checking("wide", "--rest", 0.005, "--children", 2, "--each-its-gpu", gpus=["0", "1"])
        single = [self.checking(f"single{gpu}", "--rest", 0.005, gpus=[str(gpu)]) for gpu in range(2)]
        jobs = [wide, *single]
        until("all hold their memory", lambda: sum(self.log(job).count("holds") for job in jobs) == 4)

        def open_on(gpu):
            return {job["id"] for job in gpu["jobs"] if job["gate"] == "open"}
        # A new job brings its contexts while the others run; they make room for the contexts afterwards.
        until("a hand-over has ended on each GPU", lambda: all(gpu["hand_overs"] > 0 for gpu in self.share()["gpus"]))
        seen = set()
        for _ in range(400):
            gpus = self.share()["gpus"]
            for gpu in gpus:
                self.assertLessEqual(len(open_on(gpu)), 1, (gpus, self.events()))
                seen |= open_on(gpu)
            self.assertEqual(wide in open_on(gpus[0]), wide in open_on(gpus[1]))
            self.keeps_within_the_devices_capacity()
            time.sleep(0.01)
        self.assertEqual(seen, set(jobs))
        rounds = self.ends_right(jobs)
        self.assertGreater(min(min(one) for one in rounds.values()), 2)


if __name__ == "__main__":
    if not (build_dir() / "lib/libgpuman.so").exists():
        print("skipped: there is no libgpuman.so here")
        sys.exit(77)
    unittest.main(verbosity=2)

#!/usr/bin/env python3
"""Jobs whose processes wait for each other on their GPUs, as data-parallel training does: if they were held one by one,
they would stand still for ever. They come to rest together, because some of them make a few calls more. A job that
cannot be brought to rest continues whatever a user asks of it, and a job that waits for its place learns why.

Usage: share_meeting_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)

meeting_program.py describes the simulated work. pair_program.py has processes that share memory and do come to rest.
"""

import pathlib
import re
import signal
import sys
import time
import unittest

from queue_test import QueueCase
from share_many_test import ManyCase
from share_test import build_dir, learn_what_a_context_takes, until
from daemon_case import MIB, DaemonTest  # noqa: E402, I100
import event_data  # noqa: E402, I100

PROGRAM = pathlib.Path(__file__).with_name("meeting_program.py")
PAIR = pathlib.Path(__file__).with_name("pair_program.py")


class Meets:
    """For a DaemonTest: jobs whose processes wait for each other, and their results."""
    NEVER_RESTS = "--by-host"

    def meeting(self, tag, *options, gpus=("0", "1"), program=PROGRAM, **more):
        for old in self.m.dir.glob(f"stop.{tag}*"):
            old.unlink()
        words = [sys.executable, program, self.m.dir / f"stop.{tag}", *options]
        return self.start(tag, "exec " + " ".join(map(str, words)), gpus=list(gpus), **more)

    def end(self, tag):
        (self.m.dir / f"stop.{tag}").touch()

    def steps(self, tag):
        file = self.m.dir / f"stop.{tag}.steps"
        return int(file.read_text() or 0) if file.exists() else 0

    def goes_on(self, tag, more=30):
        before = self.steps(tag)
        until(f"{more} steps of {tag} after {before}", lambda: self.steps(tag) >= before + more)

    def ends_with_its_data(self, tag):
        self.end(tag)
        ended = self.wait(tag)
        self.assertEqual(ended["state"], "finished", self.log(tag)[-1500:])
        self.assertEqual(self.log(tag).count('"wrong": 0'), 2, self.log(tag)[-1500:])

    def told(self, kind, job):
        return until(f"{kind} of job {job}", lambda: self.all_told(kind, job))

    def all_told(self, kind, job):
        return [event for event in self.events() if event["kind"] == kind and event["job"] == job]

    def has_documented_data(self, event):
        """Of an event of a suspension: the documents name all its data, UUID in place of a GPU's."""
        names = {re.sub(r"GPU-[-0-9a-f]+", "UUID", name) for name in event["data"]}
        self.assertLessEqual(names, event_data.of_suspensions(), event)

    def gates(self, job):
        answer = self.request("GET", "/v1/share").json()
        return {gpu["uuid"]: one["gate"] for gpu in answer["gpus"] for one in gpu["jobs"] if one["id"] == job}

    def suspension_fails_and_it_goes_on(self, tag, job):
        answer = self.request("POST", f"/v1/jobs/{job}/suspend")
        self.assertEqual(answer.code(), "unsatisfiable", answer.body)
        self.assertRegex(answer.json()["error"]["message"], "did not come to rest")
        view = self.job(job)
        self.assertEqual((view["state"], view["reason"]), ("running", "suspend_failed"))
        event = self.all_told("suspend_failed", job)[-1]
        self.has_documented_data(event)
        if "milliseconds_rest" in event["data"]:
            self.assertEqual(event["data"]["units"], 2, event)
            self.assertGreaterEqual(event["data"]["working"], 1, event)
        self.goes_on(tag)


class Documents(unittest.TestCase):
    def test_page_lists_exactly_the_events_of_sharing(self):
        told = set()
        for folder in ("src/share", "src/daemon/sharing"):
            for source in (event_data.ROOT / folder).glob("*.cc"):
                if not source.stem.endswith("_test"):
                    told |= set(re.findall(r'(?:Report|Tell)\([^;]*?"(share_\w+)"', source.read_text()))
        self.assertEqual(told, event_data.kinds_of_sharing())


class TurnsCase(ManyCase, Meets):
    """Two GPUs, each with room for the contexts of two processes and the memory of one."""
    gpus, more = 2, 'yield_limit = "200ms"\nretry = "100ms"\n[suspend]\npatience = "1s"\n[log]\nlevel = "debug"\n'

    def tenant(self, job):
        return next((one for gpu in self.share()["gpus"] for one in gpu["jobs"] if one["id"] == job), None)

    def late_attempts(self):
        return self.metric("gpuman_rest_attempts_total", processes="several", result="late")

    def waits_for(self, job, obstacle):
        """Every view names the job that it waits for."""
        until("it waits for one that does not yield",
              lambda: (one := self.tenant(job)) and one["waits_for"] == "yield" and one)
        # It does not wait for it while the other one is asked again.
        until("and so does its job", lambda: (one := self.job(job))["reason"] == "share_wait" and re.search(
            rf"waits for the place of job {obstacle} .*which does not yield: .*come to rest", one["reason_detail"]))
        until("and the list", lambda: f"job {obstacle} does not yield: " in self.m.run("share", "status").stdout)


class TakingTurns(TurnsCase):
    def test_second_gang_waits_with_the_reason_when_first_does_not_rest(self):
        late = self.late_attempts()  # of the tests before
        one = self.meeting("one", self.NEVER_RESTS, share=True)
        self.goes_on("one")
        other = self.meeting("other", self.NEVER_RESTS, share=True)
        # It is asked again later, with more time.
        self.assertRegex(self.told("share_not_yielded", one)[0]["message"], "did not come to rest within 200ms")
        self.waits_for(other, one)
        self.goes_on("one", 100)
        view = self.job(one)
        self.assertEqual((view["state"], view["reason"]), ("running", "share_not_yielded"))
        # From then on it has its place for sixteen seconds. Asked while it only frees its memory, it would yield to the
        # other one, which does not.
        until("its gate was asked for again", lambda: self.late_attempts() >= late + 2)
        self.goes_on("one", 100)
        told = self.all_told("share_not_yielded", one)
        self.assertEqual(len(told), 1, "told once")
        self.assertEqual(told[0]["data"].keys(), event_data.of_sharing("share_not_yielded"))
        self.assertEqual(told[0]["data"]["units"], 2)
        self.assertGreaterEqual(told[0]["data"]["working"], 1)
        self.ends_with_its_data("one")
        self.goes_on("other")
        self.ends_with_its_data("other")

    def test_ordinary_job_waits_beside_gang_and_one_that_fits_runs(self):
        meeting = self.meeting("meeting", self.NEVER_RESTS, share=True)
        self.goes_on("meeting")
        plain = self.checking("plain", "--rest", 0.005)
        self.told("share_not_yielded", meeting)
        self.waits_for(plain, meeting)
        self.goes_on("meeting")
        self.ends_with_its_data("meeting")
        until("it has its place", lambda: '"holds"' in self.log(plain))
        self.ends_right([plain])

    def test_earlier_ordinary_job_yields_to_gang_and_then_waits(self):
        plain = self.checking("plain", "--rest", 0.005)
        until("it holds its memory", lambda: '"holds"' in self.log(plain))
        meeting = self.meeting("meeting", self.NEVER_RESTS, share=True)
        self.goes_on("meeting")
        self.told("share_not_yielded", meeting)
        self.waits_for(plain, meeting)
        self.goes_on("meeting")
        self.ends_with_its_data("meeting")
        self.ends_right([plain])

    def test_gang_whose_suspension_fails_goes_on_with_open_gates(self):
        meeting = self.meeting("meeting", self.NEVER_RESTS, share=True)
        self.goes_on("meeting")
        plain = self.checking("plain", "--rest", 0.005)
        until("the other is there", lambda: self.tenant(plain))
        for _ in range(2):
            self.suspension_fails_and_it_goes_on("meeting", meeting)
            until("its gates are open", lambda: set(self.gates(meeting).values()) == {"open"})
        self.ends_with_its_data("meeting")
        self.ends_right([plain])

    def test_gang_goes_on_when_suspension_for_not_yielding_fails(self):
        self.share(on_no_yield="suspend")
        self.addCleanup(self.share, on_no_yield="wait")
        meeting = self.meeting("meeting", self.NEVER_RESTS, share=True)
        self.goes_on("meeting")
        plain = self.checking("plain", "--rest", 0.005)
        self.told("suspend_failed", meeting)
        self.goes_on("meeting", 100)
        self.ends_with_its_data("meeting")
        self.ends_right([plain])

    def test_gang_goes_on_when_daemon_is_killed_during_attempt(self):
        meeting = self.meeting("meeting", self.NEVER_RESTS, share=True)
        self.goes_on("meeting")
        plain = self.checking("plain", "--rest", 0.005)
        for _ in range(3):
            until("its gate is asked for", lambda: "closing" in self.gates(meeting).values())
            self.m.stop_daemon(signal.SIGKILL)
            self.m.start_daemon()
            until("it takes part again", lambda: self.tenant(meeting))
            self.goes_on("meeting")
        self.ends_with_its_data("meeting")
        self.ends_right([plain])


class Resting(TurnsCase):
    """A job may be a long time on its way to rest."""
    more = TurnsCase.more.replace("200ms", "8s", 1)

    def test_status_names_process_that_is_not_at_rest(self):
        one = self.meeting("one", self.NEVER_RESTS, share=True)
        self.goes_on("one")
        other = self.meeting("other", self.NEVER_RESTS, share=True)
        view = until("it is named what is not at rest", lambda: (t := self.tenant(one)) and (
            t["detail"] or "").startswith("is not at rest") and t)
        self.assertEqual((view["gate"], view["resting"]["units"]), ("closing", 2), view)
        self.assertLess(view["resting"]["at_rest"], 2, view)
        self.assertGreaterEqual(view["resting"]["milliseconds"], 1000, view)
        self.assertRegex(view["detail"], r"^is not at rest after \S+: process \d+ ")
        shown = until("the table says so", lambda: "is not at rest" in (s := self.m.run("share", "status").stdout) and s)
        self.assertRegex(shown, r"one +closing \([01] of 2 at rest\)")
        self.assertRegex(shown, r"\none: is not at rest after .*: process \d+ ")
        self.told("share_not_yielded", one)
        until("it is over", lambda: (t := self.tenant(one)) and t["gate"] == "open" and not t["resting"])
        self.goes_on("one")
        self.request("DELETE", f"/v1/jobs/{other}")
        self.ends_with_its_data("one")


class WithoutCallGrants(TurnsCase):
    """The administrator has switched the granting of calls off."""
    more = TurnsCase.more.replace("[suspend]", "step = false\n[suspend]", 1)

    def test_gangs_do_not_yield_until_call_grants_are_switched_on(self):
        one = self.meeting("one", share=True)
        self.goes_on("one")
        other = self.meeting("other", share=True)
        self.told("share_not_yielded", one)
        self.waits_for(other, one)
        view = self.job(one)
        self.assertEqual((view["state"], view["reason"]), ("running", "share_not_yielded"))
        self.assertRegex(view["reason_detail"], "share.step is off")
        self.suspension_fails_and_it_goes_on("one", one)
        self.assertRegex(self.job(one)["reason_detail"], "share.step is off")
        self.assertFalse(self.share()["settings"]["step"])
        self.assertRegex(self.m.run("share", "set", "--step", "on").stdout, r"step +on\n")
        until("they take turns", lambda: min(gpu["hand_overs"] for gpu in self.share()["gpus"]) >= 4)
        for tag in ("one", "other"):
            self.ends_with_its_data(tag)
        self.m.daemon.send_signal(signal.SIGHUP)
        until("the file has been read again", lambda: not self.share()["settings"]["step"])


class TogetherCase(ManyCase, Meets):
    """As TurnsCase, with the time that a job has to come to rest by default."""
    gpus, more = 2, '[log]\nlevel = "debug"\n'

    def hand_overs(self):
        return min(gpu["hand_overs"] for gpu in self.share()["gpus"])


class Together(TogetherCase):
    def test_two_gangs_take_turns_on_both_gpus_and_keep_their_data(self):
        jobs = [self.meeting(tag, share=True) for tag in ("one", "other")]
        until("they take turns", lambda: self.hand_overs() >= 20, self.what_stands)
        for tag in ("one", "other"):
            self.goes_on(tag)
            self.ends_with_its_data(tag)
        # One that still takes its memory is let go at once, and asked again.
        told = [event["message"] for job in jobs for event in self.all_told("share_not_yielded", job)]
        self.assertEqual([message for message in told if "waits for room" not in message], [])
        rested = self.metric("gpuman_rest_attempts_total", processes="several", result="rested")
        self.assertGreaterEqual(rested, 20)
        self.assertEqual(self.metric("gpuman_rest_seconds_count", processes="several"), rested)
        self.assertGreater(self.metric("gpuman_rest_steps_total"), 0)

    def test_gang_takes_turns_with_ordinary_job_on_one_of_its_gpus(self):
        meeting = self.meeting("meeting", share=True)
        self.goes_on("meeting")
        plain = self.checking("plain", "--rest", 0.005)
        until("they take turns", lambda: max(gpu["hand_overs"] for gpu in self.share()["gpus"]) >= 10)
        self.goes_on("meeting")
        self.ends_with_its_data("meeting")
        self.ends_right([plain])
        self.assertEqual(self.all_told("share_not_yielded", meeting), [])


class SharesMemory(TurnsCase):
    """Of such a job the shared memory stays, beside another job that has its turns on one of the GPUs."""
    profile, context, beside = "h200", 518, 5  # these GPUs reach each other
    more = TurnsCase.more.replace('patience = "1s"', 'patience = "1m"')

    def test_job_that_shares_memory_takes_turns_and_can_be_suspended(self):
        pair = self.meeting("pair", program=PAIR, share=True)
        self.goes_on("pair")
        plain = self.checking("plain", "--rest", 0.005)
        until("both have had turns", lambda: self.all_have_had([pair, plain], 0.1))
        for _ in range(3):
            self.goes_on("pair")
            answer = self.request("POST", f"/v1/jobs/{pair}/suspend")
            self.assertEqual(answer.status, 200, answer.body)
            view = answer.json()
            self.assertEqual((view["state"], len(view["memory"]["left"])), ("suspended", 2), view)
            for gpu, left in view["memory"]["left"].items():
                self.assertEqual(self.metric("gpuman_left_bytes", uuid=gpu), left)
            before = self.steps("pair")
            had = self.turns()[plain]
            until("the other has its turns meanwhile", lambda: self.turns()[plain] > had + 0.1)
            self.assertLessEqual(self.steps("pair"), before + 2)  # that were over on the GPU, and are written down now
            answer = self.request("POST", f"/v1/jobs/{pair}/resume")
            self.assertEqual((answer.status, answer.json().get("state")), (200, "running"), answer.body)
        self.assertEqual(self.metric("gpuman_left_bytes"), 0)
        for kind in ("job_suspended", "job_resumed"):
            for event in self.all_told(kind, pair):
                self.has_documented_data(event)
                self.assertEqual(len([name for name in event["data"] if name.startswith("left.")]), 2, event)
        self.goes_on("pair")
        self.ends_with_its_data("pair")
        self.ends_right([plain])


class SuspendedCase(DaemonTest, Meets):
    """With memory that is worth an eviction, and without."""
    gpus, memory, config = 2, "4GiB", '[sampling]\nrest = "20ms"\n'

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        learn_what_a_context_takes(cls.m)


class Suspended(SuspendedCase):
    config = SuspendedCase.config + '[suspend]\npatience = "1s"\n'

    def test_job_that_does_not_rest_runs_on_after_failed_suspend(self):
        for share in (True, False):
            for size in (96 * MIB, 2 * MIB):
                with self.subTest(share=share, size=size):
                    tag = f"m{share}{size}"
                    job = self.meeting(tag, "--size", size, self.NEVER_RESTS, share=share)
                    self.goes_on(tag)
                    for _ in range(2):
                        self.suspension_fails_and_it_goes_on(tag, job)
                    self.assertTrue(set(self.gates(job).values()) <= {"open"})
                    self.ends_with_its_data(tag)

    def test_job_on_one_gpu_that_does_not_rest_runs_on_after_failed_suspend(self):
        job = self.meeting("narrow", "--size", 96 * MIB, self.NEVER_RESTS, gpus=["0"], share=True)
        self.goes_on("narrow")
        self.suspension_fails_and_it_goes_on("narrow", job)
        self.ends_with_its_data("narrow")


class ComesBack(SuspendedCase):
    """With as much time to come to rest as a busy machine takes."""
    config = SuspendedCase.config + '[suspend]\npatience = "1m"\n'

    def leaves_and_comes_back(self, tag, job):
        for _ in range(3):
            answer = self.request("POST", f"/v1/jobs/{job}/suspend")
            self.assertEqual((answer.status, answer.json().get("state")), (200, "suspended"), answer.body)
            before = self.steps(tag)
            time.sleep(0.4)  # those that were over on the GPU may still be written down
            self.assertLessEqual(self.steps(tag), before + 30, "it makes no steps")
            answer = self.request("POST", f"/v1/jobs/{job}/resume")
            self.assertEqual((answer.status, answer.json().get("state")), (200, "running"), answer.body)
            self.goes_on(tag)
        self.ends_with_its_data(tag)

    def test_processes_of_gang_are_suspended_together_and_keep_their_data(self):
        for size in (96 * MIB, 2 * MIB):
            for gpus in (["0", "1"], ["0"]):
                with self.subTest(size=size, gpus=gpus):
                    tag = f"t{size}{len(gpus)}"
                    job = self.meeting(tag, "--size", size, gpus=gpus, share=True)
                    self.goes_on(tag)
                    self.leaves_and_comes_back(tag, job)


class Pressure(DaemonTest, Meets):
    """A GPU that runs full: the guard ends a job that cannot leave it, as without suspension; the job blocks no
    other.

    Programs can have 1311 MiB of it, and a context takes 104 MiB. HIGH fits beside the reserve, a mover and the contexts
    that stay of the other job, and does not fit beside the reserve and the other job."""
    gpus, memory = 2, "1536MiB"
    SIZE, HIGH = 256 * MIB, "540MiB"
    config = ('[sampling]\nrest = "20ms"\n[guard]\nreserve = "384MiB"\non_pressure = "suspend"\n'
              '[suspend]\npatience = "500ms"\n')

    def test_job_that_does_not_rest_is_ended_with_that_reason(self):
        for share in (False, True):
            with self.subTest(share=share):
                tag = f"low{share}"
                job = self.meeting(tag, "--size", self.SIZE, self.NEVER_RESTS, share=share, priority=10)
                self.goes_on(tag)
                high = self.start(f"high{share}", "exec " + self.load(self.HIGH, "--hold", "1h"), gpus=["0"], priority=200)
                ended = self.wait(job)
                self.assertEqual((ended["state"], ended["reason"]), ("killed", "device_pressure"), ended)
                self.assertRegex(ended["reason_detail"], "did not come to rest")
                self.assertEqual(self.job(high)["state"], "running")
                self.request("DELETE", f"/v1/jobs/{high}")
                self.wait(high)


class PressureInTime(DaemonTest, Meets):
    gpus, memory, config = Pressure.gpus, Pressure.memory, Pressure.config.replace('"500ms"', '"1m"')

    def test_sharing_job_is_suspended_and_comes_back_when_there_is_room(self):
        job = self.meeting("leaves", "--size", Pressure.SIZE, share=True, priority=10)
        self.goes_on("leaves")
        high = self.start("room", "exec " + self.load(Pressure.HIGH, "--hold", "1h"), gpus=["0"], priority=200)
        view = self.becomes("leaves", "suspended")
        self.assertEqual(view["reason"], "device_pressure", view)
        self.assertEqual(self.job(high)["state"], "running")
        self.request("DELETE", f"/v1/jobs/{high}")
        self.becomes("leaves", "running")
        self.goes_on("leaves")
        self.ends_with_its_data("leaves")


class Preempted(QueueCase, Meets):
    """The queue makes room in each way: the other job starts, and afterwards this one continues."""
    profile, gpus, memory = "h200", 2, "4GiB"
    config = '[queue]\npreempt_after = "0s"\n[suspend]\npatience = "500ms"\n'

    def test_job_that_does_not_rest_makes_room_and_continues_later(self):
        script = f"exec {sys.executable} {PROGRAM} {self.m.dir / 'stop.low'} --size {96 * MIB}"
        low = self.submit(script, gpus=2, preemptible=True, priority=10)
        self.goes_on("low")
        urgent = self.submit(self.gate("end"), gpus=2, priority=250)
        self.becomes(urgent, "running")
        self.assertIn(self.job(low)["state"], ("queued", "suspended"))
        self.open("end")
        self.becomes(low, "running")
        self.goes_on("low")
        self.end("low")
        self.assertEqual(self.wait(low)["state"], "finished", self.log(low))


class PreemptedInTime(QueueCase, Meets):
    profile, gpus, memory = Preempted.profile, Preempted.gpus, Preempted.memory
    config = Preempted.config.replace('"500ms"', '"1m"')

    def test_sharing_job_is_suspended_and_keeps_its_data(self):
        script = f"exec {sys.executable} {PROGRAM} {self.m.dir / 'stop.shares'} --size {96 * MIB}"
        low = self.submit(script, gpus=2, share=True, memory="1536MiB", preemptible=True, priority=10)
        self.goes_on("shares")
        urgent = self.submit(self.gate("end-too"), gpus=2, priority=250)
        self.becomes(urgent, "running")
        self.assertEqual(self.job(low)["state"], "suspended")
        self.open("end-too")
        self.becomes(low, "running")
        self.goes_on("shares")
        self.end("shares")
        self.assertEqual(self.wait(low)["state"], "finished", self.log(low))
        self.assertEqual(self.log(low).count('"wrong": 0'), 2)


if __name__ == "__main__":
    if not (build_dir() / "lib/libgpuman.so").exists():
        print("skipped: there is no libgpuman.so here")
        sys.exit(77)
    unittest.main(verbosity=2)

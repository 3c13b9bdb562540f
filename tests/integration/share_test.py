#!/usr/bin/env python3
"""Jobs that share a GPU and do not fit together: they take turns, and none of them sees a wrong byte.

Usage: share_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)

Sharing may use 222 MiB of the GPU, of which each context takes 106: small jobs, since the simulated GPU is slow.
"""

import contextlib
import json
import os
import pathlib
import re
import signal
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from daemon_case import DaemonTest, MIB, until  # noqa: E402
from machine import build_dir, program  # noqa: E402

EVICT_PROBE = str(pathlib.Path(__file__).resolve().parents[1] / "shim" / "evict_probe.py")


def learn_what_a_context_takes(machine):
    """Runs a first job, so that the daemon learns what a context takes."""
    machine.run_json("run", "--tag", "first", "--gpu", "0", "--detach", "--", program("gpuman-load"), "--alloc", "4MiB",
                     "--hold", "1h")
    until("what a context takes is known", (machine.dir / "lib" / "contexts.json").exists)
    machine.api("DELETE", "/v1/jobs/first")


class ShareCase(DaemonTest):
    gpus, memory = 1, "4GiB"
    config = """
[sampling]
rest = "20ms"
[share]
capacity = "222MiB"
quantum_min = "50ms"
quantum_max = "200ms"
idle = "20ms"
"""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        learn_what_a_context_takes(cls.m)

    def busy(self, tag, size="8MiB", iterations=8, options=(), **more):
        """Starts a load that works on its memory all the time, and verifies it at the end."""
        options = ["--verify", "--kernel-time", "1ms", "--json", "--step", "4MiB", *options]
        if iterations is not None:
            options += ["--iterations", str(iterations)] if iterations else ["--hold", "1h"]
        return self.start(tag, "exec " + self.load(size, *options), gpus=["0"], share=True, **more)

    def share(self, **settings):
        answer = self.request("PUT", "/v1/share", settings) if settings else self.request("GET", "/v1/share")
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json()

    def gpu(self):
        gpus = self.share()["gpus"]
        return gpus[0] if gpus else {"hand_overs": 0, "jobs": [], "contended": False, "capacity": None, "demand": 0}

    def tenant(self, job):
        return next((one for one in self.gpu()["jobs"] if one["id"] == job), None)

    def hand_overs(self):
        return self.gpu()["hand_overs"]

    def takes_turns(self, more=3):
        """Waits for this many more hand-overs."""
        before = self.hand_overs()
        until(f"{more} hand-overs after {before}", lambda: self.hand_overs() >= before + more, self.what_stands)

    def keeps_within_capacity(self):
        """The pinned memory is the driver's figure minus the job's own: two figures of different moments, while memory
        leaves."""
        def within(gpu):
            here = sum(job["memory"]["resident"] + job["memory"]["pinned"] for job in gpu["jobs"])
            return here <= gpu["capacity"] + 8 * MIB
        until("no GPU has more than its capacity", lambda: all(within(gpu) for gpu in self.share()["gpus"]))

    def finishes_with_its_data(self, ref):
        ended = self.wait(ref)
        self.assertEqual(ended["state"], "finished", self.log(ref)[-1500:] + json.dumps(self.share()))
        said = [json.loads(line) for line in self.log(ref).splitlines() if line.startswith("{")]
        self.assertTrue([e for e in said if e["event"] == "verify"], self.log(ref)[-1500:])
        self.assertFalse([e for e in said if e["event"] == "verify" and e["wrong_words"]])

    def kinds(self):
        return [event["kind"] for event in self.events()]


class HostBudget(ShareCase):
    config = ShareCase.config.replace("222MiB", "340MiB") + '[suspend]\nhost_memory = "200MiB"\n'

    def test_memory_evicted_for_a_turn_counts_for_the_host_budget(self):
        turns = [self.busy(tag, "120MiB", iterations=0) for tag in ("first", "second")]
        self.start("plain", "exec " + self.load("8MiB", "--hold", "1h", "--json"), gpus=["0"])
        until("it has memory", lambda: (self.job("plain")["memory"]["used"] or 0) > 8 * MIB)
        # The job stays there: during a hand-over host memory would have to hold both.
        until("one is away", lambda: any(job["memory"]["away"] >= 100 * MIB for job in self.gpu()["jobs"]))
        refused = self.request("POST", "/v1/jobs/plain/suspend")
        self.assertEqual(refused.code(), "unsatisfiable", refused.body)
        self.assertRegex(refused.json()["error"]["message"], r"may have 200MiB of it, and others have (1[0-9.]+|200)MiB")  # 200: in a hand-over
        for job in turns:
            self.request("DELETE", f"/v1/jobs/{job}")
        until("there is room", lambda: self.request("POST", "/v1/jobs/plain/suspend").status == 200)
        self.request("DELETE", "/v1/jobs/plain")


class TakingTurns(ShareCase):
    def test_two_jobs_that_do_not_fit_together_finish_with_their_data(self):
        end = self.m.dir / "both"
        jobs = [self.busy(tag, iterations=None, options=["--until", str(end)]) for tag in ("first", "second")]
        until("they take turns", lambda: len(self.gpu()["jobs"]) == 2 and self.hand_overs() > 1, self.what_stands)
        for _ in range(10):
            self.keeps_within_capacity()
            time.sleep(0.05)
        end.touch()
        for job in jobs:
            self.finishes_with_its_data(job)
        self.assertGreater(self.hand_overs(), 1)
        self.assertNotIn("share_move_failed", self.kinds())

    def test_two_jobs_that_grow_at_the_same_time_finish(self):
        self.share(capacity="244MiB")
        self.addCleanup(self.share, capacity="222MiB")
        jobs = [self.busy("bit", "24MiB", iterations=2), self.busy("by_bit", "24MiB", iterations=2)]
        for job in jobs:
            self.finishes_with_its_data(job)

    def test_a_smaller_allocation_works_after_a_denied_one(self):
        neighbour = self.busy("neighbour", iterations=0)
        until("it has memory", lambda: (one := self.tenant(neighbour)) and one["memory"]["resident"] >= 8 * MIB)
        self.start("greedy", f"{sys.executable} {EVICT_PROBE} takes_less 64", gpus=["0"], share=True)
        self.assertEqual(self.wait("greedy")["state"], "finished", self.log("greedy"))
        self.assertEqual(json.loads(self.log("greedy").splitlines()[-1])["got"], 8, "what fits in its turn")

    def test_two_jobs_with_stream_ordered_memory_take_turns(self):
        self.share(capacity="244MiB")  # a pool takes 32 MiB if there is room
        self.addCleanup(self.share, capacity="222MiB")
        moved = self.gpu()["moved_out"] if self.hand_overs() else 0
        end = self.m.dir / "in_order"
        jobs = [self.busy(tag, "24MiB", iterations=None, options=["--api", "async", "--until", str(end)])
                for tag in ("streams", "in_order")]
        until("they take turns", lambda: len(self.gpu()["jobs"]) == 2 and self.gpu()["moved_out"] - moved >= 8 * MIB,
              self.what_stands)
        for _ in range(10):
            self.keeps_within_capacity()
            time.sleep(0.05)
        end.touch()
        for job in jobs:
            self.finishes_with_its_data(job)
        self.assertGreaterEqual(self.gpu()["moved_out"] - moved, 8 * MIB)

    def test_two_jobs_that_fit_together_are_never_gated(self):
        before = self.hand_overs()
        jobs = [self.busy("left", "4MiB"), self.busy("right", "4MiB")]
        while any(self.job(job)["state"] == "running" for job in jobs):
            for one in self.gpu()["jobs"]:
                self.assertEqual((one["gate"], one["waits_for"]), ("open", None))
            time.sleep(0.02)
        for job in jobs:
            self.finishes_with_its_data(job)
        self.assertEqual(self.hand_overs(), before)

    def test_hand_over_evicts_only_the_memory_that_is_needed(self):
        big = self.busy("big", iterations=0)
        until("it has it", lambda: (one := self.tenant(big)) and one["memory"]["resident"] >= 8 * MIB)
        small = self.busy("small", "4MiB", iterations=0)

        def a_part_is_away():
            """8 + 4 MiB and two contexts on 222 MiB: 2 MiB are too much. While the driver's figure is older than the
            job's own, it may look like more."""
            of = {one["id"]: one for one in self.gpu()["jobs"]}
            if not {big, small} <= set(of) or (of[big]["gate"], of[small]["gate"]) != ("closed", "open"):
                return False
            memory = of[big]["memory"]
            return memory["away"] >= 2 * MIB and memory["resident"] >= 2 * MIB and not of[small]["memory"]["away"]

        until("the big one has left in part", a_part_is_away, self.what_stands)
        gpu = self.gpu()
        self.assertGreater(gpu["moved_out"], 0)
        self.assertLessEqual(gpu["copied_out"], gpu["moved_out"])
        self.assertLessEqual(gpu["copied_in"], gpu["moved_in"])
        self.request("DELETE", f"/v1/jobs/{small}")
        self.request("DELETE", f"/v1/jobs/{big}")

    def test_weights_are_shares_of_the_time(self):
        self.share(capacity="328MiB")  # three contexts
        self.addCleanup(self.share, capacity="222MiB")
        jobs = {weight: self.busy(f"w{weight}", iterations=0, weight=weight) for weight in (1, 2, 4)}
        until("all have had a turn", lambda: all(
            (one := self.tenant(job)) and one["had_turn"] > 0.2 for job in jobs.values()))
        start = {weight: self.tenant(job)["had_turn"] for weight, job in jobs.items()}
        for _ in range(3):
            self.takes_turns(10)
        had = {weight: self.tenant(job)["had_turn"] - start[weight] for weight, job in jobs.items()}
        self.assertLess(had[1], had[2])
        self.assertLess(had[2], had[4])

    def test_settings_can_be_changed_until_the_next_restart(self):
        before = self.share()["settings"]
        self.assertEqual(self.share(policy="fcfs", pause=True)["settings"]["policy"], "fcfs")
        for wrong in ({"policy": "nobody"}, {"overhead": -1}, {"quantum_min": "1m", "quantum_max": "1s"}, {"speed": 1}):
            answer = self.request("PUT", "/v1/share", wrong, checked=False)
            self.assertEqual((answer.status, answer.code()), (400, "invalid_argument"), wrong)
        self.share(policy="fair", pause=False)
        self.assertEqual(self.share()["settings"], before)


class Interactive(ShareCase):
    """Nobody's turn is over in this test: it would take an hour."""
    config = ShareCase.config.replace('"50ms"', '"1h"').replace('"200ms"', '"2h"') + 'interactive_wait = "100ms"\n'

    def asker(self, tag, **more):
        return self.busy(tag, iterations=None, options=["--until", str(self.m.dir / tag)], **more)

    def works(self, job):
        until("it has its memory and works", lambda: '"event":"iteration"' in self.log(job), self.what_stands)

    def printed(self, tag):
        """The job's WAITS of `gpuman share status`, and the lines of the job below the table."""
        done = self.m.run("share", "status")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [re.split(r" {2,}", line.strip()) for line in done.stdout.splitlines()]
        heading = next(line for line in lines if line[0] == "ID")
        row = next(line for line in lines if len(line) == len(heading) and line[1] == tag)
        below = [line.partition(": ")[2] for line in done.stdout.splitlines() if line.startswith(f"{tag}: ")]
        return dict(zip(heading, row))["WAITS"], below

    def prints_its_waits(self, job, tag):
        def shown():
            before = self.tenant(job)["waits"]
            printed = self.printed(tag)
            return self.tenant(job)["waits"] == before and (before, *printed)

        waits, text, below = until("no wait of it ended meanwhile", shown)
        words = re.fullmatch(r"(\S+) \((\S+)\)", text)
        self.assertTrue(words, text)
        units = {"ms": 0.001, "s": 1, "m": 60}
        for figure, word in zip((waits["median"], waits["longest"]), words.groups()):
            seconds = sum(float(number) * units[unit] for number, unit in re.findall(r"([0-9.]+)(ms|s|m)", word))
            self.assertAlmostEqual(seconds, figure, delta=0.001 + figure / 10, msg=(text, waits))  # it is rounded
        self.assertIn("interactive (--interactive)", below)

    def gets_in_and_ends(self, job, tag):
        self.works(job)
        self.assertEqual((self.tenant(job)["interactive"], self.job(job)["interactive"]), ("asked", True))
        waits = self.tenant(job)["waits"]
        self.assertGreaterEqual(waits["count"], 1)
        self.assertLessEqual(waits["median"], waits["longest"])
        self.prints_its_waits(job, tag)
        (self.m.dir / tag).touch()
        self.finishes_with_its_data(job)

    def test_interactive_job_does_not_wait_for_the_end_of_a_turn(self):
        holder = self.busy("holder", iterations=0)
        self.works(holder)
        self.assertEqual(self.printed("holder"), ("n/a", []), self.tenant(holder))
        self.gets_in_and_ends(self.asker("asks", interactive=True), "asks")
        later = self.asker("later")
        until("it waits", lambda: (one := self.tenant(later)) and one["waits_for"] in ("turn", "room"), self.what_stands)
        self.assertIsNone(self.tenant(later)["interactive"])
        self.assertNotIn("interactive", " ".join(self.printed("later")[1]))
        self.assertEqual(self.request("PATCH", f"/v1/jobs/{later}", {"interactive": True}).status, 200)
        self.gets_in_and_ends(later, "later")
        until("the holder's turn goes on", lambda: self.tenant(holder)["gate"] == "open", self.what_stands)
        self.request("DELETE", f"/v1/jobs/{holder}")


class Failures(ShareCase):
    def a_pair(self):
        """Two that take turns: the first has no end, the second ends when its end is asked for, however many turns it had."""
        self.end = self.m.dir / "end"
        self.end.unlink(missing_ok=True)
        jobs = [self.busy("one", iterations=0), self.busy("other", iterations=None, options=["--until", str(self.end)])]
        until("they take turns", lambda: self.hand_overs() >= self.before + 2)
        return jobs

    def ends_with_its_data(self, other):
        self.end.touch()
        self.finishes_with_its_data(other)

    def setUp(self):
        self.before = self.hand_overs()

    def test_other_job_goes_on_when_one_is_killed_at_any_gate_position(self):
        for gate in ("open", "closing", "closed"):
            with self.subTest(gate=gate):
                self.before = self.hand_overs()
                one, other = self.a_pair()

                def there():
                    tenant = self.tenant(one)
                    return not tenant or tenant["gate"] == gate

                deadline = time.monotonic() + 5  # the gate is `closing` only briefly
                while not there() and time.monotonic() < deadline:
                    pass
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.job(one)["pid"], signal.SIGKILL)
                self.ends_with_its_data(other)
                self.request("DELETE", f"/v1/jobs/{one}")
                self.request("DELETE", f"/v1/jobs/{other}")

    def test_jobs_keep_their_data_when_the_mover_is_killed(self):
        one, other = self.a_pair()
        for _ in range(3):
            self.takes_turns(2)
            for process in self.request("GET", "/v1/gpus/0").json()["processes"]:
                if process["name"] == "gpuman-mover":
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process["pid"], signal.SIGKILL)
        self.takes_turns(2)
        self.ends_with_its_data(other)

    def test_jobs_keep_their_data_when_the_daemon_is_killed(self):
        one, other = self.a_pair()
        for _ in range(3):
            self.m.stop_daemon(signal.SIGKILL)
            self.m.start_daemon()
            until("both take part again", lambda: len(self.gpu()["jobs"]) == 2)
            self.takes_turns(2)
        self.ends_with_its_data(other)

    def test_sharing_job_is_suspended_and_resumed_with_its_data(self):
        one, other = self.a_pair()
        for _ in range(2):
            answer = self.request("POST", f"/v1/jobs/{one}/suspend")
            self.assertEqual((answer.status, answer.json()["state"]), (200, "suspended"), answer.body)
            until("the other has the GPU alone", lambda: self.tenant(other)["gate"] == "open")
            back = self.request("POST", f"/v1/jobs/{one}/resume")
            self.assertEqual((back.status, back.json().get("state")), (200, "running"), back.body)
            self.takes_turns(3)
        self.assertFalse([event for event in self.events() if event["kind"] == "share_move_failed" and event["job"] in (one, other)])


if __name__ == "__main__":
    if not (build_dir() / "lib/libgpuman.so").exists():
        print("skipped: there is no libgpuman.so here")
        sys.exit(77)
    unittest.main(verbosity=2)

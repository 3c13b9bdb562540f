#!/usr/bin/env python3
"""A job that uses several GPUs from one process, as JAX and tensor-parallel servers do: it leaves all of them at the
same moment, and comes back to all of them with its data.

Usage: share_one_process_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)

gpuman-load --threads is the program: a thread for each GPU, kernels that wait for each other, every sum checked in its
step. Its ranks reach each other's memory by addresses, and that memory leaves as well.
"""

import json
import signal
import sys
import unittest

from share_many_test import ManyCase
from share_test import build_dir, learn_what_a_context_takes, until
from daemon_case import MIB, DaemonTest  # noqa: E402, I100
from machine import program  # noqa: E402, I100


class Several:
    """For a DaemonTest: jobs of one process with several GPUs, and their results."""

    def several(self, tag, size="8MiB", *options, gpus=("0", "1"), **more):
        (self.m.dir / f"stop.{tag}").unlink(missing_ok=True)
        words = [program("gpuman-load"), "--json", "--ranks", len(gpus), "--threads", "--alloc", size, "--verify",
                 "--work", "2ms", "--until", self.m.dir / f"stop.{tag}", *options]
        return self.start(tag, "exec " + " ".join(map(str, words)), gpus=list(gpus), **{"share": True, **more})

    def said(self, tag):
        return [json.loads(line) for line in self.log(tag).splitlines() if line.startswith("{")]

    def steps(self, tag):
        return self.log(tag).count('"event":"step"')

    def goes_on(self, tag, more=6):
        before = self.steps(tag)
        until(f"{more} steps of {tag} after {before}", lambda: self.steps(tag) >= before + more, self.what_stands)

    def ends_with_its_data(self, tag, ranks=2):
        (self.m.dir / f"stop.{tag}").touch()
        ended = self.wait(tag)
        self.assertEqual((ended["state"], ended["exit_code"]), ("finished", 0), self.log(tag)[-1500:])
        said = self.said(tag)
        self.assertEqual({one["wrong_words"] for one in said if one["event"] == "step"}, {0})
        self.assertEqual([one["exit"] for one in said if one["event"] == "done"], [0] * ranks)
        self.assertEqual(len({one["pid"] for one in said}), 1, "one process")

    def held_on(self, job):
        """What the job's process holds on each GPU, as the driver shows it."""
        held = {}
        for gpu in self.request("GET", "/v1/gpus").json()["gpus"]:
            for process in gpu["processes"]:
                if process["job"] == job and process["memory"]:
                    held[gpu["uuid"]] = held.get(gpu["uuid"], 0) + process["memory"]
        return held

    def told(self, kind, job):
        return [event for event in self.events() if event["kind"] == kind and event["job"] == job]


class TurnsCase(ManyCase, Several):
    """GPUs that reach each other, with room for the contexts of two processes and nine tenths of what one has."""
    gpus, profile, context, beside = 2, "h200", 518, 16

    def hand_overs(self):
        return [gpu["hand_overs"] for gpu in self.share()["gpus"]]


class Turns(TurnsCase):
    def test_one_takes_turns_with_ordinary_jobs_on_either_of_its_gpus(self):
        job = self.several("wide")
        self.goes_on("wide")
        plain = [self.checking(f"plain{gpu}", "--rest", 0.005, gpus=(gpu,)) for gpu in ("0", "1")]
        until("they take turns on both", lambda: min(self.hand_overs()) >= 8, self.what_stands)
        self.goes_on("wide")
        self.ends_with_its_data("wide")
        self.assertEqual(self.told("share_not_yielded", job), [])
        self.ends_right(plain)

    def test_two_take_turns_while_daemons_are_killed_and_lose_nothing(self):
        jobs = {tag: self.several(tag) for tag in ("one", "other")}
        for tag in jobs:
            self.goes_on(tag)
        for _ in range(3):
            self.m.stop_daemon(signal.SIGKILL)
            self.m.start_daemon()
            until("they take turns", lambda: len(now := self.hand_overs()) == 2 and min(now) >= 3, self.what_stands)
        for tag in jobs:
            self.goes_on(tag)
            self.ends_with_its_data(tag)


class Suspended(DaemonTest, Several):
    gpus, profile, memory, config = 2, "h200", "4GiB", '[sampling]\nrest = "20ms"\n'

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        learn_what_a_context_takes(cls.m)

    def test_it_leaves_both_gpus_and_comes_back_and_what_stays_is_told_for_each(self):
        job = self.several("job", "48MiB")
        self.goes_on("job")
        for _ in range(3):
            answer = self.request("POST", "/v1/jobs/job/suspend")
            view = answer.json()
            self.assertEqual((view["state"], view["reason"]), ("suspended", "held_by_user"), answer.body)
            self.assertGreaterEqual(view["memory"]["host"], 2 * 52 * MIB)
            left = view["memory"]["left"] or {}
            self.assertLessEqual(max(left.values(), default=0), 16 * MIB, left)  # the driver takes the contexts as well
            until("the driver shows no more of it", lambda: all(
                used <= left.get(gpu, 0) for gpu, used in self.held_on(job).items()), lambda: (left, self.held_on(job)))
            before = self.steps("job")
            answer = self.request("POST", "/v1/jobs/job/resume")
            self.assertEqual((answer.status, answer.json()["state"]), (200, "running"), answer.body)
            self.assertLessEqual(self.steps("job"), before + 4, "it made no steps meanwhile")
            self.goes_on("job")
        self.ends_with_its_data("job")


if __name__ == "__main__":
    if not (build_dir() / "lib/libgpuman.so").exists():
        print("skipped: there is no libgpuman.so here")
        sys.exit(77)
    unittest.main(verbosity=2)

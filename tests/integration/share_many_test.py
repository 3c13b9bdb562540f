#!/usr/bin/env python3
"""Many hand-overs, and many jobs on several GPUs: programs that check every byte all the time, with the shortest turns.

Usage: share_many_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree; GPUMAN_HAND_OVERS how many
hand-overs there are to be, 3,000 by itself, and 60 of memory of which little changes; docs/results.md has 10,000 of
each)
"""

import json
import os
import pathlib
import sys
import time
import unittest

from share_test import MIB, ShareCase, build_dir, until

PROGRAM = pathlib.Path(__file__).with_name("share_program.py")
HAND_OVERS = int(os.environ.get("GPUMAN_HAND_OVERS", "3000"))
CONTEXT = 104  # MiB of a context on the simulated GPU
HASHER = 2  # MiB that the mover's hasher takes there


class ManyCase(ShareCase):
    """GPUs with room for the contexts of `each` processes and `beside` MiB. `more`: further settings. `slack`: MiB of the
    largest piece, where there is always one that has left one job and waits to serve another."""
    gpus, each, beside, more, context, slack = 4, 2, 3, "", CONTEXT, 0

    @classmethod
    def setUpClass(cls):
        cls.config = f"""
[sampling]
rest = "20ms"
[share]
capacity = "{cls.each * cls.context + cls.beside}MiB"
quantum_min = "10ms"
quantum_max = "10ms"
idle = "2ms"
{cls.more}
"""
        super().setUpClass()
        cls.stop = cls.m.dir / "stop"

    def setUp(self):
        self.empty = [gpu["memory"]["used"] for gpu in self.on_gpus()]

    def tearDown(self):
        super().tearDown()
        self.stop.unlink(missing_ok=True)

    def checking(self, tag, *options, gpus=("0",), **more):
        words = [sys.executable, PROGRAM, self.stop, *options]
        return self.start(tag, "exec " + " ".join(map(str, words)), gpus=list(gpus), share=True, **more)

    def on_gpus(self):
        return self.request("GET", "/v1/gpus").json()["gpus"]

    def all_hand_overs(self):
        return sum(gpu["hand_overs"] for gpu in self.share()["gpus"])

    def turns(self):
        return {job["id"]: job["had_turn"] for gpu in self.share()["gpus"] for job in gpu["jobs"]}

    def all_have_had(self, jobs, least):
        """Whether each job has had this many seconds of turns; returns them."""
        had = self.turns()
        return len(had) == len(jobs) and min(had.values()) >= least and had

    def keeps_within_the_devices_capacity(self):
        """By the driver's figures: the jobs' memory, the memory that moves, and the mover's context and hasher. Only after each
        job has had a turn: a new job brings a context, and the others make room for it afterwards. For a moment there
        may be one more piece, which has left one job and waits to serve another (mover/gpu_memory_free_list.h)."""
        most = (self.each * self.context + self.beside + self.context + HASHER + self.slack) * MIB
        until("no GPU has more than its capacity", lambda: all(
            gpu["memory"]["used"] <= empty + most for gpu, empty in zip(self.on_gpus(), self.empty)),
            lambda: f"{most} beside {self.empty}: {json.dumps(self.on_gpus())} {self.what_stands()}")

    def ends_right(self, jobs):
        """Ends all jobs; returns the rounds of each process, by job."""
        self.stop.touch()
        rounds = {}
        for job in jobs:
            ended = self.wait(job)
            self.assertEqual(ended["state"], "finished", self.log(job)[-1500:] + json.dumps(self.share()))
            said = [json.loads(line) for line in self.log(job).splitlines()]
            self.assertFalse([one for one in said if one.get("wrong") or one.get("error")])
            self.assertEqual(len([one for one in said if "holds" in one]), len([one for one in said if "wrong" in one]))
            rounds[job] = [one["rounds"] for one in said if "wrong" in one]
            self.assertTrue(rounds[job])
        return rounds


class HandOvers(ManyCase):
    def test_jobs_keep_their_data_over_thousands_of_hand_overs(self):
        jobs = [self.checking(f"j{i}", "--rest", 0.005, gpus=[str(i % self.gpus)]) for i in range(2 * self.gpus)]
        begin, before = time.monotonic(), -100
        until("everybody is there and has had a turn", lambda: self.all_have_had(jobs, 0.001))
        while (done := self.all_hand_overs()) < HAND_OVERS:
            self.keeps_within_the_devices_capacity()
            if done >= before + 100:
                deadline, before = time.monotonic() + 60, done
            self.assertLess(time.monotonic(), deadline, f"stuck after {done}: {self.share()} {[self.log(job)[-300:] for job in jobs]}")
            time.sleep(0.1)
        took = time.monotonic() - begin
        moved = [gpu["moved_out"] for gpu in self.share()["gpus"]]
        rounds = self.ends_right(jobs)
        print(f"{done} hand-overs in {took:.0f} s, {sum(moved) / MIB:.0f} MiB out, {sum(map(sum, rounds.values()))} checks", flush=True)
        # Each of these hand-overs moves a whole job out and another back.
        self.assertGreater(sum(moved), 0.9 * done * 2 * MIB)
        for one in rounds.values():
            self.assertGreater(one[0], done / len(jobs) / 10)
        self.assertFalse([event for event in self.events() if event["kind"] == "share_move_failed"])


class ChangedBytes(ManyCase):
    """Two jobs on each GPU, of which one finds room, change single bytes: only what has changed is copied."""
    size = 64  # MiB
    beside = size + 3
    hand_overs = int(os.environ.get("GPUMAN_HAND_OVERS", "60"))

    def test_jobs_keep_their_data_where_only_changes_are_copied(self):
        options = ("--size", self.size * MIB, "--bytes", 2, "--rest", 0.005)
        jobs = [self.checking(f"b{i}", *options, gpus=[str(i % self.gpus)]) for i in range(2 * self.gpus)]
        begin = time.monotonic()
        until("everybody is there and has had a turn", lambda: self.all_have_had(jobs, 0.001), self.what_stands)
        seen, at = -1, begin
        while (done := self.all_hand_overs()) < self.hand_overs:
            if done > seen:
                seen, at = done, time.monotonic()
            self.assertLess(time.monotonic(), at + 60, f"stuck after {done}: {self.what_stands()}")
            time.sleep(0.1)
        took = time.monotonic() - begin
        out, copied = (sum(gpu[key] for gpu in self.share()["gpus"]) for key in ("moved_out", "copied_out"))
        rounds = self.ends_right(jobs)
        print(f"{done} hand-overs in {took:.0f} s, {out / MIB:.0f} MiB out, {copied / MIB:.0f} copied, "
              f"{2 * sum(map(sum, rounds.values()))} bytes changed", flush=True)
        self.assertGreater(sum(map(sum, rounds.values())), done)
        self.assertLess(copied, 0.8 * out)
        self.assertFalse([event for event in self.events() if event["kind"] == "share_move_failed"])


class ThirtyTwo(ManyCase):
    each, beside = 8, 9

    def test_clients_on_four_gpus_all_get_their_turns_and_keep_their_data(self):
        jobs = [self.checking(f"c{i}", "--blocks", 1 + i % 3, "--rest", 0.02, gpus=[str(i // 8)]) for i in range(32)]
        until("everybody is there and has had a turn", lambda: self.all_have_had(jobs, 0.05))
        for _ in range(5):
            before = self.turns()
            until("everybody has had more of them",
                  lambda: all(had >= before[job] + 0.02 for job, had in self.turns().items()), self.what_stands)
            self.keeps_within_the_devices_capacity()
        # Their contexts come one by one: until they no longer fit, all have their turns at once.
        until("they take turns on each GPU", lambda: all(
            gpu["demand"] > gpu["capacity"] and gpu["hand_overs"] > 8 for gpu in self.share()["gpus"]), self.what_stands)
        self.keeps_within_the_devices_capacity()
        self.ends_right(jobs)
        self.assertFalse([event for event in self.events() if event["kind"] == "share_move_failed"])


if __name__ == "__main__":
    if not (build_dir() / "lib/libgpuman.so").exists():
        print("skipped: there is no libgpuman.so here")
        sys.exit(77)
    unittest.main(verbosity=2)

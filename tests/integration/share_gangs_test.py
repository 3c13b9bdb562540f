#!/usr/bin/env python3
"""Jobs on several GPUs (gpuman-load --ranks) that share them with each other and with jobs on one GPU.

Usage: share_gangs_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import sys
import unittest

from gang_case import MIB, GangCase
from share_test import build_dir, until


class Overlapping(GangCase):
    """On each of three GPUs two jobs of which one has room, and a small one beside them."""
    gpus, each, beside = 3, 3, 48

    def test_gangs_on_overlapping_gpus_and_single_jobs_all_take_turns(self):
        gangs = {"first": ("0", "1"), "second": ("1", "2"), "third": ("0", "2")}
        jobs = {tag: self.begin_gang(tag, size=24, gpus=gpus) for tag, gpus in gangs.items()}
        singles = [self.checking(f"single{gpu}", "--size", 4 << 20, "--rest", 0.01, gpus=(gpu,)) for gpu in "012"]
        for _ in range(3):
            for tag in gangs:
                self.goes_on(tag)
        until("all GPUs were handed over", lambda: min(gpu["hand_overs"] for gpu in self.share()["gpus"]) >= 10)
        had = self.turns()
        self.assertEqual(sorted(had), sorted([*jobs.values(), *singles]))
        self.assertGreater(min(had.values()), 0)
        for tag in gangs:
            self.ends_with_its_data(tag)
        self.ends_right(singles)


class UnequalBuses(GangCase):
    """The memory of one GPU takes six times as long as that of the other."""
    bus = "0=600M,1=100M"

    def test_gangs_on_unequal_buses_have_turns_on_both_gpus_together(self):
        jobs = [self.begin_gang(tag) for tag in ("one", "other")]
        self.take_turns(6)
        hand_overs = [gpu["hand_overs"] for gpu in self.share()["gpus"]]
        self.assertLessEqual(max(hand_overs) - min(hand_overs), 1, hand_overs)
        for job, tag in zip(jobs, ("one", "other")):
            self.assertFalse(self.all_told("share_move_failed", job))
            self.goes_on(tag)
        for tag in ("one", "other"):
            self.ends_with_its_data(tag)


class Chosen(GangCase):
    """GPUs that a job gets which says how many it takes turns on, and not which."""
    gpus = 4

    def run_in_turns(self, tag, *words, status=0):
        command = self.words_of(tag, 2, "ddp", None, "20ms", 16)
        done = self.m.run("run", "--share", "--gpus", *words, "--", "sh", "-c", command, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def test_gpus_with_fewest_sharing_jobs_are_chosen(self):
        chosen = {}
        for tag in ("one", "two", "three", "four"):
            self.run_in_turns(tag, "2", "--tag", tag, "--detach")
            chosen[tag] = tuple(self.job(tag)["gpus"])
        self.assertEqual(len(set(chosen["one"] + chosen["two"])), 4, "each its own first")
        self.assertEqual({chosen["three"], chosen["four"]}, {chosen["one"], chosen["two"]})
        self.take_turns()
        for tag in chosen:
            self.ends_with_its_data(tag)

    def test_run_with_number_of_gpus_shows_output_or_the_reason(self):
        self.end_of("shown").touch()
        self.assertIn('"event":"done"', self.run_in_turns("shown", "2").stdout.replace(" ", ""))
        self.assertIn("of 4 GPUs 4 can be shared by turns now, and it asks for 5", self.run_in_turns("x", "5", status=1).stderr)
        self.assertIn("--time needs --memory beside --share", self.run_in_turns("x", "2", "--time", "1h", status=2).stderr)
        self.m.run("submit", "--name", "held", "--gpus", "3", "--", "sleep", "1000")
        until("it has three of them", lambda: self.job("held")["state"] == "running")
        said = self.run_in_turns("x", "2", status=1).stderr
        self.assertIn("of 4 GPUs 1 can be shared by turns now", said)
        self.assertIn("with --memory it waits in the queue", said)
        self.request("DELETE", "/v1/jobs/held")


class GrowCase(GangCase):
    """Two jobs on two GPUs, which have room for both. Then each wants more on one of the GPUs, where one alone has room
    for it, while its other rank waits for it on the other GPU."""
    beside, more = 72, 'retry = "100ms"\nyield_limit = "1s"\n[log]\nlevel = "debug"\n'
    size, ranks = 24, {}  # MiB, also of what is more; which rank takes it, by job

    def begin(self, grow):
        """Starts both, each grows when its file in `grow` is there; returns the ids."""
        for file in grow.values():
            file.unlink(missing_ok=True)
        return {tag: self.gang(tag, size=self.size, options=[
            "--grow", f"{self.size}MiB", "--grow-rank", rank, "--grow-when", grow[tag]]) for tag, rank in self.ranks.items()}

    def wants(self, job):
        return sum(one["memory"]["wanted"] for gpu in self.share()["gpus"] for one in gpu["jobs"] if one["id"] == job)

    def has_grown(self, tag):
        return len(self.said(tag, "alloc")) == len(self.ranks) + 1

    def both_wait_for_room(self):
        """Starts both, and returns their ids once both wait, the later one last."""
        grow = {tag: self.m.dir / f"grow.{tag}" for tag in self.ranks}
        self.share(pause=True)  # none leaves for the other before both wait
        self.addCleanup(self.share, pause=False)
        jobs = self.begin(grow)
        for tag, job in jobs.items():
            grow[tag].touch()
            until(f"{tag} waits for room", lambda: self.wants(job) > 0, self.what_stands)
        self.share(pause=False)
        return jobs


class Growing(GrowCase):
    ranks = {"one": 0, "other": 1}

    def was_denied(self, tag, jobs):
        """The job's allocation failed as it would without gpuman, an event says why, and the other goes on with its own."""
        ended, other = self.wait(tag), next(each for each in jobs if each != tag)
        self.assertEqual((ended["state"], ended["exit_code"]), ("failed", 3), self.log(tag)[-1500:])
        self.assertEqual([line["requested"] for line in self.said(tag, "oom")], [self.size * MIB])
        self.assertEqual((ended["reason"], ended["refusal"]["by"]), ("memory_refused", "sharing"), ended)
        why = "those that share the GPU made no room for it in time; `gpuman share status` shows who has it"
        self.assertIn(why, ended["reason_detail"])
        self.assertIn(why, self.all_told("allocation_refused", jobs[tag])[0]["message"])
        self.assertIn(why, self.m.run("status").stdout)
        told = self.all_told("share_move_failed", jobs[tag])
        self.assertEqual([event["data"] for event in told], [{"asked": self.size * MIB}], told)
        self.assertRegex(told[0]["message"], f"job {jobs[other]} has the room and waits for memory that this job has")
        until("the other one has its memory", lambda: self.has_grown(other), self.what_stands)
        self.goes_on(other)
        self.ends_with_its_data(other)
        self.assertEqual(self.all_told("share_move_failed", jobs[other]), [])

    def test_later_of_two_gangs_that_wait_for_each_others_room_is_denied(self):
        self.was_denied("other", self.both_wait_for_room())

    def test_two_gangs_that_grow_together_take_turns_or_one_is_denied(self):
        """Which of them depends on whether one comes to rest before it wants more."""
        grow = self.m.dir / "grow.both"
        jobs = self.begin(dict.fromkeys(self.ranks, grow))
        grow.touch()
        until("both have grown, or one is denied", lambda: all(map(self.has_grown, jobs)) or any(
            self.all_told("share_move_failed", job) for job in jobs.values()), self.what_stands)
        denied = [tag for tag, job in jobs.items() if self.all_told("share_move_failed", job)]
        if denied:
            return self.was_denied(*denied, jobs)
        self.take_turns()
        for tag in jobs:
            self.goes_on(tag)
        for tag in jobs:
            self.ends_with_its_data(tag)


class GrowingOnOne(GrowCase):
    """Both want more on the same GPU, where the ranks that wait for room are at rest: one gives its
    memory up there, while its other rank runs on."""
    ranks = {"one": 0, "other": 0}

    def test_two_gangs_that_wait_for_room_on_one_gpu_both_get_it(self):
        jobs = self.both_wait_for_room()
        for tag in jobs:
            until(f"{tag} has grown", lambda: self.has_grown(tag), self.what_stands)
        until("they take turns on that GPU", lambda: self.share()["gpus"][0]["hand_overs"] >= 8, self.what_stands)
        for tag, job in jobs.items():
            self.goes_on(tag)
            self.assertEqual(self.all_told("share_move_failed", job), [])
        for tag in jobs:
            self.ends_with_its_data(tag)


if __name__ == "__main__":
    if not (build_dir() / "lib/libgpuman.so").exists():
        print("skipped: there is no libgpuman.so here")
        sys.exit(77)
    unittest.main(verbosity=2)

#!/usr/bin/env python3
"""Jobs on several GPUs (gpuman-load --ranks) that share them with each other and with jobs on one GPU.

Usage: share_gangs_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import sys
import unittest

from gang_case import SIZE, GangCase
from share_test import build_dir, until


class Overlapping(GangCase):
    """On each of three GPUs two jobs of which one has room, and a small one beside them."""
    gpus, each, beside = 3, 3, 48

    def test_three_on_overlapping_gpus_and_single_ones_among_them_all_have_turns_and_end_with_their_data(self):
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


class OneProcess(GangCase):
    """Threads of one process, each on a GPU of its own, wait for each other as processes do."""

    def test_is_brought_to_rest_on_all_its_gpus_and_comes_back_with_its_data(self):
        job = self.start("one", "exec " + self.load(f"{SIZE}MiB", "--ranks", "2", "--threads", "--ahead", "4", "--work", "20ms",
                                                    "--verify", "--json", "--until", str(self.end_of("one"))),
                         gpus=["0", "1"], share=True)
        for _ in range(4):
            self.goes_on("one")
            answer = self.request("POST", f"/v1/jobs/{job}/suspend")
            self.assertEqual((answer.status, answer.json()["state"]), (200, "suspended"), answer.body)
            answer = self.request("POST", f"/v1/jobs/{job}/resume", {})
            self.assertEqual((answer.status, answer.json()["state"]), (200, "running"), answer.body)
        self.goes_on("one")
        self.ends_with_its_data("one")
        self.assertTrue(any(event["data"]["steps"] for event in self.all_told("job_suspended", job)))


if __name__ == "__main__":
    if not (build_dir() / "lib/libgpuman.so").exists():
        print("skipped: there is no libgpuman.so here")
        sys.exit(77)
    unittest.main(verbosity=2)

#!/usr/bin/env python3
"""Many hand-overs between jobs whose processes need each other: 2, 4 and 8 ranks, each with a GPU of its own, in each
pattern and with each way to the others' memory. Every sum and every byte is checked.

Usage: gang_many_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree; GPUMAN_HAND_OVERS how many
hand-overs of a whole job there are to be, 100 by itself; docs/results.md has 10,000)
"""

import os
import sys
import time
import unittest

from gang_case import SIZE, GangCase, build_dir, until

HAND_OVERS = int(os.environ.get("GPUMAN_HAND_OVERS", "100"))
PATTERNS, PEERS = ("ddp", "pipeline", "tensor", "random"), ("vmm", "ipc", "host")
WAYS = ([], ["--ahead", 3], ["--think", "2ms"], ["--graph"])
KINDS = [(PATTERNS[i % 4], PEERS[i % 3], ["--seed", i + 1, *WAYS[i // 3 % 4]]) for i in range(12)]
STANDS_STILL = 100  # seconds without a hand-over; a job that has not come to rest in time is asked again after 50


class Many:
    """Pairs of jobs, of each kind one. A short run has one pair for each number of ranks, with all patterns and ways in
    all. `first`: where it begins in the kinds; `part`: of all hand-overs, in percent."""
    pairs, slack, size = 1 if HAND_OVERS < 1000 else 6, SIZE, SIZE

    def test_pairs_of_gangs_keep_their_data_over_many_hand_overs(self):
        kinds = KINDS[self.first:] + KINDS[:self.first]
        for number in range(self.pairs):
            pair = kinds[2 * number:2 * number + 2]
            with self.subTest(pair=pair):
                self.take_turns_many_times(pair, -(-HAND_OVERS * self.part // (100 * self.pairs)))

    def take_turns_many_times(self, pair, wanted):
        begin, first = time.monotonic(), self.fewest_hand_overs()
        jobs = {tag: self.begin_gang(tag, self.gpus, pattern, peer, size=self.size, options=options)
                for tag, (pattern, peer, options) in zip(("one", "other"), pair)}
        for tag in jobs:
            until(f"{tag} makes steps", lambda: self.steps(tag) >= 2, self.what_stands)
        began, seen = time.monotonic(), (0, 0)
        while (done := self.fewest_hand_overs() - first) < wanted:
            if done > seen[0] or not seen[1]:
                seen = done, time.monotonic()
            if time.monotonic() > seen[1] + STANDS_STILL:
                self.fail(f"stuck after {done}: {self.what_stands()}")
            time.sleep(0.05)
        self.keeps_within_the_devices_capacity()
        took = time.monotonic() - began
        steps = [self.ends_with_its_data(tag) for tag in jobs]
        refused = [event["message"] for job in jobs.values() for event in self.all_told("share_not_yielded", job)]
        print(f"{self.gpus} ranks, {pair}: {done} hand-overs in {took:.1f} s, {steps} steps, "
              f"{time.monotonic() - begin:.1f} s in all {refused}", flush=True)
        self.assertFalse([event for job in jobs.values() for event in self.all_told("share_move_failed", job)])
        for job in jobs.values():
            self.request("DELETE", f"/v1/jobs/{job}")


class TwoRanks(Many, GangCase):
    first, part = 0, 50


class FourRanks(Many, GangCase):
    gpus, first, part = 4, 6, 30


class EightRanks(Many, GangCase):
    gpus, first, part = 8, 10, 20


class Hashed(Many, GangCase):
    """Each rank has as much as is worth hashing: of what leaves only the chunks are copied that have changed. How many that
    are depends on how many steps a rank makes in a turn."""
    first, part, size, beside = 3, 15, 96, 110

    def keeps_within_the_devices_capacity(self):
        super().keeps_within_the_devices_capacity()
        until("copies of what has come back are kept", lambda: self.metric("gpuman_kept_host_memory_bytes") > 0)


if __name__ == "__main__":
    if not (build_dir() / "lib/libgpuman.so").exists():
        print("skipped: there is no libgpuman.so here")
        sys.exit(77)
    unittest.main(verbosity=2)

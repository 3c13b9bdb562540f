"""Memory that a program makes and maps itself, and its small allocations, leave the GPU and come back: libgpuman.so in
programs on the simulated driver. As evict_test.py.

Usage: own_memory_test.py [NAME…]; GPUMAN_BUILD_DIR names the build.
"""

import json
import random
import sys
import unittest

from evict_test import EVICTED, ON_GPU
from lease_test import LeaseCase
from shim_test import CONTEXT, HERE, MIB


class OwnCase(LeaseCase):
    def probe_command(self, *words):
        return [sys.executable, str(HERE / "own_memory_probe.py"), *map(str, words)]

    def away_and_back(self, ledger, pid):
        away = self.order(ledger, pid, True)
        self.assert_stands(away, EVICTED)
        self.assert_stands(self.order(ledger, pid, False), ON_GPU)
        return away

    def assert_empty(self, ledger):
        ledger.until_given_back(self.uuid)


class ExpandableSegments(OwnCase):
    def test_leave_and_come_back_between_growing_and_shrinking(self):
        ledger = self.evictable()
        process = self.start_probe("expands")
        pid = self.only(ledger)["pid"]
        held = 88 * MIB
        for _ in range(8):
            self.assertEqual(self.only(ledger)["evictable"], held)
            used = self.device_used()
            away = self.order(ledger, pid, True)
            self.assert_stands(away, EVICTED)
            self.assertEqual((away["evicted"], away["evictable"], used - self.device_used()), (held, 0, held))
            self.assert_stands(self.order(ledger, pid, False), ON_GPU)
            self.assertEqual(self.device_used(), used)
            self.assert_good(process)
            held += 22 * MIB
        self.assertEqual(self.finish(process), {"freed": [0, 0]})
        self.assert_empty(ledger)

    def test_of_many_threads_are_right_at_any_moment(self):
        ledger = self.evictable()
        process = self.start_probe("expands_all_the_time", 4)
        pid = self.only(ledger)["pid"]
        for _ in range(15):
            self.away_and_back(ledger, pid)
        answer = self.finish(process)
        self.assertEqual((answer["wrong"], answer["freed"]), ([], [0] * 4))
        self.assert_empty(ledger)

    def test_leave_in_parts(self):
        ledger = self.sharing()
        process = self.start_probe("many", 48)
        pid = self.only(ledger)["pid"]
        chance, before = random.Random(3), self.device_used()
        for _ in range(12):
            size = 2 * chance.randrange(1, 49)
            self.assertEqual(self.take(ledger, pid, size * MIB)["evicted"], size * MIB)
            self.assertEqual(before - self.device_used(), size * MIB)
            self.run_again(ledger, pid)
            self.assert_good(process)
        self.assertEqual(self.finish(process), {"freed": 0})

    def test_stay_where_they_are_where_the_mover_is_away(self):
        ledger = self.serve(8 << 30, 256 * MIB, "--evictable", "-", 20_000)
        process = self.start_probe("expands")
        pid = self.only(ledger)["pid"]
        self.assertEqual(self.order(ledger, pid, True)["stage"], ON_GPU)
        self.assert_good(process)

    def test_that_find_no_room_stay_away_and_come_later(self):
        ledger = self.evictable()
        process = self.start_probe("expands")
        pid = self.only(ledger)["pid"]
        self.assert_stands(self.order(ledger, pid, True), EVICTED)
        for nth in (1, 3):
            self.inject("alloc-fail", "--nth", nth)
            self.assertEqual(self.order(ledger, pid, False)["stage"], EVICTED)
        self.assert_stands(self.order(ledger, pid, False), ON_GPU)
        self.assert_good(process)


class Memory(OwnCase):
    LEAVES = 26 * MIB  # with read-only memory, and memory that no device may access

    def test_that_others_have_or_that_is_at_two_addresses_stays_and_the_rest_leaves(self):
        ledger = self.evictable()
        process = self.start_probe("kinds")
        one = self.only(ledger)
        self.assertEqual(one["evictable"], self.LEAVES)
        before = json.loads(self.tell(process))
        for _ in range(3):
            self.assertEqual(self.away_and_back(ledger, one["pid"])["evicted"], self.LEAVES)
            self.assertEqual(json.loads(self.tell(process)), before)
        self.assertTrue(all(before[name] for name in before if isinstance(before[name], bool)), before)
        self.assertEqual(before["access"], [3, 3, 3, 3, 1, 0])
        self.assertEqual([one[2] for one in before["properties"]], [0, 1, 1, 1])
        self.assertEqual([one[5] for one in before["properties"]], [0, 0, 1, 0])
        answer = self.finish(process)
        self.assertEqual(set(answer["released"]), {0})
        self.assertEqual(set(answer["again"]), {1})
        self.assertEqual(set(answer["unmapped"]), {0})
        self.assert_empty(ledger)

    def test_answers_by_its_handles_as_without_the_shim_also_after_it_was_away(self):
        process = self.start(*self.probe_command("handles"), preload=False)
        self.assertEqual(process.stdout.readline(), "ready\n")
        without = self.finish(process)
        ledger = self.evictable()
        for times in range(3):
            process = self.start_probe("handles")
            pid = self.only(ledger)["pid"]
            for _ in range(times):
                self.away_and_back(ledger, pid)
            self.assertEqual(self.finish(process), without)
            self.assert_empty(ledger)

    def test_can_be_passed_on_after_it_was_away_and_then_stays(self):
        ledger = self.evictable()
        for times in range(3):
            process = self.start_probe("passes_on")
            pid = self.only(ledger)["pid"]
            for _ in range(times):
                self.assertEqual(self.away_and_back(ledger, pid)["evicted"], 4 * MIB)
            self.assertEqual(self.tell(process), "{}\n")
            self.assertEqual(process.stdout.readline(), "ready\n")
            ledger("reclaim")
            self.assertEqual(self.away_and_back(ledger, pid)["evicted"], 0)
            self.assertEqual(self.finish(process), {"child": 0, "written": True, "good": True})
            self.assert_empty(ledger)

    def test_of_a_job_that_is_not_shared_is_the_drivers_own(self):
        process = self.start(*self.probe_command("handles"), preload=False)
        without = self.finish(process)
        self.serve()
        process = self.start_probe("handles")
        self.assertEqual(self.finish(process), without)


class SmallAllocations(OwnCase):
    def test_leave_in_slabs_and_come_back_with_their_bytes(self):
        ledger = self.evictable()
        at_start = self.device_used()
        process = self.start_probe("small_ones", 5)
        pid = self.only(ledger)["pid"]
        for _ in range(6):
            used, evictable = self.device_used(), self.only(ledger)["evictable"]
            self.assertGreater(evictable, 0)
            self.assertEqual(evictable % (2 * MIB), 0)
            away = self.order(ledger, pid, True)
            self.assert_stands(away, EVICTED)
            self.assertEqual((away["evicted"], used - self.device_used()), (evictable, evictable))
            self.assert_stands(self.order(ledger, pid, False), ON_GPU)
            self.assertEqual(self.device_used(), used)
            self.assert_good(process)
        self.assertEqual(self.finish(process), {"freed": [0], "again": [1]})
        self.assert_empty(ledger)
        self.assertEqual(self.device_used(), at_start)

    def test_count_what_the_device_gives_for_them(self):
        ledger = self.evictable()
        process = self.start_probe("small_ones", 9)
        before = int(ledger("used", self.uuid))
        for _ in range(4):
            self.assert_good(process)
            one = self.only(ledger)
            self.assertEqual(int(ledger("used", self.uuid)) - one["evictable"], CONTEXT)
        self.assertGreater(before, CONTEXT)

    def test_are_told_what_plain_memory_is_told(self):
        without = self.probe("told_of_small", preload=False)
        ledger = self.evictable()
        self.assertEqual(self.probe("told_of_small"), without)
        self.assert_empty(ledger)


class SeveralDevices(OwnCase):
    def command(self, *words, preload=True):
        command = super().command(*words, preload=preload)
        return [command[0], "exec", "--gpus", "2", *command[2:]]

    def used_on(self, ledger):
        return [int(ledger("used", uuid)) for uuid in (self.uuid, self.other)]

    def serve_both(self):
        self.other = self.probe("uuid_of", 1, preload=False)
        return self.sharing("-", 20_000, 8 << 30, "--gpu", self.other, 8 << 30, CONTEXT)

    def test_of_which_one_is_used_are_as_one(self):
        ledger = self.serve_both()
        process = self.start_probe("holds", 16, 8)
        one = self.only(ledger)
        self.assertEqual((one["evictable"], one["home"]), (16 * MIB, self.uuid))
        before = self.device_used()
        for _ in range(3):
            self.assert_stands(self.order(ledger, one["pid"], True), EVICTED)
            self.assertEqual(before - self.device_used(), 16 * MIB)
            self.assert_stands(self.order(ledger, one["pid"], False), ON_GPU)
            self.assert_good(process)

    def test_that_are_both_used_reach_what_leaves_the_first_and_the_second_keeps_its_own(self):
        ledger = self.serve_both()
        process = self.start_probe("two_devices")
        one = self.only(ledger)
        self.assertEqual((one["evictable"], one["home"]), (16 * MIB, self.uuid))
        self.assertEqual(self.used_on(ledger), [CONTEXT + 16 * MIB, CONTEXT + 8 * MIB])
        for times in range(4):
            if times % 2:
                self.assert_stands(self.take(ledger, one["pid"], 6 * MIB), 6)
            away = self.order(ledger, one["pid"], True)
            self.assert_stands(away, EVICTED)
            self.assertEqual(away["evicted"], 16 * MIB)
            self.assert_stands(self.order(ledger, one["pid"], False), ON_GPU)
            answer = json.loads(self.tell(process))
            self.assertEqual(answer, {"good": True, "access": [[[0, 3], [0, 3]]] * 3 + [[[0, 3], [0, 0]]]})
        self.assertEqual(self.finish(process), {"freed": [0] * 5, "destroyed": [0, 0]})
        ledger("reclaim")
        self.assertEqual(self.used_on(ledger), [0, 0])


if __name__ == "__main__":
    unittest.main()

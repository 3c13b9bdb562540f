"""Memory that a program makes and maps itself, and its small allocations, leave the GPU and come back: libgpuman.so in
programs on the simulated driver. As evict_test.py.

Usage: own_memory_test.py [NAME…]; GPUMAN_BUILD_DIR names the build.
"""

import contextlib
import json
import mmap
import os
import pathlib
import random
import signal
import sys
import unittest

from evict_test import BUDGET, DRIVER, EVICTED, FAILED, ON_GPU
from lease_test import HELD, LeaseCase
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
        self.assertEqual(self.order(ledger, pid, True)["residency"], ON_GPU)
        self.assert_good(process)

    def test_segments_without_room_stay_away_and_come_later(self):
        ledger = self.evictable()
        process = self.start_probe("expands")
        pid = self.only(ledger)["pid"]
        self.assert_stands(self.order(ledger, pid, True), EVICTED)
        for nth in (1, 3):
            self.inject("alloc-fail", "--nth", nth)
            self.assertEqual(self.order(ledger, pid, False)["residency"], EVICTED)
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

    def serve_both(self, budget="-"):
        self.other = self.probe("uuid_of", 1, preload=False)
        return self.sharing(budget, 20_000, 8 << 30, "--gpu", self.other, 8 << 30, CONTEXT)

    def test_process_that_uses_one_of_two_devices_is_evicted_as_with_one(self):
        ledger = self.serve_both()
        process = self.start_probe("holds", 16, 8)
        one = self.only(ledger)
        self.assertEqual((one["evictable"], one["homes"][0]["uuid"]), (16 * MIB, self.uuid))
        before = self.device_used()
        for _ in range(3):
            self.assert_stands(self.order(ledger, one["pid"], True), EVICTED)
            self.assertEqual(before - self.device_used(), 16 * MIB)
            self.assert_stands(self.order(ledger, one["pid"], False), ON_GPU)
            self.assert_good(process)

    def homes(self, ledger):
        return {home["uuid"]: (home["evictable"], home["evicted"]) for home in self.only(ledger)["homes"]}

    def used(self):
        return [self.device_used(index) for index in range(2)]

    def start_both(self, ledger):
        """Starts a program with memory on both. The mover has a context on each then. Returns process and pid."""
        process = self.start_probe("two_devices")
        pid = self.only(ledger)["pid"]
        self.assert_stands(self.command_to(ledger, pid, "take", 2 * MIB, self.uuid, 2 * MIB, self.other), HELD)
        self.assert_stands(self.order(ledger, pid, False), ON_GPU)
        return process, pid

    def tell_both(self, process):
        both = [[0, 3], [0, 3]]
        self.assertEqual(json.loads(self.tell(process)), {"good": True, "access": [both] * 3 + [[[0, 3], [0, 0]]]})

    def end_both(self, ledger, process):
        self.assertEqual(self.finish(process), {"freed": [0] * 5, "destroyed": [0, 0]})
        for uuid in (self.uuid, self.other):
            ledger.until_given_back(uuid)

    def test_that_are_both_used_are_left_in_part_and_as_a_whole_and_reach_each_other_afterwards(self):
        ledger = self.serve_both()
        process, pid = self.start_both(ledger)
        self.assertEqual(self.homes(ledger), {self.uuid: (16 * MIB, 0), self.other: (8 * MIB, 0)})
        self.assertEqual(self.used_on(ledger), [CONTEXT + 16 * MIB, CONTEXT + 8 * MIB])
        before = self.used()
        for times in range(6):
            if times % 3 == 1:  # of both, by one order
                self.assert_stands(self.command_to(ledger, pid, "take", 6 * MIB, self.uuid, 2 * MIB, self.other), HELD)
                self.assertEqual(self.homes(ledger), {self.uuid: (8 * MIB, 8 * MIB), self.other: (2 * MIB, 6 * MIB)})
                self.assertEqual([was - now for was, now in zip(before, self.used())], [8 * MIB, 6 * MIB])
            if times % 3 == 2:  # of the second alone, and then more of the first
                self.assert_stands(self.command_to(ledger, pid, "take", 8 * MIB, self.other), HELD)
                self.assertEqual(self.homes(ledger), {self.uuid: (16 * MIB, 0), self.other: (0, 8 * MIB)})
                self.assert_stands(self.command_to(ledger, pid, "take", 8 * MIB, self.uuid), HELD)
                self.assertEqual(self.homes(ledger), {self.uuid: (8 * MIB, 8 * MIB), self.other: (0, 8 * MIB)})
            self.assert_stands(self.order(ledger, pid, True), EVICTED)
            self.assertEqual(self.homes(ledger), {self.uuid: (0, 16 * MIB), self.other: (0, 8 * MIB)})
            self.assertEqual([was - now for was, now in zip(before, self.used())], [16 * MIB, 8 * MIB])
            self.assertEqual(int(ledger("host")), 24 * MIB)
            self.assert_stands(self.order(ledger, pid, False), ON_GPU)
            self.assertEqual((self.used(), int(ledger("host"))), (before, 0))
            self.tell_both(process)
        self.end_both(ledger, process)

    def test_process_leaves_both_devices_or_none(self):
        ledger = self.serve_both(20 * MIB)  # of host memory: enough for each of them
        process, pid = self.start_both(ledger)
        before = self.used()
        for _ in range(2):
            self.assert_stands(self.order(ledger, pid, True), ON_GPU, BUDGET)
            self.assertEqual((self.used(), int(ledger("host"))), (before, 0))
            self.tell_both(process)
            self.assert_stands(self.command_to(ledger, pid, "take", 8 * MIB, self.other), HELD)
            more = self.command_to(ledger, pid, "take", 16 * MIB, self.uuid, 8 * MIB, self.other)
            self.assert_stands(more, HELD, BUDGET)
            self.assertEqual(self.homes(ledger), {self.uuid: (16 * MIB, 0), self.other: (0, 8 * MIB)})
            self.assert_stands(self.order(ledger, pid, False), ON_GPU)
        self.end_both(ledger, process)

    def test_program_killed_while_off_both_devices_leaves_nothing(self):
        ledger = self.serve_both()
        process, pid = self.start_both(ledger)
        rest = None  # of all devices, when the process has ended
        for way in range(4):
            if way % 2 == 0:
                self.assert_stands(self.order(ledger, pid, True), EVICTED)
            else:
                ledger("order", pid, 1)
            os.kill(pid, signal.SIGKILL)
            process.wait()
            for uuid in (self.uuid, self.other):
                ledger.until_given_back(uuid)
            rest = rest or self.used()
            self.until(lambda: self.used() == rest, lambda: (self.used(), rest))
            process, pid = self.start_both(ledger)
            self.tell_both(process)

    def test_memory_comes_back_whole_after_the_mover_died(self):
        ledger = self.serve_both()
        process = self.start_probe("two_devices")
        pid = self.only(ledger)["pid"]
        for _ in range(3):
            self.assert_stands(self.order(ledger, pid, True), EVICTED)
            self.kill_mover(ledger)
            self.assert_stands(self.order(ledger, pid, False), ON_GPU)
            self.tell_both(process)
        self.end_both(ledger, process)

    def test_program_learns_of_second_device_lost_while_evicted(self):
        ledger = self.serve_both()
        process = self.start_probe("two_devices")
        pid = self.only(ledger)["pid"]
        self.assert_stands(self.order(ledger, pid, True), EVICTED)
        self.inject("lost", "--gpu", 1)
        failed = self.order(ledger, pid, False)
        self.assert_stands(failed, FAILED, DRIVER)
        self.assertNotEqual(failed["driver"], 0)
        process.stdin.write("\n")
        process.stdin.flush()
        self.assertEqual(process.wait(), 1)  # because a call failed

    def test_are_told_apart_where_an_allocation_waits_for_room(self):
        ledger = self.serve_both()
        ledger("patience", 60_000)
        ledger("room", self.other, CONTEXT + 4 * MIB)
        process = self.start(*self.probe_command("fills_second", 8))
        wants = lambda: {home["uuid"]: home["wants"] for home in self.only(ledger)["homes"]}
        self.until(lambda: len(self.statuses(ledger)) == 1 and self.other in wants() and wants()[self.other] != 0)
        self.assertEqual(wants(), {self.uuid: 0, self.other: 8 * MIB})
        ledger("room", self.other, "-")
        ledger("offer")
        self.assertEqual(json.loads(process.stdout.readline()), {"allocated": 0})
        self.assertEqual(wants(), {self.uuid: 0, self.other: 0})

    def edit(self, change):
        """Changes the ledger's page, as a program of the job could."""
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (folder / "cmdline").read_bytes().split(b"\0")
                if not words[0].endswith(b"ledger_server") or self.socket.encode() not in words:
                    continue
                for file in (folder / "fd").iterdir():
                    if "gpuman-ledger" in os.readlink(file):
                        with open(file, "r+b", buffering=0) as page, mmap.mmap(page.fileno(), 0) as memory:
                            return change(memory)
        self.fail("there is no ledger")

    def test_of_which_the_daemon_knows_one_alone_keep_the_memory_of_the_second(self):
        def forget(memory):
            memory[2120:2124] = bytes(4)  # Ledger::features, as an older daemon leaves it

        def fill(memory):
            for entry in range(61):  # Ledger::home: all are another process's
                memory[2128 + 32 * entry:2132 + 32 * entry] = (1000 | 1 << 16).to_bytes(4, "little")
        for change in (forget, fill):
            with self.subTest(change.__name__):
                ledger = self.serve_both()
                self.edit(change)
                process = self.start_probe("two_devices")
                pid = self.only(ledger)["pid"]
                self.assertEqual(self.homes(ledger), {self.uuid: (16 * MIB, 0)})
                for times in range(4):
                    if times % 2:
                        self.assert_stands(self.take(ledger, pid, 6 * MIB), HELD)
                    self.assert_stands(self.order(ledger, pid, True), EVICTED)
                    self.assertEqual(self.homes(ledger), {self.uuid: (0, 16 * MIB)})
                    self.assert_stands(self.order(ledger, pid, False), ON_GPU)
                    self.tell_both(process)
                self.end_both(ledger, process)
                ledger.stop()


if __name__ == "__main__":
    unittest.main()

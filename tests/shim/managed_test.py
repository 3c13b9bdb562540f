"""Managed memory in place of plain memory (gpuman run --oversubscribe, GPUs without virtual memory): libgpuman.so in
programs on the simulated driver, with a ledger that is served as the daemon serves it.

Usage: managed_test.py [NAME...]; GPUMAN_BUILD_DIR names the build.
"""

import json
import unittest

from shim_test import MIB, ShimCase, total

CONTEXT = 106 * MIB  # on the simulated RTX 4050, with its code
DEVICE = 346 * MIB   # of which 225 are the driver's
NO_LIMIT = (1 << 64) - 1


class ManagedCase(ShimCase):
    machine_options = ("--profile", "rtx4050", "--memory", "346MiB")
    memory, evictable = None, False

    def command(self, *words, preload=True):
        command = super().command(*words, preload=preload)
        if preload and self.evictable:
            command.insert(command.index("env") + 1, "GPUMAN_SHIM_EVICTABLE=1")
        if preload and self.memory:
            command.insert(command.index("env") + 1, "GPUMAN_SHIM_MEMORY=" + self.memory)
        return command

    def begin(self, limit=NO_LIMIT, *options):
        return self.serve(limit, CONTEXT, *options)

    def run_verified(self, size):
        return self.run_load("--alloc", f"{size // MIB}MiB", "--step", "4MiB", "--verify", "--iterations", "1")

    def steps(self, ledger):
        """What a program reports of its memory, and what its slot says, at each of its steps."""
        process = self.start(*self.probe_command("managed_comes_and_goes"))
        said = json.loads(process.stdout.readline())
        counts = [json.loads(ledger("statuses"))[0]]
        for _ in range(2):
            process.stdin.write("\n")
            process.stdin.flush()
            process.stdout.readline()
            counts.append(json.loads(ledger("statuses"))[0])
        process.stdin.close()
        self.assertEqual(process.wait(), 0)
        ledger.until_given_back(self.uuid)
        return said, counts


class Oversubscribed(ManagedCase):
    memory = "oversubscribe"

    def test_a_program_has_more_than_its_device_and_keeps_its_data(self):
        self.begin()
        status, events = self.run_verified(24 * MIB)
        self.assertEqual(status, 0, events[-3:])
        self.assertEqual(total(events), 24 * MIB)
        self.assertFalse([e for e in events if e["event"] == "verify" and e["wrong_words"]])

    def test_limit_of_oversubscribed_program_holds(self):
        ledger = self.begin(CONTEXT + 14 * MIB)
        status, events = self.run_verified(24 * MIB)
        self.assertEqual(status, 3, events[-3:])
        self.assertEqual(total(events), 12 * MIB)
        ledger.until_given_back(self.uuid)

    def test_program_is_told_its_limit_above_device_memory(self):
        limit = CONTEXT + 600 * MIB
        self.begin(limit)
        told = self.probe("told")
        self.assertEqual((told["total"], told["device_total"]), (limit, limit))
        self.assertEqual((told["free"], told["only_free"]), (600 * MIB, 600 * MIB))
        self.assertEqual((told["nvml"][0], told["nvml_v2"][0]), (limit, limit))
        self.assertEqual((told["nvml"][1], told["nvml_v2"][2]), (600 * MIB, 600 * MIB))

    def test_program_without_limit_is_told_device_memory(self):
        self.begin()
        real, told = self.probe("told", preload=False), self.probe("told")
        self.assertEqual((told["total"], told["device_total"]), (real["total"], real["device_total"]))
        self.assertEqual(told["free"], real["total"] - CONTEXT)

    def test_managed_memory_is_counted_and_freed(self):
        said, counts = self.steps(self.begin())
        self.assertEqual(said, {"managed": [True, False, True, True], "pitch": 4096})
        self.assertEqual([one["managed"] for one in counts], [10 * MIB, 6 * MIB, 0])
        self.assertEqual(counts[0]["held"], CONTEXT + 12 * MIB)


class Plain(ManagedCase):
    def test_a_program_that_did_not_ask_has_no_more_than_its_device(self):
        self.begin()
        self.assertEqual(self.run_verified(24 * MIB)[0], 3)

    def test_managed_memory_of_its_own_is_told(self):
        said, counts = self.steps(self.begin())
        self.assertEqual(said["managed"], [False, False, True, False])
        self.assertEqual([one["managed"] for one in counts], [2 * MIB, 2 * MIB, 0])


class Shared(ManagedCase):
    evictable = True

    def begin(self, limit=NO_LIMIT, *options):
        return super().begin(limit, "--evictable", "-", 20_000, *options)

    def test_memory_that_the_daemon_can_move_is_not_managed(self):
        said, counts = self.steps(self.begin())
        self.assertEqual(said["managed"], [False, False, True, False])
        self.assertEqual((counts[0]["managed"], counts[0]["evictable"]), (2 * MIB, 10 * MIB))  # with the slab


class SharedAndManaged(Shared):
    memory = "managed"

    def test_memory_that_the_daemon_can_move_is_not_managed(self):
        said, counts = self.steps(self.begin())
        self.assertEqual(said["managed"], [True, False, True, True])
        self.assertEqual((counts[0]["managed"], counts[0]["evictable"]), (10 * MIB, 0))

    def test_one_program_has_no_more_than_its_device(self):
        self.begin()
        status, events = self.run_verified(24 * MIB)
        self.assertEqual(status, 3, events[-3:])
        self.assertLessEqual(CONTEXT + total(events), DEVICE)


class WithoutVirtualMemory(Shared):
    machine_options = (*ManagedCase.machine_options, "--no-vmm")

    def test_memory_that_the_daemon_can_move_is_not_managed(self):
        said, counts = self.steps(self.begin())
        self.assertEqual(said["managed"], [True, False, True, True], "the driver moves it instead")
        self.assertEqual((counts[0]["managed"], counts[0]["evictable"]), (10 * MIB, 0))

    def test_memory_may_stay_plain_without_virtual_memory(self):
        self.memory = "vmm"
        said, _ = self.steps(self.begin())
        self.assertEqual(said["managed"], [False, False, True, False])


if __name__ == "__main__":
    unittest.main()

"""Stream-ordered memory of shared jobs leaves the GPU and comes back: libgpuman.so in programs on the simulated driver.
As evict_test.py.

Usage: async_test.py [NAME…]; GPUMAN_BUILD_DIR names the build. GPUMAN_TEST_ON_DEVICE=1 uses the
machine's own GPU, which no other program may use meanwhile.
"""

import json
import sys
import unittest

from evict_test import EVICTED, ON_GPU
from lease_test import HELD, LeaseCase
from shim_test import CONTEXT, HERE, MIB


class AsyncCase(LeaseCase):
    def probe_command(self, *words):
        return [sys.executable, str(HERE / "async_probe.py"), *map(str, words)]


class StreamOrderedMemory(AsyncCase):
    def test_leaves_and_comes_back_with_its_bytes(self):
        ledger = self.evictable()
        sizes = [10 * MIB, 1000, 40 * MIB, 300 * MIB]
        process = self.start_probe("holds_pooled", *sizes)
        one, before = self.only(ledger), self.device_used()
        self.assertEqual(one["evictable"], (32 + 40 + 300) * MIB)
        self.assertEqual(int(ledger("used", self.uuid)), CONTEXT + one["evictable"])
        for _ in range(5):
            away = self.order(ledger, one["pid"], True)
            self.assert_stands(away, EVICTED)
            self.assertEqual((away["evicted"], before - self.device_used()), (one["evictable"],) * 2)
            self.assert_stands(self.order(ledger, one["pid"], False), ON_GPU)
            answer = json.loads(self.tell(process))
            self.assertTrue(answer["good"])
            self.assertEqual(answer["counters"][0], one["evictable"])
        self.assertEqual(self.finish(process),
                         {"freed": [0] * 4, "waited": 0, "used": 0, "trimmed": 0, "reserved": 0})
        ledger.until_given_back(self.uuid)

    def test_leaves_in_parts(self):
        ledger = self.sharing()
        process = self.start_probe("holds_pooled", *[30 * MIB] * 6)
        pid = self.only(ledger)["pid"]
        for size in (1, 40, 100, 192):
            away = self.take(ledger, pid, size * MIB)
            self.assert_stands(away, HELD)
            self.assertEqual(away["evicted"], -(-size // 32) * 32 * MIB)
            self.run_again(ledger, pid)
            self.assert_good(process)

    def test_answers_as_the_drivers(self):
        without = self.probe("answers", preload=False)
        ledger = self.evictable()
        self.assertEqual(self.probe("answers"), without)
        ledger.until_given_back(self.uuid)

    def test_is_used_again_in_the_order_of_its_stream_alone(self):
        self.evictable()
        self.assertEqual(self.probe("order"), {"elsewhere": True, "again": True, "held": 64, "used": 48, "good": True,
                                               "half": True, "held_then": 64})

    def test_of_default_and_short_streams_is_used_again(self):
        self.evictable()
        told = self.probe("default_streams")
        # Nothing identifies a thread's default stream: the pool uses up its free memory first.
        self.assertEqual(told[:2], [[1, 0, 32]] * 2)
        self.assertEqual(told[2:4], [[32, 0, 32]] * 2)
        self.assertEqual(told[4:], [0, 0, 0])

    def test_of_many_threads_is_right_at_any_moment(self):
        ledger = self.evictable()
        process = self.start_probe("orders_of_many", 4)
        pid = self.only(ledger)["pid"]
        for _ in range(12):
            self.assert_stands(self.order(ledger, pid, True), EVICTED)
            self.assert_stands(self.order(ledger, pid, False), ON_GPU)
        answer = self.finish(process)
        self.assertEqual(answer["wrong"], [])
        self.assertGreater(answer["rounds"], 4)
        self.assertEqual((answer["used"], answer["trimmed"], answer["reserved"]), (0, 0, 0))

    def test_is_had_up_to_the_limit_whatever_was_freed_before(self):
        self.evictable(limit=CONTEXT + 96 * MIB)
        self.assertEqual(self.probe("up_to_the_limit"), [[96, 2], [90, 2], [96, 2], 0])

    def test_that_nobody_uses_makes_room_for_other_memory(self):
        ledger = self.sharing()
        process = self.start_probe("idle_pool")
        for room in (50, 98):
            ledger("room", self.uuid, CONTEXT + room * MIB)
            self.assertEqual(json.loads(self.tell(process)), {"before": 40, "status": 0, "after": 0})
            ledger("room", self.uuid, "-")
            self.assertEqual(self.tell(process), "ready\n")

    def test_waits_for_room(self):
        ledger = self.sharing()
        ledger("room", self.uuid, CONTEXT + 34 * MIB)
        ledger("patience", 60_000)
        process = self.start_probe("allocates", "async")
        process.stdin.write("\n")
        process.stdin.flush()
        self.until(lambda: self.only(ledger)["wants"] == 64 * MIB)
        ledger("room", self.uuid, "-")
        ledger("offer")
        self.assertEqual(json.loads(process.stdout.readline()), {"status": 0})

    def test_of_a_job_that_is_not_shared_is_the_drivers(self):
        ledger = self.serve(8 << 30)
        process = self.start_probe("holds_pooled", 10 * MIB, 40 * MIB)
        self.assertEqual(self.only(ledger)["evictable"], 0)
        self.assertEqual(int(ledger("used", self.uuid)), CONTEXT + 64 * MIB)
        self.assert_good(process)


if __name__ == "__main__":
    unittest.main()

"""Programs that take turns on a GPU: they are held and released, their memory leaves in parts, the daemon sees their
activity, and allocations wait for room. As evict_test.py.

Usage: lease_test.py [NAME…]; GPUMAN_BUILD_DIR names the build.
"""

import json
import os
import random
import select
import signal
import time
import unittest

from evict_test import BUSY, BUDGET, CAPTURING, EVICTED, HELD, NO_MOVER, NO_ROOM, ON_GPU, EvictCase
from shim_test import CONTEXT, GIB, MIB

UNKNOWN, IS_BUSY, IDLE, AT_GATE, FOR_ROOM = range(5)


class LeaseCase(EvictCase):
    def sharing(self, *options, **named):
        ledger = self.evictable(*options, **named)
        ledger("whole", 1)
        return ledger

    def command_to(self, ledger, pid, *what):
        self.assertEqual(ledger("order", pid, *what), "ok")
        self.assertEqual(ledger("await", pid, 60_000), "ok")
        return [one for one in self.statuses(ledger) if one["pid"] == pid][0]

    def hold(self, ledger, pid):
        one = self.command_to(ledger, pid, "hold")
        self.assert_stands(one, HELD)
        return one

    def take(self, ledger, pid, size):
        return self.command_to(ledger, pid, "take", size)

    def run_again(self, ledger, pid):
        one = self.command_to(ledger, pid, "0")
        self.assert_stands(one, ON_GPU)
        return one

    def assert_good(self, process):
        self.assertTrue(json.loads(self.tell(process))["good"])


class Holding(LeaseCase):
    def test_shuts_the_gate_and_opens_it_without_a_copy_or_a_mover(self):
        ledger = self.serve(8 * GIB, 256 * MIB, "--evictable", "-", 20_000)  # no mover
        process = self.start_probe("comes_and_goes", 3)
        pid = self.only(ledger)["pid"]
        for _ in range(50):
            used = self.hold(ledger, pid)
            self.assertEqual(used["evicted"], 0)
            self.run_again(ledger, pid)
        self.assertEqual(self.finish(process)["wrong"], [])

    def test_stops_the_program_and_goes_on_being_told(self):
        ledger = self.sharing()
        process = self.start_probe("holds", 16, 8)
        pid = self.only(ledger)["pid"]
        before = self.device_used()
        self.hold(ledger, pid)
        self.hold(ledger, pid)
        self.assertEqual(self.device_used(), before)
        process.stdin.write("\n")
        process.stdin.flush()
        self.until(lambda: self.only(ledger)["activity"] == AT_GATE)
        self.run_again(ledger, pid)
        self.assertTrue(json.loads(process.stdout.readline())["good"])

    def test_is_refused_where_work_or_captures_do_not_end(self):
        ledger = self.sharing(patience=200)
        for name, error in (("waits_for_itself", BUSY), ("captures", CAPTURING)):
            process = self.start_probe(name)
            pid = [one["pid"] for one in self.statuses(ledger)][-1]
            self.assert_stands(self.command_to(ledger, pid, "hold"), ON_GPU, error)
            self.assert_stands(self.take(ledger, pid, MIB), ON_GPU, error)
            self.tell(process)
            self.hold(ledger, pid)
            self.run_again(ledger, pid)
            self.finish(process)
            ledger.until_given_back(self.uuid)

    def test_holds_those_that_join_a_job_that_is_held(self):
        ledger = self.sharing()
        self.assertEqual(ledger("order", "all", "hold"), "0")
        process = self.start(*self.probe_command("holds", 16, 8))
        self.until(lambda: [one for one in self.statuses(ledger) if one["residency"] == HELD and one["answered"]])
        ledger("order", "all", 0)
        self.assertEqual(process.stdout.readline(), "ready\n")
        self.assert_good(process)


    def test_takes_in_who_began_without_a_daemon_and_allocates_no_more(self):
        process = self.start_probe("holds", 16, 8)
        ledger = self.sharing()
        pid = self.until(lambda: [one["pid"] for one in self.statuses(ledger) if one["residency"] == ON_GPU])[0]
        one = self.take(ledger, pid, 16 * MIB)
        self.assert_stands(one, HELD)
        self.assertEqual(one["evicted"], 16 * MIB)
        self.run_again(ledger, pid)
        self.assert_good(process)


class Parts(LeaseCase):
    def test_leave_as_many_as_asked_and_a_piece_more_at_most(self):
        ledger = self.sharing()
        process = self.start_probe("holds", 256, 8)
        pid = self.only(ledger)["pid"]
        before = self.device_used()
        for asked, gone in ((1, 8), (8, 8), (20, 24), (24, 24), (100, 104), (64, 104), (256, 256), (400, 256)):
            one = self.take(ledger, pid, asked * MIB)
            self.assert_stands(one, HELD)
            self.assertEqual((one["evicted"], one["evictable"]), (gone * MIB, (256 - gone) * MIB))
            self.assertEqual((before - self.device_used(), ledger("host")), (gone * MIB, str(gone * MIB)))
        self.assertEqual(ledger("moved"), f"{256 * MIB} 0")
        one = self.run_again(ledger, pid)
        self.assertEqual((one["evicted"], one["evictable"], self.device_used()), (0, 256 * MIB, before))
        self.assertEqual((ledger("host"), ledger("moved")), ("0", f"{256 * MIB} {256 * MIB}"))
        self.assert_good(process)
        self.assertEqual(self.finish(process)["destroyed"], 0)

    def test_parts_of_one_large_allocation_leave_by_handle(self):
        ledger = self.sharing()
        process = self.start_probe("holds", 600, 600)
        pid = self.only(ledger)["pid"]
        self.assertEqual(self.take(ledger, pid, MIB)["evicted"], 256 * MIB)
        self.assertEqual(self.take(ledger, pid, 257 * MIB)["evicted"], 512 * MIB)
        self.run_again(ledger, pid)
        self.assert_good(process)

    def test_parts_and_rest_leave_and_return_in_any_order(self):
        """Evict, hold, take and run in every order; the statuses report what is away, and the data is right."""
        ledger = self.sharing()
        chance = random.Random(5)
        process = self.start_probe("holds", 64, 4)
        pid = self.only(ledger)["pid"]
        before, away, shut = self.device_used(), 0, False
        for _ in range(80):
            what = chance.choice(("0", "1", "hold", "take", "fetch"))
            size = 4 * chance.randrange(1, 17)
            one = self.command_to(ledger, pid, what, size * MIB)
            residency, away = {"0": (ON_GPU, 0), "1": (EVICTED, 64), "hold": (HELD, away),
                           "take": (HELD, max(away, size)), "fetch": (HELD if shut else ON_GPU, 0)}[what]
            shut = residency != ON_GPU
            self.assert_stands(one, residency)
            self.assertEqual((one["evicted"], before - self.device_used()), (away * MIB, away * MIB), what)
            if what == "0":
                self.assert_good(process)
        self.run_again(ledger, pid)
        self.assert_good(process)

    def test_come_back_behind_the_closed_gate(self):
        ledger = self.sharing()
        process = self.start_probe("holds", 16, 8)
        pid = self.only(ledger)["pid"]
        before = self.device_used()
        self.assertEqual(self.command_to(ledger, pid, "1")["evicted"], 16 * MIB)
        one = self.command_to(ledger, pid, "fetch")
        self.assert_stands(one, HELD)
        self.assertTrue(one["fetches"])
        self.assertEqual((one["evicted"], self.device_used()), (0, before))
        process.stdin.write("\n")
        process.stdin.flush()
        self.until(lambda: self.only(ledger)["activity"] == AT_GATE)
        self.run_again(ledger, pid)
        self.assertTrue(json.loads(process.stdout.readline())["good"])

    def test_go_while_kernels_run_and_every_byte_is_right(self):
        ledger = self.sharing()
        process, end = self.start_work("12MiB")
        pid = self.only(ledger)["pid"]
        for number in range(30):
            ledger("order", pid, "take", (2 + 2 * (number % 6)) * MIB)
            ledger("await", pid, 60_000)
            ledger("order", pid, 0)
            ledger("await", pid, 60_000)
        end.touch()
        events = [json.loads(line) for line in process.stdout.read().splitlines()]
        self.assertEqual(process.wait(), 0, events[-3:])
        self.assertEqual([event["wrong_words"] for event in events if event["event"] == "verify"], [0])

    def test_parts_beyond_the_host_budget_are_refused_and_evicted_parts_stay_away(self):
        ledger = self.sharing(budget=32 * MIB)
        process = self.start_probe("holds", 64, 8)
        pid = self.only(ledger)["pid"]
        self.assert_stands(self.take(ledger, pid, 40 * MIB), ON_GPU, BUDGET)
        self.assert_stands(self.take(ledger, pid, 16 * MIB), HELD)
        one = self.take(ledger, pid, 48 * MIB)
        self.assert_stands(one, HELD, BUDGET)
        self.assertEqual(one["evicted"], 16 * MIB)
        self.assert_stands(self.order(ledger, pid, True), HELD, BUDGET)
        self.run_again(ledger, pid)
        self.assert_good(process)

    def test_come_back_as_room_is_granted(self):
        ledger = self.sharing()
        process = self.start_probe("holds", 64, 8)
        pid = self.only(ledger)["pid"]
        self.take(ledger, pid, 48 * MIB)
        ledger("credit", 16 * MIB)
        ledger("order", pid, 0)
        for granted in (16, 24, 40):
            self.until(lambda: (ledger("await", pid, 20), ledger("moved").split()[1] == str(granted * MIB))[1])
            self.assertEqual(self.only(ledger)["answered"], False)
            ledger("grant", pid, 16 * MIB if granted == 24 else 8 * MIB)
        self.assertEqual(ledger("await", pid, 60_000), "ok")
        self.assert_stands(self.only(ledger), ON_GPU)
        self.assert_good(process)

    def test_parts_without_room_stay_away_and_the_rest_stays(self):
        ledger = self.sharing()
        process = self.start_probe("holds", 64, 8)
        pid = self.only(ledger)["pid"]
        self.take(ledger, pid, 48 * MIB)
        used = self.device_used()
        for nth in (1, 4):
            self.inject("alloc-fail", "--nth", nth)
            one = self.command_to(ledger, pid, "0")
            self.assert_stands(one, HELD, NO_ROOM)
            self.assertEqual((one["evicted"], self.device_used()), (48 * MIB, used))
        self.run_again(ledger, pid)
        self.assert_good(process)


class Deaths(LeaseCase):
    def test_mover_killed_at_any_moment_loses_nothing(self):
        ledger = self.sharing()
        process = self.start_probe("holds", 96, 8)
        pid = self.only(ledger)["pid"]
        chance = random.Random(11)
        for number in range(24):
            back = number % 3 == 2
            # The data of a process that has given its memory up needs the daemon's copies, which this test does not
            # keep: so it does not kill a mover that copies out.
            ledger("order", pid, *(("0",) if back else ("take", chance.randrange(1, 96) * MIB)))
            if back:
                ledger("await", pid, chance.randrange(0, 40))
                self.kill_mover(ledger)
            self.assertEqual(ledger("await", pid, 60_000), "ok")
            self.assertIn(self.only(ledger)["residency"], (ON_GPU, HELD), number)
        while self.command_to(ledger, pid, "0")["residency"] != ON_GPU:
            pass
        self.assert_good(process)

    def test_program_killed_in_any_state_leaves_nothing_behind(self):
        ledger = self.sharing()
        at_start = self.device_used()
        chance = random.Random(3)
        for number in range(16):
            process = self.start_probe("holds", 24, 4)
            pid = self.only(ledger)["pid"]
            for what in (("hold",), ("take", 8 * MIB), ("take", 16 * MIB), ("1",))[:number % 5]:
                self.command_to(ledger, pid, *what)
            ledger("order", pid, *chance.choice((("take", 20 * MIB), ("0",), ("1",), ("hold",))))
            ledger("await", pid, chance.randrange(0, 30))
            os.kill(pid, signal.SIGKILL)
            process.wait()
            # What the mover still copies is reclaimed after that.
            self.until(lambda: (ledger("await", "all", 20), ledger("reclaim"), not self.statuses(ledger)
                                and (ledger("used", self.uuid), ledger("host")) == ("0", "0"))[2],
                       lambda: (self.statuses(ledger), ledger("used", self.uuid), ledger("host")))
            self.until(lambda: (ledger("await", "all", 20), self.device_used() == at_start)[1])

    def test_process_stays_held_for_the_next_daemon(self):
        ledger = self.sharing()
        process = self.start_probe("holds", 16, 4)
        pid = self.only(ledger)["pid"]
        self.take(ledger, pid, 8 * MIB)
        ledger.process.kill()
        ledger.process.wait()
        fds = f"/proc/{pid}/fd/"
        fd = [name for name in os.listdir(fds) if "gpuman-ledger" in os.readlink(fds + name)][0]
        again = self.evictable("-", 20_000, 8 * GIB, "--adopt", pid, fd)
        one = self.only(again)
        self.assert_stands(one, HELD)
        self.assertEqual(one["evicted"], 8 * MIB)
        self.run_again(again, pid)
        self.assert_good(process)

    def test_forked_child_of_held_parent_runs_by_itself(self):
        ledger = self.sharing()
        process = self.start_probe("forks")
        pid = self.only(ledger)["pid"]
        self.assert_stands(self.take(ledger, pid, MIB), HELD)
        self.assertEqual(self.tell(process), "ready\n")
        self.run_again(ledger, pid)
        self.assertEqual(self.finish(process), {"child": [3, 3, 3], "good": True, "freed": 0})

    def test_parts_stay_on_the_gpu_without_a_mover(self):
        ledger = self.serve(8 * GIB, 256 * MIB, "--evictable", "-", 20_000)
        process = self.start_probe("holds", 16, 8)
        pid = self.only(ledger)["pid"]
        self.assert_stands(self.take(ledger, pid, MIB), ON_GPU, NO_MOVER)
        self.hold(ledger, pid)
        self.assert_stands(self.take(ledger, pid, MIB), HELD, NO_MOVER)
        self.run_again(ledger, pid)
        self.assert_good(process)


class Activity(LeaseCase):
    IDLE_MS = 20

    def activity(self, ledger):
        ledger("await", "all", 2)  # the server works meanwhile
        return self.only(ledger)["activity"]

    def until_activity(self, ledger, wanted):
        self.until(lambda: self.activity(ledger) == wanted)

    def test_is_not_told_where_nobody_watches(self):
        ledger = self.sharing()
        process = self.start_probe("many_threads", 2)
        time.sleep(0.1)
        one = self.only(ledger)
        self.assertEqual((one["activity"], one["completed"], ledger("notifications")), (UNKNOWN, 0, "0"))
        self.assertEqual(self.finish(process)["wrong"], [])

    def test_is_busy_while_it_calls_and_idle_when_it_has_stopped(self):
        ledger = self.sharing()
        process = self.start_probe("pauses")
        ledger("watch", self.IDLE_MS)
        notifications = 0
        for _ in range(3):
            self.until_activity(ledger, IDLE)
            # The word is told first, the daemon is notified then.
            self.until(lambda: (ledger("await", "all", 2), int(ledger("notifications")) > notifications)[1])
            notifications = int(ledger("notifications"))
            self.tell(process)  # works until a line tells it to stop
            self.until_activity(ledger, IS_BUSY)
            done = self.only(ledger)["completed"]
            self.until(lambda: self.only(ledger)["completed"] > done)
            self.tell(process)
            self.until(lambda: (self.activity(ledger), int(ledger("notifications")) > notifications)[1])
        ledger("watch", 0)
        self.until_activity(ledger, UNKNOWN)

    def test_is_not_idle_while_its_work_runs(self):
        ledger = self.sharing()
        process = self.start_probe("waits_for_itself", 0)  # on the default stream
        ledger("watch", self.IDLE_MS)
        self.until_activity(ledger, IS_BUSY)
        end = time.monotonic() + 10 * self.IDLE_MS / 1000
        while time.monotonic() < end:
            self.assertEqual(self.activity(ledger), IS_BUSY)
        self.tell(process)
        self.until_activity(ledger, IDLE)

    def test_watched_activity_spoils_no_capture(self):
        ledger = self.sharing()
        ledger("watch", 1)
        process = self.start_probe("captures_again_and_again")
        self.assertEqual(set(self.finish(process)["statuses"]), {0})

    def test_waiting_thread_is_shown_and_notified(self):
        ledger = self.sharing()
        process = self.start_probe("holds", 8, 8)
        pid = self.only(ledger)["pid"]
        ledger("watch", self.IDLE_MS)
        self.until_activity(ledger, IDLE)
        self.hold(ledger, pid)
        self.assertEqual(self.activity(ledger), IDLE)
        notifications = int(ledger("notifications"))
        process.stdin.write("\n")
        process.stdin.flush()
        self.until_activity(ledger, AT_GATE)
        self.until(lambda: (ledger("await", "all", 2), int(ledger("notifications")) > notifications)[1])
        self.run_again(ledger, pid)
        self.assertTrue(json.loads(process.stdout.readline())["good"])
        self.until_activity(ledger, IDLE)


class Answers(LeaseCase):
    """Nobody watches, so there is no other cause to notify."""

    def told(self, ledger):
        return int(ledger("notifications"))

    def until_told(self, ledger, times):
        self.until(lambda: (ledger("await", "all", 2), self.told(ledger) >= times)[1])

    def test_answers_to_executed_orders_are_notified_one_by_one(self):
        ledger = self.sharing()
        process = self.start_probe("holds", 8, 8)
        pid = self.only(ledger)["pid"]
        self.assertTrue(self.only(ledger)["notifies"])
        self.until_on_gpu(ledger)
        before = self.told(ledger)
        for number, (what, residency) in enumerate((("hold", HELD), ("0", ON_GPU), ("1", EVICTED), ("0", ON_GPU)), 1):
            self.assert_stands(self.command_to(ledger, pid, what), residency)
            self.until_told(ledger, before + number)
        self.assertEqual(self.told(ledger), before + 4)
        self.assert_good(process)

    def test_answer_to_order_refused_after_a_while_is_notified(self):
        ledger = self.sharing(patience=200)
        process = self.start_probe("waits_for_itself")
        pid = self.only(ledger)["pid"]
        before = self.told(ledger)
        self.assertEqual(self.command_to(ledger, pid, "hold")["error"], BUSY)
        self.until_told(ledger, before + 1)
        self.tell(process)

    def test_answers_stay_in_the_slot_without_daemon(self):
        """The notification reaches nobody, and the program is none the wiser."""
        ledger = self.sharing()
        process = self.start_probe("holds", 8, 8)
        pid = self.only(ledger)["pid"]
        self.hold(ledger, pid)
        os.unlink(self.socket)
        self.run_again(ledger, pid)
        self.hold(ledger, pid)
        self.run_again(ledger, pid)
        self.assert_good(process)


class Room(LeaseCase):
    def test_room_is_waited_for_by_each_kind_of_allocation(self):
        for api in ("malloc", "small", "vmm", "async"):
            with self.subTest(api):
                ledger = self.sharing()
                ledger("patience", 60_000)
                process = self.start_probe("allocates", api)
                pid = self.only(ledger)["pid"]
                ledger("room", self.uuid, self.only(ledger)["held"])
                process.stdin.write("\n")
                process.stdin.flush()
                one = self.until(lambda: [one for one in self.statuses(ledger) if one["activity"] == FOR_ROOM])[0]
                self.assertGreater(one["wants"], 0)
                self.until(lambda: (ledger("await", "all", 2), int(ledger("notifications")) > 0)[1])
                ledger("offer")  # not enough: it still waits
                self.until(lambda: (ledger("await", "all", 2), int(ledger("notifications")) > 1)[1])
                self.hold(ledger, pid)  # an allocation that waits for room does not prevent it
                self.run_again(ledger, pid)
                self.assertEqual(self.only(ledger)["activity"], FOR_ROOM)
                ledger("room", self.uuid, "-")
                ledger("offer")
                self.assertEqual(json.loads(process.stdout.readline()), {"status": 0})
                self.assertEqual(self.only(ledger)["wants"], 0)
                ledger.stop()

    def test_room_on_full_device_is_waited_for_and_then_refused(self):
        ledger = self.sharing()
        ledger("patience", 200)
        process = self.start_probe("allocates", "malloc")
        self.inject("alloc-fail", "--nth", 1)
        process.stdin.write("\n")
        process.stdin.flush()
        self.assertEqual(json.loads(process.stdout.readline()), {"status": 2})
        self.assertEqual(self.only(ledger)["wants"], 0)
        ledger("patience", 60_000)
        self.inject("alloc-fail", "--nth", 1)
        process.stdin.write("\n")
        process.stdin.flush()
        self.until(lambda: self.only(ledger)["activity"] == FOR_ROOM)
        ledger("offer")
        self.assertEqual(json.loads(process.stdout.readline()), {"status": 0})

    def test_denial_of_room_applies_to_its_size_only(self):
        ledger = self.sharing()
        ledger("patience", 60_000)
        process = self.start_probe("allocates", "malloc", 64)
        ledger("room", self.uuid, self.only(ledger)["held"])
        process.stdin.write("\n\n")
        process.stdin.flush()
        self.until(lambda: self.only(ledger)["activity"] == FOR_ROOM)
        ledger("denied", 65 * MIB)
        ledger("offer")  # it tries again, and waits again
        self.until(lambda: self.only(ledger)["activity"] == FOR_ROOM)
        self.assertEqual(select.select([process.stdout], [], [], 0)[0], [], "it wants less")
        ledger("denied", 64 * MIB)
        self.assertEqual(json.loads(process.stdout.readline()), {"status": 2})
        self.assertEqual(json.loads(process.stdout.readline()), {"status": 2}, "the next of that size does not wait")
        ledger("denied", 0)
        process.stdin.write("\n")
        process.stdin.flush()
        self.until(lambda: self.only(ledger)["activity"] == FOR_ROOM)
        ledger("room", self.uuid, "-")
        ledger("offer")
        self.assertEqual(json.loads(process.stdout.readline()), {"status": 0})

    def test_is_not_waited_for_at_the_jobs_own_limit_nor_in_a_job_that_does_not_share(self):
        ledger = self.sharing(limit=CONTEXT + 256 * MIB)
        ledger("patience", 60_000)
        process = self.start_probe("allocates", "malloc", 300)
        process.stdin.write("\n")
        process.stdin.flush()
        self.assertEqual(json.loads(process.stdout.readline()), {"status": 2})
        ledger("patience", 0)
        ledger("room", self.uuid, 1)
        ledger("limit", self.uuid, 8 * GIB)
        process.stdin.write("\n")
        process.stdin.flush()
        self.assertEqual(json.loads(process.stdout.readline()), {"status": 2})


if __name__ == "__main__":
    unittest.main()

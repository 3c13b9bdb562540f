"""Processes come to rest: they tell what works and who waits at the gate, make the calls that the daemon grants, and
are held for now. As lease_test.py.

Usage: call_grants_test.py [NAME…]; GPUMAN_BUILD_DIR names the build.
"""

import json
import random
import sys
import time
import unittest

from evict_test import BUSY, EVICTING, ON_GPU
from lease_test import FOR_ROOM, HELD, LeaseCase
from shim_test import CONTEXT, GIB, HERE, MIB

USED_UP, AT_WORK, NOBODY_WAITED, OTHERS_CHANGED, WITHDRAWN, REFUSED = range(1, 7)
FOR_LONG = 60_000
GPUS = 4


class StepCase(LeaseCase):
    machine_options = ("--gpus", str(GPUS))

    def setUp(self):
        super().setUp()
        self.word = self.dir + "/word"
        with open(self.word, "wb") as file:
            file.write(bytes(4096))
        self.uuids = [self.uuid, *(self.probe("uuid_of", gpu, preload=False) for gpu in range(1, GPUS))]

    def write_word(self, value):
        """Processes that have the word mapped see it."""
        with open(self.word, "r+b") as file:
            file.write(value.to_bytes(4, sys.byteorder))

    def sharing(self, *options, **named):
        others = [word for uuid in self.uuids[1:] for word in ("--gpu", uuid, 8 * GIB, CONTEXT)]
        return super().sharing("-", 20_000, 8 * GIB, *others, *options, **named)

    def start_threads(self, ledger, *threads):
        """Starts a program with these threads; returns it and its pid in the ledger."""
        before = {one["pid"] for one in self.statuses(ledger)}
        process = self.start(sys.executable, str(HERE / "call_grants_probe.py"), self.word, *threads)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process, self.until(lambda: [one["pid"] for one in self.statuses(ledger)
                                            if one["pid"] not in before and one["residency"] == ON_GPU])[0]

    def say(self, process, *words):
        process.stdin.write(" ".join(map(str, words)) + "\n")
        process.stdin.flush()

    def log(self, process):
        self.say(process, "log")
        return json.loads(process.stdout.readline())

    def calls(self, process):
        """The threads whose calls have returned, in that order."""
        log = self.log(process)
        self.assertEqual([one for one in log if one[2] != 0], [])
        return [thread for thread, _, _ in log]

    def of(self, ledger, pid):
        ledger("await", pid, 1)  # the server works meanwhile
        return [one for one in self.statuses(ledger) if one["pid"] == pid][0]

    def until_rest(self, ledger, pid, **words):
        return self.until(lambda: [one for one in [self.of(ledger, pid)] if {**one["rest"], **words} == one["rest"]],
                          lambda: self.of(ledger, pid))[0]

    def hold_for(self, ledger, pid, milliseconds=FOR_LONG):
        one = self.command_to(ledger, pid, "hold_for", milliseconds)
        self.assert_stands(one, HELD)
        return one

    def come_to_gate(self, ledger, process, pid, threads, waits):
        for thread in threads:
            self.say(process, "go", thread)
        return self.until_rest(ledger, pid, waits=waits)

    def until_granted(self, ledger, pid, number):
        one = self.until(lambda: [one for one in [self.of(ledger, pid)]
                                  if one["grant_report"][0] == number and one["grant_report"][1] != 0],
                         lambda: self.of(ledger, pid))[0]
        return one["grant_report"][1:]

    def grant(self, ledger, pid, *what):
        """Grants calls, and returns how the grant ended, and how many calls have passed."""
        return self.until_granted(ledger, pid, int(ledger("grant_calls", pid, *what)))

    def let_pass(self, ledger, pid, gpu, calls, *how):
        """Grants calls until so many have passed. On a slow machine a grant may end before: a call takes its time, or
        its thread comes back late."""
        while calls > 0:
            ended, passed = self.grant(ledger, pid, gpu, calls, *how)
            self.assertIn(ended, (USED_UP, AT_WORK, NOBODY_WAITED, OTHERS_CHANGED))
            self.assertLessEqual(passed, calls)
            self.assertTrue(ended != USED_UP or passed == calls)
            calls -= passed

    def end(self, ledger, process, *pids):
        for pid in pids:
            self.run_again(ledger, pid)
        process.stdin.close()
        log = json.loads(process.stdout.read().splitlines()[-1])
        self.assertEqual([one for one in log if one[2] != 0], [])
        self.assertEqual(process.wait(), 0)
        return log


class Steps(StepCase):
    def held_at_gate(self, *threads, waits=1, go=None):
        """A program that is held and whose threads stand at the gate."""
        ledger = self.sharing()
        process, pid = self.start_threads(ledger, *threads)
        self.assertTrue(self.hold_for(ledger, pid)["takes_grants"])
        self.come_to_gate(ledger, process, pid, range(len(threads)) if go is None else go, waits)
        return ledger, process, pid

    def test_grants_let_as_many_calls_pass_and_no_more(self):
        ledger, process, pid = self.held_at_gate("0:set*100")
        passed = 0
        for grant in ((0, 1), ("any", 1), (0, 10), (0, 20, 2), (0, 13, 3), (0, 3, "careful"), (0, 3, "behind")):
            self.let_pass(ledger, pid, *grant)
            passed += grant[1]
            self.assertEqual(len(self.calls(process)), passed, grant)
            self.until(lambda: self.of(ledger, pid)["residency"] == HELD)
            self.assert_stands(self.of(ledger, pid), HELD)
            self.until_rest(ledger, pid, shut=True, works=0, waits=1, in_flight=False)
        self.assertEqual(len(self.end(ledger, process, pid)), 100)

    def test_are_notified_at_their_end_and_not_one_by_one(self):
        ledger, process, pid = self.held_at_gate("0:set*2000")
        ledger("watch", 60_000)
        before = int(ledger("notifications"))
        grants = 0
        while len(self.calls(process)) < 500:
            self.grant(ledger, pid, 0, 500)
            grants += 1
            self.until(lambda: (ledger("await", pid, 2), int(ledger("notifications")) > before)[1])
        self.assertLess(int(ledger("notifications")) - before, 10 + 4 * grants)
        self.assertLess(grants, 400)  # on a busy machine a grant ends after few calls
        self.end(ledger, process, pid)

    def test_go_to_the_gpu_that_they_name(self):
        ledger, process, pid = self.held_at_gate(*(f"{gpu}:set*50" for gpu in range(GPUS)), waits=15)
        for gpu, calls in ((2, 1), (3, 5), (2, 4), (0, 2)):
            before = len(self.calls(process))
            self.let_pass(ledger, pid, gpu, calls)
            self.assertEqual(self.calls(process)[before:], [gpu] * calls)
        self.end(ledger, process, pid)

    def test_go_to_threads_in_the_order_in_which_they_came(self):
        ledger = self.sharing()
        process, pid = self.start_threads(ledger, *(f"{gpu}:set" for gpu in range(GPUS)))
        self.hold_for(ledger, pid)
        order, waits = random.Random(7).sample(range(GPUS), GPUS), 0
        for gpu in order:  # which threads are there is told by GPU, so each has its own
            waits |= 1 << gpu
            self.come_to_gate(ledger, process, pid, [gpu], waits)
        for number, gpu in enumerate(order, 1):
            self.let_pass(ledger, pid, "any", 1)
            self.assertEqual(self.calls(process), order[:number])
        self.end(ledger, process, pid)

    def test_end_where_a_call_does_not_come_to_rest(self):
        for stride in (0, 1):
            with self.subTest(stride):
                for _ in range(20):
                    self.write_word(0)
                    ledger, process, pid = self.held_at_gate("0:wait,sync,set*9")
                    number = int(ledger("grant_calls", pid, 0, 8, stride))
                    one = self.until(lambda: [one for one in [self.of(ledger, pid)] if one["grant_report"][2] > 0])[0]
                    if one["grant_report"] != [number, NOBODY_WAITED, 1]:  # else its thread came back late
                        break
                    self.say(process, "release")
                    self.end(ledger, process, pid)
                    ledger.stop()
                self.assertEqual((one["residency"], one["grant_report"]), (EVICTING, [number, 0, 1 + stride]))
                self.assertEqual((one["rest"]["works"], one["rest"]["in_flight"]), (1, stride == 1))
                self.say(process, "release")
                self.assertEqual(self.until_granted(ledger, pid, number), [AT_WORK, 1 + stride])
                self.until(lambda: self.of(ledger, pid)["residency"] == HELD)
                self.let_pass(ledger, pid, 0, 3)
                self.end(ledger, process, pid)
                ledger.stop()

    def test_pass_behind_work_that_has_not_ended(self):
        ledger, process, pid = self.held_at_gate("0:wait,set*9")
        number = int(ledger("grant_calls", pid, 0, 1))
        self.until(lambda: self.of(ledger, pid)["grant_report"] == [number, 0, 1])
        ledger("withdraw", pid)
        self.assertEqual(self.until_granted(ledger, pid, number), [WITHDRAWN, 1])
        self.let_pass(ledger, pid, 0, 2, "behind")
        self.assertEqual(len(self.calls(process)), 3)
        self.assertEqual(self.of(ledger, pid)["rest"]["works"], 1)
        self.say(process, "release")
        self.until(lambda: self.of(ledger, pid)["residency"] == HELD)
        self.end(ledger, process, pid)

    def test_end_where_nobody_waits(self):
        ledger = self.sharing()
        process, pid = self.start_threads(ledger, "0:set*3", "1:set")
        self.hold_for(ledger, pid)
        self.assertEqual(self.grant(ledger, pid, 0, 5), [NOBODY_WAITED, 0])
        self.come_to_gate(ledger, process, pid, [0], 1)
        self.assertEqual(self.grant(ledger, pid, 1, 5), [NOBODY_WAITED, 0])
        self.assertEqual(self.grant(ledger, pid, 9, 5), [NOBODY_WAITED, 0])
        self.let_pass(ledger, pid, 0, 3)
        self.assertEqual(self.grant(ledger, pid, 0, 5), [NOBODY_WAITED, 0])
        self.end(ledger, process, pid)

    def test_end_where_another_process_comes_to_rest(self):
        ledger, process, pid = self.held_at_gate("0:set*99999")
        for _ in range(200):  # on a slow machine the grant may end for another reason before
            self.write_word(0)
            other, other_pid = self.start_threads(ledger, "1:wait,sync")
            self.say(other, "go", 0)
            self.until(lambda: self.log(other))
            ledger("order", other_pid, "hold_for", FOR_LONG)
            self.until_rest(ledger, other_pid, works=2)
            number = int(ledger("grant_calls", pid, 0, 1023, "careful"))
            self.say(other, "release")
            ended, calls = self.until_granted(ledger, pid, number)
            self.assertTrue(calls < 1023 or ended == USED_UP)
            self.until(lambda: self.of(ledger, other_pid)["residency"] == HELD)
            self.end(ledger, other, other_pid)
            if ended == OTHERS_CHANGED:
                break
        self.assertEqual(ended, OTHERS_CHANGED)

    def test_are_refused_where_the_gate_is_open_or_memory_is_away(self):
        ledger = self.sharing()
        process, pid = self.start_threads(ledger, "0:set*3")
        self.assertEqual(self.grant(ledger, pid, 0, 1), [REFUSED, 0])
        self.take(ledger, pid, 2 * MIB)
        self.say(process, "go", 0)
        self.assertEqual(self.grant(ledger, pid, 0, 1), [REFUSED, 0])
        self.hold(ledger, pid)
        self.assertEqual(self.grant(ledger, pid, 0, 1), [REFUSED, 0], "the memory is still away")
        self.assertEqual(self.calls(process), [])
        self.end(ledger, process, pid)

    def test_may_be_withdrawn_and_end_with_the_order(self):
        ledger, process, pid = self.held_at_gate("0:wait,set*3")
        number = int(ledger("grant_calls", pid, 0, 9))
        self.until(lambda: self.of(ledger, pid)["grant_report"] == [number, 0, 1])
        self.assertEqual(ledger("withdraw", pid), str(number))
        self.assertEqual(self.until_granted(ledger, pid, number), [WITHDRAWN, 1])
        number = int(ledger("grant_calls", pid, 0, 9))
        self.until(lambda: self.of(ledger, pid)["grant_report"] == [number, 0, 0])
        self.run_again(ledger, pid)
        self.assertEqual(self.of(ledger, pid)["grant_report"], [number, WITHDRAWN, 0])
        self.assertEqual(self.of(ledger, pid)["rest"]["shut"], False)
        self.say(process, "release")
        self.until(lambda: len(self.calls(process)) == 4)
        self.end(ledger, process, pid)

    def test_capture_counts_as_one_call(self):
        ledger, process, pid = self.held_at_gate("0:set,begin,set*5,end,sync,set*20")
        self.let_pass(ledger, pid, 0, 2)
        made = ["set", "begin", *["set"] * 5, "end"]
        self.assertEqual([call for _, call, _ in self.log(process)], made, "and nothing behind the capture")
        self.until(lambda: self.of(ledger, pid)["residency"] == HELD)
        self.let_pass(ledger, pid, 0, 1)
        self.assertEqual([call for _, call, _ in self.log(process)], [*made, "sync"])
        self.end(ledger, process, pid)

    def test_context_can_be_destroyed_within_a_grant(self):
        ledger, process, pid = self.held_at_gate("0:set,destroy", "1:set*3", waits=3)
        self.let_pass(ledger, pid, 0, 2)
        self.assertEqual(self.log(process)[-1], [0, "destroy", 0])
        self.until(lambda: self.of(ledger, pid)["residency"] == HELD)
        self.let_pass(ledger, pid, 1, 3)
        self.end(ledger, process, pid)

    def test_bring_a_process_to_rest_that_waits_for_another(self):
        ledger = self.sharing()
        first, first_pid = self.start_threads(ledger, "0:wait,sync")
        second, second_pid = self.start_threads(ledger, "1:set*5,write,set*9")
        self.say(first, "go", 0)
        self.until(lambda: self.log(first))
        ledger("order", "all", "hold_for", FOR_LONG)
        self.until_rest(ledger, second_pid, shut=True)
        self.come_to_gate(ledger, second, second_pid, [0], 2)
        self.until_rest(ledger, first_pid, works=1)
        self.assertEqual(self.of(ledger, first_pid)["answered"], False)
        self.let_pass(ledger, second_pid, 1, 6)
        self.assertEqual(ledger("await", "all", FOR_LONG), "ok")
        for pid in (first_pid, second_pid):
            self.assert_stands(self.of(ledger, pid), HELD)
        self.assertEqual(ledger("order", "all", "hold"), "2")
        self.assertEqual(ledger("await", "all", FOR_LONG), "ok")
        self.end(ledger, first, first_pid)
        self.end(ledger, second, second_pid)

    def test_bring_one_gpu_of_a_process_to_rest_that_waits_for_the_other(self):
        ledger = self.sharing()
        process, pid = self.start_threads(ledger, "0:wait,sync", "1:set*5,write,set*9")
        self.say(process, "go", 0)
        self.until(lambda: self.log(process))
        ledger("order", pid, "hold_for", FOR_LONG)
        self.until_rest(ledger, pid, shut=True)
        self.come_to_gate(ledger, process, pid, [1], 2)
        self.until_rest(ledger, pid, works=1)
        self.let_pass(ledger, pid, 1, 6)
        self.assertEqual(ledger("await", pid, FOR_LONG), "ok")
        self.assert_stands(self.of(ledger, pid), HELD)
        self.end(ledger, process, pid)


class RestWords(StepCase):
    def test_tell_which_gpus_work_also_when_the_order_is_refused(self):
        ledger = self.sharing()
        process, pid = self.start_threads(ledger, "0:set", "2:wait")
        for thread in (0, 1):
            self.say(process, "go", thread)
        self.until(lambda: len(self.calls(process)) == 2)
        one = self.command_to(ledger, pid, "hold_for", 200)
        self.assert_stands(one, ON_GPU, BUSY)
        self.assertEqual((one["rest"]["works"], one["rest"]["shut"]), (4, False))
        self.say(process, "release")
        one = self.hold_for(ledger, pid)
        self.assertEqual((one["rest"]["works"], one["rest"]["shut"]), (0, True))
        self.assertEqual(self.run_again(ledger, pid)["rest"]["shut"], False)
        self.end(ledger, process, pid)

    def test_tell_of_captures_and_of_waits_for_room(self):
        ledger = self.sharing()
        ledger("patience", FOR_LONG)
        process, pid = self.start_threads(ledger, "0:begin", "1:alloc*20")
        ledger("room", self.uuids[1], 1)
        for thread in (0, 1):
            self.say(process, "go", thread)
        self.until(lambda: self.log(process) and self.of(ledger, pid)["activity"] == FOR_ROOM)
        ledger("order", pid, "hold_for", FOR_LONG)
        self.until_rest(ledger, pid, capturing=True, for_room=True, shut=False)
        ledger("room", self.uuids[1], "-")
        ledger("offer")
        self.until(lambda: len(self.calls(process)) == 21)
        self.run_again(ledger, pid)

    def test_tell_that_memory_is_shared(self):
        ledger = self.sharing()
        process, pid = self.start_threads(ledger, "0:export")
        self.assertFalse(self.of(ledger, pid)["shares"])
        self.say(process, "go", 0)
        self.until(lambda: self.of(ledger, pid)["shares"])
        self.end(ledger, process)


class HoldsForNow(StepCase):
    def test_holds_end_by_themselves(self):
        ledger = self.sharing()
        process, pid = self.start_threads(ledger, "0:set*5")
        before = int(ledger("notifications"))
        self.hold_for(ledger, pid, 3000)
        self.come_to_gate(ledger, process, pid, [0], 1)
        self.until(lambda: len(self.calls(process)) == 5)
        one = self.until(lambda: [one for one in [self.of(ledger, pid)] if one["residency"] == ON_GPU])[0]
        self.assert_stands(one, ON_GPU, BUSY)
        self.assertEqual((one["rest"]["shut"], one["rest"]["waits"]), (False, 0))
        # The residency is told first, the daemon is notified then.
        self.until(lambda: (ledger("await", pid, 2), int(ledger("notifications")) >= before + 2)[1])
        self.end(ledger, process, pid)

    def test_end_where_the_daemon_is_gone(self):
        ledger = self.sharing()
        process, pid = self.start_threads(ledger, "0:set*5")
        self.hold_for(ledger, pid, 3000)
        ledger.process.kill()
        ledger.process.wait()
        self.say(process, "go", 0)
        self.until(lambda: len(self.calls(process)) == 5)
        process.stdin.close()
        self.assertEqual(process.wait(), 0)

    def test_end_while_a_granted_call_does_not_rest(self):
        ledger = self.sharing()
        process, pid = self.start_threads(ledger, "0:wait,sync,set*3")
        self.hold_for(ledger, pid, 5000)
        self.come_to_gate(ledger, process, pid, [0], 1)
        ended, passed = self.grant(ledger, pid, 0, 9, 1)
        self.assertIn(ended, (WITHDRAWN, NOBODY_WAITED))  # the latter on a slow machine
        self.assertLessEqual(passed, 2)
        self.until(lambda: self.of(ledger, pid)["residency"] == ON_GPU)
        self.assert_stands(self.of(ledger, pid), ON_GPU, BUSY)
        self.say(process, "release")
        self.until(lambda: len(self.calls(process)) == 5)
        self.end(ledger, process, pid)

    def test_stay_where_they_are_confirmed(self):
        ledger = self.sharing()
        process, pid = self.start_threads(ledger, "0:set*5")
        self.say(process, "go", 0)
        chance = random.Random(5)
        for _ in range(30):
            ledger("order", pid, "hold_for", 20)
            ledger("await", pid, chance.randrange(0, 40))
            self.assert_stands(self.command_to(ledger, pid, "hold"), HELD)
            time.sleep(0.03)  # the patience is over, and nothing tells that nothing happens
            self.assert_stands(self.of(ledger, pid), HELD)
            self.run_again(ledger, pid)
        self.end(ledger, process, pid)

    def test_do_not_bring_back_memory_that_is_away(self):
        ledger = self.sharing()
        process, pid = self.start_threads(ledger, "0:set*5")
        self.take(ledger, pid, 2 * MIB)
        one = self.command_to(ledger, pid, "hold_for", 20)
        time.sleep(0.03)  # as above
        self.assert_stands(self.of(ledger, pid), HELD)
        self.assertEqual(one["evicted"], 2 * MIB)
        self.end(ledger, process, pid)


if __name__ == "__main__":
    unittest.main()

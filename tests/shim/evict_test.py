"""Memory leaves the GPU and comes back: libgpuman.so in programs on the simulated driver, with orders of a ledger that
is served as the daemon serves it.

Usage: evict_test.py [NAME…]; GPUMAN_BUILD_DIR names the build.
"""

import contextlib
import json
import os
import pathlib
import random
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from shim_test import BUILD, CONTEXT, GIB, HERE, LOAD, MIB, SHIM, SIM, ShimCase

ON_GPU, EVICTING, EVICTED, RESTORING, FAILED, HELD = 1, 2, 3, 4, 5, 6
AT_WORK, IDLE, AT_GATE = 1, 2, 3  # activities of a program
DEINITIALIZED = 4  # the driver's error
BUDGET, BUSY, CAPTURING, NO_ROOM, DRIVER, NO_MOVER = 1, 3, 4, 5, 6, 7
PATIENCE = 20_000
MOVER = str(BUILD / "bin/gpuman-mover")


class EvictCase(ShimCase):
    in_front = ()  # variables of a program with another driver in front

    def evictable(self, budget="-", patience=PATIENCE, limit=8 * GIB, *options):
        return self.serve(limit, CONTEXT, "--evictable", budget, patience, "--mover", MOVER, *options)

    def around(self):
        return self.on_driver()

    def command(self, *words, preload=True):
        command = super().command(*words, preload=preload)
        if preload:
            command[command.index("env") + 1:command.index("env") + 1] = ["GPUMAN_SHIM_EVICTABLE=1", *self.in_front]
        return command

    def watch_driver(self, refuses=""):
        """From now on programs have watched_driver.cc in front of the driver. Returns the file that it writes."""
        front, met = pathlib.Path(self.dir) / "front", pathlib.Path(self.dir) / "met"
        shutil.rmtree(front, ignore_errors=True)
        front.mkdir()
        met.write_text("")
        paths = subprocess.run([*self.on_driver(), "printenv", "LD_LIBRARY_PATH"], stdout=subprocess.PIPE, text=True,
                               check=True).stdout.strip().split(":")
        behind = next(path for path in (pathlib.Path(one) / "libcuda.so.1" for one in paths) if path.exists())
        (front / "libcuda-behind.so").symlink_to(behind.resolve())
        (front / "libcuda.so.1").symlink_to((BUILD / "tests/watched_driver.so").resolve())
        self.in_front = [f"LD_LIBRARY_PATH={front}:{':'.join(paths)}", f"WATCHED_DRIVER_FILE={met}",
                         f"WATCHED_DRIVER_REFUSES={refuses}"]
        return met

    def start(self, *words, preload=True):
        """Starts a program; the clean-up ends it with all its children: a process that waits at the gate would stay for
        ever."""
        process = subprocess.Popen(self.command(*words, preload=preload), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True, start_new_session=True)

        def end():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            process.stdout.close()
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
        self.addCleanup(end)
        return process

    def start_work(self, size):
        """Starts a load that works on this memory until a file is there, and then verifies it. Returns it, once it is at
        work, and the file."""
        folder = tempfile.TemporaryDirectory(prefix="gpuman-test-")
        self.addCleanup(folder.cleanup)
        end = pathlib.Path(folder.name) / "end"
        process = self.start(LOAD, "--json", "--alloc", size, "--step", "2MiB", "--verify", "--kernel-time", "2ms",
                             "--until", str(end))
        while json.loads(process.stdout.readline())["event"] != "iteration":
            pass
        return process, end

    def probe_command(self, *words):
        return [sys.executable, str(HERE / "evict_probe.py"), *map(str, words)]

    def start_probe(self, *words, preload=True):
        """Starts a probe and waits until it holds its memory."""
        process = self.start(*self.probe_command(*words), preload=preload)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def tell(self, process, word=""):
        process.stdin.write(word + "\n")
        process.stdin.flush()
        return process.stdout.readline()

    def finish(self, process):
        process.stdin.close()
        answer = json.loads(process.stdout.read().splitlines()[-1])
        self.assertEqual(process.wait(), 0)
        return answer

    def statuses(self, ledger):
        return json.loads(ledger("statuses"))

    def only(self, ledger):
        """The only process of the job."""
        statuses = self.statuses(ledger)
        self.assertEqual(len(statuses), 1, statuses)
        return statuses[0]

    def until(self, what, remark=lambda: None):
        """Waits until what() is true, and returns its value. remark() says what stands, where it stays false."""
        end = time.monotonic() + 60
        while not (got := what()):
            self.assertLess(time.monotonic(), end, remark())
            time.sleep(0.002)
        return got

    def until_on_gpu(self, ledger):
        """The service thread starts with the first context, perhaps after the program's "ready"."""
        self.until(lambda: self.only(ledger)["residency"] == ON_GPU)

    def order(self, ledger, pid, out):
        self.assertEqual(ledger("order", pid, int(out)), "ok")
        self.assertEqual(ledger("await", pid, 60_000), "ok")
        return [one for one in self.statuses(ledger) if one["pid"] == pid][0]

    def assert_stands(self, one, residency, error=0):
        self.assertEqual((one["residency"], one["answered"], one["error"]), (residency, True, error), one)

    def kill_mover(self, ledger):
        """Kills the mover that runs now; returns when it has ended for a parent that starts the next one."""
        pid = int(ledger("mover"))
        if pid <= 0:
            return
        mover = os.pidfd_open(pid)
        try:
            os.kill(pid, signal.SIGKILL)
            # Not before its last thread has ended: the first one alone is a zombie sooner.
            self.assertEqual(select.select([mover], [], [], 60)[0], [mover])
        finally:
            os.close(mover)

    def device_used(self, index=0):
        return self.probe("device_used", index, preload=False)

    def inject(self, *words):
        subprocess.run([SIM, "exec", "--dir", self.dir + "/machine", "--", SIM, "inject", *map(str, words)], check=True)


class Data(EvictCase):
    def cycle(self, ledger, pid):
        """Evicts and restores; returns the state each time, None if the process is gone."""
        stood = []
        for out in (1, 0):
            ledger("order", pid, out)
            ledger("await", pid, 60_000)
            stood.append(next((one for one in self.statuses(ledger) if one["pid"] == pid), None))
        return stood

    def test_is_the_same_after_many_times_away_while_kernels_run(self):
        ledger = self.evictable()
        process, end = self.start_work("6MiB")
        pid = self.only(ledger)["pid"]
        for cycle in range(20):
            out, back = self.cycle(ledger, pid)
            self.assertEqual((out["residency"], back["residency"]), (EVICTED, ON_GPU))
            if cycle == 0:
                self.assertEqual((out["evicted"], out["evictable"]), (8 * MIB, 0))  # and its small allocations
                self.assertEqual((back["evicted"], back["evictable"]), (0, 8 * MIB))
        end.touch()
        events = [json.loads(line) for line in process.stdout.read().splitlines()]
        self.assertEqual(process.wait(), 0, events[-3:])
        self.assertEqual([event["wrong_words"] for event in events if event["event"] == "verify"], [0])
        ledger.until_given_back(self.uuid)

    def test_of_allocations_with_many_handles_comes_back(self):
        ledger = self.evictable()
        process = self.start_probe("holds", 532, 266)
        before = self.device_used()
        one = self.only(ledger)
        self.assertEqual(one["evictable"], 532 * MIB)
        for _ in range(2):
            self.assert_stands(self.order(ledger, one["pid"], True), EVICTED)
            self.assertEqual(before - self.device_used(), 532 * MIB)
            self.assert_stands(self.order(ledger, one["pid"], False), ON_GPU)
            self.assertEqual(self.device_used(), before)
            self.assertTrue(json.loads(self.tell(process))["good"])
        self.assertEqual(self.finish(process), {"freed": [0, 0], "destroyed": 0})

    def test_of_many_threads_is_theirs_after_twenty_times_away(self):
        ledger = self.evictable()
        process = self.start_probe("many_threads", 6)
        pid = self.only(ledger)["pid"]
        for _ in range(20):
            self.assert_stands(self.order(ledger, pid, True), EVICTED)
            self.assert_stands(self.order(ledger, pid, False), ON_GPU)
        answer = self.finish(process)
        self.assertEqual(answer["wrong"], [])
        self.assertGreater(answer["rounds"], 6)

    def test_data_allocated_and_freed_between_evictions_is_right(self):
        ledger = self.evictable()
        process = self.start_probe("comes_and_goes", 4)
        pid = self.only(ledger)["pid"]
        for _ in range(10):
            self.assert_stands(self.order(ledger, pid, True), EVICTED)
            self.assert_stands(self.order(ledger, pid, False), ON_GPU)
        answer = self.finish(process)
        self.assertEqual(answer["wrong"], [])
        ledger.until_given_back(self.uuid)


class EvictedProcess(EvictCase):
    def test_killed_process_leaves_nothing_on_device_or_host(self):
        ledger = self.evictable()
        at_start = self.device_used()
        process = self.start_probe("holds", 64, 8)
        pid = self.only(ledger)["pid"]
        self.assert_stands(self.order(ledger, pid, True), EVICTED)
        self.assertGreaterEqual(int(ledger("host")), 64 * MIB)
        os.kill(pid, signal.SIGKILL)
        process.wait()
        ledger.until_given_back(self.uuid)
        self.assertEqual(self.statuses(ledger), [])
        self.assertEqual(self.device_used(), at_start)

    def test_can_be_checkpointed_by_the_driver_and_restored(self):
        ledger = self.evictable()
        at_start = self.device_used()
        process = self.start_probe("holds", 64, 8)
        pid = self.only(ledger)["pid"]
        for _ in range(3):
            self.assert_stands(self.order(ledger, pid, True), EVICTED)
            other = self.start(*self.probe_command("checkpoints", pid), preload=False)
            self.assertEqual(json.loads(other.stdout.readline()), [0, 0])
            self.assertLessEqual(self.device_used(), at_start + 4 * MIB)  # the driver's residue on the device
            self.assertEqual(self.finish(other), [0, 0])
            self.assert_stands(self.order(ledger, pid, False), ON_GPU)
            self.assertTrue(json.loads(self.tell(process))["good"])
        self.assertEqual(self.finish(process)["destroyed"], 0)

    def test_comes_back_for_a_daemon_that_takes_over(self):
        ledger = self.evictable()
        process = self.start_probe("holds", 16, 8)
        pid = self.only(ledger)["pid"]
        self.assert_stands(self.order(ledger, pid, True), EVICTED)
        ledger.process.kill()
        ledger.process.wait()
        fds = f"/proc/{pid}/fd/"
        fd = [name for name in os.listdir(fds) if "gpuman-ledger" in os.readlink(fds + name)][0]
        again = self.evictable("-", PATIENCE, 8 * GIB, "--adopt", pid, fd)
        self.assert_stands(self.only(again), EVICTED)
        self.assert_stands(self.order(again, pid, False), ON_GPU)
        self.assertTrue(json.loads(self.tell(process))["good"])

    def test_processes_that_join_later_wait_too(self):
        ledger = self.evictable()
        first = self.start_probe("holds", 16, 8)
        self.assertEqual(ledger("order", "all", 1), "1")
        self.assertEqual(ledger("await", "all", 60_000), "ok")
        second = self.start(*self.probe_command("holds", 16, 8))
        while len(self.statuses(ledger)) < 2 or any(one["residency"] != EVICTED for one in self.statuses(ledger)):
            ledger("await", "all", 100)
        self.assertEqual(ledger("order", "all", 0), "2")
        self.assertEqual(second.stdout.readline(), "ready\n")
        for process in (first, second):
            self.assertTrue(json.loads(self.tell(process))["good"])

    def test_joining_process_makes_no_call_until_its_service_thread_has_read_the_order(self):
        """Else it could have work on the GPU that waits for those that are held."""
        ledger = self.evictable()
        first = self.start_probe("holds", 16, 8)
        self.assertEqual(ledger("order", "all", 1), "1")
        self.assertEqual(ledger("await", "all", 60_000), "ok")
        second = self.start("env", f"LD_PRELOAD={BUILD}/tests/slow_threads.so:{SHIM}",
                            *self.probe_command("holds", 16, 8))
        self.until(lambda: len(self.statuses(ledger)) == 2)
        self.until(lambda: all(one["residency"] == EVICTED for one in self.statuses(ledger)),
                   lambda: self.statuses(ledger))
        self.assertEqual(select.select([second.stdout], [], [], 0)[0], [], "it has its memory, so a call passed")
        self.assertEqual(ledger("order", "all", 0), "2")
        self.assertEqual(second.stdout.readline(), "ready\n")
        for process in (first, second):
            self.assertTrue(json.loads(self.tell(process))["good"])


class EndingProgram(EvictCase):
    def test_a_destroyed_context_lets_an_evicted_process_go(self):
        ledger = self.evictable()
        process = self.start_probe("ends_away")
        self.until_on_gpu(ledger)
        pid = self.only(ledger)["pid"]
        self.assert_stands(self.order(ledger, pid, True), EVICTED)
        self.assertEqual(self.tell(process), "released 0\n")
        self.assertEqual(ledger("order", pid, 0), "ok")
        self.assertEqual(process.wait(timeout=120), 0)
        self.assertEqual(process.stdout.read(), '"ended"\n')

    def start_ending(self, ledger, *words):
        process = self.start(str(BUILD / "tests/ending_program"), *words)
        self.assertEqual(process.stdout.readline(), "ready\n")
        self.until_on_gpu(ledger)
        return process, self.only(ledger)["pid"]

    def end_main(self, process):
        process.stdin.write("\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), "driver ends\n")

    def assert_ends_well(self, process):
        process.stdin.write("\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.read(), "right\n")
        self.assertEqual(process.wait(), 0)

    @contextlib.contextmanager
    def mover_stopped(self, ledger):
        mover = int(ledger("mover"))
        os.kill(mover, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(mover, signal.SIGCONT)

    def test_program_that_ends_during_eviction_keeps_its_memory_on_the_gpu(self):
        """The shim unmaps none of the program's memory once the driver's own end may have begun."""
        ledger = self.evictable()
        process, pid = self.start_ending(ledger, "works")
        ledger("watch", 1000)
        with self.mover_stopped(ledger):
            ledger("order", pid, 1)
            self.until(lambda: self.only(ledger)["activity"] == AT_GATE)
            self.end_main(process)
        self.assertEqual(ledger("await", pid, 60_000), "ok")
        one = self.only(ledger)
        self.assert_stands(one, ON_GPU, DRIVER)
        self.assertEqual((one["driver"], one["evicted"]), (DEINITIALIZED, 0))
        self.assert_ends_well(process)

    def test_restore_pauses_when_the_program_ends(self):
        ledger = self.evictable()
        process, pid = self.start_ending(ledger)
        self.assert_stands(self.order(ledger, pid, True), EVICTED)
        with self.mover_stopped(ledger):
            ledger("order", pid, 0)
            self.until(lambda: self.only(ledger)["residency"] == RESTORING)
            self.end_main(process)
            ended = time.monotonic()
        self.until(lambda: (ledger("await", pid, 20), ledger("moved").split()[1] == str(24 * MIB) or
                            time.monotonic() > ended + 3)[1])
        residency = self.only(ledger)["residency"]
        if time.monotonic() < ended + 4:  # a process that lives longer comes back anyway
            self.assertEqual(residency, RESTORING)
        self.assert_ends_well(process)

    def test_program_that_ended_while_evicted_is_restored_on_order(self):
        ledger = self.evictable()
        process, pid = self.start_ending(ledger, "works")
        self.assert_stands(self.order(ledger, pid, True), EVICTED)
        self.end_main(process)
        self.assert_stands(self.order(ledger, pid, False), ON_GPU)
        self.assert_ends_well(process)


class CancelledThread(EvictCase):
    """The thread first returns from its call: the shim leaves nothing half done."""

    def start_cancelled(self, ledger):
        process = self.start(str(BUILD / "tests/cancelled_program"))
        self.assertEqual(process.stdout.readline(), "ready\n")
        self.until_on_gpu(ledger)
        return process, self.only(ledger)["pid"]

    def say(self, process, line):
        process.stdin.write(line + "\n")
        process.stdin.flush()

    def test_cancelled_thread_finishes_its_export_first(self):
        ledger = self.evictable()
        process, pid = self.start_cancelled(ledger)
        self.assert_stands(self.order(ledger, pid, True), EVICTED)
        self.assert_stands(self.order(ledger, pid, False), ON_GPU)
        for _ in range(2):
            self.say(process, "export")
            self.assertEqual(process.stdout.readline(), "0\n")

    def test_cancelled_thread_finishes_its_wait_report_first(self):
        ledger = self.evictable()
        process, pid = self.start_cancelled(ledger)
        ledger("watch", 20)
        self.assert_stands(self.order(ledger, pid, True), EVICTED)
        self.say(process, "look")
        self.until(lambda: (ledger("await", pid, 1), self.only(ledger)["activity"] == AT_GATE)[1])
        self.assert_stands(self.order(ledger, pid, False), ON_GPU)
        self.assertEqual(process.stdout.readline(), "0\n")
        self.until(lambda: (ledger("await", pid, 1), self.only(ledger)["activity"] == IDLE)[1])


class PacedProgram(EvictCase):
    """Its launches get marks in their streams, at which the GPU stands while others' work goes first."""

    STREAMS, EACH = 3, 400  # 8 s of work, if it takes its time

    def ahead(self, *words):
        """A program that is far ahead of the GPU."""
        ledger, process, pid = self.paced("launches_ahead", self.STREAMS, self.EACH, *words)
        time.sleep(0.5)  # the service thread looks each few milliseconds, and launches get marks from then on
        self.assertGreaterEqual(int(self.tell(process)), 0)
        self.until(lambda: int(self.tell(process)) >= 3)
        return ledger, process, pid

    def hold(self, ledger, pid):
        self.assertEqual(ledger("order", pid, "hold"), "ok")
        self.assertEqual(ledger("await", pid, 60_000), "ok")
        self.assert_stands(self.only(ledger), HELD)

    def assert_gpu_stands(self, process):
        """What was running when the streams were closed may end, and with it one that has begun since its mark."""
        held = int(self.tell(process))

        def seen_twice():
            before = int(self.tell(process))
            time.sleep(0.1)
            return int(self.tell(process)) == before
        self.until(seen_twice)
        self.assertLessEqual(int(self.tell(process)) - held, 2 * self.STREAMS)
        self.assertLess(held, self.STREAMS * self.EACH)

    def assert_has_all(self, process):
        self.tell(process, "hurry")
        answer = self.finish(process)
        self.assertEqual(answer, {"counts": [self.EACH] * self.STREAMS, "good": True})

    def test_stands_on_the_gpu_and_goes_on(self):
        for words in ([], ["graphs"], ["joined"]):
            with self.subTest(words):
                ledger, process, pid = self.ahead(*words)
                for _ in range(3):
                    self.hold(ledger, pid)
                    self.assert_gpu_stands(process)
                    before = int(self.tell(process))
                    self.assert_stands(self.order(ledger, pid, False), ON_GPU)
                    self.until(lambda: int(self.tell(process)) > before)
                self.assert_has_all(process)

    def test_leaves_from_where_it_stands(self):
        ledger, process, pid = self.ahead()
        for number in range(2):
            self.hold(ledger, pid)
            if number == 0:  # what is queued ends before the memory leaves
                self.assert_gpu_stands(process)
                self.tell(process, "hurry")
            self.assert_stands(self.order(ledger, pid, True), EVICTED)
            self.assert_stands(self.order(ledger, pid, False), ON_GPU)
        self.assert_has_all(process)

    def test_comes_to_rest_where_its_work_has_ended(self):
        ledger, process, pid = self.paced("launches_ahead", self.STREAMS, 3)
        time.sleep(0.05)
        self.tell(process, "hurry")
        self.until(lambda: int(self.tell(process)) == 3 * self.STREAMS)
        self.hold(ledger, pid)
        self.assert_stands(self.order(ledger, pid, False), ON_GPU)
        self.assertEqual(self.finish(process), {"counts": [3] * self.STREAMS, "good": True})

    def test_opens_its_streams_for_a_grant(self):
        """Others wait for calls of this process, and perhaps for what stands in its streams: all of that ends first."""
        ledger, process, pid = self.ahead()
        self.assertEqual(ledger("order", pid, "hold_for", 60_000), "ok")
        self.assertEqual(ledger("await", pid, 60_000), "ok")
        self.assert_stands(self.only(ledger), HELD)
        self.assert_gpu_stands(process)
        before = int(self.tell(process, "hurry"))
        number = int(ledger("grant_calls", pid, 0, 1))
        self.until(lambda: (one := self.only(ledger))["grant_report"][0] == number and one["grant_report"][1] != 0
                   and one["residency"] == HELD)
        ended = int(self.tell(process))
        self.assertGreater(ended, before + self.STREAMS)
        time.sleep(0.1)
        self.assertEqual(int(self.tell(process)), ended)
        self.assert_stands(self.order(ledger, pid, False), ON_GPU)
        self.assert_has_all(process)

    def test_ends_by_itself_where_it_stands(self):
        ledger, process, pid = self.ahead("quits")
        self.hold(ledger, pid)
        self.assert_gpu_stands(process)
        self.assertLess(sum(self.finish(process)["counts"]), self.STREAMS * self.EACH)
        self.until(lambda: self.statuses(ledger) == [])

    def test_is_killed_where_it_stands(self):
        ledger, process, pid = self.ahead()
        self.hold(ledger, pid)
        os.kill(pid, signal.SIGKILL)
        self.until(lambda: self.statuses(ledger) == [])

    def test_goes_on_when_its_pace_ends_while_it_stands(self):
        ledger, process, pid = self.ahead()
        self.hold(ledger, pid)
        ledger("pace", 0)
        self.assert_gpu_stands(process)
        self.assert_stands(self.order(ledger, pid, False), ON_GPU)
        self.assert_has_all(process)

    def paced(self, *words, patience=PATIENCE):
        ledger = self.evictable(patience=patience)
        process = self.start_probe(*words)
        ledger("watch", 20)
        ledger("pace", 300)
        return ledger, process, self.only(ledger)["pid"]

    ASIDE = (["per_thread"], ["many_streams"], ["contexts"], ["captured"])

    def test_is_not_at_rest_while_work_that_has_no_marks_goes_on(self):
        """All of its work ends first, as where no launch gets marks."""
        for words in self.ASIDE:
            with self.subTest(words):
                ledger, process, pid = self.ahead(*words)
                self.assertEqual(ledger("order", pid, "hold"), "ok")
                time.sleep(0.5)
                self.assertFalse(self.only(ledger)["answered"])
                self.tell(process, "hurry")
                self.assertEqual(ledger("await", pid, 60_000), "ok")
                self.assert_stands(self.only(ledger), HELD)
                ended = int(self.tell(process))
                self.assertGreater(ended, self.STREAMS * 10)
                time.sleep(0.1)
                self.assertEqual(int(self.tell(process)), ended)
                self.assert_stands(self.order(ledger, pid, False), ON_GPU)
                self.assert_has_all(process)

    def test_stands_again_when_work_without_marks_has_ended(self):
        ledger, process, pid = self.paced("launches_twice")
        time.sleep(0.5)
        self.assertEqual(self.tell(process), "0\n")  # a launch without marks, and then many with them
        self.assertEqual(ledger("order", pid, "hold"), "ok")
        self.assertEqual(self.tell(process, "hurry"), "ready\n")
        self.assertEqual(ledger("await", pid, 60_000), "ok")
        self.assert_stands(self.only(ledger), HELD)
        self.assert_stands(self.order(ledger, pid, False), ON_GPU)
        self.assertEqual(self.tell(process), "ready\n")
        self.hold(ledger, pid)
        before = int(self.tell(process))
        self.assertLess(before, 399)
        self.assert_stands(self.order(ledger, pid, False), ON_GPU)
        self.assertEqual(self.finish(process), {"count": 400})

    def test_is_held_with_all_that_is_queued_where_the_driver_refuses_marks(self):
        for function in ("cuStreamBatchMemOp_v2", "cuMemHostRegister_v2"):
            with self.subTest(function):
                met = self.watch_driver(function)
                ledger, process, pid = self.paced("launches_ahead", self.STREAMS, 30)
                time.sleep(0.5)
                self.tell(process)
                self.until(lambda: int(self.tell(process)) >= 3)
                self.assertEqual(ledger("order", pid, "hold"), "ok")
                time.sleep(0.1)
                self.tell(process, "hurry")
                self.assertEqual(ledger("await", pid, 60_000), "ok")
                self.assert_stands(self.only(ledger), HELD)
                ended = int(self.tell(process))
                time.sleep(0.1)
                self.assertEqual(int(self.tell(process)), ended)
                self.assert_stands(self.order(ledger, pid, False), ON_GPU)
                self.assertEqual(self.finish(process), {"counts": [30] * self.STREAMS, "good": True})
                self.assertIn("refused", met.read_text())

    def test_destroys_its_streams_where_they_stand(self):
        ledger, process, pid = self.ahead("destroyed")
        for _ in range(2):
            self.hold(ledger, pid)
            self.assert_gpu_stands(process)
            self.assert_stands(self.order(ledger, pid, False), ON_GPU)
        self.assert_has_all(process)

    def test_forks_where_it_stands(self):
        ledger, process, pid = self.ahead()
        self.hold(ledger, pid)
        self.assert_gpu_stands(process)
        self.assertEqual(json.loads(self.tell(process, "fork")), [3, 3, 3])
        self.assert_gpu_stands(process)
        self.assert_stands(self.order(ledger, pid, False), ON_GPU)
        self.assert_has_all(process)

    def test_ends_its_context_where_it_stands(self):
        ledger, process, pid = self.paced("ends_a_context_where_it_stands")
        time.sleep(0.5)
        self.tell(process)
        self.until(lambda: int(self.tell(process)) >= 1)
        for _ in range(2):
            self.hold(ledger, pid)
            held = int(self.tell(process))
            time.sleep(0.3)
            self.assertLessEqual(int(self.tell(process)) - held, 2)
            self.assertLess(held, 200)
            self.assert_stands(self.order(ledger, pid, False), ON_GPU)
            self.until(lambda: int(self.tell(process)) > held + 2)
        self.tell(process, "hurry")
        self.assertEqual(self.finish(process), {"statuses": [0, 0, 0, 0]})

    def test_ends_a_context_behind_work_while_its_pace_begins(self):
        """The thread that ends the context stays in the driver, and the service thread does not wait for it."""
        ledger = self.evictable(patience=300)
        process = self.start_probe("ends_a_context_behind_work")
        self.until_on_gpu(ledger)
        pid = self.only(ledger)["pid"]
        time.sleep(0.2)
        ledger("watch", 20)
        ledger("pace", 300)
        time.sleep(0.2)
        self.assertEqual(ledger("order", pid, "hold"), "ok")
        self.until(lambda: (ledger("await", pid, 1), self.only(ledger)["answered"])[1])
        self.assert_stands(self.only(ledger), ON_GPU, BUSY)
        process.stdin.write("\n")
        process.stdin.flush()
        self.assertEqual(self.finish(process), {"status": [0]})

    def meets(self, kind, pace, order):
        """What a wait of the shim has met that this order has left behind."""
        met = self.watch_driver()
        ledger = self.evictable(patience=300)
        process = self.start_probe("meets_waits", kind)
        ledger("watch", 20)
        ledger("pace", pace)
        time.sleep(0.3)
        self.assertEqual(self.tell(process), "ready\n")
        order(ledger, self.only(ledger)["pid"])
        answer = self.tell(process)
        self.assertEqual(set(json.loads(answer)["statuses"]), {0} if kind != "ends" else set())
        process.stdin.close()
        self.assertEqual(process.wait(), 0)
        return met.read_text()

    def test_leaves_no_wait_behind_that_meets_a_context_that_ends(self):
        def stands(ledger, pid):
            self.hold(ledger, pid)
            self.assert_stands(self.order(ledger, pid, False), ON_GPU)
        self.assertEqual(self.meets("queue", 300, stands), "")

    def test_has_no_wait_met_that_a_refused_order_leaves_behind(self):
        def is_refused(ledger, pid):
            """Not where the work stands before it has begun."""
            while ledger("order", pid, "hold") == "ok":
                self.assertEqual(ledger("await", pid, 60_000), "ok")
                if (one := self.only(ledger))["residency"] != HELD:
                    return self.assert_stands(one, ON_GPU, BUSY)
                self.assert_stands(self.order(ledger, pid, False), ON_GPU)
            return self.fail("there is no such process")
        for pace in (0, 300):
            for kind in ("destroy", "reset", "capture", "ends"):
                with self.subTest(kind=kind, pace=pace):
                    self.assertEqual(self.meets(kind, pace, is_refused), "")

    BUSY_PROGRAMS = (["many_threads", 4], ["comes_and_goes", 2], ["captures_again_and_again"], ["makes_contexts_anew"])

    def test_has_its_data_while_it_is_held_and_goes_on(self):
        for words in self.BUSY_PROGRAMS:
            with self.subTest(words[0]):
                ledger, process, pid = self.paced(*words)
                for _ in range(8):
                    time.sleep(0.05)
                    self.hold(ledger, pid)
                    self.assert_stands(self.order(ledger, pid, False), ON_GPU)
                answer = self.finish(process)
                self.assertEqual(answer["wrong"], [], answer)
                self.assertGreater(answer["rounds"], 0)
                self.assertEqual(answer.get("statuses", [0]), [0])

    def test_has_its_data_while_it_leaves_and_comes_back(self):
        for words in self.BUSY_PROGRAMS:
            with self.subTest(words[0]):
                ledger, process, pid = self.paced(*words)
                for _ in range(8):
                    time.sleep(0.05)
                    self.assert_stands(self.order(ledger, pid, True), EVICTED)
                    self.assert_stands(self.order(ledger, pid, False), ON_GPU)
                answer = self.finish(process)
                self.assertEqual(answer["wrong"], [], answer)
                self.assertGreater(answer["rounds"], 0)
                self.assertEqual(answer.get("statuses", [0]), [0])

    def test_paced_program_may_capture_for_any_time(self):
        ledger, process, _ = self.paced("captures")
        time.sleep(0.2)
        self.assertEqual(self.tell(process), "ready\n")
        self.assertEqual(self.finish(process), {"statuses": [0, 0, 0, 0], "good": True})

    def test_goes_on_where_its_work_does_not_end(self):
        ledger, process, _ = self.paced("waits_for_itself")
        time.sleep(0.5)  # longer than the shim waits, some times
        self.assertEqual(self.tell(process), "ready\n")
        self.assertEqual(self.finish(process), {"waited": 0, "good": True})

    def test_paced_program_may_end_in_the_middle(self):
        for seconds in (0, 0.001, 0.01, 0.1):
            ledger, process, _ = self.paced("many_threads", 2)
            time.sleep(seconds)
            self.assertEqual(self.finish(process)["wrong"], [])

    def test_paced_program_keeps_its_data_under_any_change_of_pace(self):
        ledger, process, pid = self.paced("many_threads", 2)
        for pace in (1, 0, 300, 0, 1_000_000, 2_000_000, 0):
            ledger("pace", pace)
            time.sleep(0.05)
        self.assert_stands(self.order(ledger, pid, True), EVICTED)
        ledger("pace", 300)
        self.assert_stands(self.order(ledger, pid, False), ON_GPU)
        ledger("pace", 0)
        self.assertEqual(self.finish(process)["wrong"], [])


class AProgramThatTellsOfItsNextCall(EvictCase):
    def test_next_call_notifies_at_once_each_time(self):
        ledger = self.evictable()
        process = self.start_probe("pauses")
        ledger("watch", 1000)
        ledger("alert", 400)
        for _ in range(5):
            self.until(lambda: (ledger("await", "all", 1), self.only(ledger)["activity"] == IDLE)[1])
            before = int(ledger("notifications"))
            self.assertEqual(self.tell(process), "works\n")
            self.until(lambda: (ledger("await", "all", 1), int(ledger("notifications")) > before)[1])
            self.until(lambda: (ledger("await", "all", 1), self.only(ledger)["activity"] == AT_WORK)[1])
            self.assertEqual(self.tell(process), "rests\n")


class AProgramThatClosesWhatItDidNotOpen(EvictCase):
    def test_leaves_and_comes_back_all_the_same_and_keeps_its_own_sockets(self):
        ledger = self.evictable()
        process = self.start_probe("closes")
        self.until_on_gpu(ledger)
        pid = self.only(ledger)["pid"]
        closed = [int(self.tell(process))]
        for _ in range(2):
            out = self.order(ledger, pid, True)
            self.assert_stands(out, EVICTED)
            self.assertEqual((out["evicted"], out["evictable"]), (24 * MIB, 0))
            closed.append(int(self.tell(process)))  # while its memory is away
            back = self.order(ledger, pid, False)
            self.assert_stands(back, ON_GPU)
            self.assertEqual((back["evicted"], back["evictable"]), (0, 24 * MIB))
            closed.append(int(self.tell(process)))  # while the returned memory is kept
        self.assertTrue(all(closed), closed)
        answer = self.finish(process)
        self.assertEqual(answer["good"], [True] * 3)
        self.assertEqual(answer["said"], [[True, None]] * sum(closed))
        self.assertEqual(answer["freed"], [0] * 3)


class ManyOrders(EvictCase):
    def test_many_orders_leave_nothing_behind(self):
        """Descriptors, threads and memory are the same after 200 times as after the first."""
        ledger = self.evictable()
        process = self.start_probe("holds", 16, 8)
        pid = self.only(ledger)["pid"]

        def descriptors():
            # The library opens a socket for a moment when it has carried out an order.
            return min(len(os.listdir(f"/proc/{pid}/fd")) for _ in range(20) if not time.sleep(0.005))

        def footprint():
            with open(f"/proc/{pid}/status", encoding="ascii") as status:
                lines = dict(line.split(":", 1) for line in status)
            return int(lines["Threads"]), int(lines["VmRSS"].split()[0])
        seen = []
        for number in range(200):
            self.assert_stands(self.order(ledger, pid, True), EVICTED)
            self.assert_stands(self.order(ledger, pid, False), ON_GPU)
            if number in (10, 199):
                seen.append((descriptors(), ledger("host"), ledger("used", self.uuid), *footprint()))
        first, last = seen
        self.assertEqual(first[:3], last[:3])
        self.assertLess(last[3], first[3] + 4)  # the driver's streams have threads, which may not have ended yet
        self.assertLess(last[4], first[4] + 8 * 1024)
        self.assertTrue(json.loads(self.tell(process))["good"])

    def test_orders_given_faster_than_carried_out_end_with_the_last(self):
        ledger = self.evictable()
        process = self.start_probe("comes_and_goes", 3)
        pid = self.only(ledger)["pid"]
        for number in range(200):
            ledger("order", pid, number % 3 % 2)
        for out, residency in ((1, EVICTED), (0, ON_GPU)):
            self.assert_stands(self.order(ledger, pid, out), residency)
        self.assertEqual(self.finish(process)["wrong"], [])

    def test_death_during_orders_leaves_nothing_on_device_or_host(self):
        ledger = self.evictable()
        at_start = self.device_used()
        chance = random.Random(7)
        for number in range(12):
            process = self.start_probe("holds", 24, 8)
            pid = self.only(ledger)["pid"]
            if number % 2:
                self.order(ledger, pid, True)
            ledger("order", pid, 1 - number % 2)
            ledger("await", pid, chance.randrange(0, 60))
            os.kill(pid, signal.SIGKILL)
            process.wait()
            self.until(lambda: (ledger("reclaim"), ledger("used", self.uuid), ledger("host"), self.statuses(ledger))[1:]
                       == ("0", "0", []))
        # The mover releases the last process's memory by itself.
        self.until(lambda: self.device_used() == at_start)


class TwoDevicesThatDoNotReachEachOther(EvictCase):
    def command(self, *words, preload=True):
        command = super().command(*words, preload=preload)
        return [command[0], "exec", "--profile", "rtx4050", "--gpus", "2", *command[2:]]

    def test_make_memory_plain_and_orders_close_the_gate_alone(self):
        ledger = self.evictable()
        process = self.start_probe("holds", 16, 8)
        pid = self.only(ledger)["pid"]
        before = self.device_used()
        out = self.order(ledger, pid, True)
        self.assert_stands(out, EVICTED)
        self.assertEqual((out["evicted"], out["evictable"], self.device_used()), (0, 0, before))
        self.assert_stands(self.order(ledger, pid, False), ON_GPU)
        self.assertTrue(json.loads(self.tell(process))["good"])


class TheMover(EvictCase):
    def test_mover_that_dies_during_restore_loses_nothing(self):
        ledger = self.evictable()
        process = self.start_probe("holds", 96, 8)
        pid = self.only(ledger)["pid"]
        chance = random.Random(3)
        self.until_on_gpu(ledger)
        for number in range(16):
            if self.only(ledger)["residency"] == ON_GPU:
                self.assert_stands(self.order(ledger, pid, True), EVICTED)
            ledger("order", pid, 0)
            ledger("await", pid, chance.randrange(0, 60))
            self.kill_mover(ledger)
            self.assertEqual(ledger("await", pid, 60_000), "ok")
            self.assertIn(self.only(ledger)["residency"], (ON_GPU, EVICTED), number)
        if self.only(ledger)["residency"] == EVICTED:
            self.assert_stands(self.order(ledger, pid, False), ON_GPU)
        self.assertTrue(json.loads(self.tell(process))["good"])

    def test_missing_mover_leaves_the_process_on_the_gpu(self):
        ledger = self.serve(8 * GIB, CONTEXT, "--evictable", "-", PATIENCE)
        process = self.start_probe("holds", 16, 8)
        pid = self.only(ledger)["pid"]
        self.assert_stands(self.order(ledger, pid, True), ON_GPU, NO_MOVER)
        self.assertTrue(json.loads(self.tell(process))["good"])


class Descriptors(EvictCase):
    def test_process_without_free_descriptors_stays_on_the_gpu(self):
        ledger = self.evictable()
        process = self.start_probe("holds", 64, 2)
        pid = self.only(ledger)["pid"]
        soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        few = len(os.listdir(f"/proc/{pid}/fd"))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (few, hard))
        self.assertEqual(self.order(ledger, pid, True)["residency"], ON_GPU)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
        self.assert_stands(self.order(ledger, pid, True), EVICTED)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (max(3, few - 40), hard))  # below the number of open descriptors
        self.assertEqual(self.order(ledger, pid, False)["residency"], EVICTED)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
        self.assert_stands(self.order(ledger, pid, False), ON_GPU)
        self.assertTrue(json.loads(self.tell(process))["good"])


class ImpossibleOrders(EvictCase):
    def test_eviction_without_host_memory_is_refused_and_the_process_goes_on(self):
        ledger = self.evictable(budget=64 * MIB)
        process = self.start_probe("holds", 96, 8)
        pid = self.only(ledger)["pid"]
        refused = self.order(ledger, pid, True)
        self.assert_stands(refused, ON_GPU, BUDGET)
        self.assertEqual((refused["evictable"], refused["evicted"]), (96 * MIB, 0))
        self.assertLessEqual(int(ledger("host")), 64 * MIB)
        self.assertTrue(json.loads(self.tell(process))["good"])
        self.assert_stands(self.order(ledger, pid, True), ON_GPU, BUDGET)
        self.assert_stands(self.order(ledger, pid, False), ON_GPU)
        self.assertEqual(self.finish(process)["destroyed"], 0)

    def test_restore_without_room_keeps_memory_evicted_and_can_be_repeated(self):
        ledger = self.evictable()
        process = self.start_probe("holds", 64, 8)
        pid = self.only(ledger)["pid"]
        for nth in (1, 5):
            self.assert_stands(self.order(ledger, pid, True), EVICTED)
            used = self.device_used()
            self.inject("alloc-fail", "--nth", nth)
            refused = self.order(ledger, pid, False)
            self.assert_stands(refused, EVICTED, NO_ROOM)
            self.assertEqual((refused["driver"], refused["evicted"], self.device_used()), (2, 64 * MIB, used))
            self.assert_stands(self.order(ledger, pid, False), ON_GPU)
            self.assertTrue(json.loads(self.tell(process))["good"])
        self.assert_stands(self.order(ledger, pid, True), EVICTED)
        other = self.start_probe("fills", 32, preload=False)
        self.assert_stands(self.order(ledger, pid, False), EVICTED, NO_ROOM)
        self.assertEqual(self.finish(other), {"status": 0})
        self.assert_stands(self.order(ledger, pid, False), ON_GPU)
        self.assertTrue(json.loads(self.tell(process))["good"])

    def test_eviction_during_stream_capture_waits_and_spoils_no_capture(self):
        ledger = self.evictable(patience=100)
        process = self.start_probe("captures")
        pid = self.only(ledger)["pid"]
        self.assert_stands(self.order(ledger, pid, True), ON_GPU, CAPTURING)
        self.assertEqual(self.tell(process), "ready\n")
        self.assert_stands(self.order(ledger, pid, True), EVICTED)
        self.assert_stands(self.order(ledger, pid, False), ON_GPU)
        self.assertEqual(self.finish(process), {"statuses": [0, 0, 0, 0], "good": True})

    def test_eviction_during_capture_into_a_graph_waits_and_spoils_no_capture(self):
        ledger = self.evictable(patience=100)
        process = self.start_probe("captures_into_a_graph")
        pid = self.only(ledger)["pid"]
        self.assert_stands(self.order(ledger, pid, True), ON_GPU, CAPTURING)
        self.assertEqual(self.tell(process), "ready\n")
        self.assert_stands(self.order(ledger, pid, True), EVICTED)
        self.assert_stands(self.order(ledger, pid, False), ON_GPU)
        self.assertEqual(self.finish(process), {"statuses": [0] * 8, "good": True, "same": True})

    def test_eviction_ordered_during_capture_happens_after_it(self):
        ledger = self.evictable()
        process = self.start_probe("captures")
        pid = self.only(ledger)["pid"]
        self.assertEqual(ledger("order", pid, 1), "ok")
        self.assertEqual(self.tell(process), "ready\n")
        self.assertEqual(ledger("await", pid, 60_000), "ok")
        self.assert_stands(self.only(ledger), EVICTED)
        self.assert_stands(self.order(ledger, pid, False), ON_GPU)
        self.assertEqual(self.finish(process), {"statuses": [0, 0, 0, 0], "good": True})

    def test_eviction_during_endless_work_is_refused_and_the_gate_opens(self):
        ledger = self.evictable(patience=200)
        process = self.start_probe("waits_for_itself")
        pid = self.only(ledger)["pid"]
        self.assert_stands(self.order(ledger, pid, True), ON_GPU, BUSY)
        self.assert_stands(self.order(ledger, pid, True), ON_GPU, BUSY)
        self.assertEqual(self.tell(process), "ready\n")
        self.assert_stands(self.order(ledger, pid, True), EVICTED)
        self.assert_stands(self.order(ledger, pid, False), ON_GPU)
        self.assertEqual(self.finish(process), {"waited": 0, "good": True})

    def test_withdrawn_order_lets_the_program_go_on_at_once(self):
        ledger = self.evictable(patience=3_600_000)  # an hour: no process waits for it
        process = self.start_probe("waits_for_itself")
        pid = self.only(ledger)["pid"]
        for _ in range(3):
            self.assertEqual(ledger("order", pid, 1), "ok")
            self.until(lambda: self.only(ledger)["residency"] == EVICTING)
            self.assert_stands(self.order(ledger, pid, False), ON_GPU)
        self.assertEqual(self.tell(process), "ready\n")
        self.assert_stands(self.order(ledger, pid, True), EVICTED)
        self.assert_stands(self.order(ledger, pid, False), ON_GPU)
        self.assertEqual(self.finish(process), {"waited": 0, "good": True})

    def test_program_learns_of_gpu_lost_while_evicted(self):
        ledger = self.evictable()
        process = self.start_probe("holds", 16, 8)
        pid = self.only(ledger)["pid"]
        self.assert_stands(self.order(ledger, pid, True), EVICTED)
        self.inject("lost")
        failed = self.order(ledger, pid, False)
        self.assert_stands(failed, FAILED, DRIVER)
        self.assertNotEqual(failed["driver"], 0)
        process.stdin.write("\n")
        process.stdin.flush()
        self.assertEqual(process.wait(), 1)  # because its next call failed

    def test_eviction_of_unevictable_job_is_refused(self):
        ledger = self.serve()
        process = self.start_probe("holds", 16, 8)
        one = self.only(ledger)
        self.assertEqual((one["residency"], one["evictable"]), (0, 0))
        self.assertEqual(ledger("order", one["pid"], 1), "job 1 was not started to be evicted")
        self.assertTrue(json.loads(self.tell(process))["good"])


class OddPrograms(EvictCase):
    def assert_comes_back_from_loading(self, ledger, process):
        """The program holds the linker's lock, and the service thread calls functions of the driver for the first
        time."""
        self.assertEqual(self.tell(process), "constructing\n")
        pid = self.only(ledger)["pid"]
        self.assert_stands(self.order(ledger, pid, True), EVICTED)
        process.stdin.write("\n")
        process.stdin.flush()
        self.assert_stands(self.order(ledger, pid, False), ON_GPU)
        self.assertEqual(self.finish(process), {"status": 0, "good": True})

    def test_program_that_loads_a_library_at_the_gate_comes_back(self):
        ledger = self.evictable()
        process = self.start_probe("loads_a_library", BUILD / "tests/loaded_library.so")
        self.assert_comes_back_from_loading(ledger, process)

    def test_program_that_loads_a_library_before_the_service_thread_began_comes_back(self):
        """The call that makes the first context waits for the service thread."""
        ledger = self.evictable()
        process = self.start("env", f"LD_PRELOAD={BUILD}/tests/slow_threads.so:{SHIM}",
                             *self.probe_command("loads_a_library", BUILD / "tests/loaded_library.so"))
        self.assertEqual(process.stdout.readline(), "ready\n")
        self.assert_comes_back_from_loading(ledger, process)

    def test_service_thread_does_not_read_the_environment(self):
        """A library must not call getenv while its program may call setenv."""
        ledger = self.evictable()
        ledger("watch", 20)
        process = self.start(BUILD / "tests/odd_program", "environment")
        self.assertEqual(process.stdout.readline(), "ready\n")
        self.until(lambda: (ledger("await", "all", 2), int(ledger("notifications")) > 1)[1])
        process.stdin.write("\n")
        process.stdin.flush()
        self.assertEqual(json.loads(process.stdout.readline()), {"status": 0, "beyond": 2, "good": True})

    def test_parent_and_child_go_on_after_a_fork(self):
        ledger = self.evictable()
        process = self.start_probe("forks")
        pid = self.only(ledger)["pid"]
        self.assert_stands(self.order(ledger, pid, True), EVICTED)
        self.assertEqual(self.tell(process), "ready\n")  # printed by the child, while its parent is away
        self.assertEqual(ledger("order", pid, 0), "ok")
        self.assertEqual(ledger("await", pid, 60_000), "ok")
        answer = self.finish(process)
        self.assertEqual(answer, {"child": [3, 3, 3], "good": True, "freed": 0})

    def test_odd_calls_get_the_same_answers_as_without_the_shim(self):
        ledger = self.evictable(limit=1 << 50)
        without = self.probe("told_of_pointers", preload=False)
        self.assertEqual(self.probe("told_of_pointers"), without)
        for name in ("odd_sizes", "context_goes", "small", "virtual", "arrays", "primary", "forked"):
            with self.subTest(name):
                self.assertEqual(self.probe(name), self.probe(name, preload=False))
                ledger.until_given_back(self.uuid)

    def test_conformance_suite_gets_the_drivers_answers(self):
        """Except for legacy IPC, which the driver refuses for mapped memory."""
        suite = BUILD / "tests/conformance_test"
        if not suite.exists():
            self.skipTest("the suite is not built")
        self.evictable(limit=1 << 50)
        done = subprocess.run(self.command(str(suite), "--gtest_brief=1",
                                           "--gtest_filter=-Vmm.LegacyIpcRefusesVirtualMemory"),
                              capture_output=True, text=True, timeout=280, check=False)
        self.assertEqual(done.returncode, 0, done.stdout[-3000:])

    def test_program_that_overwrites_its_ledger_harms_itself_alone(self):
        ledger = self.evictable()
        process = self.start(str(BUILD / "tests/linked_probe"), "scribble")
        while process.poll() is None:
            ledger("order", "all", 0)
            ledger("await", "all", 10)
        self.assertEqual(json.loads(process.stdout.read()), {"answered": 50})

    def test_programs_with_every_kind_of_memory_keep_their_data(self):
        ledger = self.evictable()
        for api in ("malloc", "async", "vmm", "pitch", "array"):
            with self.subTest(api):
                process = self.start(LOAD, "--json", "--api", api, "--alloc", "8MiB", "--verify", "--iterations", "4",
                                     "--kernel-time", "1ms")
                while json.loads(process.stdout.readline())["event"] != "iteration":
                    pass
                ledger("order", "all", 1)
                ledger("await", "all", 60_000)
                ledger("order", "all", 0)
                ledger("await", "all", 60_000)
                process.stdout.read()
                self.assertEqual(process.wait(), 0)
                ledger.until_given_back(self.uuid)


if __name__ == "__main__":
    unittest.main()

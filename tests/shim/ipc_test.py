"""Memory of shared jobs that programs share by legacy IPC: libgpuman.so in programs on the simulated driver. As
evict_test.py.

Usage: ipc_test.py [NAME…]; GPUMAN_BUILD_DIR names the build. GPUMAN_TEST_ON_DEVICE=1 uses the
machine's own GPU, which no other program may use meanwhile.
"""

import contextlib
import json
import os
import pathlib
import resource
import signal
import socket
import struct
import sys
import threading
import unittest

from evict_test import EVICTED, ON_GPU
from lease_test import LeaseCase
from shim_test import CONTEXT, HERE, MIB, ON_DEVICE

INVALID_VALUE, INVALID_CONTEXT = 1, 201
NOBODY = 65534
SIZES = [4 * MIB, 1000, 300 * MIB + 512, 70_000]  # two share a slab, one has several of the driver's handles


class HangsUp(threading.Thread):
    """Stands between importers and the exporter of a handle. It hangs up in the first conversation after so many pieces,
    or in each, and passes on what is said in the others."""

    def __init__(self, handle, pieces, always=False):
        super().__init__(daemon=True)
        name = os.urandom(16).hex()
        self.exporter, self.handle = handle[16:48], handle[:16] + name + handle[48:]
        self.pieces, self.always, self.conversations = pieces, always, 0
        self.listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listening.bind("\0gpuman-ipc-" + name)
        self.listening.listen()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.listening.shutdown(socket.SHUT_RDWR)
        self.join()
        self.listening.close()

    def run(self):
        while True:
            try:
                importer, _ = self.listening.accept()
            except OSError:
                return
            self.conversations += 1
            with importer:
                if self.conversations > 1 and not self.always:
                    self.pass_on(importer, None)
                elif self.pieces:
                    self.pass_on(importer, self.pieces)

    def pass_on(self, importer, pieces):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as exporter:
            exporter.connect("\0gpuman-ipc-" + self.exporter)
            exporter.send(importer.recv(64))
            message, descriptors, _, _ = socket.recv_fds(exporter, 64, 32)
            magic, verb, number, count, last = struct.unpack("=IIQII", message)
            if pieces:
                count, last = pieces, 0
            socket.send_fds(importer, [struct.pack("=IIQII", magic, verb, number, count, last)], descriptors[:count])
            for descriptor in descriptors:
                os.close(descriptor)


class IpcCase(LeaseCase):
    def probe_command(self, *words):
        return [sys.executable, str(HERE / "ipc_probe.py"), *map(str, words)]

    def ask(self, process, *words):
        process.stdin.write(" ".join(map(str, words)) + "\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    def shared(self, exporter):
        answers = self.ask(exporter, "share")
        self.assertEqual({status for status, _ in answers}, {0})
        return [handle for _, handle in answers]

    def open_all(self, importer, handles, sizes):
        for handle, size in zip(handles, sizes):
            self.assertEqual(self.ask(importer, "open", handle, size), 0)

    def pair(self, sizes):
        """Starts an exporter, and an importer that has opened all of its memory."""
        exporter = self.start_probe("exports", *sizes)
        importer = self.start_probe("imports")
        self.open_all(importer, self.shared(exporter), sizes)
        return exporter, importer

    def assert_all(self, answers):
        self.assertTrue(answers and all(answers), answers)


class SharedMemory(IpcCase):
    def test_has_the_same_bytes_for_both(self):
        ledger = self.evictable()
        exporter, importer = self.pair(SIZES)
        self.assert_all(self.ask(importer, "holds", 1))
        self.ask(importer, "fill", 11)
        self.assert_all(self.ask(exporter, "holds", 11))
        self.assertEqual(self.ask(importer, "close"), [0] * len(SIZES))
        self.assert_all(self.ask(exporter, "holds", 11))
        self.assertEqual(self.ask(exporter, "free"), [0] * len(SIZES))

    def test_is_one_range_for_who_opened_it(self):
        ledger = self.evictable()
        exporter, importer = self.pair([600 * MIB])
        self.assertEqual(self.ask(importer, "whole", 77), 0)
        self.assert_all(self.ask(exporter, "holds", 77))
        self.assertEqual(self.ask(exporter, "range"), [[0, 600 * MIB, 1]])

    def test_counts_once_and_stays_while_the_rest_leaves(self):
        ledger = self.evictable()
        exporter = self.start_probe("exports", *SIZES)
        only = self.only(ledger)
        pid, evictable, used = only["pid"], only["evictable"], int(ledger("used", self.uuid))
        self.assertEqual(used, CONTEXT + evictable)
        rest = self.start_probe("holds", 16, 8)
        before = self.device_used()
        importer = self.start_probe("imports")
        other = self.device_used() - before
        self.open_all(importer, self.shared(exporter), SIZES)
        self.assertEqual(self.device_used(), before + other)
        self.assertEqual(int(ledger("used", self.uuid)), used + 2 * CONTEXT + 16 * MIB)
        self.assertEqual({one["pid"]: one["evictable"] for one in self.statuses(ledger)}[pid], 0)
        away = self.order(ledger, pid, True)
        self.assert_stands(away, EVICTED)
        self.assertEqual(away["evicted"], 0)
        self.assert_all(self.ask(importer, "holds", 1))
        self.ask(importer, "fill", 31)
        self.assert_stands(self.order(ledger, pid, False), ON_GPU)
        self.assert_all(self.ask(exporter, "holds", 31))
        self.assert_good(rest)

    def test_is_told_to_the_daemon_as_long_as_it_is_shared(self):
        ledger = self.evictable()
        exporter = self.start_probe("exports", *SIZES)
        pid = self.only(ledger)["pid"]
        shares = lambda: {one["pid"]: one["shares"] for one in self.statuses(ledger)}
        for _ in range(2):
            self.assertEqual(shares(), {pid: False}, "also not when it has come back from the mover")
            self.assert_stands(self.order(ledger, pid, True), EVICTED)
            self.assert_stands(self.order(ledger, pid, False), ON_GPU)
        importer = self.start_probe("imports")
        handles = self.shared(exporter)
        self.assertTrue(shares()[pid])
        self.open_all(importer, handles, SIZES)
        self.assertEqual(set(shares().values()), {True})
        self.assertEqual(self.ask(importer, "close"), [0] * len(SIZES))
        self.assertEqual(self.ask(exporter, "free"), [0] * len(SIZES))
        self.assertEqual(set(shares().values()), {False})

    def test_leaves_in_part_where_a_part_is_shared(self):
        ledger = self.evictable()
        process = self.start_probe("shares_one_of_two")
        pid = self.only(ledger)["pid"]
        self.assertEqual(self.only(ledger)["evictable"], 8 * MIB)
        for _ in range(3):
            away = self.order(ledger, pid, True)
            self.assert_stands(away, EVICTED)
            self.assertEqual(away["evicted"], 8 * MIB)
            self.assert_stands(self.order(ledger, pid, False), ON_GPU)
            self.assert_good(process)

    def test_memory_that_was_evicted_can_be_shared_and_then_stays(self):
        ledger = self.evictable()
        exporter = self.start_probe("exports", *SIZES)
        pid = self.only(ledger)["pid"]
        for _ in range(2):
            self.assert_stands(self.order(ledger, pid, True), EVICTED)
            self.assert_stands(self.order(ledger, pid, False), ON_GPU)
        importer = self.start_probe("imports")
        self.open_all(importer, self.shared(exporter), SIZES)
        self.assert_all(self.ask(importer, "holds", 1))
        self.assertEqual(self.order(ledger, pid, True)["evicted"], 0)

    def test_is_opened_by_a_child_of_a_fork(self):
        self.evictable()
        self.assertEqual(self.probe("shares_with_a_child"), {"child": 0, "good": True, "freed": 0})

    def test_memory_freed_after_a_change_of_user_leaves_no_descriptor(self):
        if os.geteuid() != 0 or ON_DEVICE:
            self.skipTest("needs root and the simulated driver")
        ledger = self.evictable()
        exporter = self.start_probe("exports", *SIZES)
        pid = self.only(ledger)["pid"]
        self.shared(exporter)
        self.assertGreater(self.device_files(pid), 0)
        self.assertIsNone(self.ask(exporter, "user", NOBODY))
        self.assertEqual(self.ask(exporter, "free"), [0] * len(SIZES))
        self.assertEqual(self.device_files(pid), 0)

    def device_files(self, pid):
        """The descriptors of the simulated driver's memory that the process has in all tables of its threads."""
        links = []
        for file in pathlib.Path(f"/proc/{pid}/task").glob("*/fd/*"):
            with contextlib.suppress(FileNotFoundError):  # the library opens some for a moment
                links.append(os.readlink(file))
        return sum(link.startswith("/memfd:gpuman-sim-shared-memory") for link in links)

    def test_is_shared_again_by_the_same_handle(self):
        self.evictable()
        exporter = self.start_probe("exports", *SIZES)
        first = self.shared(exporter)
        self.assertEqual(self.shared(exporter), first)
        self.assertEqual(self.ask(exporter, "inside"), [[0, handle] for handle in first])


class AHandle(IpcCase):
    def test_handle_cannot_be_opened_by_its_own_process(self):
        self.evictable()
        exporter = self.start_probe("exports", 4 * MIB)
        self.assertEqual(self.ask(exporter, "open", self.shared(exporter)[0]), INVALID_CONTEXT)

    def test_handle_opened_twice_is_one_mapping_that_is_closed_twice(self):
        ledger = self.evictable()
        exporter, importer = self.pair([4 * MIB])
        handle = self.shared(exporter)[0]
        self.assertEqual(self.ask(importer, "again", handle), [True, 0])
        self.assert_all(self.ask(importer, "holds", 1))
        self.assertEqual(self.ask(importer, "close"), [0])
        self.assertEqual(self.ask(importer, "flags", handle), INVALID_VALUE)

    def test_handle_cannot_be_opened_without_the_shim(self):
        self.evictable()
        exporter = self.start_probe("exports", 4 * MIB)
        handle = self.shared(exporter)[0]
        without = self.start_probe("imports", preload=False)
        self.assertNotEqual(self.ask(without, "open", handle, 4 * MIB), 0)

    def test_handle_of_the_driver_is_passed_to_the_driver(self):
        self.evictable()
        exporter = self.start_probe("exports", 4 * MIB, preload=False)
        importer = self.start_probe("imports")
        self.open_all(importer, self.shared(exporter), [4 * MIB])
        self.assert_all(self.ask(importer, "holds", 1))
        self.assertEqual(self.ask(importer, "close"), [0])

    def test_handle_of_other_memory_gets_the_drivers_answer(self):
        without = self.probe("shares_what_others_made", preload=False)
        self.evictable()
        self.assertEqual(self.probe("shares_what_others_made"), without)

    def test_handle_of_freed_memory_cannot_be_opened_and_open_mappings_stay(self):
        ledger = self.evictable()
        exporter, importer = self.pair(SIZES)
        handles, used = self.shared(exporter), self.device_used()
        self.assertEqual(self.ask(exporter, "free"), [0] * len(SIZES))
        self.assertEqual(self.device_used(), used)
        self.assert_all(self.ask(importer, "holds", 1))
        late = self.start_probe("imports")
        for handle, size in zip(handles, SIZES):
            self.assertEqual(self.ask(late, "open", handle, size), INVALID_VALUE)
        with_late = self.device_used()
        self.assertEqual(self.ask(importer, "close"), [0] * len(SIZES))
        self.assertEqual(with_late - self.device_used(), (4 + 2 + 302) * MIB)

    def test_handle_of_dead_process_cannot_be_opened_and_open_mappings_stay(self):
        ledger = self.evictable()
        at_start = self.device_used()
        exporter, importer = self.pair(SIZES)
        handles = self.shared(exporter)
        os.killpg(exporter.pid, signal.SIGKILL)
        exporter.wait()
        self.until(lambda: ledger("reclaim") == "1")
        self.assertEqual(int(ledger("used", self.uuid)), CONTEXT)
        self.assert_all(self.ask(importer, "holds", 1))
        late = self.start_probe("imports")
        self.assertEqual(self.ask(late, "open", handles[0], SIZES[0]), INVALID_VALUE)
        self.assertEqual(self.ask(importer, "destroy"), 0)
        self.assertEqual(self.ask(late, "destroy"), 0)
        self.assertLessEqual(self.device_used() - at_start, 8 * MIB)

    def test_handle_is_opened_though_the_exporter_hangs_up_on_slow_clients(self):
        """As where a loaded machine does not let the importer ask within a second."""
        self.evictable()
        exporter, importer = self.start_probe("exports", 300 * MIB), self.start_probe("imports")  # two pieces
        for pieces in 0, 1:
            with HangsUp(self.shared(exporter)[0], pieces) as relay:
                self.assertEqual(self.ask(importer, "open", relay.handle, 300 * MIB), 0)
            self.assertEqual(relay.conversations, 2)
            self.assert_all(self.ask(importer, "holds", 1))
            self.assertEqual(self.ask(importer, "close"), [0])

    def test_handle_of_exporter_that_always_hangs_up_cannot_be_opened(self):
        self.evictable()
        exporter, importer = self.start_probe("exports", 4 * MIB), self.start_probe("imports")
        with HangsUp(self.shared(exporter)[0], 0, always=True) as relay:
            self.assertEqual(self.ask(importer, "open", relay.handle, 4 * MIB), INVALID_VALUE)

    def test_forged_handle_is_refused(self):
        self.evictable()
        exporter = self.start_probe("exports", 4 * MIB)
        handle = self.shared(exporter)[0]
        importer = self.start_probe("imports")
        for wrong in ("00" * 64, handle[:48] + "ff" * 8 + handle[64:], handle[:80] + "00" * 8 + handle[96:],
                      handle[:64] + "ff" * 8 + handle[80:], handle[:96] + "11" * 16):
            self.assertEqual(len(wrong), len(handle))
            self.assertNotEqual(self.ask(importer, "open", wrong, 4 * MIB), 0)
        self.open_all(importer, [handle], [4 * MIB])
        self.assertEqual(self.ask(importer, "free"), [INVALID_VALUE])
        self.assert_all(self.ask(importer, "holds", 1))


class Descriptors(IpcCase):
    def test_handle_is_refused_without_free_descriptors_and_opened_later(self):
        ledger = self.evictable()
        exporter = self.start_probe("exports", *SIZES)
        pid = self.only(ledger)["pid"]
        soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        for beside in (0, 1, 2):  # none at all; some, but not enough for all pieces
            held = set(map(int, os.listdir(f"/proc/{pid}/fd")))
            few = min(set(range(100)) - held) + beside
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (few, hard))
            statuses = [status for status, _ in self.ask(exporter, "share")]
            self.assertNotEqual(statuses, [0] * len(SIZES))
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
        importer = self.start_probe("imports")
        self.open_all(importer, self.shared(exporter), SIZES)
        self.assert_all(self.ask(importer, "holds", 1))


class ManyTimes(IpcCase):
    def test_repeated_sharing_and_freeing_leaves_nothing(self):
        ledger = self.evictable()
        exporter, importer = self.start_probe("exports"), self.start_probe("imports")

        def descriptors_of(pid):
            """How many descriptors each thread has: the service thread has a table of its own."""
            tables = pathlib.Path(f"/proc/{pid}/task").glob("*/fd")
            return tuple(sorted({len(list(table.iterdir())) for table in tables}))
        pids, first, now = [one["pid"] for one in self.statuses(ledger)], None, None
        self.assertEqual(len(pids), 2)
        # A service thread begins with its process's table.
        self.until(lambda: all(len(descriptors_of(pid)) == 2 for pid in pids))
        for _ in range(30):
            self.assertEqual(self.ask(exporter, "make", *SIZES), None)
            self.open_all(importer, self.shared(exporter), SIZES)
            self.assertEqual(self.ask(importer, "close"), [0] * len(SIZES))
            self.assertEqual(self.ask(exporter, "free"), [0] * len(SIZES))

            def no_more_than_before():  # a thread may still be closing what it has kept, also after the first round
                nonlocal now
                now = (*map(descriptors_of, pids), self.device_used(), int(ledger("used", self.uuid)))
                if any(len(counts) != 2 for counts in now[:2]):
                    return False
                return first is None or all(is_now <= before for is_now, before in zip(now, first))
            self.until(no_more_than_before, lambda: f"{first} in the round before, then {now}")
            first = now


if __name__ == "__main__":
    unittest.main()

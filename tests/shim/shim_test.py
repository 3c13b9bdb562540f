"""libgpuman.so in programs on the simulated driver, with a ledger that is served as the daemon serves it.

Usage: shim_test.py [NAME…]; GPUMAN_BUILD_DIR names the build.
"""

import contextlib
import json
import os
import pathlib
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "harness"))
from ledger import Ledger  # noqa: E402

BUILD = pathlib.Path(os.environ.get("GPUMAN_BUILD_DIR", HERE.parents[1] / "build" / "release"))
SIM, LOAD = str(BUILD / "bin/gpuman-sim"), str(BUILD / "bin/gpuman-load")
SHIM = str(BUILD / "lib/libgpuman.so")
MIB, GIB = 1 << 20, 1 << 30
CONTEXT = 518 * MIB  # of the simulated H200
ON_DEVICE = os.environ.get("GPUMAN_TEST_ON_DEVICE") == "1"  # use the machine's own driver instead, for async and ipc


class ShimCase(unittest.TestCase):
    LIMIT = 2 * GIB
    machine_options = ()

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="gpuman-shim-")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.socket = self.dir + "/shim.sock"
        first = self.run_load("--alloc", "2MiB", preload=False)[1]
        self.uuid = [event for event in first if event["event"] == "context"][0]["uuid"]

    def serve(self, limit=None, context=CONTEXT, *options):
        ledger = Ledger(self.socket, "--gpu", self.uuid, self.LIMIT if limit is None else limit, context, *options,
                        around=self.around())
        self.addCleanup(ledger.stop)
        return ledger

    def around(self):
        """A command in front of the ledger server's."""
        return ()

    def command(self, *words, preload=True):
        environment = ["env", "XDG_RUNTIME_DIR=" + self.dir]
        if preload:
            environment += ["LD_PRELOAD=" + SHIM, "GPUMAN_SHIM_SOCKET=" + self.socket, "GPUMAN_JOB_ID=1"]
        return [*self.on_driver(), *environment, *words]

    def on_driver(self):
        if ON_DEVICE:
            return []
        return [SIM, "exec", "--dir", self.dir + "/machine", *self.machine_options, "--"]

    def start(self, *words, preload=True):
        process = subprocess.Popen(self.command(*words, preload=preload), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)

        def close():
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
        self.addCleanup(close)
        return process

    def run_load(self, *arguments, preload=True):
        done = subprocess.run(self.command(LOAD, "--json", *arguments, preload=preload), capture_output=True, text=True,
                              timeout=120, check=False)
        return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]

    def probe_command(self, *words):
        return [sys.executable, "-W", "ignore", str(HERE / "probe.py"), *map(str, words)]

    def probe(self, *words, preload=True):
        done = subprocess.run(self.command(*self.probe_command(*words), preload=preload), capture_output=True,
                              text=True, timeout=120, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)


def total(events):
    return max([event["total"] for event in events if event["event"] == "alloc"], default=0)


class EveryKindOfMemory(ShimCase):
    def test_stops_at_the_limit_and_keeps_its_data(self):
        room = 136 * MIB
        ledger = self.serve(CONTEXT + room)
        for api in ("malloc", "async", "vmm", "managed", "pitch", "array"):
            with self.subTest(api):
                status, events = self.run_load("--api", api, "--alloc", "192MiB", "--step", "12MiB", "--verify")
                self.assertEqual(status, 3, events[-3:])
                self.assertLessEqual(total(events), room)
                if api != "managed":  # refused as a whole, by the free memory that the program is told
                    self.assertGreater(total(events), room - 32 * MIB)
                ledger.until_given_back(self.uuid)

    def test_within_the_limit_nothing_is_different(self):
        ledger = self.serve(8 * GIB)
        for api in ("malloc", "async", "vmm", "managed", "pitch", "array"):
            with self.subTest(api):
                status, events = self.run_load("--api", api, "--alloc", "12MiB", "--step", "5MiB", "--verify",
                                               "--iterations", "2")
                self.assertEqual(status, 0, events[-3:])
        ledger.until_given_back(self.uuid)

    def test_children_share_one_limit(self):
        ledger = self.serve(3 * GIB)
        holders, statuses = [], []
        for _ in range(4):  # one after the other: four contexts at the same time leave room for two
            holders.append(self.start(*self.probe_command("hold", 400 * MIB)))
            statuses.append(json.loads(holders[-1].stdout.readline())["status"])
        self.assertEqual(statuses.count(0), 3, statuses)
        self.assertLessEqual(int(ledger("used", self.uuid)), 3 * GIB)
        for holder in holders:
            holder.stdin.close()
            holder.wait()
        ledger.until_given_back(self.uuid)


class ReportedMemory(ShimCase):
    def test_its_limit_is_the_total_and_what_is_left_is_free(self):
        self.serve()
        told = self.probe("told")
        left = self.LIMIT - CONTEXT
        self.assertEqual((told["total"], told["free"], told["device_total"]), (self.LIMIT, left, self.LIMIT))
        self.assertEqual(told["nvml"], [self.LIMIT, left, CONTEXT])
        self.assertEqual(told["nvml_v2"], [self.LIMIT, 0, left, CONTEXT])
        self.assertEqual((told["only_total"], told["only_free"]), (self.LIMIT, left))
        without = self.probe("told", preload=False)
        self.assertEqual(told["nulls"], without["nulls"])
        self.assertGreater(without["total"], self.LIMIT)

    def test_a_limit_beyond_the_device_changes_nothing(self):
        self.serve(1 << 50)
        self.assertEqual(self.probe("told"), self.probe("told", preload=False))

    def test_bytes_that_only_the_driver_sees_count(self):
        ledger = self.serve()
        ledger("outside", self.uuid, GIB)
        self.assertEqual(self.probe("told")["free"], self.LIMIT - CONTEXT - GIB)


class OddCalls(ShimCase):
    def test_are_answered_as_the_driver_answers(self):
        for name in ("odd_sizes", "context_goes", "small", "virtual", "arrays", "primary", "forked"):
            with self.subTest(name):
                without = self.probe(name, preload=False)
                ledger = self.serve(1 << 50)
                self.assertEqual(self.probe(name), without)
                ledger.until_given_back(self.uuid)

    def test_of_the_conformance_suite_are_answered_as_without_the_shim(self):
        suite = BUILD / "tests/conformance_test"
        if not suite.exists():
            self.skipTest("the suite is not built")
        ledger = self.serve(1 << 50)
        done = subprocess.run(self.command(str(suite), "--gtest_brief=1"), capture_output=True, text=True, timeout=280,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stdout[-3000:])
        self.assertNotEqual(ledger("joined"), "0")
        ledger.until_given_back(self.uuid)

    def test_keep_the_books_right_under_a_limit(self):
        ledger = self.serve()
        odd = self.probe("odd_sizes")
        self.assertEqual((odd["huge"], odd["most"], odd["held"], odd["left"]), (2, 2, 4 * MIB, 0))
        goes = self.probe("context_goes")
        self.assertEqual((goes["destroyed"], goes["again"], goes["free"]), (0, 0, 0))
        self.assertEqual(self.probe("small"), {"together": 2 * MIB, "after": 0})
        virtual = self.probe("virtual")
        self.assertEqual(virtual["held"], [64 * MIB] * 4 + [0])
        self.assertEqual(virtual["too_much"], 2)
        self.assertEqual(self.probe("arrays")["too_much"], 2)
        ledger.until_given_back(self.uuid)

    def test_pools_count_what_they_have(self):
        self.serve()
        pools = self.probe("pools")
        self.assertEqual(pools["held"], [32 * MIB, 0])
        self.assertEqual(set(pools["statuses"]), {0})
        self.assertEqual((pools["too_much"], pools["left"]), (2, 0))

    def test_a_pool_at_the_limit_serves_from_what_it_has(self):
        self.serve()
        pool = self.probe("pool_that_keeps")
        self.assertEqual(set(pool["statuses"]), {0})
        self.assertLess(pool["kept"], 32 * MIB)
        self.assertGreaterEqual(pool["after"], pool["room"])

    def test_a_pool_at_the_limit_serves_what_fits_into_its_holes(self):
        room = 20 * 32 * MIB
        ledger = self.serve(CONTEXT + room)
        pool = self.probe("pool_in_holes")
        self.assertGreater(pool["blocks"] * 40 * MIB, room - 3 * 32 * MIB)
        self.assertEqual(set(pool["statuses"]), {0})
        self.assertEqual(pool["free"], room)
        ledger.until_given_back(self.uuid)

    def test_asking_pools_spoils_no_capture(self):
        self.serve(CONTEXT + 128 * MIB)
        asked = self.probe("pool_in_capture")
        self.assertEqual(asked, {"told": True, "statuses": [0, 0, 0, 2], "end": 0})
        self.assertEqual(self.probe("pool_in_capture", preload=False), asked)

    def test_the_primary_context_counts_once(self):
        self.serve()
        primary = self.probe("primary")
        self.assertEqual(primary["statuses"], [0, 0, 0])
        self.assertEqual(primary["with_one"], [self.LIMIT - CONTEXT, self.LIMIT])
        self.assertEqual(primary["with_data"], self.LIMIT - CONTEXT - 10 * MIB)
        self.assertEqual(primary["at_last"], self.LIMIT - CONTEXT)

    def test_a_limit_below_a_context_is_out_of_memory_at_its_making(self):
        self.serve(256 * MIB)
        status, events = self.run_load("--alloc", "2MiB")
        self.assertEqual(status, 3)
        self.assertIn("OUT_OF_MEMORY", [event for event in events if event["event"] == "error"][0]["message"])


class TwoDevices(ShimCase):
    machine_options = ("--gpus", "2")

    def test_pools_count_where_their_memory_is(self):
        other = self.probe("uuid_of", 1, preload=False)
        ledger = self.serve(CONTEXT + 64 * MIB, CONTEXT, "--gpu", other, CONTEXT + 512 * MIB, CONTEXT)
        pools = self.probe("pools_elsewhere")
        beside = {"statuses": [0, 2], "taken": [0, 64 * MIB], "left": [0, 0]}
        self.assertEqual(pools["other"], beside)
        self.assertEqual(pools["default"], beside)
        for place in ("host", "numa"):
            self.assertEqual(pools[place], {"statuses": [0, 0], "taken": [0, 0], "left": [0, 0]})
        for uuid in (self.uuid, other):
            ledger.until_given_back(uuid)


    def test_a_limit_on_a_gpu_that_the_program_cannot_see_is_not_taken_for_one_that_it_can(self):
        other = self.probe("uuid_of", 1, preload=False)
        ledger = self.serve(256 * MIB, CONTEXT)  # for the first GPU: less than a context
        seen = ["env", "CUDA_VISIBLE_DEVICES=" + other, *self.probe_command("told")]
        done = subprocess.run(self.command(*seen), capture_output=True, text=True, timeout=60, check=True)
        told = json.loads(done.stdout)
        self.assertGreater(told["total"], 100 * GIB)
        self.assertEqual(told["nvml"][0], 256 * MIB)  # NVML's first GPU stays the first
        self.assertEqual((ledger("joined"), ledger("used", self.uuid)), ("1", "0"))


class Limits(ShimCase):
    def test_change_while_the_job_runs(self):
        ledger = self.serve()
        process = self.start(*self.probe_command("take_as_told"))

        def take(mib):
            process.stdin.write(f"{mib}\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())
        self.assertEqual(take(1024)["status"], 0)
        self.assertEqual(take(1024)["status"], 2)
        ledger("limit", self.uuid, 4 * GIB)
        self.assertEqual(take(1024), {"status": 0, "free": 4 * GIB - CONTEXT - 2 * GIB})
        ledger("limit", self.uuid, GIB)
        self.assertEqual(take(2), {"status": 2, "free": 0})
        self.assertEqual(ledger("used", self.uuid), str(CONTEXT + 2 * GIB))

    def test_are_one_for_all_processes_of_the_job(self):
        ledger = self.serve()
        first = self.start(*self.probe_command("hold", GIB))
        self.assertEqual(json.loads(first.stdout.readline())["status"], 0)
        second = self.probe("told") if CONTEXT + GIB + CONTEXT <= self.LIMIT else None
        self.assertIsNone(second)
        status, _ = self.run_load("--alloc", "2MiB")
        self.assertEqual(status, 3)
        ledger("limit", self.uuid, 4 * GIB)
        self.assertEqual(self.probe("told")["free"], 4 * GIB - 2 * CONTEXT - GIB)


class AProcessThatEnds(ShimCase):
    def test_gives_back_what_it_had_also_when_killed(self):
        ledger = self.serve()
        process = self.start(*self.probe_command("hold", GIB))
        json.loads(process.stdout.readline())
        self.assertEqual(ledger("used", self.uuid), str(CONTEXT + GIB))
        pids = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True).stdout
        pid = int(pids.split()[0])
        self.assertEqual(ledger("registered", pid), "yes")
        os.kill(pid, signal.SIGKILL)
        process.wait()
        ledger.until_given_back(self.uuid)

    def test_makes_room_for_the_next_without_the_daemon(self):
        ledger = self.serve()
        waiting = self.start(*self.probe_command("take_as_told"))
        waiting.stdin.write("2\n")
        waiting.stdin.flush()
        self.assertEqual(json.loads(waiting.stdout.readline())["status"], 0)
        self.assertEqual(self.run_load("--alloc", "256MiB", "--hold", "0s")[0], 0)
        ended = self.start(*self.probe_command("hold", 900 * MIB))
        self.assertEqual(json.loads(ended.stdout.readline())["status"], 0)
        ended.stdin.write("\n")
        ended.stdin.flush()
        ended.wait()
        self.assertEqual(ledger("used", self.uuid), str(2 * CONTEXT + 904 * MIB))
        waiting.stdin.write("1400\n")
        waiting.stdin.flush()
        self.assertEqual(json.loads(waiting.stdout.readline())["status"], 0)


class TheDaemon(ShimCase):
    def test_program_started_without_daemon_joins_later(self):
        process = self.start(*self.probe_command("take_as_told"))

        def take(mib):
            process.stdin.write(f"{mib}\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())
        self.assertEqual(take(4096)["status"], 0)
        ledger = self.serve()
        end = time.monotonic() + 120
        while ledger("joined") == "0" and time.monotonic() < end:
            answer = take(2)
        self.assertEqual(ledger("joined"), "1")
        answer = take(2)
        self.assertEqual(answer, {"status": 2, "free": 0})
        self.assertGreaterEqual(int(ledger("used", self.uuid)), 4 * GIB)

    def test_last_limit_holds_when_the_daemon_is_gone(self):
        ledger = self.serve()
        process = self.start(*self.probe_command("hold", GIB))
        json.loads(process.stdout.readline())
        ledger.process.kill()
        process.stdin.write("\n")
        process.stdin.flush()
        self.assertEqual(json.loads(process.stdout.readline()),
                         {"free": self.LIMIT - CONTEXT - GIB, "total": self.LIMIT, "more": 0})

    def test_shim_does_nothing_when_daemon_knows_no_job(self):
        self.serve(GIB, CONTEXT, "--nobody")
        self.assertEqual(self.probe("told"), self.probe("told", preload=False))

    def test_shim_does_nothing_without_daemon(self):
        self.assertEqual(self.probe("told"), self.probe("told", preload=False))


class ADaemonThatIsNoneOfOurs(ShimCase):
    """The process at the socket may have another version, or send nonsense: the program runs as without a shim."""

    WELCOME = "<IIIIQ8x"
    VERSION = 4
    MAGIC, JOINED, OTHER_VERSION, TRY_LATER, BYTES = 0x574D5047, 1, 3, 4, 397312

    def answered(self, answer, files=()):
        """What a program is told if its question gets this answer, and the questions."""
        heard = []
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listening.bind(self.socket)
        listening.listen()

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    with connection:
                        heard.append(connection.recv(4096))
                        socket.send_fds(connection, [answer], list(files))
        thread = threading.Thread(target=serve)
        thread.start()
        told = self.probe("told")
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()
        listening.close()
        os.unlink(self.socket)
        return told, heard

    def test_is_asked_in_the_words_of_the_protocol(self):
        _, heard = self.answered(struct.pack(self.WELCOME, self.MAGIC, self.VERSION - 1, self.OTHER_VERSION, 0, self.BYTES))
        self.assertEqual(heard, [b"GPMH" + struct.pack("<IQ", self.VERSION, 1) + bytes(112)])

    def test_wrong_answers_of_the_daemon_change_nothing(self):
        without = self.probe("told", preload=False)
        foreign = tempfile.TemporaryFile()
        self.addCleanup(foreign.close)
        answers = {
            "an older daemon": (self.MAGIC, self.VERSION - 1, self.OTHER_VERSION, 0, self.BYTES),
            "a newer daemon": (self.MAGIC, self.VERSION + 1, self.OTHER_VERSION, 0, self.BYTES),
            "a ledger of another version": (self.MAGIC, self.VERSION + 1, self.JOINED, 0, self.BYTES),
            "a ledger of another size": (self.MAGIC, self.VERSION, self.JOINED, 0, self.BYTES + 4096),
            "a slot that is none": (self.MAGIC, self.VERSION, self.JOINED, 1024, self.BYTES),
            "a file that is no ledger": (self.MAGIC, self.VERSION, self.JOINED, 0, self.BYTES),
            "no room": (self.MAGIC, self.VERSION, self.TRY_LATER, 0, self.BYTES),
            "an answer that there is not": (self.MAGIC, self.VERSION, 99, 0, self.BYTES),
            "another protocol": (0, self.VERSION, self.JOINED, 0, self.BYTES),
        }
        for name, fields in answers.items():
            files = [foreign.fileno()] * 2 if fields[2] == self.JOINED else []
            with self.subTest(name):
                self.assertEqual(self.answered(struct.pack(self.WELCOME, *fields), files)[0], without)
        for answer in (b"x", bytes(4000)):
            with self.subTest(len(answer)):
                self.assertEqual(self.answered(answer)[0], without)


class PreloadedLibrary(ShimCase):
    def test_children_of_a_fork_count_for_themselves(self):
        ledger = self.serve()
        told = self.probe("fork_first")
        for child in told["children"]:
            self.assertEqual(child, [self.LIMIT - CONTEXT - 64 * MIB, self.LIMIT])
        ledger.until_given_back(self.uuid)

    def test_a_program_that_is_executed_counts_for_itself(self):
        self.serve(3 * GIB)
        told = self.probe("spawn")
        self.assertEqual(told["child"]["free"], 3 * GIB - 2 * CONTEXT - 32 * MIB)

    def test_leaves_errno_and_descriptors_alone(self):
        self.serve()
        self.assertEqual(self.probe("environment"), {"errno": 77, "inherited": False})

    def test_needs_libc_alone_and_shows_only_what_it_replaces(self):
        needed = subprocess.run(["readelf", "-d", SHIM], capture_output=True, text=True, check=True).stdout
        libraries = [line.split("[")[1].rstrip("]") for line in needed.splitlines() if "(NEEDED)" in line]
        self.assertLessEqual(set(libraries), {"libc.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"})
        shown = subprocess.run(["nm", "-D", "--defined-only", SHIM], capture_output=True, text=True, check=True).stdout
        names = [line.split()[-1] for line in shown.splitlines() if line.split()[-2] != "A"]
        # It has no default version: only a lookup with glibc's version finds it.
        self.assertEqual({name for name in names if not name.startswith(("cu", "nvml"))},
                         {"dlsym@GLIBC_2.34", "dlsym@GLIBC_2.17" if os.uname().machine == "aarch64" else "dlsym@GLIBC_2.2.5"})

    def test_loads_where_glibc_is_old(self):
        symbols = subprocess.run(["readelf", "-W", "--dyn-syms", SHIM], capture_output=True, text=True, check=True).stdout
        needed = {tuple(map(int, version.split("."))) for line in symbols.splitlines() if " UND " in line
                  for version in re.findall(r"@GLIBC_([0-9.]+)", line)}
        self.assertLessEqual(max(needed), (2, 25), "images of containers have glibc from 2.27 on")

    def test_a_program_without_cuda_joins_nothing(self):
        ledger = self.serve()
        subprocess.run(self.command(sys.executable, "-c", "import ctypes, json, socket, threading"), check=True)
        subprocess.run(self.command("sh", "-c", "ls / | cat > /dev/null"), check=True)
        self.assertEqual(ledger("joined"), "0")


class ALinkedProgram(ShimCase):
    def linked(self, name, preload=True):
        done = subprocess.run(self.command(str(BUILD / "tests/linked_probe"), name, preload=preload), check=True,
                              capture_output=True, text=True, timeout=60)
        return json.loads(done.stdout)

    def test_is_held_to_its_limit_too(self):
        ledger = self.serve()
        self.assertEqual(self.linked("linked"), {"status": 0, "beyond": 2, "held": 64 * MIB})
        ledger.until_given_back(self.uuid)

    def test_gets_one_answer_for_a_function_however_it_asks(self):
        self.serve()
        self.assertEqual(self.linked("addresses"),
                         {"same": True, "of": "shim", "other": "driver", "none": True, "malloc": True})

    def test_may_close_what_the_shim_has_open(self):
        ledger = self.serve()
        self.assertEqual(self.linked("closing"), {"status": 0, "beyond": 2, "closed": 1})
        self.assertEqual(ledger("reclaim"), "1")

    def test_may_overwrite_the_ledger(self):
        ledger = self.serve()
        self.assertEqual(self.linked("scribble"), {"answered": 50})
        self.assertEqual(ledger("intact"), "no")

    def test_pays_little_for_an_allocation(self):
        """The bar is 1 us over the driver; this test only reports, since the machine may be busy."""
        self.serve()
        with_shim, without = self.linked("cost")["ns"], self.linked("cost", preload=False)["ns"]
        print(f"an allocation and its free: {with_shim:.0f} ns with the shim, {without:.0f} ns without")
        self.assertGreater(with_shim, 0)


class Races(ShimCase):
    def race(self, kinds):
        """Four processes of eight threads each. Returns the limit, and the most that the ledger and the device
        showed."""
        limit = 2 * CONTEXT + 200 * MIB  # contexts wait for each other as well
        ledger = self.serve(limit)
        watch = self.start(*self.probe_command("watch"), preload=False)
        self.assertEqual(watch.stdout.readline(), "watching\n")
        processes = [self.start(*self.probe_command("race", 8, 100, kinds)) for _ in range(4)]
        highest, racing = 0, {process.stdout: process for process in processes}
        while racing:
            highest = max(highest, int(ledger("used", self.uuid)))
            for stdout in select.select(list(racing), [], [], 0)[0]:
                self.assertEqual(stdout.readline(), "raced\n")
                del racing[stdout]
        watch.stdin.close()
        # They end only now: a process returns its share a moment before the device has its memory back.
        for process in processes:
            process.stdin.close()
        most = json.loads(watch.stdout.readline())["most"]
        counts = [json.loads(process.stdout.readline()) for process in processes]
        self.assertGreater(sum(count["taken"] for count in counts), 0)
        self.assertGreater(sum(count["refused"] for count in counts), 0,
                           f"{counts}, limit {limit}, highest in the ledger {highest}, on the device {most}")
        ledger.until_given_back(self.uuid)
        return limit, highest, most

    def test_threads_of_many_processes_never_pass_the_limit_and_leave_nothing(self):
        for kinds in (2, 3):  # without pools and with them
            with self.subTest(kinds):
                limit, highest, most = self.race(kinds)
                self.assertLessEqual(highest, limit)
                self.assertLessEqual(most, limit)
                self.assertGreater(most, CONTEXT)


if __name__ == "__main__":
    unittest.main()

"""gpuman-load on the simulated driver: its exit statuses, its events, and that it notices wrong data.

Usage: load_test.py GPUMAN_SIM GPUMAN_LOAD
"""

import json
import os
import signal
import subprocess
import sys
import unittest

SIM, LOAD = sys.argv[1:3]
MIB = 1 << 20


def run(*arguments, profile="h200"):
    """The exit status and the events of one run."""
    done = subprocess.run([SIM, "exec", "--profile", profile, "--", LOAD, "--json", *arguments],
                          capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def named(events, name):
    return [event for event in events if event["event"] == name]


class Usage(unittest.TestCase):
    def test_refuses_what_is_wrong_and_says_what(self):
        for arguments, said in [(["--alloc", "-1"], "negative"), (["--alloc", "0"], "zero"),
                                (["--alloc", "99999999999999999999"], "64 bits"), (["--alloc", ""], "empty"),
                                (["--hold", "soon"], "soon"), (["--duty", "0"], "--duty"), (["--api", "x"], "none of"),
                                (["--iterations", "-3"], "--iterations"), (["--step", "1M"], "--alloc"),
                                (["--jump"], "--alloc"), (["--daemonize"], "--children"), (["stray"], "stray")]:
            with self.subTest(arguments):
                done = subprocess.run([LOAD, *arguments], capture_output=True, text=True, timeout=30, check=False)
                self.assertEqual(done.returncode, 2)
                self.assertIn(said, done.stderr)
                self.assertEqual(done.stdout, "")

    def test_a_machine_without_a_driver_is_a_driver_error(self):
        done = subprocess.run([LOAD, "--json"], capture_output=True, text=True, timeout=30, check=False)
        if done.returncode == 0:
            self.skipTest("this machine has a driver")
        self.assertEqual(done.returncode, 5)
        self.assertEqual([json.loads(line)["event"] for line in done.stdout.splitlines()], ["start", "error", "done"])


class Events(unittest.TestCase):
    def test_steps_add_up_and_carry_times(self):
        status, events = run("--alloc", "10MiB", "--step", "4MiB")
        self.assertEqual(status, 0)
        steps = named(events, "alloc")
        self.assertEqual([step["bytes"] for step in steps], [4 * MIB, 4 * MIB, 2 * MIB])
        self.assertEqual([step["total"] for step in steps], [4 * MIB, 8 * MIB, 10 * MIB])
        times = [time for step in steps for time in (step["before_ns"], step["after_ns"], step["t_ns"])]
        self.assertEqual(times, sorted(times))
        self.assertEqual([event["event"] for event in events if event["event"] != "alloc"],
                         ["start", "context", "done"])

    def test_a_jump_comes_after_the_hold_in_one_piece(self):
        _, events = run("--alloc", "4MiB", "--step", "2MiB", "--jump", "64MiB")
        self.assertEqual([step["bytes"] for step in named(events, "alloc")], [2 * MIB, 2 * MIB, 64 * MIB])
        _, events = run("--alloc", "64MiB", "--step", "2MiB", "--jump")
        self.assertEqual([step["bytes"] for step in named(events, "alloc")], [64 * MIB])

    def test_a_share_of_the_device(self):
        _, events = run("--alloc", "50%")
        self.assertEqual(named(events, "alloc")[0]["total"] // MIB, named(events, "context")[0]["memory"] // 2 // MIB)

    def test_children_report_each_for_itself(self):
        for extra in ([], ["--daemonize"]):
            with self.subTest(extra):
                status, events = run("--children", "3", "--alloc", "2MiB", *extra)
                self.assertEqual(status, 0)
                self.assertEqual(sorted(start["child"] for start in named(events, "start")), [1, 2, 3])
                self.assertEqual(len({done["pid"] for done in named(events, "done")}), 3)


class Data(unittest.TestCase):
    def test_every_kind_of_memory_keeps_its_bytes(self):
        for api in ("malloc", "async", "vmm", "managed", "pitch", "array"):
            with self.subTest(api):
                status, events = run("--api", api, "--alloc", "5MiB", "--step", "3MiB", "--verify", "--iterations", "2")
                self.assertEqual(status, 0)
                checked = named(events, "verify")[0]
                self.assertEqual(checked["wrong_words"], 0)
                self.assertGreaterEqual(checked["bytes"], 5 * MIB)

    def test_one_wrong_byte_anywhere_is_noticed(self):
        for api in ("malloc", "vmm", "pitch", "array"):
            for offset in (0, 1, 2 * MIB - 1):
                with self.subTest(api=api, offset=offset):
                    status, events = run("--api", api, "--alloc", "2MiB", "--verify", "--iterations", "1",
                                         "--flip-byte", str(offset))
                    self.assertEqual(status, 4)
                    self.assertEqual(named(events, "verify")[0]["wrong_words"], 1)


class OutOfMemory(unittest.TestCase):
    def test_is_an_exit_status_of_its_own_and_keeps_the_data(self):
        status, events = run("--alloc", "100%", "--step", "100%", "--verify")
        self.assertEqual(status, 3)
        self.assertGreater(named(events, "oom")[0]["requested"], named(events, "oom")[0]["free"])
        self.assertEqual(named(events, "verify")[0]["wrong_words"], 0)
        self.assertIn("CUDA_ERROR_OUT_OF_MEMORY", named(events, "error")[0]["message"])

    def test_managed_memory_beyond_the_device_is_refused_before_any_is_taken(self):
        for arguments in (["--alloc", "100%"], ["--alloc", "60%", "--step", "1%", "--jump", "60%"]):
            with self.subTest(arguments):
                status, events = run("--api", "managed", *arguments)
                self.assertEqual(status, 3)
                self.assertEqual(named(events, "alloc"), [])
                self.assertIn("refused", named(events, "error")[0]["message"])


class Signals(unittest.TestCase):
    def start(self, *arguments):
        process = subprocess.Popen([SIM, "exec", "--profile", "h200", "--", LOAD, "--json", *arguments],
                                   stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        for line in process.stdout:
            event = json.loads(line)
            if event["event"] == "alloc":
                return process, event["pid"]
        self.fail("it ended early")

    def test_term_ends_it_unless_ignored(self):
        process, pid = self.start("--alloc", "2MiB", "--hold", "1h")
        os.kill(pid, signal.SIGTERM)
        self.assertIn(process.wait(30), (-signal.SIGTERM, 128 + signal.SIGTERM))
        process, pid = self.start("--alloc", "2MiB", "--hold", "1h", "--ignore-term")
        os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGINT)
        os.kill(pid, 0)
        os.kill(pid, signal.SIGKILL)
        self.assertIn(process.wait(30), (-signal.SIGKILL, 128 + signal.SIGKILL))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

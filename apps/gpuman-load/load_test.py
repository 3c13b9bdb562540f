"""gpuman-load on the simulated driver: its exit statuses, its events, and that it notices wrong data.

Usage: load_test.py GPUMAN_SIM GPUMAN_LOAD
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

SIM, LOAD = sys.argv[1:3]
MIB = 1 << 20


def run(*arguments, profile="h200", gpus=1):
    """The exit status and the events of one run."""
    done = subprocess.run([SIM, "exec", "--profile", profile, "--gpus", str(gpus), "--", LOAD, "--json", *arguments],
                          capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def named(events, name):
    return [event for event in events if event["event"] == name]


class Usage(unittest.TestCase):
    def test_wrong_options_are_refused_by_name(self):
        for arguments, said in [(["--alloc", "-1"], "negative"), (["--alloc", "0"], "zero"),
                                (["--alloc", "99999999999999999999"], "64 bits"), (["--alloc", ""], "empty"),
                                (["--hold", "soon"], "soon"), (["--duty", "0"], "--duty"), (["--api", "x"], "none of"),
                                (["--iterations", "-3"], "--iterations"), (["--step", "1M"], "--alloc"),
                                (["--jump"], "--alloc"), (["--daemonize"], "--children"), (["stray"], "stray"),
                                (["--ranks", "1"], "--ranks"), (["--ranks", "2", "--children", "2"], "--children"),
                                (["--work", "1s"], "--ranks"), (["--ranks", "2", "--pattern", "x"], "pipeline"),
                                (["--ranks", "2", "--peer", "x"], "ipc"), (["--ranks", "2", "--ahead", "0"], "--ahead"),
                                (["--ranks", "2", "--opposite", "--graph"], "--opposite"),
                                (["--ranks", "2", "--grow", "1MiB"], "--grow-when"),
                                (["--threads"], "--ranks"), (["--ranks", "2", "--threads", "--peer", "ipc"], "--peer"),
                                (["--ranks", "2", "--peer", "direct"], "none of"),
                                (["--ranks", "2", "--opposite", "--pattern", "tensor"], "ddp")]:
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

    def test_size_in_percent_is_of_device_memory(self):
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


class Ranks(unittest.TestCase):
    """Processes that need each other: each sum is checked in the step in which it is made."""

    def start(self, ranks, *arguments):
        process = subprocess.Popen([SIM, "exec", "--gpus", "2", "--", LOAD, "--json", "--ranks", ranks, *arguments],
                                   stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def check(self, ranks, steps, *arguments, gpus=2):
        status, events = run("--ranks", str(ranks), "--verify", "--iterations", str(steps), *arguments, gpus=gpus)
        self.assertEqual(status, 0, arguments)
        for rank in range(ranks):
            mine = [event for event in named(events, "step") if event["rank"] == rank]
            self.assertEqual([event["number"] for event in mine], list(range(1, steps + 1)))
            self.assertEqual({event["wrong_words"] for event in mine}, {0})
        return events

    def test_every_pattern_works_over_every_way_to_peer_memory(self):
        for pattern in ("ddp", "pipeline", "tensor", "random"):
            for peer in ("vmm", "ipc", "host"):
                with self.subTest(pattern=pattern, peer=peer):
                    self.check(3, 5, "--pattern", pattern, "--peer", peer, "--work", "2ms", "--alloc", "2MiB")

    def test_each_rank_uses_its_own_device(self):
        events = self.check(3, 1, gpus=2)
        devices = {start["rank"]: context["device"] for start in named(events, "start")
                   for context in named(events, "context") if context["pid"] == start["pid"]}
        self.assertEqual(devices, {0: 0, 1: 1, 2: 0})

    def test_ranks_that_run_ahead_pause_and_meet_in_other_orders(self):
        for arguments in (["--ahead", "6", "--think", "3ms"], ["--opposite", "--ahead", "3", "--buckets", "5"],
                          ["--pattern", "pipeline", "--buckets", "9", "--ahead", "4", "--think", "3ms"],
                          ["--graph"], ["--graph", "--ahead", "4", "--pattern", "pipeline"],
                          ["--graph", "--pattern", "random", "--seed", "5", "--buckets", "9"],
                          ["--pattern", "random", "--seed", "6", "--ahead", "4", "--think", "2ms"]):
            with self.subTest(arguments):
                self.check(4, 12, "--work", "1ms", *arguments, gpus=4)

    def test_sixty_four_ranks_keep_their_data(self):
        self.check(64, 2, "--pattern", "random", gpus=8)

    def test_one_wrong_byte_is_noticed_by_every_rank_in_the_step_in_which_it_is_summed(self):
        for pattern in ("ddp", "tensor", "random"):
            for extra in ([], ["--graph"]):
                with self.subTest(pattern=pattern, extra=extra):
                    status, events = run("--ranks", "3", "--pattern", pattern, "--verify", "--iterations", "1",
                                         "--flip-byte", "8191", *extra, gpus=2)
                    self.assertEqual(status, 4)
                    wrong = {event["rank"]: event["first_word"] for event in named(events, "mismatch")}
                    self.assertEqual(wrong, {0: 1023, 1: 1023, 2: 1023})
                    self.assertEqual({event["exit"] for event in named(events, "done")}, {4})

    def test_ranks_stop_after_the_same_number_of_steps(self):
        with tempfile.TemporaryDirectory() as folder:
            stop = os.path.join(folder, "stop")
            process = self.start("4", "--ahead", "5", "--think", "5ms", "--verify", "--until", stop)
            events = []
            for line in process.stdout:
                events.append(json.loads(line))
                if events[-1]["event"] == "step" and events[-1]["number"] == 10:
                    pathlib.Path(stop).touch()
            self.assertEqual(process.wait(30), 0)
        self.assertEqual(len({done["steps"] for done in named(events, "done")}), 1)
        status, events = run("--ranks", "2", "--hold", "50ms", "--work", "5ms")
        self.assertEqual(status, 0)
        self.assertGreaterEqual(named(events, "done")[0]["steps"], 1)

    def test_ranks_end_when_one_rank_is_killed(self):
        process = self.start("3", "--hold", "1h")
        events, killed = [], None
        for line in process.stdout:
            events.append(json.loads(line))
            if killed is None and events[-1]["event"] == "step" and events[-1]["rank"] == 1:
                killed = events[-1]["pid"]
                os.kill(killed, signal.SIGKILL)
        self.assertEqual(process.wait(30), 128 + signal.SIGKILL)
        self.assertEqual([(lost["rank"], lost["child_pid"]) for lost in named(events, "lost")], [(1, killed)])

    def test_ranks_end_with_their_parent(self):
        process = self.start("2", "--hold", "1h")
        for line in process.stdout:
            event = json.loads(line)
            if event["event"] == "child":
                parent = event["pid"]
            if event["event"] == "step":
                os.kill(parent, signal.SIGKILL)
                break
        for _ in process.stdout:  # ends when no process has the pipe open any more
            pass
        self.assertEqual(process.wait(30), 128 + signal.SIGKILL)

    def test_a_rank_without_memory_ends_all(self):
        status, events = run("--ranks", "2", "--alloc", "100%", "--hold", "1h", gpus=2)
        self.assertEqual(status, 3)
        self.assertEqual(len(named(events, "lost")), 1)

    def test_one_rank_grows_between_two_steps(self):
        status, events = run("--ranks", "2", "--verify", "--iterations", "3", "--grow", "4MiB", "--grow-rank", "1",
                             "--grow-when", "/", gpus=2)
        self.assertEqual(status, 0)
        self.assertEqual([one["rank"] for one in named(events, "grows")], [1])
        self.assertEqual([one["bytes"] for one in named(events, "alloc")], [4 << 20])
        status, events = run("--ranks", "2", "--iterations", "3", "--grow", "100%", "--grow-when", "/", gpus=2)
        self.assertEqual((status, len(named(events, "oom"))), (3, 1))

    def test_a_rank_that_grows_keeps_the_others_waiting_on_their_devices(self):
        for attempt in range(4):
            with self.subTest(attempt=attempt), tempfile.TemporaryDirectory() as folder:
                grow, end = pathlib.Path(folder, "grow"), pathlib.Path(folder, "end")
                process = self.start("3", "--think", "20ms", "--grow", "2MiB", "--grow-rank", "1", "--grow-when",
                                     str(grow), "--until", str(end), "--seed", str(attempt))
                done = {}
                for event in map(json.loads, process.stdout):
                    if event["event"] == "step":
                        done[event["rank"]] = event["number"]
                        grow.touch()
                    if event["event"] == "grows":
                        # They queue a step once they have reported the one before.
                        self.assertEqual([done[other] for other in (0, 2)], [event["step"] - 1] * 2)
                        end.touch()
                self.assertEqual(process.wait(30), 0)

    def test_ranks_as_threads_use_one_device_each(self):
        for pattern in ("ddp", "pipeline", "tensor", "random"):
            with self.subTest(pattern):
                events = self.check(3, 5, "--threads", "--pattern", pattern, "--work", "2ms", "--alloc", "2MiB", gpus=3)
                self.assertEqual(len({event["pid"] for event in events}), 1)
                self.assertEqual(sorted(context["device"] for context in named(events, "context")), [0, 1, 2])
        self.check(2, 12, "--threads", "--graph", "--ahead", "4", "--work", "1ms")
        status, events = run("--ranks", "3", "--threads", "--verify", "--iterations", "1", "--flip-byte", "8191", gpus=3)
        self.assertEqual(status, 4)
        self.assertEqual({event["rank"] for event in named(events, "mismatch")}, {0, 1, 2})

    def test_threads_end_as_one_where_a_rank_has_no_device_or_no_memory(self):
        status, events = run("--ranks", "3", "--threads", "--hold", "1h", gpus=2)
        self.assertEqual(status, 5)
        self.assertIn("rank 2 has no device", named(events, "error")[0]["message"])
        status, events = run("--ranks", "2", "--threads", "--alloc", "100%", "--hold", "1h", gpus=2)
        self.assertEqual(status, 3)

    def test_gpus_that_do_not_reach_each_other_are_told(self):
        status, events = run("--ranks", "2", "--peer", "ipc", "--iterations", "1", profile="rtx4050", gpus=2)
        self.assertEqual(status, 5)
        self.assertIn("CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", named(events, "error")[0]["message"])
        status, _ = run("--ranks", "2", "--peer", "host", "--iterations", "2", "--verify", profile="rtx4050", gpus=2)
        self.assertEqual(status, 0)


class OutOfMemory(unittest.TestCase):
    def test_full_device_exits_with_3_and_keeps_the_data(self):
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

    def test_sigterm_ends_the_program_unless_ignored(self):
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

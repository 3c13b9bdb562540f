#!/usr/bin/env python3
"""Limits that the driver itself holds for cgroups: driver 615 is simulated by its documentation, no hardware had it.

Usage: driver_limits_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)

The programs run with --no-preload, as a static program or one in a container would: the shim is not in them.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from daemon_case import DaemonTest, until  # noqa: E402
from machine import build_dir, program  # noqa: E402
from pods import unified_tree  # noqa: E402

GIB = 1 << 30


class LimitsCase(DaemonTest):
    # With persistence, so that the driver stays loaded, and keeps its limits, while no daemon runs.
    profile, gpus, memory = "h200", 2, "8GiB"

    def limits(self, gpu=0):
        """What the simulated driver holds on the GPU, by cgroup."""
        shown = subprocess.run([program("gpuman-sim"), "show", "--json"], env=self.m.env, capture_output=True, check=True)
        return {limit["cgroup"]: limit for limit in json.loads(shown.stdout)["gpus"][gpu]["limits"]}

    def hards(self, gpu=0):
        return sorted(limit["hard"] for limit in self.limits(gpu).values())

    def held(self, tag):
        until("the driver holds the limit", lambda: self.job(tag)["memory"]["held_by_driver"], self.what_stands)

    def start_plain(self, tag, script, memory="2GiB", **more):
        return self.start(tag, script, memory=memory, preload=False, **{"gpus": ["0"], **more})

    def start_waiting(self, tag, size, before="", **more):
        """A program that takes `size` once `release` was called, and then says whether it got it."""
        self.gate = pathlib.Path(tempfile.mkdtemp(prefix="gpuman-limits-")) / "go"
        self.start_plain(tag, f"{before} until test -e {self.gate}; do sleep 0.02; done; "
                         f"{self.load(size)} && echo got || echo refused", **more)
        self.becomes(tag, "running")

    def release(self):
        self.gate.touch()

    def kinds(self, job):
        return [event["kind"] for event in self.events() if event["job"] == job]


@unittest.skipUnless(os.geteuid() == 0 and unified_tree(), "needs root and a tree of cgroup v2 where cgroups can be made")
class NewDriverTest(LimitsCase):
    driver = "615.10.01"

    def test_a_program_without_the_library_is_refused_memory_and_not_ended(self):
        self.start_waiting("plain", "3GiB")
        self.held("plain")
        self.release()
        ended = self.wait("plain")
        self.assertEqual((ended["state"], ended["exit_code"], self.log("plain").splitlines()[-1]), ("finished", 0, "refused"))
        self.assertNotIn("hard_limit", self.kinds(ended["id"]))

    def test_within_its_limit_it_gets_what_it_asks_for(self):
        self.start_waiting("modest", "1GiB")
        self.held("modest")
        self.release()
        self.wait("modest")
        self.assertEqual(self.log("modest").splitlines()[-1], "got")

    def test_processes_of_a_job_have_one_limit_together(self):
        self.start_waiting("two", "1GiB", memory="3GiB", before=f"{self.load('1536MiB', '--hold', '1h')} &")
        self.held("two")
        until("the first has its memory", lambda: (self.job("two")["memory"]["used"] or 0) > GIB, self.what_stands)
        self.release()
        ended = self.wait("two")
        self.assertEqual(self.log("two").splitlines()[-1], "refused")
        self.assertNotIn("hard_limit", self.kinds(ended["id"]))

    def test_a_changed_limit_holds_while_it_runs(self):
        self.start_waiting("grows", "3GiB")
        self.held("grows")
        answer = self.request("PATCH", "/v1/jobs/grows", {"memory": "4GiB"})
        self.assertEqual(answer.status, 200, answer.body)
        until("the driver holds 4GiB", lambda: self.hards() == [4 * GIB], self.what_stands)
        self.release()
        self.wait("grows")
        self.assertEqual(self.log("grows").splitlines()[-1], "got")

    def test_an_ended_job_leaves_no_limit(self):
        self.start_waiting("ends", "1GiB")
        self.held("ends")
        self.assertEqual(self.hards(), [2 * GIB])
        self.release()
        self.assertIsNone(self.wait("ends")["memory"]["held_by_driver"])
        until("no limit is left", lambda: not self.limits(), self.what_stands)

    def test_limits_are_of_the_gpus_of_a_job(self):
        self.start_plain("half", "sleep 1h", memory="25%", gpus=["1"])
        self.held("half")
        self.assertEqual(self.hards(0), [])
        self.assertEqual(self.hards(1), [2 * GIB])
        self.start_plain("both", "sleep 1h", gpus=[])
        self.held("both")
        self.assertEqual((self.hards(0), self.hards(1)), ([2 * GIB], [2 * GIB, 2 * GIB]))

    def test_a_job_that_shares_or_has_no_limit_is_not_the_drivers(self):
        self.start("shares", "sleep 1h", memory="2GiB", share=True, gpus=["0"])
        self.start("free", "sleep 1h", gpus=["0"])
        self.start_plain("asked", "sleep 1h")
        self.held("asked")  # by now the others would be set as well
        self.assertEqual(len(self.limits()), 1)
        for tag in ("shares", "free"):
            self.assertIsNone(self.job(tag)["memory"]["held_by_driver"], tag)

    def test_the_daemon_restarts_and_nothing_is_set_twice(self):
        self.start_waiting("stays", "3GiB")
        self.held("stays")
        before = self.limits()
        self.m.stop_daemon(signal.SIGKILL)
        self.assertEqual(self.limits(), before)
        self.m.start_daemon()
        self.held("stays")
        self.assertEqual(self.limits(), before)
        self.assertEqual([limit["times"] for limit in before.values()], [1])
        self.release()
        self.wait("stays")
        self.assertEqual(self.log("stays").splitlines()[-1], "refused")
        until("no limit is left", lambda: not self.limits(), self.what_stands)

    def test_a_refusal_is_told_once(self):
        self.inject("refuse", "--function", "nvmlDeviceSetMemoryLimits_v1", "--for-good")
        try:
            job = self.start_plain("refused", "sleep 1h", gpus=[])
            until("it is told", lambda: "driver_limit_failed" in self.kinds(job), self.what_stands)
            self.request("PATCH", "/v1/jobs/refused", {"memory": "3GiB"})
        finally:
            self.inject("clear")
        self.assertIs(self.job("refused")["memory"]["held_by_driver"], False)
        self.assertEqual(self.limits(), {})
        self.request("PATCH", "/v1/jobs/refused", {"memory": "1GiB"})
        self.held("refused")
        self.assertEqual(self.kinds(job).count("driver_limit_failed"), 1)

    def test_it_can_be_turned_off(self):
        self.start_plain("off", "sleep 1h")
        self.held("off")
        file = pathlib.Path(self.m.dir, "gpumand.toml")
        before = file.read_text()
        file.write_text(before + '\n[limits]\ndriver = "off"\n')
        self.addCleanup(self.reconfigure, file, before)
        self.m.daemon.send_signal(signal.SIGHUP)
        until("no limit is left", lambda: not self.limits(), self.what_stands)
        self.assertIsNone(self.job("off")["memory"]["held_by_driver"])

    def reconfigure(self, file, text):
        file.write_text(text)
        self.m.daemon.send_signal(signal.SIGHUP)


@unittest.skipUnless(os.geteuid() == 0 and unified_tree(), "needs root and a tree of cgroup v2 where cgroups can be made")
class OldDriverTest(LimitsCase):
    driver = "580.159.04"

    def test_nothing_is_asked_and_the_guard_ends_the_job(self):
        job = self.start_plain("plain", self.load("3GiB", "--hold", "1h"))
        self.assertEqual(self.wait("plain")["reason"], "memory_limit", self.log("plain"))
        self.assertIsNone(self.job("plain")["memory"]["held_by_driver"])
        self.assertEqual(self.limits(), {})
        self.assertNotIn("driver_limit_failed", self.kinds(job))


if __name__ == "__main__":
    unittest.main(verbosity=2)

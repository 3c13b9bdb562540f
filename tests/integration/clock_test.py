#!/usr/bin/env python3
"""The wall clock is set back and forth under a running daemon (tests/integration/shifted_clock.cc).

The keeper is linked statically and always has the true clock: its times lie before the times of a daemon whose clock
was ahead, as after a clock was set back.

Usage: clock_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree; skipped with 77 in sanitizer builds)
"""

import pathlib
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from daemon_case import DaemonTest, until  # noqa: E402
from wall_clock import LIBRARY, SetsWallClock  # noqa: E402

SKIPPED = 77
DAY = 86400


class ClockTest(SetsWallClock, DaemonTest):
    sets_the_machines = False  # the keeper's clock must stay true
    config = "[restart]\ninitial_delay = \"50ms\"\nmax_restarts = 2\n"

    def setUp(self):
        self.set_clock(0)

    def held(self, tag, **more):
        """Starts a job that runs until go(tag) and then ends with status 3."""
        self.start(tag, f"echo run; until [ -e {self.m.dir}/{tag}.go ]; do sleep 0.01; done; exit 3", **more)
        self.becomes(tag, "running")

    def go(self, tag):
        (self.m.dir / f"{tag}.go").touch()

    def test_jobs_and_events_go_on_in_order_when_the_clock_is_set_back(self):
        self.set_clock(DAY)
        self.held("across", restart="on-failure")
        self.set_clock(0)
        self.go("across")
        ended = self.wait("across")
        self.assertEqual((ended["state"], ended["exit_code"], ended["restarts"]), ("failed", 3, 2))
        self.assertEqual(self.log("across").count("run\n"), 3)
        self.assertLess(ended["ended_at"], ended["submitted_at"], "the clock was not set back")

        later = self.job(self.start("later", "exit 4"))
        self.assertGreater(later["id"], ended["id"])
        self.assertLess(later["submitted_at"], ended["submitted_at"])
        self.assertEqual(self.wait("later")["exit_code"], 4)
        events = self.events()
        self.assertEqual([e["id"] for e in events], sorted({e["id"] for e in events}))
        self.assertEqual([e["kind"] for e in events if e["tag"] == "later"], ["job_started", "job_failed"])
        self.assertEqual(self.request("GET", f"/v1/events?since={events[-1]['id']}").json()["events"], [])

        self.m.stop_daemon(signal.SIGKILL)
        self.m.start_daemon()
        self.assertEqual([(self.job(tag)["state"], self.job(tag)["exit_code"]) for tag in ("across", "later")],
                         [("failed", 3), ("failed", 4)])
        self.assertEqual([e["id"] for e in self.events()][:len(events)], [e["id"] for e in events])

    def test_a_running_job_is_found_again_by_a_daemon_that_starts_in_the_past(self):
        self.held("found")
        pid = self.job("found")["pid"]
        self.m.stop_daemon(signal.SIGKILL)
        self.set_clock(-365 * DAY)
        self.m.start_daemon()
        until("it is found", lambda: self.job("found")["pid"] == pid)
        self.go("found")
        self.assertEqual(self.wait("found")["exit_code"], 3)

    def test_a_retry_waits_its_delay_though_the_clock_was_set_back(self):
        self.set_clock(-10 * DAY)
        count = f"echo x >> {self.m.dir}/runs; [ $(wc -l < {self.m.dir}/runs) -ge 2 ]"
        job = {"command": ["/bin/sh", "-c", count], "gpus": {"count": 0}, "retries": {"count": 1, "delay_s": 0.2}}
        answer = self.request("POST", "/v1/submissions", {"jobs": [job], "directory": "/", "environment": {"PATH": "/usr/bin:/bin"}})
        self.assertEqual(answer.status, 201, answer.body)
        ended = self.wait(answer.json()["jobs"][0]["id"])
        self.assertEqual((ended["state"], ended["queue"]["attempts"]), ("finished", 2))

    def test_limits_hold_while_the_clock_jumps(self):
        self.start("grow", self.load("2GiB", "--step", "64MiB", "--interval", "5ms", "--hold", "1h"), memory="512MiB",
                   preload=False)
        for shift in (-DAY, DAY, -10 * DAY, 0):
            self.set_clock(shift)
        self.assertEqual(self.wait("grow")["reason"], "memory_limit")

    def test_history_goes_on_at_the_time_to_which_the_clock_is_set(self):
        def known(query):
            history = self.request("GET", "/v1/history?gpu=0&points=2000&" + query).json()
            return sum(history["recorded"]) * history["step"]
        for shift in (DAY, 0, -DAY):
            self.set_clock(shift)
            until(f"it is recorded at {shift} s", lambda: known("since=10s") >= 2)
        self.set_clock(DAY)
        self.assertGreaterEqual(known("since=3d"), 6)
        self.m.stop_daemon()
        self.set_clock(0)
        self.m.start_daemon()
        # The seconds of the time before are among those of this hour.
        first = until("it answers", lambda: self.request("GET", "/v1/history?gpu=0").status == 200 and known("since=1h"))
        until("it goes on", lambda: known("since=1h") >= first + 2)
        self.set_clock(DAY)
        self.assertGreaterEqual(known("since=3d"), 7)


if __name__ == "__main__":
    if not LIBRARY.exists():
        print(f"{LIBRARY} is not built")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)

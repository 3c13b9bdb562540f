#!/usr/bin/env python3
"""The wall clock of the daemon is set hours forth and back while users wait for answers (tests/integration/
shifted_clock.cc; with GPUMAN_TEST_MAY_SET_CLOCK the clock of the machine).

Usage: clock_test.py [UNITTEST ARGUMENTS]    (as root; GPUMAN_BUILD_DIR names the build tree)
"""

import contextlib
import itertools
import os
import pathlib
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from hostile_case import ATTACKER, NEIGHBOUR, HostileTest, main, until  # noqa: E402
from wall_clock import SetsWallClock  # noqa: E402

HOUR = 3600
SETS = 60  # while the neighbour asks

# The present time: where this is not refused, it does no harm.
SET = """
import errno, time
try:
    time.clock_settime(time.CLOCK_REALTIME, time.time())
    print("set", flush=True)
except OSError as error:
    print(errno.errorcode[error.errno], flush=True)
"""


class ClockTest(SetsWallClock, HostileTest):
    @contextlib.contextmanager
    def set_all_the_time(self):
        """Yields a function that says how often the clock was set."""
        ended, sets = threading.Event(), []

        def go_on():
            for hours in itertools.cycle((5, 0, -5, 2, -3)):
                if ended.wait(0.01):
                    return
                self.set_clock(hours * HOUR)
                sets.append(hours)
        thread = threading.Thread(target=go_on)
        thread.start()
        try:
            yield lambda: len(sets)
        finally:
            ended.set()
            thread.join()
            self.set_clock(0)

    def submitted(self, script, time_limit_s):
        answered = self.as_user(NEIGHBOUR, "POST", "/v1/submissions", {
            "jobs": [{"command": ["/bin/sh", "-c", script], "gpus": {"count": 0}, "time_limit_s": time_limit_s}],
            "directory": "/", "environment": {"PATH": os.environ["PATH"]}})
        self.assertEqual(answered.status, 201, answered)
        return answered.json()["jobs"][0]["id"]

    def test_a_clock_that_is_set_by_hours_ends_no_job_and_lifts_no_limit(self):
        process = self.python_as(ATTACKER, SET)
        self.assertEqual(process.stdout.readline(), "EPERM\n")
        go = self.scratch(NEIGHBOUR) / "go"
        hour = self.submitted("exec sleep 1000", HOUR)
        self.becomes(hour, "running")
        steady = self.start_as(NEIGHBOUR, "steady", "exec " + self.load("256MiB", "--hold", "1h"), memory="512MiB")
        grows = self.start_as(ATTACKER, "grows", f"until [ -e {go} ]; do sleep 0.01; done; exec "
                              + self.load("2GiB", "--step", "64MiB", "--interval", "5ms", "--hold", "1h"),
                              memory="512MiB", preload=False)
        until("it has its memory", lambda: self.job(steady)["memory"]["used"] >= 256 << 20)
        os.chmod(go.parent, 0o755)
        with contextlib.ExitStack() as stack:
            with self.beside("the clock is set hours forth and back") as attack:
                sets = stack.enter_context(self.set_all_the_time())
                attack.over = lambda: sets() >= SETS
            go.touch()
            self.assertEqual(self.wait(grows)["reason"], "memory_limit")
            short = self.submitted("exec sleep 1000", 0.3)
            self.assertEqual(self.wait(short)["state"], "timeout")
            self.assertEqual(self.wait(self.start_as(NEIGHBOUR, "later", "exit 3"))["exit_code"], 3)
        for job in (hour, steady):
            self.assertEqual(self.job(job)["state"], "running")
        events = self.events()
        self.assertEqual([event["id"] for event in events], sorted({event["id"] for event in events}))


if __name__ == "__main__":
    main()

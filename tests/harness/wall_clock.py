"""The wall clock of a test's daemon: tests/integration/shifted_clock.cc shifts it, or it is the machine's own."""

import os
import time
import unittest

from machine import build_dir

MAY_SET = "GPUMAN_TEST_MAY_SET_CLOCK" in os.environ
LIBRARY = build_dir() / "tests" / "shifted_clock.so"


class SetsWallClock:
    """For a DaemonTest, named before it. With the library keepers have the true clock."""

    sets_the_machines = MAY_SET

    @classmethod
    def prepare(cls):
        cls.began = time.time() - time.monotonic()
        if cls.sets_the_machines:
            return cls.addClassCleanup(cls.set_clock, 0)
        if not LIBRARY.exists():
            raise unittest.SkipTest(f"{LIBRARY} is not built")
        cls.file = cls.m.dir / "shift"
        cls.set_clock(0)
        cls.m.env.update(SHIFTED_CLOCK=str(cls.file), LD_PRELOAD=str(LIBRARY))

    @classmethod
    def set_clock(cls, seconds):
        """So many seconds before (negative) or behind the true time."""
        if cls.sets_the_machines:
            return time.clock_settime(time.CLOCK_REALTIME, cls.began + time.monotonic() + seconds)
        new = cls.file.with_suffix(".new")
        new.write_text(str(seconds))
        new.rename(cls.file)

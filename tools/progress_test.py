#!/usr/bin/env python3
"""How far a build is, as tools/dev/progress.sh reads it from logs of ninja, and that builds say it while they go on."""

import contextlib
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

DEV = pathlib.Path(__file__).resolve().parent / "dev"
SCRIPT = DEV / "progress.sh"
PATIENCE = 60  # seconds

# In place of cmake: a build that has made 3 of 12 steps when it waits for a word of the test.
CMAKE = """#!/bin/sh
[ "$1" = --build ] || exec mkdir -p build/package
echo '[3/12] Building CXX object x.o'
read -r _ <go
echo '[12/12] Linking'
"""


class ProgressTest(unittest.TestCase):
    def progress(self, log, seconds):
        with tempfile.NamedTemporaryFile() as file:
            file.write(log)
            file.flush()
            return subprocess.run(["bash", "-c", 'set -euo pipefail; . "$1"; progress_of "$2" "$3"', "bash", SCRIPT,
                                   file.name, str(seconds)], check=True, text=True, stdout=subprocess.PIPE).stdout

    def test_the_last_step_tells_how_long_the_rest_takes(self):
        log = b"[1/600] Building CXX object a.o\n[120/600] Building CXX object b.o\n"
        self.assertEqual(self.progress(log, 60), "120 of 600 steps, about 4 minutes left\n")
        self.assertEqual(self.progress(log, 15), "120 of 600 steps, about 1 minute left\n")
        self.assertEqual(self.progress(log, 10), "120 of 600 steps, less than a minute left\n")

    def test_a_line_that_only_looks_like_a_step_is_passed_over(self):
        log = b"[3/4] Linking\nnote: [4/4] is not at the beginning\n[9/\n\xff\xfe[1/1]\n"
        self.assertEqual(self.progress(log, 120), "3 of 4 steps, less than a minute left\n")

    def test_before_the_first_step_nothing_is_said(self):
        for log in b"", b"ninja: Entering directory\n", b"[0/600] Re-checking globbed directories...\n":
            self.assertEqual(self.progress(log, 30), "", log)

    def test_a_log_that_is_not_there_says_nothing(self):
        done = subprocess.run(["bash", "-c", 'set -euo pipefail; . "$1"; progress_of /nowhere/log 1', "bash", SCRIPT],
                              check=True, stdout=subprocess.PIPE)
        self.assertEqual(done.stdout, b"")


class BuildTest(unittest.TestCase):
    """What scripts of tools/dev print on a terminal while they build."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name)
        shutil.copytree(DEV, self.tree / "tools/dev")
        (self.tree / "packages.txt").touch()
        self.program("cmake", CMAKE)
        os.mkfifo(self.tree / "go")

    def program(self, name, text):
        path = self.tree / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def until_said(self, terminal, pattern):
        """Reads from the terminal until the pattern is there, or, without one, until nobody writes any more."""
        said, ends = "", time.monotonic() + PATIENCE
        while not (pattern and re.search(pattern, said)):
            ready, _, _ = select.select([terminal], [], [], max(0, ends - time.monotonic()))
            self.assertTrue(ready, "%s is not in %r" % (pattern or "the end", said))
            try:
                piece = os.read(terminal, 4096)
            except OSError:  # as a terminal says that its other end is closed
                piece = b""
            if not piece:
                self.assertIsNone(pattern, said)
                break
            said += piece.decode()
        return said

    def build(self, script, *arguments, name):
        """Runs the script on a terminal; returns its exit status and what it said after the line of how far it is."""
        mine, its = pty.openpty()
        self.addCleanup(os.close, mine)
        path = "%s:%s" % (self.tree / "bin", os.environ["PATH"])
        process = subprocess.Popen(["bash", script, *arguments], cwd=self.tree, env=dict(os.environ, PATH=path),
                                   stdin=subprocess.DEVNULL, stdout=its, stderr=subprocess.STDOUT, start_new_session=True)
        self.addCleanup(self.end, process)
        os.close(its)
        self.until_said(mine, r"\r%s: 3 of 12 steps, less than a minute left" % name)
        (self.tree / "go").write_text("go on\n")
        said = self.until_said(mine, None)
        return process.wait(), said

    @staticmethod
    def end(process):
        """Also what it has started, where the test has failed."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def test_a_build_says_how_far_it_is_until_it_ends(self):
        (self.tree / "CMakePresets.json").write_text('{"name": "release", "inherits": "base"}')
        status, said = self.build("tools/dev/build.sh", "release", name="release")
        self.assertEqual(status, 0)
        self.assertRegex(said, r"\r\x1b\[Kbuilt release in \d+ s")

    def test_that_of_packages_says_it_too(self):
        self.program("cpack", "#!/bin/sh\nexit 1\n")
        status, said = self.build("tools/dev/package.sh", name="package")
        self.assertEqual(status, 1)
        self.assertIn("built package in", said)
        self.assertIn("cpack failed", said)


if __name__ == "__main__":
    if not pathlib.Path("/bin/bash").exists():
        sys.exit(77)
    unittest.main()

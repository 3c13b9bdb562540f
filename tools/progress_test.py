#!/usr/bin/env python3
"""How far a build is, as tools/dev/progress.sh reads it from logs of ninja."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent / "dev" / "progress.sh"


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


if __name__ == "__main__":
    if not pathlib.Path("/bin/bash").exists():
        sys.exit(77)
    unittest.main()

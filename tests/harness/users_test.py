#!/usr/bin/env python3
"""What tests read from the processes of their users."""

import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from users import read_line  # noqa: E402


class ReadLine(unittest.TestCase):
    def said(self, command):
        process = subprocess.Popen(["sh", "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        return process

    def test_lines_that_come_at_once_are_returned_one_after_another(self):
        process = self.said("printf 'one\\ntwo\\nthree'; read go")
        self.assertEqual(read_line(process), "one")
        self.assertEqual(read_line(process, 0), "two")
        with self.assertRaises(AssertionError):
            read_line(process, 0)
        process.stdin.close()
        process.stdin = None
        self.assertEqual(read_line(process), "three", "its end ends the line")
        self.assertEqual(read_line(process), "")


if __name__ == "__main__":
    unittest.main()

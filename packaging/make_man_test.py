#!/usr/bin/env python3
"""packaging/make_man.py: a man page has a section for each command that a program's help lists."""

import gzip
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import make_man  # noqa: E402

GROUPED = """Runs programs.
Usage: tool [OPTIONS] [SUBCOMMAND]

Options:
  -h,--help                 Print this help and exit

Options of every command:
  --json                    Print JSON
  words                     No command, as it is below options

Run jobs at once:
  run                       Start a job now, with a description that goes
                            on in the next line
  logs                      Print the output of a job

Share and split GPUs:
  mig                       Split GPUs
  name-that-fills-the-column
                            Has its description in the next line

Examples:
  tool run --tag train      how it is used

tool COMMAND --help shows the options of a command.

Exit status: 0 success, 1 failure,
2 wrong usage.
"""

PROGRAM = """#!/bin/sh
case $1 in
  run) printf 'Help of run: it\\047s \\140-x\\140\\n.begins with a dot\\n' ;;
  exec) echo 'Help of exec' ;;
  *) cat "$0.help" ;;
esac
"""


class SubcommandsTest(unittest.TestCase):
    def test_the_commands_of_each_group_are_found_and_nothing_else(self):
        self.assertEqual(make_man.subcommands(GROUPED), ["run", "logs", "mig", "name-that-fills-the-column"])

    def test_one_group_without_a_name_of_its_own_is_enough(self):
        self.assertEqual(make_man.subcommands("Subcommands:\n  exec    Runs a command\n\nExample:\n  tool exec\n"), ["exec"])

    def test_a_help_without_commands_has_none(self):
        self.assertEqual(make_man.subcommands("Usage: tool\n\nPositionals:\n  file   A file\n\nOptions:\n  -h\n"), [])


class PageTest(unittest.TestCase):
    def make(self, text, *arguments):
        """The page, or None where none was made, and what was said."""
        with tempfile.TemporaryDirectory() as folder:
            program, page = pathlib.Path(folder, "tool"), pathlib.Path(folder, "tool.1.gz")
            program.write_text(PROGRAM)
            program.chmod(0o755)
            pathlib.Path(folder, "tool.help").write_text(text)
            done = subprocess.run([sys.executable, "-B", make_man.__file__, program, "1", "1.0", "does things", page, *arguments],
                                  stderr=subprocess.PIPE, text=True)
            self.assertEqual(done.returncode == 0, page.exists(), done.stderr)
            return gzip.decompress(page.read_bytes()).decode() if page.exists() else None, done.stderr

    def test_each_command_has_a_section_with_its_help(self):
        page, _ = self.make("Run:\n  run    Start a job\n\nLook:\n  exec   Run it\n", "--subcommands")
        self.assertIn(".SH TOOL RUN\n", page)
        self.assertIn("Help of run: it\\(aqs \\(ga\\-x\\(ga\n\\&.begins with a dot\n", page)
        self.assertIn(".SH TOOL EXEC\n.nf\nHelp of exec\n", page)

    def test_no_page_is_made_where_commands_were_promised_and_none_are_found(self):
        page, said = self.make("Options:\n  -h   Help\n", "--subcommands")
        self.assertIsNone(page)
        self.assertIn("the help of tool lists no commands", said)

    def test_without_the_option_the_help_alone_is_the_page(self):
        page, _ = self.make("Options:\n  -h   Help\n")
        self.assertIn("\n  \\-h   Help\n", page)


class ProgramsTest(unittest.TestCase):
    """The help texts as they are, where the programs were built."""

    def commands(self, name):
        program = pathlib.Path(os.environ.get("GPUMAN_BUILD_DIR", "."), "bin", name)
        if not program.exists():
            self.skipTest("no %s in this build" % name)
        return make_man.subcommands(make_man.help_of(program))

    def test_help_of_gpuman_lists_each_command_once(self):
        commands = self.commands("gpuman")
        for name in "run", "logs", "submit", "queue", "status", "doctor", "share", "mig", "device", "completion":
            self.assertIn(name, commands)
        self.assertNotIn("gpuman", commands)
        self.assertEqual(len(commands), len(set(commands)))

    def test_help_of_gpuman_sim_lists_its_commands(self):
        self.assertEqual(self.commands("gpuman-sim"), ["exec", "inject", "show"])


if __name__ == "__main__":
    unittest.main()

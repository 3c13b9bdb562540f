#!/usr/bin/env python3
"""The guard as the second line: programs without libgpuman.so start as usual, are named, and end at their limit.

Usage: second_line_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)

A static program or a program with another libc cannot load the simulated driver. So the program starts a dynamic
program without LD_PRELOAD, which takes the memory: for the daemon it is a process of the job that never registered, as
theirs would be.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from daemon_case import NOBODY, DaemonTest, until  # noqa: E402
from machine import build_dir  # noqa: E402

# Starts its arguments without LD_PRELOAD and returns their exit status; first prints its user.
LAUNCHER = r"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char** words) {
  int status = 0;
  printf("user %d\n", (int)geteuid());
  fflush(stdout);
  if (count < 2) return 0;
  unsetenv("LD_PRELOAD");
  if (fork() == 0) {
    if (setreuid(geteuid(), geteuid()) != 0) _exit(126);  // as sudo does; the linker distrusts both otherwise
    execvp(words[1], words + 1);
    _exit(127);
  }
  wait(&status);
  return WEXITSTATUS(status);
}
"""


class SecondLineTest(DaemonTest):
    memory = "4GiB"
    config = '[sampling]\nrest = "20ms"\n'

    @classmethod
    def prepare(cls):
        cls.programs = tempfile.mkdtemp(prefix="gpuman-second-")
        cls.addClassCleanup(shutil.rmtree, cls.programs)
        os.chmod(cls.programs, 0o755)

    def compiled(self, name, compiler, *options):
        program = pathlib.Path(self.programs, name)
        if shutil.which(compiler) is None:
            self.skipTest(f"no {compiler}")
        done = subprocess.run([compiler, *options, "-x", "c", "-o", program, "-"], input=LAUNCHER, text=True,
                              capture_output=True, check=False)
        if done.returncode != 0:
            self.skipTest(f"{compiler} {' '.join(options)} does not work here: {done.stderr.splitlines()[-1:]}")
        return program

    def named(self, tag, script):
        """Within its limit: the daemon names the process, leaves it alone, and subtracts its memory from the limit."""
        self.start(tag, script, memory="2GiB")
        named = until("it is named or over", lambda: (job := self.job(tag))["unshimmed"] or job["ended_at"])
        self.assertIsInstance(named, list, self.log(tag))
        self.assertEqual(pathlib.Path(f"/proc/{named[0]}/comm").read_text().strip(), "gpuman-load")
        self.assertEqual(self.job(tag)["state"], "running")
        self.request("DELETE", f"/v1/jobs/{tag}")

    def ended(self, tag, script):
        """Beyond its limit: the guard ends the job."""
        job = self.start(tag, script, memory="512MiB")
        self.assertEqual(self.wait(tag)["reason"], "memory_limit", self.log(tag))
        self.assertIn("hard_limit", [event["kind"] for event in self.events() if event["job"] == job])

    def both(self, tag, launcher):
        self.named(tag, f"{launcher} {self.load('256MiB', '--hold', '1h')}")
        self.ended(tag + "-greedy", f"{launcher} {self.load('1GiB', '--step', '64MiB', '--hold', '1h')}")

    def starts(self, tag, program):
        self.start(tag, str(program), memory="512MiB")
        self.assertEqual(self.wait(tag)["exit_code"], 0, self.log(tag))
        self.assertRegex(self.log(tag), r"^user \d+\n$")

    def test_program_without_preload_is_ended_at_its_limit(self):
        self.both("dropped", "env -u LD_PRELOAD")

    def test_static_program_is_ended_at_its_limit(self):
        program = self.compiled("static", "gcc", "-static")
        self.starts("static-alone", program)
        self.both("static", program)

    def test_musl_program_is_ended_at_its_limit(self):
        program = self.compiled("musl", "musl-gcc")
        self.starts("musl-alone", program)
        self.both("musl", program)

    def test_setuid_program_is_ended_at_its_limit(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        program = self.compiled("setuid", "gcc")
        os.chmod(program, 0o4755)
        drop = f"setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups"
        self.starts("setuid-alone", f"{drop} {program}")
        # The linker removes LD_LIBRARY_PATH for such a program, which needs it to find the simulated driver.
        self.both("setuid", f"{drop} {program} env LD_LIBRARY_PATH={self.m.env['LD_LIBRARY_PATH']}")

    def test_library_with_deep_binding_is_ended_at_its_limit(self):
        tests = build_dir() / "tests"
        self.ended("deep", f"tail -f /dev/null | {tests}/odd_program deep {tests}/deep_library.so")


if __name__ == "__main__":
    if not (build_dir() / "lib/libgpuman.so").exists():
        print("libgpuman.so is not built")
        sys.exit(77)
    unittest.main(verbosity=2)

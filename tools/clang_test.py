#!/usr/bin/env python3
"""When .ci/run has clang look at the tree, and for how long: .ci/run and tools/dev/clang.sh, beside commands that only
say that they were called."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

TREE = pathlib.Path(__file__).resolve().parent.parent
COMMON = """say() { printf '%s\\n' "$*"; }
die() { printf '%s\\n' "$*" >&2; exit 1; }
need() { say "need $*"; }
missing_of() { printf '%s' "${ABSENT:-}"; }
# In place of the program: whatever is run takes an hour, and is left off where LEFT_OFF names it.
timeout() {
  local rc=0
  shift 2
  "$@" || rc=$?
  SECONDS=$((SECONDS + 3600))
  if [ -n "${LEFT_OFF:-}" ] && [[ "$*" = *$LEFT_OFF* ]]; then return "${LEFT_OFF_WITH:-124}"; fi
  return $rc
}
"""
STEP = """echo "$(basename "$0") $*"
eval "${DOES:-}"
exit "${FAILS:-0}"
"""


class ClangTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name)
        for name in ".ci/run", "tools/dev/clang.sh":
            (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(TREE / name, self.tree / name)
        self.script("dev", '#!/bin/sh\necho "CI=$CI dev $*"\n')
        self.script("bin/clang++", "#!/bin/sh\n")
        self.script("tools/dev/common.sh", COMMON)
        for step in "build.sh", "fuzz.sh":
            self.script("tools/dev/" + step, STEP)

    def script(self, name, text):
        path = self.tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def call(self, *command, **variables):
        path = "%s:%s" % (self.tree / "bin", os.environ["PATH"])
        environment = {key: value for key, value in os.environ.items() if key != "GPUMAN_CLANG_MINUTES"}
        done = subprocess.run(["bash", *command], cwd=self.tree, env=dict(environment, PATH=path, **variables), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, done.stdout

    def test_the_check_of_a_submission_has_clang_where_it_is(self):
        self.assertEqual(self.call(".ci/run"), (0, "CI=true dev test --kubernetes-if-built --clang-if-there\n"))
        self.assertEqual(self.call(".ci/run", "--release"), (0, "CI=true dev test --release\n"))

    def test_the_documents_say_the_limit_that_holds(self):
        minutes = re.search(r"GPUMAN_CLANG_MINUTES:-(\d+)", (TREE / "tools/dev/clang.sh").read_text()).group(1)
        contributing = " ".join((TREE / "CONTRIBUTING.md").read_text().split())
        self.assertIn("for at most %s minutes (`GPUMAN_CLANG_MINUTES`" % minutes, contributing)
        for name in ".ci/run", "tools/dev/clang.sh":
            self.assertIn("GPUMAN_CLANG_MINUTES (%s)" % minutes, (TREE / name).read_text())

    def test_everything_is_built_and_then_fuzzed(self):
        rc, said = self.call("tools/dev/clang.sh", "7")
        self.assertEqual(rc, 0)
        self.assertRegex(said, r"build\.sh ninja-clang\nfuzz\.sh 7\nclang: everything built, each parser fuzzed for 7 s")

    def test_where_it_is_not_installed_nothing_is_done_and_a_line_says_so(self):
        rc, said = self.call("tools/dev/clang.sh", "--if-there", ABSENT="clang")
        self.assertEqual((rc, said), (0, "clang: not run, these packages are missing: clang; ./dev clang installs them\n"))

    def test_the_limit_ends_it_and_a_line_says_so(self):
        rc, said = self.call("tools/dev/clang.sh", "--if-there", GPUMAN_CLANG_MINUTES="0")
        self.assertEqual(rc, 0)
        self.assertIn("clang: not whole after 0 minutes, at build.sh", said)
        self.assertNotIn("build.sh ninja-clang", said)

    def test_asked_for_by_itself_it_has_no_limit(self):
        rc, said = self.call("tools/dev/clang.sh", GPUMAN_CLANG_MINUTES="0")
        self.assertEqual(rc, 0)
        self.assertIn("clang: everything built", said)

    def test_what_clang_finds_is_a_failure(self):
        for arguments in [], ["--if-there"]:
            rc, said = self.call("tools/dev/clang.sh", *arguments, FAILS="3")
            self.assertEqual(rc, 3, said)
            self.assertNotIn("everything built", said)

    def test_a_failure_that_comes_when_the_time_is_over_is_none_the_less_one(self):
        rc, said = self.call("tools/dev/clang.sh", "--if-there", FAILS="3", GPUMAN_CLANG_MINUTES="60")
        self.assertEqual(rc, 3, said)
        self.assertNotIn("not whole", said)

    def left_off(self, step, does):
        """What it says where that step is left off by the limit, having done this."""
        return self.call("tools/dev/clang.sh", "--if-there", LEFT_OFF=step, GPUMAN_CLANG_MINUTES="90" if step == "fuzz.sh" else "60",
                         DOES="case $0 in *%s) %s ;; esac" % (step, does))

    def test_where_nothing_had_failed_by_then_it_is_not_whole(self):
        log = self.tree / "build/log/build-ninja-clang.log"
        log.parent.mkdir(parents=True)
        for step in "build.sh", "fuzz.sh":
            log.write_text("FAILED: of a run before\n")
            rc, said = self.left_off(step, "true")
            self.assertEqual(rc, 0, said)
            self.assertIn("not whole after", said)
            self.assertIn("at %s;" % step, said)

    def test_a_build_that_had_failed_by_then_is_a_failure(self):
        for step, log in ("build.sh", "build-ninja-clang"), ("fuzz.sh", "build-fuzz"):
            rc, said = self.left_off(step, "printf '[1/2] x\\nFAILED: x.o\\n' >build/log/%s.log" % log)
            self.assertEqual(rc, 1, said)
            self.assertIn("build/log/%s.log" % log, said)

    def test_an_input_that_was_found_by_then_is_a_failure_and_is_named(self):
        findings = self.tree / "build/fuzz/findings"
        findings.mkdir(parents=True)
        old = findings / "units_fuzz-crash-0"
        old.touch()
        os.utime(old, (0, 0))
        rc, said = self.left_off("fuzz.sh", "touch build/fuzz/findings/units_fuzz-crash-1 build/fuzz/findings/table.txt")
        self.assertEqual(rc, 1, said)
        self.assertIn("found when the time was over: build/fuzz/findings/units_fuzz-crash-1\n", said)


if __name__ == "__main__":
    unittest.main()

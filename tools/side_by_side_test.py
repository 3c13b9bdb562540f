#!/usr/bin/env python3
"""fuzz_all.py, tidy_all.py and repeat_tests.py, with small scripts for the programs that they run."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

TOOLS = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(TOOLS))
import side_by_side  # noqa: E402

# As libFuzzer: it dies of the input "bad" where it is not in its corpus yet, and says what it has reached.
TARGET = """#!/bin/sh
for last; do :; done
case $0 in *dies) [ -e "{mark}" ] || { : >"{mark}"; echo "#7 NEW cov: 3 ft: 4 corp: 1/1b"; exit 77; } ;; esac
echo "#12 DONE cov: 5 ft: 9 corp: 2/3b"
echo "stat::number_of_executed_units: 12"
ls "$last" >&2
"""
TIDY = """#!/bin/sh
for last; do :; done
echo "$last" >>{said}
case $last in *clean*) exit 0 ;; *broken*) echo "cannot be read" >&2; exit 2 ;; esac
echo "/tree/shared.h:1:2: error: one thing [check]"
echo "  the line"
echo "$last:3:4: error: another [check]"
exit 1
"""

FUZZ = ["--programs", "programs", "--seeds", "seeds", "--corpus", "corpus", "--out", "out", "--seconds", "1000"]


class SideBySideTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def script(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    def call(self, tool, *arguments, **more):
        done = subprocess.run([sys.executable, "-B", TOOLS / tool, *map(str, arguments)], cwd=self.folder, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)
        return done.returncode, done.stdout

    @unittest.skipUnless(os.path.exists("/proc/self/autogroup"), "this Linux does not share processors out by sessions")
    def test_a_command_gets_a_processor_after_all_other_sessions(self):
        waits = "until grep -q 'nice 19' /proc/self/autogroup; do sleep 0.01; done"
        self.assertEqual(side_by_side.run(["sh", "-c", waits], limit=60).status, 0)

    def fuzz(self, *more):
        return self.call("fuzz_all.py", *FUZZ, *more)

    def test_a_target_that_dies_is_told_of_and_goes_on(self):
        for name in "lives", "dies":
            self.script("programs/" + name, TARGET.replace("{mark}", str(self.folder / "mark")))
        (self.folder / "seeds" / "lives").mkdir(parents=True)
        (self.folder / "seeds" / "lives" / "one").write_text("1")
        status, said = self.fuzz("--processes", "2", "lives")
        self.assertEqual(status, 0, said)
        self.assertRegex(said, r"(?m)^lives +24 +\d+ +\d+ +\d+ +0 +5 +9 +2$")
        self.assertIn("one", (self.folder / "out/logs/lives.0.0.log").read_text())
        status, said = self.fuzz()
        self.assertEqual(status, 1, said)
        self.assertRegex(said, r"(?m)^dies +19 +\d+ +\d+ +\d+ +1 +5 +9 +2$")
        self.assertEqual(said, (self.folder / "out/table.txt").read_text())
        self.assertIn("no fuzz target unknown", self.fuzz("unknown")[1])

    def test_a_target_that_has_had_its_time_of_a_processor_is_left_out(self):
        for name in "one", "other":
            self.script("programs/" + name, "#!/bin/sh\ni=0; while [ $i -lt 60000 ]; do i=$((i+1)); done\necho 'cov: 1'\n")
        self.assertEqual(self.fuzz("one")[0], 0)
        times = self.folder / "corpus/processor_seconds.json"
        first = json.loads(times.read_text())
        self.assertEqual(list(first), ["one"])
        self.assertGreater(first["one"], 0)
        self.fuzz("one", "--in-all", "1000")
        self.assertGreater(json.loads(times.read_text())["one"], first["one"], "it had less than that")
        times.write_text('{"one": 1000}')
        status, said = self.fuzz("--in-all", "1000")
        self.assertEqual((status, "one" in said, "other" in said), (0, False, True), said)

    def test_what_targets_had_is_kept_where_the_rest_is_stopped(self):
        self.script("programs/one", "#!/bin/sh\necho 'cov: 1'\n")
        self.script("programs/other", "#!/bin/sh\nuntil [ -e stop ]; do sleep 0.01; done\n")
        self.addCleanup((self.folder / "stop").touch)
        running = subprocess.Popen([sys.executable, "-B", TOOLS / "fuzz_all.py", *FUZZ, "--jobs", "2"], cwd=self.folder,
                                   stdout=subprocess.DEVNULL)
        times = self.folder / "corpus/processor_seconds.json"
        while not times.exists() or "one" not in times.read_text():
            self.assertIsNone(running.poll())
            time.sleep(0.01)
        running.kill()
        running.wait()
        self.assertEqual(list(json.loads(times.read_text())), ["one"])

    def tidy(self, sources, *more):
        tidy = self.script("tidy", TIDY.replace("{said}", str(self.folder / "said")))
        for name in sources:
            (self.folder / name).write_text("")
        return self.call("tidy_all.py", "--database", ".", "--tidy", tidy, *more, input="\n".join(sources) + "\n")

    def test_a_finding_in_a_header_is_told_once(self):
        status, said = self.tidy(["a.cc", "b.cc", "clean.cc"])
        self.assertEqual((status, said.count("one thing"), said.count("another")), (1, 1, 2), said)
        self.assertIn("  the line", said)
        self.assertIn("3 of 3 sources, 3 findings, 2 sources with any", said)
        status, said = self.tidy(["clean.cc"])
        self.assertEqual(status, 0, said)

    def test_a_source_that_cannot_be_looked_at_is_no_clean_one(self):
        status, said = self.tidy(["broken.cc", "clean.cc"])
        self.assertEqual(status, 1, said)
        self.assertIn("broken.cc: not looked at\ncannot be read", said)

    def test_what_was_looked_at_is_not_looked_at_again_but_counts(self):
        self.assertEqual(self.tidy(["a.cc", "clean.cc"], "--out", "out", "--seconds", "0")[0], 3)
        self.assertEqual(self.tidy(["a.cc"], "--out", "out")[0], 1)
        status, said = self.tidy(["a.cc", "clean.cc"], "--out", "out")
        self.assertEqual((self.folder / "said").read_text().split(), ["a.cc", "clean.cc"])
        self.assertEqual(status, 1)
        self.assertIn("2 of 2 sources, 2 findings", said)
        self.assertIn("one thing", (self.folder / "out/findings.txt").read_text())

    def test_tests_are_run_again_and_again_in_folders_of_their_own(self):
        def test(name, command, **properties):
            return {"name": name, "command": ["sh", "-c", command],
                    "properties": [{"name": key, "value": value} for key, value in properties.items()]}
        (self.folder / "build").mkdir()
        (self.folder / "build/tests.json").write_text(json.dumps({"tests": [
            test("passes", '[ "$PWD" = "$TMPDIR" ] && [ "$WORD" = a=b ] && [ ! -e mine ] && : >mine', ENVIRONMENT=["WORD=a=b"]),
            test("fails", "echo why; exit 3"), test("skipped", "exit 77", SKIP_RETURN_CODE=77),
            test("hangs", "sleep 100", TIMEOUT=0.3), test("off", "false", DISABLED=True)]}))
        status, said = self.call("repeat_tests.py", "--rounds", 2, "--copies", 3, "--out", "out", "build")
        self.assertEqual(status, 1, said)
        for row in (r"passes +6 +0 +0", r"fails +0 +6 +0", r"skipped +0 +0 +6", r"hangs +0 +6 +0"):
            self.assertRegex(said, r"(?m)^build +%s$" % row)
        self.assertIn("6 passed, 12 failed, 6 skipped", said)
        self.assertRegex((self.folder / "out/build-fails-0.1.log").read_text(), r"^exit status 3 after .*\nwhy\n$")
        self.assertIn("took too long", (self.folder / "out/build-hangs-2.0.log").read_text())
        self.assertEqual(self.call("repeat_tests.py", "-R", "pass", "--rounds", 1, "--out", "out", "build")[0], 0)


if __name__ == "__main__":
    unittest.main()

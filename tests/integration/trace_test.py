#!/usr/bin/env python3
"""`--trace-allocations`: the lines that allocate are told, of Python and C++, and no program notices (simulated driver).

Usage: trace_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import ctypes.util
from datetime import datetime
import json
import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
import pprof  # noqa: E402
from daemon_case import DaemonTest, MIB, until  # noqa: E402
from machine import build_dir, program  # noqa: E402

PROGRAM = pathlib.Path(__file__).with_name("trace_program.py")
LINES = {found[1]: number for number, text in enumerate(PROGRAM.read_text().splitlines(), 1)
         if (found := re.search(r"# line: (\w+)$", text))}

SMALL_FILE = 128 << 10  # bytes


def place(line, function):
    return f"{PROGRAM}:{LINES[line]} in {function}"


# Functions have their qualified names since 3.11.
FORWARD = "Net.forward" if sys.version_info >= (3, 11) else "forward"
IN_THREAD = "threads.<locals>.in_thread" if sys.version_info >= (3, 11) else "in_thread"


class Trace(DaemonTest):
    gpus, memory = 1, "8GiB"

    def starts(self, what, **more):
        return self.start(what, f"exec {sys.executable} {PROGRAM} {what}", trace_allocations=True, **more)

    def ran(self, what, **more):
        """The job has done what it is for: a trace changes nothing."""
        job = self.starts(what, **more)
        self.assertEqual(self.wait(job)["exit_code"], 0, self.log(job))
        self.assertIn("done", self.log(job))
        return job

    def told(self, job):
        done = self.m.run("why", str(job), "--allocations", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def held(self, moment):
        """In MiB: a sample of some MiB stands for a little more than itself."""
        return {one["place"]: round(one["bytes"] / MIB) for one in moment["places"]}

    def test_trace_has_python_lines_at_peak_and_refusal(self):
        job = self.ran("holds", memory="1GiB")
        (gpu,) = self.told(job)["gpus"]
        forward, locked = place("forward", FORWARD), place("locked", "holds")
        self.assertEqual(self.held(gpu["peak"]), {forward: 192, locked: 32})
        self.assertEqual(gpu["peak"]["bytes"], 224 * MIB)
        refusal = gpu["refusal"]
        self.assertEqual((refusal["asked"], refusal["place"]), (1024 * MIB, place("refused", "holds")))
        self.assertEqual(self.held(refusal), {forward: 128, locked: 32})
        stack = [frame for frame in gpu["peak"]["places"][0]["stacks"][0]["frames"] if frame["language"] == "python"]
        self.assertEqual([frame["function"].split(".")[-1] for frame in stack][:2], ["forward", "<listcomp>" if sys.version_info < (3, 12) else "holds"])
        text = self.m.run("why", str(job), "--allocations").stdout
        self.assertIn(f"192MiB   86 %  {forward}\n", text)
        self.assertIn("At the refusal of 1GiB on GPU 0", text)

    def test_small_allocations_are_sampled_in_proportion(self):
        (gpu,) = self.told(self.ran("small"))["gpus"]
        self.assertEqual(gpu["peak"]["places"][0]["place"], place("small", "small"))
        # 4000 of 16 KiB are 62.5 MiB, of which a sample stands for 520 KiB; none has to be the last.
        self.assertAlmostEqual(gpu["peak"]["bytes"], 62.5 * MIB, delta=8 * MIB)

    def test_what_is_freed_is_not_held(self):
        (gpu,) = self.told(self.ran("freed_at_last"))["gpus"]
        self.assertEqual(self.held(gpu["peak"]), {place("take", "take"): 4})

    def test_trace_has_lines_of_all_threads(self):
        (gpu,) = self.told(self.ran("threads"))["gpus"]
        self.assertEqual(self.held(gpu["peak"]), {place("thread", IN_THREAD): 256})

    def test_traces_of_all_processes_are_added_up(self):
        told = self.told(self.ran("forks"))
        self.assertEqual(told["processes"], 4)
        self.assertEqual(told["gpus"][0]["peak"]["bytes"], 64 * MIB)

    def test_trace_has_memory_of_each_kind(self):
        for share in (False, True):
            (gpu,) = self.told(self.ran("kinds", memory="2GiB", share=share))["gpus"]
            self.assertEqual(self.held(gpu["peak"]), {place("made", "kinds"): 16, place("pooled", "kinds"): 32})
            self.assertEqual(self.held(gpu["refusal"]), {place("made", "kinds"): 8, place("pooled", "kinds"): 16})

    def test_trace_has_lines_of_a_cpp_program(self):
        job = self.start("cpp", self.load("256MiB", "--step", "64MiB", "--jump", "16GiB"), memory="1GiB", trace_allocations=True)
        self.assertEqual(self.wait(job)["exit_code"], 3, self.log(job))
        (gpu,) = self.told(job)["gpus"]
        self.assertEqual(gpu["peak"]["bytes"], 256 * MIB)
        self.assertEqual(gpu["refusal"]["asked"], 16384 * MIB)
        frames = gpu["peak"]["places"][0]["stacks"][0]["frames"]
        self.assertIn("gpuman-load", [pathlib.Path(frame["module"] or "").name for frame in frames])
        self.assertNotIn("libgpuman.so", [pathlib.Path(frame["module"] or "").name for frame in frames])
        if ctypes.util.find_library("dw"):
            self.assertRegex(gpu["peak"]["places"][0]["place"], r"gpuman::load::.* \(.*\.(cc|h):\d+\)")

    def test_a_killed_process_leaves_what_it_did(self):
        job = self.starts("waits")
        until("the job waits", lambda: "waits" in self.log(job))
        running = self.told(job)
        os.kill(self.job(job)["pid"], signal.SIGKILL)
        self.wait(job)
        for told in (running, self.told(job)):
            self.assertEqual(self.held(told["gpus"][0]["peak"]), {place("take", "take"): 64})

    def test_a_torn_record_is_the_last(self):
        job = self.ran("holds", memory="1GiB")
        (trace,) = pathlib.Path(self.job(job)["trace_path"]).iterdir()
        os.truncate(trace, trace.stat().st_size - 5)
        self.assertEqual(self.told(job)["gpus"][0]["peak"]["bytes"], 224 * MIB)
        trace.write_bytes(b"nonsense")
        told = self.told(job)
        self.assertEqual((told["gpus"], told["processes"]), ([], 0))
        self.assertIn("0.trace could not be read", told["notes"][0])

    def test_files_are_of_the_user_alone_and_go_with_the_job(self):
        job = self.ran("holds", memory="1GiB")
        directory = pathlib.Path(self.job(job)["trace_path"])
        self.assertEqual(stat.S_IMODE(directory.stat().st_mode), 0o700)
        self.assertEqual([stat.S_IMODE(file.stat().st_mode) for file in directory.iterdir()], [0o600])
        self.request("DELETE", f"/v1/jobs/{job}")
        until("the traces are gone", lambda: not directory.exists())

    def test_nothing_is_written_unless_asked_for(self):
        job = self.start("plain", f"exec {sys.executable} {PROGRAM} holds", memory="1GiB")
        self.assertEqual(self.wait(job)["exit_code"], 0, self.log(job))
        self.assertIsNone(self.job(job)["trace_path"])
        self.assertFalse((self.m.dir / "lib" / "traces" / str(job)).exists())
        done = self.m.run("why", str(job), "--allocations")
        self.assertEqual(done.returncode, 4, done)
        self.assertIn("--trace-allocations", done.stderr)

    def test_what_cannot_be_written_stops_no_program(self):
        for what in ("without_directory", "closes_all"):
            self.ran(what)
        job = self.ran("with_small_files")
        (trace,) = pathlib.Path(self.job(job)["trace_path"]).iterdir()
        self.assertTrue(0.8 * SMALL_FILE < trace.stat().st_size <= SMALL_FILE, trace.stat().st_size)
        self.assertTrue(self.told(job)["gpus"])

    def test_a_run_begins_with_an_empty_trace(self):
        first = self.ran("holds", memory="1GiB")
        self.assertEqual(self.m.run("restart", str(first)).returncode, 0)
        self.wait(first)
        until("the second run has ended", lambda: self.job(first)["ended_at"])
        self.assertEqual(self.told(first)["processes"], 1)

    def test_command_line_options_trace_a_job_or_are_refused(self):
        done = self.m.run("run", "--tag", "typed", "--trace-allocations", "--wait", "--", sys.executable, str(PROGRAM), "freed_at_last")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(place("take", "take"), self.m.run("why", "typed", "--allocations").stdout)
        done = self.m.run("run", "--tag", "both", "--trace-allocations", "--no-preload", "--", "true")
        self.assertEqual(done.returncode, 2, done)
        self.assertIn("--no-preload", done.stderr)
        done = self.m.run("why", "typed", "-o", "pprof")
        self.assertEqual(done.returncode, 2, done)

    def test_queued_job_is_traced(self):
        done = self.m.run("submit", "--gpus", "1", "--trace-allocations", "-n", "queued", "--", sys.executable, str(PROGRAM), "freed_at_last")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.wait("queued")
        self.assertEqual(self.held(self.told("queued")["gpus"][0]["peak"]), {place("take", "take"): 4})

    def test_trace_has_lines_for_each_installed_python(self):
        """GPUMAN_PYTHONS: more interpreters, with colons between them."""
        pythons = [shutil.which(f"python3.{minor}") for minor in range(9, 14)] + os.environ.get("GPUMAN_PYTHONS", "").split(":")
        for number, python in enumerate(filter(None, pythons)):
            if subprocess.run([python, "-c", "import ctypes"], capture_output=True).returncode != 0:
                continue
            job = self.start(f"python{number}", f"exec {python} {PROGRAM} holds", memory="1GiB", trace_allocations=True)
            self.assertEqual(self.wait(job)["exit_code"], 0, self.log(job))
            (gpu,) = self.told(job)["gpus"]
            lines = {one["place"].split(" in ")[0]: round(one["bytes"] / MIB) for one in gpu["peak"]["places"]}
            self.assertEqual(lines, {f"{PROGRAM}:{LINES['forward']}": 192, f"{PROGRAM}:{LINES['locked']}": 32}, python)

    def written_profile(self, job):
        done = subprocess.run([program("gpuman"), "why", str(job), "--allocations", "-o", "pprof"], env=self.m.env, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    @staticmethod
    def held_by_stacks(told):
        """By the frames of a stack, as --json has them: bytes at the peak and at the refusal."""
        held = {}
        for value, moment in (("peak", told["peak"]), ("refusal", told["refusal"])):
            for stack in (stack for one in moment["places"] for stack in one["stacks"]):
                frames = tuple((frame["file"] or "", frame["line"] or 0, frame["module"] or "", frame["address"] or 0) for frame in stack["frames"])
                row = held.setdefault(frames, {"peak": 0, "refusal": 0})
                row[value] += stack["bytes"]
        return held

    def test_a_profile_for_pprof_has_what_json_has(self):
        job = self.ran("holds", memory="1GiB")
        profile, (gpu,) = pprof.read(self.written_profile(job)), self.told(job)["gpus"]
        self.assertEqual((profile.types, profile.default), ({"peak": "bytes", "refusal": "bytes"}, "peak"))
        submitted = datetime.fromisoformat(self.job(job)["submitted_at"].replace("Z", "+00:00")).timestamp()
        self.assertTrue(submitted - 1 < profile.time / 1e9 < submitted + 3600, profile.time)
        held = {}
        for sample in profile.samples:
            self.assertEqual(sample.labels, {"gpu": gpu["gpu"]})
            row = held.setdefault(tuple((frame.file, frame.line, frame.module, frame.address) for frame in sample.frames), {"peak": 0, "refusal": 0})
            for value, size in sample.values.items():
                row[value] += size
        self.assertEqual(held, self.held_by_stacks(gpu))
        self.assertEqual({value: round(sum(row[value] for row in held.values()) / MIB) for value in profile.types}, {"peak": 224, "refusal": 160})
        self.assertTrue(all(frame.function for sample in profile.samples for frame in sample.frames))

    def test_pprof_opens_a_profile(self):
        command = next((words for words in (["pprof"], ["go", "tool", "pprof"]) if shutil.which(words[0])), None)
        if not command:
            self.skipTest("neither pprof nor go is installed")
        job = self.ran("holds", memory="1GiB")
        file = self.m.dir / "job.pb"
        file.write_bytes(self.written_profile(job))
        for value, sizes in (("peak", {"forward": 192, "locked": 32}), ("refusal", {"forward": 128, "locked": 32})):
            done = subprocess.run([*command, "-top", "-cum", "-lines", "-unit=B", "-symbolize=none", f"-sample_index={value}", str(file)],
                                  env={**self.m.env, "PPROF_TMPDIR": str(self.m.dir)}, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, r"^File: \S*python")
            for line, size in sizes.items():
                (told,) = re.findall(rf"(\d+)B +\S+ +\S*{line if line == 'forward' else 'holds'} {re.escape(str(PROGRAM))}:{LINES[line]}$", done.stdout, re.MULTILINE)
                self.assertEqual(round(int(told) / MIB), size, done.stdout)


if __name__ == "__main__":
    if not (build_dir() / "lib" / "libgpuman.so").exists():
        print("skipped: this build has no libgpuman.so")
        sys.exit(77)
    unittest.main(verbosity=2)

#!/usr/bin/env python3
"""Runs a page of gflow's documentation about GPUs line by line: the programs under gflow's names do what it says.

Usage: gpuman-sim exec --profile h200 --gpus 4 -- gflow_test.py --bin DIRECTORY [UNITTEST ARGUMENTS]

Standard library only. Exits with 77 (skipped) where a system-wide daemon would be found instead of ours.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PATIENCE = 120  # seconds; nothing here takes long, and nothing is measured


class Machine:
    """A user's own home, and a shell in it. `python` is a program that waits until the test lets it continue."""

    def __init__(self):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="gpuman-gflow-"))
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("GPUMAN_") or
                    name.startswith("GPUMAN_SIM")}
        self.env.update(HOME=str(self.home), PATH=f"{self.home / 'tools'}:{BIN}:{os.environ['PATH']}", USER="root",
                        XDG_RUNTIME_DIR=str(self.home / "run"), XDG_STATE_HOME=str(self.home / "state"),
                        XDG_CONFIG_HOME=str(self.home / "config"), GO=str(self.home / "go"))
        self.env["USER"] = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
        (self.home / "run").mkdir(mode=0o700)
        (self.home / "tools").mkdir()
        self.program("python", 'echo "python $*"\necho "CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES"\n'
                               'while [ ! -e "$GO" ]; do sleep 0.05; done\n')
        self.program("nvidia-smi", 'echo "memory.free [MiB], memory.used [MiB]"\n')

    def program(self, name, text):
        path = self.home / "tools" / name
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)

    def type(self, line, status=0):
        """Runs a command line unchanged, in bash."""
        done = subprocess.run(["bash", "-c", line], env=self.env, cwd=self.home, text=True, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=PATIENCE)
        assert done.returncode == status, f"{line}: exit {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout

    def submit(self, line):
        said = self.type(line)
        found = re.fullmatch(r"Submitted batch job (\d+) \(.+\)\n", said)
        assert found, said
        return int(found.group(1))

    def job(self, job):
        return json.loads(self.type(f"gpuman job show {job} --json"))

    def becomes(self, job, *states):
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            now = self.job(job)
            if now["state"] in states:
                return now
            time.sleep(0.05)
        raise AssertionError(f"job {job} is {now['state']} ({now['reason_detail']}), not {states}")

    def go(self):
        (self.home / "go").touch()

    def close(self):
        self.go()
        for job in json.loads(self.type("gpuman queue --json"))["jobs"]:
            subprocess.run(["gpuman", "cancel", str(job["id"])], env=self.env, capture_output=True, timeout=PATIENCE)
        self.type("gflowd down")
        shutil.rmtree(self.home, ignore_errors=True)


class GflowTest(unittest.TestCase):
    def setUp(self):
        self.m = Machine()
        self.addCleanup(self.m.close)

    def test_quick_start(self):
        self.assertIn("started", self.m.type("gflowd up"))
        self.assertEqual(self.m.type("ginfo"), "PARTITION  GPUS  NODES    STATE  JOB(REASON)\n"
                                               "gpu        4     0,1,2,3  idle\n")
        job = self.m.submit("gbatch --gpus 1 python train.py")
        running = self.m.becomes(job, "running")
        listed = self.m.type("gqueue -s Running,Queued -f 'JOBID,NAME,ST,NODES,NODELIST(REASON)'").splitlines()
        self.assertEqual(listed[0].split(), ["JOBID", "NAME", "ST", "NODES", "NODELIST(REASON)"])
        self.assertEqual(listed[1].split(), [str(job), running["tag"], "R", "1", "0"])
        self.assertEqual(self.m.type("ginfo").splitlines()[2].split(None, 4),
                         ["gpu", "1", "0", "allocated", f"{job} ({running['tag']})"])
        self.m.go()
        self.m.becomes(job, "finished")
        self.assertIn("python train.py\n", self.m.type(f"gjob log {job}"))

    def test_the_daemon_need_not_be_started(self):
        self.m.submit("gbatch --gpus 1 python train.py")
        self.assertIn("already running", self.m.type("gflowd up"))
        self.assertIn("Status: Running", self.m.type("gflowd status"))

    def test_programs_get_json(self):
        self.assertFalse(json.loads(self.m.type("gflowd status --json"))["running"])
        state = json.loads(self.m.type("gflowd up --json"))
        self.assertEqual((state["running"], state["user_mode"]), (True, True))
        job = json.loads(self.m.type("gbatch --json --gpus 1 python train.py"))["id"]
        self.m.becomes(job, "running")
        self.assertEqual(len(json.loads(self.m.type("gctl show-gpus --json"))["gpus"]), 4)
        self.assertEqual(len(json.loads(self.m.type("gctl set-gpus 0,2 --json"))["allowed"]), 2)
        self.assertIsNone(json.loads(self.m.type("gflowd down --json"))["pid"])

    def test_inspecting_gpus(self):
        self.m.type("nvidia-smi")
        self.m.type("gflowd up")
        self.m.type("ginfo")
        self.assertEqual(self.m.type("gctl show-gpus"), "".join(f"{i}\tavailable\n" for i in range(4)))

    def test_gpus_are_requested_and_shown(self):
        one = self.m.submit("gbatch --gpus 1 python train.py")
        two = self.m.submit("gbatch --gpus 2 python multi_gpu_train.py")
        self.m.becomes(one, "running")
        self.assertEqual(len(self.m.becomes(two, "running")["gpus"]), 2)
        listed = self.m.type("gqueue -s Running -f 'JOBID,NAME,ST,NODES,NODELIST(REASON)'")
        self.assertRegex(listed, rf"\n{two} .* R +2 +1,2\n")
        shown = self.m.type(f"gjob show {two}")
        self.assertRegex(shown, r"^Job Details:\n  ID=%d\n" % two)
        for line in ("  State=Running (R)\n", "  GPUs=2\n", "  GPUSharing=exclusive\n", "  GPUIDs=1,2\n",
                     f"  WorkingDir={self.m.home}\n", "  Command=python multi_gpu_train.py\n"):
            self.assertIn(line, shown)
        self.assertEqual(self.m.type("gctl show-gpus"), "0\tin_use\n1\tin_use\n2\tin_use\n3\tavailable\n")

    def test_shared_gpus(self):
        jobs = [self.m.submit("gbatch --gpus 1 --shared --gpu-memory 20G python train.py") for _ in range(2)]
        gpus = [self.m.becomes(job, "running")["gpus"] for job in jobs]
        self.assertEqual(gpus[0], gpus[1], "two shared jobs of 20 GiB are not on one GPU")
        self.assertEqual(self.m.job(jobs[0])["memory"]["limit"], 20 << 30)
        alone = self.m.submit("gbatch --gpus 1 python train.py")
        self.assertNotEqual(self.m.becomes(alone, "running")["gpus"], gpus[0])
        refused = subprocess.run(["gbatch", "--gpus", "1", "--shared", "python", "train.py"], env=self.m.env,
                                 cwd=self.m.home, capture_output=True, text=True)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("memory", refused.stderr)
        self.m.submit("gbatch --gpus 1 --shared --max-gpu-mem 20G python train.py")

    def test_a_script_sees_its_gpus(self):
        (self.m.home / "train.sh").write_text('#!/bin/bash\n# GFLOW --gpus 2\n\n'
                                              'echo "CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES"\npython train.py\n')
        job = self.m.submit("gbatch train.sh")
        running = self.m.becomes(job, "running")
        self.assertEqual(len(running["gpus"]), 2)
        self.m.go()
        self.m.becomes(job, "finished")
        self.assertIn("CUDA_VISIBLE_DEVICES=0,1\n", self.m.type(f"gjob log {job}"), "gflow has indices")
        job = self.m.submit("gbatch --visible-devices uuid train.sh")
        running = self.m.becomes(job, "running", "finished")
        self.m.becomes(job, "finished")
        self.assertIn("CUDA_VISIBLE_DEVICES=" + ",".join(running["gpus"]) + "\n", self.m.type(f"gjob log {job}"))
        other = json.loads(self.m.type("gpuman submit --gpus 1 --visible-devices index --json -- python x.py"))["id"]
        self.m.becomes(other, "finished")
        self.assertRegex(self.m.type(f"gjob log {other}"), r"CUDA_VISIBLE_DEVICES=\d\n")

    def test_gpus_that_are_not_there_are_refused(self):
        self.m.type("gctl set-gpus 0,2")
        before = self.m.type("gctl show-gpus")
        for spec in ("0,7", "2-5", "9"):
            refused = subprocess.run(["gctl", "set-gpus", spec], env=self.m.env, capture_output=True, text=True)
            self.assertEqual(refused.returncode, 4)
            self.assertIn("nothing was changed", refused.stderr)
            self.assertEqual(self.m.type("gctl show-gpus"), before)
        running = self.m.type("gflowd status")
        for command in ("restart", "reload", "up", "init"):
            refused = subprocess.run(["gflowd", command, "--gpus", "0,7", "--gpu-allocation-strategy", "random"],
                                     env=self.m.env, capture_output=True, text=True)
            self.assertEqual((refused.returncode, refused.stdout), (4, ""), command)
            self.assertIn("there is no GPU 7 on this machine; nothing was changed", refused.stderr)
            self.assertEqual(self.m.type("gflowd status"), running, "it was not restarted")
            self.assertEqual(self.m.type("gctl show-gpus"), before)
        self.assertEqual(json.loads(self.m.type("gpuman info --json"))["settings"]["choice"], "sequential")
        self.m.type("gflowd down")
        for command in ("up", "restart"):
            refused = subprocess.run(["gflowd", command, "--gpus", "7"], env=self.m.env, capture_output=True, text=True)
            self.assertEqual((refused.returncode, refused.stdout), (4, ""), command)
            self.assertIn("Not running", self.m.type("gflowd status"), "none was left behind")

    def test_a_restart_says_what_it_did(self):
        done = subprocess.run(["gflowd", "restart"], env=self.m.env, capture_output=True, text=True)
        self.assertRegex(done.stdout, r"gflowd was not running; started gpumand \(pid \d+\)\.\n")
        self.assertEqual(done.stderr, "", "that is said once")
        pid = int(re.search(r"PID: +(\d+)", self.m.type("gflowd status")).group(1))
        said = self.m.type("gflowd restart --gpus 0,2 --gpu-allocation-strategy random")
        now = int(re.search(r"PID: +(\d+)", self.m.type("gflowd status")).group(1))
        self.assertIn(f"gpumand (pid {pid}) was stopped and started again (pid {now}); jobs kept running.\n", said)
        self.assertIn("Only GPU 0,2 is used from now on.\n", said)
        self.assertIn("Of several free GPUs it takes: random.\n", said)
        self.m.env["GPUMAN_SOCKET"] = str(self.m.home / "run/gpuman/gpumand.sock")
        self.assertRegex(self.m.type("gflowd restart --gpus all", status=1), rf"pid {now}\) was not restarted: its socket is named")
        self.assertNotIn("restricted", self.m.type("gctl show-gpus"))
        del self.m.env["GPUMAN_SOCKET"]

    def test_statistics_are_readable(self):
        job = self.m.submit("gbatch --gpus 1 true")
        self.m.becomes(job, "finished")
        said = self.m.type("gstats")
        self.assertRegex(said, r"^Usage Statistics  user: \S+  since: all time  active: 0\n")
        self.assertIn("\nJob Status\n  Total Jobs:      1\n  Completed:       1 (100%)\n", said)
        self.assertIn("  Success Rate:    100.0%\n", said)

    def test_gpus_are_restricted(self):
        self.m.type("gctl set-gpus 0,2")
        self.assertEqual(self.m.type("gctl show-gpus"),
                         "0\tavailable\n1\tavailable\trestricted\n2\tavailable\n3\tavailable\trestricted\n")
        job = self.m.submit("gbatch --gpus 2 python train.py")
        self.m.becomes(job, "running")
        self.assertRegex(self.m.type("gqueue -f 'JOBID,NODELIST(REASON)'"), rf"\n{job} +0,2\n")
        self.assertIn("restarted", self.m.type("gflowd restart --gpus 0-3"))
        self.assertNotIn("restricted", self.m.type("gctl show-gpus"))
        self.assertEqual(self.m.job(job)["state"], "running", "a restart of the daemon is not one of jobs")
        self.m.type("gflowd restart --gpus 1")
        self.assertIn("2\tin_use\trestricted\n", self.m.type("gctl show-gpus"))
        self.m.type("gctl set-gpus all")

    def test_the_allocation_strategy(self):
        self.m.type("gflowd up --gpu-allocation-strategy random")
        info = json.loads(self.m.type("gpuman info --json"))
        self.assertEqual(info["settings"]["choice"], "random")
        self.m.type("gflowd restart --gpu-allocation-strategy sequential")
        self.assertEqual(json.loads(self.m.type("gpuman info --json"))["settings"]["choice"], "sequential")

    def test_a_job_that_does_not_get_a_gpu(self):
        first = self.m.submit("gbatch --gpus 4 python train.py")
        self.m.becomes(first, "running")
        job = self.m.submit("gbatch --gpus 1 python train.py")
        self.m.type("ginfo")
        self.assertRegex(self.m.type(f"gqueue -j {job} -f 'JOBID,ST,NODES,NODELIST(REASON)'"),
                         rf"\n{job} +PD +1 +\(Resources\)\n")
        self.m.type("gctl show-gpus")
        self.m.type("nvidia-smi --query-gpu=memory.free,memory.used --format=csv")
        self.assertEqual(self.m.type(f"gcancel {job}"), f"Job {job} cancelled.\n")
        self.assertEqual(self.m.becomes(job, "cancelled")["started_at"], None)

    def test_commands_beyond_that_page(self):
        held = self.m.submit("gbatch --gpus 4 --name held python train.py")
        self.m.becomes(held, "running")
        job = self.m.submit("gbatch --gpus 1 --priority 50 --project p --time 30 --memory 512 python x.py")
        self.m.type(f"gjob hold {job}")
        self.assertRegex(self.m.type(f"gqueue -j {job}"), r" H .*\(JobHeldUser\)\n")
        self.m.type(f"gjob release {job}")
        self.m.type(f"gjob update {job} --gpus 2 --time-limit 4:00:00 --max-retries 2")
        shown = self.m.job(job)["queue"]
        self.assertEqual((shown["gpus"]["count"], shown["time_limit_s"], shown["retries"]["count"]), (2, 14400, 2))
        after = self.m.submit("gbatch --depends-on @ python y.py")
        self.assertRegex(self.m.type(f"gqueue -j {after}"), r"\(Dependency\)\n")
        self.assertIn(f"{after}\tQueued\tblocked\t{job}\n", self.m.type(f"gcancel --dry-run {job}"))
        array = re.fullmatch(r"Submitted 3 batch jobs with group_id: (\d+)\n",
                             self.m.type("gbatch --array 1-3 echo task '$GFLOW_ARRAY_TASK_ID'")).group(1)
        self.m.becomes(f"{array}_2", "finished")
        self.assertEqual(self.m.type(f"gjob log {array}_2"), "task 2\n")
        self.assertIn("total_jobs", self.m.type("gstats --output csv"))
        self.m.type("gctl quota set --user nobody --max-running-gpus 4")
        self.assertIn("nobody", self.m.type("gctl quota list"))
        self.m.type("gctl reserve create --user nobody --gpus 1 --start 2031-01-01T10:00 --duration 2h")
        self.assertIn("nobody", self.m.type("gctl reserve list"))
        self.m.type("gbatch new template && grep -q GFLOW template.sh")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--bin", required=True)
    options, rest = parser.parse_known_args()
    BIN = str(pathlib.Path(options.bin).resolve())
    if pathlib.Path("/run/gpuman/gpumand.sock").exists():
        print("a system-wide gpumand runs: skipped")
        sys.exit(77)
    signal.alarm(900)
    unittest.main(argv=[sys.argv[0], *rest])

#!/usr/bin/env python3
"""gpuman in a real Slurm: limits, shards and turns in its steps, and what happens to them while gpumand is away.

Usage: slurm_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from cluster import PATIENCE, ROOT, ClusterCase, program, until  # noqa: E402
from submit_test import SubmitTest  # noqa: E402,F401

OUT_OF_MEMORY = 3  # gpuman-load's exit status
GIB = 1 << 30
NOBODY = 65534
IDLE_PROGRAM = ROOT / "tests/integration/idle_program.py"


def load(size, *more):
    return [program("gpuman-load"), "--alloc", size, *more]


class SlurmTest(ClusterCase):
    def setUp(self):
        self.c.plugin()

    def tearDown(self):
        super().tearDown()
        until("gpumand holds none", lambda: not self.c.jobs())

    def srun(self, *words, **more):
        return self.c.run("srun", *words, **more)

    def held(self, gres="--gres=shard:1", *options, size="512MiB"):
        """Starts a step that stays on its GPU; returns its job in gpumand."""
        before = {job["id"] for job in self.c.jobs(True)}
        step = self.c.start("srun", gres, *options, *load(size, "--hold", "1h"), stdout=subprocess.DEVNULL)
        self.addCleanup(step.wait)
        self.addCleanup(step.kill)
        return until("it is on its GPU", lambda: next(
            (job for job in self.c.jobs() if job["id"] not in before and job["memory"]["used"]), None))

    # --- options ---

    def test_help_shows_the_options(self):
        for command in ("srun", "sbatch", "salloc"):
            text = self.c.run(command, "--help").stdout
            for option in ("--gpuman-mem=SIZE", "--gpuman-soft=SIZE", "--gpuman-share", "--gpuman-compute=PERCENT",
                           "--gpuman-latency"):
                self.assertIn(option, text, command)

    def test_a_malformed_option_is_refused_naming_it(self):
        for command in (("srun",), ("sbatch", "--wrap=true")):
            done = self.c.run(*command[:1], "--gpuman-mem=lots", *(command[1:] or ("true",)))
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("--gpuman-mem=lots: a size is expected", done.stderr)

    def test_options_without_a_gpu_are_told_to_mean_nothing(self):
        done = self.srun("--gpuman-mem=1GiB", "true")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("no GPU", done.stderr)

    # --- limits ---

    def test_a_step_over_its_share_fails_and_its_neighbour_goes_on(self):
        neighbour = self.held()
        done = self.srun("--gres=shard:1", *load("2GiB"))
        self.assertEqual(done.returncode, OUT_OF_MEMORY, done.stderr)
        self.assertEqual(self.srun("--gres=shard:1", *load("512MiB")).returncode, 0)
        after = self.c.job(neighbour["tag"])
        self.assertEqual((after["state"], after["pid"]), ("running", neighbour["pid"]))

    def test_shards_are_a_gib_each(self):
        self.assertEqual(self.held("--gres=shard:3")["memory"]["limit"], 3 * GIB)

    def test_the_size_of_a_shard_is_configured(self):
        self.c.plugin("shard=700MiB")
        self.assertEqual(self.held("--gres=shard:2")["memory"]["limit"], 1400 << 20)

    def test_an_option_asks_for_less_than_the_shards_and_never_for_more(self):
        for option, limit in (("1GiB", 1), ("3GiB", 2), ("25%", 1), ("75%", 2)):
            with self.subTest(option=option):
                job = self.held("--gres=shard:2", f"--gpuman-mem={option}")
                self.assertEqual(job["memory"]["limit"], limit * GIB)

    def test_a_whole_gpu_has_the_limit_that_is_asked_for(self):
        done = self.srun("--gres=gpu:1", "--gpuman-mem=1GiB", *load("2GiB"))
        self.assertEqual(done.returncode, OUT_OF_MEMORY, done.stderr)
        self.assertEqual(self.srun("--gres=gpu:1", *load("2GiB")).returncode, 0)

    def test_more_than_the_gpu_has_is_refused(self):
        done = self.srun("--gres=gpu:1", "--gpuman-mem=5GiB", "true")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("more than GPU 0 has", done.stderr)

    def test_the_tasks_of_a_step_share_its_limit(self):
        done = self.srun("-n2", "--kill-on-bad-exit=1", "--gres=gpu:1", "--gpuman-mem=1GiB", *load("600MiB", "--hold", "1h"))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"Exited with exit code {OUT_OF_MEMORY}", done.stderr)

    def test_a_program_without_the_library_ends_at_the_limit(self):
        done = self.srun("--gres=shard:1", "env", "-u", "LD_PRELOAD", *load("2GiB", "--hold", "1h"))
        self.assertNotEqual(done.returncode, 0)
        until("it is told of", lambda: "hard_limit" in [event["kind"] for event in self.c.m.events()])

    # --- identity of a step ---

    def test_a_step_is_a_job_of_its_users(self):
        step = self.c.start("srun", f"--uid={NOBODY}", f"--gid={NOBODY}", "-D", "/", "--gres=shard:1", "sleep", "1000")
        self.addCleanup(step.communicate)
        self.addCleanup(step.kill)
        job = until("gpumand has it", lambda: next(iter(self.c.jobs()), None))
        self.assertRegex(job["tag"], r"^slurm-\d+\.0$")
        self.assertEqual((job["user"], job["command"]), ("nobody", ["sleep", "1000"]))
        self.assertEqual(len(job["gpus"]), 1)

    def test_each_step_knows_its_gpu(self):
        self.held("--gres=gpu:1")
        self.held("--gres=gpu:1")
        gpus = [job["gpus"] for job in self.c.jobs()]
        self.assertNotEqual(*gpus)

    # --- sbatch ---

    def script(self, *lines):
        path = self.c.dir / "script.sh"
        path.write_text("\n".join(("#!/bin/sh", *lines, "")))
        return str(path)

    def test_a_script_takes_the_options_and_hands_them_to_its_steps(self):
        out = self.c.dir / "script.out"
        script = self.script("#SBATCH --gres=gpu:1 --gpuman-mem=1GiB", " ".join(load("2GiB")), "echo script $?",
                             "srun " + " ".join(load("2GiB")), "echo step $?",
                             "srun --gpuman-mem=3GiB " + " ".join(load("2GiB")), "echo own $?")
        done = self.c.run("sbatch", "-W", "-o", str(out), script)
        said = re.findall(r"^(script|step|own) (\d+)$", out.read_text(), re.MULTILINE)
        self.assertEqual(said, [("script", "3"), ("step", "3"), ("own", "0")], done.stderr + out.read_text())

    def test_each_task_of_an_array_is_held_by_itself(self):
        script = self.script("#SBATCH --gres=shard:1 --array=1-3", "exec " + " ".join(load("512MiB", "--hold", "1h")))
        self.c.run("sbatch", "-o", "/dev/null", script)
        try:
            jobs = until("all are there", lambda: len(found := self.c.jobs()) == 3 and found)
        except AssertionError as late:
            said = self.c.ask("squeue", "-h", "-o", "%i %T %r"), self.c.ask("scontrol", "show", "node"), self.c.jobs()
            raise AssertionError(f"{late}: {said}") from late
        self.assertEqual({job["memory"]["limit"] for job in jobs}, {GIB})
        self.assertEqual(len({job["tag"] for job in jobs}), 3, self.c.story())

    def test_a_cancelled_slurm_job_ends_here_too(self):
        job = self.held()
        self.c.ask("scancel", re.search(r"\d+", job["tag"]).group())
        self.assertEqual(self.c.m.api("GET", f"/v1/jobs/{job['id']}/wait")["state"], "finished")

    # --- turns ---

    def test_steps_that_share_have_more_together_than_there_is_room_for(self):
        self.held("--gres=gpu:1")  # so the others go to the other GPU, and gpumand knows what a context takes
        work = load("8MiB", "--step", "4MiB", "--kernel-time", "1ms", "--iterations", "8", "--verify")
        steps = [self.c.start("srun", "--gres=shard:2", "--gpuman-share", *work) for _ in range(2)]
        for step in steps:
            out, _ = step.communicate(timeout=PATIENCE)
            self.assertEqual(step.returncode, 0, out + self.c.story())
        jobs = [job for job in self.c.jobs(True) if job["share"]][-2:]
        self.assertEqual(jobs[0]["gpus"], jobs[1]["gpus"])
        said = [event["kind"] for event in self.c.m.events() if event["job"] in [job["id"] for job in jobs]]
        self.assertNotIn("share_move_failed", said)

    def test_shards_bind_who_shares_too(self):
        done = self.srun("--gres=shard:1", "--gpuman-share", *load("2GiB"))
        self.assertEqual(done.returncode, OUT_OF_MEMORY, done.stderr)

    # --- idle steps ---

    def test_a_step_that_is_idle_leaves_its_gpu_and_its_next_call_brings_it_back(self):
        words = self.c.m.dir / "words"
        words.mkdir(mode=0o755)
        with self.configured('[idle]\nsuspend_after = "400ms"\n'):
            step = self.c.start("srun", "--gres=shard:1", sys.executable, str(IDLE_PROGRAM), str(words))
            for clean_up in (step.stdout.close, step.wait, step.kill):
                self.addCleanup(clean_up)
            self.assertIn('"ready"', step.stdout.readline())
            for number, word in enumerate(("check", "end"), 1):
                away = until("it is away", lambda: next((job for job in self.c.jobs() if job["state"] == "suspended"), None))
                self.assertEqual(away["reason"], "idle", self.c.story())
                until("its context is gone as well", lambda: not any(
                    process["job"] == away["id"] for gpu in self.c.m.api("GET", "/v1/gpus")["gpus"] for process in gpu["processes"]))
                (words / "half").write_text(word)
                (words / "half").rename(words / str(number))
                self.assertIn('"right": true', step.stdout.readline())
            self.assertEqual(step.wait(PATIENCE), 0, self.c.story())

    @contextlib.contextmanager
    def configured(self, more):
        file = pathlib.Path(self.c.m.env["GPUMAN_CONFIG"])
        before = file.read_text()
        self.restart_with(file, before + more)
        try:
            yield
        finally:
            self.restart_with(file, before)

    def restart_with(self, file, text):
        self.c.m.stop_daemon()
        file.write_text(text)
        self.c.m.start_daemon()

    # --- gpumand away ---

    @contextlib.contextmanager
    def gpumand_away(self):
        self.c.m.stop_daemon()
        try:
            yield
        finally:
            self.c.m.start_daemon()

    def test_without_gpumand_a_step_starts_and_says_that_nothing_holds_it(self):
        with self.gpumand_away():
            done = self.srun("-n2", "--gres=shard:2", "echo", "here")
        self.assertEqual((done.returncode, done.stdout), (0, "here\nhere\n"), done.stderr)
        self.assertEqual(done.stderr.count("without limits of its GPU memory"), 1, done.stderr)

    def test_where_gpumand_is_required_nothing_starts_on_a_gpu_without_it(self):
        self.c.plugin("required=yes")
        with self.gpumand_away():
            done = self.srun("--gres=shard:1", "echo", "here")
            self.assertNotEqual(done.returncode, 0)
            self.assertEqual(done.stdout, "")
            self.assertIn("nothing starts on a GPU without gpumand", done.stderr)
            self.assertEqual(self.srun("echo", "here").stdout, "here\n", "it has no GPU")
        self.assertEqual(self.srun("--gres=shard:1", "echo", "here").stdout, "here\n")

    def test_a_gpumand_that_hangs_holds_up_no_step_for_good(self):
        self.c.plugin("timeout=200ms")
        self.c.m.daemon.send_signal(signal.SIGSTOP)
        try:
            done = self.srun("--gres=shard:1", "echo", "here")
        finally:
            self.c.m.daemon.send_signal(signal.SIGCONT)
        self.assertEqual((done.returncode, done.stdout), (0, "here\n"), done.stderr)
        self.assertIn("without limits of its GPU memory", done.stderr)

    def step_that_waits(self):
        """The job's first process is on the GPU early; its second asks for too much once the file `go` exists."""
        go, runs = self.c.dir / "go", self.c.dir / "runs"
        for path in (go, runs):
            self.addCleanup(path.unlink, missing_ok=True)
        script = (f"touch {runs}; {' '.join(load('256MiB'))} >/dev/null; until [ -e {go} ]; do sleep 0.05; done; "
                  f"{' '.join(load('2GiB'))}")
        step = self.c.start("srun", "--gres=shard:1", "sh", "-c", script)
        self.addCleanup(step.communicate)
        self.addCleanup(step.kill)
        return step, go, runs

    def test_a_step_is_held_on_over_a_restart_of_gpumand(self):
        step, go, runs = self.step_that_waits()
        until("it runs", runs.exists)
        before = self.c.jobs()[0]
        self.c.m.stop_daemon(signal.SIGKILL)
        self.c.m.start_daemon()
        after = self.c.job(before["tag"])
        self.assertEqual((after["id"], after["state"]), (before["id"], "running"))
        go.touch()
        self.assertEqual(step.wait(), OUT_OF_MEMORY)
        self.assertEqual(self.c.m.api("GET", f"/v1/jobs/{before['id']}/wait")["state"], "finished")

    def asked(self):
        """How many clients have connected to gpumand's socket, or wait to."""
        socket_path = self.c.m.env["GPUMAN_SOCKET"]
        names = (" " + socket_path, " " + socket_path + ".new")  # the latter: the socket took the place of a stale one
        return sum(line.endswith(names) for line in pathlib.Path("/proc/net/unix").read_text().splitlines()) - 1

    def test_a_step_whose_question_a_killed_gpumand_leaves_unanswered_asks_the_next_one(self):
        self.c.plugin("timeout=60s")
        self.c.m.daemon.send_signal(signal.SIGSTOP)
        try:
            step, go, runs = self.step_that_waits()
            until("it has asked", lambda: self.asked() > 0)
        finally:
            self.c.m.stop_daemon(signal.SIGKILL)
        self.c.m.start_daemon()
        until("it runs", runs.exists)
        go.touch()
        out, _ = step.communicate(timeout=PATIENCE)
        self.assertEqual(step.returncode, OUT_OF_MEMORY, out)
        self.assertNotIn("without limits", out)

    def test_a_step_that_begins_between_a_killed_gpumand_and_the_next_one_waits_for_it(self):
        self.c.plugin("timeout=60s")
        self.c.m.stop_daemon(signal.SIGKILL)
        try:
            step, go, runs = self.step_that_waits()
            until("its process is there", lambda: self.c.ask("squeue", "-h", "-t", "R"))
        finally:
            self.c.m.start_daemon()
        go.touch()
        out, _ = step.communicate(timeout=PATIENCE)
        self.assertEqual(step.returncode, OUT_OF_MEMORY, out)
        self.assertNotIn("without limits", out)

    def test_a_misspelt_word_in_plugstack_is_named(self):
        self.c.plugin("requird=yes")
        done = self.srun("true")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("plugstack.conf: requird", done.stderr)

    # --- what is left ---

    def test_a_process_left_behind_by_a_step_is_ended(self):
        pid_file = self.c.dir / "stray.pid"
        stray = f"setsid sh -c 'echo $$ > {pid_file}; exec {' '.join(load('512MiB', '--hold', '1h'))}' >/dev/null 2>&1 </dev/null &"
        self.srun("--gres=shard:1", "sh", "-c", f"{stray} until [ -s {pid_file} ]; do sleep 0.05; done")
        pid = int(pid_file.read_text())
        until("it is gone", lambda: not pathlib.Path(f"/proc/{pid}").exists() or
              "Z" in pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1][:3])

    def test_the_epilog_ends_what_gpumand_still_holds_of_the_job(self):
        holders = []
        for tag in ("slurm-999999.batch", "slurm-9999990.0"):
            holders.append(self.c.start("sleep", "1000", stdout=subprocess.DEVNULL))
            self.addCleanup(holders[-1].wait)
            self.addCleanup(holders[-1].kill)
            self.c.m.api("POST", "/v1/attachments", {"pid": holders[-1].pid, "tag": tag, "gpus": ["0"]})
        epilog = subprocess.Popen([str(self.c.dir / "epilog")], env={**os.environ, "SLURM_JOB_ID": "999999", "PATIENCE": "0.2"})
        until("it is being ended, or over", lambda: not (job := self.c.job("slurm-999999.batch")) or job["state"] != "running")
        self.assertEqual(self.c.job("slurm-9999990.0")["state"], "running", "another job's")
        holders[0].kill()
        holders[0].wait()
        self.assertEqual(epilog.wait(), 0)
        self.assertIsNone(self.c.job("slurm-999999.batch"))
        holders[1].kill()

    def test_the_epilog_succeeds_without_gpumand(self):
        with self.gpumand_away():
            done = self.c.run(str(self.c.dir / "epilog"), SLURM_JOB_ID="7")
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()

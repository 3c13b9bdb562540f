#!/usr/bin/env python3
"""gpuman submit --to slurm with a real Slurm: what sbatch gets, and how gpuman follows the job, without gpumand.

Usage: submit_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import json
import pathlib
import re
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from cluster import PATIENCE, ClusterCase, program, until  # noqa: E402

GIB = 1 << 30


class SubmitTest(ClusterCase):
    def setUp(self):
        self.dir = self.c.dir / self.id().rpartition(".")[2]
        self.dir.mkdir()
        self.env = {"XDG_STATE_HOME": str(self.dir / "state"), "GPUMAN_SOCKET": "", "XDG_RUNTIME_DIR": str(self.c.dir / "run")}

    def gpuman(self, *words):
        return self.c.run(program("gpuman"), *words, **self.env)

    def variables(self):
        return [f"{name}={value}" for name, value in self.env.items()]

    def submit(self, *words):
        """Submits a job; returns its name, "slurm-7"."""
        done = self.gpuman("submit", "--json", "--to", "slurm", "--directory", str(self.dir), *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["id"]

    def show(self, job):
        done = self.gpuman("job", "show", "--json", job)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def state(self, job):
        return self.show(job)[0]["state"]

    def wait(self, job):
        return self.gpuman("job", "wait", job).returncode

    # --- submitting ---

    def test_a_command_runs_with_its_words_its_directory_and_its_environment(self):
        job = self.submit("--export", "all,GREETING=good day", "--name", "words", "--", "sh", "-c",
                          'echo "$GREETING,$1,$PWD"; exit 7', "sh", "a 'b' $c\n")
        self.assertEqual(self.wait(job), 7)
        self.assertEqual(self.gpuman("job", "log", job).stdout, f"good day,a 'b' $c\n,{self.dir}\n")

    def test_a_clean_environment_has_nothing_of_the_shells(self):
        self.env["SECRET"] = "x"
        job = self.submit("--export", "none,OWN=y", "--", "sh", "-c", 'echo "$SECRET,$OWN"')
        self.assertEqual(self.wait(job), 0)
        self.assertEqual(self.gpuman("job", "log", job).stdout, ",y\n")

    def test_a_script_takes_its_lines_and_arguments(self):
        script = self.dir / "train.sh"
        script.write_text("#!/bin/bash\n# GPUMAN --to slurm --name from-script\n#SBATCH --comment=noted\n"
                          "[[ $# = 2 ]] && echo \"$1|$2|$SLURM_JOB_NAME\"\n")
        done = self.gpuman("submit", "--json", "--directory", str(self.dir), str(script), "x y", "z")
        self.assertEqual(done.returncode, 0, done.stderr)
        job = json.loads(done.stdout)["id"]
        self.assertEqual(self.wait(job), 0)
        self.assertEqual(self.gpuman("job", "log", job).stdout, "x y|z|from-script\n")
        self.assertIn("Comment=noted", self.c.ask("scontrol", "show", "job", job.partition("-")[2]))

    def test_memory_of_a_whole_gpu_is_held_in_the_job(self):
        job = self.submit("--gpus", "1", "--memory", "1GiB", "--", program("gpuman-load"), "--alloc", "2GiB")
        self.assertEqual(self.wait(job), 3, "out of memory")

    def test_a_shared_job_takes_shards_and_the_exact_limit(self):
        job = self.submit("--gpus", "1", "--share", "--memory", "1536MiB", "--", program("gpuman-load"), "--alloc", "1GiB",
                          "--hold", "1h")
        held = until("gpumand has it", lambda: self.c.job(f"{job}.batch"))
        self.assertEqual((held["memory"]["limit"], held["share"]), (3 * GIB // 2, True))
        self.assertEqual(self.show(job)[0]["slurm"]["gres"], "shard:2")

    def test_the_words_of_slurms_refusal_are_told_with_exit_status_six(self):
        done = self.gpuman("submit", "--to", "slurm", "--gpus", "9", "--", "true")
        self.assertEqual(done.returncode, 6)
        self.assertIn("Requested node configuration is not available", done.stderr)

    def test_an_option_that_slurm_lacks_is_refused(self):
        done = self.gpuman("submit", "--to", "slurm", "--gpu", "0", "--", "true")
        self.assertEqual(done.returncode, 6)
        self.assertIn("--gpu: Slurm chooses the GPUs", done.stderr)
        self.assertFalse((self.dir / "state").exists())

    def test_a_dry_run_prints_what_a_shell_could_do_and_does_nothing(self):
        done = self.gpuman("submit", "--to", "slurm", "--dry-run", "--name", "dry", "--output", str(self.dir / "dry.out"), "--",
                           "echo", "it's done")
        self.assertEqual(self.c.ask("squeue", "-h", "-t", "all", "-n", "dry"), "")
        typed = self.c.run("sh", "-c", done.stdout)
        self.assertEqual(typed.returncode, 0, typed.stderr)
        self.assertEqual(self.wait(f"slurm-{typed.stdout.strip()}"), 0)
        self.assertEqual((self.dir / "dry.out").read_text(), "it's done\n")

    def test_gbatch_submits_there_too(self):
        done = self.c.run(program("gbatch"), "--to", "slurm", "--name", "flow", "true", **self.env)
        self.assertRegex(done.stdout, r"^Submitted batch job slurm-\d+ \(flow\)$")

    def test_a_machine_without_sbatch_says_so(self):
        done = self.c.run(program("gpuman"), "submit", "--to", "slurm", "--", "true", **self.env, PATH="/nonexistent")
        self.assertEqual(done.returncode, 3)
        self.assertIn("there is no sbatch in PATH", done.stderr)

    # --- following ---

    def test_submit_wait_shows_the_output_and_exits_as_the_job_does(self):
        done = self.gpuman("submit", "--to", "slurm", "--wait", "--directory", str(self.dir), "--", "sh", "-c",
                           "echo one; echo two; exit 5")
        self.assertEqual((done.returncode, done.stdout), (5, "one\ntwo\n"), done.stderr)

    def test_ctrl_c_goes_to_the_job(self):
        script = 'trap "echo caught; exit 4" INT; echo ready; while :; do sleep 0.05; done'
        waiter = self.c.start("env", *self.variables(), program("gpuman"), "submit", "--to", "slurm", "--wait", "--directory",
                              str(self.dir), "--", "sh", "-c", script)
        self.addCleanup(waiter.wait)
        self.addCleanup(waiter.kill)
        self.assertEqual(waiter.stdout.readline(), "ready\n")
        waiter.send_signal(signal.SIGINT)
        out, _ = waiter.communicate(timeout=PATIENCE)
        self.assertEqual(waiter.returncode, 4, out)
        self.assertIn("caught\n", out)
        self.assertIn("passed SIGINT on to slurm-", out)

    def test_a_job_that_a_signal_ended_is_told_by_it(self):
        job = self.submit("--", "sh", "-c", "kill -KILL $$")
        self.assertEqual(self.wait(job), 128 + signal.SIGKILL)
        ended = self.show(job)[0]
        self.assertEqual((ended["state"], ended["signal"], ended["exit_code"]), ("failed", signal.SIGKILL, None))

    def test_the_log_is_followed_until_the_end(self):
        go = self.dir / "go"
        job = self.submit("--", "sh", "-c", f"echo first; until [ -e {go} ]; do sleep 0.05; done; echo last")
        follower = self.c.start("env", *self.variables(), program("gpuman"), "job", "log", "-f", job)
        self.addCleanup(follower.wait)
        self.addCleanup(follower.kill)
        self.assertEqual(follower.stdout.readline(), "first\n")
        go.touch()
        self.assertEqual(follower.communicate(timeout=PATIENCE)[0], "last\n")
        self.assertEqual(follower.returncode, 0)
        self.assertEqual(self.gpuman("job", "log", "--last", "1", job).stdout, "last\n")
        self.assertEqual(self.gpuman("job", "log", "--first", "1", job).stdout, "first\n")

    def test_the_queue_has_it_and_starts_no_daemon(self):
        job = self.submit("--name", "listed", "--", "sleep", "1000")
        until("it runs", lambda: self.state(job) == "running")
        table = self.gpuman("queue")
        self.assertEqual(table.returncode, 0, table.stderr)
        self.assertRegex(table.stdout, rf"(?s)In Slurm:\n.*{job} +listed +R ")
        listed = json.loads(self.gpuman("queue", "--json").stdout)
        self.assertEqual(([one["id"] for one in listed["slurm"]], listed["jobs"]), ([job], []))
        self.assertFalse((self.c.dir / "run").exists(), "a daemon was started")
        self.assertEqual(self.gpuman("cancel", job).returncode, 0)
        self.assertEqual(self.wait(job), 128 + signal.SIGTERM)
        self.assertEqual(self.gpuman("queue").stdout, "No jobs.\n")

    def test_cancel_takes_out_what_waits_and_knows_what_has_ended_and_what_never_was(self):
        job = self.submit("--hold", "--", "true")
        self.assertEqual(self.state(job), "held")
        self.assertEqual(self.gpuman("cancel", "--dry-run", job).stdout, f"{job}\tHold\tok\n")
        self.assertEqual(self.gpuman("cancel", job).stdout, f"Job {job} cancelled.\n")
        self.assertEqual(self.state(job), "cancelled")
        again = self.gpuman("cancel", job, "slurm-999999")
        self.assertEqual(again.returncode, 4)
        self.assertIn("it has ended", again.stderr)
        self.assertIn("Slurm does not know slurm-999999", again.stderr)

    def test_a_held_job_waits_until_it_is_released(self):
        job = self.submit("--", "sleep", "1000")
        until("it runs", lambda: self.state(job) == "running")
        self.assertEqual(self.gpuman("job", "hold", job).returncode, 1, "it runs")
        held = self.submit("--hold", "--", "true")
        self.assertEqual(self.gpuman("job", "hold", held).returncode, 0)
        self.assertEqual(self.gpuman("job", "release", held).returncode, 0)
        self.assertEqual(self.wait(held), 0)

    def test_each_task_of_an_array_has_its_index_its_log_and_its_end(self):
        job = self.submit("--array", "0-4:2%1", "--", "sh", "-c", "echo task $GPUMAN_ARRAY_TASK_ID; exit $GPUMAN_ARRAY_TASK_ID")
        self.assertEqual(self.wait(job), 4, "the worst of them")
        self.assertEqual(self.wait(f"{job}_2"), 2)
        self.assertEqual(self.gpuman("job", "log", f"{job}_4").stdout, "task 4\n")
        self.assertEqual(self.gpuman("job", "log", job).stdout, "task 0\n")
        self.assertEqual({one["id"] for one in self.show(job)}, {f"{job}_{index}" for index in (0, 2, 4)})

    def test_a_job_waits_for_another_by_its_id_or_its_name(self):
        go = self.dir / "go"
        first = self.submit("--name", "first", "--", "sh", "-c", f"until [ -e {go} ]; do sleep 0.05; done; exit 1")
        second = self.submit("--depends", "afternotok:first", "--", "true")
        third = self.submit("--depends", first, "--", "true")
        until("Slurm says why it waits", lambda: self.show(second)[0]["reason"] == "dependency")
        go.touch()
        self.assertEqual(self.wait(second), 0)
        self.wait(third)
        self.assertEqual(self.state(third), "cancelled", "its dependency cannot come true")

    def test_a_dependency_that_slurm_does_not_know_is_refused(self):
        done = self.gpuman("submit", "--to", "slurm", "--depends", "slurm-999999", "--", "true")
        self.assertEqual(done.returncode, 4)
        self.assertIn("Slurm does not know slurm-999999", done.stderr)

    def test_retries_run_a_command_again(self):
        job = self.submit("--retries", "2", "--", "sh", "-c", "echo run; exit 9")
        self.assertEqual(self.wait(job), 9)
        self.assertEqual(self.gpuman("job", "log", job).stdout, "run\n" * 3)

    def test_a_job_that_slurm_forgot_is_shown_from_the_record(self):
        job = self.submit("--name", "old", "--", "sh", "-c", "exit 6")
        self.assertEqual(self.wait(job), 6)
        record = self.dir / "state" / "gpuman" / "slurm.jsonl"
        kept = json.loads(record.read_text())
        # An id that this Slurm never gave looks like one that it gave long ago.
        gone = {**kept, "id": 888888}
        lost = {**kept, "id": 777777, "ended": None}
        record.write_text("".join(json.dumps(one) + "\n" for one in (gone, lost)))
        self.assertEqual(self.wait("slurm-888888"), 6)
        done = self.gpuman("job", "wait", "slurm-777777")
        self.assertEqual((done.returncode, done.stdout),
                         (1, "job slurm-777777 'old' has ended: n/a, Slurm no longer says how\n"), done.stderr)
        self.assertIsNone(self.show("slurm-777777")[0]["state"])
        listed = self.gpuman("queue", "-a")
        self.assertEqual(re.findall(r"slurm-\d+", listed.stdout), ["slurm-888888", "slurm-777777"], listed.stderr)


if __name__ == "__main__":
    unittest.main()

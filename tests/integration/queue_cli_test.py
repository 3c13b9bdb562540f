#!/usr/bin/env python3
"""The queue's commands as a user types them, with a daemon on the simulated driver (2 GPUs).

Usage: queue_cli_test.py [UNITTEST ARGUMENTS]
"""

import json
import os
import pathlib
import pty
import select
import signal
import sys
import subprocess
import time
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))

from daemon_case import DaemonTest, PATIENCE, until  # noqa: E402
from machine import program  # noqa: E402


class QueueCliTest(DaemonTest):
    profile, gpus = "rtx4050", 2

    def tearDown(self):
        (self.m.dir / "go").touch()
        for job in self.request("GET", "/v1/queue").json()["jobs"]:
            self.request("POST", f"/v1/jobs/{job['id']}/cancel")
        super().tearDown()
        (self.m.dir / "go").unlink()

    def gpuman(self, *arguments, status=0, **options):
        if "input" not in options:
            options["stdin"] = subprocess.DEVNULL
        done = self.m.run(*arguments, timeout=PATIENCE, cwd=self.m.dir, **options)
        self.assertEqual(done.returncode, status, f"gpuman {arguments}: {done.stdout}{done.stderr}")
        return done.stdout if status == 0 else done.stderr

    def submit(self, *arguments, **options):
        return json.loads(self.gpuman("submit", "--json", *arguments, **options))

    def until_gone_on(self):
        return f"while [ ! -e {self.m.dir / 'go'} ]; do sleep 0.05; done"

    def wait_for(self, job, *states):
        return until(f"job {job} is {states}", lambda: (now := self.job(job))["state"] in states and now)

    def test_a_command_runs_when_its_gpus_are_free(self):
        first = self.submit("--gpus", "2", "--name", "first", "sh", "-c", self.until_gone_on())
        second = self.submit("--gpus", "1", "--name", "second", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
        self.wait_for(first["id"], "running")
        self.assertEqual((second["state"], second["reason"]), ("queued", "resources"))
        shown = self.gpuman("queue")
        self.assertRegex(shown, r"first .* running .* 0,1 ")
        self.assertRegex(shown, r"second .* queued .*\(resources\)")
        (self.m.dir / "go").touch()
        self.assertIn("finished", self.gpuman("job", "wait", "second"))
        self.assertRegex(self.gpuman("job", "log", "second"), r"^GPU-[0-9a-f-]+\n$")

    def test_wait_shows_the_output_and_exits_as_the_job_does(self):
        quiet = {"timeout": PATIENCE, "stdin": subprocess.DEVNULL}
        done = self.m.run("submit", "--wait", "--gpus", "1", "--", "sh", "-c", "echo hello; exit 7", **quiet)
        self.assertEqual((done.returncode, done.stdout), (7, "hello\n"), done.stderr)
        done = self.m.run("run", "--gpus", "1", "--", "sh", "-c", "echo hi; kill -9 $$", **quiet)
        self.assertEqual((done.returncode, done.stdout), (137, "hi\n"), done.stderr)

    def test_scripts_from_files_and_standard_input(self):
        script = self.m.dir / "job.sh"
        script.write_text("#!/bin/sh\n# GPUMAN --gpus 1 --name scripted\necho \"$1 on $CUDA_VISIBLE_DEVICES\"\n")
        self.submit(str(script), "argument")
        script.write_text("#!/bin/sh\nexit 1\n")  # a change after the submission has no effect
        self.gpuman("job", "wait", "scripted")
        self.assertRegex(self.gpuman("job", "log", "scripted"), r"^argument on GPU-")
        job = json.loads(self.gpuman("submit", "--json", "--name", "piped", input="echo from a pipe\n"))
        self.gpuman("job", "wait", str(job["id"]))
        self.assertEqual(self.gpuman("job", "log", "piped"), "from a pipe\n")
        script.write_text("# GPUMAN --gpsu 1\ntrue\n")
        self.assertIn(f"{script}:1: unknown option '--gpsu'", self.gpuman("submit", str(script), status=2))

    def test_a_script_for_slurm_is_read_as_slurm_means_it(self):
        script = self.m.dir / "slurm.sh"
        script.write_text("#!/bin/bash\n#SBATCH --job-name=slurmish --gres=gpu:1 --time=30 --partition=gpu\n"
                          "#SBATCH --array=1-2\necho \"$SLURM_ARRAY_TASK_ID on $CUDA_VISIBLE_DEVICES\"\n")
        done = self.m.run("submit", str(script))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("read from its #SBATCH lines: --job-name=slurmish --gres=gpu:1 --time=30 --array=1-2", done.stderr)
        self.assertIn("not read, since gpuman has nothing like it: --partition=gpu", done.stderr)
        self.gpuman("job", "wait", "slurmish")
        job = json.loads(self.gpuman("job", "show", "slurmish", "--json").splitlines()[0])
        self.assertEqual((job["queue"]["gpus"]["count"], job["queue"]["time_limit_s"]), (1, 1800))
        self.assertRegex(self.gpuman("job", "log", f"{job['queue']['array_id']}_2"), r"^2 on GPU-")
        script.write_text("#!/bin/bash\n#SBATCH --mem=1G\ntrue\n")
        self.assertIn("asks for no GPU, so the job gets none", self.m.run("submit", str(script)).stderr)
        script.write_text("#!/bin/bash\n#SBATCH --time=soon\ntrue\n")
        self.assertIn(f"{script}:2: --time: 'soon'", self.gpuman("submit", str(script), status=2))

    def test_arrays_sweeps_and_files_of_jobs(self):
        array = self.submit("--array", "0-4:2", "--gpus", "1", "--name", "array", "sh", "-c",
                            "echo $GPUMAN_ARRAY_TASK_ID of $GPUMAN_ARRAY_JOB_ID")
        self.assertEqual(len(array["tasks"]), 3)
        for task, index in zip(array["tasks"], (0, 2, 4)):
            self.wait_for(task, "finished")
            self.assertEqual(self.gpuman("job", "log", f"{array['id']}_{index}"), f"{index} of {array['id']}\n")
        sweep = self.submit("--param", "x=1:2", "--param", "y=a,b", "--name-template", "s-{x}-{y}",
                            "echo", "{x}", "{y}", "${x}")
        self.assertEqual([job["tag"] for job in sweep["jobs"]], ["s-1-a", "s-1-b", "s-2-a", "s-2-b"])
        self.wait_for("s-2-a", "finished")
        self.assertEqual(self.gpuman("job", "log", "s-2-a"), "2 a ${x}\n")
        jobs = self.m.dir / "jobs"
        jobs.write_text("--name one -- true\n--name two --depends one -- echo 'a b'\n")
        self.submit("--jobs", str(jobs))
        self.wait_for("two", "finished")
        self.assertEqual(self.gpuman("job", "log", "two"), "a b\n")
        jobs.write_text("--name three -- true\n--name four --gpus 99 -- true\n")
        self.gpuman("submit", "--jobs", str(jobs), status=6)
        self.gpuman("job", "show", "three", status=4)

    def test_a_dry_run_names_jobs_by_name_or_line_and_not_by_ids_that_they_will_not_have(self):
        jobs = self.m.dir / "jobs"
        jobs.write_text("true\n--name eval --depends @ -- true\n--depends eval -- true\n")
        self.assertEqual(self.gpuman("submit", "--dry-run", "--jobs", str(jobs)),
                         f"the job of {jobs}:1 would start at once\n"
                         f"job 'eval' would be queued: waits for the job of {jobs}:1 to finish\n"
                         f"the job of {jobs}:3 would be queued: waits for job 'eval' to finish\n")
        self.assertEqual(self.gpuman("submit", "--dry-run", "--", "true"), "the job would start at once\n")
        self.assertEqual(self.submit("--dry-run", "--", "true")["tag"], "")

    def test_jobs_are_held_changed_and_cancelled(self):
        job = str(self.submit("--hold", "--gpus", "1", "--name", "held", "true")["id"])
        self.assertRegex(self.gpuman("queue", "-f", "JOBID,ST,NODELIST"), rf"\n{job} +H +\(held_by_user\)")
        self.gpuman("job", "update", job, "--gpus", "2", "--time", "90s", "--priority", "200")
        shown = self.job(job)
        queue = shown["queue"]
        self.assertEqual((queue["gpus"]["count"], queue["time_limit_s"], shown["priority"]), (2, 90, 200))
        self.gpuman("job", "release", job)
        self.wait_for(job, "finished")
        again = json.loads(self.gpuman("job", "redo", job, "--gpus", "1", "--json"))
        self.assertNotEqual(again["id"], int(job))
        self.assertEqual(self.wait_for(again["id"], "finished")["queue"]["gpus"]["count"], 1)
        waiting = [str(self.submit("--hold", "true")["id"]) for _ in range(3)]
        self.assertEqual(self.gpuman("cancel", f"{waiting[0]}-{waiting[2]}"),
                         "".join(f"Job {job} cancelled.\n" for job in waiting))
        self.gpuman("cancel", "nothing", status=4)

    def test_warning_group_and_notifications_are_shown_and_changed_while_the_job_waits(self):
        job = str(self.submit("--hold", "--time", "1h", "--warn", "TERM@5m", "--group", "mine", "--max-concurrent", "2",
                              "--no-auto-cancel", "--notify-mail", "ada@example.org", "--notify-on", "failed,timeout", "true")["id"])
        text = self.gpuman("job", "show", job)
        for line in ("Warn signal +TERM", "Warn before +5m", "Group +mine", "At once +2", "Auto cancel +no",
                     "Notify +ada@example.org of failed, timeout"):
            self.assertRegex(text, rf"(?m)^{line}$")
        self.gpuman("job", "update", job, "--warn", "90s", "--group", "other", "--auto-cancel", "--notify-mail", "bob@example.org",
                    "--notify-mail", "carol@example.org")
        asked = self.job(job)["queue"]["asked"]
        self.assertEqual(asked["notify"], {"mails": ["bob@example.org", "carol@example.org"], "on": ["failed", "timeout"]})
        self.assertEqual([asked.get(name) for name in ("warn_signal", "warn_before_s", "group", "max_concurrent", "auto_cancel")],
                         ["USR1", 90, "other", 2, None])
        self.gpuman("job", "update", job, "--warn", "none", "--group", "none", "--notify-on", "none", "--notify-mail", "none")
        self.assertEqual(self.job(job)["queue"]["asked"], {"time_limit_s": 3600})
        self.assertIn("gpuman: --notify-on: there is nobody to tell", self.gpuman("job", "update", job, "--notify-on", "all", status=2))
        self.assertIn("gpuman: --warn: 1h00m before the end is not after the start",
                      self.gpuman("job", "update", job, "--warn", "1h", status=2))
        self.assertIn("--notify-on: 'ended' is none of started, ", self.gpuman("job", "update", job, "--notify-on", "ended", status=2))
        self.gpuman("cancel", job)

    def test_a_repeated_hold_or_release_is_no_failure(self):
        array = self.submit("--hold", "--array", "0-2", "--begin", "now+2h", "true")
        job = str(array["id"])
        for words, says in ((("hold", job), "is held already"), (("release", f"{job}_1"), None),
                            (("hold", job), None), (("release", job), None), (("release", job), "is not held")):
            done = self.m.run("job", *words)
            self.assertEqual((done.returncode, done.stderr), (0, f"gpuman: job {job} {says}\n" if says else ""), words)
            self.assertIn(f"is {'held' if words[0] == 'hold' else 'queued'}", done.stdout)
        self.assertEqual([self.job(task)["state"] for task in array["tasks"]], ["queued"] * 3)

    def test_a_task_is_named_by_the_arrays_name(self):
        array = self.submit("--hold", "--array", "0-3", "--name", "arr", "true")
        self.assertIn("cancelled", self.gpuman("cancel", "arr_2"))
        self.assertEqual([self.job(task)["state"] for task in array["tasks"]], ["held", "held", "cancelled", "held"])
        self.gpuman("cancel", "arr_7", status=4)
        self.assertIn("3 tasks", self.gpuman("cancel", "arr"), "the task that has ended is no failure")
        self.gpuman("cancel", "arr", status=1)

    def test_a_sweep_is_named_as_status_shows_it(self):
        values = ["--hold", "--param", "lr=1,2,3", "--", "echo", "{lr}"]
        ids = [job["id"] for job in self.submit("--name", "lr", *values)["jobs"]]
        alone = self.submit("--hold", "--name", "lr-x", "true")["id"]
        self.assertRegex(self.gpuman("status"), rf"{ids[0]}-{ids[2]} +lr-\* \(3\) .* echo …\n")
        self.assertEqual(self.gpuman("why", "lr-*").count("submitted on hold"), 3)
        self.assertEqual(self.gpuman("job", "show", "lr-*").count("lr-"), 3)
        self.assertEqual(self.gpuman("queue", "--jobs", "lr-*").count("lr-"), 3)
        self.assertIn("the jobs of the sweep are named 'lr-*'", self.gpuman("cancel", "lr", status=4))
        again = [job["id"] for job in self.submit("--name", "lr", *values)["jobs"]]
        self.assertIn(f"2 submissions have jobs named 'lr-*': {ids[0]}-{ids[2]}; {again[0]}-{again[2]}",
                      self.gpuman("cancel", "lr-*", status=1))
        self.gpuman("cancel", f"{again[0]}-{again[2]}")
        self.gpuman("update", "lr-*", "--priority", "7")
        self.assertEqual([self.job(job)["priority"] for job in ids + [alone]], [7, 7, 7, 128])
        self.gpuman("job", "release", "lr-*")
        for job in ids:
            self.wait_for(job, "finished")
        self.gpuman("cancel", "lr-*", status=1)
        self.assertIn("no jobs were submitted together as 'lx-*'", self.gpuman("cancel", "lx-*", status=4))
        self.assertEqual(self.job(alone)["state"], "held")

    def test_a_job_waits_for_all_of_a_sweep_by_its_name(self):
        ids = [job["id"] for job in self.submit("--hold", "--name", "lr", "--param", "lr=1,2,3", "--", "echo", "{lr}")["jobs"]]
        self.gpuman("job", "release", str(ids[0]))
        self.wait_for(ids[0], "finished")
        after = self.submit("--depends", "afterok:lr-*", "true")["id"]
        self.assertEqual([[one["kind"], one["job"]] for one in self.job(after)["queue"]["depends"]["list"]],
                         [["afterok", str(job)] for job in ids], "also for the one that has ended")
        later = self.submit("--hold", "--depends-any", f"{after},lr-*", "true")["id"]
        self.assertEqual([one["job"] for one in self.job(later)["queue"]["depends"]["list"]], [str(job) for job in [after, *ids]])
        self.gpuman("job", "update", str(later), "--depends", "afterany:lr-*")
        self.assertEqual([one["kind"] for one in self.job(later)["queue"]["depends"]["list"]], ["afterany"] * 3)
        done = self.m.run("submit", "--depends", "afterok:lx-*", "--", "true")
        self.assertEqual(done.returncode, 4)
        self.assertIn("no jobs were submitted together as 'lx-*'", done.stderr)
        self.assertIn("`gpuman status` shows the names of sweeps", done.stderr)
        self.gpuman("cancel", "lr-*")
        self.wait_for(after, "cancelled")

    def test_a_name_that_several_have_ends_none_of_them(self):
        ids = [str(self.submit("--hold", "--name", "twin", "true")["id"]) for _ in range(2)]
        for words in (["cancel", "twin"], ["cancel", "twin", "--dry-run"], ["remove", "twin"], ["job", "release", "twin"],
                      ["job", "update", "twin", "--priority", "1"]):
            said = self.gpuman(*words, status=1)
            self.assertIn(f"2 jobs that have not ended are named 'twin': {', '.join(ids)}", said, words)
        self.assertEqual([self.job(job)["state"] for job in ids], ["held", "held"])
        self.assertEqual(self.job("twin")["id"], int(ids[1]), "who only looks sees the newest")
        self.gpuman("cancel", ids[0])
        self.gpuman("cancel", "twin")
        self.assertEqual(self.job(ids[1])["state"], "cancelled")

    def test_a_name_that_several_have_means_the_newest_and_that_is_said(self):
        ids = [self.submit("--name", "again", "true")["id"] for _ in range(3)]
        for job in ids:
            self.wait_for(job, "finished")
        note = f"gpuman: 3 jobs are called 'again'; this is the newest, job {ids[2]}; give the id for another\n"
        for words in (("job", "show", "again"), ("logs", "again"), ("job", "log", "again"), ("why", "again"), ("history", "again"),
                      ("job", "wait", "again"), ("queue", "--jobs", "again", "--all"), ("job", "redo", "again"),
                      ("submit", "--gpus", "0", "--hold", "--depends", "afterany:again", "true")):
            done = self.m.run(*words)
            self.assertEqual((done.returncode, done.stderr), (0, note), words)
            if words[1] == "redo":
                self.wait_for(ids[2] + 1, "finished")
                note = note.replace("3 jobs", "4 jobs")
                note = note.replace(f"the newest, job {ids[2]}", f"the newest, job {ids[2] + 1}")
        self.assertIn(f'"id":{ids[2] + 1}', self.m.run("job", "show", "again", "--json").stdout)
        self.assertEqual(self.m.run("job", "show", "again", "--json").stderr, "", "programs get no sentences")
        for words in (("job", "show", str(ids[0])), ("why", str(ids[0]))):
            self.assertEqual(self.m.run(*words).stderr, "")
        last = self.submit("--hold", "--name", "again", "true")["id"]
        self.submit("--name", "again", "--depends", f"afterany:{ids[0]}", "sleep", "600")
        self.wait_for(last + 1, "running")
        self.gpuman("job", "release", "again", status=1)
        self.gpuman("cancel", str(last + 1))
        self.wait_for(last + 1, "cancelled")
        done = self.m.run("job", "release", "again")
        self.assertEqual(done.stderr, f"gpuman: 6 jobs are called 'again'; this is the newest that has not ended, job {last}; "
                                      "give the id for another\n")

    def test_a_hint_names_a_job_by_its_id_where_another_has_its_name(self):
        for name in ("mine", "ours"):
            self.assertEqual(self.m.run("run", "--detach", "--tag", name, "--", "false").returncode, 0)
            self.gpuman("job", "wait", name, status=1)
        job = self.job("ours")["id"]
        self.assertIn("`gpuman logs mine`", self.gpuman("why", "mine"))
        self.assertIn("gpuman restart ours starts it again", self.gpuman("suspend", "ours", status=1))
        self.submit("--hold", "--name", "ours", "true")
        self.assertIn(f"`gpuman logs {job}`", self.gpuman("why", str(job)))
        self.assertIn(f"gpuman restart {job} starts it again", self.gpuman("suspend", str(job), status=1))

    def test_a_dry_run_of_cancel_names_the_whole_chain(self):
        first = self.submit("--hold", "true")["id"]
        second = self.submit("--depends", str(first), "true")["id"]
        third = self.submit("--depends", str(second), "true")["id"]
        kept = self.submit("--depends", str(third), "--no-auto-cancel", "true")["id"]
        self.submit("--depends", str(kept), "true")
        said = json.loads(self.gpuman("cancel", str(first), "--dry-run", "--json"))
        self.assertEqual([job["id"] for job in said["jobs"]], [first])
        self.assertEqual([(job["id"], job["depends_on"], job["would_cancel"]) for job in said["dependents"]],
                         [(second, str(first), True), (third, str(second), True), (kept, str(third), False)])
        self.assertIn(f"{third}\tQueued\tblocked\t{second}\n", self.gpuman("cancel", str(first), "--dry-run"))
        self.assertEqual(self.job(first)["state"], "held")
        said = json.loads(self.gpuman("cancel", str(first), "--json"))
        self.assertEqual([(job["id"], job["depends_on"], job["cancelled"]) for job in said["dependents"]],
                         [(second, first, True), (third, second, True), (kept, third, False)])
        self.wait_for(third, "cancelled")

    def test_a_start_that_nobody_can_know_is_no_time_of_day(self):
        self.submit("--gpus", "2", "sh", "-c", self.until_gone_on())
        waits = self.gpuman("submit", "--gpus", "1", "true")
        self.assertRegex(waits, r"expected start: ~(today|tomorrow) \(a guess: .*--time")
        self.assertRegex(self.gpuman("queue"), r"~(today|tomorrow)")
        job = next(one["id"] for one in json.loads(self.gpuman("queue", "--json"))["jobs"] if one["state"] == "queued")
        self.assertRegex(self.gpuman("job", "show", str(job)), r"Expected start +~(today|tomorrow) \(a guess: .*--time")
        self.assertRegex(self.gpuman("queue", "-o", "csv"), rf"(?m)^{job},.*Z,true$")
        (self.m.dir / "go").touch()

    def test_status_shows_what_waits_together_as_one_line(self):
        array = self.submit("--hold", "--array", "0-29", "--name", "arr", "true")
        self.submit("--hold", "--param", "x=1:20", "--name", "sweep", "echo", "{x}")
        shown = self.gpuman("status")
        self.assertIn(f"{array['tasks'][0]}-{array['tasks'][-1]}  arr (30)", shown)
        self.assertIn("sweep-* (20)", shown)
        self.assertEqual(shown.count("held (held_by_user)"), 2, shown)
        self.assertEqual(shown.count("submitted on hold"), 2, "why they wait as well")

    def test_hours_of_quotas_are_shown_as_they_were_given(self):
        for project, hours in (("tiny", "0.01"), ("near", "100.06"), ("vast", "1000000")):
            self.gpuman("quota", "set", "--project", project, "--gpu-hours", hours)
            self.assertRegex(self.gpuman("quota", "list"), rf"(?m)^project +{project} .* 0/{hours} ")
            self.gpuman("quota", "remove", "--project", project)

    def test_a_job_that_may_use_all_gpus_has_them_in_the_queue_too(self):
        self.assertEqual(self.m.run("run", "--detach", "--tag", "wide", "--memory", "1GiB", "--", "sleep", "1000").returncode, 0)
        self.assertEqual(self.m.run("run", "--detach", "--tag", "narrow", "--gpu", "1", "--", "sleep", "1000").returncode, 0)
        shown = self.gpuman("queue", "--format", "NAME,GPUS,NODELIST(REASON)")
        self.assertRegex(shown, r"(?m)^wide +2 +0,1$")
        self.assertRegex(shown, r"(?m)^narrow +1 +1$")
        self.assertRegex(self.gpuman("queue"), r"(?m)^\d+ +wide .* 2 +0,1 ")

    def test_a_quota_of_a_user_that_nobody_knows_is_remarked(self):
        done = self.m.run("quota", "set", "--user", "nosuchuser", "--gpus", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("this machine knows no user nosuchuser", done.stderr)
        self.gpuman("quota", "remove", "--user", "nosuchuser")

    def test_a_job_that_can_never_run_is_refused(self):
        self.assertIn("2", self.gpuman("submit", "--gpus", "3", "true", status=6))
        self.gpuman("submit", "--depends", "no-such-job", "true", status=4)
        refused = lambda *words, status=6: self.gpuman("submit", *words, "true", status=status)  # noqa: E731
        self.assertRegex(refused("--gpus", "1", "--gpu-model", "A100"),
                         "--gpu-model: no GPU of this machine has 'A100' in its name; it has NVIDIA GeForce RTX 4050")
        self.assertRegex(refused("--gpus", "1", "--memory", "100GiB"),
                         "--memory: it asks for 100GiB on each GPU; the largest of this machine has [0-9.]+GiB for jobs")
        self.assertRegex(refused("--gpu", "1", "--gpu-free", "7GiB"), "--gpu-free: it asks for 7GiB .* that it names has")
        self.assertIn("--gpu-model: it says which GPUs, and nothing says how many; give --gpus",
                      refused("--gpu-model", "rtx", status=2))
        self.assertIn("--memory: it limits the memory of GPUs, and the job asks for none; give --gpus",
                      refused("--memory", "1GiB", status=2))
        self.assertRegex(self.gpuman("submit", "--dry-run", "--gpus", "1", "true"), "would start at once on GPU [01]")
        self.assertEqual(json.loads(self.gpuman("queue", "--json"))["jobs"], [])

    def test_lists_come_in_each_form(self):
        self.submit("--hold", "--name", "one", "--project", "p", "true")
        self.assertIn("one,", self.gpuman("queue", "-o", "csv").splitlines()[1])
        self.assertIn('name: "one"', self.gpuman("queue", "-o", "yaml"))
        self.assertEqual(json.loads(self.gpuman("queue", "--json", "-P", "p"))["jobs"][0]["tag"], "one")
        self.assertEqual(self.gpuman("queue", "-P", "other"), "No jobs.\n")

    def test_gpus_quotas_and_reservations(self):
        self.assertIn("The queue uses only GPU 0.", self.gpuman("gpu", "restrict", "1"))
        self.assertIn("restricted", self.gpuman("info"))
        self.gpuman("gpu", "allow", "all")
        self.assertNotIn("restricted", self.gpuman("info"))
        self.gpuman("quota", "set", "--project", "small", "--running-jobs", "1")
        self.submit("--project", "small", "sh", "-c", self.until_gone_on())
        job = self.submit("--project", "small", "true")
        self.assertEqual(job["reason"], "quota")
        self.gpuman("quota", "remove", "--project", "small")
        self.wait_for(job["id"], "finished")
        made = json.loads(self.gpuman("reserve", "create", "--user", "nobody", "--gpus", "1", "--start",
                                      "2031-01-01T10:00Z", "--duration", "2h", "--json"))
        self.assertEqual(made["end"], "2031-01-01T12:00:00.000Z")
        self.assertIn("nobody", self.gpuman("reserve", "list"))
        self.gpuman("reserve", "cancel", str(made["id"]))
        self.assertRegex(self.gpuman("stats"), r"^USER .* FAIR\n")
        self.gpuman("quota", "set", "--project", "small", "--shares", "3")
        job = self.submit("--project", "small", "--hold", "true")
        rows = json.loads(self.gpuman("stats", "--by", "project", "--json"))["rows"]
        parts = {row["name"]: row["fair_share"]["entitled"] for row in rows}
        self.assertEqual(parts["small"], max(parts.values()))
        self.assertIn("In front  ", self.gpuman("job", "show", str(job["id"])))
        self.gpuman("quota", "remove", "--project", "small")

    def test_an_array_is_shown_and_waited_for_as_a_whole(self):
        array = self.submit("--array", "0-2", "--", "sh", "-c", f"[ $GPUMAN_ARRAY_TASK_ID = 0 ] || {{ {self.until_gone_on()}; }}; exit $GPUMAN_ARRAY_TASK_ID")
        self.wait_for(array["id"], "finished")
        waits = self.m.popen("job", "wait", str(array["id"]), stdout=subprocess.PIPE, text=True)
        self.assertIn(f"job {array['id']} ", waits.stdout.readline())
        self.becomes(array["tasks"][2], "running")
        (self.m.dir / "go").touch()
        told, _ = waits.communicate(timeout=PATIENCE)
        self.assertEqual((waits.returncode, len(told.splitlines())), (2, 2))
        shown = self.gpuman("job", "show", str(array["id"]))
        self.assertEqual(shown.count("\nName "), 3)
        self.assertEqual(self.gpuman("job", "show", f"{array['id']}_1").count("Name "), 1)
        self.gpuman("job", "wait", f"{array['id']}_1", status=1)

    def test_run_refuses_a_name_that_is_taken_in_the_queue_as_well(self):
        first = self.submit("--name", "taken", "--hold", "true")
        for words in (["--gpus", "1"], []):
            said = self.gpuman("run", *words, "--tag", "taken", "--", "true", status=1)
            self.assertIn(f"the tag taken is taken by job {first['id']}, which is held", said)
        second = self.submit("--name", "taken", "--hold", "true")
        said = self.gpuman("cancel", "taken", status=1)
        self.assertIn("say which by its id", said)
        self.gpuman("cancel", str(first["id"]), str(second["id"]))
        self.gpuman("run", "--gpus", "1", "--tag", "taken", "--", "true")

    def test_refusals_speak_of_what_was_typed(self):
        self.assertIn("--time: it is zero", self.gpuman("submit", "--time", "0", "true", status=2))
        self.assertIn("--memory: ", self.gpuman("submit", "--share", "--gpus", "1", "true", status=2))
        jobs = self.m.dir / "jobs.txt"
        jobs.write_text("# two\n--gpus 1 -- true\n\n--gpus 3 -- true\n")
        self.assertIn(f"{jobs}:4: --gpus: it asks for 3 GPUs", self.gpuman("submit", "--jobs", str(jobs), status=6))
        script = self.m.dir / "many.sh"
        script.write_text("#!/bin/bash\n# GPUMAN --gpus 1\n# GPUMAN --cpus 100000\ntrue\n")
        self.assertIn(f"{script}:3: --cpus: it asks for 100000 processors", self.gpuman("submit", str(script), status=6))
        self.assertIn("gpuman: --cpus: it asks for 200000", self.gpuman("submit", "--cpus", "200000", str(script), status=6))
        jobs.write_text("true\n--depends nosuch -- true\n")
        self.assertIn(f"{jobs}:2: ", self.gpuman("submit", "--jobs", str(jobs), status=4))
        ended = str(self.submit("true")["id"])
        self.wait_for(ended, "finished")
        for word in ("cancel", "hold", "release"):
            command = [word] if word == "cancel" else ["job", word]
            self.assertIn("has ended: it is finished", self.gpuman(*command, ended, status=1))

    def test_refusals_of_changes_and_reservations_speak_of_what_was_typed(self):
        job = str(self.submit("--hold", "--gpus", "1", "true")["id"])
        self.assertIn("gpuman: --gpus: it asks for 9 GPUs", self.gpuman("job", "update", job, "--gpus", "9", status=6))
        self.assertIn("gpuman: --gpu: no GPU 7", self.gpuman("job", "update", job, "--gpu", "7", status=4))
        self.assertIn("gpuman: --name: it is empty", self.gpuman("job", "update", job, "--name", "", status=2))
        self.assertIn("gpuman: --time: ", self.gpuman("job", "update", job, "--time", "0s", status=2))
        self.assertIn("gpuman: --restart: ", self.gpuman("update", job, "--restart", "always", status=2))
        self.gpuman("job", "update", job, "--gpus", "0")
        self.assertIn("gpuman: --share: it needs a number of GPUs", self.gpuman("job", "update", job, "--share", status=2))
        self.gpuman("cancel", job)
        self.assertIn("gpuman: --gpus: it asks for 9 GPUs", self.gpuman("job", "redo", job, "--gpus", "9", status=6))
        reserve = ("reserve", "create", "--user", "nobody", "--start")
        self.assertIn("gpuman: --duration: it is zero",
                      self.gpuman(*reserve, "now", "--gpus", "1", "--duration", "0s", status=2))
        self.assertIn("gpuman: --gpus: no GPU is reserved", self.gpuman(*reserve, "now", "--duration", "1h", status=2))
        self.assertIn("gpuman: --gpus: 2 GPUs are asked for and 1 are named",
                      self.gpuman(*reserve, "now", "--gpu", "0", "--gpus", "2", "--duration", "1h", status=2))
        self.assertIn("gpuman: --start: ", self.gpuman(*reserve, "2020-01-01", "--gpus", "1", "--duration", "1h", status=2))

    def test_people_read_local_times_and_programs_utc(self):
        words = ("--begin", "2031-01-01T10:00Z", "--name", "later", "--", "true")
        local = "begins at 2031-01-01 13:00:00, in "
        with mock.patch.dict(self.m.env, TZ="XYZ-3"):  # three hours before UTC
            self.assertIn(local, self.gpuman("submit", "--dry-run", *words))
            job = self.submit(*words)
            self.assertIn(local, self.gpuman("job", "show", "later"))
        self.assertIn("begins at 2031-01-01T10:00:00.000Z, in ", job["reason_detail"])

    def test_a_waiting_job_names_the_jobs_it_waits_for(self):
        first = self.submit("--hold", "--name", "first", "true")["id"]
        second = self.submit("--depends", "first", "--name", "second", "true")["id"]
        self.assertIn(f"waits for job {first} to finish\n", self.gpuman("job", "show", str(second)))
        self.assertIn(f"waits for job {first} to fail", self.gpuman("submit", "--dry-run", "--depends",
                                                                   "afternotok:first", "true"))
        self.assertEqual(self.gpuman("cancel", "first"), f"Job {first} (first) cancelled.\n"
                         f"Job {second} (second) waited for job {first} and is cancelled too.\n")
        self.assertIn("can no longer happen", self.wait_for(second, "cancelled")["reason_detail"])

    def test_output_that_went_to_files_is_found(self):
        job = str(self.submit("--output", "out-%j", "--error", "err", "--", "sh", "-c", "echo hello")["id"])
        self.wait_for(job, "finished")
        shown = self.gpuman("job", "show", job)
        self.assertRegex(shown, r"\nOutput +out-%j\nErrors +err\n")
        for words in (("job", "log"), ("logs",)):
            done = self.m.run(*words, job)
            self.assertEqual((done.stdout, done.stderr),
                             ("", f"gpuman: job {job} writes to {self.m.dir}/out-{job} and {self.m.dir}/err\n"))
        self.assertEqual((self.m.dir / f"out-{job}").read_text(), "hello\n")
        job = str(self.submit("--", "printf", "one\\ntwo\\nthree")["id"])
        self.wait_for(job, "finished")
        self.assertEqual(self.gpuman("job", "log", job, "--first", "2", "--json"), '{"line":"one"}\n{"line":"two"}\n')
        self.assertEqual(self.gpuman("job", "log", job, "--json").splitlines()[-1], '{"line":"three"}')

    def test_a_current_reservation_is_shown(self):
        made = self.gpuman("reserve", "create", "--user", "nobody", "--gpu", "1", "--start", "now", "--duration", "1h")
        self.assertIn("1 (GPU 1)", made)
        self.assertRegex(self.gpuman("info"), r"\nReserved:\nGPU 1 for nobody until ")
        waits = self.submit("--gpu", "1", "--time", "10m", "true")
        self.assertEqual(waits["reason"], "reservation")
        self.assertGreaterEqual(waits["estimated_start"], json.loads(self.gpuman("reserve", "list", "--json"))["reservations"][0]["end"])
        number = made.splitlines()[1].split()[0]
        self.gpuman("reserve", "cancel", number)
        self.wait_for(waits["id"], "finished")
        done = self.m.run("reserve", "create", "--user", "nosuchuser", "--gpus", "1", "--start", "now", "--duration", "1h")
        self.assertIn("this machine knows no user nosuchuser", done.stderr)
        self.gpuman("reserve", "cancel", done.stdout.splitlines()[1].split()[0])

    def test_help_tells_how_a_command_goes(self):
        self.assertIn("Usage: gpuman submit [OPTIONS] (-- COMMAND... | SCRIPT", self.gpuman("submit", "--help"))
        self.assertIn("Usage: gpuman cancel [OPTIONS] JOB...\n", self.gpuman("cancel", "--help"))
        self.assertIn("JOB is required", self.gpuman("cancel", status=2))

    def test_ctrl_c_takes_a_waiting_job_out(self):
        blocker = self.submit("--gpus", "2", "sh", "-c", self.until_gone_on())
        self.wait_for(blocker["id"], "running")
        waits = self.m.popen("run", "--gpus", "1", "--tag", "mine", "--", "true", stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
        until("it is queued", lambda: self.request("GET", "/v1/jobs/mine", checked=False).status == 200)
        status = pathlib.Path(f"/proc/{waits.pid}/status")
        until("it listens", lambda: "SigBlk:\t0000000000004002" in status.read_text())
        waits.send_signal(signal.SIGINT)
        waits.communicate(timeout=PATIENCE)
        self.assertNotEqual(waits.returncode, 0)
        self.assertEqual(self.job("mine")["state"], "cancelled")

    def test_a_shell_on_the_callers_terminal(self):
        pid, terminal = pty.fork()
        if pid == 0:
            os.environ.clear()
            os.environ.update(self.m.env, PS1="READY> ", TERM="dumb")
            os.execv(program("gpuman"), ["gpuman", "run", "--gpus", "1", "--pty", "--", "bash", "--norc", "-i"])
        self.addCleanup(os.close, terminal)
        shown = b""

        def read_until(text):
            nonlocal shown
            deadline = time.monotonic() + PATIENCE
            while text not in shown and time.monotonic() < deadline:
                if select.select([terminal], [], [], 1)[0]:
                    try:
                        shown += os.read(terminal, 4096)
                    except OSError:
                        break
            self.assertIn(text, shown)

        read_until(b"READY> ")
        os.write(terminal, b"tty; echo gpus=$CUDA_VISIBLE_DEVICES\r")
        read_until(b"/dev/pts/")
        read_until(b"\r\ngpus=GPU-")
        os.write(terminal, b"exit 5\r")
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        self.assertEqual(status, 5)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Bad input and bad days of the queue: real daemon, real keepers, the simulated driver. tests/README.md has the list.

Usage: queue_bad_days_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
import other_users_test  # noqa: E402
from daemon_case import MIB, NOBODY, until  # noqa: E402
from queue_test import QueueCase  # noqa: E402
from wall_clock import SetsWallClock  # noqa: E402

DAY = 86400


def is_alive(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


class BadSubmissionsTest(QueueCase):
    def invalid(self, job, about):
        message = self.refused(job, 400, "invalid_argument")
        self.assertIn(about, message)

    def test_sizes_that_mean_nothing(self):
        for field in ("memory", "soft", "host_memory"):
            for size in ("-1", "0", "0GiB", "99999999999999999999", "16777216TiB", "much", "", -1, 0):
                self.invalid(self.shell("true", **{"memory": "1GiB", field: size}), field)
        self.invalid(self.shell("true", 0) | {"gpus": {"count": 1, "free_memory": "-1"}}, "free_memory")
        for field in ("memory", "host_memory"):
            self.refused(self.shell("true", **{field: "9999GiB"}))
        self.refused(self.shell("true", 0) | {"gpus": {"count": 1, "free_memory": "9999GiB"}})
        self.assertEqual(self.queue("?states=all"), [])

    def test_gpus_that_there_are_not(self):
        for gpus in ({"count": 1, "devices": ["7"]}, {"count": 1, "devices": ["GPU-none"]}):
            self.refused(self.shell("true") | {"gpus": gpus}, 404, "not_found")
        for gpus in ({"count": 3}, {"count": 1, "model": "no such model"}):
            self.refused(self.shell("true") | {"gpus": gpus})
        self.invalid(self.shell("true") | {"gpus": {"count": -1}}, "count")
        self.assertEqual(self.queue("?states=all"), [])

    def test_bodies_that_are_no_submissions(self):
        good = json.dumps(self.body(self.shell("true")))
        for body in ("", "{", "[]", "null", "42", '{"jobs":[]}', '{"jobs":{}}', '{"jobs":[null]}', b"\xff\xfe{}", good[:-5],
                     good.replace('"/bin/sh"', '"\\ud800"'), "[" * 100_000):
            answer = self.request("POST", "/v1/submissions", body)
            self.assertEqual((answer.status, answer.code()), (400, "invalid_argument"), body[:40])
        self.assertEqual(self.request("POST", "/v1/submissions", "x" * (33 * MIB)).status, 413)
        self.assertEqual(self.queue("?states=all"), [])

    def test_dependencies_on_jobs_that_there_are_not(self):
        for name, words in (("999999", "there is no job 999999"), ("nobody", "there is no job with the tag 'nobody'"),
                            ("999999_3", "there is no task 3 of array 999999"), ("@~99", "there is no earlier job of yours (@~99)")):
            message = self.refused(self.shell("true", depends={"list": [{"kind": "afterok", "job": name}]}), 404, "not_found")
            self.assertIn(words, message)
        self.assertEqual(self.queue("?states=all"), [])

    def test_commands_that_cannot_run_say_why_and_give_their_gpu_back(self):
        plain = self.dir / "plain"
        plain.write_text("no program\n")
        for command, directory, reason in ((["/nowhere/program"], "/", "command_not_found"), ([str(plain)], "/", "command_not_executable"),
                                           (["true"], "/nowhere", "directory_unusable")):
            job = self.submit_all({"command": command, "directory": directory, "gpus": {"count": 2}})[0]["id"]
            ended = self.wait(job)
            self.assertEqual((ended["state"], ended["reason"]), ("failed", reason), ended)
        self.assertEqual(self.wait(self.submit("true", 2))["state"], "finished")

    def test_malformed_scripts_and_directives_name_their_line(self):
        script = self.dir / "job.sh"
        for text, words in (("#!/bin/sh\n# GPUMAN --gpsu 2\ntrue\n", "job.sh:2: "), ("#!/bin/sh\n\n# GPUMAN --time 'x\ntrue\n", "job.sh: line 3: "),
                            ("#!/bin/sh\n# GFLOW --gpus many\ntrue\n", "job.sh:2: ")):
            script.write_text(text)
            done = self.m.run("submit", str(script))
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, done.stderr)
        jobs = self.dir / "jobs"
        jobs.write_text("--gpus 1 -- true\n# a remark\n--gpus x -- true\n")
        done = self.m.run("submit", "--jobs", str(jobs))
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("jobs:3", done.stderr)
        self.assertEqual(self.queue("?states=all"), [])


class BadDaysTest(QueueCase):
    config = "[sampling]\nretry = \"200ms\"\n[queue]\nqueued_jobs = 200000\n"

    def test_an_array_of_a_hundred_thousand_is_taken_kept_and_cancelled(self):
        task = self.shell("true", hold=True)
        self.refused(task | {"array": {"indices": [{"first": 0, "last": 100_000}]}}, 400, "invalid_argument")
        self.refused(task | {"array": {"indices": [{"first": 0, "last": 2**31 - 1}]}}, 400, "invalid_argument")
        array = self.submit_all(task | {"array": {"indices": [{"first": 0, "last": 99_999}]}})[0]["id"]
        self.m.stop_daemon(signal.SIGKILL)
        self.m.start_daemon()
        self.assertEqual(self.request("GET", "/v1/stats").json()["total"]["queued"], 100_000)
        self.assertEqual(self.job(f"{array}_99999")["id"], array + 99_999)
        self.assertEqual(self.request("GET", f"/v1/jobs/{array}_100000").status, 404)
        done = self.m.run("cancel", str(array))
        self.assertEqual(done.returncode, 0, done.stderr[-1000:])
        self.assertEqual(self.queue(), [])

    def test_a_job_that_forks_away_leaves_nothing_on_its_gpu(self):
        script = f"setsid sh -c 'echo $$ > {self.dir}/pid; exec {self.load('128MiB', '--hold', '1h')}' > {self.dir}/away & " \
                 f"until grep -q . {self.dir}/away; do sleep 0.01; done"
        self.assertEqual(self.wait(self.submit(script, 2))["state"], "finished")
        self.assertFalse(is_alive((self.dir / "pid").read_text().strip()))
        self.assertEqual(self.wait(self.submit("true", 2))["state"], "finished")

    def test_a_job_that_ignores_its_time_limits_signal_is_killed(self):
        job = self.submit("trap '' TERM; while :; do sleep 0.05; done", time_limit_s=0.2, grace="50ms")
        self.assertEqual(self.wait(job)["state"], "timeout")

    def test_a_reservation_over_running_jobs_leaves_them_and_keeps_others_away(self):
        running = self.submit(self.gate("end"), 2)
        self.becomes(running, "running")
        made = self.request("POST", "/v1/reservations", {"user": "somebody", "count": 2, "start": "2020-01-01T00:00:00Z",
                                                         "duration_s": 86400 * 36500})
        self.assertEqual(made.status, 201, made.body)
        waiting = self.submit("true")
        self.waits_for(waiting, "resources")
        self.assertEqual(self.state(running), "running")
        self.open("end")
        self.assertEqual(self.wait(running)["state"], "finished")
        self.waits_for(waiting, "reservation")
        self.request("DELETE", f"/v1/reservations/{made.json()['id']}")
        self.assertEqual(self.wait(waiting)["state"], "finished")

    def test_jobs_wait_for_a_lost_gpu_and_start_when_it_is_back(self):
        self.inject("lost", "--gpu", "0")
        self.addCleanup(self.inject, "clear")
        until("the queue knows", lambda: self.request("GET", "/v1/queue/info").json()["gpus"][0]["state"] == "drained")
        job = self.submit("true", 2)
        self.waits_for(job, "unavailable")
        self.assertEqual(self.wait(self.submit("true"))["state"], "finished", "the other GPU is used")
        self.inject("clear")
        self.inject("reset", "--gpu", "0")
        self.assertEqual(self.wait(job)["state"], "finished")

    def test_the_command_line_is_killed_while_it_waits_and_the_job_goes_on(self):
        client = self.m.popen("submit", "--wait", "--gpus", "1", "--name", "goes-on", "-c", self.gate("end"),
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until("it is taken", lambda: self.request("GET", "/v1/jobs/goes-on").status == 200)
        client.kill()
        client.wait()
        self.open("end")
        self.assertEqual(self.wait("goes-on")["state"], "finished")


class PlacementTest(QueueCase):
    """If a user names a GPU, a job of the queue goes there only if the queue has room for it."""

    def holds(self, gpu=None):
        gpus = {"count": 1} | ({"devices": [gpu]} if gpu else {})
        job = self.submit_all({"command": ["/bin/sh", "-c", "exec " + self.load("128MiB", "--hold", "1h")], "gpus": gpus})[0]["id"]
        until("it holds memory", lambda: self.job(job)["memory"]["used"])
        return job

    def ask(self, job, what, gpu):
        return self.request("POST", f"/v1/jobs/{job}/{what}", {"gpu": gpu})

    def gpu(self, index):
        return self.request("GET", f"/v1/gpus/{index}").json()["uuid"]

    def test_a_suspended_job_does_not_come_back_to_a_gpu_that_another_has(self):
        first, second = self.holds("0"), self.holds("1")
        self.assertEqual(self.act(first, "suspend").status, 200)
        self.becomes(first, "suspended")
        third = self.submit(self.gate("end"))
        self.becomes(third, "running")
        for gpu, holder in (("0", third), ("1", second)):
            refused = self.ask(first, "resume", gpu)
            self.assertEqual((refused.status, refused.code()), (409, "conflict"), refused.body)
            self.assertIn(f"no room beside job {holder}", refused.json()["error"]["message"])
            self.assertIn("without --gpu", refused.json()["error"]["hint"])
        self.assertEqual(self.state(first), "suspended")
        self.request("DELETE", f"/v1/jobs/{second}")
        back = self.ask(first, "resume", "1")
        self.assertEqual((back.status, back.json()["state"], back.json()["gpus"]), (200, "running", [self.gpu(1)]), back.body)
        waiting = self.submit("true")
        self.waits_for(waiting, "resources")
        self.open("end")
        self.assertEqual(self.wait(waiting)["state"], "finished")
        self.assertEqual(self.job(waiting)["gpus"], [self.gpu(0)])

    def test_the_queue_knows_where_a_job_was_moved(self):
        first = self.holds("0")
        self.assertEqual(self.ask(first, "move", "1").status, 200)
        self.assertEqual(self.job(first)["gpus"], [self.gpu(1)])
        second = self.submit(self.gate("end"))
        self.assertEqual(self.becomes(second, "running")["gpus"], [self.gpu(0)])
        refused = self.ask(first, "move", "0")
        self.assertEqual((refused.status, refused.code()), (409, "conflict"), refused.body)
        self.open("end")


class PurgedTest(QueueCase):
    config = "[jobs]\nkeep_ended_count = 2\n"

    def test_a_purged_job_cannot_be_waited_for_and_one_that_is_waited_for_is_not_purged(self):
        old = self.submit("true", 0)
        self.wait(old)
        needed = self.submit("true", 0)
        self.wait(needed)
        waiting = self.submit("true", hold=True, depends={"list": [{"kind": "afterok", "job": str(needed)}]})
        for _ in range(4):
            self.wait(self.submit("true", 0))
        until("the old one is forgotten", lambda: self.request("GET", f"/v1/jobs/{old}").status == 404)
        gone = self.refused(self.shell("true", depends={"list": [{"kind": "afterok", "job": str(old)}]}), 404, "not_found")
        self.assertIn(f"there is no job {old}", gone)
        self.act(waiting, "release")
        self.assertEqual(self.wait(waiting)["state"], "finished")

    def test_an_array_of_which_the_first_is_forgotten_before_the_last_is_cancelled_is_answered(self):
        array = self.submit("true", hold=True, array={"indices": [{"first": 1, "last": 500}]})
        cancelled = self.request("POST", f"/v1/jobs/{array}/cancel")
        self.assertEqual(cancelled.status, 200, cancelled.body)
        self.assertEqual((cancelled.json()["id"], cancelled.json()["state"]), (array, "cancelled"))


class ClockTest(SetsWallClock, QueueCase):
    """Sets the wall clock of the daemon, or the machine's where that is allowed."""

    def setUp(self):
        super().setUp()
        self.set_clock(0)

    def test_begin_times_and_reservations_follow_the_clock_that_people_see(self):
        tomorrow = subprocess.run(["date", "-u", "-d", "+20 hours", "+%FT%TZ"], capture_output=True, text=True, check=True).stdout.strip()
        begins = self.submit("true", 0, begin=tomorrow)
        self.waits_for(begins, "begin_time")
        made = self.request("POST", "/v1/reservations", {"user": "somebody", "count": 2, "start": tomorrow, "duration_s": 2 * DAY})
        self.assertEqual((made.status, made.json()["state"]), (201, "pending"), made.body)
        self.set_clock(DAY)
        self.assertEqual(self.wait(begins)["state"], "finished", "that the clock was set is all that happened")
        job = self.submit("true", time_limit_s=60)
        self.waits_for(job, "reservation")
        self.set_clock(0)
        self.assertEqual(self.wait(job)["state"], "finished", "it is over before the reservation begins")
        self.request("DELETE", f"/v1/reservations/{made.json()['id']}")

    def test_order_and_time_limits_hold_when_the_clock_is_set_back(self):
        running = self.submit(self.gate("end"), 2)
        self.becomes(running, "running")
        self.set_clock(DAY)
        first = self.submit(f"echo first >> {self.dir}/order", 2, priority=255)
        self.set_clock(-DAY)
        limited = self.submit("exec sleep 1000", 0, time_limit_s=0.3)
        self.assertEqual(self.wait(limited)["state"], "timeout")
        self.open("end")
        self.assertEqual(self.wait(first)["state"], "finished")
        again = self.submit("true")
        self.assertGreater(again, first)
        self.assertEqual(self.wait(again)["state"], "finished")


@unittest.skipUnless(os.geteuid() == 0, "needs root, for a small file system to fill")
class FullStoreTest(QueueCase):
    @classmethod
    def prepare(cls):
        cls.state_dir = pathlib.Path(cls.m.env["GPUMAN_STATE_DIR"])
        mount = ["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "tmpfs", str(cls.state_dir)]
        if subprocess.run(mount, capture_output=True).returncode != 0:
            raise unittest.SkipTest("may not mount")
        cls.addClassCleanup(shutil.rmtree, cls.m.dir, ignore_errors=True)
        cls.addClassCleanup(subprocess.run, ["umount", "-l", cls.state_dir])
        # Class clean-ups run last in, first out: the machine's own must run before these.
        cls.addClassCleanup(cls.m.__exit__)

    def refuse_a_batch(self):
        batch = self.body(*[self.shell(f"echo {number} {'x' * 1500}", hold=True) for number in range(2500)])
        full = self.request("POST", "/v1/submissions", batch)
        self.assertGreaterEqual(full.status, 500, full.body[:200])
        self.assertIn("full", full.json()["error"]["message"])

    def test_a_batch_that_the_store_has_no_room_for_is_refused_whole(self):
        kept = self.submit("true", hold=True)
        self.refuse_a_batch()
        self.assertEqual([job["id"] for job in self.queue()], [kept])
        self.m.stop_daemon()
        self.m.start_daemon()
        self.assertEqual([job["id"] for job in self.queue("?states=all")], [kept])
        self.assertEqual(self.request("DELETE", f"/v1/jobs/{kept}").status, 200)

    def test_a_small_job_is_accepted_after_a_refused_batch(self):
        for how in (None, signal.SIGKILL, signal.SIGTERM):
            with self.subTest(daemon=how and how.name):
                self.refuse_a_batch()
                if how:
                    self.m.stop_daemon(how)
                    self.m.start_daemon()
                self.assertEqual(self.wait(self.submit("true"))["state"], "finished")


class OtherUsersOfTheQueueTest(other_users_test.SystemDaemonTest):
    def test_others_see_a_job_of_the_queue_and_do_not_touch_it(self):
        status, made = self.ask(0, "POST", "/v1/submissions", {
            "jobs": [{"name": "mine", "command": ["true"], "hold": True}], "directory": "/",
            "environment": {"PATH": os.environ["PATH"]}})
        self.assertEqual(status, 201, made)
        self.assertEqual(self.ask(NOBODY, "GET", "/v1/jobs/mine")[1]["state"], "held")
        for method, path, body in (("POST", "/v1/jobs/mine/release", None), ("POST", "/v1/jobs/mine/hold", None),
                                   ("POST", "/v1/jobs/mine/redo", None), ("DELETE", "/v1/jobs/mine", None),
                                   ("PATCH", "/v1/jobs/mine", {"queue": {"cpus": 1}}), ("GET", "/v1/jobs/mine/log", None),
                                   ("PUT", "/v1/quotas/user/root", {"gpus": 1}), ("PATCH", "/v1/queue/settings", {"paused": True}),
                                   ("POST", "/v1/reservations", {"user": "x", "count": 1, "start": "2030-01-01T00:00:00Z", "duration_s": 1}),
                                   ("POST", "/v1/submissions", {"jobs": [{"command": ["true"]}], "directory": "/"})):
            status, answer = self.ask(NOBODY, method, path, body)
            self.assertEqual((status, answer["error"]["code"]), (403, "permission_denied"), (method, path))
        self.assertEqual(self.ask(0, "GET", "/v1/jobs/mine")[1]["state"], "held")


if __name__ == "__main__":
    unittest.main(verbosity=2)

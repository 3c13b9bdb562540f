#!/usr/bin/env python3
"""Attached jobs: a job attached to another's process is limited like any other, and ends when that process ends.

Usage: attach_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import contextlib
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from daemon_case import MIB, DaemonTest, until  # noqa: E402


class Starter:
    """A process outside gpuman that starts a command for each line, and prints its exit status."""

    def __init__(self, environment):
        self.process = subprocess.Popen(["sh", "-c", 'while read -r line; do sh -c "$line"; echo $?; done'],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
                                        start_new_session=True)
        self.pid = self.process.pid

    def start(self, line, environment):
        words = " ".join(f"{name}={shlex.quote(value)}" for name, value in environment.items())
        self.process.stdin.write(f"exec env {words} {line}\n")
        self.process.stdin.flush()

    def children(self):
        return pathlib.Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()

    def status(self):
        """The status of the command that was started last; skips the command's output."""
        for line in self.process.stdout:
            if line.strip().isdigit():
                return int(line)
        raise AssertionError("the starter has ended")

    def end(self):
        """Ends the process and its children, which may have no parent any more."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class AttachTest(DaemonTest):
    memory = "4GiB"
    config = '[sampling]\nrest = "20ms"\n[jobs]\nstop_grace = "100ms"\n'

    def setUp(self):
        self.starter = Starter(self.m.env)
        self.addCleanup(self.starter.end)

    def attach(self, tag, **more):
        return self.request("POST", "/v1/attachments", {"pid": self.starter.pid, "tag": tag, **more})

    def attached(self, tag, **more):
        answer = self.attach(tag, **more)
        self.assertEqual(answer.status, 201, answer.body)
        return answer.json()

    def test_an_attached_process_is_held_to_the_limit(self):
        job = self.attached("step", memory="1GiB", gpus=["0"])
        self.starter.start(self.load("2GiB"), job["environment"])
        self.assertEqual(self.starter.status(), 3, "out of memory, of its own")
        self.starter.start(self.load("256MiB"), job["environment"])
        self.assertEqual(self.starter.status(), 0)
        self.assertEqual(self.job("step")["state"], "running")
        self.assertEqual(self.job("step")["memory"]["limit"], 1024 * MIB)

    def test_the_allotted_memory_bounds_the_requested_limit(self):
        self.attached("step", memory="75%", at_most="1GiB", gpus=["0"])
        self.assertEqual(self.job("step")["memory"]["limit"], 1024 * MIB)

    def test_a_process_without_the_library_ends_at_the_limit(self):
        job = self.attached("step", memory="512MiB", gpus=["0"], preload=False)
        self.assertNotIn("LD_PRELOAD", job["environment"])
        self.starter.start(self.load("1GiB", "--hold", "1h"), job["environment"])
        self.assertNotEqual(self.starter.status(), 0)
        until("it is told of", lambda: "hard_limit" in [event["kind"] for event in self.events()])

    def test_attached_job_goes_on_over_restart_of_daemon(self):
        job = self.attached("step", memory="1GiB", gpus=["0"])
        self.m.stop_daemon(signal.SIGKILL)
        self.m.start_daemon()
        self.assertEqual(self.job("step")["id"], job["id"])
        self.starter.start(self.load("2GiB"), job["environment"])
        self.assertEqual(self.starter.status(), 3)

    def test_attached_job_ends_with_its_process_and_leaves_nothing(self):
        job = self.attached("step", gpus=["0"])
        self.starter.start(self.load("256MiB", "--hold", "1h"), job["environment"])
        until("it is on the GPU", lambda: (self.job("step")["memory"]["used"] or 0) > 0)
        os.kill(self.starter.pid, signal.SIGKILL)
        ended = self.wait("step")
        self.assertEqual((ended["state"], ended["reason"]), ("finished", "status_unknown"))
        until("the GPU is free", lambda: not self.request("GET", "/v1/gpus/0").json()["processes"])

    def test_remove_ends_the_attached_process(self):
        job = self.attached("step", gpus=["0"])
        self.starter.start("sleep 1000", job["environment"])
        until("it has started something", self.starter.children)
        removing = self.m.popen("remove", "step", stdout=subprocess.DEVNULL)
        self.assertGreater(self.starter.status(), 128, "by a signal")
        self.assertEqual(removing.wait(), 0, "the starter lives on")
        self.assertEqual(self.request("GET", "/v1/jobs/step").status, 404)

    def test_second_attach_returns_the_same_job(self):
        first = self.attached("step", gpus=["0"])
        self.assertEqual(self.attached("step", gpus=["0"]), first)
        self.assertEqual(self.attach("other", gpus=["0"]).code(), "conflict")

    @unittest.skipIf(os.geteuid() != 0, "needs root, who attaches for others")
    def test_a_name_that_somebody_has_taken_is_no_way_out_of_the_limit(self):
        self.start("step", "exec sleep 1000")
        job = self.attached("step", memory="1GiB", gpus=["0"])
        self.assertEqual(job["tag"], f"step-{self.starter.pid}")
        self.starter.start(self.load("2GiB"), job["environment"])
        self.assertEqual(self.starter.status(), 3)
        self.assertEqual(self.attached("step", memory="1GiB", gpus=["0"]), job)
        self.request("DELETE", "/v1/jobs/step")
        self.assertEqual(self.attached("step", memory="1GiB", gpus=["0"]), job, "with its name free as well")

    def test_a_process_of_a_job_cannot_be_attached_again(self):
        self.attached("step", gpus=["0"])
        self.starter.start("sh -c 'echo started; sleep 1000; :'", {})
        child = until("the child is there", self.starter.children)
        answer = self.request("POST", "/v1/attachments", {"pid": int(child[0]), "tag": "free", "gpus": ["0"]})
        self.assertEqual((answer.status, answer.code()), (409, "conflict"))

    def test_restart_of_attached_job_is_refused(self):
        job = self.attached("step", gpus=["0"])
        answer = self.request("POST", f"/v1/jobs/{job['id']}/restart")
        self.assertEqual(answer.code(), "not_supported")

    def test_wrong_requests_say_what_is_wrong(self):
        for what, more, code in (("memory", {"memory": "9GiB"}, "unsatisfiable"),
                                 ("gpu", {"gpus": ["7"]}, "not_found"),
                                 ("tag", {"tag": "a b"}, "invalid_argument"),
                                 ("pid", {"pid": 0}, "not_found"),
                                 ("pid", {"pid": 2**31 - 1}, "not_found"),
                                 ("at_most", {"at_most": 0}, "invalid_argument"),
                                 ("unknown", {"memorry": 1}, "invalid_argument")):
            with self.subTest(what=what):
                body = {"pid": self.starter.pid, "tag": "step", "gpus": ["0"], **more}
                self.assertEqual(self.request("POST", "/v1/attachments", body, checked="memorry" not in body).code(), code)
        self.assertEqual(self.request("GET", "/v1/jobs").json()["jobs"], [])


if __name__ == "__main__":
    unittest.main()

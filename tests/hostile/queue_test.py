#!/usr/bin/env python3
"""The queue: more jobs than a user may have, names of another user's jobs, jobs that run again.

Usage: queue_test.py [UNITTEST ARGUMENTS]    (as root; GPUMAN_BUILD_DIR names the build tree)
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from hostile_case import ATTACKER, NEIGHBOUR, HostileTest, main  # noqa: E402
from daemon_case import until  # noqa: E402
from users import read_line  # noqa: E402

BOUND = 500
RUNNING = 5
KIB = 1 << 10

# Sends the same submission on many connections at the same time; prints the status of each answer.
SUBMIT_AT_ONCE = """
import json, socket, sys
path, count, tasks = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
body = json.dumps({"jobs": [{"command": ["true"], "gpus": {"count": 1}, "hold": True,
                             "array": {"indices": [{"first": 1, "last": tasks}]}}], "directory": "/"}).encode()
sockets = []
for _ in range(count):
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    sockets.append(s)
for s in sockets:
    s.sendall(b"POST /v1/submissions HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body) + body)
answers = []
for s in sockets:
    answer = b""
    while piece := s.recv(1 << 16):
        answer += piece
    answers.append(answer.split()[1].decode())
print(*answers, flush=True)
"""


class Queue(HostileTest):
    config = f'[queue]\nqueued_jobs = {BOUND}\n[jobs]\nrunning_jobs = {RUNNING}\ntext = "16MiB"\n'

    def setUp(self):
        self.request("PATCH", "/v1/queue/settings", {"paused": True})

    def tearDown(self):
        jobs = [str(job["id"]) for job in self.request("GET", "/v1/queue").json()["jobs"]]
        self.request("POST", "/v1/cancellations", {"jobs": jobs})
        until("nobody waits", lambda: not self.request("GET", "/v1/queue?limit=1").json()["jobs"])
        super().tearDown()

    def submit_as(self, user, name, **more):
        job = {"name": name, "command": ["true"], "gpus": {"count": 1}, **more}
        answered = self.as_user(user, "POST", "/v1/submissions", {"jobs": [job], "directory": "/"})
        self.assertEqual(answered.status, 201, answered)
        return answered.json()["jobs"][0]["id"]

    def waiting(self, user):
        return len(self.request("GET", f"/v1/queue?users={user.name}").json()["jobs"])

    def after(self, job):
        return {"list": [{"kind": "afterok", "job": str(job)}]}

    def state(self, job):
        return self.request("GET", f"/v1/jobs/{job}").json()["state"]

    def test_more_jobs_than_a_user_may_have_waiting(self):
        many = {"jobs": [{"command": ["true"], "gpus": {"count": 1}, "array": {"indices": [{"first": 0, "last": BOUND}]}}],
                "directory": "/"}
        refused = self.as_user(ATTACKER, "POST", "/v1/submissions", many)
        self.assertEqual((refused.status, refused.code()), (422, "unsatisfiable"))
        self.assertIn(f"quota of {BOUND}", refused.body)
        self.assertIn("gpuman quota set --user attacker --queued-jobs", refused.body)
        refused = self.as_user(ATTACKER, "POST", "/v1/submissions", many | {"dry_run": True})
        self.assertEqual(refused.status, 422)
        self.assertEqual(self.waiting(ATTACKER), 0)

    def test_many_submissions_at_once_pass_the_bound_no_more_than_one_after_the_other(self):
        for tasks in (60, 200):
            answers = read_line(self.python_as(ATTACKER, SUBMIT_AT_ONCE, self.m.env["GPUMAN_SOCKET"], 40, tasks)).split()
            self.assertEqual(len(answers), 40)
            self.assertEqual(answers.count("201"), BOUND // tasks)
            self.assertEqual(self.waiting(ATTACKER), BOUND // tasks * tasks)
            self.submit_as(NEIGHBOUR, "mine")
            self.tearDown()
            self.setUp()

    def test_jobs_with_long_commands_fill_no_more_than_their_users_text(self):
        body = {"jobs": [{"command": ["true", "x" * (100 * KIB)], "gpus": {"count": 1}, "hold": True} for _ in range(30)],
                "directory": "/"}
        statuses = [self.as_user(ATTACKER, "POST", "/v1/submissions", body).status for _ in range(8)]
        self.assertEqual(statuses, [201] * 5 + [422] * 3)
        refused = self.as_user(ATTACKER, "POST", "/v1/submissions", body)
        self.assertIn("passes the bound of 16MiB", refused.body)
        self.submit_as(NEIGHBOUR, "mine")
        first = self.request("GET", "/v1/queue?users=attacker&limit=1").json()["jobs"][0]["id"]
        refused = self.as_user(ATTACKER, "PATCH", f"/v1/jobs/{first}", {"queue": {"script": "#" * (3 << 20)}})
        self.assertEqual(refused.status, 422, refused)
        self.assertEqual(self.as_user(ATTACKER, "PATCH", f"/v1/jobs/{first}", {"priority": 1}).status, 200)

    def test_an_array_with_a_long_command_is_counted_before_its_tasks_are_made(self):
        body = {"jobs": [{"command": ["true", *["x" * (100 * KIB)] * 10], "gpus": {"count": 1}, "hold": True,
                          "array": {"indices": [{"first": 1, "last": BOUND}]}}], "directory": "/"}
        for dry_run in (False, True):
            refused = self.as_user(ATTACKER, "POST", "/v1/submissions", body | {"dry_run": dry_run})
            self.assertEqual(refused.status, 422)
            self.assertIn("passes the bound of 16MiB", refused.body)
        self.assertEqual(self.waiting(ATTACKER), 0)

    def test_a_command_that_nothing_executes_is_refused(self):
        body = {"jobs": [{"command": ["true", "x" * (3 << 20)], "gpus": {"count": 1}}], "directory": "/"}
        refused = self.as_user(ATTACKER, "POST", "/v1/submissions", body)
        self.assertEqual((refused.status, refused.code()), (400, "invalid_argument"), refused.body[:300])

    def test_more_jobs_at_once_than_a_user_may_run(self):
        mine = [self.start_as(ATTACKER, f"run-{n}", "exec sleep 1000") for n in range(RUNNING)]
        refused = self.as_user(ATTACKER, "POST", "/v1/jobs", self.run_request("one-more", "exec sleep 1000"))
        self.assertEqual((refused.status, refused.code()), (422, "unsatisfiable"))
        self.assertIn(f"has {RUNNING} running jobs; with 1 more that passes the bound of {RUNNING}", refused.body)
        self.request("PATCH", "/v1/queue/settings", {"paused": False})
        waits = self.submit_as(ATTACKER, "waits", gpus={"count": 0})
        until("it waits for its user's bound", lambda: self.request("GET", f"/v1/jobs/{waits}").json()["reason"] == "quota")
        neighbours = self.start_as(NEIGHBOUR, "mine", "exec sleep 1000")
        for job in [*mine, neighbours]:
            self.request("DELETE", f"/v1/jobs/{job}")

    def chain(self, *owners):
        """Submits jobs that each wait for the one before, the first held; cancels the first and so the others."""
        jobs = [self.submit_as(owners[0], "first", hold=True)]
        for owner in owners[1:]:
            jobs.append(self.submit_as(owner, "next", depends=self.after(jobs[-1]), hold=False))
        self.assertEqual(self.as_user(owners[0], "POST", f"/v1/jobs/{jobs[0]}/cancel").status, 200)
        self.request("PATCH", "/v1/queue/settings", {"paused": False})
        for job in jobs:
            until(f"job {job} is cancelled", lambda job=job: self.state(job) == "cancelled")
        self.request("PATCH", "/v1/queue/settings", {"paused": True})
        return jobs

    def test_redo_with_cascade_runs_no_job_of_another_user(self):
        jobs = self.chain(ATTACKER, NEIGHBOUR, ATTACKER, ATTACKER)
        other = self.submit_as(ATTACKER, "other", hold=True)
        done = self.as_user(ATTACKER, "POST", f"/v1/jobs/{jobs[0]}/redo", {"cascade": True})
        self.assertEqual(done.status, 201, done)
        self.assertEqual(len(done.json()["jobs"]), 1, "what waited for the neighbour's job is left out with it")
        self.assertIn(f"job {jobs[1]} 'next'", done.json()["notes"][0])
        self.assertEqual(self.waiting(NEIGHBOUR), 0)
        self.assertEqual(self.state(other), "held")

    def test_a_neighbour_does_not_hinder_redo_with_cascade_by_a_job_that_waits_for_it(self):
        jobs = self.chain(NEIGHBOUR, NEIGHBOUR)
        foreign = self.submit_as(NEIGHBOUR, "again", hold=True)
        waits = self.submit_as(ATTACKER, "leech", depends=self.after(foreign))
        self.assertEqual(self.as_user(NEIGHBOUR, "POST", f"/v1/jobs/{foreign}/cancel").status, 200)
        self.request("PATCH", "/v1/queue/settings", {"paused": False})
        until("the attacker's is cancelled with it", lambda: self.state(waits) == "cancelled")
        self.request("PATCH", "/v1/queue/settings", {"paused": True})
        for named, count in ((jobs[0], 2), (foreign, 1)):
            done = self.as_user(NEIGHBOUR, "POST", f"/v1/jobs/{named}/redo", {"cascade": True})
            self.assertEqual(done.status, 201, done)
            self.assertEqual(len(done.json()["jobs"]), count)
        self.assertEqual(self.waiting(ATTACKER), 0)

    def test_a_name_means_the_callers_own_job(self):
        mine = self.submit_as(NEIGHBOUR, "train", hold=True)
        theirs = self.submit_as(ATTACKER, "train", hold=True)
        self.assertEqual(self.as_user(NEIGHBOUR, "GET", "/v1/jobs/train").json()["id"], mine)
        waits = self.submit_as(NEIGHBOUR, "after", depends=self.after("train"))
        self.assertEqual(self.request("GET", f"/v1/jobs/{waits}").json()["queue"]["depends"]["list"][0]["job"], str(mine))
        self.assertEqual(self.as_user(NEIGHBOUR, "POST", "/v1/jobs/train/cancel").status, 200)
        self.assertEqual((self.state(mine), self.state(theirs)), ("cancelled", "held"))

    def test_one_array_named_a_hundred_thousand_times_is_one(self):
        answered = self.as_user(ATTACKER, "POST", "/v1/submissions",
                                {"jobs": [{"name": "many", "command": ["true"], "gpus": {"count": 1}, "hold": True,
                                           "array": {"indices": [{"first": 1, "last": BOUND - 1}]}}], "directory": "/"})
        array = answered.json()["jobs"][0]["id"]
        waits = {"jobs": [{"command": ["true"], "gpus": {"count": 1}, "hold": True,
                           "depends": {"list": [{"kind": "afterany", "job": str(array)}] * 50_000}}], "directory": "/"}
        with self.beside("a job that waits 50,000 times for an array"):
            answered = self.as_user(ATTACKER, "POST", "/v1/submissions", waits)
            self.assertEqual(answered.status, 201, answered.body[:300])
        job = self.request("GET", f"/v1/jobs/{answered.json()['jobs'][0]['id']}").json()
        self.assertEqual(len(job["queue"]["depends"]["list"]), BOUND - 1)
        with self.beside("an array that is cancelled by its name 100,000 times"):
            done = self.as_user(ATTACKER, "POST", "/v1/cancellations", {"jobs": [str(array)] * 100_000})
            self.assertEqual(done.status, 200, done.body[:300])
        self.assertEqual(len(done.json()["jobs"]), BOUND - 1)


if __name__ == "__main__":
    main()

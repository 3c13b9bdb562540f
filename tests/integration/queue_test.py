#!/usr/bin/env python3
"""The queue over the socket: real daemon, real keepers, the simulated driver.

Usage: queue_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from daemon_case import DaemonTest, until  # noqa: E402
from machine import program  # noqa: E402

ENDED = {"finished", "failed", "cancelled", "timeout", "killed"}


class QueueCase(DaemonTest):
    gpus, memory = 2, "4GiB"

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(subprocess.run, ["rm", "-rf", str(self.dir)], check=True)

    def tearDown(self):
        self.request("PATCH", "/v1/queue/settings", {"paused": False, "allowed": None})
        for job in self.queue():
            self.request("DELETE", f"/v1/jobs/{job['id']}")
        super().tearDown()

    def queue(self, query=""):
        return self.request("GET", f"/v1/queue{query}").json()["jobs"]

    def body(self, *jobs, **more):
        environment = {"PATH": os.environ["PATH"]}
        environment.update({k: v for k, v in self.m.env.items() if k.startswith("GPUMAN_SIM") or k == "LD_LIBRARY_PATH"})
        return {"jobs": list(jobs), "directory": str(self.dir), "environment": environment, **more}

    def shell(self, script, gpus=1, **more):
        return {"command": ["/bin/sh", "-c", script], "gpus": {"count": gpus}, **more}

    def submit_all(self, *jobs, **more):
        answer = self.request("POST", "/v1/submissions", self.body(*jobs, **more))
        self.assertEqual(answer.status, 201, answer.body)
        return answer.json()["jobs"]

    def submit(self, script, gpus=1, **more):
        return self.submit_all(self.shell(script, gpus, **more))[0]["id"]

    def refused(self, job, status=422, code="unsatisfiable"):
        answer = self.request("POST", "/v1/submissions", self.body(job))
        self.assertEqual((answer.status, answer.code()), (status, code), answer.body)
        return answer.json()["error"]["message"]

    def act(self, job, what):
        return self.request("POST", f"/v1/jobs/{job}/{what}")

    def gate(self, name):
        """A script that prints that it began, and continues after open(name)."""
        return f"echo began; until [ -e {self.dir}/{name} ]; do sleep 0.01; done"

    def open(self, name):
        (self.dir / name).touch()

    def state(self, job):
        return self.job(job)["state"]

    def waits_for(self, job, reason):
        def reached():
            view = self.job(job)
            self.assertNotIn(view["state"], ENDED | {"running"}, view)
            return view["reason"] == reason and view
        return until(f"job {job} waits for {reason}", reached)


class QueueTest(QueueCase):
    def test_a_submission_may_be_larger_than_other_requests(self):
        self.request("PATCH", "/v1/queue/settings", {"paused": True})
        word = "x" * 50_000  # slightly below Linux's limit for one argument
        jobs = self.submit_all(*({"command": ["/bin/true", word, str(n)]} for n in range(100)))
        self.assertEqual(len(jobs), 100)
        last = self.job(jobs[-1]["id"])
        self.assertEqual((last["state"], last["command"][1:]), ("queued", [word, "99"]))
        other = self.request("PATCH", "/v1/queue/settings", {"paused": True, "padding": word * 100}, checked=False)
        self.assertEqual(other.status, 413)

    def test_others_submit_while_a_large_submission_is_read(self):
        self.request("PATCH", "/v1/queue/settings", {"paused": True})
        # Each waits for the one before it, by its name; the first waits for the job submitted here.
        before = self.submit_all({"command": ["/bin/true"], "name": "before"})[0]["id"]
        count = 3_500
        jobs = [{"command": ["/bin/true"], "name": f"n{i}",
                 "depends": {"list": [{"kind": "afterok", "job": f"n{i - 1}" if i else "before"}]}} for i in range(count)]
        taken = []
        large = threading.Thread(target=lambda: taken.extend(self.submit_all(*jobs)))
        large.start()
        small = []
        while large.is_alive():
            small += [job["id"] for job in self.submit_all({"command": ["/bin/true"]}, {"command": ["/bin/true"], "depends": {
                "list": [{"kind": "afterok", "job": "@"}]}})]
        large.join()
        ids = [job["id"] for job in taken]
        self.assertEqual(ids, list(range(ids[0], ids[0] + count)), "they are one after the other")
        self.assertEqual(len(set(ids) | set(small)), len(ids) + len(small), "nobody has the id of another")
        of = lambda job: [one["job"] for one in self.job(job)["queue"]["depends"]["list"]]  # noqa: E731
        self.assertEqual(of(ids[0]), [str(before)])
        self.assertEqual(of(ids[-1]), [str(ids[-2])])
        for first, second in zip(small[::2], small[1::2]):
            self.assertEqual(of(second), [str(first)])
        refused = self.request("POST", "/v1/submissions", self.body(*jobs[:-1], {**jobs[-1], "gpus": {"count": 99}}), checked=False)
        self.assertEqual(refused.status, 422, refused.body[:300])
        self.assertIn(f"jobs[{count - 1}]: gpus.count: it asks for 99 GPUs", refused.json()["error"]["message"])
        self.assertEqual(len(self.submit_all({"command": ["/bin/true"]})), 1)
        self.m.run("cancel", f"{ids[0]}-{ids[-1]}")

    def test_a_job_gets_a_gpu_of_its_own_and_ends(self):
        job = self.submit("echo on $CUDA_VISIBLE_DEVICES as $GPUMAN_JOB_ID")
        ended = self.wait(job)
        self.assertEqual((ended["state"], ended["exit_code"], len(ended["gpus"])), ("finished", 0, 1))
        self.assertEqual(self.log(job).strip(), f"on {ended['gpus'][0]} as {job}")
        self.assertEqual(ended["tag"], f"job-{job}")

    def test_jobs_without_a_gpu_see_none_and_wait_for_none(self):
        holders = [self.submit(self.gate("end")) for _ in range(2)]
        for job in holders:
            self.becomes(job, "running")
        job = self.submit('echo "[$CUDA_VISIBLE_DEVICES]"', 0)
        self.assertEqual(self.wait(job)["state"], "finished")
        self.assertEqual(self.log(job).strip(), "[]")
        self.open("end")

    def test_waiting_jobs_start_by_priority_then_age(self):
        first = self.submit(self.gate("end"), 2)
        self.becomes(first, "running")
        line = f">> {self.dir}/order"
        low = self.submit(f"echo low {line}", 2, priority=10)
        usual = self.submit(f"echo usual {line}", 2)
        later = self.submit(f"echo later {line}", 2)
        high = self.submit(f"echo high {line}", 2, priority=250)
        self.waits_for(usual, "resources")
        view = self.waits_for(high, "resources")
        self.assertEqual(view["queue"]["position"], 1)
        self.assertTrue(view["reason_detail"])
        self.assertEqual([job["id"] for job in self.queue()], [first, high, usual, later, low])
        self.open("end")
        for job in (low, usual, later, high):
            self.assertEqual(self.wait(job)["state"], "finished")
        self.assertEqual((self.dir / "order").read_text().split(), ["high", "usual", "later", "low"])

    def test_gpus_are_never_given_to_two_exclusive_jobs(self):
        script = (f'for gpu in $(echo $CUDA_VISIBLE_DEVICES | tr , " "); do mkdir {self.dir}/$gpu || exit 9; done; sleep 0.05; '
                  f'for gpu in $(echo $CUDA_VISIBLE_DEVICES | tr , " "); do rmdir {self.dir}/$gpu; done')
        jobs = [self.submit(script, 1 + number % 2) for number in range(12)]
        for job in jobs:
            self.assertEqual(self.wait(job)["state"], "finished", self.log(job))

    def test_exact_devices_are_the_ones_given(self):
        uuids = [gpu["uuid"] for gpu in self.request("GET", "/v1/queue/info").json()["gpus"]]
        job = self.submit_all({"command": ["true"], "gpus": {"devices": ["1"]}})[0]["id"]
        self.assertEqual(self.wait(job)["gpus"], [uuids[1]])

    def test_shared_jobs_are_packed_by_memory_and_exclusive_ones_stay_alone(self):
        shared = [self.submit(self.gate("end"), share=True, memory="1500MiB") for _ in range(2)]
        for job in shared:
            self.becomes(job, "running")
        self.assertEqual(self.job(shared[0])["gpus"], self.job(shared[1])["gpus"], "both fit on one")
        alone = self.submit(self.gate("end"))
        self.becomes(alone, "running")
        self.assertNotEqual(self.job(alone)["gpus"], self.job(shared[0])["gpus"])
        third = self.submit(self.gate("end"), share=True, memory="1500MiB")
        self.waits_for(third, "resources")
        self.open("end")
        self.assertEqual(self.wait(third)["state"], "finished")

    def test_info_says_who_has_which_gpu(self):
        job = self.submit(self.gate("end"), name="owner")
        self.becomes(job, "running")
        gpus = self.request("GET", "/v1/queue/info").json()["gpus"]
        self.assertEqual(sorted(gpu["state"] for gpu in gpus), ["allocated", "idle"])
        taken = next(gpu for gpu in gpus if gpu["state"] == "allocated")
        self.assertEqual((taken["jobs"], taken["tags"]), ([job], ["owner"]))
        self.open("end")

    def test_a_job_that_can_never_run_is_refused(self):
        self.assertIn("3", self.refused(self.shell("true", 3)))
        self.refused({"command": ["true"], "gpus": {"count": 1, "model": "no-such-gpu"}})
        self.refused(self.shell("true", share=True, memory="64GiB"))
        self.refused(self.shell("true", depends={"list": [{"kind": "afterok", "job": "987654"}]}), 404, "not_found")
        self.assertEqual(self.queue(), [])

    def test_a_batch_is_taken_whole_or_not_at_all(self):
        before = len(self.queue("?states=all"))
        answer = self.request("POST", "/v1/submissions", self.body(self.shell("true"), self.shell("true", 3), self.shell("true")))
        self.assertEqual(answer.status, 422)
        self.assertEqual(len(self.queue("?states=all")), before)
        jobs = self.submit_all(*[self.shell("true", 0) for _ in range(200)])
        ids = [job["id"] for job in jobs]
        self.assertEqual(ids, list(range(ids[0], ids[0] + 200)))
        for job in ids[:3] + ids[-3:]:
            self.assertEqual(self.wait(job)["state"], "finished")

    def test_a_dry_run_says_what_would_happen_and_stores_nothing(self):
        holder = self.submit(self.gate("end"), 2, time_limit_s=3600)
        self.becomes(holder, "running")
        answer = self.request("POST", "/v1/submissions", self.body(self.shell("true"), dry_run=True))
        self.assertEqual(answer.status, 200, answer.body)
        job = answer.json()["jobs"][0]
        self.assertEqual((job["state"], job["reason"]), ("queued", "resources"))
        self.assertTrue(job["estimated_start"])
        self.assertEqual([job["id"] for job in self.queue()], [holder])
        self.open("end")

    def test_hold_and_release(self):
        job = self.submit("true", hold=True)
        self.assertEqual((self.state(job), self.job(job)["reason"]), ("held", "held_by_user"))
        self.assertEqual(self.act(job, "release").status, 200)
        self.assertNotIn("hold", self.job(job)["queue"]["asked"], "its state tells it")
        self.assertEqual(self.wait(job)["state"], "finished")
        self.assertEqual(self.act(job, "hold").code(), "conflict")

    def test_cancelling_a_job_that_waits_and_one_that_runs(self):
        running = self.submit("exec sleep 1000", 2)
        self.becomes(running, "running")
        waiting = self.submit(f"touch {self.dir}/ran")
        gone = self.act(waiting, "cancel").json()
        self.assertEqual((gone["state"], gone["reason"], gone["started_at"]), ("cancelled", "cancelled", None))
        gone = self.act(running, "cancel").json()
        self.assertEqual((gone["state"], gone["reason"]), ("cancelled", "cancelled"))
        self.assertEqual(self.act(running, "cancel").code(), "conflict")
        self.assertFalse((self.dir / "ran").exists())

    def test_many_are_cancelled_at_once_and_each_says_what_became_of_it(self):
        held = [self.submit("true", hold=True) for _ in range(3)]
        rows = self.request("POST", "/v1/cancellations", {"jobs": [str(held[0]), "nobody", str(held[1])]}).json()["jobs"]
        self.assertEqual([row["state"] for row in rows], ["cancelled", None, "cancelled"])
        self.assertEqual(rows[1]["error_code"], "not_found")
        self.assertEqual(self.state(held[2]), "held")

    def test_a_command_that_fails_is_retried_with_a_delay_and_then_has_failed(self):
        count = f"echo x >> {self.dir}/runs; [ $(wc -l < {self.dir}/runs) -ge 3 ] || exit 75"
        job = self.submit(count, retries={"count": 3, "delay_s": 0.2, "on_exit_codes": [75]})
        ended = self.wait(job)
        self.assertEqual((ended["state"], ended["queue"]["attempts"]), ("finished", 3))
        once = self.submit(f"echo x >> {self.dir}/once; exit 3", retries={"count": 3, "on_exit_codes": [75]})
        self.assertEqual(self.wait(once)["state"], "failed")
        self.assertEqual((self.dir / "once").read_text(), "x\n")
        never = self.submit(f"echo x >> {self.dir}/never; exit 75", retries={"count": 2})
        self.assertEqual(self.wait(never)["state"], "failed")
        self.assertEqual((self.dir / "never").read_text(), "x\n" * 3)

    def test_the_time_limit_warns_and_then_ends_the_job(self):
        script = f"trap 'echo warned' USR1; echo began; while :; do sleep 0.02; done"
        job = self.submit(script, time_limit_s=4, warn_signal="USR1", warn_before_s=2)
        ended = self.wait(job)
        self.assertEqual((ended["state"], ended["reason"]), ("timeout", "time_limit"))
        self.assertIn("warned", self.log(job))

    def test_a_begin_time_is_waited_for(self):
        job = self.submit("true", begin="2099-01-01T00:00:00.000Z")
        self.assertEqual(self.waits_for(job, "begin_time")["queue"]["begin"], "2099-01-01T00:00:00.000Z")
        self.assertEqual(self.request("PATCH", f"/v1/jobs/{job}", {"queue": {"begin": None}}).status, 200)
        self.assertEqual(self.wait(job)["state"], "finished")

    def test_output_goes_where_it_was_asked_to(self):
        job = self.submit("cat; echo bad >&2", 0, name="talk", stdin="/etc/hostname", stdout="out-%x-%j.txt",
                          stderr="err.txt")
        self.assertEqual(self.wait(job)["state"], "finished", self.log(job))
        self.assertEqual((self.dir / f"out-talk-{job}.txt").read_text(), pathlib.Path("/etc/hostname").read_text())
        self.assertEqual((self.dir / "err.txt").read_text(), "bad\n")
        lost = self.submit("true", 0, stdout="/no/such/directory/file")
        ended = self.wait(lost)
        self.assertEqual((ended["state"], ended["reason"]), ("failed", "start_failed"))
        self.assertIn("/no/such/directory/file", ended["reason_detail"])

    def test_scripts_run_with_the_interpreter_of_their_first_line(self):
        jobs = self.submit_all({"script": "#!/bin/bash\n[[ $1 == a ]] && echo bash $GPUMAN_JOB_ID\n", "arguments": ["a"]},
                               {"script": "#!/usr/bin/env python3\nprint('python')\n"}, {"script": "echo plain\n"})
        for job, said in zip(jobs, (f"bash {jobs[0]['id']}", "python", "plain")):
            self.assertEqual(self.wait(job["id"])["state"], "finished", self.log(job["id"]))
            self.assertEqual(self.log(job["id"]).strip(), said)

    def test_pausing_keeps_everything_waiting(self):
        self.assertTrue(self.request("PATCH", "/v1/queue/settings", {"paused": True}).json()["paused"])
        job = self.submit("true")
        self.waits_for(job, "paused")
        self.request("PATCH", "/v1/queue/settings", {"paused": False})
        self.assertEqual(self.wait(job)["state"], "finished")

    def test_gpus_that_are_not_allowed_are_not_used(self):
        allowed = self.request("PATCH", "/v1/queue/settings", {"allowed": ["1"]}).json()["allowed"]
        job, other = self.submit(self.gate("end")), self.submit("true")
        self.assertEqual(self.becomes(job, "running")["gpus"], allowed)
        self.assertEqual(self.state(other), "queued")
        states = [gpu["state"] for gpu in self.request("GET", "/v1/queue/info").json()["gpus"]]
        self.assertEqual(states, ["restricted", "allocated"])
        self.open("end")
        self.assertEqual(self.wait(other)["gpus"], allowed)

    def test_a_gpu_with_a_foreign_process_is_not_handed_out_until_it_is_ignored(self):
        env = dict(self.m.env, CUDA_VISIBLE_DEVICES="0")
        foreign = subprocess.Popen([program("gpuman-load"), "--alloc", "64MiB", "--hold", "1h"], env=env, stdout=subprocess.DEVNULL)
        self.addCleanup(lambda: (foreign.kill(), foreign.wait()))
        gpu = until("the GPU is seen as taken", lambda: next(
            (gpu for gpu in self.request("GET", "/v1/queue/info").json()["gpus"] if gpu["state"] == "unmanaged"), None))
        self.assertEqual([process["pid"] for process in gpu["processes"]], [foreign.pid])
        both = self.submit("true", 2)
        view = self.waits_for(both, "unmanaged")
        self.assertIn(f"GPU {gpu['index']}", view["reason_detail"])
        alone = self.wait(self.submit("true"))
        self.assertEqual(alone["state"], "finished")
        self.assertNotEqual(alone["gpus"], [gpu["uuid"]])
        rule = self.request("POST", "/v1/ignored-processes", {"pid": foreign.pid})
        self.assertEqual(rule.status, 201, rule.body)
        self.assertEqual(self.wait(both)["state"], "finished")
        self.assertEqual(self.request("DELETE", f"/v1/ignored-processes/{rule.json()['id']}").status, 200)


    @unittest.skipUnless(os.geteuid() == 0, "names protect root's processes")
    def test_a_name_that_is_protected_by_a_reload_is_in_nobodys_way(self):
        env = dict(self.m.env, CUDA_VISIBLE_DEVICES="0")
        foreign = subprocess.Popen([program("gpuman-load"), "--alloc", "64MiB", "--hold", "1h"], env=env, stdout=subprocess.DEVNULL)
        self.addCleanup(lambda: (foreign.kill(), foreign.wait()))
        until("the GPU is seen as taken", lambda: "unmanaged" in [gpu["state"] for gpu in self.request("GET", "/v1/queue/info").json()["gpus"]])
        both = self.submit("true", 2)
        self.waits_for(both, "unmanaged")
        file = pathlib.Path(self.m.env["GPUMAN_CONFIG"])
        before = file.read_text()
        self.addCleanup(lambda: (file.write_text(before), self.m.daemon.send_signal(signal.SIGHUP)))
        file.write_text(before + "\n[guard]\nprotected = [\"gpuman-load\"]\n")
        self.m.daemon.send_signal(signal.SIGHUP)
        self.assertEqual(self.wait(both)["state"], "finished")


class DependencyTest(QueueCase):
    def after(self, kind, *jobs, **more):
        return {"list": [{"kind": kind, "job": str(job)} for job in jobs], **more}

    def test_dependencies_come_true_or_cancel(self):
        good, bad = self.submit("exit 0", 0), self.submit("exit 3", 0)
        runs = {}
        for kind, on in (("afterok", good), ("afterany", bad), ("afternotok", bad), ("after", good)):
            runs[kind] = self.submit("true", 0, depends=self.after(kind, on))
        for kind, job in runs.items():
            self.assertEqual(self.wait(job)["state"], "finished", kind)
        for kind, on in (("afterok", bad), ("afternotok", good)):
            gone = self.wait(self.submit("true", 0, depends=self.after(kind, on)))
            self.assertEqual((gone["state"], gone["reason"]), ("cancelled", "dependency_never"), kind)
        stays = self.submit("true", 0, depends=self.after("afterok", bad), auto_cancel=False)
        self.waits_for(stays, "dependency_never")

    def test_a_chain_runs_in_its_order_and_falls_with_its_first(self):
        line = f">> {self.dir}/order"
        jobs = self.submit_all(self.shell(f"sleep 0.1; echo 1 {line}", 0, name="one"),
                               self.shell(f"echo 2 {line}", 0, depends=self.after("afterok", "@")),
                               self.shell(f"echo 3 {line}", 0, depends=self.after("afterok", "@", "one")))
        self.assertEqual(self.wait(jobs[2]["id"])["state"], "finished")
        self.assertEqual((self.dir / "order").read_text().split(), ["1", "2", "3"])
        first = self.submit("true", 0, hold=True)
        second = self.submit("true", 0, depends=self.after("afterok", "@"))
        third = self.submit("true", 0, depends=self.after("afterok", second))
        self.waits_for(third, "dependency")
        self.act(first, "cancel")
        self.assertEqual(self.wait(third)["state"], "cancelled")

    def test_any_of_several_will_do(self):
        bad, held = self.submit("exit 1", 0), self.submit("true", 0, hold=True)
        job = self.submit("true", 0, depends=self.after("afterok", bad, held, mode="any"))
        self.waits_for(job, "dependency")
        self.act(held, "release")
        self.assertEqual(self.wait(job)["state"], "finished")


class ChangeTest(QueueCase):
    def patch(self, job, **fields):
        return self.request("PATCH", f"/v1/jobs/{job}", fields)

    def test_the_request_of_a_waiting_job_can_be_changed(self):
        job = self.submit("exit 3", 1, hold=True)
        changed = self.patch(job, priority=7, queue={"gpus": {"count": 2}, "time_limit_s": 60, "name": "new",
                                                     "command": ["/bin/sh", "-c", "echo $CUDA_VISIBLE_DEVICES"]})
        self.assertEqual(changed.status, 200, changed.body)
        view = changed.json()
        self.assertEqual((view["priority"], view["tag"], view["queue"]["gpus"]["count"], view["queue"]["time_limit_s"]),
                         (7, "new", 2, 60))
        self.m.stop_daemon(signal.SIGKILL)
        self.m.start_daemon()
        self.assertEqual(self.act(job, "release").status, 200)
        ended = self.wait(job)
        self.assertEqual((ended["state"], len(ended["gpus"])), ("finished", 2))
        self.assertEqual(self.log(job).strip(), ",".join(ended["gpus"]))

    def test_changes_that_cannot_be_are_refused_and_change_nothing(self):
        first = self.submit("true", hold=True)
        second = self.submit("true", 0, depends={"list": [{"kind": "afterok", "job": str(first)}]})
        circle = self.patch(first, queue={"depends": {"list": [{"kind": "afterok", "job": str(second)}]}})
        self.assertEqual((circle.status, circle.code()), (400, "invalid_argument"), circle.body)
        self.assertIn(str(second), circle.json()["error"]["message"])
        self.assertEqual(self.patch(first, queue={"gpus": {"count": 9}}).status, 422)
        self.assertEqual(self.job(first)["queue"]["gpus"]["count"], 1)
        running = self.submit(self.gate("end"))
        self.becomes(running, "running")
        self.assertEqual(self.patch(running, queue={"gpus": {"count": 2}}).code(), "conflict")
        self.open("end")

    def test_the_time_limit_of_a_running_job_can_be_changed(self):
        job = self.submit("exec sleep 1000", time_limit_s=3600)
        self.becomes(job, "running")
        self.assertEqual(self.patch(job, queue={"time_limit_s": 0.1}).status, 200)
        self.assertEqual(self.wait(job)["state"], "timeout")

    def test_a_job_is_done_once_more_with_those_that_fell_with_it(self):
        job = self.submit(f"[ -e {self.dir}/good ]", 0, name="first", project="p")
        child = self.submit(f"echo child >> {self.dir}/order", 0, depends={"list": [{"kind": "afterok", "job": str(job)}]})
        self.assertEqual(self.wait(child)["state"], "cancelled")
        self.open("good")
        answer = self.request("POST", f"/v1/jobs/{job}/redo", {"cascade": True})
        self.assertEqual(answer.status, 201, answer.body)
        again, its_child = [row["id"] for row in answer.json()["jobs"]]
        self.assertEqual(self.wait(its_child)["state"], "finished")
        view = self.job(again)
        self.assertEqual((view["state"], view["tag"], view["queue"]["project"]), ("finished", "first", "p"))
        self.assertEqual((self.dir / "order").read_text(), "child\n")

    def test_restarting_a_job_of_the_queue_lets_it_wait_again(self):
        holder = self.submit(self.gate("end"), 2)
        self.becomes(holder, "running")
        job = self.submit("true", hold=True)
        self.act(job, "cancel")
        self.assertEqual(self.request("POST", f"/v1/jobs/{job}/restart").status, 200)
        self.waits_for(job, "resources")
        self.open("end")
        self.assertEqual(self.wait(job)["state"], "finished")


class ArrayTest(QueueCase):
    def array(self, script, first, last, limit=None, gpus=0, **more):
        request = {"indices": [{"first": first, "last": last, "step": 1}], **({"limit": limit} if limit else {})}
        return self.submit_all(self.shell(script, gpus, array=request, **more))[0]

    def test_tasks_know_who_they_are_and_no_more_run_at_once_than_allowed(self):
        script = (f"mkdir {self.dir}/t$GPUMAN_ARRAY_TASK_ID; ls -d {self.dir}/t* 2>/dev/null | wc -l >> {self.dir}/counts; sleep 0.05; "
                  f"echo $GPUMAN_ARRAY_TASK_ID of $GPUMAN_ARRAY_JOB_ID; rmdir {self.dir}/t$GPUMAN_ARRAY_TASK_ID")
        array = self.array(script, 0, 9, limit=2)
        self.assertEqual(array["tasks"], list(range(array["id"], array["id"] + 10)))
        for task in array["tasks"]:
            self.assertEqual(self.wait(task)["state"], "finished")
        self.assertEqual(self.log(f"{array['id']}_3").strip(), f"3 of {array['id']}")
        self.assertLessEqual(max(map(int, (self.dir / "counts").read_text().split())), 2)

    def test_an_array_is_held_and_cancelled_as_one_and_its_tasks_alone(self):
        array = self.array("true", 0, 3, hold=True)
        self.assertEqual(self.act(f"{array['id']}_2", "cancel").json()["id"], array["tasks"][2])
        self.assertEqual([self.state(task) for task in array["tasks"]], ["held", "held", "cancelled", "held"])
        after = self.submit("true", 0, depends={"list": [{"kind": "afterany", "job": str(array["id"])}]})
        self.waits_for(after, "dependency")
        self.assertEqual(self.act(array["id"], "cancel").status, 200)
        self.assertEqual({self.state(task) for task in array["tasks"]}, {"cancelled"})
        self.assertEqual(self.wait(after)["state"], "finished")


class BooksTest(QueueCase):
    def test_quotas_hold(self):
        user = self.job(self.submit("true", 0))["user"]
        put = self.request("PUT", f"/v1/quotas/user/{user}", {"running_jobs": 1, "queued_jobs": 2, "gpus": 1})
        self.assertEqual(put.status, 200, put.body)
        self.addCleanup(self.request, "DELETE", f"/v1/quotas/user/{user}")
        self.refused(self.shell("true", 2))
        first = self.submit(self.gate("end"))
        self.becomes(first, "running")
        second, third = self.submit("true"), self.submit("true")
        self.waits_for(second, "quota")
        self.assertIn("2", self.refused(self.shell("true")))
        used = self.request("GET", "/v1/quotas").json()["quotas"][0]["used"]
        self.assertEqual((used["running_jobs"], used["queued_jobs"], used["gpus"]), (1, 2, 1))
        self.open("end")
        for job in (second, third):
            self.assertEqual(self.wait(job)["state"], "finished")

    def test_usual_quotas_hold_for_who_comes_later(self):
        self.assertEqual(self.request("PUT", "/v1/quotas/project/*", {"running_jobs": 1}).status, 200)
        self.addCleanup(self.request, "DELETE", "/v1/quotas/project/*")
        first = self.submit(self.gate("end"), 0, project="later")
        self.becomes(first, "running")
        second = self.submit("true", 0, project="later")
        self.waits_for(second, "quota")
        self.open("end")
        self.assertEqual(self.wait(second)["state"], "finished")

    def test_gpus_are_kept_for_who_reserved_them(self):
        answer = self.request("POST", "/v1/reservations", {"user": "somebody", "count": 2, "start": "2020-01-01T00:00:00Z",
                                                           "duration_s": 86400 * 36500})
        self.assertEqual(answer.status, 201, answer.body)
        reservation = answer.json()
        self.assertEqual((reservation["state"], len(reservation["devices"])), ("active", 2))
        job = self.submit("true")
        self.waits_for(job, "reservation")
        self.assertEqual(self.request("DELETE", f"/v1/reservations/{reservation['id']}").status, 200)
        self.assertEqual(self.wait(job)["state"], "finished")

    def test_statistics_add_up(self):
        for script in ("exit 0", "exit 0", "exit 1"):
            self.wait(self.submit(script, project="stats"))
        rows = self.request("GET", "/v1/stats?by=project").json()["rows"]
        row = next(row for row in rows if row["name"] == "stats")
        self.assertEqual((row["jobs"], row["finished"], row["failed"]), (3, 2, 1))
        self.assertAlmostEqual(row["success"], 2 / 3)
        self.assertGreater(row["gpu_hours"], 0)


class PreemptTest(QueueCase):
    gpus, memory, config = 1, "4GiB", '[queue]\npreempt_after = "0s"\n'

    def begun(self, **more):
        job = self.submit(f"echo began >> {self.dir}/began; exec " + self.load("256MiB", "--hold", "1h"), preemptible=True, priority=10, **more)
        until("it holds memory", lambda: self.job(job)["memory"]["used"])
        return job

    def test_a_preemptible_job_makes_room_and_goes_on_afterwards(self):
        low = self.begun()
        urgent = self.submit(self.gate("end"), priority=250)
        self.becomes(urgent, "running")
        view = self.becomes(low, "suspended")
        self.assertEqual(view["reason"], "preempted")
        self.open("end")
        self.becomes(low, "running")
        self.assertEqual((self.dir / "began").read_text(), "began\n", "it went on where it was")
        self.assertEqual(self.state(urgent), "finished")

    def test_a_daemon_that_comes_back_knows_who_made_room(self):
        low = self.begun()
        urgent = self.submit(self.gate("end"), priority=250)
        self.becomes(low, "suspended")
        self.m.stop_daemon(signal.SIGKILL)
        self.m.start_daemon()
        self.becomes(urgent, "running")
        self.assertEqual(self.state(low), "suspended")
        self.open("end")
        self.becomes(low, "running")

    def test_time_off_the_gpu_does_not_count_for_the_time_limit(self):
        low = self.begun(time_limit_s=3600)
        urgent = self.submit(self.gate("end"), priority=250)
        self.becomes(low, "suspended")
        update = self.request("PATCH", f"/v1/jobs/{low}", {"queue": {"time_limit_s": 0.05}})
        self.assertEqual(update.status, 200, update.body)
        self.becomes(urgent, "running")
        self.assertEqual(self.state(low), "suspended", "its clock stands")
        self.open("end")
        self.assertEqual(self.wait(low)["state"], "timeout")


class RestartTest(QueueCase):
    def restart(self, how=signal.SIGKILL):
        self.m.stop_daemon(how)
        self.m.start_daemon()

    def test_a_full_queue_survives_and_what_runs_keeps_running(self):
        self.request("PATCH", "/v1/queue/settings", {"choice": "random"})
        running = [self.submit(self.gate("end")) for _ in range(2)]
        pids = [self.becomes(job, "running")["pid"] for job in running]
        line = f">> {self.dir}/order"
        waiting = [self.submit(f"echo {number} {line}", 2) for number in range(5)]
        held = self.submit("true", hold=True)
        dependent = self.submit("true", 0, depends={"list": [{"kind": "afterok", "job": str(waiting[-1])}]})
        for how in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
            self.restart(how)
        self.assertEqual([self.becomes(job, "running")["pid"] for job in running], pids)
        self.assertEqual({self.state(job) for job in waiting}, {"queued"})
        self.assertEqual(self.state(held), "held")
        self.waits_for(dependent, "dependency")
        self.assertEqual(self.request("GET", "/v1/queue/info").json()["settings"]["choice"], "random")
        self.open("end")
        self.assertEqual(self.wait(dependent)["state"], "finished")
        self.assertEqual((self.dir / "order").read_text().split(), [str(number) for number in range(5)])
        refused = self.request("PATCH", "/v1/queue/settings", {"choice": "best"})
        self.assertEqual(refused.status, 400)
        self.assertIn("'best' is no way to choose GPUs", refused.json()["error"]["message"])
        self.request("PATCH", "/v1/queue/settings", {"choice": "sequential"})

    def test_usual_quotas_hold_after_a_start(self):
        self.assertEqual(self.request("PUT", "/v1/quotas/user/*", {"running_jobs": 1}).status, 200)
        self.addCleanup(self.request, "DELETE", "/v1/quotas/user/*")
        first = self.submit(self.gate("end"), 0)
        self.becomes(first, "running")
        second = self.submit("true", 0)
        self.waits_for(second, "quota")
        self.restart()
        self.waits_for(second, "quota")
        self.open("end")
        self.assertEqual(self.wait(second)["state"], "finished")

    def test_a_job_that_ended_without_a_daemon_frees_its_gpus(self):
        running = self.submit(self.gate("end"), 2)
        pid = self.becomes(running, "running")["pid"]
        waiting = self.submit("true", 2)
        self.m.stop_daemon(signal.SIGKILL)
        self.open("end")
        until("it has ended", lambda: not pathlib.Path(f"/proc/{pid}").exists())
        self.m.start_daemon()
        self.assertEqual(self.wait(waiting)["state"], "finished")
        self.assertEqual(self.state(running), "finished")

    def test_a_time_limit_is_kept_while_no_daemon_lives(self):
        job = self.submit("exec sleep 1000", time_limit_s=5)
        pid = self.becomes(job, "running")["pid"]
        self.m.stop_daemon(signal.SIGKILL)
        until("it has been ended", lambda: not pathlib.Path(f"/proc/{pid}").exists())
        self.m.start_daemon()
        self.assertEqual(self.wait(job)["state"], "timeout")


if __name__ == "__main__":
    unittest.main(verbosity=2)

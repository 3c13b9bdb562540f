#!/usr/bin/env python3
"""Long lists and long submissions: pages, pieces, bounds; and simultaneous changes of the queue's books.

Usage: queue_lists_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import http.client
import json
import pathlib
import signal
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from daemon_case import until  # noqa: E402
from machine import UnixConnection  # noqa: E402
from queue_test import QueueCase  # noqa: E402

MANY = 1200


class ListsTest(QueueCase):
    def pages(self, path, limit, titles=False):
        """The ids of each page, until a page that is not full."""
        pages, after = [], 0
        while not pages or len(pages[-1]) == limit:
            sign = "&" if "?" in path else "?"
            answer = self.request("GET", f"{path}{sign}limit={limit}&after={after}")
            self.assertEqual(answer.status, 200, answer.body)
            pages.append([int(line.split(b"\t")[0]) for line in answer.body.splitlines()[1:]] if titles
                         else [job["id"] for job in answer.json()["jobs"]])
            after = pages[-1][-1] if pages[-1] else after
        return pages

    def test_pages_of_each_list_have_every_job_once_by_id(self):
        running = self.submit(self.gate("end"), 2)
        self.becomes(running, "running")
        held = [self.submit("true", hold=True) for _ in range(3)]
        urgent = self.submit("true", priority=200)
        waiting = self.submit("true")
        everything = sorted([running, *held, urgent, waiting])
        self.assertEqual([job["id"] for job in self.queue()], [running, urgent, waiting, *held])
        self.assertEqual([job["id"] for job in self.queue("?limit=2")], [running, urgent], "without after: the first")
        for path, titles in (("/v1/queue", False), ("/v1/queue/rows", True), ("/v1/jobs?all=1", False), ("/v1/jobs", False),
                             ("/v1/status?all=1", False), ("/v1/status", False)):
            for limit in (1, 2, 6, 7):
                pages = self.pages(path, limit, titles)
                ids = [job for page in pages for job in page if job in everything]
                self.assertEqual(ids, everything, (path, limit))
        of_these = f"/v1/queue?jobs={held[0]},{waiting},{running}"
        self.assertEqual(self.pages(of_these, 2), [sorted([held[0], running, waiting])[:2], sorted([held[0], running, waiting])[2:]])
        self.assertEqual(self.queue(f"?after={10**9}"), [])
        self.assertEqual([job["id"] for job in self.queue(f"?limit=0&after={waiting - 1}")], [waiting])
        for path in ("/v1/queue", "/v1/queue/rows", "/v1/jobs", "/v1/status"):
            for query in ("?limit=x", "?after=-1", "?limit=1.5", "?after="):
                answer = self.request("GET", path + query)
                self.assertEqual((answer.status, answer.code()), (400, "invalid_argument"), path + query)
        self.open("end")
        self.wait(running)

    def test_the_command_line_reads_pages_and_shows_the_queues_order(self):
        self.request("PATCH", "/v1/queue/settings", {"paused": True})
        self.submit_all(self.shell("true", array={"indices": [{"first": 0, "last": 5999}]}))
        last = self.submit("true", priority=255, name="urgent")
        held = self.submit("true", hold=True, name="kept")
        listed = self.m.run("queue", "-o", "csv")
        self.assertEqual(listed.returncode, 0, listed.stderr)
        lines = listed.stdout.splitlines()
        self.assertEqual(len(lines), 1 + 6002)
        self.assertIn("urgent", lines[1])
        self.assertIn("kept", lines[-1])
        shown = json.loads(self.m.run("queue", "--json").stdout)["jobs"]
        self.assertEqual((len(shown), shown[0]["id"], shown[-1]["id"]), (6002, last, held))
        status = json.loads(self.m.run("status", "--all", "--json").stdout)["jobs"]
        self.assertEqual([job["id"] for job in status if not job["ended_at"]], sorted(job["id"] for job in shown))
        self.assertEqual(len(json.loads(self.m.run("queue", "--json", "-n", "3").stdout)["jobs"]), 3)
        for job in (shown[1]["queue"]["array_id"], last, held):
            self.assertEqual(self.act(job, "cancel").status, 200)
        self.assertEqual(self.queue(), [])

    def test_a_client_that_stops_in_the_middle_of_a_list_is_in_nobodys_way(self):
        self.submit_all(self.shell("true", hold=True, array={"indices": [{"first": 0, "last": MANY - 1}]}))
        slow = []
        for _ in range(20):
            connection = UnixConnection(self.m.env["GPUMAN_SOCKET"], timeout=120)
            connection.request("GET", "/v1/queue?states=all")
            slow.append(connection)
        # Some wait for the others; each connection that closes makes room for the next.
        for connection in slow[:19]:
            connection.close()
        self.assertEqual(len([job for job in json.loads(slow[19].getresponse().read())["jobs"]
                              if job["state"] == "held"]), MANY)
        slow[19].close()
        self.assertEqual(len(self.queue()), MANY)
        self.act(self.queue("?limit=1")[0]["queue"]["array_id"], "cancel")

    def test_jobs_that_change_while_a_list_is_written_are_in_it_once(self):
        array = self.submit_all(self.shell("true", hold=True, array={"indices": [{"first": 0, "last": MANY - 1}]}))[0]["id"]
        connection = UnixConnection(self.m.env["GPUMAN_SOCKET"], timeout=120)
        connection.request("GET", "/v1/queue?states=all")
        answer = connection.getresponse()
        first = answer.read(1000)
        self.assertEqual(self.act(array, "cancel").status, 200)
        jobs = json.loads(first + answer.read())["jobs"]
        connection.close()
        ids = [job["id"] for job in jobs if job["queue"]["array_id"] == array]
        self.assertEqual(sorted(ids), list(range(array, array + MANY)))

    def test_hold_release_and_redo_of_a_long_array(self):
        self.request("PATCH", "/v1/queue/settings", {"paused": True})
        array = self.submit_all(self.shell("true", array={"indices": [{"first": 0, "last": MANY - 1}]}))[0]["id"]
        for what, state in (("hold", "held"), ("release", "queued"), ("cancel", "cancelled")):
            self.assertEqual(self.act(array, what).status, 200)
            found = {job["state"] for job in self.queue(f"?jobs={array}")}
            self.assertEqual(found, {state})
        again = self.request("POST", f"/v1/jobs/{array}/redo", {})
        self.assertEqual(again.status, 201, again.body[:300])
        new = [job["id"] for job in again.json()["jobs"]]
        self.assertEqual(len(new), MANY)
        self.assertEqual([self.job(new[i])["queue"]["redo_of"] for i in (0, -1)], [array, array + MANY - 1])
        done = self.request("POST", "/v1/cancellations", {"jobs": [*map(str, new), "nosuch", str(new[0])]})
        rows = done.json()["jobs"]
        self.assertEqual(len(rows), MANY + 1)
        self.assertEqual([row["error_code"] for row in rows if row["error_code"]], ["not_found"])
        self.assertEqual(self.queue(), [])

    def test_a_daemon_killed_in_the_middle_of_many_jobs_has_all_of_them_or_none(self):
        answers, log = [], pathlib.Path(self.m.env["GPUMAN_STATE_DIR"]) / "gpuman.db-wal"

        def submit():
            try:
                answers.append(self.request("POST", "/v1/submissions", self.body(
                    *[self.shell("true", hold=True, priority=n % 256) for n in range(MANY)])).status)
            except (OSError, ValueError, http.client.HTTPException):
                answers.append(None)
        for _ in range(3):
            before = len(self.queue())
            thread = threading.Thread(target=submit)
            thread.start()
            until("the first are written", lambda: b"arrival/" in log.read_bytes() or not thread.is_alive())
            self.m.stop_daemon(signal.SIGKILL)
            self.m.start_daemon()
            thread.join()
            self.assertIn(len(self.queue()) - before, (0, MANY))
            if answers[-1] == 201:
                self.assertEqual(len(self.queue()) - before, MANY)
        self.request("POST", "/v1/cancellations", {"jobs": [str(job["id"]) for job in self.queue()]})


class BoundTest(QueueCase):
    config = "[queue]\nqueued_jobs = 100\n"

    def test_the_bound_on_waiting_jobs_is_told_and_a_quota_sets_another(self):
        def array(count):
            return self.shell("true", hold=True, array={"indices": [{"first": 1, "last": count}]})
        self.assertIn("quota of 100", self.refused(array(101)))
        self.submit_all(array(60))
        message = self.refused(array(41))
        self.assertIn("has 60 waiting jobs; with 41 more that passes the quota of 100", message)
        self.submit_all(array(40))
        self.refused(self.shell("true"))
        user = self.queue("?limit=1")[0]["user"]
        self.assertEqual(self.request("PUT", f"/v1/quotas/user/{user}", {"running_jobs": 7}).status, 200)
        self.refused(self.shell("true"))  # other limits do not change it
        self.assertEqual(self.request("PUT", f"/v1/quotas/user/{user}", {"queued_jobs": 101}).status, 200)
        self.submit("true", hold=True)
        self.refused(self.shell("true"))
        self.assertEqual(self.request("DELETE", f"/v1/quotas/user/{user}").status, 200)
        for named in {job["queue"]["array_id"] or job["id"] for job in self.queue()}:
            self.act(named, "cancel")
        self.submit_all(array(100))

    def test_many_submissions_at_once_do_not_pass_it(self):
        answers = []

        def submit():
            body = self.body(self.shell("true", hold=True, array={"indices": [{"first": 1, "last": 70}]}))
            answers.append(self.request("POST", "/v1/submissions", body).status)
        threads = [threading.Thread(target=submit) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(answers), [201] + [422] * 7)


class BooksTest(QueueCase):
    gpus = 8

    def at_once(self, *requests):
        """Sends each request on a connection of its own, all before it reads the first answer."""
        connections = []
        for method, path, body in requests:
            connection = UnixConnection(self.m.env["GPUMAN_SOCKET"], timeout=120)
            connection.request(method, path, json.dumps(body))
            connections.append(connection)
        answers = []
        for connection in connections:
            answer = connection.getresponse()
            answers.append((answer.status, json.loads(answer.read())))
            connection.close()
        return answers

    def test_changes_at_the_same_time_are_all_kept(self):
        quota = "/v1/quotas/user/somebody"
        asked = {"running_jobs": 3, "gpus": 2, "queued_jobs": 50, "gpu_hours": 8.5, "shares": 4}
        for _ in range(10):
            answers = self.at_once(*[("PUT", quota, {name: value}) for name, value in asked.items()])
            self.assertEqual([status for status, _ in answers], [200] * len(asked))
            kept = self.request("GET", quota).json()["limits"]
            self.assertEqual({name: kept[name] for name in asked}, asked)
            self.request("DELETE", quota)
        for _ in range(10):
            answers = self.at_once(("PATCH", "/v1/queue/settings", {"paused": True}),
                                   ("PATCH", "/v1/queue/settings", {"drain": ["0"]}),
                                   ("PATCH", "/v1/queue/settings", {"choice": "random"}),
                                   ("POST", "/v1/ignored-processes", {"name": "x"}))
            self.assertEqual([status for status, _ in answers], [200, 200, 200, 201])
            settings = self.request("GET", "/v1/queue/info").json()["settings"]
            self.assertEqual((settings["paused"], len(settings["drained"]), settings["choice"]), (True, 1, "random"))
            self.assertEqual(len(self.request("GET", "/v1/ignored-processes").json()["ignored"]), 1)
            self.request("PATCH", "/v1/queue/settings", {"paused": False, "undrain": ["0"], "choice": "sequential"})
            self.request("DELETE", f"/v1/ignored-processes/{answers[3][1]['id']}")

    def test_gpus_that_are_allowed_and_restricted_at_the_same_time_are_all_so(self):
        def each(word, gpus):
            commands = [self.m.popen("gpu", word, gpu, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for gpu in gpus]
            for command in commands:
                output, _ = command.communicate()
                self.assertEqual(command.returncode, 0, output)
            return self.request("GET", "/v1/queue/info").json()

        for _ in range(5):
            first = each("restrict", "01234567")
            self.assertEqual(first["settings"]["allowed"], [])
            some = each("allow", "1357")
            self.assertEqual(some["settings"]["allowed"], sorted(gpu["uuid"] for gpu in some["gpus"] if gpu["index"] % 2 == 1))
            self.assertIsNone(each("allow", "0246")["settings"]["allowed"])

    def test_of_changes_at_the_same_time_that_exclude_each_other_one_is_made(self):
        time = {"user": "somebody", "start": "2099-01-01T00:00:00Z", "duration_s": 3600}
        for devices in ({"devices": ["0"]}, {"count": 8}):
            answers = self.at_once(*[("POST", "/v1/reservations", {**time, **devices})] * 5)
            made = [answer for status, answer in answers if status == 201]
            self.assertEqual(len(made), 1, answers)
            self.assertTrue(all(status in (409, 422) for status, _ in answers if status != 201), answers)
            gone = self.at_once(*[("DELETE", f"/v1/reservations/{made[0]['id']}", None)] * 3)
            self.assertEqual(sorted(status for status, _ in gone), [200, 404, 404])

    def test_of_reservations_of_named_gpus_that_overlap_and_are_made_at_the_same_time_one_is_refused(self):
        def create(gpus, start):
            words = [word for gpu in gpus for word in ("--gpu", gpu)]
            return self.m.popen("reserve", "create", "--user", "somebody", *words, "--start", start, "--duration", "2h",
                                "--json", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

        for _ in range(3):
            commands = [create("01", "2099-01-01T10:00"), create("12", "2099-01-01T11:00"), create("34", "2099-01-01T10:30")]
            said = [command.communicate() for command in commands]
            first, second, apart = (command.returncode for command in commands)
            self.assertEqual(apart, 0, said)
            self.assertEqual([first, second].count(0), 1, said)
            refused = said[0] if first else said[1]
            self.assertIn("GPU", json.loads(refused[1])["error"]["message"])
            for output, _ in said:
                if output:
                    self.request("DELETE", f"/v1/reservations/{json.loads(output)['id']}")
            self.assertEqual(self.m.run_json("reserve", "list")["reservations"], [])


if __name__ == "__main__":
    unittest.main(verbosity=2)

#!/usr/bin/env python3
"""The history of GPUs and jobs, on the simulated driver: what is recorded, shown, kept over a restart.

Usage: history_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import csv
import io
import json
import pathlib
import signal
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from daemon_case import DaemonTest, until  # noqa: E402

GIB = 1 << 30


class HistoryCase(DaemonTest):
    gpus, memory = 2, "8GiB"
    config = '[history]\nflush = "1s"\n[sampling]\nrest = "50ms"\n'

    def history(self, query):
        answer = self.request("GET", "/v1/history?" + query)
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json()

    def refused(self, query):
        answer = self.request("GET", "/v1/history?" + query)
        self.assertGreaterEqual(answer.status, 400, answer.body)
        return answer.json()["error"]

    @staticmethod
    def known(history):
        """The seconds that were recorded."""
        return sum(history["recorded"]) * history["step"]

    def highest(self, query):
        return max((value for value in self.history(query)["memory"]["max"] if value is not None), default=0)


class Recording(HistoryCase):
    def test_the_memory_of_a_job_and_of_its_gpu_is_recorded(self):
        job = self.start("train", "exec " + self.load("1GiB", "--hold", "1h"), gpus=["1"], memory="4GiB")
        until("a minute of it, or a few seconds", lambda: self.highest("job=train") >= GIB and self.known(self.history("job=train")) >= 3)
        history = self.history("job=train&points=50")
        self.assertEqual((history["job"], history["tag"], history["gpu"]), (job, "train", None))
        self.assertEqual(history["memory_limit"], 4 * GIB)
        self.assertLessEqual(len(history["recorded"]), 50)
        gpu = self.request("GET", "/v1/gpus/1").json()
        self.assertGreaterEqual(self.highest("gpu=1"), GIB)
        by_uuid, by_number = self.history("gpu=" + gpu["uuid"]), self.history("gpu=1")
        self.assertEqual((by_uuid["gpu"], by_uuid["gpu_number"], by_uuid["states"]), (gpu["uuid"], "1", None))
        self.assertEqual(by_number["gpu"], gpu["uuid"])
        self.assertEqual(by_number["memory_limit"], gpu["memory"]["total"])
        self.assertLess(self.highest("gpu=0"), GIB)
        for figure in ("utilization", "power_w", "temperature_c"):
            self.assertTrue(any(value is not None for value in by_number[figure]["mean"]), figure)

    def test_every_list_has_a_number_for_each_bucket(self):
        self.start("train", "exec sleep 1000", gpus=["0"])
        until("something is known", lambda: self.known(self.history("job=train")) >= 1)
        for query in ("job=train", "gpu=0&since=10m&points=7", "gpu=0&since=90d", "gpu=0&since=2000-01-01T00:00:00Z&until=1d"):
            history = self.history(query)
            begin, end = (time.mktime(time.strptime(history[name][:19], "%Y-%m-%dT%H:%M:%S")) for name in ("since", "until"))
            buckets = round((end - begin) / history["step"])
            lists = [history["recorded"]] + list((history["states"] or {}).values())
            for figure in ("memory", "utilization", "power_w", "temperature_c"):
                lists += history[figure].values()
            self.assertEqual({len(one) for one in lists}, {buckets}, query)
            self.assertEqual(history["step"] % history["resolution"], 0)

    def test_a_job_that_is_suspended_or_waits_for_its_turn_shows_it(self):
        def parts(ref, state):
            return sum(part or 0 for part in self.history(f"job={ref}")["states"][state])
        more = {"gpus": ["0"], "share": True}
        load = "exec " + self.load("64MiB", "--verify", "--kernel-time", "1ms", "--hold", "1h")
        held = self.start("held", load, **more)
        until("it ran for a while", lambda: parts(held, "running") >= 1)
        self.assertEqual(parts(held, "suspended"), 0)
        self.assertEqual(self.request("POST", f"/v1/jobs/{held}/suspend").status, 200)
        until("it was suspended for a while", lambda: parts(held, "suspended") >= 1)
        shown = self.m.run("history", "held", "--ascii").stdout
        strip = next(line for line in shown.splitlines() if line.strip().startswith("state"))
        self.assertRegex(strip, "state +R[R ]*_")
        self.assertRegex(shown, r"R running \d+%   w waiting for its turn 0%   _ suspended \d+%")
        self.assertEqual(self.request("DELETE", f"/v1/jobs/{held}").status, 200)
        self.assertEqual(self.request("PUT", "/v1/share", {"capacity": "300MiB", "pause": True}).status, 200)
        waits = [self.start(tag, load, **more) for tag in ("one", "other")]
        until("one of them waited for a while", lambda: any(parts(job, "waiting") >= 1 for job in waits), self.what_stands)

    def test_the_history_of_a_removed_job_stays(self):
        job = self.start("short", "exec " + self.load("512MiB", "--hold", "3s"), gpus=["0"])
        self.wait(job)
        before = self.history(f"job={job}")
        self.assertGreater(self.known(before), 0)
        self.assertEqual(self.request("DELETE", f"/v1/jobs/{job}").status, 200)
        after = self.history(f"job={job}")
        self.assertEqual((after["job"], after["tag"]), (job, None))
        self.assertGreaterEqual(self.known(after), self.known(before) - 1)
        self.assertEqual(after["resolution"], 1)
        self.assertEqual(self.refused("job=short")["code"], "not_found")

    def test_wrong_questions_say_what_is_wrong(self):
        for query, code, message in (
                ("", "invalid_argument", "of one GPU or of one job"), ("gpu=0&job=1", "invalid_argument", "of one GPU or of one job"),
                ("gpu=9", "not_found", "9"), ("job=nobody", "not_found", "nobody"),
                ("gpu=0&points=1", "invalid_argument", "points: 1 is not between 2 and 2000"),
                ("gpu=0&points=5000", "invalid_argument", "5000"),
                ("gpu=0&points=many", "invalid_argument", "points"),
                ("gpu=0&since=whenever", "invalid_argument", "since: 'whenever'"),
                ("gpu=0&since=1h&until=2h", "invalid_argument", "end before it begins")):
            error = self.refused(query)
            self.assertEqual(error["code"], code, error)
            self.assertIn(message, error["message"])
        # An id that never was, or of which nothing was kept.
        self.assertEqual(self.known(self.history("job=987654")), 0)


class Command(HistoryCase):
    def output(self, *words):
        done = self.m.run("history", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_csv_and_json_agree(self):
        self.start("train", "exec " + self.load("1GiB", "--hold", "1h"), gpus=["0"])
        until("something is known", lambda: self.known(self.history("job=train")) >= 2)
        words = ("train", "-g", "0", "--since", "10m", "--until", "0s", "--points", "100")
        views = json.loads(self.output(*words, "-o", "json"))["histories"]
        rows = list(csv.DictReader(io.StringIO(self.output(*words, "-o", "csv"))))
        self.assertEqual([view["job"] for view in views], [None, views[1]["job"]])
        self.assertIn("train", {row["tag"] for row in rows})

        def number(text):
            return None if text == "" else float(text)
        compared = 0
        for view in views:
            mine = {row["time"]: row for row in rows if row["gpu"] == (view["gpu"] or "")}
            begin = time.mktime(time.strptime(view["since"][:19], "%Y-%m-%dT%H:%M:%S"))
            for i in range(len(view["recorded"])):
                at = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.localtime(begin + i * view["step"]))
                if at not in mine or i + 2 >= len(view["recorded"]):
                    continue  # the clock went on between the two
                compared += 1
                row = mine[at]
                for figure in ("memory", "utilization", "power_w", "temperature_c"):
                    for what in ("mean", "min", "max"):
                        self.assertEqual(number(row[f"{figure}_{what}"]), view[figure][what][i], (at, figure, what))
                for state in ("running", "waiting", "suspended"):
                    self.assertEqual(number(row[state]), view["states"] and view["states"][state][i], (at, state))
        self.assertGreater(compared, 50)

    def test_without_a_name_it_plots_every_gpu(self):
        until("something is known", lambda: self.known(self.history("gpu=0")) >= 2)
        text = self.output("--since", "5m", "--ascii")
        for title in ("GPU 0  ", "\nGPU 1  ", "memory  last ", "utilization  last ", "temperature  last "):
            self.assertIn(title, text)
        self.assertTrue(text.isascii())
        self.assertLessEqual(max(map(len, text.splitlines())), 80)

    def test_an_unknown_name_is_refused_with_advice(self):
        gone = self.m.run("history", "nobody")
        self.assertEqual(gone.returncode, 4)
        self.assertIn("nobody", gone.stderr)
        self.assertEqual(self.m.run("history", "--points", "5000").returncode, 2)
        self.assertEqual(self.m.run("history", "-o", "yaml").returncode, 2)
        nothing = self.output("--gpu", "0", "--since", "2000-01-01T00:00:00Z", "--until", "2000-01-02T00:00:00Z")
        self.assertIn("Nothing was recorded in this time.", nothing)


class NamesCase(HistoryCase):
    def subject(self, *words):
        (view,) = self.m.run_json("history", *words)["histories"]
        return view["gpu_number"], view["job"]


class NameOfAGpu(NamesCase):
    gpus = 1

    def test_the_beginning_of_its_uuid_is_the_gpu_where_no_job_has_that_tag(self):
        uuid = self.request("GET", "/v1/gpus/0").json()["uuid"]
        words = uuid[:12], uuid[4:12]
        self.assertEqual([self.subject(word) for word in words], [("0", None)] * 2)
        jobs = [self.start(word, "exec sleep 1000", gpus=["0"]) for word in words]
        self.assertEqual([self.subject(word) for word in words], [(None, job) for job in jobs])
        self.assertEqual(self.subject("--gpu", words[0]), ("0", None))


class NumbersOfGpus(NamesCase):
    gpus = 4

    def test_a_word_is_a_gpu_where_no_job_has_that_name(self):
        uuid = self.request("GET", "/v1/gpus/1").json()["uuid"]
        for word in ("1", uuid, uuid[4:]):
            self.assertEqual(self.subject(word), ("1", None), word)
        self.assertEqual(self.subject("0"), ("0", None), "no job ever has that id")
        self.assertTrue(self.m.run("history", "3").stdout.startswith("GPU 3  "))
        job = self.start("train", "exec " + self.load("64MiB", "--hold", "1h"), gpus=["0"])
        self.assertEqual((job, self.subject("1"), self.subject(uuid)), (1, (None, 1), ("1", None)))
        several = self.m.run("history", uuid[:12])
        self.assertEqual(several.returncode, 2)
        self.assertIn("fits 4 GPUs", several.stderr)
        self.assertIn("no GPU", self.m.run("history", "GPU-00000000").stderr)
        self.start("second", "exec sleep 1000", gpus=["0"])
        until("something is known", lambda: self.known(self.history("job=1")) >= 1)
        held, = self.request("POST", "/v1/submissions", {"jobs": [{"command": ["true"], "hold": True}], "directory": "/",
                                                         "environment": {}}).json()["jobs"]
        self.assertEqual((held["id"], self.subject("3")), (3, (None, 3)))
        for forgotten in (1, 3):
            self.assertEqual(self.request("DELETE", f"/v1/jobs/{forgotten}").status, 200)
        self.assertEqual(self.subject("1"), (None, 1), "it has a record")
        self.assertEqual(self.subject("1", "--until", "2000-01-02T00:00:00Z"), (None, 1), "also at another time")
        self.assertEqual(self.subject("3"), ("3", None), "nothing was recorded of that job")


class Restarts(HistoryCase):
    def written(self):
        """The size of the files of jobs."""
        return sum(path.stat().st_size for path in (self.m.dir / "lib" / "history").glob("job-1s-*"))

    def recorded_over(self, how):
        job = self.start("goes-on", "exec " + self.load("1GiB", "--hold", "1h"), gpus=["0"])
        seconds, five_minutes = f"job={job}&since=10m&points=600", f"job={job}&since=10m&points=2"
        until("a few seconds are known", lambda: self.known(self.history(seconds)) >= 4)
        before = self.known(self.history(seconds))
        for _ in range(2):  # the first may be of a batch that was made before
            size = self.written()
            until("a batch is written", lambda size=size: self.written() > size)
        self.m.stop_daemon(how)
        self.m.start_daemon()
        until("it is read", lambda: self.request("GET", f"/v1/history?job={job}").status == 200)
        # The second that was under way may have been counted before and after.
        self.assertGreaterEqual(self.known(self.history(seconds)) + 1, before)
        coarse = self.history(five_minutes)
        self.assertEqual(coarse["resolution"], 300)
        self.assertGreaterEqual(self.known(coarse) + 1, before)
        until("it goes on", lambda: self.known(self.history(seconds)) > before + 1)

    def test_a_daemon_that_ends_keeps_all(self):
        self.recorded_over(signal.SIGTERM)

    def test_a_daemon_that_is_killed_keeps_what_was_written(self):
        self.recorded_over(signal.SIGKILL)

    def test_a_daemon_starts_over_damaged_files(self):
        folder = self.m.dir / "lib" / "history"
        until("there are files", lambda: any(folder.glob("gpu-1s-*")))
        self.m.stop_daemon()
        for path in folder.iterdir():
            path.write_bytes(path.read_bytes()[:-3])
        (folder / "gpu-10s-00000099.history").write_bytes(b"something else")
        (folder / "notes.txt").write_text("mine")
        self.m.start_daemon()
        until("it records", lambda: self.request("GET", "/v1/history?gpu=0").status == 200 and self.known(self.history("gpu=0")) > 0)
        self.assertTrue((folder / "notes.txt").exists())
        log = (self.m.dir / "daemon.log").read_text()
        self.assertIn("gpu-10s-00000099.history is left out", log)


class SwitchedOff(HistoryCase):
    config = "[history]\ndisk = 0\n"

    def test_nothing_is_recorded_until_it_is_switched_on(self):
        error = self.refused("gpu=0")
        self.assertEqual(error["code"], "not_supported")
        self.assertIn("history.disk is 0", error["message"])
        self.assertFalse((self.m.dir / "lib" / "history").exists())
        (self.m.dir / "gpumand.toml").write_text('[history]\ndisk = "2MiB"\n')
        self.m.daemon.send_signal(signal.SIGHUP)
        until("it records", lambda: self.request("GET", "/v1/history?gpu=0").status == 200 and self.known(self.history("gpu=0")) > 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)

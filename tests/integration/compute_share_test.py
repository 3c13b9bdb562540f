#!/usr/bin/env python3
"""Jobs with shares of a GPU's time: they fit together, and take turns all the same.

Usage: compute_share_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import json
import os
import pathlib
import signal
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from daemon_case import DaemonTest, until  # noqa: E402
from wall_clock import SetsWallClock  # noqa: E402

PROGRAM = pathlib.Path(__file__).with_name("share_program.py")


class ComputeShareCase(DaemonTest):
    gpus, memory = 1, "4GiB"
    config = '[sampling]\nrest = "20ms"\n[share]\nidle = "20ms"\n'

    def busy(self, tag, compute=None, on=0, **more):
        """Starts a load that works all the time on that GPU."""
        if compute:
            percent, plus, _ = compute.partition("+")
            more["compute"] = {"percent": int(percent), **({"may_exceed": True} if plus else {})}
        return self.start(tag, "exec " + self.load("8MiB", "--verify", "--kernel-time", "1ms", "--json", "--step", "4MiB",
                                                   "--hold", "1h"), gpus=[str(on)], share=True, **more)

    def tearDown(self):
        for job in self.m.jobs():
            if not job["ended_at"]:
                self.m.api("DELETE", f"/v1/jobs/{job['tag']}")
        super().tearDown()

    def gpu(self):
        gpus = self.request("GET", "/v1/share").json()["gpus"]
        return gpus[0] if gpus else {"jobs": [], "by_share": False, "contended": False, "exclusive": False}

    def shared(self, tag):
        return {job["tag"]: job for job in self.gpu()["jobs"]}.get(tag)

    def turns(self, tag):
        return self.shared(tag)["had_turn"]

    def has_turns(self, tag, seconds=1):
        before = self.turns(tag)
        return lambda: self.turns(tag) > before + seconds

    def iterations(self, tag):
        """Returns how many iterations a load has made so far."""
        lines = [line for line in self.log(tag, "?tail=5").splitlines() if line.startswith("{") and line.endswith("}")]
        return max((said["number"] for said in map(json.loads, lines) if said["event"] == "iteration"), default=0)

    def refused(self, *words):
        done = self.m.run(*words)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        return done.stderr


class ComputeShareTest(ComputeShareCase):
    def test_two_jobs_get_their_shares(self):
        self.busy("few", "20")
        self.busy("many", "80")
        until("both take part", lambda: self.gpu()["by_share"] and self.shared("few") and self.shared("many"))
        until("one had turns for a while", self.has_turns("many", 4))
        few, many = self.shared("few"), self.shared("many")
        self.assertEqual(few["compute"], {"percent": 20})
        self.assertAlmostEqual(few["compute_part"], 0.2)
        self.assertTrue(self.gpu()["exclusive"])
        # A turn includes the time until the work has come to rest: on a busy machine much of the 20 %.
        self.assertLess(few["had_turn"], many["had_turn"])
        self.assertLess(few["compute_had"], many["compute_had"])

    def test_job_with_calls_from_many_threads_gets_its_share(self):
        """Each thread waits at the gate by itself."""
        stop = self.m.dir / "threads.stop"
        self.start("threads", f"exec {sys.executable} {PROGRAM} {stop} --threads 8", gpus=["0"], share=True, compute={"percent": 20})
        self.busy("many", "80")
        until("both take part", lambda: self.gpu()["by_share"] and self.shared("threads") and self.shared("many"))
        had = self.turns("threads"), self.turns("many")
        until("one had turns for a while", self.has_turns("many", 4))
        until("and the other", lambda: self.turns("threads") > had[0] + 0.3)
        threads, many = self.shared("threads"), self.shared("many")
        self.assertAlmostEqual(threads["compute_part"], 0.2)
        self.assertLess(threads["had_turn"] - had[0], many["had_turn"] - had[1])
        stop.touch()
        self.assertEqual(self.wait("threads")["state"], "finished", self.log("threads")[-1500:])
        ends = [said for said in map(json.loads, self.log("threads").splitlines()) if "rounds" in said]
        self.assertEqual([said["wrong"] for said in ends], 8 * [0])
        self.assertTrue(all(said["rounds"] > 1 for said in ends), ends)

    def test_a_share_is_an_upper_limit_also_alone(self):
        self.busy("alone", "25")
        until("it waits with its share used up", lambda: (self.shared("alone") or {}).get("waits_for") == "share")
        until("it has turns again", self.has_turns("alone", 0.2))
        until("share status tells it", lambda: "has used its share" in self.m.run("share", "status").stdout)

    def test_job_without_upper_limit_runs_freely_alone(self):
        self.busy("alone", "25+")
        until("it runs", lambda: (self.shared("alone") or {}).get("activity") is not None)
        before = self.turns("alone")
        until("it runs on", lambda: self.turns("alone") > before + 0.5)
        self.assertRegex(self.m.run("share", "status").stdout, r"SHARE +HAD[^\n]*\n.* 25%\+ +n/a ")
        self.assertAlmostEqual(self.metric("gpuman_share_compute_asked_ratio", tag="alone"), 0.25)
        self.assertFalse(self.gpu()["by_share"])
        self.assertFalse(self.gpu()["contended"])

    def test_a_share_changes_while_the_job_runs(self):
        self.busy("a")
        self.busy("b")
        until("both take part", lambda: self.shared("a") and self.shared("b"))
        self.assertFalse(self.gpu()["by_share"])
        done = self.m.run("update", "a", "--compute", "60%+")
        self.assertEqual(done.returncode, 0, done.stderr)
        until("shares hold", lambda: self.gpu()["by_share"])
        self.assertAlmostEqual(self.shared("b")["compute_part"], 0.4)
        self.assertIn("60%+", self.m.run("share", "status").stdout)
        self.assertEqual(self.m.api("GET", "/v1/jobs/a")["compute"], {"percent": 60, "may_exceed": True})
        done = self.m.run("update", "a", "--compute", "none")
        self.assertEqual(done.returncode, 0, done.stderr)
        until("they hold no more", lambda: not self.gpu()["by_share"])
        self.assertIsNone(self.m.api("GET", "/v1/jobs/a")["compute"])

    def test_shares_of_more_than_the_whole_are_made_smaller(self):
        self.busy("a", "90")
        self.busy("b", "60")
        until("both take part", lambda: self.gpu()["by_share"] and self.shared("a") and self.shared("b"))
        self.assertAlmostEqual(self.shared("a")["compute_part"], 0.6)
        self.assertRegex(self.m.run("share", "status").stdout, r"90% \(60\.0%\)")
        self.assertAlmostEqual(self.metric("gpuman_share_compute_asked_ratio", tag="a"), 0.9)
        self.assertAlmostEqual(self.metric("gpuman_share_compute_part_ratio", tag="a"), 0.6)

    def test_the_daemon_dies_and_shares_hold_again(self):
        self.busy("a", "30")
        self.busy("b", "70")
        until("both take part", lambda: self.gpu()["by_share"] and self.shared("a") and self.shared("b"))
        self.m.stop_daemon(9)
        self.m.start_daemon()
        until("both take part again", lambda: self.gpu()["by_share"] and self.shared("a") and self.shared("b"))
        for tag in ("a", "b"):
            until(f"{tag} has turns", self.has_turns(tag, 0.3))

    def test_suspended_job_leaves_its_share_to_others_until_resumed(self):
        self.busy("a", "30")
        self.busy("b", "50+")
        until("both take part", lambda: self.gpu()["by_share"] and self.shared("a") and self.shared("b"))
        self.assertEqual(self.m.run("suspend", "a").returncode, 0)
        until("the other one has all", lambda: not self.gpu()["by_share"])
        self.assertEqual(self.m.run("resume", "a").returncode, 0)
        until("shares hold again", lambda: self.gpu()["by_share"])
        until("it has turns", self.has_turns("a", 0.3))

    def test_invalid_share_is_refused_with_advice(self):
        for text in ("0%", "101%", "30", "-5%", "all", "3.5%"):
            self.assertIn("30%+", self.refused("run", "--tag", "x", "--share", "--compute", text, "--", "true"), text)
        self.assertIn("add --share", self.refused("run", "--tag", "x", "--compute", "30%", "--", "true"))
        self.assertIn("add --share", self.refused("submit", "--gpus", "1", "--compute", "30%", "--", "true"))
        self.assertIn("--mps-threads", self.refused("run", "--tag", "x", "--share", "--mps", "--compute", "30%", "--", "true"))
        for wrong in ({"percent": 0}, {"percent": 101}, {}, {"percent": 30, "may_exceed": 1}, "30%", 30, {"percent": 1e300},
                      {"percent": 30, "more": 1}):
            answer = self.request("POST", "/v1/jobs", {"tag": "x", "command": ["true"], "share": True, "compute": wrong})
            self.assertEqual(answer.status, 400, f"{wrong}: {answer.body}")
            self.assertIn("compute", json.dumps(answer.json()), wrong)

    def test_a_job_that_does_not_share_gets_no_share_later(self):
        self.start("whole", "sleep 60", gpus=["0"])
        self.assertIn("add --share", self.refused("update", "whole", "--compute", "30%"))

    def test_job_that_goes_first_holds_the_other_back(self):
        self.busy("training")
        self.start("server", "exec " + self.load("8MiB", "--verify", "--kernel-time", "1ms", "--duty", "0.3", "--hold", "1h"),
                   gpus=["0"], share=True, latency=True)
        until("both take part", lambda: self.shared("training") and self.shared("server"))
        self.assertTrue(self.shared("server")["latency"])
        until("the training is held back", lambda: self.shared("training")["waits_for"] == "latency")
        until("and works on", self.has_turns("training", 0.2))
        self.assertEqual(self.shared("server")["gate"], "open")
        self.assertEqual(self.metric("gpuman_share_latency", tag="server"), 1)
        self.assertEqual(self.metric("gpuman_share_latency"), 1, "of that job alone")
        self.assertGreater(self.metric("gpuman_share_held_others_seconds_total", tag="server"), 0)
        self.assertIn("server: its work goes first", self.m.run("share", "status").stdout)
        self.assertEqual(self.m.run("update", "server", "--no-latency").returncode, 0)
        until("nobody is held back", lambda: not self.gpu()["contended"])
        self.assertFalse(self.m.api("GET", "/v1/jobs/server")["latency"])

    def test_job_that_goes_first_and_always_works_leaves_time_to_the_other(self):
        self.busy("greedy", latency=True)
        self.busy("other")
        until("both take part", lambda: self.shared("greedy") and self.shared("other"))
        # It is held back for a second at most, which may be over by now.
        until("the other one runs", self.has_turns("other", 1))

    def test_paced_job_does_all_its_work_beside_one_that_goes_first(self):
        """Its launches stand on the GPU again and again; its data stay right."""
        self.start("server", "exec " + self.load("8MiB", "--kernel-time", "1ms", "--duty", "0.2", "--hold", "1h"), gpus=["0"],
                   share=True, latency=True)
        until("it takes part", lambda: self.shared("server"))
        end = self.m.dir / "paced"
        self.start("paced", "exec " + self.load("8MiB", "--verify", "--kernel-time", "1ms", "--json", "--step", "4MiB",
                                                "--until", str(end)), gpus=["0"], share=True)
        until("it is held back at times", lambda: (self.shared("paced") or {}).get("longest_unit") is not None)
        time.sleep(1)
        end.touch()
        until("it has ended", lambda: self.m.api("GET", "/v1/jobs/paced")["ended_at"])
        self.assertEqual(self.m.api("GET", "/v1/jobs/paced")["state"], "finished")

    def test_work_that_stays_after_its_turn_is_shown_with_its_length(self):
        """Steps of 100 ms, of which four are on the GPU when the turn is over."""
        self.busy("short", "50")
        self.start("long", "exec " + self.load("8MiB", "--ranks", "2", "--pattern", "ddp", "--peer", "host", "--work", "100ms", "--ahead", "4",
                                               "--until", str(self.m.dir / "long.stop")), gpus=["0"], share=True, compute={"percent": 50})
        until("its work stays that long", lambda: ((self.shared("long") or {}).get("longest_unit") or 0) >= 0.1)
        self.assertRegex(self.m.run("share", "status").stdout, r"long: its work stayed on the GPU for \d.* after its turn; a kernel or a graph is not cut")
        self.assertGreaterEqual(self.metric("gpuman_share_longest_unit_seconds", tag="long"), 0.1)

    def test_ranks_that_need_each_other_are_held_back_with_right_results(self):
        """Two processes on one GPU: a rank stands in its streams while the other waits for it on the GPU."""
        self.start("server", "exec " + self.load("8MiB", "--kernel-time", "1ms", "--duty", "0.2", "--hold", "1h"), gpus=["0"],
                   share=True, latency=True)
        self.start("ranks", "exec " + self.load("8MiB", "--ranks", "2", "--pattern", "ddp", "--peer", "host", "--work", "2ms", "--verify",
                                                "--json", "--until", str(self.m.dir / "stop")), gpus=["0"], share=True)
        until("both take part", lambda: self.shared("server") and self.shared("ranks"))

        def steps():
            said = (json.loads(line) for line in self.log("ranks").splitlines() if line.startswith("{") and line.endswith("}"))
            return [line["wrong_words"] for line in said if line["event"] == "step"]
        until("they are held back", lambda: self.shared("ranks")["waits_for"] == "latency")
        before = len(steps())
        until("and go on", lambda: len(steps()) > before + 20)
        (self.m.dir / "stop").touch()
        self.assertEqual(self.wait("ranks")["state"], "finished", self.log("ranks")[-1500:])
        self.assertEqual(set(steps()), {0})

    def test_held_back_job_can_be_suspended(self):
        """The driver's checkpoint waited for work that stood in its streams."""
        self.busy("a")
        self.start("server", "exec " + self.load("8MiB", "--kernel-time", "1ms", "--duty", "0.6", "--hold", "1h"), gpus=["0"],
                   share=True, latency=True)
        until("both take part", lambda: self.shared("a") and self.shared("server"))
        for _ in range(5):
            until("it is held back", lambda: self.shared("a")["waits_for"] == "latency")
            done = self.m.run("suspend", "a")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(self.m.run("resume", "a").returncode, 0)

    def test_going_first_needs_a_gpu_that_is_shared(self):
        self.assertIn("add --share", self.refused("run", "--tag", "x", "--latency", "--", "true"))
        self.assertIn("MPS", self.refused("run", "--tag", "x", "--share", "--mps", "--latency", "--", "true"))

    def test_queued_job_shows_its_share(self):
        done = self.m.run_json("submit", "--name", "q", "--hold", "--gpus", "1", "--share", "--compute", "40%+", "--memory", "64MiB", "--", "true")
        shown = self.m.run("job", "show", str(done["id"])).stdout
        self.assertRegex(shown, r"(?i)compute\s+40%\+")


class SlowSampling(ComputeShareCase):
    config = '[sampling]\ncall_limit = "1min"\n'

    def test_a_resumed_job_works_before_the_next_look_at_the_gpu(self):
        """Where another job's work goes first it waited for that, up to a second."""
        self.busy("a")
        self.start("server", "exec " + self.load("8MiB", "--kernel-time", "1ms", "--duty", "0.2", "--hold", "1h"), gpus=["0"],
                   share=True, latency=True)
        until("both take part", lambda: self.shared("a") and self.shared("server"))
        until("it has had turns", self.has_turns("a", 0.1))
        done = self.m.run("suspend", "a")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.m.inject("nvml-hang", "--gpu", "0")
        try:
            time.sleep(0.3)  # what was under way ends
            turns = self.turns("a")
            done = self.m.run("resume", "a")
            self.assertEqual(done.returncode, 0, done.stderr)
            until("it has turns", lambda: self.turns("a") > turns + 0.1)
            self.assertNotIn("gpu_unresponsive", [event["kind"] for event in self.events()], "it did not wait for the sample")
        finally:
            self.m.inject("clear")


class EndlessKernel(ComputeShareCase):
    config = ComputeShareCase.config + 'yield_limit = "200ms"\n'

    def test_job_works_beside_kernel_that_never_ends(self):
        self.start("endless", "exec " + self.load("8MiB", "--kernel-time", "1h", "--hold", "1h"), gpus=["0"], share=True,
                   compute={"percent": 30})
        self.busy("other", "50+")
        until("it was asked in vain", lambda: [event for event in self.events() if event["kind"] == "share_not_yielded"])
        before = self.iterations("other")
        until("the other one works", lambda: self.iterations("other") >= before + 300)
        endless = self.shared("endless")
        self.assertGreaterEqual(endless["longest_unit"], 0.2, "all of the time that it was given")
        self.assertEqual(self.job("endless")["state"], "running")
        self.assertEqual(self.m.run("remove", "endless").returncode, 0)
        before = self.iterations("other")
        until("and works on alone", lambda: self.iterations("other") >= before + 100)


class OnTwoGpus(ComputeShareCase):
    gpus = 2

    def on(self, index):
        """What share status says of the jobs on that GPU."""
        gpus = self.request("GET", "/v1/share").json()["gpus"]
        return {job["tag"]: job for gpu in gpus if gpu["index"] == index for job in gpu["jobs"]}

    def shared(self, tag):
        return {**self.on(0), **self.on(1)}.get(tag)

    def move(self, tag, gpu):
        until("it has its memory", lambda: self.shared(tag)["memory"]["resident"] >= 8 << 20)
        done = self.m.run("move", tag, "--to", str(gpu))
        self.assertEqual(done.returncode, 0, done.stderr)
        until(f"{tag} is on GPU {gpu} alone", lambda: tag in self.on(gpu) and tag not in self.on(1 - gpu))

    def test_a_job_that_moves_takes_its_share_along(self):
        self.busy("a", "30")
        self.busy("b", "50")
        self.busy("there", on=1)
        until("all take part", lambda: {"a", "b"} <= set(self.on(0)) and "there" in self.on(1))
        self.assertIsNone(self.shared("there")["compute_part"])
        self.move("a", 1)
        until("shares hold there", lambda: self.on(1)["there"]["compute_part"])
        self.assertAlmostEqual(self.on(1)["a"]["compute_part"], 0.3)
        self.assertAlmostEqual(self.on(1)["there"]["compute_part"], 0.7)
        self.assertAlmostEqual(self.on(0)["b"]["compute_part"], 0.5)
        for tag in ("a", "b", "there"):
            until(f"{tag} has turns", self.has_turns(tag, 0.3))
        self.m.api("DELETE", "/v1/jobs/there")
        until("its limit holds there alone", lambda: list(self.on(1)) == ["a"] and self.shared("a")["waits_for"] == "share")
        until("and it goes on", self.has_turns("a", 0.3))

    def test_job_that_goes_first_holds_back_only_jobs_on_its_gpu(self):
        self.busy("training")
        self.start("server", "exec " + self.load("8MiB", "--verify", "--kernel-time", "1ms", "--duty", "0.3", "--hold", "1h"),
                   gpus=["0"], share=True, latency=True)
        until("the training is held back", lambda: (self.shared("training") or {}).get("waits_for") == "latency")
        self.move("training", 1)
        held = self.metric("gpuman_share_held_others_seconds_total", tag="server")
        self.assertGreater(held, 0)
        until("it works", self.has_turns("training", 1))
        self.assertEqual(self.metric("gpuman_share_held_others_seconds_total", tag="server"), held, "nobody is there")
        self.move("server", 1)
        until("it is held back again", lambda: self.shared("training")["waits_for"] == "latency")
        until("and works on", self.has_turns("training", 0.2))


class ClockIsSet(SetsWallClock, ComputeShareCase):
    sets_the_machines = False  # jobs and other tests have the true clock

    def test_shares_hold_when_the_clock_is_set(self):
        self.busy("few", "20")
        self.busy("many", "60")
        until("both take part", lambda: self.gpu()["by_share"] and self.shared("few") and self.shared("many"))
        for hours in (7, -30, 0):
            self.set_clock(hours * 3600)
            until("one has turns", self.has_turns("few", 0.5))
            until("and the other", self.has_turns("many", 0.5))
            until("limits hold", lambda: self.shared("few")["waits_for"] == "share")
            few, many = self.shared("few"), self.shared("many")
            self.assertLess(few["compute_had"], many["compute_had"])
            for job in (few, many):
                self.assertLess(max(job["had_turn"], job["waiting"], job["waits"]["longest"] or 0), 3600)


@unittest.skipUnless(os.geteuid() == 0, "the driver lets only root change settings")
class ClocksOfTheGpu(ComputeShareCase):
    profile = "h200"

    def test_shares_hold_when_the_gpu_is_made_slower(self):
        self.busy("few", "20")
        self.busy("many", "80")
        until("both take part", lambda: self.gpu()["by_share"] and self.shared("few") and self.shared("many"))
        for words in (("lock", "--graphics", "345"), ("reset", "--graphics")):
            done = self.m.run("device", "clocks", *words, "-g", "0")
            self.assertEqual(done.returncode, 0, done.stderr)
            until("one has turns", self.has_turns("few", 0.3))
            until("and the other", self.has_turns("many", 2))
            self.assertAlmostEqual(self.shared("few")["compute_part"], 0.2)
            self.assertLess(self.shared("few")["compute_had"], self.shared("many")["compute_had"])


class GangWithAShare(ComputeShareCase):
    gpus, profile = 2, "h200"
    config = ComputeShareCase.config + 'compute_quantum = "200ms"\n'

    def test_share_of_a_job_on_two_gpus_holds_on_each(self):
        stop = self.m.dir / "gang.stop"
        self.start("gang", "exec " + self.load("8MiB", "--ranks", "2", "--pattern", "ddp", "--peer", "host", "--work", "2ms", "--verify",
                                               "--json", "--until", str(stop)), gpus=["0", "1"], share=True, compute={"percent": 20})
        for gpu in (0, 1):
            self.busy(f"single{gpu}", "80", on=gpu)

        def pairs():
            """What share status says of the gang and of the single job, on each GPU where both are."""
            gpus = self.request("GET", "/v1/share").json()["gpus"]
            jobs = [{job["tag"]: job for job in gpu["jobs"]} for gpu in sorted(gpus, key=lambda gpu: gpu["index"])]
            return [(jobs[i]["gang"], jobs[i][f"single{i}"]) for i in range(len(jobs)) if {"gang", f"single{i}"} <= set(jobs[i])]
        until("all take part", lambda: len(pairs()) == 2 and all(job["compute_part"] for pair in pairs() for job in pair))
        had = [[job["had_turn"] for job in pair] for pair in pairs()]
        until("all had turns", lambda: all(job["had_turn"] > before + more for pair, was in zip(pairs(), had)
                                           for job, before, more in zip(pair, was, (0.5, 4))))
        for (gang, single), (gang_had, single_had) in zip(pairs(), had):
            self.assertAlmostEqual(gang["compute_part"], 0.2)
            self.assertAlmostEqual(single["compute_part"], 0.8)
            self.assertLess(gang["had_turn"] - gang_had, single["had_turn"] - single_had)
            self.assertLess(gang["compute_had"], single["compute_had"])
        stop.touch()
        self.assertEqual(self.wait("gang")["state"], "finished", self.log("gang")[-1500:])


class DaemonAway(ComputeShareCase):
    """Jobs take turns with all their memory on the GPU. The daemon does not answer, or is gone."""
    TAGS = ("one", "other")

    def count(self, tag):
        file = self.m.dir / f"count.{tag}"
        return int(file.read_text() or 0) if file.exists() else 0

    def both_go_on(self, what):
        before = {tag: self.count(tag) for tag in self.TAGS}
        until(f"both go on {what}", lambda: all(self.count(tag) >= before[tag] + 50 for tag in self.TAGS))

    def one_is_held(self):
        """Returns whether one job makes no rounds while the other makes some."""
        before = {tag: self.count(tag) for tag in self.TAGS}
        end = time.monotonic() + 1
        while max(self.count(tag) - before[tag] for tag in self.TAGS) < 3 and time.monotonic() < end:
            time.sleep(0.002)
        made = sorted(self.count(tag) - before[tag] for tag in self.TAGS)
        return made[0] == 0 and made[1] >= 3

    def take_turns(self):
        until("one is held while the other works", self.one_is_held)
        for tag in self.TAGS:
            until("it takes part", lambda: self.shared(tag))
            until("it has turns", self.has_turns(tag, 0.2))

    def test_jobs_with_shares_run_on_while_the_daemon_is_stopped(self):
        stop = self.m.dir / "stop.away"
        for tag in self.TAGS:
            self.start(tag, f"exec {sys.executable} {PROGRAM} {stop} --count {self.m.dir / f'count.{tag}'}",
                       gpus=["0"], share=True, compute={"percent": 50})
        self.take_turns()
        self.m.daemon.send_signal(signal.SIGSTOP)
        try:
            self.both_go_on("while the daemon is stopped")
        finally:
            self.m.daemon.send_signal(signal.SIGCONT)
        self.take_turns()
        until("it is held", self.one_is_held)
        self.m.stop_daemon(signal.SIGKILL)
        self.both_go_on("without a daemon")
        self.m.start_daemon()
        self.take_turns()
        stop.touch()
        for tag in self.TAGS:
            ended = self.wait(tag)
            self.assertEqual(ended["state"], "finished", self.log(tag))
            self.assertEqual(json.loads(self.log(tag).splitlines()[-1])["wrong"], 0)


if __name__ == "__main__":
    unittest.main()

"""The common part of the tests of jobs whose processes need each other (gang_*_test.py): gpuman-load's ranks on
simulated GPUs that reach each other. Each rank compares each sum with what it must be, in the step in which it is made,
and its own memory at its end.
"""

import json
import os
import pathlib

from share_many_test import ManyCase
from share_test import MIB, build_dir, program, until  # noqa: F401

SIZE = 16  # MiB of memory of its own, of each rank


class Gangs:
    """For a DaemonTest: jobs of gpuman-load's ranks. `peer`: that of begin_gang."""
    peer = "vmm"

    def gang(self, tag, *words, **more):
        """Starts a job by begin_gang, and returns once it makes steps."""
        job = self.begin_gang(tag, *words, **more)
        until(f"{tag} makes steps", lambda: self.steps(tag) >= 2, lambda: self.log(tag)[-1000:])
        return job

    def begin_gang(self, tag, ranks=2, pattern="ddp", peer=None, work="20ms", size=SIZE, gpus=None, options=(), **more):
        """Starts a job of so many ranks, one after the other on its GPUs. `peer`: of gpuman-load, or "threads", with which
        the ranks are threads of one process."""
        self.end_of(tag).unlink(missing_ok=True)
        gpus = list(map(str, range(self.gpus) if gpus is None else gpus))
        return self.start(tag, "exec " + self.words_of(tag, ranks, pattern, peer, work, size, options), gpus=gpus,
                          **{"share": True, **more})

    def words_of(self, tag, ranks, pattern, peer, work, size, options=()):
        peer = peer or self.peer
        way = ["--threads"] if peer == "threads" else ["--peer", peer]
        return self.load(f"{size}MiB", "--ranks", str(ranks), "--pattern", pattern, *way, "--work", work, "--verify",
                         "--json", "--until", str(self.end_of(tag)), *map(str, options))

    def end_of(self, tag):
        return self.m.dir / f"{tag}.end"

    def said(self, tag, event=None, query=""):
        lines = [line for line in self.log(tag, query).splitlines() if line.startswith("{") and line.endswith("}")]
        return [said for said in map(json.loads, lines) if event in (None, said["event"])]

    def last_said(self, tag, event):
        """Does the same as `said`, for the end of the log."""
        return self.said(tag, event, "?tail=60")

    def steps(self, tag):
        """The steps that the slowest rank has made, as its log says."""
        last = {}
        for line in self.last_said(tag, "step"):
            last[line["rank"]] = line["number"]
        return min(last.values(), default=0)

    def goes_on(self, tag, more=5):
        before = self.steps(tag)
        until(f"{more} steps of {tag} after {before}", lambda: self.steps(tag) >= before + more, self.what_stands)

    def rank_pids(self, tag):
        """The processes of the ranks, in their order; the only process, where they are its threads."""
        children = sorted(self.said(tag, "child"), key=lambda line: line["rank"])
        return [line["child_pid"] for line in children] or [self.said(tag)[0]["pid"]]

    def ends_with_its_data(self, tag):
        self.end_of(tag).touch()
        ended = self.wait(tag)
        self.assertEqual(ended["state"], "finished", self.log(tag)[-1500:] + self.what_stands())
        said = self.said(tag)
        done = [line for line in said if line["event"] == "done"]
        self.assertTrue(done and not any(line["exit"] for line in done), done)
        self.assertFalse([line for line in said if line["event"] == "mismatch" or line.get("wrong_words")])
        self.assertEqual(len({line["steps"] for line in done}), 1, done)
        return done[0]["steps"]

    def told(self, kind, job):
        return until(f"{kind} of job {job}", lambda: self.all_told(kind, job), self.what_stands)

    def all_told(self, kind, job):
        return [event for event in self.events() if event["kind"] == kind and event["job"] == job]


class GangCase(ManyCase, Gangs):
    """Two GPUs with room for the contexts of two such jobs and the memory of one."""
    profile, context, gpus, each, beside = "h200", 518, 2, 2, 30
    more = 'retry = "100ms"\n[log]\nlevel = "debug"\n'

    def fewest_hand_overs(self):
        return min((gpu["hand_overs"] for gpu in self.share()["gpus"]), default=0)

    def take_turns(self, more=4):
        """Waits for so many hand-overs on each GPU."""
        before = self.fewest_hand_overs()
        until(f"{more} hand-overs after {before}", lambda: self.fewest_hand_overs() >= before + more, self.what_stands)

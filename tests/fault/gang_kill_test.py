#!/usr/bin/env python3
"""Kills ranks, launchers, movers and daemons at random moments while jobs whose ranks need each other share two GPUs,
many times. No other job is harmed:
  - every job that was not touched runs on, once, with every sum right in its step, and ends with status 0;
  - a job that lost a rank, or its first process, ends, and saw no wrong sum before;
  - no GPU holds more than its capacity for longer than it takes to clear up after dead processes;
  - afterwards all jobs get turns and make steps; when all have ended, the GPUs are empty and no process is left.

As share_kill_test.py, whose machinery it has. docs/results.md has 500 kills.

Usage: gang_kill_test.py [KILLS] [SEED]    (GPUMAN_BUILD_DIR names the build tree)
"""

import json
import random
import sys
import time

import share_kill_test
from share_kill_test import Shared, Wrong, kill, learn_context, machine, until

CONTEXT, JOBS, RANKS, SIZE, WINDOW = 518, 3, 2, 16, 4  # MiB of a context; jobs; ranks of each; MiB
CAPACITY = JOBS * (CONTEXT + WINDOW) + 3 * SIZE // 2
CONFIG = f"""
[sampling]
rest = "20ms"
[share]
capacity = "{CAPACITY}MiB"
quantum_min = "10ms"
quantum_max = "20ms"
idle = "2ms"
retry = "100ms"
[log]
level = "debug"
"""
KINDS = (("ddp", "vmm"), ("pipeline", "ipc"), ("tensor", "vmm"), ("random", "ipc"), ("ddp", "host"))


class Gangs(Shared):
    def start(self, _=None):
        self.number += 1
        pattern, peer = self.random.choice(KINDS)
        words = ["--alloc", f"{SIZE}MiB", "--ranks", RANKS, "--pattern", pattern, "--peer", peer, "--work", "20ms",
                 "--verify", "--json", "--until", self.stop]
        job = self.m.run_json("run", "--tag", f"t{self.number}", "--gpu", "0,1", "--share", "--detach", "--",
                              machine.program("gpuman-load"), *map(str, words))
        self.live[job["id"]] = None
        self.pids.add(until("it has begun", lambda: self.job(job["id"])["pid"]))
        self.pids.update(line["child_pid"] for line in until("its ranks are there", lambda: self.ranks(job["id"])))

    def said(self, number):
        lines = self.log(number).splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def ranks(self, number):
        ranks = [line for line in self.said(number) if line["event"] == "child"]
        return len(ranks) == RANKS and ranks

    def kill_one(self):
        time.sleep(self.random.uniform(0, 0.3))
        what = self.random.choice(["mover", "mover", "daemon", "rank", "rank", "launcher"])
        if what in ("mover", "daemon"):
            return self.kill_one_of_gpuman(what)
        number = self.random.choice(sorted(self.live))
        self.killed.add(number)
        del self.live[number]
        pid = self.job(number)["pid"] if what == "launcher" else self.random.choice(self.ranks(number))["child_pid"]
        self.counts[what] += kill(pid)
        self.start()

    def steps(self, number):
        return max((line["number"] for line in self.said(number) if line["event"] == "step"), default=0)

    def everybody_makes_steps(self):
        before = {number: self.steps(number) for number in self.live}
        until("all make steps", lambda: all(self.steps(number) > before[number] for number in self.live))

    def check_end(self):
        self.stop.touch()
        for number in [*self.live, *self.killed]:
            job = self.m.api("GET", f"/v1/jobs/{number}/wait")
            said = self.said(number)
            if [one for one in said if one["event"] == "mismatch" or one.get("wrong_words")]:
                raise Wrong(f"job {number} saw wrong data: {self.log(number)[-2000:]}")
            if len([one for one in said if one["event"] == "child"]) > RANKS:
                raise Wrong(f"job {number} ran more than once")
            done = [one["exit"] for one in said if one["event"] == "done"]
            if number in self.live and (job["exit_code"] != 0 or done != [0] * RANKS):
                raise Wrong(f"job {number}, which nobody touched: {job}, {self.log(number)[-2000:]}")
            if number in self.killed and job["state"] not in ("failed", "killed"):
                raise Wrong(f"job {number}, which was killed: {job}")


def main():
    if not (machine.build_dir() / "lib/libgpuman.so").exists():
        print("skipped: there is no libgpuman.so here")
        return 77
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 30)
    print(f"seed {seed}, {kills} kills", flush=True)
    share_kill_test.CAPACITY, share_kill_test.CONTEXT = CAPACITY + SIZE, CONTEXT  # a piece may be on its way
    with machine.Machine(profile="h200", gpus=2, memory="4GiB", config=CONFIG) as m:
        learn_context(m)
        gangs = Gangs(m, seed)
        try:
            for _ in range(JOBS):
                gangs.start()
            while sum(gangs.counts.values()) < kills:
                gangs.kill_one()
                gangs.look()
            gangs.everybody_gets_turns()
            gangs.everybody_makes_steps()
            gangs.check_end()
            print("killed:", dict(gangs.counts), flush=True)
            gangs.check_nothing_left()
        except Wrong as wrong:
            print(f"seed {seed}, after {dict(gangs.counts)}: {wrong}")
            print(json.dumps(m.api("GET", "/v1/share")))
            print((m.dir / "daemon.log").read_text()[-20000:])
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

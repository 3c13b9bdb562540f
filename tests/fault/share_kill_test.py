#!/usr/bin/env python3
"""Kills movers, daemons and jobs at random moments while jobs share two GPUs, many times. No other job is harmed:
  - every job that was not touched runs on, once, with every byte of its data right at any time, and ends with status 0;
  - a job that was killed shows the signal, and saw no wrong byte before;
  - no GPU holds more than its capacity for longer than it takes to clear up after dead processes;
  - afterwards all jobs get turns, and when all have ended the GPUs are empty and no process of gpuman is left.

If a mover is killed during a copy, the daemon holds the only other descriptors of that memory: the test kills the
daemon once that is safe.

Usage: share_kill_test.py [KILLS] [SEED]    (GPUMAN_BUILD_DIR names the build tree)
"""

import collections
import contextlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[1] / "harness"))
import machine  # noqa: E402

MIB = 1 << 20
CONTEXT, JOBS, GPUS, BESIDE = 104, 6, 2, 5  # MiB of a context, jobs, GPUs, MiB beside the contexts
CAPACITY = JOBS // GPUS * CONTEXT + BESIDE
HASHER = 2  # MiB that a mover's hasher takes of a GPU
PROGRAM = HERE.parents[1] / "integration" / "share_program.py"
CONFIG = f"""
[sampling]
rest = "20ms"
[share]
capacity = "{CAPACITY}MiB"
quantum_min = "10ms"
quantum_max = "20ms"
idle = "2ms"
retry = "100ms"
"""
PATIENCE = 120


class Wrong(Exception):
    pass


def until(what, true):
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if value := true():
            return value
        time.sleep(0.02)
    raise Wrong(f"{what}: not within {PATIENCE} s")


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
        return True
    except ProcessLookupError:
        return False


def name_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


class Shared:
    """The jobs, and the operations on them."""

    def __init__(self, m, seed):
        self.m, self.random = m, random.Random(seed)
        self.stop = m.dir / "stop"
        self.live, self.killed, self.pids = {}, set(), set()
        self.number, self.counts = 0, collections.Counter()
        self.unsafe = False  # a mover was killed, and no other may have finished its work yet
        self.empty = self.used()

    def used(self):
        return [gpu["memory"]["used"] for gpu in self.m.api("GET", "/v1/gpus")["gpus"]]

    def start(self, gpu):
        self.number += 1
        words = [sys.executable, PROGRAM, self.stop, "--blocks", self.random.choice([1, 2]), "--rest", 0.004]
        job = self.m.run_json("run", "--tag", f"t{self.number}", "--gpu", str(gpu), "--share", "--detach", "--",
                              *map(str, words))
        self.live[job["id"]] = gpu
        self.pids.add(until("it has begun", lambda: self.job(job["id"])["pid"]))

    def job(self, number):
        return self.m.api("GET", f"/v1/jobs/{number}")

    def settled(self, number):
        """The job, once a daemon that was killed just after the start has read it from the keeper's journal."""
        return until(f"job {number} is not starting", lambda: (job := self.job(number))["state"] != "starting" and job)

    def movers(self):
        movers = []
        for children in pathlib.Path(f"/proc/{self.m.daemon.pid}/task").glob("*/children"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
                movers += [int(pid) for pid in children.read_text().split() if name_of(pid) == "gpuman-mover"]
        return movers

    def kill_one(self):
        time.sleep(self.random.uniform(0, 0.15))
        what = self.random.choice(["mover", "mover", "mover", "daemon", "job", "job"])
        if what != "job":
            return self.kill_one_of_gpuman(what)
        number = self.random.choice(sorted(self.live))
        self.killed.add(number)
        gpu = self.live.pop(number)
        self.counts[what] += kill(self.job(number)["pid"])
        self.start(gpu)

    def kill_one_of_gpuman(self, what):
        if what == "mover":
            movers = self.movers()
            self.pids.update(movers)
            self.counts[what] += sum(map(kill, movers))
            self.unsafe = True
            return
        if self.unsafe:
            self.everybody_gets_turns()
        self.pids.update(self.movers())
        kill(self.m.daemon.pid)
        self.m.daemon.wait()
        time.sleep(self.random.uniform(0, 0.15))
        self.m.start_daemon()
        self.counts[what] += 1

    def look(self):
        """Checks what must hold at any moment."""
        for number in self.live:
            job = self.settled(number)
            if job["state"] != "running":
                raise Wrong(f"job {number} is {job['state']} ({job['reason']}): {self.log(number)[-1000:]}")
        # Dead jobs and movers must be gone first, with all that was loaded for them.
        until("the GPUs have no more than their capacity and a mover's context", lambda: all(
            used - empty <= (CAPACITY + CONTEXT + HASHER) * MIB for used, empty in zip(self.used(), self.empty)))

    def turns(self):
        return {job["id"]: job["had_turn"] for gpu in self.m.api("GET", "/v1/share")["gpus"] for job in gpu["jobs"]}

    def everybody_gets_turns(self):
        until("all take part", lambda: self.live.keys() <= self.turns().keys())
        before = self.turns()
        until("all have had a turn", lambda: all(
            had > before.get(job, 0) for job, had in self.turns().items() if job in self.live))
        self.unsafe = False

    def log(self, number):
        return self.m.run("logs", str(number)).stdout

    def check_end(self):
        self.stop.touch()
        for number in [*self.live, *self.killed]:
            job = self.m.api("GET", f"/v1/jobs/{number}/wait")
            said = [json.loads(line) for line in self.log(number).splitlines()]
            if [one for one in said if one.get("wrong") or one.get("error")]:
                raise Wrong(f"job {number}: {said}")
            if len([one for one in said if "holds" in one]) > 1:
                raise Wrong(f"job {number} ran more than once")
            if number in self.live and (job["exit_code"] != 0 or not [one for one in said if "wrong" in one]):
                raise Wrong(f"job {number}, which nobody touched: {job}, {said}")
            if number in self.killed and job["signal"] != signal.SIGKILL:
                raise Wrong(f"job {number}, which was killed: {job}")

    def check_nothing_left(self):
        mover = (CONTEXT + HASHER) * MIB
        until("the GPUs are empty", lambda: all(
            used - empty <= mover for used, empty in zip(self.used(), self.empty)))
        self.pids.update(self.movers())
        self.m.stop_daemon()
        until("no process is left", lambda: not [pid for pid in self.pids if pathlib.Path(f"/proc/{pid}").exists()])
        shown = json.loads(subprocess.run([machine.program("gpuman-sim"), "show", "--json"], env=self.m.env, check=True,
                                          capture_output=True, text=True).stdout)
        if any(gpu["processes"] for gpu in shown["gpus"]):
            raise Wrong(f"left on the GPUs: {shown}")


def learn_context(m):
    m.run_json("run", "--tag", "first", "--gpu", "0", "--detach", "--", machine.program("gpuman-load"), "--alloc", "4MiB",
               "--hold", "1h")
    until("what a context takes is known", (m.dir / "lib" / "contexts.json").exists)
    m.api("DELETE", "/v1/jobs/first")
    until("the GPUs are empty", lambda: not any(gpu["processes"] for gpu in m.api("GET", "/v1/gpus")["gpus"]))


def main():
    if not (machine.build_dir() / "lib/libgpuman.so").exists():
        print("skipped: there is no libgpuman.so here")
        return 77
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 30)
    print(f"seed {seed}, {kills} kills", flush=True)
    with machine.Machine(profile="rtx4050", gpus=GPUS, memory="4GiB", config=CONFIG) as m:
        learn_context(m)
        shared = Shared(m, seed)
        try:
            for i in range(JOBS):
                shared.start(i % GPUS)
            while sum(shared.counts.values()) < kills:
                shared.kill_one()
                shared.look()
            shared.everybody_gets_turns()
            shared.check_end()
            print("killed:", dict(shared.counts), flush=True)
            shared.check_nothing_left()
        except Wrong as wrong:
            print(f"seed {seed}, after {dict(shared.counts)}: {wrong}")
            print((m.dir / "daemon.log").read_text()[-8000:])
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

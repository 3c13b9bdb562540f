#!/usr/bin/env python3
"""Kills daemon, keepers, jobs and command lines at random moments, many times; then compares the books with the world.

Each job's command appends one line to a file of its own every time it runs and ends with a known status. When all is
quiet again:
  - every job whose submission was acknowledged (the command line printed it and exited 0) exists, and none exists twice;
  - no job ran more often than recorded, and a job that was not touched ran exactly as often as recorded;
  - the exit status of a job that was not touched is the one its command ended with;
  - a job that was killed shows the signal; a job whose keeper was killed has the reason keeper_lost and no exit status;
  - nothing ran that is not in the books.

Usage: kill_at_random_test.py [KILLS] [SEED]    (GPUMAN_BUILD_DIR names the build tree)
"""

import collections
import json
import pathlib
import os
import random
import signal
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
import machine  # noqa: E402

ENDED = {"finished", "failed", "killed", "cancelled", "timeout"}
CONFIG = """
[restart]
initial_delay = "50ms"
max_delay = "200ms"
max_restarts = 3
"""
MAX_RUNS = 4  # the first run and max_restarts more


class Submitter(threading.Thread):
    """Submits jobs one after the other and records the acknowledged ones."""

    def __init__(self, m, seed, stop):
        super().__init__()
        self.m, self.random, self.stop = m, random.Random(seed), stop
        self.seed = seed
        self.acknowledged = {}  # id -> plan
        self.plans = {}         # tag -> plan
        self.kill_after = None  # seconds after its start at which the next command line is killed
        self.killed = 0

    def run(self):
        number = 0
        while not self.stop.is_set():
            number += 1
            tag = f"t{self.seed}-{number}"
            plan = {"tag": tag, "exit": self.random.choice([0, 0, 3, 7]), "restart": self.random.choice(["no", "no", "on-failure"])}
            self.plans[tag] = plan
            script = f"echo run >> {self.m.dir}/{tag}.runs; sleep {self.random.uniform(0, 0.4):.3f}; exit {plan['exit']}"
            client = self.m.popen(
                "run", "--tag", tag, "--detach", "--json", "--restart", plan["restart"], "--", "sh", "-c", script,
                stdout=-1, stderr=-1, text=True,
            )
            if self.kill_after is not None:
                time.sleep(self.kill_after)
                if client.poll() is None:
                    client.kill()
                    self.killed += 1
                self.kill_after = None
            out, _ = client.communicate()
            if client.returncode == 0:
                self.acknowledged[json.loads(out)["id"]] = plan
            time.sleep(self.random.uniform(0, 0.1))


def children_of(pid):
    try:
        return [int(word) for word in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def is_keeper(pid):
    return [word.endswith("gpuman-keeper") for word in machine.command_line(pid)[:1]] == [True]


def keepers(m):
    """The keepers of this machine as (pid, job), by the directory on their command line: …/jobs/ID or
    …/jobs/ID.INCARNATION."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        words = machine.command_line(entry.name) if entry.name.isdigit() else []
        if words and words[0].endswith("gpuman-keeper") and str(m.dir) in words[-1]:
            found.append((int(entry.name), int(pathlib.Path(words[-1]).name.partition(".")[0])))
    return found


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
        return True
    except ProcessLookupError:
        return False


class Killer:
    def __init__(self, m, seed, submitters):
        self.m, self.random, self.submitters = m, random.Random(seed), submitters
        self.touched, self.lost_keeper = set(), set()
        self.counts = collections.Counter()

    def total(self):
        return sum(self.counts.values()) + sum(s.killed for s in self.submitters)

    def kill_one(self):
        time.sleep(self.random.uniform(0.005, 0.15))
        what = self.random.choice(["daemon", "keeper", "job", "cli"])
        if what == "daemon":
            kill(self.m.daemon.pid)
            self.m.daemon.wait()
            time.sleep(self.random.uniform(0, 0.2))
            self.m.start_daemon()
        elif what == "cli":
            self.random.choice(self.submitters).kill_after = self.random.uniform(0, 0.02)
            return
        else:
            living = keepers(self.m)
            if not living:
                return
            pid, job = self.random.choice(living)
            if what == "keeper":
                self.lost_keeper.add(job)
                if not kill(pid):
                    return
            else:
                victims = children_of(pid)
                if not victims:
                    return
                victim = self.random.choice(victims)
                # A keeper below the process that starts it, or a job's process before execve: they look the same.
                (self.lost_keeper if is_keeper(victim) else self.touched).add(job)
                if not kill(victim):
                    return
        self.counts[what] += 1


def settle(m):
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and any(job["state"] not in ENDED for job in m.api("GET", "/v1/jobs")["jobs"]):
        time.sleep(0.1)


def runs_of(m, tag):
    file = m.dir / f"{tag}.runs"
    return len(file.read_text().splitlines()) if file.exists() else 0


def problems_of(job, plan, ran, touched, lost_keeper):
    """What the books say of one job although it cannot be. `touched`: one of its processes was killed."""
    recorded = 0 if job["started_at"] is None else job["restarts"] + 1
    if job["state"] not in ENDED:
        yield "has not ended"
    if ran > recorded:
        yield f"ran {ran} times, more often than recorded ({recorded})"
    if lost_keeper:
        if job["reason"] == "keeper_lost" and (job["exit_code"] is not None or job["signal"] is not None):
            yield "claims a status that nobody can know"
        return
    if touched:
        # It may have been killed between two signals of the test, or have ended by itself before the kill.
        if plan["restart"] == "no" and job["exit_code"] is None and job["signal"] != signal.SIGKILL:
            yield "was killed and shows neither status nor SIGKILL"
        return
    if ran != recorded:
        yield f"ran {ran} times, recorded are {recorded}"
    expected = 1 if plan["restart"] == "no" or plan["exit"] == 0 else MAX_RUNS
    if ran != expected:
        yield f"ran {ran} times, {expected} were due"
    if job["exit_code"] != plan["exit"]:
        yield f"its command ended with {plan['exit']}"


def check(m, submitters, killer):
    books = {job["id"]: job for job in m.jobs()}
    plans = {tag: plan for s in submitters for tag, plan in s.plans.items()}
    acknowledged = {number: plan for s in submitters for number, plan in s.acknowledged.items()}
    wrong = [f"job {number} ({plan['tag']}) was acknowledged and is gone" for number, plan in acknowledged.items()
             if number not in books or books[number]["tag"] != plan["tag"]]
    tags = collections.Counter(job["tag"] for job in books.values())
    wrong += [f"{tag} is there {count} times" for tag, count in tags.items() if count > 1]
    wrong += [f"{tag} is not in the books and ran" for tag in plans if tag not in tags and runs_of(m, tag)]
    for number, job in books.items():
        for problem in problems_of(job, plans[job["tag"]], runs_of(m, job["tag"]), number in killer.touched,
                                   number in killer.lost_keeper):
            wrong.append(f"job {number} {job['tag']} ({job['state']}, {job['reason']}, exit {job['exit_code']}, signal "
                         f"{job['signal']}, {job['restarts']} restarts): {problem}")
    untouched = len(books.keys() - killer.touched - killer.lost_keeper)
    print(f"{len(acknowledged)} acknowledged, {len(books)} in the books, {untouched} untouched, {len(wrong)} wrong")
    for line in wrong[:40]:
        print("  " + line)
    if wrong:
        print((m.dir / "daemon.log").read_text()[-8000:])
    return 0 if not wrong and acknowledged and untouched else 1


def main():
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 30)
    print(f"seed {seed}, {kills} kills", flush=True)
    with machine.Machine(gpus=1, config=CONFIG) as m:
        stop = threading.Event()
        submitters = [Submitter(m, seed + i, stop) for i in range(2)]
        killer = Killer(m, seed, submitters)
        for submitter in submitters:
            submitter.start()
        try:
            while killer.total() < kills:
                killer.kill_one()
        finally:
            stop.set()
            for submitter in submitters:
                submitter.join()
        print("killed:", dict(killer.counts), "and", sum(s.killed for s in submitters), "command lines", flush=True)
        settle(m)
        return check(m, submitters, killer)


if __name__ == "__main__":
    sys.exit(main())

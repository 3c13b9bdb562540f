#!/usr/bin/env python3
"""Kills daemon, keepers, jobs and command lines at random moments, many times; then holds the books against the world.

Each job's command appends one line to a file of its own every time it runs and ends with a status known beforehand. When
the dust has settled:
  - every job whose submission was acknowledged (the command line printed it and exited 0) is there;
  - no job ran more often than recorded, and one that nobody touched ran exactly as often as recorded;
  - the exit status of a job that nobody touched is the one its command ended with;
  - a job that was killed shows the signal; one whose keeper was killed says keeper_lost and claims no status it cannot know.

Usage: kill_at_random_test.py [KILLS] [SEED]
"""

import json
import os
import pathlib
import random
import signal
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
import machine  # noqa: E402

ENDED = {"finished", "failed", "killed", "cancelled", "timeout"}


class Submitter(threading.Thread):
    """Submits jobs one after the other and keeps what was acknowledged."""

    def __init__(self, m, seed, stop):
        super().__init__()
        self.m, self.random, self.stop = m, random.Random(seed), stop
        self.seed = seed
        self.acknowledged = {}  # id -> plan
        self.plans = {}         # tag -> plan
        self.current = None     # the command line that is running

    def run(self):
        number = 0
        while not self.stop.is_set():
            number += 1
            tag = f"t{self.seed}-{number}"
            plan = {"tag": tag, "exit": self.random.choice([0, 0, 3, 7]), "restart": self.random.choice(["no", "no", "on-failure"])}
            self.plans[tag] = plan
            script = f"echo run >> {self.m.dir}/{tag}.runs; sleep {self.random.uniform(0, 0.4):.3f}; exit {plan['exit']}"
            self.current = self.m.popen(
                "run", "--tag", tag, "--detach", "--json", "--restart", plan["restart"], "--", "sh", "-c", script,
                stdout=-1, stderr=-1, text=True,
            )
            out, _ = self.current.communicate()
            if self.current.returncode == 0:
                self.acknowledged[json.loads(out)["id"]] = plan
            self.current = None
            time.sleep(self.random.uniform(0, 0.05))


def children_of(pid):
    try:
        text = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text()
        return [int(word) for word in text.split()]
    except OSError:
        return []


def keepers(m):
    """Keepers of this machine, by the directory on their command line."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[0].endswith(b"gpuman-keeper") and any(str(m.dir).encode() in word for word in words):
                found.append((int(entry.name), words))
    return found


def job_of(words):
    for word in words:
        parts = word.decode().rstrip("/").split("/jobs/")
        if len(parts) == 2 and parts[1].isdigit():
            return int(parts[1])
    return None


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
        return True
    except ProcessLookupError:
        return False


def main():
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 30)
    print(f"seed {seed}, {kills} kills", flush=True)
    chooser = random.Random(seed)
    config = "[restart]\ninitial_delay = \"50ms\"\nmax_delay = \"200ms\"\nmax_restarts = 3\n"
    with machine.Machine(gpus=1, config=config) as m:
        stop = threading.Event()
        submitters = [Submitter(m, seed + i, stop) for i in range(2)]
        for submitter in submitters:
            submitter.start()
        touched, lost_keeper, counts = set(), set(), {"daemon": 0, "keeper": 0, "job": 0, "cli": 0}
        while sum(counts.values()) < kills:
            time.sleep(chooser.uniform(0.01, 0.3))
            what = chooser.choice(["daemon", "keeper", "job", "cli"])
            if what == "daemon":
                kill(m.daemon.pid)
                m.daemon.wait()
                time.sleep(chooser.uniform(0, 0.3))
                m.start_daemon()
            elif what == "cli":
                victim = chooser.choice(submitters).current
                if victim is None or victim.poll() is not None:
                    continue
                victim.kill()
            else:
                living = keepers(m)
                if not living:
                    continue
                pid, words = chooser.choice(living)
                job = job_of(words)
                if what == "keeper":
                    lost_keeper.add(job)
                    if not kill(pid):
                        continue
                else:
                    victims = children_of(pid)
                    if not victims:
                        continue
                    touched.add(job)
                    if not kill(chooser.choice(victims)):
                        continue
            counts[what] += 1
        stop.set()
        for submitter in submitters:
            submitter.join()
        print("kills:", counts, flush=True)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and any(job["state"] not in ENDED for job in m.jobs()):
            time.sleep(0.2)
        return check(m, submitters, touched, lost_keeper)


def check(m, submitters, touched, lost_keeper):
    books = {job["id"]: job for job in m.jobs()}
    plans = {tag: plan for s in submitters for tag, plan in s.plans.items()}
    acknowledged = {number: plan for s in submitters for number, plan in s.acknowledged.items()}
    wrong = []
    for number, plan in acknowledged.items():
        if number not in books:
            wrong.append(f"job {number} ({plan['tag']}) was acknowledged and is gone")
    untouched = 0
    for number, job in books.items():
        plan = plans.get(job["tag"])
        runs_file = m.dir / f"{job['tag']}.runs"
        ran = len(runs_file.read_text().splitlines()) if runs_file.exists() else 0
        recorded = 0 if job["started_at"] is None else job["restarts"] + 1
        label = f"job {number} {job['tag']}: state {job['state']}, reason {job['reason']}, exit {job['exit_code']}, signal {job['signal']}, recorded {recorded}, ran {ran}"
        if job["state"] not in ENDED:
            wrong.append(f"{label}: has not ended")
        if ran > recorded:
            wrong.append(f"{label}: ran more often than recorded")
        if number in lost_keeper:
            if job["reason"] == "keeper_lost" and (job["exit_code"] is not None or job["signal"] is not None):
                wrong.append(f"{label}: claims a status that nobody can know")
            continue
        if number in touched:
            continue
        untouched += 1
        if ran != recorded:
            wrong.append(f"{label}: ran and record differ")
        expected = 1 if plan["restart"] == "no" or plan["exit"] == 0 else 4
        if ran != expected:
            wrong.append(f"{label}: expected {expected} runs")
        if job["exit_code"] != plan["exit"]:
            wrong.append(f"{label}: its command ended with {plan['exit']}")
    # A killed job shows the signal of its last run when it was not restarted.
    for number in touched - lost_keeper:
        job = books.get(number)
        if job and plans[job["tag"]]["restart"] == "no" and job["exit_code"] is None and job["signal"] != 9:
            wrong.append(f"job {number}: was killed but shows signal {job['signal']}")
    print(f"{len(acknowledged)} acknowledged, {len(books)} in the books, {untouched} untouched, {len(wrong)} wrong")
    for line in wrong[:40]:
        print("  " + line)
    if wrong:
        print((m.dir / "daemon.log").read_text()[-3000:])
    return 1 if wrong or not acknowledged or not untouched else 0


if __name__ == "__main__":
    sys.exit(main())

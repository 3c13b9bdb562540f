#!/usr/bin/env python3
"""Kills the daemon and keepers at random moments while jobs are submitted to the queue and the queue starts them.

Each job's command appends one line to a file of its own. When all is quiet again:
  - every job of an acknowledged submission exists, and none exists twice;
  - of a submission of several jobs all exist or none;
  - a job whose keeper was not killed ran exactly once and finished; a job whose keeper was killed ran at most once;
  - no GPU was ever given to two of them at the same time.

Usage: queue_kill_test.py [KILLS] [SEED]    (GPUMAN_BUILD_DIR names the build tree)
"""

import contextlib
import http.client
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
PATIENCE = 240
BATCH = 3


class Submitter(threading.Thread):
    """Submits one job or a few at a time, and records the acknowledged ones."""

    def __init__(self, m, seed, stop):
        super().__init__()
        self.m, self.random, self.stop, self.seed = m, random.Random(seed), stop, seed
        self.acknowledged = {}  # id -> tag
        self.batches = []       # tags that belong together

    def script(self, tag):
        d = self.m.dir
        # The directory of a GPU can be made only once: a second job on the GPU would fail and report it.
        return (f"mkdir {d}/gpu-$CUDA_VISIBLE_DEVICES || echo $CUDA_VISIBLE_DEVICES >> {d}/oversold; echo run >> {d}/{tag}.runs; "
                f"sleep {self.random.uniform(0, 0.1):.3f}; rmdir {d}/gpu-$CUDA_VISIBLE_DEVICES")

    def run(self):
        environment = {k: v for k, v in self.m.env.items() if k == "PATH" or k.startswith("GPUMAN_SIM") or k == "LD_LIBRARY_PATH"}
        number = 0
        while not self.stop.is_set():
            tags = [f"q{self.seed}-{number + i}" for i in range(self.random.choice([1, 1, BATCH]))]
            number += len(tags)
            self.batches.append(tags)
            jobs = [{"name": tag, "command": ["/bin/sh", "-c", self.script(tag)], "gpus": {"count": 1}} for tag in tags]
            with contextlib.suppress(OSError, http.client.HTTPException, json.JSONDecodeError):
                answer = self.m.api("POST", "/v1/submissions", {"jobs": jobs, "directory": "/", "environment": environment})
                for tag, job in zip(tags, answer.get("jobs", [])):
                    self.acknowledged[job["id"]] = tag
            time.sleep(self.random.uniform(0, 0.3))


def keepers(m):
    """The keepers of this machine as (pid, job), by the directory on their command line."""
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        words = machine.command_line(entry.name)
        if words and words[0].endswith("gpuman-keeper") and str(m.dir) in words[-1]:
            yield int(entry.name), int(pathlib.Path(words[-1]).name.partition(".")[0])


def kill_one(m, rng, lost_keeper):
    time.sleep(rng.uniform(0.005, 0.2))
    if rng.random() < 0.6:
        m.daemon.send_signal(signal.SIGKILL)
        m.daemon.wait()
        time.sleep(rng.uniform(0, 0.1))
        m.start_daemon()
        return
    living = list(keepers(m))
    if living:
        pid, job = rng.choice(living)
        lost_keeper.add(job)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def settle(m):
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if not m.api("GET", "/v1/queue")["jobs"]:
            return
        time.sleep(0.1)


def runs_of(m, tag):
    file = m.dir / f"{tag}.runs"
    return len(file.read_text().splitlines()) if file.exists() else 0


def check(m, submitters, lost_keeper):
    books = {job["id"]: job for job in m.api("GET", "/v1/queue?states=all")["jobs"]}
    wrong = []
    for submitter in submitters:
        wrong += [f"job {number} ({tag}) was acknowledged and is gone" for number, tag in submitter.acknowledged.items()
                  if books.get(number, {}).get("tag") != tag]
        for tags in submitter.batches:
            there = [sum(job["tag"] == tag for job in books.values()) for tag in tags]
            if there not in ([0] * len(tags), [1] * len(tags)):
                wrong.append(f"{tags} are there {there} times")
    for number, job in books.items():
        ran = runs_of(m, job["tag"])
        what = f"job {number} {job['tag']} ({job['state']}, {job['reason']}) ran {ran} times"
        if job["state"] not in ENDED or ran > 1:
            wrong.append(what)
        elif number not in lost_keeper and (ran != 1 or job["state"] != "finished"):
            wrong.append(what)
    oversold = m.dir / "oversold"
    # The processes that a killed keeper leaves keep their directory: a second directory proves something only without
    # killed keepers.
    if oversold.exists() and not lost_keeper:
        wrong.append("GPUs were given twice: " + oversold.read_text())
    acknowledged = sum(len(s.acknowledged) for s in submitters)
    untouched = len(books.keys() - lost_keeper)
    print(f"{acknowledged} acknowledged, {len(books)} in the books, {untouched} untouched, {len(wrong)} wrong")
    for line in wrong[:40]:
        print("  " + line)
    if wrong:
        print((m.dir / "daemon.log").read_text()[-8000:])
    return 0 if not wrong and acknowledged and untouched else 1


def main():
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 30)
    print(f"seed {seed}, {kills} kills", flush=True)
    with machine.Machine(gpus=2) as m:
        stop, lost_keeper, rng = threading.Event(), set(), random.Random(seed)
        submitters = [Submitter(m, seed + i, stop) for i in range(2)]
        for submitter in submitters:
            submitter.start()
        try:
            for _ in range(kills):
                kill_one(m, rng, lost_keeper)
        finally:
            stop.set()
            for submitter in submitters:
                submitter.join()
        settle(m)
        return check(m, submitters, lost_keeper)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Idle jobs on a real GPU, through a daemon of its own: notebooks that leave it, torch.compile's workers, the first suspension.

Usage: idle_session.py [--only NAME]… [--count 5] [--size 20GiB] [--share] [--json FILE] [--log DIR]

  notebooks   --count notebooks of --size, each leaves the GPU when it is idle: what is on the GPU then, and the time from a
              cell to its result, of one that is away and of the same where it stays, one notebook after another
  compile     a program of torch.compile, whose compile workers live on: four times out and back without a pause, with
              --share and without
  first       the first suspension of a job right after its start, and 8 s after it, beside the next two

The memory is taken by PyTorch. Prints one table; exit status 1 where data was wrong or a command failed. GPUMAN_BUILD_DIR
names the build.
"""

import argparse
import json
import pathlib
import statistics
import sys
import time

from share_session import run_session
from suspend_session import Job, parts
from unchanged_session import GIB, grow_host_memory

MIB = 1 << 20
IDLE = 4  # seconds without a call


class IdleSession:
    def __init__(self, machine, options):
        self.m, self.o = machine, options
        self.results, self.bad = {}, False

    def row(self, what, value, more="", bar=""):
        print(f"{what:<48}{value:<52} {more:<56} {bar}", flush=True)

    def job(self, tag, size, *options, **how):
        return Job(self.m, tag, size, "--gpu", "0", *options, driver=self.o.simulated, **how)

    def show(self, job):
        return self.m.api("GET", f"/v1/jobs/{job.tag}")

    def check(self, job):
        verify = job.ask("verify")
        self.bad = self.bad or verify["wrong_bytes"] != 0
        return verify["wrong_bytes"]

    def used(self):
        return self.m.api("GET", "/v1/status")["gpus"][0]["memory"]["used"]

    def goes_away(self, job):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            shown = self.show(job)
            if shown["state"] == "suspended":
                return True
            time.sleep(0.1)
        print(f"{job.tag} does not leave: {shown['state']} {shown['reason']} {shown['reason_detail']} {shown['notes']}", flush=True)
        self.bad = True
        return False

    def notebooks(self):
        before, share = self.used(), ("--share",) if self.o.share else ()
        jobs = []
        for number in range(self.o.count):
            jobs.append(self.job(f"note{number}", self.o.size, *share, "--idle-suspend", f"{IDLE}s", hold="--still"))
            self.goes_away(jobs[-1])
        time.sleep(2)
        gpu = self.m.api("GET", "/v1/gpus/0")
        self.row(f"{self.o.count} notebooks of {self.o.size}, idle", f"{(self.used() - before) / MIB:.0f} MiB on the GPU",
                 f"processes on it: {[one['name'] for one in gpu['processes']]}", "bar: nothing")
        away, there, measured = [], [], []
        for job in jobs:
            away.append(job.ask("cell")["seconds"])
            there.append(job.ask("cell")["seconds"])
            measured.append(parts(self.m, self.show(job)["id"], "job_resumed"))
            self.goes_away(job)  # the GPU has no room for all of them
        self.results["notebooks"] = {"away": away, "there": there, "back": measured}
        self.row("from a cell to its result, away", f"median {statistics.median(away):.2f}, most {max(away):.2f} s of {len(away)}",
                 f"there: {statistics.median(there):.3f} s", "bar 0.7 s and the copy")
        self.row("  each", ", ".join(f"{one:.2f}" for one in away))
        self.row("  the last one's parts", json.dumps(measured[-1]))
        wrong = 0
        for job in jobs:
            self.goes_away(job)
            wrong += self.check(job)
            job.close()
        self.row("  wrong, after they were away once more", wrong)

    def cycles(self, name, job, count, pause):
        """Out and back; each with its parts."""
        number, told = self.show(job)["id"], []
        for _ in range(count):
            time.sleep(pause)
            out, back = job.do("suspend"), job.do("resume")
            if out is None or back is None:
                self.bad = True
                break
            told.append({"suspend": out, "resume": back, "out": parts(self.m, number, "job_suspended"),
                         "back": parts(self.m, number, "job_resumed")})
        wrong = self.check(job)
        job.close()
        self.results[name] = told
        self.row(name, "out " + ", ".join(f"{one['suspend']:.2f}" for one in told) + " s; back "
                 + ", ".join(f"{one['resume']:.2f}" for one in told) + " s", f"{wrong} wrong")
        for one in told[:2]:
            self.row("  parts", json.dumps({key: value for key, value in one["out"].items() if value}), "")
            self.row("       ", json.dumps({key: value for key, value in one["back"].items() if value}), "")

    def compile(self):
        for share in ((), ("--share",)):
            hold = "" if self.o.simulated else "--compile"
            job = self.job("compile" + "".join(share), "96MiB" if self.o.simulated else "2GiB", *share, hold=hold)
            self.cycles(f"torch.compile {' '.join(share)}", job, 4, 0)

    def first(self):
        for share, wait in (((), 0), (("--share",), 0), (("--share",), 8)):
            job = self.job(f"first{''.join(share)}{wait}", "96MiB" if self.o.simulated else "10GiB", *share)
            time.sleep(wait)
            self.cycles(f"{wait} s after the start {' '.join(share)}", job, 3, 0)

    def run(self):
        for name, act in {"compile": self.compile, "first": self.first, "notebooks": self.notebooks}.items():
            if not self.o.only or name in self.o.only:
                act()


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", action="append")
    options.add_argument("--count", type=int, default=5)
    options.add_argument("--size", default="20GiB")
    options.add_argument("--share", action="store_true", help="the notebooks with --share")
    options.add_argument("--host-memory", default="105GiB", help="suspend.host_memory, touched before")
    options.add_argument("--simulated", action="store_true", help="the simulated driver, small")
    options.add_argument("--json", type=pathlib.Path)
    options.add_argument("--log", type=pathlib.Path, help="a directory for the daemon's log, the events and what GET /v1/share said")
    o = options.parse_args()
    if o.simulated:
        o.size = "96MiB"
    else:
        grow_host_memory(int(o.host_memory.removesuffix("GiB")) * GIB)
    config = f'[suspend]\nhost_memory = "{o.host_memory}"\n'
    return run_session(IdleSession, o, config, real=not o.simulated)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""What is not copied, on a real GPU, through a daemon of its own: with share.unchanged = "hash" against "off".

Usage: unchanged_session.py [--only NAME]… [--seconds 60] [--json FILE] [--log DIR]

  evictions   a job of 16 GiB leaves: nothing, 1 % of its chunks (one byte each) and all of it changed since it left last
  servers6    six model servers of 11.5 GiB in 40 GiB, a request every 6 s each: latency, and bytes that were copied out
  servers10   ten of 12 GiB, or --server, a request every 10 s each
  training    one server, beside which a training of 30 GiB starts: its slowest request
  bytes       three jobs in short turns that change single bytes at random: wrong bytes

The memory is taken by PyTorch; each part that compares runs with "off" as well. Prints one table; exit status 1 where data
was wrong or a job failed. GPUMAN_BUILD_DIR names the build.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

from share_session import Session, run_session
from suspend_session import Job, parts

GIB = 1 << 30
TOKENS = 28  # of a request, as torch_server.py has it
GROW = "import mmap, sys\nm = mmap.mmap(-1, int(sys.argv[1]))\nfor i in range(0, len(m), 4096): m[i] = 1"


def percentile(values, part):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def grow_host_memory(size, processes=8):
    """Touches that much host memory once: a virtual machine may get its memory when it is first used."""
    for one in [subprocess.Popen([sys.executable, "-c", GROW, str(size // processes)]) for _ in range(processes)]:
        one.wait()


class UnchangedSession(Session):
    def unchanged(self, how):
        self.set(unchanged=how)

    def evictions(self):
        size, medians = "96MiB" if self.o.simulated else "16GiB", {}
        for how, changes in (("off", ("nothing", "all")), ("hash", ("nothing", "0.01", "all"))):
            self.unchanged(how)
            job = Job(self.m, f"evict-{how}", size, "--gpu", str(self.o.gpu), "--share", driver=self.o.simulated)
            number = self.m.api("GET", f"/v1/jobs/{job.tag}")["id"]
            time.sleep(1 if self.o.simulated else 8)  # the mover prepares host memory
            for what in ("nothing", *(change for change in changes for _ in range(3))):
                if what == "all":
                    job.ask("renew")
                elif what != "nothing":
                    job.input.write(f"change {what}\n")
                    job.input.flush()
                    job.wait_for("change")
                if job.do("suspend") is None or job.do("resume") is None:
                    self.bad = True
                    break
                out, back = (parts(self.m, number, kind) for kind in ("job_suspended", "job_resumed"))
                self.results.setdefault(f"evict-{how}-{what}", []).append({"out": out, "back": back})
            verify = job.ask("verify")
            self.bad = self.bad or verify["wrong_bytes"] != 0
            job.close()
            for what in changes:
                measured = self.results.get(f"evict-{how}-{what}", [])[-3:]
                if not measured:
                    continue
                copy = statistics.median(one["out"].get("copy", float("nan")) for one in measured)
                medians[how, what] = copy
                bar = {"nothing": "bar 30 ms", "0.01": "bar 40 ms", "all": "bar 2 % above off"}[what] if how == "hash" else ""
                self.row(f"{size} leave, {how}, changed: {what}", f"{copy} ms in the mover",
                         f"{measured[-1]['out'].get('copied', 0) / GIB:.3f} GiB copied, {verify['wrong_bytes']} wrong", bar)
        if ("off", "all") in medians and ("hash", "all") in medians:
            self.row("all changed, hash against off", f"{medians['hash', 'all'] / medians['off', 'all'] - 1:+.1%}", "", "bar +2 %")

    def server(self, size, *more, options=()):
        return self.launch("python3", pathlib.Path(__file__).parent / "frameworks" / "torch_server.py", "--size", size, *more,
                           options=options)

    def ready(self, tags):
        while not all(self.said(tag, "ready") or self.m.api("GET", f"/v1/jobs/{tag}")["ended_at"] for tag in tags):
            time.sleep(0.2)

    def requests(self, tags, since=0.0):
        """Those that began after that time."""
        return [line for tag in tags for line in self.lines(tag)
                if line["event"] == "request" and line["time"] - line["seconds"] > since]

    def alone(self, size, *tokens):
        """The median time of a request to a server that has the GPU for itself."""
        server = self.server(size, "--every", 1, "--until", time.time() + 18, *tokens)
        self.finish(server)
        return statistics.median(line["seconds"] for line in self.requests([server]))

    def servers(self, count, size, every, hows):
        name, tokens, number = f"servers{count}", (), TOKENS
        base = self.alone(size)
        for _ in range(3):  # the time is not in proportion to the tokens
            if not self.o.alone or abs(base / self.o.alone - 1) < 0.05:
                break
            number = max(1, round(number * self.o.alone / base))
            tokens = ("--tokens", number)
            base = self.alone(size, *tokens)
        for how in self.o.how or hows:
            self.unchanged(how)
            begin = time.time() + 35 + count * 2
            tags = [self.server(size, "--every", every, "--seed", number, "--until", begin + self.o.seconds, *tokens) for number in range(count)]
            self.ready(tags)
            late = time.time() > begin
            time.sleep(max(0.0, begin - time.time()))
            before = self.gpu()
            time.sleep(max(0.0, begin + self.o.seconds - time.time() - 1))
            after = self.gpu()
            for tag in tags:
                self.finish(tag)
            took = [line["seconds"] for line in self.requests(tags, begin)]
            told = {key: after[key] - before[key] for key in ("hand_overs", "moved_out", "moved_in", "copied_out", "copied_in", "moving")}
            self.results[f"{name}-{how}"] = {"alone": base, "seconds": took, "late": late, **told}
            self.row(f"{name}, {how}: alone {base:.2f} s",
                     f"median {statistics.median(took):.2f}, p99 {percentile(took, 0.99):.2f}, most {max(took):.2f} s of {len(took)}",
                     f"{told['hand_overs']} hand-overs, {told['moved_out'] / GIB:.0f} GiB out, {told['copied_out'] / GIB:.1f} copied",
                     "bar 0.85, 1.3" if count == 6 else f"bar p99 {base + 1.2:.2f}")

    def training(self):
        self.unchanged("hash")
        server = self.server(int(11.5 * GIB), "--every", 3, "--until", time.time() + 75)
        self.ready([server])
        time.sleep(10)
        begin = time.time()
        training = self.start(30 * GIB, "--seconds", 30)
        time.sleep(25)
        told = next(job for job in self.gpu()["jobs"] if job["tag"] == server)
        self.finish(server)
        self.finish(training)
        took = [line["seconds"] for line in self.requests([server], begin)]
        self.results["training"] = {"seconds": took, "told": told}
        self.row("server beside a training", f"median {statistics.median(took):.2f}, most {max(took):.2f} s of {len(took)}",
                 f"its start included; {told.get('interactive')}, waits {told.get('waits')}", "bar 2 s")

    def bytes(self):
        self.unchanged("hash")
        self.set(capacity="4GiB", quantum_min=0.05, quantum_max=0.05)
        before = self.gpu()
        tags = [self.start(GIB, "--seconds", self.o.seconds * 2, "--seed", number, program="torch_bytes.py") for number in range(3)]
        done = [self.finish(tag) for tag in tags]
        after = self.gpu()
        self.set(capacity=self.o.capacity, quantum_min=1, quantum_max=60)
        told = {key: after[key] - before[key] for key in ("hand_overs", "moved_out", "copied_out")}
        self.results["bytes"] = {"done": done, **told}
        self.row("single bytes changed at random", f"{told['hand_overs']} hand-overs, {told['copied_out'] / GIB:.1f} of {told['moved_out'] / GIB:.0f} GiB copied",
                 f"{sum(one['iterations'] for one in done) * 4} changes, {[one.get('wrong', '?') for one in done]} wrong", "bar 0")

    def run(self):
        todo = {"evictions": self.evictions,
                "servers6": lambda: self.servers(6, int(11.5 * GIB), 6, ("hash", "off")),
                "servers10": lambda: self.servers(10, int(self.o.server * GIB), 10, ("hash",)),
                "training": self.training, "bytes": self.bytes}
        for name, act in todo.items():
            if not self.o.only or name in self.o.only:
                act()


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--gpu", type=int, default=0)
    options.add_argument("--seconds", type=float, default=60)
    options.add_argument("--capacity", default="40GiB")
    options.add_argument("--alone", type=float, help="seconds of a request to a server alone: so many tokens as that takes")
    options.add_argument("--server", type=float, default=12, help="GiB of each of the ten servers")
    options.add_argument("--how", action="append", choices=("hash", "off"), help="the servers only with this share.unchanged")
    options.add_argument("--host-memory", default="100GiB", help="suspend.host_memory, touched before")
    options.add_argument("--only", action="append")
    options.add_argument("--simulated", action="store_true", help="the simulated driver, small: for evictions")
    options.add_argument("--json", type=pathlib.Path)
    options.add_argument("--log", type=pathlib.Path, help="a directory for the daemon's log, the events and what GET /v1/share said every half second")
    o = options.parse_args()
    if not o.simulated:
        grow_host_memory(int(o.host_memory.removesuffix("GiB")) * GIB)
    config = f'[share]\ncapacity = "{o.capacity}"\n[suspend]\nhost_memory = "{o.host_memory}"\n'
    return run_session(UnchangedSession, o, config, real=not o.simulated)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Jobs whose ranks need each other, in turns on real GPUs, through a daemon of its own.

Usage: gang_session.py [--load NAME] [--gpus 0,1] [--size 2GiB] [--seconds 20] [--only NAME]… [--sim] [--json FILE]

  turns      two jobs of --ranks ranks that do not fit together: hand-overs, their time, steps a second; every sum is checked
  suspend    one job, suspended and resumed by hand --cycles times: how long each way takes, what both buses do together
             in the same run, and what stays on each GPU
  alone      one job that nobody waits for: its steps a second as sharing job and without gpuman's shim, in turns; of
             PyTorch's, by the median time of ten steps
  phases     two jobs of 90 % of --capacity that work half of the time, in phases of --seconds, --phases of them: against
             one after the other
  restarts   as turns, with torchrun --max-restarts: in hand-overs a rank of the first job is killed, --kills times; torchrun
             starts its workers anew, and both jobs go on

--load gpuman: the ranks are gpuman-load's (--ranks, --pattern, --peer), which verify the sum of every all-reduce and every
byte at the end. ddp, fsdp, tensor: PyTorch's, by torchrun (frameworks/torch_gang.py); jax: one process on all GPUs
(frameworks/jax_gang.py). There the loss of each tenth step has to be, to the bit, the one of a run without gpuman, and --size
is a ballast beside the model. With one GPU all ranks are there. --sim: on the simulated driver, to try this script. Prints
one table; exit status 1 where data was wrong or a job failed. GPUMAN_BUILD_DIR names the build. No setting of a GPU is changed.
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from machine import Machine, program as binary  # noqa: E402

FRAMEWORKS = pathlib.Path(__file__).resolve().parent / "frameworks"
MIB = 1 << 20


PARTS = ("turns", "suspend", "alone", "phases", "restarts")


class Session:
    def __init__(self, machine, options):
        self.m, self.o = machine, options
        self.rows, self.bad, self.number = [], False, 0
        self.losses, self.compared, self.demands = {}, 0, []
        self.what = f"{options.pattern}, {options.ranks} ranks" if options.load == "gpuman" else options.load

    def row(self, what, value, remark=""):
        self.rows.append({"what": what, "value": value, "remark": remark})
        print(f"{what:<44}{value:<40}{remark}", flush=True)

    def stop_file(self, tag):
        return self.m.dir / f"stop.{tag}"

    def command(self, tag, size):
        """The words of a job that works until its stop file is there."""
        until = ("--until", str(self.stop_file(tag)))
        if self.o.load == "gpuman":
            return [binary("gpuman-load"), "--ranks", self.o.ranks, "--pattern", self.o.pattern, "--peer", self.o.peer, "--work",
                    self.o.work, "--alloc", size, *(("--step", self.o.step) if self.o.step else ()), "--verify", "--json", *until]
        if self.o.load == "jax":
            return ["python3", FRAMEWORKS / "jax_gang.py", "--ballast", size, *until]
        return ["python3", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", self.o.ranks,
                "--max-restarts", self.o.kills if "restarts" in (self.o.only or ()) else 0,
                FRAMEWORKS / "torch_gang.py", "--pattern", self.o.load, "--width", self.o.width, "--ballast", size, *until]

    def start(self, *more, share=True, preload=True, size=None):
        self.number += 1
        tag = f"gang{self.number}"
        words = ["run", "--tag", tag, "--gpu", self.o.gpus, "--detach"]
        words += ["--share"] if share else []
        words += [] if preload else ["--no-preload"]
        self.m.run_json(*words, "--", *map(str, self.command(tag, size or self.o.bytes)), *map(str, more))
        return tag

    def log(self, tag):
        path = pathlib.Path(self.m.api("GET", f"/v1/jobs/{tag}")["log_path"])
        return path.read_text(errors="replace") if path.exists() else ""

    def keep_logs(self, directory):
        directory.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.m.dir / "daemon.log", directory)
        for number in range(1, self.number + 1):
            (directory / f"gang{number}.log").write_text(self.log(f"gang{number}"))

    def lines(self, tag):
        return [json.loads(line) for line in self.log(tag).splitlines() if line.startswith("{") and line.endswith("}")]

    def steps(self, tag):
        return max((line["number"] for line in self.lines(tag) if line["event"] == "step"), default=0)

    def until(self, what, true, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if value := true():
                return value
            time.sleep(0.02)
        print(f"not within {seconds} s: {what}", flush=True)
        self.bad = True
        return None

    def finish(self, tag):
        self.stop_file(tag).touch()
        ended = self.until(f"{tag} ends", lambda: (job := self.m.api("GET", f"/v1/jobs/{tag}"))["ended_at"] and job)
        done = [line for line in self.lines(tag) if line["event"] == "done"]
        if not ended or ended["state"] != "finished" or any(line.get("exit") for line in done):
            self.bad = True
            print(f"{tag}: {ended and ended['state']} {ended and ended['reason_detail']}", *self.log(tag).splitlines()[-6:], sep="\n  ",
                  flush=True)
        self.compare(tag)
        return self.steps(tag)

    def compare(self, tag):
        """The losses of a job against those of the first that ended: runs of the same program come to the same bits."""
        losses = {line["number"]: line["loss"] for line in self.lines(tag) if line["event"] == "step" and "loss" in line}
        common = losses.keys() & self.losses.keys()
        wrong = [number for number in sorted(common) if losses[number] != self.losses[number]]
        self.compared += len(common)
        if wrong:
            self.bad = True
            print(f"{tag}: the loss of step {wrong[0]} is {losses[wrong[0]]}, not {self.losses[wrong[0]]}", flush=True)
        self.losses |= losses

    def data(self):
        return "WRONG" if self.bad else f"data right, {self.compared} losses the same" if self.compared else "data right"

    def shared(self):
        return [gpu for gpu in self.m.api("GET", "/v1/share")["gpus"] if gpu["jobs"]]

    def events(self, *kinds):
        return [event for event in self.m.events() if event["kind"] in kinds]

    def steady_demand(self, seconds=2):
        """What both jobs demand, when it has not changed for a time: contexts are counted late. None: not yet."""
        demand = max((gpu["demand"] for gpu in self.shared() if len(gpu["jobs"]) == 2), default=0)
        if not self.demands or self.demands[-1][1] != demand:
            self.demands.append((time.monotonic(), demand))
        return demand if demand and time.monotonic() > self.demands[-1][0] + seconds else None

    def both_in_turns(self):
        """Two jobs that do not fit together, after their first two hand-overs."""
        tags = [self.start() for _ in range(2)]
        self.until("both hold their memory", lambda: all(self.steps(tag) > 2 for tag in tags))
        demand = self.until("the demand of both is known", self.steady_demand)
        if demand:
            self.m.api("PUT", "/v1/share", {"capacity": demand - self.o.bytes // 2})
        self.until("they take turns", lambda: self.shared() and min(gpu["hand_overs"] for gpu in self.shared()) >= 2)
        return tags

    def ranks_of(self, tag):
        number = self.m.api("GET", f"/v1/jobs/{tag}")["id"]
        return {process["pid"] for gpu in self.m.api("GET", "/v1/gpus")["gpus"] for process in gpu["processes"] if process["job"] == number}

    def restarts(self):
        tags, waits = self.both_in_turns(), []
        for _ in range(self.o.kills):
            ranks = self.until("its ranks are on their GPUs", lambda: len(found := self.ranks_of(tags[0])) >= self.o.ranks and found) or set()
            self.until("a hand-over is in progress", lambda: any(gpu["handing_over"] for gpu in self.shared()))
            for pid in sorted(ranks)[-1:]:
                os.kill(pid, signal.SIGKILL)
            began, told = time.monotonic(), [len(self.lines(tag)) for tag in tags]
            self.until("both make steps", lambda: all(len(self.lines(tag)) > before + 3 for tag, before in zip(tags, told)), 120)
            waits.append(time.monotonic() - began)
        self.m.api("PUT", "/v1/share", {"clear_capacity": True})
        made = [self.finish(tag) for tag in tags]
        self.row(f"{self.what}: ranks killed in hand-overs", f"{len(waits)}", f"both made steps again after {[round(wait, 1) for wait in waits]} s")
        self.row("  steps at the end", f"{made}", self.data())

    def turns(self):
        begin = time.monotonic()
        tags = self.both_in_turns()
        before, steps, began = self.shared(), [self.steps(tag) for tag in tags], time.monotonic()
        time.sleep(self.o.seconds)
        after, seconds = self.shared(), time.monotonic() - began
        made = [self.steps(tag) - s for tag, s in zip(tags, steps)]
        hand_overs = [b["hand_overs"] - a["hand_overs"] for a, b in zip(before, after)]
        moved = [b["moved_out"] - a["moved_out"] for a, b in zip(before, after)]
        self.row(f"{self.what}, {self.o.size} each: hand-overs", f"{hand_overs} in {seconds:.0f} s",
                 f"{[round(bytes / 2**30, 1) for bytes in moved]} GiB out")
        self.row("  steps of each job", f"{made}", f"{sum(made) / seconds:.1f} a second together")
        self.row("  share of the time that moving took", f"{[round(gpu['moving_share'], 3) for gpu in after]}")
        self.m.api("PUT", "/v1/share", {"clear_capacity": True})
        self.row("  steps at the end", f"{[self.finish(tag) for tag in tags]}", self.data())
        not_yielded = self.events("share_not_yielded")
        self.row("  attempts without rest that were told", f"{len(not_yielded)}", "; ".join(e["message"] for e in not_yielded)[:200])
        self.row("  in all", f"{time.monotonic() - begin:.0f} s")

    def bus(self):
        """What all buses do together, out and in, in bytes a second: every GPU's copies at the same time."""
        programs = [subprocess.Popen(["python3", FRAMEWORKS / "bus.py", "4", "--gpu", gpu, "--at", str(time.time() + 12)],
                                     stdout=subprocess.PIPE, text=True) for gpu in self.o.gpus.split(",")]
        rates = [json.loads(program.communicate()[0].splitlines()[-1]) for program in programs]
        return {way: sum(rate[way] for rate in rates) for way in ("out", "in")}

    def suspend(self):
        rates = self.bus() if self.o.bus else None
        tag = self.start()
        self.until("it makes steps", lambda: self.steps(tag) > 2)
        time.sleep(self.o.ready)  # the mover makes host memory ready, some GiB a second
        times = {"suspend": [], "resume": []}
        left = None
        for _ in range(self.o.cycles):
            for order in ("suspend", "resume"):
                began = time.monotonic()
                answer = self.m.api("POST", f"/v1/jobs/{tag}/{order}", {} if order == "resume" else None)
                times[order].append(time.monotonic() - began)
                if answer.get("state") not in ("suspended", "running"):
                    self.bad = True
                    return self.row(f"suspension of {self.what}", "FAILED", str(answer)[:300])
                if order == "suspend":
                    left = answer.get("reason_detail") or left
                    time.sleep(self.o.away)
            before = self.steps(tag)
            self.until("it goes on", lambda: self.steps(tag) > before)
        for order, all_times in times.items():
            self.row(f"{order} of {self.what}, {self.o.size} each",
                     f"first {all_times[0]:.3f}, median {statistics.median(all_times):.3f}, worst {max(all_times):.3f} s",
                     f"{len(all_times)} times")
        if rates:
            self.row("  both buses together", f"{rates['out'] / 1e9:.1f} GB/s out, {rates['in'] / 1e9:.1f} GB/s in")
        for kind in ("job_suspended", "job_resumed"):
            told = self.events(kind)
            self.row(f"  the last {kind}", f"{told and told[-1]['data']}", left if kind == "job_suspended" else "")
        self.finish(tag)
        self.row("  data", self.data())

    def alone(self):
        rates = {"shared": [], "without the shim": []}
        for _ in range(self.o.pairs):
            for name, how in (("shared", {}), ("without the shim", {"share": False, "preload": False})):
                tag = self.start(**how)
                self.until("it makes steps", lambda: self.steps(tag) > 20)
                before, began = self.steps(tag), time.monotonic()
                time.sleep(self.o.seconds / 2)
                rate = (self.steps(tag) - before) / (time.monotonic() - began)
                self.finish(tag)
                tens = [line["ten_steps"] for line in self.lines(tag) if "ten_steps" in line]
                rates[name].append(10 / statistics.median(tens) if tens else rate)
        typical = {name: statistics.median(values) for name, values in rates.items()}
        plain = typical["without the shim"]
        slower = f"{100 * (1 - typical['shared'] / plain):.2f} % slower; " if plain else ""
        self.row(f"{self.what}: steps a second alone", f"{ {name: round(rate, 2) for name, rate in typical.items()} }",
                 slower + self.data())
        lost = sorted(100 * (1 - shared / bare) for shared, bare in zip(*rates.values()))
        self.row("  slower by, in % of each pair", f"median {statistics.median(lost):.2f}", ", ".join(f"{each:.2f}" for each in lost))

    def pace(self, size):
        """Steps a second of a run alone, and the bytes that a rank has beside its ballast."""
        tag = self.start(size=size, share=False, preload=False)
        self.until("it makes steps", lambda: self.steps(tag) > 20)
        used = self.until("its memory is known", lambda: self.m.api("GET", f"/v1/jobs/{tag}")["memory"]["used"])
        beside = max(0, (used or 0) - size)
        before, began = self.steps(tag), time.monotonic()
        time.sleep(5)
        rate = (self.steps(tag) - before) / (time.monotonic() - began)
        self.finish(tag)
        return rate, beside

    def phases(self):
        """Only PyTorch's patterns know phases. A phase is work of --seconds at the pace of a run alone, then a pause as long."""
        rate, beside = self.pace(1 << 30)
        size = int(self.o.capacity * 0.9) - (self.o.context or beside)
        more = ("--phases", self.o.phases, "--work", int(rate * self.o.seconds) // 10 * 10, "--pause", self.o.seconds)
        self.m.api("PUT", "/v1/share", {"capacity": self.o.capacity})
        took = {}
        for count in (1, 2):
            how = (*more, "--rest", self.o.ready) if count == 2 else ("--phases", 2, *more[2:])
            tags = [self.start(*how, size=size) for _ in range(count)]
            for tag in tags:
                self.until(f"{tag} ends", lambda: self.m.api("GET", f"/v1/jobs/{tag}")["ended_at"],
                           self.o.phases * self.o.seconds * 5 + self.o.ready + 60)
                self.finish(tag)
            took[count] = max(line["seconds"] for tag in tags for line in self.lines(tag) if line["event"] == "done")
        serial = 2 * took[1] / 2 * self.o.phases
        self.m.api("PUT", "/v1/share", {"clear_capacity": True})
        self.row(f"{self.what}: two of {(size + beside) / 2**30:.1f} GiB, {self.o.phases} phases", f"{took[2]:.1f} s together",
                 f"{serial:.1f} s one after the other (from 2 phases alone): {serial / took[2]:.2f} times; {self.data()}")

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--load", choices=("gpuman", "ddp", "fsdp", "tensor", "jax"), default="gpuman")
    parser.add_argument("--gpus", default="0")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--pattern", default="ddp")
    parser.add_argument("--peer", default="vmm")
    parser.add_argument("--width", type=int, default=1024, help="of PyTorch's transformer; 3072: the GPU is never idle")
    parser.add_argument("--work", default="20ms")
    parser.add_argument("--size", default="1GiB", help="of each rank")
    parser.add_argument("--step", help="size of the blocks in which gpuman-load allocates (default: all at once)")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--cycles", type=int, default=5)
    parser.add_argument("--ready", type=float, default=10,
                        help="seconds from the first steps to the first suspension, or to the first of two jobs' phases")
    parser.add_argument("--only", action="append", choices=PARTS)
    parser.add_argument("--away", type=float, default=0, help="seconds between suspend and resume")
    parser.add_argument("--bus", action="store_true", help="measure the buses as well (needs PyTorch)")
    parser.add_argument("--pairs", type=int, default=1, help="of runs alone")
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--phases", type=int, default=3)
    parser.add_argument("--capacity", type=int, default=16 << 30, help="bytes that sharing jobs may use of a GPU, for phases")
    parser.add_argument("--context", type=int, help="bytes of a rank beside its ballast, for phases (default: measured)")
    parser.add_argument("--quantum", type=int, nargs=2, default=(200, 1000),
                        help="milliseconds of a turn, least and most; 0 0: as gpuman has them")
    parser.add_argument("--sim", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--log", help="a directory for the logs of daemon and jobs")
    options = parser.parse_args()
    unit = {"M": MIB, "G": 1 << 30}[options.size.removesuffix("iB")[-1]]
    options.bytes = int(options.size.removesuffix("iB")[:-1]) * unit
    config = '[log]\nlevel = "debug"\n'
    if any(options.quantum):
        config += '[share]\nquantum_min = "{}ms"\nquantum_max = "{}ms"\n'.format(*options.quantum)
    with Machine(profile="h200", gpus=2, memory="8GiB" if options.sim else None, real=not options.sim, config=config) as machine:
        session = Session(machine, options)
        try:
            for name in options.only or PARTS[:3]:
                getattr(session, name)()
        finally:
            if options.log:
                session.keep_logs(pathlib.Path(options.log))
            if options.json:
                pathlib.Path(options.json).write_text(json.dumps(session.rows, indent=1))
    return 1 if session.bad else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Jobs whose ranks need each other, in turns on real GPUs, through a daemon of its own.

Usage: gang_session.py [--gpus 0,1] [--size 2GiB] [--seconds 20] [--only NAME]… [--sim] [--json FILE]

  turns      two jobs of --ranks ranks that do not fit together: hand-overs, their time, steps a second; every sum is checked
  suspend    one job, suspended and resumed by hand --cycles times: how long each way takes, and what stays on each GPU
  alone      one job that nobody waits for: its steps a second, as sharing job and without gpuman's shim

The ranks are gpuman-load's (--ranks, --pattern, --peer): they verify the sum of every all-reduce and every byte at the
end. With one GPU all ranks are there. --sim: on the simulated driver, to try this script. Prints one table; exit status
1 where data was wrong or a job failed. GPUMAN_BUILD_DIR names the build. No setting of a GPU is changed.
"""

import argparse
import json
import pathlib
import shutil
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from machine import Machine, program as binary  # noqa: E402

MIB = 1 << 20


class Session:
    def __init__(self, machine, options):
        self.m, self.o = machine, options
        self.rows, self.bad, self.number = [], False, 0

    def row(self, what, value, remark=""):
        self.rows.append({"what": what, "value": value, "remark": remark})
        print(f"{what:<44}{value:<40}{remark}", flush=True)

    def stop_file(self, tag):
        return self.m.dir / f"stop.{tag}"

    def start(self, *more, share=True, preload=True):
        self.number += 1
        tag = f"gang{self.number}"
        words = ["run", "--tag", tag, "--gpu", self.o.gpus, "--detach"]
        words += ["--share"] if share else []
        words += [] if preload else ["--no-preload"]
        self.m.run_json(*words, "--", binary("gpuman-load"), "--ranks", str(self.o.ranks), "--pattern", self.o.pattern, "--peer",
                        self.o.peer, "--work", self.o.work, "--alloc", self.o.size, "--verify", "--json", "--until",
                        str(self.stop_file(tag)), *more)
        return tag

    def log(self, tag):
        path = pathlib.Path(self.m.api("GET", f"/v1/jobs/{tag}")["log_path"])
        return path.read_text(errors="replace") if path.exists() else ""

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
        return self.steps(tag)

    def shared(self):
        return [gpu for gpu in self.m.api("GET", "/v1/share")["gpus"] if gpu["jobs"]]

    def events(self, *kinds):
        return [event for event in self.m.events() if event["kind"] in kinds]

    def turns(self):
        begin = time.monotonic()
        tags = [self.start() for _ in range(2)]
        self.until("both hold their memory", lambda: all(self.steps(tag) > 2 for tag in tags))
        demand = self.until("both count", lambda: max((gpu["demand"] for gpu in self.shared() if len(gpu["jobs"]) == 2), default=0))
        if demand:
            self.m.api("PUT", "/v1/share", {"capacity": demand - self.o.bytes // 2})
        self.until("they take turns", lambda: self.shared() and min(gpu["hand_overs"] for gpu in self.shared()) >= 2)
        before, steps, began = self.shared(), [self.steps(tag) for tag in tags], time.monotonic()
        time.sleep(self.o.seconds)
        after, seconds = self.shared(), time.monotonic() - began
        made = [self.steps(tag) - s for tag, s in zip(tags, steps)]
        hand_overs = [b["hand_overs"] - a["hand_overs"] for a, b in zip(before, after)]
        moved = [b["moved_out"] - a["moved_out"] for a, b in zip(before, after)]
        self.row(f"{self.o.pattern}, {self.o.ranks} ranks, {self.o.size} each: hand-overs", f"{hand_overs} in {seconds:.0f} s",
                 f"{[round(bytes / 2**30, 1) for bytes in moved]} GiB out")
        self.row("  steps of each job", f"{made}", f"{sum(made) / seconds:.1f} a second together")
        self.row("  share of the time that moving took", f"{[round(gpu['moving_share'], 3) for gpu in after]}")
        self.m.api("PUT", "/v1/share", {"clear_capacity": True})
        self.row("  steps at the end", f"{[self.finish(tag) for tag in tags]}", "data right" if not self.bad else "WRONG")
        not_yielded = self.events("share_not_yielded")
        self.row("  attempts without rest that were told", f"{len(not_yielded)}", "; ".join(e["message"] for e in not_yielded)[:200])
        self.row("  in all", f"{time.monotonic() - begin:.0f} s")

    def suspend(self):
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
                    return self.row(f"suspension of {self.o.ranks} ranks", "FAILED", str(answer)[:300])
                if order == "suspend":
                    left = answer.get("reason_detail") or left
            before = self.steps(tag)
            self.until("it goes on", lambda: self.steps(tag) > before)
        for order, all_times in times.items():
            self.row(f"{order} of {self.o.ranks} ranks, {self.o.size} each",
                     f"median {statistics.median(all_times):.3f} s, worst {max(all_times):.3f} s",
                     f"{len(all_times)} times, the first {all_times[0]:.3f} s")
        told = self.events("job_suspended")
        self.row("  the last suspension", f"{told and told[-1]['data']}", f"{left}")
        self.finish(tag)

    def alone(self):
        rates = {}
        for name, how in (("shared", {}), ("without the shim", {"share": False, "preload": False})):
            tag = self.start(**how)
            self.until("it makes steps", lambda: self.steps(tag) > 2)
            before, began = self.steps(tag), time.monotonic()
            time.sleep(self.o.seconds / 2)
            rates[name] = (self.steps(tag) - before) / (time.monotonic() - began)
            self.finish(tag)
        self.row("steps a second alone", f"{ {name: round(rate, 2) for name, rate in rates.items()} }")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpus", default="0")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--pattern", default="ddp")
    parser.add_argument("--peer", default="vmm")
    parser.add_argument("--work", default="20ms")
    parser.add_argument("--size", default="1GiB", help="of each rank")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--cycles", type=int, default=5)
    parser.add_argument("--ready", type=float, default=10, help="seconds from the first steps to the first suspension")
    parser.add_argument("--only", action="append", choices=("turns", "suspend", "alone"))
    parser.add_argument("--sim", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--log", help="a directory for the daemon's log")
    options = parser.parse_args()
    unit = {"M": MIB, "G": 1 << 30}[options.size.removesuffix("iB")[-1]]
    options.bytes = int(options.size.removesuffix("iB")[:-1]) * unit
    config = '[log]\nlevel = "debug"\n[share]\nquantum_min = "200ms"\nquantum_max = "1s"\n'
    with Machine(profile="h200", gpus=2, memory="8GiB" if options.sim else None, real=not options.sim, config=config) as machine:
        session = Session(machine, options)
        try:
            for name in options.only or ("turns", "suspend", "alone"):
                getattr(session, name)()
        finally:
            if options.log:
                shutil.copy(machine.dir / "daemon.log", options.log)
            if options.json:
                pathlib.Path(options.json).write_text(json.dumps(session.rows, indent=1))
    return 1 if session.bad else 0


if __name__ == "__main__":
    sys.exit(main())

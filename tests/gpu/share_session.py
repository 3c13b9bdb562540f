#!/usr/bin/env python3
"""Sharing a real GPU, through a daemon of its own: jobs in turns against the same jobs one after the other.

Usage: share_session.py [--capacity 16GiB] [--phase 10] [--phases 3] [--only NAME]… [--json FILE] [--log DIR]

  phases50, phases90   two jobs of 90 % of the capacity that work 50 % and 90 % of each phase: together against one after the other
  handover             the same, without pauses: bytes and time of each hand-over, against the bus one way as the mover measures it
  partial              two jobs of 60 %: bytes that move at each hand-over
  weights              three jobs of weights 1, 2 and 4: their shares of the turns
  fit                  two jobs of 45 % in phases: together against one after the other, and no hand-over

The memory is taken by PyTorch (frameworks/torch_phases.py), within the capacity that `gpuman share set` gives: the device is not
filled. Prints one table; exit status 1 where data was wrong or a job failed. GPUMAN_BUILD_DIR names the build.
"""

import argparse
import json
import pathlib
import shutil
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from machine import Machine  # noqa: E402

PHASES = str(pathlib.Path(__file__).resolve().parent / "frameworks" / "torch_phases.py")
GIB, BLOCK = 1 << 30, 256 << 20
CONTEXT = 768 << 20  # what PyTorch takes besides


class Session:
    def __init__(self, machine, options):
        self.m, self.o = machine, options
        self.capacity = int(options.capacity.removesuffix("GiB")) * GIB
        self.seconds = options.phase * 6
        self.rows, self.results, self.bad, self.number = [], {}, False, 0

    def row(self, what, value, compared, verdict=""):
        self.rows.append((what, value, compared, verdict))
        print(f"{what:<44}{value:<34}{compared:<40}{verdict}", flush=True)

    def size(self, part):
        """Of the capacity, contexts of both jobs left out."""
        return int((self.capacity - 3 * CONTEXT) * part) // BLOCK * BLOCK

    def start(self, size, *more, options=()):
        self.number += 1
        tag = f"job{self.number}"
        self.m.run_json("run", "--tag", tag, "--gpu", "0", "--share", *options, "--detach", "--", "python3", PHASES,
                        "--size", str(size), *map(str, more))
        return tag

    def said(self, tag, event):
        text = pathlib.Path(self.m.api("GET", f"/v1/jobs/{tag}")["log_path"]).read_text(errors="replace")
        lines = [json.loads(line) for line in text.splitlines() if line.startswith("{") and line.endswith("}")]
        return next((line for line in lines if line["event"] == event), None)

    def finish(self, tag):
        while not (job := self.m.api("GET", f"/v1/jobs/{tag}"))["ended_at"]:
            time.sleep(0.05)
        done = self.said(tag, "done")
        if job["state"] != "finished" or not done or done["wrong"]:
            self.bad = True
            print(f"{tag}: {job['state']} {job['reason_detail']} {done}", flush=True)
        return done or {"seconds": float("nan"), "iterations": 0, "time": 0}

    def gpu(self):
        return (self.m.api("GET", "/v1/share")["gpus"] or [{"hand_overs": 0, "moved_out": 0, "moved_in": 0, "jobs": [], "moving_share": 0}])[0]

    def pace(self, size):
        tag = self.start(size, "--phases", 1, "--work", 1, "--pause", 0)
        self.finish(tag)
        return self.said(tag, "ready")["pace"]

    def together(self, size, *more, count=2):
        begin = time.monotonic()
        tags = [self.start(size, *more) for _ in range(count)]
        for tag in tags:
            self.finish(tag)
        return time.monotonic() - begin

    def one_by_one(self, size, *more, count=2):
        begin = time.monotonic()
        for _ in range(count):
            self.finish(self.start(size, *more))
        return time.monotonic() - begin

    def phases(self, name, part, busy, bar):
        size, phase = self.size(part), self.o.phase
        pace = self.pace(size)
        more = ("--phases", self.o.phases, "--work", phase * busy, "--pause", phase * (1 - busy), "--pace", pace)
        alone = self.one_by_one(size, *more)
        before = self.gpu()
        both = self.together(size, *more)
        after = self.gpu()
        times = alone / both
        over = after["hand_overs"] - before["hand_overs"]
        self.results[name] = {"one_after_the_other": alone, "together": both, "times": times, "hand_overs": over}
        self.row(f"{name}: two of {part:.0%}, busy {busy:.0%}", f"{times:.2f} times faster, {over} hand-overs",
                 f"{alone:.1f} s one after the other, {both:.1f} s", f"bar {bar}")

    def handover(self, name, part):
        size = self.size(part)
        tags = [self.start(size, "--seconds", self.seconds) for _ in range(2)]
        while self.gpu()["hand_overs"] == 0 and not all(self.said(tag, "done") for tag in tags):
            time.sleep(0.05)
        before = self.gpu()
        for tag in tags:
            self.finish(tag)
        after = self.gpu()
        count = max(1, after["hand_overs"] - before["hand_overs"])
        out, back = after["moved_out"] - before["moved_out"], after["moved_in"] - before["moved_in"]
        moving = after["moving_share"] * self.seconds
        self.results[name] = {"hand_overs": count, "out": out, "back": back, "moving_share": after["moving_share"]}
        rate = f"{(out + back) / moving / 1e9:.1f} GB/s in sum while moving" if moving > 0 else "n/a"
        self.row(f"{name}: two of {part:.0%} without pauses", f"{out / count / GIB:.2f} GiB out, {back / count / GIB:.2f} back each",
                 f"{rate}; {after['moving_share']:.1%} of the time",
                 f"{out / count / self.capacity:.0%} of the capacity")

    def weights(self):
        size, seconds = self.size(0.9), self.o.phase * 12
        tags = {weight: self.start(size, "--seconds", seconds, options=("--weight", str(weight))) for weight in (1, 2, 4)}
        time.sleep(seconds * 0.9)
        had = {weight: next((job["had_turn"] for job in self.gpu()["jobs"] if job["tag"] == tag), 0) for weight, tag in tags.items()}
        for tag in tags.values():
            self.finish(tag)
        total = sum(had.values()) or 1
        shares = {weight: turn / total for weight, turn in had.items()}
        self.results["weights"] = shares
        self.row("weights 1, 2, 4", ", ".join(f"{share:.1%}" for share in shares.values()), "14.3 %, 28.6 %, 57.1 % wanted", "bar 5 %")

    def run(self):
        todo = {"phases50": lambda: self.phases("phases50", 0.9, 0.5, "1.8"),
                "phases90": lambda: self.phases("phases90", 0.9, 0.9, "1.05"),
                "handover": lambda: self.handover("handover", 0.9),
                "partial": lambda: self.handover("partial", 0.6),
                "weights": self.weights,
                "fit": lambda: self.phases("fit", 0.45, 0.5, "2 % slower at most")}
        for name, act in todo.items():
            if not self.o.only or name in self.o.only:
                act()


def watch(machine, directory, done):
    with (directory / "share.jsonl").open("w", encoding="utf-8") as file:
        while not done.wait(0.5):
            print(json.dumps({"time": time.time(), **machine.api("GET", "/v1/share")}), file=file, flush=True)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--capacity", default="16GiB")
    options.add_argument("--phase", type=float, default=10)
    options.add_argument("--phases", type=int, default=3)
    options.add_argument("--only", action="append")
    options.add_argument("--json")
    options.add_argument("--log", type=pathlib.Path, help="a directory for the daemon's log, the events and what GET /v1/share said every half second, all in detail")
    o = options.parse_args()
    level = '[log]\nlevel = "debug"\n' if o.log else ""
    with Machine(real=True, config=f'{level}[share]\ncapacity = "{o.capacity}"\n') as machine:
        session = Session(machine, o)
        watching = threading.Event()
        watcher = threading.Thread(target=watch, args=(machine, o.log, watching), daemon=True)
        if o.log:
            watcher.start()
        try:
            session.run()
        finally:
            watching.set()
            if o.log:
                watcher.join()
                (o.log / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in machine.events()))
                shutil.copy(machine.dir / "daemon.log", o.log / "daemon.log")
    if o.json:
        pathlib.Path(o.json).write_text(json.dumps(session.results, indent=1))
    sys.exit(1 if session.bad else 0)


main()

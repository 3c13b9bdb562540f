#!/usr/bin/env python3
"""Sharing a real GPU, through a daemon of its own: jobs in turns against the same jobs one after the other.

Usage: share_session.py [--gpu N] [--capacity 16GiB] [--phase 10] [--phases 3] [--seconds 60] [--only NAME]… [--json FILE] [--log DIR]

  phases50, phases90   two jobs of 90 % of the capacity that work 50 % and 90 % of each phase: together against one after the other
  handover             two of 16 GiB without pauses, of which only one finds room: the rate of the hand-overs against the bus's
  partial              two jobs of 60 %, without pauses: bytes that move at each hand-over
  weights              three jobs of weights 1, 2 and 4: their shares of the time, over --seconds
  load50, load90       phases50 and phases90 with gpuman-load, whose work of a phase is one long kernel
  fit                  two jobs of 45 % in phases that begin at the same moment, which fit together: against both without gpuman,
                       from that moment to the later end, and no hand-over
  compute              two trainings that fit together and both keep the GPU busy: iterations a second without gpuman, and with
                       share.compute = concurrent, exclusive, auto
  interactive          one that works for 50 ms every 8 s beside one that works all the time, two of 90 %: from launch to result
  workloads            the shapes of nvshare's tests, small (30 %) and large (90 %), two at a time: PASS
  allocators           two PyTorch jobs of 90 % in turns, with each of PyTorch's allocators: what leaves the GPU
  ipc                  a PyTorch job whose processes pass tensors to each other (legacy IPC), with a job of 90 % beside it
  thousand             three jobs whose turns are short, until there were 1,000 hand-overs: data checked

The memory is taken by PyTorch (frameworks/torch_phases.py), within the capacity that `gpuman share set` gives: the device is not
filled. Prints one table; exit status 1 where data was wrong or a job failed. GPUMAN_BUILD_DIR names the build.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from machine import Machine, program as binary  # noqa: E402

FRAMEWORKS = pathlib.Path(__file__).resolve().parent / "frameworks"
GIB, BLOCK = 1 << 30, 256 << 20
CONTEXT = 768 << 20  # PyTorch's additional memory


class Session:
    def __init__(self, machine, options):
        self.m, self.o = machine, options
        self.capacity = int(options.capacity.removesuffix("GiB")) * GIB
        self.rows, self.results, self.bad, self.number = [], {}, False, 0

    def row(self, what, value, compared, verdict=""):
        self.rows.append((what, value, compared, verdict))
        print(f"{what:<44}{value:<34} {compared:<40} {verdict}", flush=True)

    def size(self, part):
        """A part of the capacity, without the contexts of both jobs."""
        return int((self.capacity - 3 * CONTEXT) * part) // BLOCK * BLOCK

    def start(self, size, *more, program="torch_phases.py", **how):
        return self.launch("python3", FRAMEWORKS / program, *(("--size", size) if size else ()), *more, **how)

    def launch(self, *command, options=(), env=()):
        self.number += 1
        tag = f"job{self.number}"
        self.m.run_json("run", "--tag", tag, "--gpu", str(self.o.gpu), "--share", *options, "--detach", "--", "env", *env,
                        *map(str, command))
        return tag

    def text(self, tag):
        log = pathlib.Path(self.m.api("GET", f"/v1/jobs/{tag}")["log_path"])
        return log.read_text(errors="replace") if log.exists() else ""  # the keeper has not begun yet

    def lines(self, tag):
        return [json.loads(line) for line in self.text(tag).splitlines() if line.startswith("{") and line.endswith("}")]

    def said(self, tag, event):
        return next((line for line in self.lines(tag) if line["event"] == event), None)

    def finish(self, tag):
        while not (job := self.m.api("GET", f"/v1/jobs/{tag}"))["ended_at"]:
            time.sleep(0.05)
        done = self.said(tag, "done")
        if job["state"] != "finished" or not done or done.get("wrong"):
            self.bad = True
            print(f"{tag}: {job['state']} {job['reason_detail']} {done}", *self.text(tag).splitlines()[-4:], sep="\n  ", flush=True)
        return done or {"seconds": float("nan"), "iterations": 0, "time": 0}

    def gpu(self):
        nothing = {"index": self.o.gpu, "hand_overs": 0, "moved_out": 0, "moved_in": 0, "moving": 0, "jobs": [], "moving_share": 0,
                   "handing_over": False}
        return next((gpu for gpu in self.m.api("GET", "/v1/share")["gpus"] if gpu["index"] == self.o.gpu), nothing)

    def pace(self, size):
        tag = self.start(size, "--phases", 1, "--work", 1, "--pause", 0)
        self.finish(tag)
        return self.said(tag, "ready")["pace"]

    def together(self, command, count=2):
        begin = time.monotonic()
        tags = [self.launch(*command) for _ in range(count)]
        for tag in tags:
            self.finish(tag)
        return time.monotonic() - begin

    def one_by_one(self, command, count=2):
        begin = time.monotonic()
        for _ in range(count):
            self.finish(self.launch(*command))
        return time.monotonic() - begin

    def phases(self, name, part, busy, bar, program="torch"):
        size, phase = self.size(part), self.o.phase
        if program == "torch":
            command = ("python3", FRAMEWORKS / "torch_phases.py", "--size", size, "--phases", self.o.phases, "--work", phase * busy,
                       "--pause", phase * (1 - busy), "--pace", self.pace(size))
        else:
            command = (binary("gpuman-load"), "--alloc", size, "--step", BLOCK, "--kernel-time", f"{phase * busy * 1000:.0f}ms",
                       "--duty", busy, "--iterations", self.o.phases, "--verify", "--json")
        alone = self.one_by_one(command)
        before = self.gpu()
        both = self.together(command)
        after = self.gpu()
        times = alone / both
        over = after["hand_overs"] - before["hand_overs"]
        self.results[name] = {"one_after_the_other": alone, "together": both, "times": times, "hand_overs": over}
        self.row(f"{name}: two of {part:.0%}, busy {busy:.0%}", f"{times:.2f} times faster, {over} hand-overs",
                 f"{alone:.1f} s one after the other, {both:.1f} s", f"bar {bar}")

    def plain(self, program, *words):
        """Starts a program on this GPU without gpuman."""
        return subprocess.Popen(["python3", str(FRAMEWORKS / program), *map(str, words)], stdout=subprocess.PIPE, text=True,
                                env={**os.environ, "CUDA_VISIBLE_DEVICES": str(self.o.gpu)})

    def set(self, **settings):
        self.m.api("PUT", "/v1/share", settings)

    def moves(self, name, size):
        """Two jobs without pauses: the bytes that moved in whole hand-overs after the first two, which prepare host
        memory."""
        tags = [self.start(size, "--seconds", self.o.seconds) for _ in range(2)]
        first = self.gpu()["hand_overs"]
        before = after = None
        while not any(self.said(tag, "done") for tag in tags):
            now = self.gpu()
            if not now["handing_over"] and now["hand_overs"] >= first + 2:
                before = before or now
                after = now
            time.sleep(0.05)
        for tag in tags:
            self.finish(tag)
        moved = {key: after[key] - before[key] if before else 0 for key in ("hand_overs", "moved_out", "moved_in", "moving")}
        self.results[name] = moved
        return moved if moved["hand_overs"] else None

    def nothing_moved(self, what):
        self.row(what, "n/a", "no whole hand-over after the first two: give more --seconds")

    def handover(self):
        bus = json.loads(self.plain("bus.py").communicate()[0])
        size = 16 * GIB
        self.set(capacity=f"{(size + 2 * CONTEXT + GIB) >> 20}MiB")
        moved = self.moves("handover", size)
        self.set(capacity=self.o.capacity)
        if not moved:
            return self.nothing_moved("handover: 16 GiB against 16 GiB")
        count = moved["hand_overs"]
        rate = (moved["moved_out"] + moved["moved_in"]) / moved["moving"]
        self.results["handover"] |= {"bus": bus, "rate": rate}
        self.row("handover: 16 GiB against 16 GiB",
                 f"{moved['moved_out'] / count / GIB:.1f} out, {moved['moved_in'] / count / GIB:.1f} GiB back, {moved['moving'] / count:.3f} s each",
                 f"{rate / 1e9:.1f} GB/s in sum, {rate / bus['out']:.2f} times one way ({bus['out'] / 1e9:.1f}; both at once {bus['both'] / 1e9:.1f})",
                 "bar 1.6")

    def partial(self):
        moved = self.moves("partial", self.size(0.6))
        if not moved:
            return self.nothing_moved("partial: two of 60% without pauses")
        count = moved["hand_overs"]
        self.row("partial: two of 60% without pauses",
                 f"{moved['moved_out'] / count / GIB:.2f} GiB out, {moved['moved_in'] / count / GIB:.2f} back each",
                 f"{moved['moved_out'] / count / self.capacity:.0%} of the capacity", "bar 25 %")

    def weights(self):
        size, seconds = self.size(0.9), self.o.seconds
        tags = {weight: self.start(size, "--seconds", seconds + 60, options=("--weight", str(weight))) for weight in (1, 2, 4)}

        def turns():
            return {job["tag"]: job["had_turn"] for job in self.gpu()["jobs"]}
        while len([turn for turn in turns().values() if turn > 1]) < 3:  # all jobs have begun
            time.sleep(0.5)
        before = turns()
        time.sleep(seconds)
        after = turns()
        had = {weight: after[tag] - before[tag] for weight, tag in tags.items()}
        for tag in tags.values():
            self.m.api("DELETE", f"/v1/jobs/{tag}")
        total = sum(had.values()) or 1
        self.results["weights"] = shares = {weight: turn / total for weight, turn in had.items()}
        off = max(abs(share / (weight / 7) - 1) for weight, share in shares.items())
        self.row(f"weights 1, 2, 4 over {seconds:.0f} s", ", ".join(f"{share:.1%}" for share in shares.values()),
                 f"14.3 %, 28.6 %, 57.1 % wanted: {off:.1%} off at most", "bar 5 %")

    def trained(self, lines, begin, end):
        """Iterations a second in that time, from the output of a training."""
        said = [(line["time"], line["iterations"]) for line in map(json.loads, lines) if line.get("event") == "trained"]
        within = [one for one in said if begin <= one[0] <= end]
        return (within[-1][1] - within[0][1]) / (within[-1][0] - within[0][0]) if len(within) > 1 else float("nan")

    def compute(self):
        window, rates = 15, {}
        for mode, settle in (("none", 10), ("concurrent", 10), ("exclusive", 10), ("auto", 35)):
            seconds = settle + window + 5
            begin = time.time() + settle
            if mode == "none":
                programs = [self.plain("torch_train.py", "--seconds", seconds) for _ in range(2)]
                logs = [program.communicate()[0].splitlines() for program in programs]
            else:
                self.set(compute=mode)
                tags = [self.start(None, "--seconds", seconds, program="torch_train.py") for _ in range(2)]
                for tag in tags:
                    self.finish(tag)
                logs = [self.text(tag).splitlines() for tag in tags]
            rates[mode] = [self.trained([line for line in log if line.startswith("{")], begin, begin + window) for log in logs]
        self.set(compute="concurrent")
        self.results["compute"] = rates
        sums = {mode: sum(each) for mode, each in rates.items()}
        self.row("two trainings that fit, iterations/s", ", ".join(f"{mode} {rate:.1f}" for mode, rate in sums.items()),
                 f"auto against the better {sums['auto'] / max(sums['concurrent'], sums['exclusive']) - 1:+.1%}", "bar −2 %")

    def interactive(self):
        size = self.size(0.9)
        pace = self.pace(size)
        training = self.start(size, "--seconds", 80)
        time.sleep(12)
        tag = self.start(size, "--phases", 6, "--work", 0.05, "--pause", 8, "--pace", pace)
        self.finish(tag)
        after = self.gpu()
        self.finish(training)
        firsts = sorted(line["seconds"] for line in self.lines(tag) if line["event"] == "first")
        each = after["moving"] / max(1, after["hand_overs"])
        self.results["interactive"] = {"firsts": firsts, "hand_over": each}
        self.row("interactive beside a training", f"{firsts[len(firsts) // 2]:.3f} s in the median of {len(firsts)}, {firsts[-1]:.3f} at most",
                 f"hand-over {each:.3f} s", "bar hand-over + 0.1 s")

    def fit(self):
        size, phase = self.size(0.45), self.o.phase
        more = ("--size", size, "--phases", self.o.phases, "--work", phase / 2, "--pause", phase / 2, "--pace", self.pace(size))
        plain, both = [], []
        before = self.gpu()["hand_overs"]
        for _ in range(3):
            at = time.time() + 12  # by then all jobs have their memory
            programs = [self.plain("torch_phases.py", *more, "--at", at) for _ in range(2)]
            outputs = [program.communicate()[0] for program in programs]
            plain.append(max(json.loads(output.splitlines()[-1])["time"] for output in outputs) - at)
            at = time.time() + 12
            tags = [self.start(None, *more, "--at", at) for _ in range(2)]
            both.append(max(self.finish(tag)["time"] for tag in tags) - at)
        over = self.gpu()["hand_overs"] - before
        self.results["fit"] = {"plain": plain, "together": both, "hand_overs": over}
        self.row("fit: two of 45%, busy 50%, three rounds in turns", f"{sorted(both)[1] / sorted(plain)[1] - 1:+.1%}, {over} hand-overs",
                 f"{', '.join(f'{one:.1f}' for one in plain)} s without gpuman, {', '.join(f'{one:.1f}' for one in both)} s", "bar 2 %")

    def workloads(self):
        device = next(gpu["memory"]["total"] for gpu in self.m.api("GET", "/v1/gpus")["gpus"] if gpu["index"] == self.o.gpu)
        for load in ("torch-add", "jax-matmul"):
            for name, part in (("small", 0.3), ("large", 0.9)):
                before = self.gpu()["hand_overs"]
                tags = [self.start(None, load, "--size", self.size(part), "--seconds", 20, "--device-size", device, program="pass_load.py") for _ in range(2)]
                done = [self.finish(tag) for tag in tags]
                said = ["PASS" if "PASS" in self.text(tag) else "FAIL" for tag in tags]
                self.results[f"{load}-{name}"] = {"said": said, "done": done}
                self.row(f"{load}, {name}, two at a time", " ".join(said), f"{self.gpu()['hand_overs'] - before} hand-overs", "bar PASS")

    def allocators(self):
        for name, conf in (("native", ""), ("expandable", "expandable_segments:True"), ("async", "backend:cudaMallocAsync")):
            before = self.gpu()
            tags = [self.start(self.size(0.9), "--seconds", 25, env=(f"PYTORCH_CUDA_ALLOC_CONF={conf}",)) for _ in range(2)]
            time.sleep(15)
            pinned = [job.get("pinned") for job in self.gpu()["jobs"]]
            done = [self.finish(tag) for tag in tags]
            after = self.gpu()
            over = after["hand_overs"] - before["hand_overs"]
            moved = (after["moved_out"] - before["moved_out"]) / GIB
            self.results[f"allocator-{name}"] = {"done": done, "hand_overs": over, "moved_out": moved, "pinned": pinned}
            self.row(f"PyTorch, {name} allocator, two of 90 %", f"{over} hand-overs, {moved:.0f} GiB out",
                     f"{', '.join(str(one['wrong']) if 'wrong' in one else '?' for one in done)} wrong, pinned {pinned}", "bar 0 wrong")

    def ipc(self):
        neighbour = self.start(self.size(0.9), "--seconds", 15)
        time.sleep(5)
        done = self.finish(self.start(GIB, "--rounds", 20, program="torch_ipc.py"))
        self.finish(neighbour)
        self.results["ipc"] = done
        self.row("tensors between processes, 1 GiB, 20 times", f"{done['seconds']:.1f} s", f"{done.get('wrong', '?')} wrong", "bar 0 wrong")

    def thousand(self):
        self.set(capacity="4GiB", quantum_min=0.05, quantum_max=0.05)
        tags = [self.start(GIB, "--seconds", self.o.seconds) for _ in range(3)]
        before = self.gpu()["hand_overs"]
        for tag in tags:
            self.finish(tag)
        over = self.gpu()["hand_overs"] - before
        self.set(capacity=self.o.capacity, quantum_min=1, quantum_max=60)
        self.results["thousand"] = {"hand_overs": over, "bad": self.bad}
        self.row("data over 1,000 hand-overs", f"{over} hand-overs of up to 1 GiB", "bad" if self.bad else "0 wrong bytes", "bar 0")

    def run(self):
        todo = {"phases50": lambda: self.phases("phases50", 0.9, 0.5, "1.8"),
                "phases90": lambda: self.phases("phases90", 0.9, 0.9, "1.05"),
                "load50": lambda: self.phases("load50", 0.9, 0.5, "1.8", "load"),
                "load90": lambda: self.phases("load90", 0.9, 0.9, "1.05", "load"),
                "handover": self.handover, "partial": self.partial, "weights": self.weights, "fit": self.fit,
                "compute": self.compute, "interactive": self.interactive, "workloads": self.workloads, "allocators": self.allocators,
                "ipc": self.ipc,
                "thousand": self.thousand}
        for name, act in todo.items():
            if not self.o.only or name in self.o.only:
                act()


class Recording:
    """While it is entered, what GET /v1/share says every half second goes to a directory, and at the end the events and the
    daemon's log. No directory: nothing is recorded."""

    def __init__(self, machine, directory):
        self.machine, self.directory, self.done = machine, directory, threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def watch(self):
        with (self.directory / "share.jsonl").open("w", encoding="utf-8") as file:
            while not self.done.wait(0.5):
                print(json.dumps({"time": time.time(), **self.machine.api("GET", "/v1/share")}), file=file, flush=True)

    def __enter__(self):
        if self.directory:
            self.directory.mkdir(parents=True, exist_ok=True)
            self.thread.start()
        return self

    def __exit__(self, *_):
        if not self.directory:
            return
        self.done.set()
        self.thread.join()
        (self.directory / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in self.machine.events()))
        shutil.copy(self.machine.dir / "daemon.log", self.directory / "daemon.log")


def run_session(kind, o, config, real=True):
    """Runs a session of that class on a machine of its own; returns the exit status. With --log the daemon's log has
    details; --json gets the results also where the session fails."""
    with Machine(real=real, config=('[log]\nlevel = "debug"\n' if o.log else "") + config) as machine:
        session = kind(machine, o)
        try:
            with Recording(machine, o.log):
                session.run()
        finally:
            if o.json:
                o.json.write_text(json.dumps(session.results, indent=1))
    return 1 if session.bad else 0


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--gpu", type=int, default=0)
    options.add_argument("--seconds", type=float, default=60)
    options.add_argument("--capacity", default="16GiB")
    options.add_argument("--phase", type=float, default=10)
    options.add_argument("--phases", type=int, default=3)
    options.add_argument("--only", action="append")
    options.add_argument("--json", type=pathlib.Path)
    options.add_argument("--log", type=pathlib.Path, help="a directory for the daemon's log, the events and what GET /v1/share said every half second, all in detail")
    o = options.parse_args()
    sys.exit(run_session(Session, o, f'[share]\ncapacity = "{o.capacity}"\n'))


if __name__ == "__main__":
    main()

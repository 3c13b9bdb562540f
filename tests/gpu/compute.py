#!/usr/bin/env python3
"""Shares of a GPU's time, asked against had, through a daemon of its own.

Usage: compute.py [--gpu N] [--seconds 10] [--pairs train,graphs:10,30,50,70,90 ...] [--three 20,30,50] [--quantum T]
                  [--first server,train ...] [--sim] [--json FILE] [--log DIR]

Each program (compute_worker.py) first works alone, without a share; its speed is all of the time. Then two or three work
together with shares of which none may be exceeded, and without shares at all, for what control costs. Had: the speed of each
against its speed alone. Bars: had within 3 points of asked over --seconds; the sum at least 97 % of what was asked. --first:
the first of two works with --latency, and without it: the times of its units against those alone (bar: the 99th percentile at
most 1.25 times), and what the other has of the time that the first leaves (bar: 75 %).
--sim: on the simulated driver, to try the script. GPUMAN_BUILD_DIR names the build.
"""

import argparse
import bisect
import json
import pathlib
import shutil
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from machine import Machine  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent


class Session:
    def __init__(self, machine, options, kinds):
        self.m, self.o, self.kinds = machine, options, kinds
        self.dir = machine.dir / "compute"
        self.dir.mkdir()
        self.rows, self.results, self.missed = [], [], 0
        for kind in kinds:
            self.m.run_json("run", "--tag", kind, "--gpu", str(options.gpu), "--share", "--detach", "--", sys.executable,
                            str(HERE / "compute_worker.py"), kind, str(self.dir), *(["--sim"] if options.sim else []))
        deadline = time.monotonic() + 180
        while not all((self.dir / f"{kind}.log").exists() for kind in kinds):
            for kind in kinds:
                job = self.m.api("GET", f"/v1/jobs/{kind}")
                if job["ended_at"] or time.monotonic() > deadline:
                    sys.exit(f"compute.py: {kind} {job['state']}: {job['reason_detail']}\n"
                             + pathlib.Path(job["log_path"]).read_text(errors="replace")[-2000:])
            time.sleep(0.1)

    def share(self, kind, text):
        done = self.m.run("update", kind, "--compute", text)
        if done.returncode != 0:
            sys.exit(f"compute.py: update {kind} --compute {text}: {done.stderr}")

    def log_of(self, kind):
        return [tuple(float(word) for word in line.split())
                for line in (self.dir / f"{kind}.log").read_text().splitlines() if line.count(" ") == 2]

    def run(self, kinds):
        """Lets these work together. Returns the units of each in a second, and the times of its units."""
        for kind in kinds:
            (self.dir / f"{kind}.run").touch()
        time.sleep(1.5)  # it takes up its work, and what was saved up before is used
        begin = time.monotonic()
        time.sleep(self.o.seconds)
        end = time.monotonic()
        status = self.m.api("GET", "/v1/share")["gpus"]
        for kind in kinds:
            (self.dir / f"{kind}.run").unlink()
        time.sleep(0.5)
        rates, times = {}, {}
        for kind in kinds:
            log = self.log_of(kind)
            when = [entry[0] for entry in log]

            def at(moment):
                after = bisect.bisect(when, moment)
                if after == 0 or after == len(log):
                    return log[min(after, len(log) - 1)][1]
                (t0, n0, _), (t1, n1, _) = log[after - 1], log[after]
                # The unit in between took only the last `took` seconds of that time.
                return n0 + (n1 - n0) * max(0.0, (moment - t0) / (t1 - t0)) if t1 > t0 else n1

            rates[kind] = (at(end) - at(begin)) / (end - begin)
            times[kind] = [entry[2] for entry in log if begin <= entry[0] <= end]
        had = {job["tag"]: job["compute_had"] for gpu in status for job in gpu["jobs"]}
        return rates, times, had

    def alone(self):
        self.speed = {}
        for kind in self.kinds:
            seconds, self.o.seconds = self.o.seconds, self.o.alone
            rates, times, _ = self.run([kind])
            self.o.seconds = seconds
            self.speed[kind] = rates[kind]
            self.rows.append(f"{kind:<8} alone      {rates[kind]:9.2f} units/s, {statistics.median(times[kind]) * 1e3:7.2f} ms each")

    def together(self, asked):
        for kind, percent in asked.items():
            self.share(kind, f"{percent}%" if percent else "none")
        rates, times, status = self.run(list(asked))
        parts, shares = [], any(asked.values())
        total = 0
        for kind, percent in asked.items():
            had = 100 * rates[kind] / self.speed[kind]
            total += had
            missed = shares and abs(had - percent) > 3
            self.missed += missed
            told = f"{100 * status[kind]:.1f}" if status.get(kind) is not None else "n/a"
            longest = f"longest unit {max(times[kind]) * 1e3:.0f} ms" if times[kind] else "no unit"
            parts.append(f"{kind} {percent or 'none'}: {had:5.1f}{' MISSED' if missed else ''} (held {told}, {longest})")
            self.results.append({"kind": kind, "beside": [k for k in asked if k != kind], "asked": percent, "had": had,
                                 "held": status.get(kind)})
        self.rows.append(f"{'shares' if shares else 'none':<8} sum {total:5.1f}  " + "; ".join(parts))
        for kind in asked:
            self.share(kind, "none")

    def first(self, kinds):
        first, other = kinds
        _, alone, _ = self.run([first])
        alone = alone[first]
        busy = sum(alone) / self.o.seconds
        self.rows.append(f"{first:<8} alone: {self.percentiles(alone)}, busy {busy:.0%}")
        for latency in (False, True):
            done = self.m.run("update", first, "--latency" if latency else "--no-latency")
            if done.returncode != 0:
                sys.exit(f"compute.py: update {first}: {done.stderr}")
            rates, times, _ = self.run(kinds)
            ratio = self.percentile(times[first], 0.99) / self.percentile(alone, 0.99)
            had = rates[other] / self.speed[other] / (1 - busy)
            missed = latency and (ratio > 1.25 or had < 0.75)
            self.missed += missed
            self.rows.append(f"{first:<8} {'--latency' if latency else 'no control'} beside {other}: {self.percentiles(times[first])}: p99 "
                             f"{ratio:.2f} of alone; {other} has {had:.0%} of what is left{' MISSED' if missed else ''}")
            self.results.append({"first": first, "other": other, "latency": latency, "p99_ratio": ratio, "other_had": had})
        self.m.run("update", first, "--no-latency")

    @staticmethod
    def percentile(times, part):
        return sorted(times)[min(len(times) - 1, int(part * len(times)))]

    def percentiles(self, times):
        return "p50 {:.2f}, p99 {:.2f}, most {:.2f} ms of {}".format(
            *(1e3 * self.percentile(times, part) for part in (0.5, 0.99, 1)), len(times))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--alone", type=float, default=4)
    parser.add_argument("--pairs", nargs="*", default=["train,graphs:10,30,50,70,90", "train,tiny:30,70"])
    parser.add_argument("--three", nargs="*", default=["train,graphs,tiny:20,30,50"])
    parser.add_argument("--none", nargs="*", default=["train,graphs"])
    parser.add_argument("--first", nargs="*", default=["server,train"])
    parser.add_argument("--quantum")
    parser.add_argument("--sim", action="store_true")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--log", type=pathlib.Path, help="keep the daemon's log there")
    o = parser.parse_args()
    config = "[share]\n" + (f'compute_quantum = "{o.quantum}"\n' if o.quantum else "")
    config += '[log]\nlevel = "debug"\n' if o.log else ""
    wanted = [text.partition(":")[0].split(",") for text in o.pairs + o.three + o.none + o.first]
    kinds = sorted({kind for names in wanted for kind in names})
    with Machine(real=not o.sim, memory="4GiB" if o.sim else None, config=config) as machine:
        session = Session(machine, o, kinds)
        session.alone()
        for text in o.pairs:
            names, _, percents = text.partition(":")
            for percent in percents.split(","):
                session.together(dict(zip(names.split(","), (int(percent), 100 - int(percent)))))
        for text in o.three:
            names, _, percents = text.partition(":")
            session.together(dict(zip(names.split(","), map(int, percents.split(",")))))
        for text in o.none:
            session.together(dict.fromkeys(text.split(","), 0))
        for text in o.first:
            session.first(text.split(","))
        (session.dir / "end").touch()
        if o.log:
            o.log.mkdir(parents=True, exist_ok=True)
            shutil.copy(machine.dir / "daemon.log", o.log)
            for kind in kinds:
                shutil.copy(session.dir / f"{kind}.log", o.log)
                shutil.copy(machine.api("GET", f"/v1/jobs/{kind}")["log_path"], o.log / f"{kind}.out")
    print("\n".join(session.rows))
    if o.json:
        o.json.write_text(json.dumps(session.results, indent=1) + "\n")
    return 1 if session.missed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Shares of a GPU's time, asked against had, through a daemon of its own.

Usage: compute.py [--gpu N] [--seconds 10] [--pairs train,graphs:10,30,50,70,90 ...] [--three 20,30,50] [--quantum T]
                  [--first server,train ...] [--held server,train ...] [--bursts train] [--mps server,train:30,70 ...] [--peers DIR] [--sim] [--json FILE]
                  [--log DIR]

Each program (compute_worker.py) first works alone, without a share; its speed is all of the time. Then two or three work
together with shares of which none may be exceeded, and without shares at all, for what control costs. Had: the speed of each
against its speed alone. Bars: had within 3 points of asked over --seconds; the sum at least 97 % of what was asked. --first:
the first of two (or three: tensor,train,train1 needs two GPUs) works with --latency, and without it: the times of its units against those alone (bar: the 99th percentile at
most 1.25 times), and what the other has of the time that the first leaves (bar: 75 %).
--held: the second is suspended, resumed and killed while the first works with --latency and its work stands on the GPU now and
then: how long each takes, and that both go on.
--bursts: four notebooks with --latency beside this one, and without; the times of their cells against those alone (bar: 1.5).
--mps: the same pairs as clients of MPS with these parts of the threads. --peers DIR: `--first server,train` and a pair of shares
of 30 and 70 under XSched (DIR/xsched) and the pair under HAMi-core (DIR/hami/libvgpu.so).
--sim: on the simulated driver, to try the script. GPUMAN_BUILD_DIR names the build.
"""

import argparse
import bisect
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
from machine import Machine  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent


class Programs:
    """Programs that work while they are told to; DIRECTORY has their logs."""

    def __init__(self, directory):
        self.dir = directory
        self.dir.mkdir()

    def worker(self, kind, sim=False):
        return [sys.executable, str(HERE / "compute_worker.py"), kind, str(self.dir), *(["--sim"] if sim else [])]

    def log_of(self, kind):
        return [tuple(float(word) for word in line.split())
                for line in (self.dir / f"{kind}.log").read_text().splitlines() if line.count(" ") == 2]

    def work(self, kinds, seconds, look=lambda: None):
        """Lets these work together. Returns the units of each in a second, the end and the time of its units, and what look()
        returned at the end."""
        for kind in kinds:
            (self.dir / f"{kind}.run").touch()
        time.sleep(1.5)  # it takes up its work, and what was saved up before is used
        begin = time.monotonic()
        time.sleep(seconds)
        end = time.monotonic()
        status = look()
        for kind in kinds:
            (self.dir / f"{kind}.run").unlink()
        time.sleep(0.5)
        rates, units = {}, {}
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
            units[kind] = [(entry[0], entry[2]) for entry in log if begin <= entry[0] <= end]
        return rates, units, status


class Session(Programs):
    def __init__(self, machine, options, kinds):
        super().__init__(machine.dir / "compute")
        self.m, self.o, self.kinds = machine, options, kinds
        self.rows, self.results, self.missed, self.speed = [], [], 0, {}
        for kind in kinds:
            gpus = {"tensor": "0,1", "train1": "1"}.get(kind, str(options.gpu))
            self.m.run_json("run", "--tag", kind, "--gpu", gpus, "--share", "--detach", "--", *self.worker(kind, options.sim))
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

    def run(self, kinds):
        rates, units, status = self.work(kinds, self.o.seconds, lambda: self.m.api("GET", "/v1/share")["gpus"])
        had = {job["tag"]: job["compute_had"] for gpu in status for job in gpu["jobs"]}
        return rates, {kind: [took for _, took in of_kind] for kind, of_kind in units.items()}, had

    def alone(self):
        for kind in self.kinds:
            if kind.startswith("notebook"):
                continue
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
        first, other = kinds[:2]
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

    def held(self, kinds):
        first, other = kinds[:2]
        self.check(self.m.run("update", first, "--latency"))
        for kind in kinds:
            (self.dir / f"{kind}.run").touch()
        time.sleep(2)

        def goes_on(kind):
            log = self.dir / f"{kind}.log"
            before, end = log.stat().st_size, time.monotonic() + 20
            while log.stat().st_size <= before and time.monotonic() < end:
                time.sleep(0.02)
            return log.stat().st_size > before

        parts = []
        for _ in range(5):
            for order in ("suspend", "resume"):
                begin = time.monotonic()
                done = self.m.run(order, other)
                took = time.monotonic() - begin
                well = done.returncode == 0 and goes_on(first) and (order == "suspend" or goes_on(other))
                self.missed += not well
                parts.append(f"{order} {took:.2f} s{'' if well else ' FAILED: ' + done.stderr.strip()[-300:]}")
        os.kill(self.m.api("GET", f"/v1/jobs/{other}")["pid"], signal.SIGKILL)
        end = time.monotonic() + 30
        while not (job := self.m.api("GET", f"/v1/jobs/{other}"))["ended_at"] and time.monotonic() < end:
            time.sleep(0.05)
        well = job["ended_at"] is not None and goes_on(first)
        self.missed += not well
        self.rows.append(f"{other} beside {first} --latency: {', '.join(parts)}; killed: {job['state']}, {first} "
                         f"{'goes on' if well else 'STANDS'}")
        (self.dir / f"{first}.run").unlink()

    def bursts(self, other):
        """Each burst of a notebook, against the time that one takes alone."""
        notebooks = [kind for kind in self.kinds if kind.startswith("notebook")]
        _, units, _ = self.work(notebooks[:1], self.o.seconds)
        alone = statistics.median(took for _, took in units[notebooks[0]])
        for latency in (False, True):
            for kind in notebooks:
                self.m.run("update", kind, "--latency" if latency else "--no-latency")
            rates, units, _ = self.work([*notebooks, other], 2 * self.o.seconds)
            bursts = [(end - took, end, kind) for kind in notebooks for end, took in units[kind]]
            single = [(end - begin) / alone for begin, end, kind in bursts
                      if not any(b < end and e > begin and k != kind for b, e, k in bursts)]
            met = [(end - begin) / alone for begin, end, kind in bursts]
            missed = latency and self.percentile(single, 1) > 1.5
            self.missed += missed
            had = rates[other] / self.speed[other]
            self.rows.append(f"{len(notebooks)} notebooks {'--latency' if latency else 'no control'} beside {other}, {1e3 * alone:.0f} ms "
                             f"alone: bursts that met no other's {self.ratios(single)}{' MISSED' if missed else ''}; all "
                             f"{self.ratios(met)}; {other} has {had:.0%}")
            self.results.append({"bursts": met, "single": single, "latency": latency, "other_had": had})

    def ratios(self, ratios):
        return "p50 {:.2f}, p90 {:.2f}, most {:.2f} of {}".format(*(self.percentile(ratios, part) for part in (0.5, 0.9, 1)),
                                                                  len(ratios))

    def mps(self, kinds, percents):
        """The same pair as clients of MPS, which gives each a part of the multiprocessors."""
        gpu = str(self.o.gpu)
        self.check(self.m.run("mps", "start", "--gpu", gpu))
        programs = Programs(self.m.dir / f"mps-{len(self.rows)}")
        for kind, percent in zip(kinds, percents):
            self.m.run_json("run", "--tag", f"mps-{kind}", "--gpu", gpu, "--share", "--mps", "--mps-threads", f"{percent}%", "--detach",
                            "--", *programs.worker(kind))
        self.beside(programs, kinds, percents, "MPS")
        for kind in kinds:
            self.m.run("wait", f"mps-{kind}")
            self.m.run("remove", f"mps-{kind}")
        self.check(self.m.run("mps", "stop", "--gpu", gpu, "--force"))

    def peer(self, name, kinds, percents, environments, prefix=(), settle=2.0):
        programs, running = Programs(self.m.dir / f"{name}-{len(self.rows)}".replace(" ", "-")), []
        for kind, environment in zip(kinds, environments):
            command = programs.worker(kind)
            with (programs.dir / f"{kind}.out").open("w") as out:
                running.append(subprocess.Popen([command[0], *prefix, *command[1:]], env=os.environ | environment, stdout=out,
                                                stderr=subprocess.STDOUT))
            end = time.monotonic() + 45
            while not (programs.dir / f"{kind}.log").exists() and time.monotonic() < end and running[-1].poll() is None:
                time.sleep(0.1)
        if all((programs.dir / f"{kind}.log").exists() for kind in kinds):
            self.beside(programs, kinds, percents, name, settle)
        else:
            for kind in kinds:
                words = (programs.dir / f"{kind}.out").read_text(errors="replace") if (programs.dir / f"{kind}.out").exists() else ""
                self.rows.append(f"{name}: {kind} did not start: {words[-600:]}")
        (programs.dir / "end").touch()
        for process in running:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()

    def beside(self, programs, kinds, percents, name, settle=2.0):
        """What each has of its speed alone, and the times of a server's requests."""
        end = time.monotonic() + 60
        while not all((programs.dir / f"{kind}.log").exists() for kind in kinds) and time.monotonic() < end:
            time.sleep(0.1)
        alone = {}
        for kind in kinds:
            if kind == "server":
                _, units, _ = programs.work([kind], 3)
                alone[kind] = self.percentile([took for _, took in units[kind]], 0.99)
        if settle > 2:  # what adapts has to adapt first
            programs.work(kinds, settle)
        rates, units, _ = programs.work(kinds, self.o.seconds)
        parts = []
        for kind, percent in zip(kinds, percents):
            had = 100 * rates[kind] / self.speed[kind]
            part = f"{kind}{f' {percent}' if percent else ''}: {had:.1f}"
            if kind in alone:
                took = [took for _, took in units[kind]]
                part += f" ({self.percentiles(took)}: p99 {self.percentile(took, 0.99) / alone[kind]:.2f} of alone)"
            parts.append(part)
            self.results.append({"peer": name, "kind": kind, "asked": percent, "had": had})
        self.rows.append(f"{name}: " + "; ".join(parts))
        (programs.dir / "end").touch()

    def hami(self, library, kinds, percents):
        """A second process may not initialise CUDA at the same time, and a limit is read from a file by the first."""
        self.peer("HAMi-core", kinds, percents,
                  [{"LD_PRELOAD": str(library), "CUDA_REDIRECT": str(library), "CUDA_DEVICE_SM_LIMIT": str(percent),
                    "CUDA_DEVICE_MEMORY_SHARED_CACHE": str(self.m.dir / f"hami-{len(self.rows)}-{percent}.cache")} for percent in percents],
                  settle=20)

    def xsched(self, directory, policy, kinds, settings):
        """XSched knows no default stream, so PyTorch runs on one of its own."""
        real = subprocess.run(["sh", str(directory / "setup.sh")], capture_output=True, text=True, check=True).stdout.strip()
        real = real or "/usr/lib/x86_64-linux-gnu/libcuda.so.1"
        with (self.m.dir / f"xserver-{policy}.log").open("w") as out:
            server = subprocess.Popen([str(directory / "bin/xserver"), policy, "50000"], stdout=out, stderr=subprocess.STDOUT)
        time.sleep(1)
        common = {"LD_LIBRARY_PATH": f"{directory / 'lib'}:{os.environ.get('LD_LIBRARY_PATH', '')}", "XSCHED_CUDA_LIB": real,
                  "CUXTRA_CUDA_LIB": real, "XSCHED_SCHEDULER": "GLB", "XSCHED_AUTO_XQUEUE": "ON", "XSCHED_AUTO_XQUEUE_LEVEL": "1",
                  "XSCHED_AUTO_XQUEUE_THRESHOLD": "4", "XSCHED_AUTO_XQUEUE_BATCH_SIZE": "2", **self.o.xsched}
        name = "PRIORITY" if policy == "HPF" else "UTILIZATION"
        self.peer(f"XSched {policy}", kinds, settings if policy == "PUP" else [None, None],
                  [common | {f"XSCHED_AUTO_XQUEUE_{name}": str(setting)} for setting in settings],
                  prefix=[str(directory / "onstream.py")])
        server.send_signal(signal.SIGINT)
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()

    @staticmethod
    def check(done):
        if done.returncode != 0:
            sys.exit(f"compute.py: {done.args}: {done.stderr}")

    @staticmethod
    def percentile(times, part):
        return sorted(times)[min(len(times) - 1, int(part * len(times)))]

    def percentiles(self, times):
        return "p50 {:.2f}, p99 {:.2f}, most {:.2f} ms of {}".format(
            *(1e3 * self.percentile(times, part) for part in (0.5, 0.99, 1)), len(times))


def measure(session, o):
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
    if o.bursts:
        session.bursts(o.bursts)
    for text in o.held:
        session.held(text.split(","))
    (session.dir / "end").touch()
    for kind in session.kinds if o.mps or o.peers else ():
        session.m.run("wait", kind)
    for text in o.mps:
        names, _, percents = text.partition(":")
        session.mps(names.split(","), [int(percent) for percent in percents.split(",")])
    if o.peers:
        session.xsched(o.peers / "xsched", "HPF", ["server", "train"], [1, 0])
        session.xsched(o.peers / "xsched", "PUP", ["train", "graphs"], [30, 70])
        session.hami(o.peers / "hami/libvgpu.so", ["train", "graphs"], [30, 70])
        session.hami(o.peers / "hami/libvgpu.so", ["graphs", "train"], [30, 70])
    if o.log:
        o.log.mkdir(parents=True, exist_ok=True)
        shutil.copy(session.m.dir / "daemon.log", o.log)
        for kind in session.kinds:
            shutil.copy(session.dir / f"{kind}.log", o.log)
            shutil.copy(session.m.api("GET", f"/v1/jobs/{kind}")["log_path"], o.log / f"{kind}.out")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--alone", type=float, default=4)
    parser.add_argument("--pairs", nargs="*", default=["train,graphs:10,30,50,70,90", "train,tiny:30,70"])
    parser.add_argument("--three", nargs="*", default=["train,graphs,tiny:20,30,50"])
    parser.add_argument("--none", nargs="*", default=["train,graphs"])
    parser.add_argument("--first", nargs="*", default=["server,train"])
    parser.add_argument("--held", nargs="*", default=[])
    parser.add_argument("--bursts", help="the program beside which four notebooks work")
    parser.add_argument("--mps", nargs="*", default=[])
    parser.add_argument("--peers", type=pathlib.Path, help="where XSched and HAMi-core are")
    parser.add_argument("--xsched", type=json.loads, default={}, help="more of XSched's environment")
    parser.add_argument("--quantum")
    parser.add_argument("--sim", action="store_true")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--log", type=pathlib.Path, help="keep the daemon's log there")
    o = parser.parse_args()
    config = "[share]\n" + (f'compute_quantum = "{o.quantum}"\n' if o.quantum else "")
    config += '[log]\nlevel = "debug"\n' if o.log else ""
    wanted = [text.partition(":")[0].split(",") for text in o.pairs + o.three + o.none + o.first + o.held + o.mps]
    wanted += [[o.bursts, *(f"notebook{i}" for i in range(4))]] if o.bursts else []
    wanted += [["server", "train", "graphs"]] if o.peers else []
    kinds = sorted({kind for names in wanted for kind in names})
    with Machine(real=not o.sim, gpus=2, memory="8GiB" if o.sim else None, config=config) as machine:
        session = Session(machine, o, kinds)
        try:
            measure(session, o)
        finally:
            print("\n".join(session.rows))
    if o.json:
        o.json.write_text(json.dumps(session.results, indent=1) + "\n")
    return 1 if session.missed else 0


if __name__ == "__main__":
    sys.exit(main())

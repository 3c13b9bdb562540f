#!/usr/bin/env python3
"""Suspend, resume and move of a PyTorch job on a real GPU, through a daemon of its own: the shim's way against the driver's.

Usage: suspend_session.py [--size 10GiB]… [--cycles N] [--moves N] [--json FILE]

First, how fast the driver copies from and to pinned host memory. For each size a job with the shim's way (run --share) and one with the driver's checkpoint alone (without --share): how long
`gpuman suspend` and `resume` take, whole commands, what each part of it took (the events' milliseconds), the copies' share of the
pinned bandwidth, and whether the data was right; then how many times faster the shim's way is. Without --size: 10GiB and 40GiB. Then --cycles times out and back of one job that
verifies its data, and --moves moves to another GPU and back where there are two. Prints one table; exit status 1 when data was wrong
or a command failed. Takes the device's memory by plain allocations and changes no setting. GPUMAN_BUILD_DIR names the build.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from machine import Machine, program  # noqa: E402

HOLD = str(pathlib.Path(__file__).resolve().parent / "frameworks" / "torch_hold.py")


class Job:
    """torch_hold.py under gpuman; the test controls its standard input."""

    def __init__(self, machine, tag, size, *options, driver=False, hold=""):
        self.m, self.tag = machine, tag
        self.fifo = machine.dir / (tag + ".in")
        os.mkfifo(self.fifo)
        machine.run_json("run", "--tag", tag, *options, "--detach", "--", "sh", "-c",
                         f"exec python3 {HOLD} --size {size} {hold} {'--driver' if driver else ''} < {self.fifo}")
        self.input = open(self.fifo, "w", encoding="utf-8")
        self.seen = 0
        self.wait_for("ready", 120)

    def lines(self):
        text = pathlib.Path(self.m.api("GET", f"/v1/jobs/{self.tag}")["log_path"]).read_text(errors="replace")
        return [json.loads(line) for line in text.splitlines() if line.startswith("{") and line.endswith("}")]

    def wait_for(self, event, patience=60):
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            lines = self.lines()
            for number, line in enumerate(lines):
                if number >= self.seen and line.get("event") == event:
                    self.seen = number + 1
                    return line
            job = self.m.api("GET", f"/v1/jobs/{self.tag}")
            if job.get("ended_at"):
                break
            time.sleep(0.02)
        raise SystemExit(f"suspend_session: {self.tag} did not say {event}:\n" + "\n".join(map(str, lines[-5:])))

    def ask(self, word, patience=120):
        self.input.write(word + "\n")
        self.input.flush()
        return self.wait_for(word, patience)

    def do(self, *words):
        """The seconds of the command; None if it fails."""
        begin = time.monotonic()
        done = self.m.run(words[0], self.tag, *words[1:])
        if done.returncode != 0:
            print(f"{' '.join(words)} {self.tag}: {done.stderr.strip()}", flush=True)
            return None
        return time.monotonic() - begin

    def close(self):
        self.input.close()
        self.m.run("remove", self.tag)


PINNED = """
import ctypes, json, time
cuda, GIB = ctypes.CDLL("libcuda.so.1"), 1 << 30
def call(name, *arguments):
    status = getattr(cuda, name)(*arguments)
    assert status == 0, (name, status)
context, device, host, stream = (ctypes.c_void_p() for _ in range(4))
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
call("cuMemAlloc_v2", ctypes.byref(device), ctypes.c_size_t(GIB))
call("cuMemHostAlloc", ctypes.byref(host), ctypes.c_size_t(GIB), 1)
call("cuStreamCreate", ctypes.byref(stream), 1)
def rate(name, to, source):
    best = 0
    for _ in range(3):
        begin = time.monotonic()
        for _ in range(8):
            call(name, to, source, ctypes.c_size_t(GIB), stream)
        call("cuStreamSynchronize", stream)
        best = max(best, 8 * GIB / (time.monotonic() - begin))
    return best
print(json.dumps({"out": rate("cuMemcpyDtoHAsync_v2", host, device), "back": rate("cuMemcpyHtoDAsync_v2", device, host)}))
"""


def pinned_bandwidth(m):
    """Bytes a second, out and back, measured by a process of its own that has ended afterwards."""
    done = subprocess.run([sys.executable, "-c", PINNED], env=m.env, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def parts(m, job, kind):
    """The figures of the last event of that kind."""
    told = [event["data"] for event in m.events() if event["kind"] == kind and event["job"] == job]
    return {name.removeprefix("milliseconds_"): value for name, value in (told[-1] if told else {}).items()}


def compare(rows):
    """How many times faster the shim's way was, for out and back together."""
    for size in sorted({row["size"] for row in rows if row["what"] == "out and back"}):
        ways = {row["way"]: row["suspend_s"] + row["resume_s"] for row in rows
                if row["what"] == "out and back" and row["size"] == size}
        if len(ways) == 2:
            rows.append({"what": "shim against driver", "size": size, "shim_s": ways["shim"], "driver_s": ways["driver"],
                         "times_faster": ways["driver"] / ways["shim"]})


def out_and_back(m, size, share, rows, driver, bandwidth):
    job = Job(m, f"{'shim' if share else 'driver'}-{size}", size, "--gpu", "0", *(["--share"] if share else []), driver=driver)
    times, failed = [], False
    for _ in range(3 if share else 1):
        time.sleep(1.5 if driver or not share else 15)  # the mover prepares host memory: 4 GiB a second, and slower
        out = job.do("suspend")
        state = m.api("GET", f"/v1/jobs/{job.tag}")
        back = job.do("resume")
        if out is None or back is None:
            failed = True
            break
        times.append((out, back, state["reason_detail"], parts(m, state["id"], "job_suspended"),
                      parts(m, state["id"], "job_resumed")))
    verify = job.ask("verify")
    pause = job.ask("pause")
    if times:
        best = [min(t[i] for t in times) for i in (0, 1)]
        rows.append({"what": "out and back", "size": size, "way": "shim" if share else "driver", "suspend_s": best[0],
                     "resume_s": best[1], "all": [t[:2] for t in times], "detail": times[-1][2],
                     "longest_pause_s": pause["longest_pause_s"], "wrong_bytes": verify["wrong_bytes"]})
        best_out, best_back = min(times, key=lambda t: t[0])[3], min(times, key=lambda t: t[1])[4]
        rows[-1] |= {"out": best_out, "back": best_back}
        if share:
            for way, part in (("out", best_out), ("back", best_back)):
                if part.get("copy"):
                    rows[-1]["share_of_bus_" + way] = best_out["evicted"] / (part["copy"] / 1000) / bandwidth[way]
    job.close()
    return not failed and verify["wrong_bytes"] == 0


def kib(path, name):
    return next(int(line.split()[1]) for line in pathlib.Path(path).read_text().splitlines() if line.startswith(name + ":"))


def mover_private(m):
    """The mover's own memory, without the jobs' data that it keeps; 0: there is no mover."""
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "comm").read_text() == "gpuman-mover\n":
                return kib(entry / "status", "RssAnon") * 1024
        except (OSError, StopIteration):
            continue
    return 0


def cycles(m, number, rows, driver):
    used = None
    while used != (used := m.api("GET", "/v1/status")["gpus"][0]["memory"]["used"]):
        time.sleep(2)  # earlier processes are still ending
    host = kib("/proc/meminfo", "Shmem")
    job = Job(m, "cycles", "2GiB" if not driver else "96MiB", "--gpu", "0", "--share", driver=driver)
    outs, backs, early = [], [], 0
    for i in range(number):
        if i == number // 10:
            early = mover_private(m)
        out, back = job.do("suspend"), job.do("resume")
        if out is None or back is None:
            break
        outs.append(out)
        backs.append(back)
    verify = job.ask("verify")
    grown = mover_private(m) - early
    job.close()
    time.sleep(6)  # the mover ends two seconds after the last process that it could move
    host = (kib("/proc/meminfo", "Shmem") - host) * 1024
    left = m.api("GET", "/v1/status")["gpus"][0]["memory"]["used"] - used
    rows.append({"what": "cycles", "number": len(outs), "suspend_s": statistics.median(outs or [0]),
                 "resume_s": statistics.median(backs or [0]), "wrong_bytes": verify["wrong_bytes"], "leaked": left,
                 "leaked_host": host, "mover_grown": grown})
    return len(outs) == number and verify["wrong_bytes"] == 0


def moves(m, size, number, rows, driver):
    job = Job(m, "mover", size, "--gpu", "0", "--share", driver=driver)
    time.sleep(0 if driver else 5)  # the mover prepares host memory
    there, back = [], []
    for _ in range(number):
        first, second = job.do("move", "--to", "1"), job.do("move", "--to", "0")
        if first is None or second is None:
            break
        there.append(first)
        back.append(second)
    verify = job.ask("verify")
    pause = job.ask("pause")
    job.close()
    moved = [event["data"] for event in m.events() if event["kind"] == "job_moved"]
    parts = {key: statistics.median(data.get(key, 0) for data in moved) for key in moved[0]} if moved else {}
    rows.append({"what": "moves", "size": size, "least_straight": min((d.get("straight", 0) for d in moved), default=0),
                 "parts": parts, "number": len(there) + len(back),
                 "move_s": statistics.median(there + back or [0]), "all": [there, back],
                 "longest_pause_s": pause["longest_pause_s"],
                 "wrong_bytes": verify["wrong_bytes"]})
    return len(back) == number and verify["wrong_bytes"] == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", action="append", default=[])
    parser.add_argument("--cycles", type=int, default=0)
    parser.add_argument("--moves", type=int, default=0)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--simulated", action="store_true", help="the simulated driver, and no PyTorch")
    options = parser.parse_args()
    program("gpumand")
    rows, fine = [], True
    with Machine(real=not options.simulated, gpus=2) as m:
        bandwidth = pinned_bandwidth(m)
        rows.append({"what": "pinned copies, bytes a second", **bandwidth})
        for size in options.size or ([] if options.cycles or options.moves else ["10GiB", "40GiB"]):
            for share in (True, False):
                fine = out_and_back(m, size, share, rows, options.simulated, bandwidth) and fine
        compare(rows)
        if options.cycles:
            fine = cycles(m, options.cycles, rows, options.simulated) and fine
        if options.moves:
            fine = moves(m, (options.size or ["10GiB"])[0], options.moves, rows, options.simulated) and fine
        events = m.events()
        log = (m.dir / "daemon.log").read_text()
    for row in rows:
        print(json.dumps(row))
    if not fine:
        print("\n".join(f"{e['kind']}: {e['message']}" for e in events[-20:]), log[-3000:], sep="\n")
    if options.json:
        with options.json.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())

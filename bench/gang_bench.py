"""Jobs whose ranks need each other, for bench.py: how long they take to come to rest, how many hand-overs they make in a
minute, and what sharing costs one that nobody waits for. Simulated GPUs, one for each rank; a step takes 20 ms of each.

Every figure comes with the machine's load. A rank's kernels are threads that look at memory again and again while they
wait. So figures tell about gpuman where the machine has a processor for each rank and is idle otherwise, and else about
how long a thread waits for a processor.
"""

import json
import os
import pathlib
import re
import statistics
import time

import alternate
import machine

CONTEXT, WINDOW, SIZE = 518, 4, 16  # MiB of a context; of a window; of a rank's memory
PATTERNS = ("ddp", "pipeline", "tensor", "random")
CONFIG = f"""
[share]
capacity = "{2 * (CONTEXT + WINDOW) + 3 * SIZE // 2}MiB"
quantum_min = "100ms"
quantum_max = "100ms"
[log]
level = "debug"
"""
PATIENCE = 600  # seconds for each pattern
AT_REST = re.compile(r"rests after (\d+) ms: (\d+) calls")
ALONE_STEPS, ALONE_ROUNDS = 100, 6
WAYS = {"without the shim": ["--no-preload"], "with --share": ["--share"]}


def percentile(values, p):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * p / 100))]


class Load:
    """What others leave of the machine's processors, from now on."""

    def __init__(self):
        self.before = self.ticks()

    @staticmethod
    def ticks():
        """Ticks of all processors: idle, withheld by the host, all."""
        words = list(map(int, pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]))
        return words[3] + words[4], words[7], sum(words)

    def __str__(self):
        idle, stolen, total = (after - before for before, after in zip(self.before, self.ticks()))
        return (f"load {os.getloadavg()[0]:.0f} on {os.cpu_count()} processors, {100 * idle / max(1, total):.0f} % idle, "
                f"{100 * stolen / max(1, total):.0f} % withheld")


def a_machine(ranks):
    return machine.Machine(profile="h200", gpus=ranks, memory="4GiB", config=CONFIG)


def start(m, tag, ranks, pattern, how, *more):
    words = ["--alloc", f"{SIZE}MiB", "--ranks", ranks, "--pattern", pattern, "--work", "20ms", "--verify", "--json", *more]
    return m.run_json("run", "--tag", tag, "--gpu", ",".join(map(str, range(ranks))), *how, "--detach", "--",
                      machine.program("gpuman-load"), *map(str, words))


def ends(m, tag):
    """Waits for the job; returns what it said, and whether it ended with the right data."""
    ended = m.api("GET", f"/v1/jobs/{tag}/wait")
    lines = [json.loads(line) for line in m.run("logs", tag).stdout.splitlines() if line.startswith("{")]
    right = ended["state"] == "finished" and not any(line.get("wrong_words") for line in lines)
    return lines, right


def turns(ranks, pattern, orders):
    """Two jobs take turns until there were so many orders to rest. Returns times to rest in ms, calls let through,
    attempts that did not rest, hand-overs, the seconds that these took, GPU 0 as shown, whose data were wrong."""
    with a_machine(ranks) as m:
        log, end = m.dir / "daemon.log", time.monotonic() + PATIENCE
        for tag in ("one", "other"):
            start(m, tag, ranks, pattern, ["--share"], "--until", m.dir / f"{tag}.end")
        began = None
        while len(seen := AT_REST.findall(log.read_text())) < orders:
            if time.monotonic() > end:
                raise SystemExit(f"bench: only {len(seen)} of {orders} orders to rest in {PATIENCE} s")
            if began is None and seen:
                began = time.monotonic(), m.api("GET", "/v1/share")["gpus"][0]["hand_overs"]
            time.sleep(0.2)
        gpu, took = m.api("GET", "/v1/share")["gpus"][0], time.monotonic() - began[0]
        failed = log.read_text().count("does not rest after")
        for tag in ("one", "other"):
            (m.dir / f"{tag}.end").touch()
        wrong = [tag for tag in ("one", "other") if not ends(m, tag)[1]]
    return [int(ms) for ms, _ in seen], [int(calls) for _, calls in seen], failed, gpu["hand_overs"] - began[1], took, gpu, wrong


def measure_turns(tell, ranks, pattern, orders):
    load = Load()
    times, calls, failed, hand_overs, took, gpu, wrong = turns(ranks, pattern, orders)
    what = f"{pattern}, {ranks} ranks, steps of 20 ms"
    tell(f"{what}: order to rest",
         f"median {statistics.median(times):.0f}, p99 {percentile(times, 99)}, max {max(times)} ms, n={len(times)}",
         "p99 at most 100 ms", f"{failed} not in time; median {statistics.median(calls):.0f} calls let through; {load}"
         + (f"; WRONG DATA: {wrong}" if wrong else ""))
    tell(f"{what}: hand-overs of {SIZE} MiB of each rank, after 100 ms each",
         f"{60 * hand_overs / took:.0f} a minute, mean {1000 * gpu['moving'] / max(1, gpu['hand_overs']):.0f} ms, "
         f"n={gpu['hand_overs']}", "none")


def alone(m, ranks, way):
    """The median time of a step of a job that has the GPUs for itself, in ms."""
    tag = f"alone{ranks}"
    job = start(m, tag, ranks, "ddp", WAYS[way], "--iterations", ALONE_STEPS)
    lines, right = ends(m, tag)
    m.run("remove", str(job["id"]))
    if not right:
        raise SystemExit(f"bench: {tag} {way} did not end with its data")
    return 1000 * statistics.median(line["seconds"] for line in lines if line["event"] == "step")


def measure_cost(tell, ranks):
    load = Load()
    with a_machine(ranks) as m:
        steps = alternate.alternate(list(WAYS), ALONE_ROUNDS, lambda way: alone(m, ranks, way))
    plain, shared = steps.values()
    added = alternate.paired(plain, shared, lambda a, b: 100 * (b - a) / a)
    tell(f"a step of a job of {ranks} ranks that nobody waits for, added by --share",
         f"{added['median']:+.2f} % ({added['low']:+.2f} to {added['high']:+.2f}) of {statistics.median(plain):.2f} ms, "
         f"n={ALONE_ROUNDS} pairs of {ALONE_STEPS} steps", "at most 0.5 %", str(load))


def measure(tell, numbers, patterns, orders):
    for ranks in numbers:
        for pattern in patterns:
            measure_turns(tell, ranks, pattern, orders)
        measure_cost(tell, ranks)

"""How long jobs whose ranks need each other take to come to rest, and to change places, for bench.py: eight simulated
ranks on eight GPUs, whose steps take 20 ms of the GPU.
"""

import json
import re
import statistics
import time

import machine

RANKS, CONTEXT, WINDOW, SIZE, ORDERS = 8, 518, 4, 16, 100  # MiB of a context; of a window; of a rank's memory
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


def percentile(values, p):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * p / 100))]


def start(m, tag, pattern):
    words = ["--alloc", f"{SIZE}MiB", "--ranks", RANKS, "--pattern", pattern, "--work", "20ms", "--verify", "--json",
             "--until", m.dir / f"{tag}.end"]
    m.run_json("run", "--tag", tag, "--gpu", ",".join(map(str, range(RANKS))), "--share", "--detach", "--",
               machine.program("gpuman-load"), *map(str, words))


def wrong(m, tag):
    (m.dir / f"{tag}.end").touch()
    ended = m.api("GET", f"/v1/jobs/{tag}/wait")
    lines = [json.loads(line) for line in m.run("logs", tag).stdout.splitlines() if line.startswith("{")]
    return ended["state"] != "finished" or any(line.get("wrong_words") for line in lines)


def measure_pattern(tell, pattern):
    with machine.Machine(profile="h200", gpus=RANKS, memory="4GiB", config=CONFIG) as m:
        log, end = m.dir / "daemon.log", time.monotonic() + PATIENCE
        for tag in ("one", "other"):
            start(m, tag, pattern)
        while len(seen := AT_REST.findall(log.read_text())) < ORDERS:
            if time.monotonic() > end:
                raise SystemExit(f"bench: only {len(seen)} of {ORDERS} orders to rest in {PATIENCE} s")
            time.sleep(0.2)
        times, steps = [int(ms) for ms, _ in seen], [int(calls) for _, calls in seen]
        gpu = m.api("GET", "/v1/share")["gpus"][0]
        failed = log.read_text().count("does not rest after")
        bad = [tag for tag in ("one", "other") if wrong(m, tag)]
    tell(f"{pattern}, {RANKS} ranks, steps of 20 ms: order to rest",
         f"median {statistics.median(times):.0f}, p99 {percentile(times, 99)}, max {max(times)} ms, n={len(times)}",
         "p99 at most 100 ms", f"{failed} not in time; median {statistics.median(steps):.0f} calls let through"
         + (f"; WRONG DATA: {bad}" if bad else ""))
    tell(f"{pattern}: a hand-over of {SIZE} MiB of each rank",
         f"mean {1000 * gpu['moving'] / max(1, gpu['hand_overs']):.0f} ms, n={gpu['hand_overs']}", "none")


def measure(tell):
    for pattern in PATTERNS:
        measure_pattern(tell, pattern)

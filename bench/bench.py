#!/usr/bin/env python3
"""The figures of docs/results.md, measured end to end through the programs a user runs.

Usage: bench.py [--real] [--gpus N] [--trials N] [--jumps N] [--samples FILE] [--scrapes N] [WHICH…]
       bench.py queue [--with-gflow]
       bench.py gangs [--ranks N…] [--patterns NAME…] [--orders N]
       bench.py shim [--real] [--rounds N] [--blocks N] [--peer NAME=LIBRARY[,SERVER]]… [--json FILE]
(all of them when none is named)

Every figure is printed with its bar. The exit status is 1 where a figure of web misses its bar; of the others a reader
judges. --real uses the driver of this machine instead of the
simulated one. On the simulated driver the figures are about gpuman and the machine's processors, not about a GPU; those of
shim are over a driver that does nothing then. Those of gangs need a processor for each rank, and say what others left of
the machine.
"""

import argparse
import contextlib
import http.client
import json
import os
import pathlib
import platform
import socket
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "harness"))
import gang_bench  # noqa: E402
import gflow_bench  # noqa: E402
import kube_bench  # noqa: E402
import listings_bench  # noqa: E402
import machine  # noqa: E402
import queue_bench  # noqa: E402
import shim_bench  # noqa: E402
import web_bench  # noqa: E402

MIB = 1 << 20
ROWS = []


def row(what, figure, bar, note="", met=None):
    """`met`: whether the figure holds its bar; None: a reader judges."""
    verdict = "" if met is None else "met" if met else "MISSED"
    ROWS.append((what, figure, bar, note, verdict))
    print(f"  {what}: {figure}  (bar: {bar}) {note} {verdict}".rstrip(), flush=True)


def exit_status(rows):
    return int(any(verdict == "MISSED" for *_, verdict in rows))


def percentile(values, p):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * p / 100))]


def spread(values, unit="ms"):
    return (f"median {statistics.median(values):.2f}, p99 {percentile(values, 99):.2f}, "
            f"max {max(values):.2f} {unit}, n={len(values)}")


class Burners:
    """Loads every processor twice at normal priority: the loaded machine for the guard's bar."""

    def __enter__(self):
        count = 2 * os.cpu_count()
        self.processes = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(count)]
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()


def wait_for(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.005)
    raise SystemExit("bench: waited in vain for " + condition.__name__)


def waited_for_a_processor(*pids):
    """The time in ms that the main threads of the processes were ready and waited for a processor."""
    return sum(int(pathlib.Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[1]) for pid in pids) / 1e6


def stolen():
    """The time in ms in which the host did not run a virtual machine's processors."""
    return int(pathlib.Path("/proc/stat").read_text().split()[8]) * 1e3 / os.sysconf("SC_CLK_TCK")


def log_lines(m, job):
    lines = []
    for line in pathlib.Path(job["log_path"]).read_text().splitlines():
        if line.startswith("{"):
            lines.append(json.loads(line))
    return lines


def context_overhead(m):
    """What NVML counts for a load beyond its allocations: its context and its module."""
    size = 64 * MIB
    job = m.run_json("run", "--tag", "overhead", "--detach", "--", machine.program("gpuman-load"), "--alloc", str(size),
                     "--hold", "60s", "--json")

    def counted():
        for process in m.api("GET", "/v1/status")["gpus"][0]["processes"]:
            if process["job"] == job["id"] and process["memory"] and process["memory"] >= size:
                return process["memory"] - size
        return 0
    time.sleep(1)
    overhead = wait_for(counted)
    m.run("remove", "overhead")
    return overhead


def reaction(m, number, limit, overhead, arguments):
    """Runs a load past its limit; returns the milliseconds from the allocation call that passes it to the SIGKILL. None
    where the load was killed before it could write down that call."""
    job = m.run_json("run", "--tag", f"hog{number}", "--memory", str(limit), "--no-preload", "--detach", "--",
                     machine.program("gpuman-load"), *arguments, "--json")
    ended = m.api("GET", f"/v1/jobs/{job['id']}/wait")
    if ended["reason"] != "memory_limit":
        raise SystemExit(f"bench: trial {number} ended as {ended['state']}, {ended['reason']}: {ended['reason_detail']}")
    killed = next(e["data"]["sigkill_ns"] for e in reversed(m.events())
                  if e["job"] == job["id"] and "sigkill_ns" in e["data"])
    passed = next((line["before_ns"] for line in log_lines(m, ended)
                   if line.get("event") == "alloc" and line["total"] + overhead > limit), None)
    m.run("remove", str(job["id"]))
    return None if passed is None else (killed - passed) / 1e6


def reactions(m, numbers, *arguments):
    """The milliseconds of each trial that could be measured."""
    times = [reaction(m, number, *arguments) for number in numbers]
    unseen = times.count(None)
    if unseen:
        print(f"  {unseen} of {len(times)} trials not measured: the load was killed before it wrote down its allocation")
    return [time for time in times if time is not None]


def bench_guard(arguments):
    print("guard: from passing the limit until SIGKILL is sent, machine loaded")
    with machine.Machine(real=arguments.real) as m:
        overhead = context_overhead(m)
        limit = overhead + 512 * MIB
        climb = ["--alloc", str(4096 * MIB), "--step", str(16 * MIB), "--interval", "10ms", "--hold", "20s"]
        # Long enough for the guard to reach its longest interval between looks (src/guard/cadence.h).
        jump = ["--alloc", str(64 * MIB), "--hold", "3s", "--jump", str(1024 * MIB)]
        with Burners():
            climbing = reactions(m, range(arguments.trials), limit, overhead, climb)
            if climbing:
                row("limit passed to SIGKILL, climbing", spread(climbing), "p99 at most 20 ms")
            jumps = arguments.trials if arguments.jumps is None else arguments.jumps
            jumping = reactions(m, range(100000, 100000 + jumps), limit, overhead, jump)
            if jumping:
                row("limit passed to SIGKILL, jump out of rest", spread(jumping), "at most 120 ms")
    if arguments.samples:
        with open(arguments.samples, "a", encoding="utf-8") as file:
            print(json.dumps({"climbing_ms": climbing, "jumping_ms": jumping}), file=file)


def cpu_seconds(pid):
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def resident_mib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise SystemExit("bench: no VmRSS")


def bench_rest(arguments):
    gpus, jobs, seconds = arguments.gpus or (1 if arguments.real else 8), 64, 60
    print(f"rest: daemon with {gpus} GPUs and {jobs} managed processes, nothing happening, {seconds} s")
    with machine.Machine(gpus=gpus, real=arguments.real) as m:
        for i in range(jobs):
            m.run_json("run", "--tag", f"rest{i}", "--memory", "2GiB", "--gpu", str(i % gpus), "--detach", "--",
                       machine.program("gpuman-load"), "--alloc", "64MiB", "--hold", "1h")

        def all_seen():
            return sum(len(g["processes"]) for g in m.api("GET", "/v1/status")["gpus"]) >= jobs
        def settled():
            """The driver takes a while for the contexts of 64 processes; rest begins when the memory in use stays the
            same."""
            used = [gpu["memory"]["used"] for gpu in m.api("GET", "/v1/status")["gpus"]]
            time.sleep(5)
            return used == [gpu["memory"]["used"] for gpu in m.api("GET", "/v1/status")["gpus"]]
        wait_for(all_seen, 120)
        wait_for(settled, 120)
        before, start = cpu_seconds(m.daemon.pid), time.monotonic()
        time.sleep(seconds)
        share = 100 * (cpu_seconds(m.daemon.pid) - before) / (time.monotonic() - start)
        row("daemon at rest, processor", f"{share:.2f} % of one core", "at most 0.5 %")
        row("daemon at rest, memory", f"{resident_mib(m.daemon.pid):.1f} MiB resident", "at most 30 MB")


def time_command(command, env, runs):
    times = []
    for _ in range(runs):
        start = time.monotonic()
        subprocess.run(command, env=env, stdout=subprocess.DEVNULL, check=True)
        times.append((time.monotonic() - start) * 1e3)
    return times


def bench_status(arguments):
    print("status: the whole command")
    with machine.Machine(gpus=(1 if arguments.real else 8), real=arguments.real) as m:
        for i in range(8):
            m.run_json("run", "--tag", f"s{i}", "--detach", "--", machine.program("gpuman-load"), "--alloc", "64MiB",
                       "--hold", "1h")
        time.sleep(2)
        ours = time_command([machine.program("gpuman"), "status"], m.env, 200)
        row("gpuman status, whole command", spread(ours), "median at most 10 ms")
        if arguments.real:
            theirs = time_command(["nvidia-smi"], m.env, 20)
            ratio = statistics.median(theirs) / statistics.median(ours)
            row("nvidia-smi in the same run", spread(theirs), "ours at least 10 times faster", f"ratio {ratio:.1f}")


def bench_run(arguments):
    print("run: until the command executes")
    times = []
    with machine.Machine(real=arguments.real) as m:
        for i in range(arguments.trials):
            start = time.time_ns()
            job = m.run_json("run", "--tag", f"r{i}", "--detach", "--", "/bin/date", "+%s%N")
            ended = m.api("GET", f"/v1/jobs/{job['id']}/wait")
            times.append((int(pathlib.Path(ended["log_path"]).read_text().split()[0]) - start) / 1e6)
    row("gpuman run until the command executes", spread(times), "median at most 30 ms")


def bench_metrics(arguments):
    gpus, jobs, scrapes = arguments.gpus or (1 if arguments.real else 8), 200, arguments.scrapes
    print(f"metrics: a scrape with {gpus} GPUs and {jobs} jobs, over TCP")
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with machine.Machine(gpus=gpus, real=arguments.real, config=f'[metrics]\nlisten = "127.0.0.1:{port}"\n') as m:
        for i in range(jobs):
            m.run_json("run", "--tag", f"m{i}", "--memory", "1GiB", "--soft", "512MiB", "--gpu", str(i % gpus), "--detach", "--",
                       machine.program("gpuman-load"), "--alloc", "32MiB", "--hold", "1h")

        def scrape():
            connection = http.client.HTTPConnection("127.0.0.1", port)
            with contextlib.closing(connection):
                connection.request("GET", "/metrics")
                return connection.getresponse().read().decode()

        def all_seen():
            return scrape().count("\ngpuman_job_memory_used_bytes{") >= jobs
        wait_for(all_seen, 300)
        times, own, above = [], [], []
        machine_stole = stolen()
        for _ in range(scrapes):
            withheld, waited = stolen(), waited_for_a_processor(m.daemon.pid, os.getpid())
            start = time.monotonic()
            text = scrape()
            times.append((time.monotonic() - start) * 1e3)
            waited = waited_for_a_processor(m.daemon.pid, os.getpid()) - waited
            own.append(times[-1] - waited)
            if times[-1] > 10:
                above.append(f"{times[-1]:.1f} ms, {waited:.1f} of them waiting for a processor, {stolen() - withheld:.0f} withheld by the host")
            time.sleep(0.02)
        row("a scrape", spread(times), "at most 10 ms", f"{len(text) / 1024:.0f} KiB, {text.count(chr(10))} lines")
        row("a scrape, less what both ends waited for a processor", spread(own), "",
            f"the host withheld {stolen() - machine_stole:.0f} ms" + "".join("; above the bar: " + one for one in above))
        figures = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        made = float(figures["gpuman_scrape_render_seconds_total"]) / (float(figures["gpuman_scrapes_total"]) - 1)
        row("of that, making the text", f"mean {made * 1e3:.2f} ms", "at most 10 ms")
        bounds = [(float(name.split('le="')[1].split('"')[0]), float(value)) for name, value in figures.items()
                  if name.startswith("gpuman_sampler_round_seconds_bucket")]
        rounds = bounds[-1][1]
        worst = next(bound for bound, below in bounds if below >= 0.99 * rounds)
        row("a sampling round, details included", f"99 of 100 below {worst * 1e3:g} ms, n={rounds:.0f}", "at most 2 ms on an H200")


def bench_health(arguments):
    if arguments.real:
        return print("health: faults are injected on the simulated driver alone")
    trials = min(arguments.trials, 10)  # a GPU takes a while to be healthy again
    print(f"health: a fault until the GPU is drained and shown, {trials} times each")
    with machine.Machine(gpus=2, config='[sampling]\nretry = "200ms"\n[health]\nkernel_log = ""\n') as m:
        def inject(*what):
            subprocess.run([machine.program("gpuman-sim"), "inject", *what, "--gpu", "0"], env=m.env, check=True)

        def shown(state, queue):
            health = m.api("GET", "/v1/gpus/0")["health"]["state"]
            return health == state and m.api("GET", "/v1/queue/info")["gpus"][0]["state"] == queue

        def until_shown(state, queue, *what):
            start = time.monotonic()
            inject(*what)
            wait_for(lambda: shown(state, queue))
            return (time.monotonic() - start) * 1e3

        wait_for(lambda: shown("healthy", "idle"))
        xids, counters = [], []
        for _ in range(trials):
            for times, fault in ((xids, ("xid", "62")), (counters, ("ecc", "--uncorrected", "--count", "2"))):
                times.append(until_shown("unhealthy", "drained", *fault))
                inject("clear", "--counters")
                inject("lost")  # as during a reset, which ends the fault
                wait_for(lambda: "lost" in m.run("health").stdout)
                inject("clear")
                wait_for(lambda: shown("healthy", "idle"))
        row("an Xid until the GPU is drained and shown", spread(xids), "at most 1 s")
        row("a counter's jump until the GPU is drained and shown", spread(counters), "one sampling period (sampling.slow, 1 s)")


def bench_queue(arguments):
    print("queue: through the daemon's socket, on simulated GPUs")
    queue_bench.measure(row)
    if arguments.with_gflow:
        gflow_bench.measure(row)


def bench_listings(_):
    print("listings: what others wait while somebody lists, submits and cancels very many jobs")
    listings_bench.measure(row)


def bench_kube(_):
    print("kube: gpuman-kube-plugin, with kubelet's side by the gRPC library, on simulated GPUs")
    kube_bench.measure(row)


def bench_gangs(arguments):
    print("gangs: jobs whose ranks need each other, on simulated GPUs: order to rest, hand-overs, and what sharing costs")
    gang_bench.measure(row, arguments.ranks, arguments.patterns, arguments.orders)


def bench_shim(arguments):
    print(f"shim: {arguments.rounds} processes of each kind in turns, "
          f"{'the real driver' if arguments.real else 'a driver that does nothing'}; median, and the middle half")
    result = shim_bench.measure(arguments.real, arguments.rounds, arguments.blocks, arguments.peer)
    for what, figure, bar in shim_bench.rows(result):
        row(what, figure, bar or "none")
    if arguments.json:
        with open(arguments.json, "a", encoding="utf-8") as file:
            print(json.dumps({"bench": "shim", "real": arguments.real, "figures": result}), file=file)


def bench_web(_):
    print("web: the page of gpuman web in Chromium without a window")
    web_bench.measure(row)


def runs(program):
    """A bench that is a program of its own, which prints its figures."""
    def bench(_):
        print(f"== {program}", flush=True)
        subprocess.run([machine.build_dir() / "bench" / program], check=True)
    return bench


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--scrapes", type=int, default=200, help="for metrics, 20 ms after each other")
    parser.add_argument("--gpus", type=int, help="for rest (default: 1 real or 8 simulated ones)")
    parser.add_argument("--jumps", type=int, help="trials out of rest, 4 s each (default: as --trials)")
    parser.add_argument("--samples", metavar="FILE", help="where to append the single times of guard")
    parser.add_argument("--rounds", type=int, default=10, help="processes of each kind, for shim")
    parser.add_argument("--blocks", type=int, default=100, help="blocks of 10,000 launches in each, for shim")
    parser.add_argument("--peer", action="append", default=[], type=shim_bench.parse_peer, metavar="NAME=LIBRARY[,SERVER]",
                        help="another preloaded library to measure, and the program that must run beside it, for shim")
    parser.add_argument("--json", metavar="FILE", help="where to append the figures of shim")
    parser.add_argument("--with-gflow", action="store_true",
                        help="measure gflow as well, for queue; it is installed below the build tree the first time")
    parser.add_argument("--ranks", nargs="+", type=int, default=[2, 4, 8], metavar="N", help="of each job, for gangs")
    parser.add_argument("--patterns", nargs="+", choices=gang_bench.PATTERNS, default=gang_bench.PATTERNS,
                        help="of gpuman-load --ranks, for gangs (default: all)")
    parser.add_argument("--orders", type=int, default=200, help="to rest, for each number of ranks and pattern, for gangs")
    benches = {"guard": bench_guard, "rest": bench_rest, "status": bench_status, "run": bench_run,
               "metrics": bench_metrics, "health": bench_health, "queue": bench_queue, "listings": bench_listings,
               "kube": bench_kube, "gangs": bench_gangs, "shim": bench_shim, "web": bench_web,
               "history": runs("history_size"), "pass": runs("queue_pass")}
    parser.add_argument("which", nargs="*", choices=[[], *benches], default=[])
    arguments = parser.parse_args()
    for name in arguments.which or list(benches):
        benches[name](arguments)
    print(f"\n{time.strftime('%Y-%m-%d')}, {platform.node()}, {os.cpu_count()} processors, Linux {platform.release()}, "
          f"{'the real driver' if arguments.real else 'simulated driver'}")
    print("| what | figure | bar |\n|---|---|---|")
    for what, figure, bar, note, verdict in ROWS:
        print(f"| {what} | {figure} {note} | {' '.join([bar, verdict]).rstrip()} |")
    return exit_status(ROWS)


if __name__ == "__main__":
    sys.exit(main())

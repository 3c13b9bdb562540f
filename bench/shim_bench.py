"""The overhead of the shim for a kernel launch and for an allocation with its free: bench/shim_calls runs plain, with
libgpuman.so joined to a ledger, and with the libraries of others, in turns.

Runs over bench/null_driver, whose calls do nothing, or over the real driver.
"""

import contextlib
import json
import os
import pathlib
import subprocess
import tempfile
import time

import alternate
import ledger
import machine

GIB = 1 << 30
SHARE, COMPUTE = "libgpuman.so with --share", "libgpuman.so with --share --compute"
SHARE_IDLE = 2  # ms without a call, after which a job with a share of the time counts as idle
ADDED = {"launch_ns": "at most 10 ns", "small_ns": "at most 1000 ns", "large_ns": "at most 1000 ns"}
NAMES = {"launch_ns": "kernel launch", "small_ns": "1000 B and its free", "large_ns": "8 MiB and its free"}


def parse_peer(text):
    """Parses NAME=LIBRARY or NAME=LIBRARY,SERVER, where SERVER must run beside it."""
    name, _, paths = text.partition("=")
    library, _, server = paths.partition(",")
    if not name or not library:
        raise ValueError(f"'{text}' is not NAME=LIBRARY[,SERVER]")
    return name, os.path.abspath(library), os.path.abspath(server) if server else None


@contextlib.contextmanager
def beside(command):
    """Runs `command` in the background."""
    process = subprocess.Popen([command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    try:
        time.sleep(1)  # the command cannot report that it listens
        yield
    finally:
        process.kill()
        process.wait()


class Calls:
    def __init__(self, real, blocks):
        build = machine.build_dir()
        self.command = [str(build / "bench/shim/shim_calls"), "10000", "1000", str(blocks)]
        if not os.path.exists(self.command[0]):
            raise SystemExit(f"{self.command[0]} is missing: run ./dev build first")
        self.environment = dict(os.environ)
        if not real:
            there = str(build / "bench/null_driver")
            before = os.environ.get("LD_LIBRARY_PATH")
            self.environment["LD_LIBRARY_PATH"] = there + (":" + before if before else "")

    def run(self, environment=None, blocks=None):
        """The figures of one process, or None where the preloaded library ends it."""
        command = self.command if blocks is None else [*self.command[:-1], str(blocks)]
        try:
            done = subprocess.run(command, env=environment or self.environment, capture_output=True, text=True,
                                  timeout=120, check=False)
        except subprocess.TimeoutExpired:
            return None
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        return json.loads(lines[-1]) if done.returncode == 0 and lines else None


def measure(real, rounds, blocks, peers):
    """Returns {variant: {figure: summary, and added: paired with plain}}."""
    calls = Calls(real, blocks)
    first = calls.run(blocks=1)
    if first is None:
        raise SystemExit("bench: shim_calls does not run here")
    with contextlib.ExitStack() as stack:
        directory = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gpuman-bench-")))
        served = stack.enter_context(ledger.Ledger(directory / "shim.sock", "--gpu", first["uuid"], 64 * GIB, 0))
        environments = {"plain": calls.environment,
                        "libgpuman.so": ledger.preloaded(directory / "shim.sock", environment=calls.environment)}
        # A job with --share: every launch passes the gate, and larger allocations can be evicted.
        share = stack.enter_context(ledger.Ledger(directory / "share.sock", "--gpu", first["uuid"], 64 * GIB, 0,
                                                  "--evictable", 64 * GIB, 10_000))
        environments[SHARE] = dict(ledger.preloaded(directory / "share.sock", environment=calls.environment),
                                   GPUMAN_SHIM_EVICTABLE="1")
        # One with a share of the time, in its turn: the shim tells besides what the program does.
        compute = stack.enter_context(ledger.Ledger(directory / "compute.sock", "--gpu", first["uuid"], 64 * GIB, 0,
                                                    "--evictable", 64 * GIB, 10_000))
        compute("watch", SHARE_IDLE)
        environments[COMPUTE] = dict(ledger.preloaded(directory / "compute.sock", environment=calls.environment),
                                     GPUMAN_SHIM_EVICTABLE="1")
        for name, library, server in peers:
            if server:
                stack.enter_context(beside(server))
            environments[name] = dict(calls.environment, LD_PRELOAD=library)
        usable = {name: env for name, env in environments.items() if calls.run(env, 1) is not None}
        answers = alternate.alternate(list(usable), rounds, lambda name: calls.run(usable[name]))
        joined = [int(one("joined")) for one in (served, share, compute)]
    if min(joined) < rounds + 1:  # a notification counts as well
        raise SystemExit(f"bench: {joined} processes joined the ledgers instead of {rounds + 1} each")
    result = {name: None for name in environments}
    for name, runs in answers.items():
        figures = {}
        for figure in ADDED:
            values = [run[figure]["median"] for run in runs]
            plain = [run[figure]["median"] for run in answers["plain"]]
            figures[figure] = alternate.summary(values)
            figures[figure]["added"] = alternate.paired(plain, values, lambda a, b: b - a)
        result[name] = figures
    return result


def rows(result):
    """Yields what bench.py prints: (what, figure, bar)."""
    for figure, bar in ADDED.items():
        yield NAMES[figure], f"{result['plain'][figure]['median']:.1f} ns", "the driver's own"
        for variant, figures in result.items():
            if variant == "plain":
                continue
            if figures is None:
                yield f"{NAMES[figure]}, {variant}", "does not run here", ""
                continue
            added = figures[figure]["added"]
            if variant == COMPUTE and figure == "launch_ns":
                bar = "at most 20 ns"
            yield (f"{NAMES[figure]}, added by {variant}",
                   f"{added['median']:+.1f} ns ({added['low']:+.1f} to {added['high']:+.1f})",
                   bar if variant.startswith("libgpuman.so") else "")

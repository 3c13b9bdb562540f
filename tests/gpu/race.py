#!/usr/bin/env python3
"""Processes of many threads take and free memory of every family at random against one limit, while NVML is watched.

Usage: race.py [--processes N] [--threads N] [--seconds S] [--room BYTES] [--families NAME,…] [--trace]
               [--json FILE]

Prints the most that the processes' memory ever was beyond the limit, as NVML and as the ledger tell it; that must be 0. The
limit is what that many idle contexts cost, measured first, and --room. With --trace each process writes a trace of its
allocations, in which nothing may be torn or freed twice. Exit status 1: the limit was passed, the ledger was not
empty in the end, or a process failed. Runs on the driver that it sees, real or simulated.
"""

import argparse
import contextlib
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
import ledger  # noqa: E402
import machine  # noqa: E402

MIB = 1 << 20
STACK, ALLOCATED, FREED = 4, 5, 6


class Racer:
    """One race_load process."""

    def __init__(self, *arguments, environment=None):
        self.process = subprocess.Popen([str(machine.build_dir() / "tests/race_load"), *map(str, arguments)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)

    def line(self):
        return self.process.stdout.readline()

    def go(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def end(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        status = self.process.wait()
        self.process.stdout.close()
        return status

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Watch:
    """Samples as often as it can: the most that NVML shows of the processes together and of the device, and that the
    ledger shows."""

    def __init__(self, nvml, pids, served, uuid):
        self.nvml, self.pids, self.served, self.uuid = nvml, pids, served, uuid
        self.most = self.most_on_device = self.most_in_ledger = self.looks = 0
        self.before = nvml.memory()["used"]
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._look)

    def _look(self):
        while not self.ended.is_set():
            shown = self.nvml.processes()
            self.most = max(self.most, sum(shown.get(pid, 0) for pid in self.pids))
            self.most_on_device = max(self.most_on_device, self.nvml.memory()["used"])
            self.most_in_ledger = max(self.most_in_ledger, int(self.served("used", self.uuid)))
            self.looks += 1

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


def context_of(nvml, words):
    """The bytes that NVML shows of a process with its context, and with the streams and empty pools of its threads."""
    idle = Racer(*words)
    try:
        if idle.line() != "ready\n":
            raise SystemExit("race: race_load makes no context here")
        shown = nvml.processes().get(idle.process.pid)
        if not shown:
            raise SystemExit("race: NVML does not show the process")
        return shown
    finally:
        idle.end()


def wrong_with_trace(data):
    """What is wrong with a process's trace (src/ledger/wire/trace.h); empty: nothing."""
    at, stacks, live = 64, 0, set()
    while at < len(data):
        kind, size = struct.unpack_from("<II", data, at)
        if size < 8 or size % 8 or at + size > len(data):
            return f"a torn record at {at}"
        if kind == STACK:
            stacks += 1
        elif kind == ALLOCATED:
            _, key, size_of, _, held, stack, _ = struct.unpack_from("<QQQQQII", data, at + 8)
            if stack >= stacks or not size_of <= held < 1 << 48:
                return f"an allocation at {at} of stack {stack} of {stacks}, with {held} held"
            live.add(key)
        elif kind == FREED:
            _, key, held = struct.unpack_from("<QQQ", data, at + 8)
            if key not in live or held >= 1 << 48:
                return f"a free at {at} of what is not held, with {held} held"
            live.discard(key)
        at += size
    return f"{len(live)} samples are not freed" if live else ""


def race(arguments):
    nvml = ledger.Nvml()
    words = ["--threads", arguments.threads, "--seconds", arguments.seconds, "--most", arguments.most]
    if arguments.families:
        words += ["--families", arguments.families]
    uuid, context = nvml.uuid(), context_of(nvml, words)
    limit = arguments.processes * context + arguments.room
    wrong = []
    with contextlib.ExitStack() as stack:
        socket = stack.enter_context(tempfile.TemporaryDirectory(prefix="gpuman-race-")) + "/shim.sock"
        served = stack.enter_context(ledger.Ledger(socket, "--gpu", uuid, limit, context))
        traces = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gpuman-race-")))
        traced = {"GPUMAN_SHIM_TRACE": str(traces)} if arguments.trace else {}
        free_at_start = nvml.memory()["free"]
        if free_at_start < 2 * limit:
            raise SystemExit(f"race: the device has {free_at_start >> 20} MiB free; {limit >> 19} MiB are wanted")
        racers = []
        for number in range(arguments.processes):
            racers.append(Racer(*words, "--seed", arguments.seed + number, environment={**ledger.preloaded(socket), **traced}))
            stack.callback(racers[-1].kill)
        if [racer.line() for racer in racers] != ["ready\n"] * len(racers):
            raise SystemExit("race: not every process got its context")
        at_rest = sum(nvml.processes().get(racer.process.pid, 0) for racer in racers)
        start = time.monotonic()
        with Watch(nvml, [racer.process.pid for racer in racers], served, uuid) as watch:
            for racer in racers:
                racer.go()
            answers = [racer.line() for racer in racers]
        seconds = time.monotonic() - start
        left = int(served("used", uuid)) - arguments.processes * context
        nvml_left = sum(nvml.processes().get(racer.process.pid, 0) for racer in racers) - at_rest
        statuses = [racer.end() for racer in racers]
        served("reclaim")
        after = int(served("used", uuid))
        written = [file.read_bytes() for file in traces.iterdir()]
    counts = [json.loads(answer) for answer in answers if answer.startswith("{")]
    over, over_in_ledger = max(0, watch.most - limit), max(0, watch.most_in_ledger - limit)
    if over or over_in_ledger:
        wrong.append("the limit was passed")
    if statuses != [0] * len(racers) or len(counts) != len(racers):
        wrong.append(f"exit statuses {statuses}")
    if arguments.trace and len(written) != len(racers):
        wrong.append(f"{len(written)} traces")
    wrong += filter(None, map(wrong_with_trace, written))
    if left or after:
        wrong.append(f"{left} bytes left in the ledger after the race, {after} after the processes")
    return {"bench": "race", "families": arguments.families or "all", "processes": arguments.processes,
            "threads": arguments.threads, "seconds": round(seconds, 1), "limit": limit, "context": context,
            "over_bytes": over, "over_in_ledger": over_in_ledger, "most": watch.most, "at_rest": at_rest,
            "most_in_ledger": watch.most_in_ledger, "most_on_device": watch.most_on_device - watch.before + at_rest,
            "looks": watch.looks, "taken": sum(c["taken"] for c in counts), "refused": sum(c["refused"] for c in counts),
            "left_in_nvml": nvml_left, "ok": not wrong, "wrong": wrong}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--threads", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--room", type=int, default=1024 * MIB, help="bytes beyond the contexts")
    parser.add_argument("--most", type=int, default=64, help="MiB of one allocation")
    parser.add_argument("--families", help="malloc,pitch,managed,async,pool,vmm,array,mipmap (default: all)")
    parser.add_argument("--trace", action="store_true", help="with traces of allocations")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", metavar="FILE", help="where to append the result")
    arguments = parser.parse_args()
    result = race(arguments)
    print("| families | threads | s | taken | refused | limit, MiB | NVML's most, MiB | bytes over: NVML, ledger | remark |")
    print("|---|---|---|---|---|---|---|---|---|")
    print(f"| {result['families']} | {result['processes']} x {result['threads']} | {result['seconds']} | {result['taken']} "
          f"| {result['refused']} | {result['limit'] // MIB} | {result['most'] // MIB} "
          f"| {result['over_bytes']}, {result['over_in_ledger']} | {'; '.join(result['wrong'])} |")
    if arguments.json:
        with open(arguments.json, "a", encoding="utf-8") as file:
            print(json.dumps(result), file=file)
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())

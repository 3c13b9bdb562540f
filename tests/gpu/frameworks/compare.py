#!/usr/bin/env python3
"""The same program plain, with libgpuman.so under a limit it never reaches, and with the libraries of others, in turns.

Usage: compare.py [--rounds N] [--limit BYTES] [--peer NAME=LIBRARY[,SERVER]]… [--json FILE] [PROGRAM [ARGUMENT…]]

PROGRAM (torch_work.py by default; driver_work.py needs no framework) prints one JSON line with "figures" and "hashes". Figures
that end with _per_s are better when higher, all others when lower. Prints medians, the middle half as a share of the median,
how much slower than plain in the same round, and whether the hashes are the same everywhere. Exit status 1: they are not, or
a program failed.
"""

import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(ROOT / "tests/harness"), str(ROOT / "bench")]
import alternate  # noqa: E402
import ledger  # noqa: E402
import shim_bench  # noqa: E402

GIB = 1 << 30
SHIM = "libgpuman.so"


def slower(figure, plain, other):
    """The percentage of additional time of `other`."""
    return 100 * (plain / other - 1 if figure.endswith("_per_s") else other / plain - 1)


def run_once(command, environment, timeout):
    """The program's last line, or an error as text."""
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return f"not done within {timeout} s"
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        return f"exit status {done.returncode}: {done.stderr[-1000:]}"
    return json.loads(lines[-1])


def compare(arguments):
    command = [sys.executable, *arguments.command]
    nvml = ledger.Nvml()
    with contextlib.ExitStack() as stack:
        directory = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gpuman-compare-")))
        served = stack.enter_context(ledger.Ledger(directory / "shim.sock", "--gpu", nvml.uuid(), arguments.limit,
                                                   518 << 20))
        environments = {"plain": dict(os.environ), SHIM: ledger.preloaded(directory / "shim.sock")}
        for name, library, server in arguments.peer:
            if server:
                stack.enter_context(shim_bench.beside(server))
            environments[name] = dict(os.environ, LD_PRELOAD=library)

        def measure(name):
            answer = run_once(command, environments[name], arguments.timeout)
            print(f"  {name}: {answer['figures'] if isinstance(answer, dict) else answer}", file=sys.stderr, flush=True)
            return answer
        answers = alternate.alternate(list(environments), arguments.rounds, measure)
        joined = int(served("joined"))
    return answers, joined


def evaluate(answers, joined, rounds):
    """Returns the report, and what is wrong."""
    wrong = [f"{name}: {answer}" for name, all_of in answers.items() for answer in all_of if isinstance(answer, str)]
    if joined < rounds:
        wrong.append(f"only {joined} processes joined the ledger in {rounds} rounds")
    report = {"figures": {}, "hashes": {}}
    if any(isinstance(answer, str) for answer in answers["plain"]):
        return report, wrong
    for figure in answers["plain"][0]["figures"]:
        plain = [answer["figures"][figure] for answer in answers["plain"]]
        report["figures"][figure] = {"plain": alternate.summary(plain)}
        for name, all_of in answers.items():
            pairs = [(p, a["figures"][figure]) for p, a in zip(plain, all_of) if isinstance(a, dict)]
            if name == "plain" or not pairs:
                continue
            mine = alternate.summary([a for _, a in pairs])
            mine["slower_percent"] = alternate.paired([p for p, _ in pairs], [a for _, a in pairs],
                                                      lambda p, a, figure=figure: slower(figure, p, a))
            mine["slower_percent"]["of_medians"] = slower(figure, report["figures"][figure]["plain"]["median"],
                                                          mine["median"])
            report["figures"][figure][name] = mine
    for key in answers["plain"][0]["hashes"]:
        seen = {name: sorted({a["hashes"][key] for a in all_of if isinstance(a, dict)}) for name, all_of in answers.items()}
        same = len({value for values in seen.values() for value in values}) == 1
        report["hashes"][key] = {"same": same, "seen": seen}
        if not same:
            wrong.append(f"{key}: results differ: {seen}")
    return report, wrong


def print_report(report):
    print("| figure | variant | median | middle half | slower than plain | of the medians |\n|---|---|---|---|---|---|")
    for figure, variants in report["figures"].items():
        for name, mine in variants.items():
            less = mine.get("slower_percent")
            told = (f"{less['median']:+.2f} % ({less['low']:+.2f} to {less['high']:+.2f}) | {less['of_medians']:+.2f} %"
                    if less else " | ")
            print(f"| {figure} | {name} | {mine['median']:.6g} | {100 * mine['spread']:.2f} % | {told} |")
    for key, found in report["hashes"].items():
        print(f"results of {key}: {'the same everywhere' if found['same'] else found['seen']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=int, default=64 * GIB)
    parser.add_argument("--peer", action="append", default=[], type=shim_bench.parse_peer)
    parser.add_argument("--timeout", type=int, default=120, help="seconds for one process")
    parser.add_argument("--json", metavar="FILE", help="where to append the report")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    arguments.command = arguments.command or [str(HERE / "torch_work.py")]
    if not os.path.exists(arguments.command[0]):
        arguments.command[0] = str(HERE / arguments.command[0])
    answers, joined = compare(arguments)
    report, wrong = evaluate(answers, joined, arguments.rounds)
    print_report(report)
    for what in wrong:
        print(f"WRONG: {what}")
    if arguments.json:
        with open(arguments.json, "a", encoding="utf-8") as file:
            print(json.dumps({"bench": "compare", "command": arguments.command, "rounds": arguments.rounds, **report,
                              "wrong": wrong}), file=file)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

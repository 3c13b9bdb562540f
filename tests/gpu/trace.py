#!/usr/bin/env python3
"""What --trace-allocations costs a training on a real GPU: steps a second with it and without, in turns.

Usage: trace.py [--gpu N] [--pairs 3] [--seconds 10] [--only SHAPES]… [--sim]

  same      a network whose steps all have the same shapes: PyTorch's allocator asks the driver at the beginning only
  varying   sequences of another length in each step: it asks again and again
  uncached  as varying, each tensor from the driver's pool (backend:cudaMallocAsync): thousands of allocations a second

Runs jobs under a daemon of its own. Prints a table, the median of the pairs' ratios, and what `gpuman why --allocations`
says of the last job with a trace. Exit status 1 where a job failed, or where `same` or `varying` is more than 2 % slower.
GPUMAN_BUILD_DIR names the build. --sim: on the simulated driver and without PyTorch, to try this script.
"""

import argparse
import json
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from alternate import alternate, paired  # noqa: E402
from machine import Machine  # noqa: E402

PROGRAM = pathlib.Path(__file__).with_name("trace_training.py")
SHAPES = {"same": (), "varying": (), "uncached": ("PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync",)}
MOST_SLOWER = 0.02


class Session:
    def __init__(self, machine, options):
        self.m, self.o, self.number = machine, options, 0
        self.last = None

    def rate(self, shapes, traced):
        """Steps a second of one job."""
        self.number += 1
        tag = f"training{self.number}"
        words = [*(["--trace-allocations"] if traced else []), "--gpu", str(self.o.gpu), "--wait"]
        program = [sys.executable, str(PROGRAM), "varying" if shapes == "uncached" else shapes, "--seconds", str(self.o.seconds)]
        done = self.m.run("run", "--tag", tag, *words, "--", "env", *SHAPES[shapes], *program, *(["--sim"] if self.o.sim else []))
        if done.returncode != 0:
            raise SystemExit(f"{tag}: exit status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        if traced:
            self.last = tag
        said = [line for line in done.stdout.splitlines() if line.startswith('{"steps_per_s"')]
        return json.loads(said[-1])["steps_per_s"]

    def compare(self, shapes):
        rates = alternate([False, True], self.o.pairs, lambda traced: self.rate(shapes, traced))
        for plain, traced in zip(rates[False], rates[True]):
            print(f"{shapes:<10}{plain:>12.2f}{traced:>12.2f}{traced / plain:>10.4f}", flush=True)
        ratio = paired(rates[False], rates[True], lambda plain, traced: traced / plain)["median"]
        print(f"{shapes:<10}{statistics.median(rates[False]):>12.2f}{statistics.median(rates[True]):>12.2f}{ratio:>10.4f}  median", flush=True)
        return ratio


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--only", action="append", choices=SHAPES)
    parser.add_argument("--sim", action="store_true")
    options = parser.parse_args()
    slow = []
    with Machine(real=not options.sim) as machine:
        session = Session(machine, options)
        print(f"{'shapes':<10}{'plain/s':>12}{'traced/s':>12}{'ratio':>10}")
        for shapes in options.only or SHAPES:
            ratio = session.compare(shapes)
            if shapes != "uncached" and ratio < 1 - MOST_SLOWER:
                slow.append(shapes)
            told = machine.run("why", session.last, "--allocations")
            print("\n".join(told.stdout.splitlines()[:14]) + told.stderr + "\n", flush=True)
        traces = pathlib.Path(machine.api("GET", f"/v1/jobs/{session.last}")["trace_path"])
        print("bytes of the last traces:", [file.stat().st_size for file in traces.iterdir()])
    if slow:
        print(f"more than {MOST_SLOWER:.0%} slower: {', '.join(slow)}")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())

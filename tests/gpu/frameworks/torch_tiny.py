#!/usr/bin/env python3
"""A loop of tiny additions, bound by launches: nanoseconds of one, the median of many blocks."""

import argparse
import statistics
import time

import torch

from common import say


def run(blocks=60, operations=5000):
    x = torch.zeros(16, device="cuda")
    one = torch.ones(16, device="cuda")
    times = []
    for block in range(blocks + 3):
        torch.cuda.synchronize()
        start = time.perf_counter_ns()
        for _ in range(operations):
            x.add_(one)
        torch.cuda.synchronize()
        if block >= 3:
            times.append((time.perf_counter_ns() - start) / operations)
    right = bool((x == float((blocks + 3) * operations)).all())
    return {"figures": {"tiny_ns": statistics.median(times)}, "hashes": {"tiny": "right" if right else "wrong"}}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=60)
    say(program="torch_tiny", **run(parser.parse_args().blocks))

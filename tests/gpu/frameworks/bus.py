#!/usr/bin/env python3
"""Measures the GPU's bus with pinned host memory: one JSON line with bytes a second out, in, and the sum of both at
once.

Usage: bus.py [GIB] [--gpu N] [--at TIME]

GIB: of each buffer. --at: when the copies begin, in seconds since 1970, so that several GPUs are measured together.
"""

import argparse
import json
import time

import torch


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("gib", type=float, nargs="?", default=4)
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--at", type=float, default=0)
    options = parser.parse_args()
    torch.cuda.set_device(options.gpu)
    size = int(options.gib * 2**30)
    host = [torch.empty(size, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
    device = [torch.empty(size, dtype=torch.uint8, device="cuda") for _ in range(2)]
    streams = [torch.cuda.Stream() for _ in range(2)]

    def copy(*ways):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for way in ways:
            with torch.cuda.stream(streams[way]):
                if way == 0:
                    host[0].copy_(device[0], non_blocking=True)
                else:
                    device[1].copy_(host[1], non_blocking=True)
        torch.cuda.synchronize()
        return size * len(ways) / (time.perf_counter() - begin)

    copy(0, 1)
    time.sleep(max(0, options.at - time.time()))
    best = {name: max(copy(*ways) for _ in range(3)) for name, ways in (("out", (0,)), ("in", (1,)), ("both", (0, 1)))}
    print(json.dumps(best))


main()

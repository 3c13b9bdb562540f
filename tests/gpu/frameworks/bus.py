#!/usr/bin/env python3
"""Measures the GPU's bus with pinned host memory: one JSON line with bytes a second out, in, and the sum of both at
once.

Usage: bus.py [GIB]    (of each buffer; 4 unless told)
"""

import json
import sys
import time

import torch


def main():
    size = int(float(sys.argv[1]) * 2**30) if len(sys.argv) > 1 else 4 << 30
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

    best = {name: max(copy(*ways) for _ in range(3)) for name, ways in (("out", (0,)), ("in", (1,)), ("both", (0, 1)))}
    print(json.dumps(best))


main()

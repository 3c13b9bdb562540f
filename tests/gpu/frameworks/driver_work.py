#!/usr/bin/env python3
"""Replaces torch_work.py where there is no PyTorch: allocations, fills and copies through the CUDA driver."""

import hashlib
import time

from common import MIB, say
from driver import Device


def main():
    device = Device()
    start = time.perf_counter()
    rounds = 200
    for _ in range(rounds):
        device.free(device.allocate(4 * MIB))
    each = (time.perf_counter() - start) / rounds * 1e9
    block = device.allocate(MIB)
    device.fill(block, 0x01020304, MIB // 4)
    data = hashlib.sha256(device.read(block, MIB)).hexdigest()[:16]
    say(program="driver_work", figures={"pair_ns": each, "pairs_per_s": 1e9 / each}, hashes={"data": data})


if __name__ == "__main__":
    main()

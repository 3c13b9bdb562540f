#!/usr/bin/env python3
"""A small training for trace.py: a transformer whose sequences have the same length in each step, or another one.

Usage: trace_training.py same|varying [--seconds N] [--sim]

Prints a line of JSON: steps_per_s, after a warm-up of a fifth of the time. --sim: allocations of the simulated driver in
place of steps.
"""

import argparse
import ctypes
import json
import random
import time


def simulated(varying):
    cuda, draw = ctypes.CDLL("libcuda.so.1"), random.Random(1)
    device, context, held = ctypes.c_int(), ctypes.c_void_p(), []
    assert not (cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), 0) or
                cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) or cuda.cuCtxSetCurrent(context))

    def step():
        address = ctypes.c_uint64()
        size = (draw.randrange(1, 64) if varying else 16) << 20
        assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)) == 0
        held.append(address)
        if len(held) > 8:
            assert cuda.cuMemFree_v2(held.pop(0)) == 0

    return step, lambda: None


def training(varying):
    import torch
    from torch import nn

    torch.manual_seed(1)
    draw = random.Random(1)
    layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, dropout=0)
    net = nn.Sequential(nn.Embedding(8192, 512), nn.TransformerEncoder(layer, 6), nn.Linear(512, 8192)).cuda()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
    loss_of = nn.CrossEntropyLoss()

    def step():
        length = draw.randrange(32, 512) if varying else 256
        words = torch.randint(0, 8192, (16, length), device="cuda")
        optimizer.zero_grad()
        loss_of(net(words).flatten(0, 1), words.flatten()).backward()
        optimizer.step()

    return step, torch.cuda.synchronize


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", choices=("same", "varying"))
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--sim", action="store_true")
    options = parser.parse_args()
    step, wait = (simulated if options.sim else training)(options.shapes == "varying")

    def run(seconds):
        begin, steps = time.perf_counter(), 0
        while time.perf_counter() - begin < seconds:
            step()
            steps += 1
        wait()
        return steps / (time.perf_counter() - begin)

    run(options.seconds / 5)
    print(json.dumps({"steps_per_s": run(options.seconds)}), flush=True)


if __name__ == "__main__":
    main()

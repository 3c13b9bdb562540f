#!/usr/bin/env python3
"""A program for compute.py that works while a file is there, and writes down how far it is.

Usage: compute_worker.py KIND DIRECTORY [--sim]

  train   a transformer's training, synchronized each fifth step
  graphs  a CUDA graph of matrix products, about 5 ms, eight at a time
  tiny    operations on a few elements, 500 at a time
  kernel  a matrix product of about 50 ms
  server  a request of about 5 ms each 20 ms; its line has the time of each

DIRECTORY/KIND.run: works while this file is there. DIRECTORY/KIND.log: a line after each unit: the time (CLOCK_MONOTONIC,
seconds), the units so far, and the seconds that it took. --sim: fills memory of the simulated driver in place of all that.
"""

import ctypes
import pathlib
import sys
import time


def simulated(_kind):
    cuda = ctypes.CDLL("libcuda.so.1")
    device, context, address = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    size = ctypes.c_size_t(64 << 20)
    assert not (cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), 0) or
                cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) or cuda.cuCtxSetCurrent(context) or
                cuda.cuMemAlloc_v2(ctypes.byref(address), size))

    def unit():
        assert not (cuda.cuMemsetD8_v2(address, 1, size) or cuda.cuCtxSynchronize())

    return unit


def real(kind):
    import torch
    from torch import nn

    torch.manual_seed(1)
    if kind == "train":
        layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, dropout=0)
        net = nn.Sequential(nn.Embedding(8192, 512), nn.TransformerEncoder(layer, 6), nn.Linear(512, 8192)).cuda()
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
        loss_of = nn.CrossEntropyLoss()

        def work():
            for _ in range(5):
                words = torch.randint(0, 8192, (16, 256), device="cuda")
                optimizer.zero_grad()
                loss_of(net(words).flatten(0, 1), words.flatten()).backward()
                optimizer.step()
    elif kind == "tiny":
        few = torch.zeros(1024, device="cuda")

        def work():
            for _ in range(500):
                few.add_(1)
    elif kind == "kernel":
        big = torch.randn(16384, 16384, device="cuda", dtype=torch.float32)
        out = torch.empty_like(big)

        def work():
            torch.mm(big, big, out=out)
    else:
        size, times = (2048, 4) if kind == "server" else (4096, 2)
        a = torch.randn(size, size, device="cuda")
        b = torch.empty_like(a)
        warm = torch.cuda.Stream()
        with torch.cuda.stream(warm):
            torch.mm(a, a, out=b)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(times):
                torch.mm(a, a, out=b)

        def work():
            for _ in range(4 if kind == "server" else 8):
                graph.replay()

    def unit():
        work()
        torch.cuda.synchronize()

    return unit


def main():
    kind, directory = sys.argv[1], pathlib.Path(sys.argv[2])
    unit = simulated(kind) if "--sim" in sys.argv else real(kind)
    for _ in range(5):
        unit()
    run, units = directory / f"{kind}.run", 0
    with (directory / f"{kind}.log").open("w", buffering=1) as log:
        log.write(f"{time.monotonic()} 0 0\n")
        while not (directory / "end").exists():
            if not run.exists():
                time.sleep(0.01)
                continue
            if kind == "server":
                time.sleep(0.02)
            began = time.monotonic()
            unit()
            units += 1
            log.write(f"{time.monotonic():.6f} {units} {time.monotonic() - began:.6f}\n")


if __name__ == "__main__":
    main()

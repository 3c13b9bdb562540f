#!/usr/bin/env python3
"""A program for compute.py that works while a file is there, and writes down how far it is.

Usage: compute_worker.py KIND DIRECTORY [--sim]

  train   a transformer's training, synchronized each fifth step
  graphs  a CUDA graph of matrix products, about 5 ms, eight at a time
  tiny    operations on a few elements, 500 at a time
  kernel  a matrix product of about 50 ms
  server  a request of about 5 ms each 20 ms; its line has the time of each
  tensor  as server, by two ranks on two GPUs: products of halves, and an all-reduce after each, as a graph
  notebookN  a cell of about 200 ms, with values that are looked at, each 1 to 3 s (at random, by N)

DIRECTORY/KIND.run: works while this file is there. DIRECTORY/KIND.log: a line after each unit: the time (CLOCK_MONOTONIC,
seconds), the units so far, and the seconds that it took. --sim: fills memory of the simulated driver in place of all that.
"""

import ctypes
import os
import pathlib
import random
import subprocess
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
    if kind.startswith("train"):
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
    elif kind.startswith("notebook"):
        one = torch.randn(4096, 4096, device="cuda")
        out = torch.empty_like(one)

        def work():
            for _ in range(16):
                for _ in range(4):
                    torch.mm(one, one, out=out)
                for _ in range(8):
                    out.mul_(0.5).add_(1)
                out.sum().item()
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


def tensor(rank, directory):
    """A rank; the first one tells when a request begins, and writes the times down."""
    import torch
    import torch.distributed as dist

    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29517"}
    torch.cuda.set_device(rank)
    dist.init_process_group("cpu:gloo,cuda:nccl", rank=rank, world_size=2)
    a = torch.randn(4096, 2048, device="cuda")
    b = torch.randn(2048, 4096, device="cuda")
    out = torch.empty(4096, 4096, device="cuda")

    def layers():
        for _ in range(2):
            torch.mm(a, b, out=out)
            dist.all_reduce(out)

    for _ in range(3):
        layers()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        layers()
    go = torch.zeros(1)
    if rank != 0:
        while True:
            dist.broadcast(go, 0)
            if go.item() == 0:
                return
            graph.replay()
            torch.cuda.synchronize()

    def unit():
        go.fill_(1)
        dist.broadcast(go, 0)
        graph.replay()
        torch.cuda.synchronize()

    loop("tensor", directory, unit)
    go.fill_(0)
    dist.broadcast(go, 0)


def main():
    kind, directory = sys.argv[1], pathlib.Path(sys.argv[2])
    if kind == "tensor" and "--sim" not in sys.argv:
        ranks = [subprocess.Popen([sys.executable, __file__, f"tensor-{rank}", str(directory)]) for rank in range(2)]
        sys.exit(max(rank.wait() for rank in ranks))
    if kind.startswith("tensor-"):
        return tensor(int(kind[-1]), directory)
    return loop(kind, directory, simulated(kind) if "--sim" in sys.argv else real(kind))


def loop(kind, directory, unit):
    for _ in range(5):
        unit()
    run, units = directory / f"{kind}.run", 0
    chance = random.Random(kind)
    with (directory / f"{kind}.log").open("w", buffering=1) as log:
        log.write(f"{time.monotonic()} 0 0\n")
        while not (directory / "end").exists():
            if not run.exists():
                time.sleep(0.01)
                continue
            if kind in ("server", "tensor"):
                time.sleep(0.02)
            if kind.startswith("notebook"):
                time.sleep(chance.uniform(1, 3))
            began = time.monotonic()
            unit()
            units += 1
            log.write(f"{time.monotonic():.6f} {units} {time.monotonic() - began:.6f}\n")


if __name__ == "__main__":
    main()

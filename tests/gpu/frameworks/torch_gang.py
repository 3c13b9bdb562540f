#!/usr/bin/env python3
"""One rank of a job whose ranks need each other; torchrun starts as many as there are GPUs.

Usage: torchrun --standalone --nproc-per-node N torch_gang.py --pattern ddp|fsdp|tensor [--width N] [--ballast BYTES] [--until FILE]
                                                              [--steps N] [--phases N --work STEPS --pause SECONDS --rest SECONDS]

  ddp, fsdp   trains a small transformer, as DistributedDataParallel, or with its weights sharded
  tensor      runs a transformer whose layers are split over the ranks, each step one launch of a CUDA graph that has the
              all-reduces in it

Beside that each rank holds --ballast bytes and changes some of them in each step. The last rank's words count: one JSON
line for each 10 steps, {"event": "step", "number", "loss"}: the loss to the bit, which any run of as many ranks must come
to. After a pause of a phase: {"event": "first", "seconds"}. At the end {"event": "done", "number", "wrong", "ten_steps"}, the
last the median time of ten steps; exit status 1 where bytes of the ballast are wrong. It ends after --steps or --phases, or soon after the file --until exists.
"""

import argparse
import os
import pathlib
import statistics
import sys
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # before CUDA starts: for a deterministic cuBLAS

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402

from common import say  # noqa: E402

BLOCK = 64 << 20
BATCH, LENGTH, WIDTH, LAYERS = 8, 256, 1024, 6


class Ballast:
    """Blocks of which one changes in each step; every byte is checked at the end."""

    def __init__(self, size, seed):
        self.first = [seed * 1000 + number for number in range(size // BLOCK)]
        self.blocks = [torch.full((BLOCK // 4,), first, dtype=torch.int32, device="cuda") for first in self.first]
        self.rounds = [0] * len(self.blocks)

    def change(self, number):
        if self.blocks:
            self.blocks[number % len(self.blocks)] += 1
            self.rounds[number % len(self.blocks)] += 1

    def wrong(self):
        return sum(int((block != first + rounds).sum()) for block, first, rounds in zip(self.blocks, self.first, self.rounds))


class Training:
    """Data-parallel training: every rank has data of its own; the loss is this rank's."""

    def __init__(self, sharded, rank):
        layer = nn.TransformerEncoderLayer(WIDTH, 16, 4 * WIDTH, dropout=0.0, batch_first=True)
        net = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False).cuda()
        if sharded:
            from torch.distributed.fsdp import fully_shard
            for part in net.layers:
                fully_shard(part)
            self.net = fully_shard(net)
        else:
            self.net = nn.parallel.DistributedDataParallel(net)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=1e-4)
        torch.manual_seed(100 + rank)
        self.data = torch.randn(4, BATCH, LENGTH, WIDTH, device="cuda")

    def step(self, number):
        self.optimizer.zero_grad()
        here = self.data[number % 4]
        loss = (self.net(here) - here.roll(1, dims=1)).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


class Split:
    """A transformer's layers with their width split over the ranks: two all-reduces in each layer, in one CUDA graph."""

    def __init__(self, rank, ranks):
        torch.manual_seed(3)
        scale = WIDTH ** -0.5
        here = slice(rank * 4 * WIDTH // ranks, (rank + 1) * 4 * WIDTH // ranks)
        whole = [(torch.randn(4 * WIDTH, WIDTH) * scale, torch.randn(WIDTH, 4 * WIDTH) * scale / 2) for _ in range(2 * LAYERS)]
        self.weights = [(up[here].cuda(), down[:, here].contiguous().cuda()) for up, down in whole]
        self.state = torch.randn(BATCH * LENGTH, WIDTH).cuda()
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(3):
                self.forward()
        side.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.forward()

    def forward(self):
        state = self.state
        for up, down in self.weights:
            part = torch.relu(state @ up.T) @ down.T
            dist.all_reduce(part)
            state = nn.functional.layer_norm(state + part, (WIDTH,))
        self.state.copy_(state)

    def step(self, number):
        self.graph.replay()
        return self.state.square()[:, number % WIDTH].mean()


class Run:
    def __init__(self, options, rank, ranks):
        self.o, self.told = options, rank == ranks - 1
        self.ballast = Ballast(options.ballast, rank + 1)
        self.load = Split(rank, ranks) if options.pattern == "tensor" else Training(options.pattern == "fsdp", rank)
        self.number, self.end = 0, torch.zeros(1, device="cuda")
        self.tens, self.ten_began = [], time.monotonic()  # seconds of ten steps each

    def steps(self, count):
        """Makes `count` steps; returns False when all ranks are to end. Every tenth step asks rank 0 for that."""
        for _ in range(count):
            loss = self.load.step(self.number)
            self.ballast.change(self.number)
            self.number += 1
            if self.number % 10 == 0:
                self.end.fill_(bool(self.o.until and pathlib.Path(self.o.until).exists()))
                dist.broadcast(self.end, 0)
                if self.told:
                    say(event="step", number=self.number, loss=loss.item().hex())
                ends = self.end.item()  # all ten steps have come to their end
                self.tens.append(time.monotonic() - self.ten_began)
                self.ten_began += self.tens[-1]
                if ends:
                    return False
        return True

    def phases(self):
        for _ in range(self.o.phases):
            begin = time.monotonic()
            self.steps(10)
            if self.told:
                say(event="first", seconds=time.monotonic() - begin)
            self.steps(self.o.work - 10)
            torch.cuda.synchronize()
            time.sleep(self.o.pause)


def main():
    global WIDTH
    parser = argparse.ArgumentParser()
    parser.add_argument("--pattern", choices=("ddp", "fsdp", "tensor"), default="ddp")
    parser.add_argument("--width", type=int, default=WIDTH, help="of the transformer")
    parser.add_argument("--ballast", type=int, default=0)
    parser.add_argument("--until")
    parser.add_argument("--steps", type=int, default=1 << 40)
    parser.add_argument("--phases", type=int)
    parser.add_argument("--work", type=int, default=100)
    parser.add_argument("--pause", type=float, default=1)
    parser.add_argument("--rest", type=float, default=0, help="seconds between the first steps and the first phase")
    o = parser.parse_args()
    WIDTH = o.width
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    torch.manual_seed(7)
    torch.use_deterministic_algorithms(True)
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    dist.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
    run = Run(o, dist.get_rank(), dist.get_world_size())
    if o.rest:
        run.steps(10)
        torch.cuda.synchronize()
        time.sleep(o.rest)
    begin = time.monotonic()
    if o.phases:
        run.phases()
    else:
        run.steps(o.steps)
    torch.cuda.synchronize()
    wrong = run.ballast.wrong()
    say(event="done", number=run.number, wrong=wrong, seconds=time.monotonic() - begin, ten_steps=statistics.median(run.tens))
    run.load = None  # NCCL waits for the end of graphs that have its kernels
    dist.destroy_process_group()
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()

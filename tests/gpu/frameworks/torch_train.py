#!/usr/bin/env python3
"""A small deterministic training, convolutions and matrix products in single precision: iterations a second and a hash of
the weights. Two runs with the same seed must come to the same hash."""

import argparse
import os
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # before CUDA starts: for a deterministic cuBLAS

import torch  # noqa: E402
from torch import nn  # noqa: E402

from common import say  # noqa: E402
from torch_hash import digest  # noqa: E402


def settle(seed):
    """Sets all of PyTorch's switches for deterministic results."""
    torch.manual_seed(seed)
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    torch.use_deterministic_algorithms(True)
    torch.set_float32_matmul_precision("high")


def model():
    def block(here, there):
        return [nn.Conv2d(here, there, 3, stride=2, padding=1), nn.BatchNorm2d(there), nn.ReLU()]
    return nn.Sequential(*block(3, 64), *block(64, 128), *block(128, 256), nn.Flatten(), nn.Linear(256 * 8 * 8, 2048),
                         nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 100)).cuda()


def trainer(batch, seed):
    """Returns a function that runs the iteration of a given number, and the trained model."""
    settle(seed)
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    images = torch.randn(8, batch, 3, 64, 64, device="cuda")
    labels = torch.randint(0, 100, (8, batch), device="cuda")
    loss_of = nn.CrossEntropyLoss()

    def iterate(number):
        optimizer.zero_grad()
        loss_of(net(images[number % 8]), labels[number % 8]).backward()
        optimizer.step()
    return iterate, net


def run(iterations=800, batch=256, warm_up=30, seed=7):
    iterate, net = trainer(batch, seed)
    start = 0.0
    for number in range(warm_up + iterations):
        if number == warm_up:
            torch.cuda.synchronize()
            start = time.perf_counter()
        iterate(number)
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    return {"figures": {"train_per_s": iterations / seconds}, "hashes": {"train": digest(net.state_dict().values())}}


def run_for(seconds, batch=256, seed=7):
    """Reports the number of iterations after each 10, when they are done."""
    iterate, _ = trainer(batch, seed)
    begin, number = time.monotonic(), 0
    while time.monotonic() < begin + seconds:
        for _ in range(10):
            iterate(number)
            number += 1
        torch.cuda.synchronize()
        say(event="trained", time=time.time(), iterations=number)
    say(event="done", time=time.time(), iterations=number, wrong=0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=800)
    parser.add_argument("--seconds", type=float, help="train for so long instead, and say how far it is")
    o = parser.parse_args()
    if o.seconds:
        run_for(o.seconds)
    else:
        say(program="torch_train", **run(o.iterations))

#!/usr/bin/env python3
"""Random data of which single bytes are changed at random, all the time; verifies every byte at the end.

Usage: torch_bytes.py --size BYTES --seconds S [--changes N] [--pause SECONDS] [--seed N]

Each step changes --changes bytes at random places by a random amount, and rests for --pause. One JSON line an event:
ready, done {seconds, iterations, wrong}; wrong: bytes that are not what was written.
"""

import argparse
import random
import time

import torch

from common import say


BLOCK = 64 << 20


def made(number, size, seed):
    """The bytes of a block, before all changes."""
    generator = torch.Generator(device="cuda").manual_seed(seed * 1000003 + number)
    return torch.randint(0, 256, (size,), dtype=torch.uint8, device="cuda", generator=generator)


def wrong_bytes(data, changed, seed):
    """Block by block: there is no room for all of it twice."""
    wrong = 0
    for number, block in enumerate(data.split(BLOCK)):
        expected = made(number, block.numel(), seed)
        begin = number * BLOCK
        here = {place - begin: by for place, by in changed.items() if begin <= place < begin + block.numel()}
        if here:
            places = torch.tensor(list(here), device="cuda")
            expected[places] += torch.tensor(list(here.values()), dtype=torch.uint8, device="cuda")
        wrong += int((expected != block).sum())
    return wrong


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--size", type=int, required=True)
    options.add_argument("--seconds", type=float, required=True)
    options.add_argument("--changes", type=int, default=4)
    options.add_argument("--pause", type=float, default=0.01)
    options.add_argument("--seed", type=int, default=1)
    o = options.parse_args()
    draw = random.Random(o.seed)
    data = torch.empty(o.size, dtype=torch.uint8, device="cuda")
    for number, block in enumerate(data.split(BLOCK)):
        block.copy_(made(number, block.numel(), o.seed))
    changed = {}
    say(event="ready", bytes=o.size, time=time.time())
    begin, steps = time.monotonic(), 0
    while time.monotonic() < begin + o.seconds:
        for _ in range(o.changes):
            place, by = draw.randrange(o.size), draw.randrange(1, 256)
            data[place] += by
            changed[place] = (changed.get(place, 0) + by) % 256
        steps += 1
        time.sleep(o.pause)
    wrong = wrong_bytes(data, changed, o.seed)
    say(event="done", seconds=time.monotonic() - begin, iterations=steps, wrong=wrong, time=time.time())


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""A job in phases: work on its memory for a time, then a pause, again and again; verifies its data at the end.

Usage: torch_phases.py --size BYTES [--phases N] [--work SECONDS] [--pause SECONDS] [--pace ITERATIONS_PER_SECOND] [--seconds S] [--at TIME]

The work of a phase is a number of iterations, not a time: --work seconds at --pace, which the program measures first if
it is not given. With --seconds it works without pauses for that time instead. With --at the first phase begins at that
time (seconds since 1970), so that several jobs begin together. One JSON line an event: ready {pace}, done {seconds,
iterations, wrong}; after each pause first {seconds}: from the launch of its first work until that is done.
"""

import argparse
import json
import time

import torch

BLOCK = 256 << 20


def say(event, **what):
    print(json.dumps({"event": event, "time": time.time(), **what}), flush=True)


class Memory:
    def __init__(self, size):
        self.blocks = [torch.full((BLOCK // 4,), number, dtype=torch.int32, device="cuda") for number in range(size // BLOCK)]
        self.rounds = [0] * len(self.blocks)
        self.next = 0

    def work(self, iterations):
        for _ in range(iterations):
            self.blocks[self.next] += 1
            self.rounds[self.next] += 1
            self.next = (self.next + 1) % len(self.blocks)
        torch.cuda.synchronize()

    def wrong(self):
        return sum(int((block != number + rounds).sum()) for number, (block, rounds) in enumerate(zip(self.blocks, self.rounds)))


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--size", type=int, required=True)
    options.add_argument("--phases", type=int, default=3)
    options.add_argument("--work", type=float, default=5)
    options.add_argument("--pause", type=float, default=5)
    options.add_argument("--pace", type=float)
    options.add_argument("--seconds", type=float)
    options.add_argument("--at", type=float)
    o = options.parse_args()
    memory = Memory(o.size)
    if not o.pace:
        memory.work(200)
        begin = time.monotonic()
        memory.work(2000)
        o.pace = 2000 / (time.monotonic() - begin)
    say("ready", pace=o.pace)
    if o.at:
        time.sleep(max(0, o.at - time.time()))
    begin = time.monotonic()
    if o.seconds:
        while time.monotonic() < begin + o.seconds:
            memory.work(200)
    else:
        for _ in range(o.phases):
            start = time.monotonic()
            memory.work(1)
            say("first", seconds=time.monotonic() - start)
            left = int(o.pace * o.work) - 1
            while left > 0:
                memory.work(min(left, 200))
                left -= 200
            time.sleep(o.pause)
    say("done", seconds=time.monotonic() - begin, iterations=sum(memory.rounds), wrong=memory.wrong())


main()

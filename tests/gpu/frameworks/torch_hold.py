#!/usr/bin/env python3
"""Holds random data on the GPU and works lightly beside it, for suspend, resume and move.

Usage: torch_hold.py [--size 10GiB] [--every SECONDS] [--still] [--compile] [--driver]

JSON lines on standard output, times of CLOCK_MONOTONIC in seconds:
  {"event": "ready", "pid", "bytes", "hash", "t"}               the data is there
  {"event": "progress", "ticks", "longest_pause_s", "t"}        every --every seconds; the pause since the last answer to "pause"
  {"event": "paused", "from", "to", "seconds"}                  at once after each pause above 50 ms
A line on standard input is obeyed: "verify" answers with {"event": "verify", "wrong_bytes", "hash", "same", "seconds"}, "pause"
with {"event": "pause", "longest_pause_s"} and starts over, "change PART" changes one byte in that part of all chunks of 2 MiB
(0 to 1, spread evenly) and answers with {"event": "change", "bytes", "hash"}, "renew" fills the memory anew and answers with
{"event": "renew", "hash"}, "cell" works on the first block and answers with {"event": "cell", "wrong_bytes", "seconds"},
"quit" or the end of the input ends. Exit status 4: data was wrong.
--still: no GPU call but for a line of the input, as a notebook. --compile: the work is a function of torch.compile, whose
compile workers stay. --driver: without PyTorch, for the simulated driver.
"""

import argparse
import hashlib
import os
import random
import select
import sys
import time

from common import GIB, MIB, say

PAUSE = 0.05  # seconds; a tick takes a few milliseconds
CHUNK = 2 * MIB


class Changes:
    """Which bytes of which block differ from what its seed gives: by their lowest bit."""

    def __init__(self):
        self.of_block = {}

    def draw(self, sizes, part):
        """Places of one byte in that part of all chunks, as (block, offset)."""
        chunks = [(number, start) for number, size in enumerate(sizes) for start in range(0, size, CHUNK)]
        count = min(len(chunks), max(1, round(len(chunks) * part)))
        return [(number, start + random.randrange(min(CHUNK, sizes[number] - start)))
                for number, start in (chunks[i * len(chunks) // count] for i in range(count))]

    def toggle(self, number, offset):
        self.of_block.setdefault(number, set()).symmetric_difference_update({offset})

    def of(self, number):
        return sorted(self.of_block.get(number, ()))


class TorchData:
    """Blocks that are each made from a seed, so that the program can make them again and compare byte for byte."""

    def __init__(self, size, compiled=False, block=256 * MIB):
        import torch
        self.torch = torch
        self.light = torch.zeros(1024, device="cuda")
        self.work = (torch.compile if compiled else lambda work: work)(lambda x: (x * 3 + 1).sin().cumsum(0) + x)
        sizes = [block] * (size // block) + ([size % block] if size % block else [])
        self.changes, self.round = Changes(), 0
        self.blocks = [self._make(number, each) for number, each in enumerate(sizes)]
        torch.cuda.synchronize()

    def _make(self, number, size):
        generator = self.torch.Generator(device="cuda").manual_seed(self.round * 10000 + number + 1)
        block = self.torch.randint(0, 256, (size,), dtype=self.torch.uint8, device="cuda", generator=generator)
        if places := self.changes.of(number):
            block[self.torch.tensor(places, device="cuda")] ^= 1
        return block

    def change(self, part):
        places = self.changes.draw([block.numel() for block in self.blocks], part)
        for number, offset in places:
            self.blocks[number][offset] ^= 1
            self.changes.toggle(number, offset)
        self.torch.cuda.synchronize()
        return len(places)

    def renew(self):
        self.changes, self.round = Changes(), self.round + 1
        for number, block in enumerate(self.blocks):
            block.copy_(self._make(number, block.numel()))
        self.torch.cuda.synchronize()

    def tick(self):
        self.work(self.light.add_(1))
        self.torch.cuda.synchronize()

    def digest(self):
        sha = hashlib.sha256()
        for block in self.blocks:
            weights = block[: block.numel() // 8 * 8].view(self.torch.int64)
            sha.update(str((int(weights.sum()), int((weights ^ (weights >> 17)).sum()))).encode())
        return sha.hexdigest()[:16]

    def wrong_bytes(self, count=None):
        """Of the first `count` blocks."""
        return sum(int((block != self._make(number, block.numel())).sum()) for number, block in enumerate(self.blocks[:count]))


class DriverData:
    """The same with the CUDA driver alone; small, since the data passes through Python."""

    def __init__(self, size, compiled=False, block=4 * MIB):
        if compiled:
            raise SystemExit("torch_hold: --compile needs PyTorch")
        from driver import Device
        self.device = Device()
        sizes = [block] * (size // block) + ([size % block] if size % block else [])
        self.blocks, self.changes, self.round = [], Changes(), 0
        for number, each in enumerate(sizes):
            address = self.device.allocate(each)
            self.device.write(address, self._make(number, each))
            self.blocks.append((address, each))
        self.light = self.device.allocate(4096)

    def _make(self, number, size):
        block = bytearray(random.Random(self.round * 10000 + number + 1).randbytes(size))
        for offset in self.changes.of(number):
            block[offset] ^= 1
        return bytes(block)

    def change(self, part):
        places = self.changes.draw([size for _, size in self.blocks], part)
        for number, offset in places:
            address = self.blocks[number][0] + offset
            self.device.write(address, bytes([self.device.read(address, 1)[0] ^ 1]))
            self.changes.toggle(number, offset)
        return len(places)

    def renew(self):
        self.changes, self.round = Changes(), self.round + 1
        for number, (address, size) in enumerate(self.blocks):
            self.device.write(address, self._make(number, size))

    def tick(self):
        self.device.fill(self.light, 1, 1024)
        self.device.synchronize()

    def digest(self):
        sha = hashlib.sha256()
        for address, size in self.blocks:
            sha.update(self.device.read(address, size))
        return sha.hexdigest()[:16]

    def wrong_bytes(self, count=None):
        wrong = 0
        for number, (address, size) in enumerate(self.blocks[:count]):
            there, right = self.device.read(address, size), self._make(number, size)
            wrong += 0 if there == right else sum(a != b for a, b in zip(there, right))
        return wrong


def size_of(text):
    for suffix, factor in (("GiB", GIB), ("MiB", MIB), ("", 1)):
        if text.endswith(suffix) and text[: len(text) - len(suffix)].isdigit():
            return int(text[: len(text) - len(suffix)]) * factor
    raise argparse.ArgumentTypeError(f"'{text}' is no size")


class Commands:
    """The lines of standard input that are available, without waiting; None at its end."""

    def __init__(self):
        self.text, self.ended = b"", False

    def take(self):
        while not self.ended and select.select([0], [], [], 0)[0]:
            chunk = os.read(0, 4096)
            self.ended = not chunk
            self.text += chunk
        *lines, self.text = self.text.split(b"\n")
        return [line.decode().strip() for line in lines] + ([None] if self.ended else [])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=size_of, default=10 * GIB)
    parser.add_argument("--every", type=float, default=0.25)
    parser.add_argument("--still", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--driver", action="store_true")
    arguments = parser.parse_args()
    data = (DriverData if arguments.driver else TorchData)(arguments.size, arguments.compile)
    at_start, commands, wrong = data.digest(), Commands(), 0
    data.tick()
    say(event="ready", pid=os.getpid(), bytes=arguments.size, hash=at_start, t=time.monotonic())
    ticks, longest, last = 0, 0.0, time.monotonic()
    told = last
    while True:
        if arguments.still:
            select.select([0], [], [])
            last = time.monotonic()
        else:
            data.tick()
            ticks += 1
        now = time.monotonic()
        longest = max(longest, now - last)
        if now - last > PAUSE:
            say(event="paused", **{"from": last, "to": now}, seconds=now - last)
        last = now
        if now - told >= arguments.every:
            say(event="progress", ticks=ticks, longest_pause_s=longest, t=now)
            told = now
        for line in commands.take():
            if line in (None, "quit"):
                say(event="done", ticks=ticks, longest_pause_s=longest, wrong_bytes=wrong, t=time.monotonic())
                sys.exit(4 if wrong else 0)
            if line == "verify":
                start, found, after = time.monotonic(), data.wrong_bytes(), data.digest()
                wrong += found
                say(event="verify", wrong_bytes=found, hash=after, same=after == at_start, seconds=time.monotonic() - start)
                wrong += after != at_start and not found
            elif line == "cell":
                start = time.monotonic()
                data.tick()
                found = data.wrong_bytes(1)
                wrong += found
                say(event="cell", wrong_bytes=found, seconds=time.monotonic() - start)
            elif line == "pause":
                say(event="pause", longest_pause_s=longest, t=last)
                longest = 0.0
            elif line and line.startswith("change "):
                changed = data.change(float(line.split()[1]))
                at_start = data.digest()
                say(event="change", bytes=changed, hash=at_start)
            elif line == "renew":
                data.renew()
                at_start = data.digest()
                say(event="renew", hash=at_start)
        last = time.monotonic()  # a pause that was asked for does not count


if __name__ == "__main__":
    main()

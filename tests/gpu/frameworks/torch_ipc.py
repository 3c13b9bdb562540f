#!/usr/bin/env python3
"""Passes tensors between processes by torch.multiprocessing (CUDA's legacy IPC), with work before, between and after.

Usage: torch_ipc.py [--size BYTES] [--rounds N]

The child reads the parent's data and writes into the same memory; the parent checks it. Ends with one JSON line, done
{seconds, rounds, wrong, time}.
"""

import argparse
import json
import time

import torch
import torch.multiprocessing as processes


def child(inbox, outbox):
    while (tensor := inbox.get()) is not None:
        wrong = int((tensor != tensor[0]).sum())
        tensor += 1
        torch.cuda.synchronize()
        outbox.put((int(tensor[-1]), wrong))
        del tensor


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--size", type=int, default=64 << 20)
    options.add_argument("--rounds", type=int, default=20)
    o = options.parse_args()
    begin, wrong = time.monotonic(), 0
    context = processes.get_context("spawn")
    inbox, outbox = context.Queue(), context.Queue()
    other = context.Process(target=child, args=(inbox, outbox))
    other.start()
    for number in range(o.rounds):
        tensor = torch.full((o.size // 4,), number, dtype=torch.int32, device="cuda")
        inbox.put(tensor)
        last, bad = outbox.get(timeout=60)
        wrong += bad + (last != number + 1) + int((tensor != number + 1).sum())
        del tensor
    inbox.put(None)
    other.join()
    print(json.dumps({"event": "done", "seconds": time.monotonic() - begin, "rounds": o.rounds, "wrong": wrong, "time": time.time()}))


if __name__ == "__main__":
    main()

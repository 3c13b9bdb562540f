"""A job of two processes that wait for each other on the GPU, as an all-reduce does, for share_meeting_test.py and
gang_faults_test.py.

Usage: meeting_program.py STOP [--size BYTES] [--ahead N] [--rest SECONDS] [--by-host]
                               [--second HABIT] [--only 0|1 --page FILE]

Each process sees one of the GPUs (the same if there is only one) and has memory there that it checks at its end. In
each step a process writes the step's number for the other and waits on its stream until the other has written it:
cuStreamWriteValue32 and cuStreamWaitValue32 on a page that both have registered. On a real GPU a kernel of NCCL spins
on such a flag; the simulated driver's stream polls the word, so the other process must still make its later call. The
first process queues N steps ahead, the second rests before each step: so the work of the first always waits for a later
call of the second, and comes to rest only if the second may make that call.

With --by-host the second writes its numbers from its host, without a call, and each only when the first has queued the
next step. So the first never comes to rest while it is held, whatever calls of the second are let through.

--second says what the second process does besides: `captures`: it records a CUDA graph for most of each step;
`grows`: in each step it takes another block of SIZE bytes, ten at most; `old`: it passes for a process with an older
libgpuman.so, which does not tell how it comes to rest and lets no single calls through. With --only this is one of the
two processes, and both have the page of FILE: they may be two jobs.

Ends when the file STOP exists or its directory is gone; the file STOP.steps has the number of steps. Each process
prints a line of JSON at its end: steps, wrong. Exit status 0: data right, 4: wrong, 5: a call of the driver failed.
"""

import argparse
import ctypes
import json
import mmap
import os
import pathlib
import sys
import threading
import time

import share_program
from share_program import Block, cuda, must, size_t, u64

GEQ, PORTABLE, MAPPED = 0, 1, 2
END, QUEUED = 2, 3  # indices of the words that name the last step, and the last that the first process has queued
MOST_BLOCKS = 10
NON_BLOCKING, THREAD_LOCAL = 1, 1
# Of a ledger (docs/shim-protocol.md).
FIRST_SLOT, SLOT_BYTES, SLOTS, SLOT_FLAGS, TAKES_CALL_GRANTS = 4096, 384, 1024, 4, 4


class Nothing:
    def before_step(self, options, blocks):
        pass


class Captures:
    """Records an empty graph for a long time."""

    def __init__(self):
        self.stream = ctypes.c_void_p()
        must(cuda.cuStreamCreate(ctypes.byref(self.stream), NON_BLOCKING), "cuStreamCreate")

    def before_step(self, options, blocks):
        graph = ctypes.c_void_p()
        must(cuda.cuStreamBeginCapture_v2(self.stream, THREAD_LOCAL), "cuStreamBeginCapture")
        time.sleep(0.1)
        must(cuda.cuStreamEndCapture(self.stream, ctypes.byref(graph)), "cuStreamEndCapture")
        must(cuda.cuGraphDestroy(graph), "cuGraphDestroy")


class Grows:
    def before_step(self, options, blocks):
        if len(blocks) < MOST_BLOCKS:
            blocks.append(Block(options.size))


class Old(Nothing):
    """Takes back all the time what the shim says of itself in the ledger."""

    def __init__(self):
        with open("/proc/self/maps", encoding="utf-8") as maps:
            self.ledger = next(int(line.split("-")[0], 16) for line in maps if "gpuman-ledger" in line)
        threading.Thread(target=self.pass_for_old, daemon=True).start()

    def pass_for_old(self):
        slots = [self.ledger + FIRST_SLOT + number * SLOT_BYTES for number in range(SLOTS)]
        own = next(slot for slot in slots if ctypes.c_uint32.from_address(slot).value == os.getpid())
        flags = ctypes.c_uint32.from_address(own + SLOT_FLAGS)
        while True:
            if flags.value & TAKES_CALL_GRANTS:
                flags.value &= ~TAKES_CALL_GRANTS
            time.sleep(0.0005)


HABITS = {"": Nothing, "captures": Captures, "grows": Grows, "old": Old}


def meet(options, number, page, gpu):
    os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    device, context, stream, word = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), u64()
    must(cuda.cuInit(0), "cuInit")
    must(cuda.cuDeviceGet(ctypes.byref(device), 0), "cuDeviceGet")
    must(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "cuDevicePrimaryCtxRetain")
    must(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")
    must(cuda.cuStreamCreate(ctypes.byref(stream), 1), "cuStreamCreate")
    blocks, habit = [Block(options.size)], HABITS[options.second if number == 1 else ""]()
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    must(cuda.cuMemHostRegister_v2(u64(address), size_t(mmap.PAGESIZE), PORTABLE | MAPPED), "cuMemHostRegister")
    must(cuda.cuMemHostGetDevicePointer_v2(ctypes.byref(word), u64(address), 0), "cuMemHostGetDevicePointer")
    words = (ctypes.c_uint32 * 4).from_buffer(page)
    own, other = u64(word.value + 4 * number), u64(word.value + 4 * (1 - number))
    print(json.dumps({"pid": os.getpid(), "holds": options.size}), flush=True)
    stop = pathlib.Path(options.stop)
    steps, queued, last = 0, 0, None
    progress = os.open(f"{options.stop}.steps", os.O_RDWR | os.O_CREAT, 0o644) if number == 0 else -1
    while last is None or steps < last:
        if number == 0 and last is None and (stop.exists() or not stop.parent.exists()):
            words[END] = last = queued + 1
        last = words[END] or None if last is None else last
        if last is not None and steps >= last:  # the first was slow to say so, and this step was the last
            break
        while queued < steps + (options.ahead if number == 0 else 1) and (last is None or queued < last):
            if number == 1:
                time.sleep(options.rest)
                habit.before_step(options, blocks)
            queued += 1
            if number == 1 and options.by_host:
                while words[QUEUED] <= queued and words[END] != queued:
                    time.sleep(0.001)
                words[number] = queued
                continue
            must(cuda.cuStreamWriteValue32_v2(stream, own, ctypes.c_uint32(queued), 0), "cuStreamWriteValue32")
            must(cuda.cuStreamWaitValue32_v2(stream, other, ctypes.c_uint32(queued), GEQ), "cuStreamWaitValue32")
            if number == 0:
                words[QUEUED] = queued
        while words[1 - number] <= steps:
            time.sleep(0.001)
        steps += 1
        if progress >= 0:
            os.pwrite(progress, b"%12d" % steps, 0)
    must(cuda.cuStreamSynchronize(stream), "cuStreamSynchronize")
    wrong = sum(not block.check() for block in blocks)
    print(json.dumps({"pid": os.getpid(), "steps": steps, "rounds": steps, "wrong": wrong}), flush=True)
    return 4 if wrong else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("stop")
    parser.add_argument("--size", type=int, default=2 << 20)
    parser.add_argument("--ahead", type=int, default=4)
    parser.add_argument("--rest", type=float, default=0.005)
    parser.add_argument("--by-host", action="store_true")
    parser.add_argument("--second", choices=HABITS, default="")
    parser.add_argument("--only", type=int, choices=(0, 1))
    parser.add_argument("--page")
    options = parser.parse_args()
    gpus = os.environ["CUDA_VISIBLE_DEVICES"].split(",")
    if options.only is not None:
        with open(options.page, "r+b") as file:
            return meet(options, options.only, mmap.mmap(file.fileno(), mmap.PAGESIZE), gpus[0])
    page, children = mmap.mmap(-1, mmap.PAGESIZE), []
    for number in range(2):
        child = os.fork()
        if child == 0:
            os._exit(meet(options, number, page, gpus[number % len(gpus)]))
        children.append(child)
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)


if __name__ == "__main__":
    assert share_program.__file__
    sys.exit(main())

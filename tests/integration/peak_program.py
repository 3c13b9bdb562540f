"""Takes and frees memory of the GPU at random, and knows the most that it had, for peak_test.py.

Usage: peak_program.py SEED --context BYTES [--processes N] [--steps N] [--kills N] [--pool]

N processes take turns, one call at a time, so that what all of them have together is known at each moment: cuMemAlloc
and cuMemCreate of multiples of 2 MiB, now and then of more than there is. With --kills so many of them are killed, each
at any instruction, and another takes its place. Prints a line of JSON at its end, with bounds for the most that they
had, BYTES for each context included. `least`: what was surely there at a time; `most`: with the memory of processes
that ended about that time, and what calls took in which a process was killed. Without kills both are the same.
`refused`: how many calls did not get their memory, `asked`: how much the first and the last of these asked for;
`interrupted`: how much each call asked for in which a process was killed, so that nobody knows what became of it. `parts`:
what a single process had when it had most. `processes`: of each one that began, its pid and the bounds of what it had at
most. With --pool a single process takes its memory from the driver's pool, and
says what the driver says of that.
"""

import argparse
import ctypes
import fcntl
import json
import mmap
import os
import random
import signal
import sys
import tempfile
import time

u64, size_t = ctypes.c_uint64, ctypes.c_size_t
GRANULE, OUT_OF_MEMORY = 2 << 20, 2


class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class Properties(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", Location), ("metadata", ctypes.c_void_p),
                ("flags", ctypes.c_uint8 * 8)]


class Shared:
    """What all processes have. The words of `page`: least, most, what there is if the call under way succeeds; what each
    process has; and whether it was killed a moment ago: the kernel closes the files of its mappings later than its others. A
    byte of the file is locked while a process calls, and one by each process as long as it lives."""

    def __init__(self, processes):
        self.processes, self.file = processes, tempfile.TemporaryFile()
        self.file.truncate(mmap.PAGESIZE)
        self.page = mmap.mmap(self.file.fileno(), mmap.PAGESIZE)
        self.interrupted = []  # of the parent
        self.word = (ctypes.c_int64 * (3 + 2 * processes)).from_buffer(self.page)
        # Of refused calls, how many there were, and what the first and the last asked for; of a single process, what it had
        # of each kind when it had most.
        self.refused = (ctypes.c_int64 * 3).from_buffer(self.page, ctypes.sizeof(self.word))
        self.parts = (ctypes.c_int64 * 2).from_buffer(self.page, ctypes.sizeof(self.word) + ctypes.sizeof(self.refused))
        # The most that each process had, and what it will have if its call under way succeeds.
        self.own = (ctypes.c_int64 * (2 * processes)).from_buffer(
            self.page, ctypes.sizeof(self.word) + ctypes.sizeof(self.refused) + ctypes.sizeof(self.parts))

    def __enter__(self):
        fcntl.lockf(self.file, fcntl.LOCK_EX, 1, 0)

    def __exit__(self, *_):
        fcntl.lockf(self.file, fcntl.LOCK_UN, 1, 0)

    def live(self, number):
        fcntl.lockf(self.file, fcntl.LOCK_EX, 1, 1 + number)

    def alive(self, number):
        """The bytes of all processes that live, of which the caller is one; with those of the killed ones, and what a killed
        one was about to take."""
        bytes_ = with_killed = self.word[3 + number]
        for other in set(range(self.processes)) - {number}:
            has, killed = self.word[3 + other], self.word[3 + self.processes + other]
            at_most = max(has, self.own[2 * other + 1]) if killed else has
            try:
                fcntl.lockf(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 1 + other)
            except OSError:
                bytes_ += has
                with_killed += at_most
            else:
                fcntl.lockf(self.file, fcntl.LOCK_UN, 1, 1 + other)
                with_killed += at_most if killed else 0
        return bytes_, with_killed

    def kill(self, pid, number):
        self.word[3 + self.processes + number] = 1
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        time.sleep(0.05)
        with self:
            called = self.own[2 * number + 1]
            if called > self.word[3 + number]:
                self.interrupted.append(called - self.word[3 + number])
            bounds = self.bounds(pid, number)
            self.word[3 + number] = self.word[3 + self.processes + number] = 0
        return bounds

    def bounds(self, pid, number):
        """Of a process that has ended; another may have its number now."""
        own, called = self.own[2 * number:2 * number + 2]
        self.own[2 * number:2 * number + 2] = 0, 0
        return [pid, own, max(own, called)]

    def call(self, number, bytes_, call):
        """One call, while no other process makes one. `bytes_`: what it takes if it succeeds, below 0: what it frees."""
        with self:
            self.word[1] = max(self.word[1], self.word[2])  # a process was killed in its call
            self.word[2] = self.alive(number)[1] + bytes_
            self.own[2 * number + 1] = self.word[3 + number] + bytes_
            status = call()
            if status == OUT_OF_MEMORY:
                self.refused[:] = self.refused[0] + 1, self.refused[1] or bytes_, bytes_
            if status == 0:
                self.word[3 + number] += bytes_
                self.own[2 * number] = max(self.own[2 * number], self.word[3 + number])
                self.word[1] = max(self.word[1], self.word[2])
                self.word[0] = max(self.word[0], self.alive(number)[0])
            self.word[2] = self.own[2 * number + 1] = 0


def work(options, shared, number, seed):
    cuda, draw = ctypes.CDLL("libcuda.so.1"), random.Random(seed)
    device, context, held = ctypes.c_int(), ctypes.c_void_p(), []
    properties = Properties(1, 0, Location(1, 0))

    def begin():
        return (cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), 0) or
                cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) or cuda.cuCtxSetCurrent(context))

    def take(size, made):
        handle = u64()
        status = (cuda.cuMemCreate(ctypes.byref(handle), size_t(size), ctypes.byref(properties), u64(0)) if made
                  else cuda.cuMemAlloc_v2(ctypes.byref(handle), size_t(size)))
        if status == 0:
            held.append((handle, size, made))
        return status

    def free():
        handle, size, made = held.pop(draw.randrange(len(held)))
        shared.call(number, -size, lambda: cuda.cuMemRelease(handle) if made else cuda.cuMemFree_v2(handle))

    shared.live(number)
    shared.call(number, options.context, begin)
    for _ in range(options.steps):
        if held and draw.random() < 0.45:
            free()
        else:
            size = GRANULE * (draw.randrange(1, 40) if draw.random() < 0.9 else 1 << 14)
            made, most = draw.random() < 0.3, shared.word[0]
            shared.call(number, size, lambda: take(size, made))
            if shared.word[0] > most:
                shared.parts[:] = [sum(size for _, size, is_made in held if is_made == kind) for kind in (False, True)]
    while held:
        free()
    shared.call(number, -options.context, lambda: cuda.cuDevicePrimaryCtxRelease_v2(device))


def pool(options):
    """Returns the most that the process had, and what the calls asked for that did not get it."""
    cuda, draw = ctypes.CDLL("libcuda.so.1"), random.Random(options.seed)
    device, context, its, now, held = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), u64(), []
    refused, most = [], 0
    failed = (cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), 0) or
              cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) or cuda.cuCtxSetCurrent(context) or
              cuda.cuDeviceGetMemPool(ctypes.byref(its), device))
    for _ in range(options.steps):
        if held and draw.random() < 0.45:
            failed = failed or cuda.cuMemFreeAsync(held.pop(draw.randrange(len(held))), None) or cuda.cuCtxSynchronize()
        else:
            address, size = u64(), draw.randrange(1, 40 << 20) if draw.random() < 0.9 else 1 << 35
            status = cuda.cuMemAllocAsync(ctypes.byref(address), size_t(size), None)
            if status == 0:
                held.append(address)
            elif status == OUT_OF_MEMORY:
                refused.append(size)
            # RESERVED_MEM_CURRENT. Not RESERVED_MEM_HIGH: a real driver fills the device before it says that a call failed.
            failed = failed or cuda.cuMemPoolGetAttribute(its, 5, ctypes.byref(now))
            most = max(most, now.value)
    return 0 if failed else options.context + most, refused


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("seed", type=int)
    parser.add_argument("--context", type=int, required=True)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--pool", action="store_true")
    options = parser.parse_args()
    if options.pool:
        most, refused = pool(options)
        print(json.dumps({"least": most, "most": most, "refused": len(refused), "asked": [refused[0], refused[-1]] if refused else None,
                          "parts": {"pools": most - options.context, "contexts": options.context}}), flush=True)
        return 0
    draw, shared, running, kills = random.Random(options.seed), Shared(options.processes), {}, options.kills
    processes = []

    def start(number):
        seed = draw.random()
        pid = os.fork()
        if pid == 0:
            work(options, shared, number, seed)
            os._exit(0)
        running[pid] = number

    for number in range(options.processes):
        start(number)
    while running:
        if kills:
            time.sleep(draw.random() * 0.02)
            pid = draw.choice(list(running))
            processes.append(shared.kill(pid, running[pid]))
            kills -= 1
        else:
            pid, status = os.wait()
            if status:
                return 5
            processes.append(shared.bounds(pid, running[pid]))
        number = running.pop(pid)
        if kills:
            start(number)
    plain, made = shared.parts
    print(json.dumps({"least": shared.word[0], "most": shared.word[1], "refused": shared.refused[0], "asked": shared.refused[1:],
                      "interrupted": shared.interrupted,
                      "parts": {"allocations": plain, "virtual_memory": made, "contexts": options.context}, "processes": processes}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

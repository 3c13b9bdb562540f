"""A program that shares a GPU, for share_*_test.py: it checks every byte of its memory all the time.

Usage: share_program.py STOP [--blocks N] [--size BYTES] [--bytes N] [--rest SECONDS] [--children N] [--each-its-gpu]
                             [--threads N] [--count FILE]

Each round it reads and compares its blocks and writes new data, so that data of an earlier round would be wrong; then
it rests. With --bytes it changes so many bytes of each block instead, at random, and compares a piece of it; all of it at
the end. Ends when the file STOP exists or its directory is gone; each process prints a line of JSON: rounds, wrong.
Exit status 0: data right, 4: wrong, 5: a call of the driver failed. With --children it forks first; with --each-its-gpu
each child sees only one of the GPUs. With --threads so many threads do it in one context, each with its own blocks, and
each prints its line. With --count the file has the number of rounds so far.
"""

import argparse
import ctypes
import json
import os
import pathlib
import random
import sys
import threading
import time

u64, size_t = ctypes.c_uint64, ctypes.c_size_t
cuda = ctypes.CDLL("libcuda.so.1")


def tell(**what):
    sys.stdout.write(json.dumps({"pid": os.getpid(), **what}) + "\n")  # a line at once: threads tell, too
    sys.stdout.flush()


def must(status, what):
    if status != 0:
        tell(error=f"{what}: {status}")
        os._exit(5)


PERIOD = 1048573  # a prime, so that a page in the place of another, or a byte further on, has other data
PIECE = 4 << 20
libc = ctypes.CDLL(None)
libc.memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]


class Block:
    """Memory of the GPU, and what it has to hold: a pattern that begins a byte later in each round. The data are not
    copied for a comparison: in many programs at once that is most of the work."""

    def __init__(self, size):
        self.size, self.round = size, 0
        tile = random.Random(f"{os.getpid()} {time.monotonic_ns()}").randbytes(PERIOD)
        self.pattern = tile * (size // PERIOD + 2)
        self.expected = ctypes.cast(ctypes.c_char_p(self.pattern), ctypes.c_void_p).value
        self.address, self.read = u64(), ctypes.create_string_buffer(min(size, PIECE))
        must(cuda.cuMemAlloc_v2(ctypes.byref(self.address), size_t(size)), "cuMemAlloc")
        self.write()

    def write(self):
        must(cuda.cuMemcpyHtoD_v2(self.address, ctypes.c_void_p(self.expected + self.round), size_t(self.size)), "cuMemcpyHtoD")

    def is_right(self, at):
        size = min(PIECE, self.size - at)
        must(cuda.cuMemcpyDtoH_v2(self.read, u64(self.address.value + at), size_t(size)), "cuMemcpyDtoH")
        return libc.memcmp(self.read, self.expected + self.round + at, size) == 0

    def check(self):
        """Whether the block has the last round's data; writes the next."""
        right = all(self.is_right(at) for at in range(0, self.size, PIECE))
        self.round = (self.round + 1) % PERIOD
        self.write()
        return right


class ChangedBlock(Block):
    """Of which single bytes are changed at random."""

    def __init__(self, size, count):
        self.count, self.draw = count, random.Random(f"{os.getpid()} bytes")
        super().__init__(size)
        self.holds = bytearray(self.pattern[:size])
        self.pattern = None
        self.expected = ctypes.addressof(ctypes.c_char.from_buffer(self.holds))

    def check(self):
        right = self.is_right(self.draw.randrange(0, self.size, PIECE))
        for _ in range(self.count):
            at = self.draw.randrange(self.size)
            self.holds[at] = (self.holds[at] + self.draw.randrange(1, 256)) % 256
            must(cuda.cuMemcpyHtoD_v2(u64(self.address.value + at), ctypes.c_void_p(self.expected + at), size_t(1)), "cuMemcpyHtoD")
        return right

    def is_whole(self):
        return all(self.is_right(at) for at in range(0, self.size, PIECE))


def work(options):
    device, context = ctypes.c_int(), ctypes.c_void_p()
    must(cuda.cuInit(0), "cuInit")
    must(cuda.cuDeviceGet(ctypes.byref(device), 0), "cuDeviceGet")
    must(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "cuDevicePrimaryCtxRetain")
    codes = []
    others = [threading.Thread(target=lambda: codes.append(make_rounds(context, options))) for _ in range(1, options.threads)]
    for thread in others:
        thread.start()
    codes.append(make_rounds(context, options))
    for thread in others:
        thread.join()
    return max(codes)


def make_rounds(context, options):
    must(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")
    blocks = [ChangedBlock(options.size, options.bytes) if options.bytes else Block(options.size)
              for _ in range(options.blocks)]
    tell(holds=options.blocks * options.size)
    stop, rounds, wrong, last = pathlib.Path(options.stop), 0, 0, False
    count = os.open(options.count, os.O_RDWR | os.O_CREAT, 0o644) if options.count else -1
    while not wrong and not last:
        last = stop.exists() or not stop.parent.exists()
        wrong = sum(not block.check() for block in blocks)
        rounds += 1
        if count >= 0:
            os.pwrite(count, b"%12d" % rounds, 0)
        time.sleep(0 if last else options.rest)
    if options.bytes:
        wrong += sum(not block.is_whole() for block in blocks)
    tell(rounds=rounds, wrong=wrong)
    return 4 if wrong else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("stop")
    parser.add_argument("--blocks", type=int, default=1)
    parser.add_argument("--size", type=int, default=2 << 20)
    parser.add_argument("--bytes", type=int, default=0)
    parser.add_argument("--rest", type=float, default=0)
    parser.add_argument("--children", type=int, default=0)
    parser.add_argument("--each-its-gpu", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--count")
    options = parser.parse_args()
    if options.children == 0:
        return work(options)
    gpus, children = os.environ["CUDA_VISIBLE_DEVICES"].split(","), []
    for number in range(options.children):
        child = os.fork()
        if child == 0:
            if options.each_its_gpu:
                os.environ["CUDA_VISIBLE_DEVICES"] = gpus[number % len(gpus)]
            os._exit(work(options))
        children.append(child)
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)


if __name__ == "__main__":
    sys.exit(main())

"""A job of two processes that share memory on a GPU by CUDA IPC, for suspend_test.py and share_meeting_test.py.

Usage: pair_program.py STOP [--size BYTES] [--shared BYTES] [--rest SECONDS]

Both processes see all GPUs of the job. The first uses the first of them, the second the second, if there is one. Each
has SIZE bytes of its own there. The first has a block of SHARED bytes besides, which the second opens. In each round the first fills that block with a new value and the
second finds it there through its own mapping; both check their own memory. So a byte of the shared block that one of
them does not see any more is wrong in the next round.

Ends when the file STOP exists or its directory is gone; the file STOP.steps has the number of rounds. Each process
prints a line of JSON at its end: rounds, wrong. Exit status 0: data right, 4: wrong, 5: a call of the driver failed.
"""

import argparse
import contextlib
import ctypes
import json
import os
import pathlib
import sys
import time

from share_program import Block, cuda, must, size_t, u64

LAZY_ENABLE_PEER_ACCESS = 1


class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 64)]


def begin(number):
    device, context, count = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_int()
    must(cuda.cuInit(0), "cuInit")
    must(cuda.cuDeviceGetCount(ctypes.byref(count)), "cuDeviceGetCount")
    must(cuda.cuDeviceGet(ctypes.byref(device), number % count.value), "cuDeviceGet")
    must(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "cuDevicePrimaryCtxRetain")
    must(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")


def end(rounds, wrong):
    print(json.dumps({"pid": os.getpid(), "rounds": rounds, "wrong": wrong}), flush=True)
    return 4 if wrong else 0


def first(options, there, back):
    begin(0)
    block, shared, handle = Block(options.size), u64(), Handle()
    must(cuda.cuMemAlloc_v2(ctypes.byref(shared), size_t(options.shared)), "cuMemAlloc")
    must(cuda.cuIpcGetMemHandle(ctypes.byref(handle), shared), "cuIpcGetMemHandle")
    os.write(there, bytes(handle.bytes))
    os.read(back, 1)
    print(json.dumps({"pid": os.getpid(), "holds": options.size}), flush=True)
    progress = os.open(f"{options.stop}.steps", os.O_RDWR | os.O_CREAT, 0o644)
    stop, rounds, wrong = pathlib.Path(options.stop), 0, 0
    while not stop.exists() and stop.parent.exists():
        rounds += 1
        must(cuda.cuMemsetD8_v2(shared, ctypes.c_ubyte(rounds % 251), size_t(options.shared)), "cuMemsetD8")
        must(cuda.cuCtxSynchronize(), "cuCtxSynchronize")
        with contextlib.suppress(BrokenPipeError):  # the other has been killed: this one goes on alone
            os.write(there, bytes([rounds % 251]))
        wrong += not block.check()
        os.read(back, 1)
        os.pwrite(progress, b"%12d" % rounds, 0)
        time.sleep(options.rest)
    return end(rounds, wrong)


def second(options, here, back):
    begin(1)
    block, shared = Block(options.size), u64()
    handle = Handle.from_buffer_copy(os.read(here, 64))
    must(cuda.cuIpcOpenMemHandle_v2(ctypes.byref(shared), handle, LAZY_ENABLE_PEER_ACCESS), "cuIpcOpenMemHandle")
    os.write(back, b"!")
    rounds, wrong, seen = 0, 0, ctypes.create_string_buffer(options.shared)
    while value := os.read(here, 1):
        must(cuda.cuMemcpyDtoH_v2(seen, shared, size_t(options.shared)), "cuMemcpyDtoH")
        wrong += seen.raw != value * options.shared
        wrong += not block.check()
        rounds += 1
        os.write(back, b"!")
    return end(rounds, wrong)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("stop")
    parser.add_argument("--size", type=int, default=2 << 20)
    parser.add_argument("--shared", type=int, default=2 << 20)
    parser.add_argument("--rest", type=float, default=0.005)
    options = parser.parse_args()
    children = []
    to_second, to_first = os.pipe(), os.pipe()
    for work, ends in ((first, (to_second[1], to_first[0])), (second, (to_second[0], to_first[1]))):
        child = os.fork()
        if child == 0:
            for one in {*to_second, *to_first} - {*ends}:
                os.close(one)
            os._exit(work(options, *ends))
        children.append(child)
    for one in (*to_second, *to_first):
        os.close(one)
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)


if __name__ == "__main__":
    sys.exit(main())

"""A program that uses its GPU when it is told to, as a notebook does, for idle_test.py.

Usage: idle_program.py DIRECTORY [--size BYTES] [--children N]

Takes memory and fills it, then does what files in the directory say, one after the other: 1, 2, 3, ... Each has one word:

  check       compares all of its memory, and writes new data
  work        begins work in a stream that the default stream waits for; it ends with `release`
  aside       the same in a stream that nobody waits for
  release     ends that work
  query       asks whether an event is reached (cuEventQuery), as programs do that wait for their work
  event       makes an event, and ends it
  end         compares its memory a last time and ends

Between two words it makes no call. After each it prints a line of JSON: word, right (of a comparison), status (of a call),
seconds. Exit status 0: data right, 4: wrong, 5: a call of the driver failed. With --children the words are for the first
process; the others take memory, wait and make no call before the end.
"""

import argparse
import ctypes
import json
import mmap
import os
import pathlib
import sys
import time

from share_program import Block, cuda, must, u64

GEQ, PORTABLE, MAPPED, NON_BLOCKING = 0, 1, 2, 1


class Program:
    def __init__(self, size):
        device, context = ctypes.c_int(), ctypes.c_void_p()
        must(cuda.cuInit(0), "cuInit")
        must(cuda.cuDeviceGet(ctypes.byref(device), 0), "cuDeviceGet")
        must(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "cuDevicePrimaryCtxRetain")
        must(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")
        self.page = mmap.mmap(-1, mmap.PAGESIZE)
        self.word = ctypes.c_uint32.from_buffer(self.page)
        address = ctypes.addressof(self.word)
        must(cuda.cuMemHostRegister_v2(ctypes.c_void_p(address), mmap.PAGESIZE, PORTABLE | MAPPED), "cuMemHostRegister")
        self.on_gpu = u64()
        must(cuda.cuMemHostGetDevicePointer_v2(ctypes.byref(self.on_gpu), ctypes.c_void_p(address), 0), "cuMemHostGetDevicePointer")
        self.streams = {}
        for name, flags in (("work", 0), ("aside", NON_BLOCKING)):
            self.streams[name] = ctypes.c_void_p()
            must(cuda.cuStreamCreate(ctypes.byref(self.streams[name]), flags), "cuStreamCreate")
        self.event = ctypes.c_void_p()
        must(cuda.cuEventCreate(ctypes.byref(self.event), 0), "cuEventCreate")
        must(cuda.cuEventRecord(self.event, None), "cuEventRecord")
        self.block = Block(size)
        must(cuda.cuCtxSynchronize(), "cuCtxSynchronize")

    def begin(self, name):
        self.word.value = 0
        must(cuda.cuStreamWaitValue32_v2(self.streams[name], self.on_gpu, ctypes.c_uint32(1), GEQ), "cuStreamWaitValue32")

    def do(self, word):
        """Returns what is to be told of the word."""
        if word in ("check", "end"):
            return {"right": self.block.check()}
        if word in ("work", "aside"):
            return self.begin(word) or {}
        if word == "release":
            self.word.value = 1
            return {}
        if word == "query":
            return {"status": cuda.cuEventQuery(self.event)}
        event = ctypes.c_void_p()
        return {"status": cuda.cuEventCreate(ctypes.byref(event), 0) or cuda.cuEventDestroy_v2(event)}


def run(directory, size, words):
    program, number, right = Program(size), 0, True
    print(json.dumps({"pid": os.getpid(), "word": "ready"}), flush=True)
    word = ""
    while word != "end":
        number += 1
        while not (directory / str(number)).exists():
            if not directory.exists():
                return 0
            time.sleep(0.01)
        word = (directory / str(number)).read_text(encoding="utf-8")
        if word != "end" and not words:
            continue
        began = time.monotonic()
        told = program.do(word)
        right = right and told.get("right", True)
        print(json.dumps({"pid": os.getpid(), "word": word, "seconds": time.monotonic() - began, **told}), flush=True)
    return 0 if right else 4


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--size", type=int, default=96 << 20)
    parser.add_argument("--children", type=int, default=0)
    options = parser.parse_args()
    children = []
    for _ in range(options.children):
        child = os.fork()
        if child == 0:
            os._exit(run(options.directory, options.size, False))
        children.append(child)
    status = run(options.directory, options.size, True)
    return max([status] + [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])


if __name__ == "__main__":
    sys.exit(main())

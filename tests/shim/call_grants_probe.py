"""A program for call_grants_test.py whose threads make given calls: call_grants_probe.py WORD THREAD…

A THREAD is DEVICE:CALL[*COUNT],… ; each has a stream and memory of its own. Calls: set (of its memory, in its stream),
wait (its stream waits until the word in the file WORD is 1), write (its stream writes that 1), sync (waits for its
stream), begin, end (of a capture), alloc, export, destroy (its context).

Prints "ready"; then a line of standard input is one of: go N (thread N begins), log (prints the calls that have
returned, as [[thread, call, status]…]), release (writes the word). Waits for its threads at the end of standard input.
"""

import ctypes
import json
import mmap
import os
import sys
import threading

import probe
from probe import MIB, OK, allocate, cuda, pointer, size_t, u64


def word_in(path):
    """The address of the word: a page that other processes of the test share."""
    with open(path, "r+b") as file:
        page = mmap.mmap(file.fileno(), mmap.PAGESIZE)
    address = ctypes.addressof(ctypes.c_uint32.from_buffer(page))
    return page, address


class Thread(threading.Thread):
    def __init__(self, number, text, word, log):
        super().__init__()
        device, _, calls = text.partition(":")
        self.number, self.device, self.word, self.log = number, int(device), word, log
        self.calls = [name for one in calls.split(",") for name, _, count in [one.partition("*")]
                      for _ in range(int(count or 1))]
        self.context, self.stream, self.graph = pointer(), pointer(), pointer()
        assert cuda.cuCtxCreate_v2(ctypes.byref(self.context), 0, self.device) == OK
        status, self.memory = allocate(2 * MIB)
        assert status == OK and cuda.cuStreamCreate(ctypes.byref(self.stream), 1) == OK
        self.told = threading.Event()

    def run(self):
        self.told.wait()
        for name in self.calls:
            if name != "destroy":  # no call of its own: this passes no gate
                assert cuda.cuCtxSetCurrent(self.context) == OK
            self.log.append([self.number, name, getattr(self, "call_" + name)()])

    def call_set(self):
        return cuda.cuMemsetD8Async(u64(self.memory), ctypes.c_ubyte(7), size_t(4096), self.stream)

    def call_wait(self):
        return cuda.cuStreamWaitValue32_v2(self.stream, u64(self.word), ctypes.c_uint32(1), 0)

    def call_write(self):
        return cuda.cuStreamWriteValue32_v2(self.stream, u64(self.word), ctypes.c_uint32(1), 0)

    def call_sync(self):
        return cuda.cuStreamSynchronize(self.stream)

    def call_begin(self):
        return cuda.cuStreamBeginCapture_v2(self.stream, 1)

    def call_end(self):
        return cuda.cuStreamEndCapture(self.stream, ctypes.byref(self.graph))

    def call_alloc(self):
        return allocate(2 * MIB)[0]

    def call_export(self):
        status, handle = probe.create(2 * MIB, shareable=True)
        descriptor = ctypes.c_int()
        return status or cuda.cuMemExportToShareableHandle(ctypes.byref(descriptor), u64(handle), 1, u64(0))

    def call_destroy(self):
        return cuda.cuCtxDestroy_v2(self.context)


def main():
    page, word = word_in(sys.argv[1])
    assert cuda.cuInit(0) == OK
    log = []
    threads = [Thread(number, text, word, log) for number, text in enumerate(sys.argv[2:])]
    assert cuda.cuMemHostRegister_v2(pointer(word), size_t(mmap.PAGESIZE), 1) == OK
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    for line in sys.stdin:
        verb, *words = line.split()
        if verb == "go":
            threads[int(words[0])].told.set()
        elif verb == "release":
            page[0:4] = (1).to_bytes(4, sys.byteorder)
        else:
            print(json.dumps(log), flush=True)
    for thread in threads:
        thread.told.set()
        thread.join()
    print(json.dumps(log), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()

"""Small CUDA programs for ipc_test.py, as in evict_probe.py: they share memory by legacy IPC.

Handles are read and printed as hexadecimal digits.
"""

import ctypes
import json
import os
import sys

import evict_probe
import probe
from evict_probe import get, put, ready
from probe import MIB, OK, allocate, cuda, free, pointer, size_t, start, u64

EDGE = 4096  # bytes at each end that the programs write and read


class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 64)]


def share(address):
    handle = Handle()
    status = cuda.cuIpcGetMemHandle(ctypes.byref(handle), u64(address))
    return status, bytes(handle.bytes).hex()


def open_handle(text, flags=1):
    address = u64()
    handle = Handle.from_buffer_copy(bytes.fromhex(text))
    return cuda.cuIpcOpenMemHandle_v2(ctypes.byref(address), handle, flags), address.value


def close(address):
    return cuda.cuIpcCloseMemHandle(u64(address))


def ends(address, size):
    return [address] if size <= EDGE else [address, address + size - EDGE]


def fill(address, size, value):
    for at in ends(address, size):
        put(at, bytes([value]) * min(size, EDGE))


def has(address, size, value):
    return all(get(at, min(size, EDGE)) == bytes([value]) * min(size, EDGE) for at in ends(address, size))


def told_range(address):
    base, length, capable = u64(), size_t(), ctypes.c_uint(7)
    assert cuda.cuMemGetAddressRange_v2(ctypes.byref(base), ctypes.byref(length), u64(address)) == OK
    assert cuda.cuPointerGetAttribute(ctypes.byref(capable), 10, u64(address)) == OK
    return [address - base.value, length.value, capable.value]


def exports():
    """Allocates blocks of the given sizes and fills each with its number. A line "share" prints their handles; "holds
    N" prints whether all of their bytes are N; "free", "destroy" and "make SIZE…" do that, and "user UID" becomes that
    user."""
    _, context = start()
    sizes, blocks = [], []

    def make(words):
        sizes[:] = map(int, words)
        blocks[:] = [allocate(size)[1] for size in sizes]
        for number, (address, size) in enumerate(zip(blocks, sizes)):
            fill(address, size, number + 1)
    make(sys.argv[2:])
    ready()
    for line in sys.stdin:
        what = line.split()
        if what[0] == "share":
            answer = [share(address) for address in blocks]
        elif what[0] == "inside":
            answer = [share(address + size // 2) for address, size in zip(blocks, sizes)]
        elif what[0] == "holds":
            answer = [has(address, size, number + int(what[1]))
                      for number, (address, size) in enumerate(zip(blocks, sizes))]
        elif what[0] == "range":
            answer = [told_range(address) for address in blocks]
        elif what[0] == "open":
            answer = open_handle(what[1])[0]
        elif what[0] == "free":
            answer = [free(address) for address in blocks]
        elif what[0] == "destroy":
            answer = cuda.cuCtxDestroy_v2(context)
        elif what[0] == "make":
            answer = make(what[1:])
        elif what[0] == "user":
            answer = os.setuid(int(what[1]))
        print(json.dumps(answer), flush=True)
    return {}


def shares_one_of_two():
    """Reports at each line whether both are unchanged."""
    start()
    sizes = [4 * MIB, 8 * MIB]
    blocks = [allocate(size)[1] for size in sizes]
    for address, size in zip(blocks, sizes):
        fill(address, size, 9)
    assert share(blocks[0])[0] == OK
    ready()
    for _ in sys.stdin:
        print(json.dumps({"good": all(has(address, size, 9) for address, size in zip(blocks, sizes))}), flush=True)
    return {}


def imports():
    """Lines: "open HANDLE SIZE", "holds N" (of what is open), "fill N", "close", "destroy"."""
    _, context = start()
    opened = []
    ready()
    for line in sys.stdin:
        what = line.split()
        if what[0] == "open":
            status, address = open_handle(what[1])
            if status == OK:
                opened.append((address, int(what[2])))
            answer = status
        elif what[0] == "again":
            answer = [open_handle(what[1]) == (OK, opened[-1][0]), close(opened[-1][0])]
        elif what[0] == "flags":
            answer = open_handle(what[1], 0)[0]
        elif what[0] == "holds":
            answer = [has(address, size, number + int(what[1])) for number, (address, size) in enumerate(opened)]
        elif what[0] == "fill":
            for number, (address, size) in enumerate(opened):
                fill(address, size, number + int(what[1]))
            answer = None
        elif what[0] == "whole":
            # One copy across all pieces.
            address, size = opened[-1]
            answer = cuda.cuMemsetD8_v2(u64(address), ctypes.c_ubyte(int(what[1])), size_t(size))
        elif what[0] == "free":
            answer = [free(address) for address, _ in opened]
        elif what[0] == "close":
            answer = [close(address) for address, _ in opened]
            opened.clear()
        elif what[0] == "destroy":
            answer = cuda.cuCtxDestroy_v2(context)
        print(json.dumps(answer), flush=True)
    return {}


def shares_with_a_child():
    """A child, which uses the driver only after the fork, opens memory that its parent shares."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        handle = os.read(reading, 128).decode()
        start()
        status, opened = open_handle(handle)
        good = status == OK and has(opened, 3 * MIB, 5)
        if good:
            fill(opened, 3 * MIB, 6)
        os._exit(0 if good else 1)
    start()
    address = allocate(3 * MIB)[1]
    fill(address, 3 * MIB, 5)
    status, handle = share(address)
    assert status == OK, status
    os.write(writing, handle.encode())
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return {"child": status, "good": has(address, 3 * MIB, 6), "freed": free(address)}


def shares_what_others_made():
    """The driver's answers for memory of other calls."""
    start()
    status, handle = probe.create(2 * MIB)
    assert status == OK
    address = u64()
    assert cuda.cuMemAddressReserve(ctypes.byref(address), size_t(2 * MIB), size_t(0), u64(0), u64(0)) == OK
    assert cuda.cuMemMap(address, size_t(2 * MIB), size_t(0), u64(handle), u64(0)) == OK
    managed, pooled, stream = u64(), u64(), pointer()
    assert cuda.cuMemAllocManaged(ctypes.byref(managed), size_t(2 * MIB), 1) == OK
    assert cuda.cuStreamCreate(ctypes.byref(stream), 1) == OK
    assert cuda.cuMemAllocAsync(ctypes.byref(pooled), size_t(2 * MIB), stream) == OK
    mine = allocate(2 * MIB)[1]
    return [share(address.value)[0], share(managed.value)[0], share(pooled.value)[0], share(12345)[0],
            cuda.cuIpcGetMemHandle(None, u64(mine)), close(mine), close(12345)]


if __name__ == "__main__":
    name = sys.argv[1]
    one = globals().get(name) or getattr(evict_probe, name, None) or getattr(probe, name)
    print(json.dumps(one()), flush=True)

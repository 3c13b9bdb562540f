"""Allocates memory of the GPU from known lines, for trace_test.py.

Usage: trace_program.py WHAT

The test knows the lines by the comments at their ends. WHAT: a function of this file.
"""

import ctypes
import os
import pathlib
import resource
import sys
import threading
import time

MIB = 1 << 20
u64, size_t = ctypes.c_uint64, ctypes.c_size_t
free_of_lock, with_lock = ctypes.CDLL("libcuda.so.1"), ctypes.PyDLL("libcuda.so.1")  # the interpreter's lock
TRACES = pathlib.Path(os.environ.get("GPUMAN_SHIM_TRACE", "/nowhere"))


def take(size, cuda=free_of_lock):
    address = u64()
    status = cuda.cuMemAlloc_v2(ctypes.byref(address), size_t(size))  # line: take
    return address if status == 0 else None


def begin():
    device, context = ctypes.c_int(), ctypes.c_void_p()
    failed = (free_of_lock.cuInit(0) or free_of_lock.cuDeviceGet(ctypes.byref(device), 0) or
              free_of_lock.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) or free_of_lock.cuCtxSetCurrent(context))
    assert not failed, failed
    return context


class Net:
    def forward(self, size):
        address = u64()
        assert free_of_lock.cuMemAlloc_v2(ctypes.byref(address), size_t(size)) == 0  # line: forward
        return address


def holds():
    """At the peak 3 times 64 MiB of Net.forward and 32 MiB with the lock; then a refusal with 160 MiB."""
    begin()
    big = [Net().forward(64 * MIB) for _ in range(3)]
    address = u64()
    assert with_lock.cuMemAlloc_v2(ctypes.byref(address), size_t(32 * MIB)) == 0  # line: locked
    assert free_of_lock.cuMemFree_v2(big.pop()) == 0
    asked = u64()
    assert free_of_lock.cuMemAlloc_v2(ctypes.byref(asked), size_t(1024 * MIB)) == 2  # line: refused


def small():
    begin()
    for _ in range(4000):
        address = u64()
        free_of_lock.cuMemAlloc_v2(ctypes.byref(address), size_t(16384))  # line: small


def freed_at_last():
    begin()
    for _ in range(500):
        address = take(4 * MIB)
        assert free_of_lock.cuMemFree_v2(address) == 0


def waits():
    begin()
    take(64 * MIB)
    print("waits", flush=True)
    time.sleep(1000)


def threads():
    context = begin()

    def in_thread():
        free_of_lock.cuCtxSetCurrent(context)
        address = u64()
        assert free_of_lock.cuMemAlloc_v2(ctypes.byref(address), size_t(64 * MIB)) == 0  # line: thread

    workers = [threading.Thread(target=in_thread) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def forks():
    """A child for itself, each after the other: none holds what another held. Then the parent."""
    for _ in range(3):
        child = os.fork()
        if child == 0:
            begin()
            take(64 * MIB)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    begin()
    take(32 * MIB)


def kinds():
    """Memory of each kind, half of which is freed."""
    begin()

    class Properties(ctypes.Structure):
        _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", ctypes.c_int * 2),
                    ("metadata", ctypes.c_void_p), ("flags", ctypes.c_uint8 * 8)]

    properties = Properties(1, 0, (1, 0))
    made, pooled = [u64(), u64()], [u64(), u64()]
    for handle in made:
        assert free_of_lock.cuMemCreate(ctypes.byref(handle), size_t(8 * MIB), ctypes.byref(properties), u64(0)) == 0  # line: made
    for address in pooled:
        assert free_of_lock.cuMemAllocAsync(ctypes.byref(address), size_t(16 * MIB), None) == 0  # line: pooled
    assert free_of_lock.cuMemRelease(made[0]) == 0
    assert free_of_lock.cuMemFreeAsync(pooled[0], None) == 0
    assert free_of_lock.cuMemAlloc_v2(ctypes.byref(u64()), size_t(1 << 40)) == 2  # line: kinds


def without_directory():
    TRACES.rmdir()
    begin()
    assert take(64 * MIB)


def with_small_files():
    """A write beyond this limit would end the process by SIGXFSZ. Each call has another stack."""

    def deep(ways, depth):
        if depth == 0:
            assert free_of_lock.cuMemFree_v2(take(65536)) == 0
        elif ways & 1:
            deep(ways >> 1, depth - 1)
        else:
            deep(ways >> 1, depth - 1)

    begin()
    resource.setrlimit(resource.RLIMIT_FSIZE, (128 << 10, 128 << 10))
    for ways in range(8000):
        deep(ways, 13)


def closes_all():
    """What the program opens under the number of the trace's file stays as it is."""
    begin()
    assert take(4 * MIB)
    links = {name: f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")}
    kept = {name for name, link in links.items() if os.path.exists(link) and ".trace" in os.readlink(link)}
    assert kept, links
    for name in kept:
        os.dup2(os.open("/dev/shm", os.O_TMPFILE | os.O_RDWR), int(name))
    for _ in range(100):
        assert take(4 * MIB)
    for name in kept:
        assert os.fstat(int(name)).st_size == 0, name


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print("done", flush=True)

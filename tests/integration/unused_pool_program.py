"""Takes GPU memory of four kinds, then more than its limit lets it have; for why_test.py.

Usage: unused_pool_program.py

200 MiB of cuMemAlloc, 150 MiB of cuMemCreate, and 2 MiB of the driver's pool, which takes a piece of 32 MiB for them and
keeps the rest for nothing: no program can give back a piece of which a part is used. Then it asks for 512 MiB. Exit
status 3: it was refused that; 5: another call failed.
"""

import ctypes
import os

u64, size_t, MIB = ctypes.c_uint64, ctypes.c_size_t, 1 << 20
cuda = ctypes.CDLL("libcuda.so.1")


class Properties(ctypes.Structure):
    """Of memory on GPU 0."""
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", ctypes.c_int * 2), ("metadata", ctypes.c_void_p),
                ("flags", ctypes.c_uint8 * 8)]


def must(status):
    if status != 0:
        os._exit(5)


def allocate(size):
    return cuda.cuMemAlloc_v2(ctypes.byref(u64()), size_t(size))


device, context, made = ctypes.c_int(), ctypes.c_void_p(), u64()
must(cuda.cuInit(0))
must(cuda.cuDeviceGet(ctypes.byref(device), 0))
must(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
must(cuda.cuCtxSetCurrent(context))
must(allocate(200 * MIB))
must(cuda.cuMemCreate(ctypes.byref(made), size_t(150 * MIB), ctypes.byref(Properties(1, 0, (1, 0))), u64(0)))
must(cuda.cuMemAllocAsync(ctypes.byref(u64()), size_t(2 * MIB), None))
must(cuda.cuCtxSynchronize())
os._exit(3 if allocate(512 * MIB) == 2 else 5)

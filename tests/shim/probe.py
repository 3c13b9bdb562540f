"""Small CUDA programs for shim_test.py: `probe.py NAME [ARGUMENT…]` prints one JSON object.

They find the driver as most programs do: by dlsym in libcuda.so.1, here through ctypes.
"""

import ctypes
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import uuid

MIB = 1 << 20
OK, INVALID_VALUE, OUT_OF_MEMORY, NOT_INITIALIZED = 0, 1, 2, 3
INVALID_CONTEXT, CONTEXT_IS_DESTROYED = 201, 709

cuda = ctypes.CDLL("libcuda.so.1")
u64, size_t, pointer = ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p


def start(flags=0):
    """Makes a context on device 0 current."""
    assert cuda.cuInit(0) == OK
    context = pointer()
    status = cuda.cuCtxCreate_v2(ctypes.byref(context), flags, 0)
    return status, context


def allocate(size):
    address = u64()
    return cuda.cuMemAlloc_v2(ctypes.byref(address), size_t(size)), address.value


def free(address):
    return cuda.cuMemFree_v2(u64(address))


def info():
    free_bytes, total = size_t(), size_t()
    assert cuda.cuMemGetInfo_v2(ctypes.byref(free_bytes), ctypes.byref(total)) == OK
    return free_bytes.value, total.value


class Prop(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handle_types", ctypes.c_int), ("location_type", ctypes.c_int),
                ("location_id", ctypes.c_int), ("win32", pointer), ("flags", ctypes.c_ubyte * 8)]


def create(size, shareable=False):
    handle, prop = u64(), Prop(1, 1 if shareable else 0, 1, 0)
    return cuda.cuMemCreate(ctypes.byref(handle), size_t(size), ctypes.byref(prop), u64(0)), handle.value


def is_managed(address):
    flag = ctypes.c_uint()
    assert cuda.cuPointerGetAttribute(ctypes.byref(flag), 8, u64(address)) == OK
    return bool(flag.value)


def managed_comes_and_goes():
    """Reports its memory at each step, and continues at each line."""
    _, context = start()
    _, plain = allocate(4 * MIB)
    _, small = allocate(4096)
    own = u64()
    assert cuda.cuMemAllocManaged(ctypes.byref(own), size_t(2 * MIB), 1) == OK
    pitched, pitch = u64(), size_t()
    assert cuda.cuMemAllocPitch_v2(ctypes.byref(pitched), ctypes.byref(pitch), size_t(4000), size_t(1024), 4) == OK
    print(json.dumps({"managed": [is_managed(one) for one in (plain, small, own.value, pitched.value)],
                      "pitch": pitch.value}), flush=True)
    sys.stdin.readline()
    assert free(plain) == OK
    print("freed", flush=True)
    sys.stdin.readline()
    assert cuda.cuCtxDestroy_v2(context) == OK
    print("gone", flush=True)
    sys.stdin.readline()
    return "done"


def uuid_of():
    """The UUID of the device with the given ordinal, as NVML writes it."""
    assert cuda.cuInit(0) == OK
    raw = (ctypes.c_ubyte * 16)()
    assert cuda.cuDeviceGetUuid_v2(raw, int(sys.argv[2])) == OK
    return "GPU-" + str(uuid.UUID(bytes=bytes(raw)))


def told():
    """The answers of each call that reports memory."""
    start()
    free_bytes, total = info()
    device_total = size_t()
    assert cuda.cuDeviceTotalMem_v2(ctypes.byref(device_total), 0) == OK
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    assert nvml.nvmlInit_v2() == OK
    device = pointer()
    assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == OK
    one = (u64 * 3)()
    assert nvml.nvmlDeviceGetMemoryInfo(device, one) == OK

    class Second(ctypes.Structure):
        _fields_ = [("version", ctypes.c_uint), ("total", u64), ("reserved", u64), ("free", u64), ("used", u64)]
    two = Second(version=ctypes.sizeof(Second) | 2 << 24)
    assert nvml.nvmlDeviceGetMemoryInfo_v2(device, ctypes.byref(two)) == OK
    nulls = [cuda.cuMemGetInfo_v2(None, None), cuda.cuDeviceTotalMem_v2(None, 0),
             nvml.nvmlDeviceGetMemoryInfo(device, None)]
    only_total, only_free = size_t(), size_t()
    assert cuda.cuMemGetInfo_v2(None, ctypes.byref(only_total)) == OK
    assert cuda.cuMemGetInfo_v2(ctypes.byref(only_free), None) == OK
    return {"free": free_bytes, "total": total, "device_total": device_total.value,
            "nvml": list(one), "nvml_v2": [two.total, two.reserved, two.free, two.used], "nulls": nulls,
            "only_total": only_total.value, "only_free": only_free.value}


def odd_sizes():
    """Sizes that no program should request, frees of memory that was never allocated."""
    before = [allocate(MIB)[0], free(4096)]
    start()
    at_start = info()[0]
    answers = {"before_context": before, "zero": allocate(0)[0], "huge": allocate(1 << 63)[0],
               "most": allocate((1 << 64) - 1)[0], "free_null": free(0), "free_foreign": free(0xdead0000)}
    status, address = allocate(4 * MIB)
    answers["free_inside"] = free(address + MIB)
    answers["held"] = at_start - info()[0]
    answers["free"] = free(address)
    answers["free_again"] = free(address)
    answers["null_pointer"] = cuda.cuMemAlloc_v2(None, size_t(MIB))
    answers["left"] = at_start - info()[0]
    return answers


def context_goes():
    """Memory goes with its context; calls after that get the driver's answers."""
    _, context = start()
    at_start = info()[0]
    addresses = [allocate(3 * MIB)[1] for _ in range(600)]
    held = at_start - info()[0]
    destroyed = cuda.cuCtxDestroy_v2(context)
    after = [free(addresses[0]), allocate(MIB)[0], cuda.cuCtxDestroy_v2(context)]
    status, _ = start()
    return {"held": held, "destroyed": destroyed, "after": after, "again": status, "free": at_start - info()[0]}


def small():
    """Small allocations share what the device gives."""
    start()
    at_start = info()[0]
    addresses = [allocate(1000)[1] for _ in range(64)]
    together = at_start - info()[0]
    for address in addresses:
        free(address)
    return {"together": together, "after": at_start - info()[0]}


def virtual():
    """Memory lives while a handle or a mapping does."""
    start()
    at_start = info()[0]
    held = []
    status, handle = create(64 * MIB)
    held.append(at_start - info()[0])
    address = u64()
    assert cuda.cuMemAddressReserve(ctypes.byref(address), size_t(64 * MIB), size_t(0), u64(0), u64(0)) == OK
    assert cuda.cuMemMap(address, size_t(64 * MIB), size_t(0), u64(handle), u64(0)) == OK
    held.append(at_start - info()[0])
    assert cuda.cuMemRelease(u64(handle)) == OK
    held.append(at_start - info()[0])
    again = u64()
    assert cuda.cuMemRetainAllocationHandle(ctypes.byref(again), pointer(address.value)) == OK
    assert cuda.cuMemUnmap(address, size_t(64 * MIB)) == OK
    held.append(at_start - info()[0])
    assert cuda.cuMemRelease(again) == OK
    held.append(at_start - info()[0])
    return {"status": status, "held": held, "double": cuda.cuMemRelease(again),
            "too_much": create(1 << 40)[0]}


def pools():
    """Pools count their memory, not the requested bytes, and memory that they returned does not count."""
    start()
    at_start = info()[0]
    stream, address = pointer(), u64()
    assert cuda.cuStreamCreate(ctypes.byref(stream), 1) == OK
    assert cuda.cuMemAllocAsync(ctypes.byref(address), size_t(10 * MIB), stream) == OK
    held = [at_start - info()[0]]
    assert cuda.cuMemFreeAsync(address, stream) == OK
    assert cuda.cuStreamSynchronize(stream) == OK
    held.append(at_start - info()[0])
    # As much as fits, again and again: returned memory is available for the next round.
    room = info()[0] // (32 * MIB) * 32 * MIB
    statuses = []
    for _ in range(5):
        statuses.append(cuda.cuMemAllocAsync(ctypes.byref(address), size_t(room), stream))
        statuses.append(cuda.cuMemFreeAsync(address, stream))
        statuses.append(cuda.cuStreamSynchronize(stream))
    too_much = cuda.cuMemAllocAsync(ctypes.byref(address), size_t(room + 64 * MIB), stream)
    return {"held": held, "statuses": statuses, "too_much": too_much, "left": at_start - info()[0]}


def pool_that_keeps():
    """A pool that keeps its memory serves from it when the limit has no room left."""
    start()
    pool, keep, stream, address = pointer(), u64((1 << 64) - 1), pointer(), u64()
    assert cuda.cuDeviceGetDefaultMemPool(ctypes.byref(pool), 0) == OK
    assert cuda.cuMemPoolSetAttribute(pool, 4, ctypes.byref(keep)) == OK
    assert cuda.cuStreamCreate(ctypes.byref(stream), 1) == OK
    room = info()[0] // (32 * MIB) * 32 * MIB
    statuses = []
    for _ in range(3):
        statuses.append(cuda.cuMemAllocAsync(ctypes.byref(address), size_t(room), stream))
        statuses.append(cuda.cuMemFreeAsync(address, stream))
        statuses.append(cuda.cuStreamSynchronize(stream))
    kept = info()[0]
    trimmed = cuda.cuMemPoolTrimTo(pool, size_t(0))
    return {"statuses": statuses, "kept": kept, "trimmed": trimmed, "after": info()[0], "room": room}


def pool_in_holes():
    """A pool at the limit whose free memory is in holes without a whole piece of it."""
    start()
    stream, status = pointer(), OK
    assert cuda.cuStreamCreate(ctypes.byref(stream), 1) == OK

    def take(size):
        address = u64()
        return cuda.cuMemAllocAsync(ctypes.byref(address), size_t(size), stream), address

    blocks = []
    while status == OK:
        status, address = take(40 * MIB)
        blocks.append(address)
    refused = blocks.pop()
    holes = [blocks.pop(i) for i in range(len(blocks) - 2, 0, -2)]
    for address in holes:
        assert cuda.cuMemFreeAsync(address, stream) == OK
    assert cuda.cuStreamSynchronize(stream) == OK
    for _ in range(3):  # each of the same size into its hole, and small ones
        again = [take(40 * MIB) for _ in holes[:-1]] + [take(MIB) for _ in range(32)]
        statuses = [status for status, _ in again]
        for status, address in again:
            assert status == OK and cuda.cuMemFreeAsync(address, stream) == OK, statuses
        assert cuda.cuStreamSynchronize(stream) == OK
    for address in blocks:
        assert cuda.cuMemFreeAsync(address, stream) == OK
    assert cuda.cuStreamSynchronize(stream) == OK
    return {"blocks": len(blocks) + len(holes), "refused": refused.value, "statuses": statuses, "free": info()[0]}


def pool_in_capture():
    """What a program may do while it captures a stream, with pool memory allocated."""
    start()
    stream, captured, address, graph = pointer(), pointer(), u64(), pointer()
    assert cuda.cuStreamCreate(ctypes.byref(stream), 1) == OK
    assert cuda.cuStreamCreate(ctypes.byref(captured), 1) == OK
    assert cuda.cuMemAllocAsync(ctypes.byref(address), size_t(MIB), stream) == OK
    assert cuda.cuStreamBeginCapture_v2(captured, 0) == OK
    free = info()[0]
    more = u64()
    statuses = [cuda.cuMemAllocAsync(ctypes.byref(more), size_t(64 * MIB), stream),
                cuda.cuMemFreeAsync(more, stream), cuda.cuMemFreeAsync(address, stream),
                cuda.cuMemAllocAsync(ctypes.byref(more), size_t(1 << 40), stream)]
    return {"told": free > 0, "statuses": statuses, "end": cuda.cuStreamEndCapture(captured, ctypes.byref(graph))}


class PoolProps(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handle_types", ctypes.c_int), ("location_type", ctypes.c_int),
                ("location_id", ctypes.c_int), ("win32", pointer), ("most", size_t), ("usage", ctypes.c_ushort),
                ("reserved", ctypes.c_ubyte * 54)]


def pools_elsewhere():
    """Pools whose memory is not on the stream's device. Prints how much each pool reduces the free bytes of each
    device."""
    start()
    other, ignored = pointer(), pointer()
    assert cuda.cuCtxCreate_v2(ctypes.byref(other), 0, 1) == OK
    assert cuda.cuCtxPopCurrent_v2(ctypes.byref(ignored)) == OK

    def free_of_each():
        here = info()[0]
        assert cuda.cuCtxPushCurrent_v2(other) == OK
        there = info()[0]
        assert cuda.cuCtxPopCurrent_v2(ctypes.byref(ignored)) == OK
        return [here, there]

    def made(location, ordinal):
        pool = pointer()
        assert cuda.cuMemPoolCreate(ctypes.byref(pool), ctypes.byref(PoolProps(1, 0, location, ordinal))) == OK
        return pool

    default = pointer()
    assert cuda.cuDeviceGetDefaultMemPool(ctypes.byref(default), 1) == OK
    answers = {}
    for name, pool in {"other": made(1, 1), "default": default, "host": made(2, 0), "numa": made(3, 0)}.items():
        before, addresses, statuses = free_of_each(), [], []
        for size in (40 * MIB, 600 * MIB):
            address = u64()
            statuses.append(cuda.cuMemAllocFromPoolAsync(ctypes.byref(address), size_t(size), pool, None))
            addresses.append(address)
        taken = [a - b for a, b in zip(before, free_of_each())]
        for status, address in zip(statuses, addresses):
            assert status != OK or cuda.cuMemFreeAsync(address, None) == OK
        assert cuda.cuStreamSynchronize(None) == OK
        if pool is default:
            assert cuda.cuMemPoolTrimTo(pool, size_t(0)) == OK
        else:
            assert cuda.cuMemPoolDestroy(pool) == OK
        assert cuda.cuCtxSynchronize() == OK
        answers[name] = {"statuses": statuses, "taken": taken, "left": [a - b for a, b in zip(before, free_of_each())]}
    return answers


def arrays():
    """Arrays count, and so do mipmapped ones."""
    class Shape(ctypes.Structure):
        _fields_ = [("width", size_t), ("height", size_t), ("format", ctypes.c_uint), ("channels", ctypes.c_uint)]

    class Shape3(ctypes.Structure):
        _fields_ = [("width", size_t), ("height", size_t), ("depth", size_t), ("format", ctypes.c_uint),
                    ("channels", ctypes.c_uint), ("flags", ctypes.c_uint)]
    start()
    at_start = info()[0]
    plain, mipmap = pointer(), pointer()
    statuses = [cuda.cuArrayCreate_v2(ctypes.byref(plain), ctypes.byref(Shape(1024, 1024, 3, 4)))]
    held = [at_start - info()[0]]
    statuses.append(cuda.cuMipmappedArrayCreate(ctypes.byref(mipmap), ctypes.byref(Shape3(1024, 1024, 0, 3, 4, 0)), 3))
    held.append(at_start - info()[0])
    statuses += [cuda.cuArrayDestroy(plain), cuda.cuMipmappedArrayDestroy(mipmap)]
    held.append(at_start - info()[0])
    statuses.append(cuda.cuArrayDestroy(plain))
    big = cuda.cuArray3DCreate_v2(ctypes.byref(plain), ctypes.byref(Shape3(16384, 16384, 1024, 3, 4, 0)))
    return {"statuses": statuses, "held": held, "too_much": big}


def primary():
    """The primary context costs once, from the first use to the last."""
    assert cuda.cuInit(0) == OK
    context, again = pointer(), pointer()
    first = cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    second = cuda.cuDevicePrimaryCtxRetain(ctypes.byref(again), 0)
    assert cuda.cuCtxSetCurrent(context) == OK
    with_one = info()
    assert allocate(10 * MIB)[0] == OK
    assert cuda.cuDevicePrimaryCtxRelease_v2(0) == OK
    with_data = info()[0]
    assert cuda.cuDevicePrimaryCtxRelease_v2(0) == OK
    third = cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    assert cuda.cuCtxSetCurrent(context) == OK
    return {"statuses": [first, second, third], "same": context.value == again.value, "with_one": with_one,
            "with_data": with_data, "at_last": info()[0]}


def forked():
    """A forked child starts over: the driver refuses it what it refuses without the shim, and the parent's counts stay
    the parent's."""
    start()
    allocate(32 * MIB)
    before = info()[0]
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, json.dumps([allocate(MIB)[0], free(4096), cuda.cuInit(0)]).encode())
        os._exit(0)
    os.close(writing)
    answers = json.loads(os.read(reading, 1000))
    os.waitpid(child, 0)
    return {"child": answers, "parent": info()[0] - before, "more": allocate(MIB)[0]}


def fork_first():
    """Children that use CUDA after a fork of a parent that has not: each joins for itself."""
    answers = []
    for _ in range(3):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            start()
            allocate(64 * MIB)
            os.write(writing, json.dumps(info()).encode())
            os._exit(0)
        os.close(writing)
        answers.append(json.loads(os.read(reading, 1000)))
        os.waitpid(child, 0)
    start()
    return {"children": answers, "parent": info()}


def spawn():
    """A program that a thread starts by vfork and exec."""
    start()
    allocate(32 * MIB)
    done = []
    thread = threading.Thread(target=lambda: done.append(
        subprocess.run([sys.executable, __file__, "told"], capture_output=True, text=True, check=False).stdout))
    thread.start()
    thread.join()
    return {"child": json.loads(done[0]), "mine": info()}


def race():
    """Threads that take and free as fast as they can; arguments: threads, steps, kinds. Counts refusals."""
    kinds = int(sys.argv[4])
    status, context = start()
    while status == OUT_OF_MEMORY:  # the others have all of it at present
        status, context = start()
    counts = {"taken": 0, "refused": 0}
    lock = threading.Lock()

    def give(kind, name):
        if kind == 0:
            assert cuda.cuMemRelease(u64(name)) == OK
        elif kind == 2:
            assert cuda.cuMemFreeAsync(u64(name), pointer(0)) == OK
            assert cuda.cuStreamSynchronize(pointer(0)) == OK
        else:
            assert free(name) == OK

    def work(seed):
        cuda.cuCtxSetCurrent(context)
        held, taken, refused, state = [], 0, 0, seed * 2654435761 % 2**32 or 1
        for _ in range(int(sys.argv[3])):
            state = (state * 1664525 + 1013904223) % 2**32
            if held and state >> 31:
                give(*held.pop(state % len(held)))
                continue
            size = ((state >> 8) % 64 + 1) * MIB
            kind = (state >> 16) % kinds
            if kind == 0:
                status, name = create(size + size % (2 * MIB))
            elif kind == 2:
                address = u64()
                status = cuda.cuMemAllocAsync(ctypes.byref(address), size_t(size), pointer(0))
                name = address.value
            else:
                status, name = allocate(size)
            assert status in (OK, OUT_OF_MEMORY), status
            if status == OK:
                held.append((kind, name))
                taken += 1
            else:
                refused += 1
        all_hold.wait(60)  # otherwise threads that run one after the other need not meet the limit
        for kind, name in held:
            give(kind, name)
        with lock:
            counts["taken"] += taken
            counts["refused"] += refused

    all_hold = threading.Barrier(int(sys.argv[2]))
    threads = [threading.Thread(target=work, args=(os.getpid() * 100 + i,)) for i in range(int(sys.argv[2]))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cuda.cuCtxSetCurrent(context)
    assert cuda.cuCtxDestroy_v2(context) == OK
    print("raced", flush=True)
    sys.stdin.readline()
    return counts


def hold():
    """Takes the given bytes, reports it, waits for a line, then reports what is free."""
    status, _ = start()
    if status != OK:
        return {"status": status}
    status, _ = allocate(int(sys.argv[2]))
    print(json.dumps({"status": status, "free": info()[0]}), flush=True)
    sys.stdin.readline()
    return {"free": info()[0], "total": info()[1], "more": allocate(2 * MIB)[0]}


def watch():
    """The most that the device itself gave out, until standard input ends. Without the shim."""
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    assert nvml.nvmlInit_v2() == OK
    device, memory, most = pointer(), (u64 * 3)(), 0
    assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == OK
    assert nvml.nvmlDeviceGetMemoryInfo(device, memory) == OK
    at_start = memory[2]
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    print("watching", flush=True)
    while not ended.is_set():
        assert nvml.nvmlDeviceGetMemoryInfo(device, memory) == OK
        most = max(most, memory[2] - at_start)
    return {"most": most}


def take_as_told():
    """One number of MiB a line: takes that much and prints the status and what is free."""
    start()
    for line in sys.stdin:
        print(json.dumps({"status": allocate(int(line) * MIB)[0], "free": info()[0]}), flush=True)
    return {}


def overwrite_and_hold():
    """Removes the limit from its ledger (docs/shim-protocol.md), then takes a GiB, and holds it."""
    start()
    with open("/proc/self/maps", encoding="utf-8") as maps:
        begin = next(int(line.split("-")[0], 16) for line in maps if "gpuman-ledger" in line)
    ctypes.memset(begin + 64 + 16, 0xff, 8)
    print(json.dumps({"status": [allocate(64 * MIB)[0] for _ in range(16)]}), flush=True)
    signal.pause()


def allocate_twice(answers):
    """For a process of multiprocessing: an allocation that fits, and one that does not."""
    start()
    answers.put([allocate(64 * MIB)[0], allocate(1 << 40)[0]])


def multiprocess():
    """Three processes, started by the given method."""
    context = multiprocessing.get_context(sys.argv[2])
    answers = context.Queue()
    processes = [context.Process(target=allocate_twice, args=(answers,)) for _ in range(3)]
    for process in processes:
        process.start()
    statuses = [answers.get() for _ in processes]
    for process in processes:
        process.join()
    return {"statuses": statuses, "exits": [process.exitcode for process in processes]}


def by_dlsym_itself():
    """Programs that look up dlsym by dlsym, in every place."""
    start()
    beyond, none = [], pointer()
    for library in (ctypes.CDLL(None), ctypes.CDLL("libc.so.6"), cuda):
        dlsym = library.dlsym
        dlsym.restype, dlsym.argtypes = pointer, [pointer, ctypes.c_char_p]
        found = dlsym(cuda._handle, b"cuMemAlloc_v2")
        beyond.append(ctypes.CFUNCTYPE(ctypes.c_int, pointer, size_t)(found)(ctypes.byref(none), 1 << 40))
    return {"beyond": beyond}


def environment():
    """What must not change: errno, and the descriptors that a child gets."""
    library = ctypes.CDLL("libcuda.so.1", use_errno=True)
    assert library.cuInit(0) == OK
    ctypes.set_errno(77)
    context, address = pointer(), u64()
    library.cuCtxCreate_v2(ctypes.byref(context), 0, 0)
    library.cuMemAlloc_v2(ctypes.byref(address), size_t(MIB))
    library.cuMemAlloc_v2(ctypes.byref(address), size_t(1 << 50))
    errno = ctypes.get_errno()
    child = subprocess.run(["ls", "-l", "/proc/self/fd"], capture_output=True, text=True, check=False,
                           close_fds=False).stdout
    return {"errno": errno, "inherited": "ledger" in child or "shim" in child}


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]]()), flush=True)

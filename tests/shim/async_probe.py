"""Small CUDA programs for async_test.py, as in evict_probe.py: they use stream-ordered allocation."""

import ctypes
import json
import random
import sys

import evict_probe
import probe
from evict_probe import get, put, ready, until_told
from probe import MIB, OK, allocate, cuda, free, pointer, size_t, start, u64

THRESHOLD, RESERVED, RESERVED_HIGH, USED, USED_HIGH = 4, 5, 6, 7, 8


def stream():
    made = pointer()
    assert cuda.cuStreamCreate(ctypes.byref(made), 1) == OK
    return made


def allocate_in(where, size, pool=None):
    address = u64()
    if pool is None:
        status = cuda.cuMemAllocAsync(ctypes.byref(address), size_t(size), where)
    else:
        status = cuda.cuMemAllocFromPoolAsync(ctypes.byref(address), size_t(size), pool, where)
    return status, address.value


def taken(where, size, pool=None):
    status, address = allocate_in(where, size, pool)
    assert status == OK, status
    return address


def free_in(where, address):
    return cuda.cuMemFreeAsync(u64(address), where)


def wait(where):
    return cuda.cuStreamSynchronize(where)


def default_pool():
    pool = pointer()
    assert cuda.cuDeviceGetDefaultMemPool(ctypes.byref(pool), 0) == OK
    return pool


class Props(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handle_types", ctypes.c_int), ("location_type", ctypes.c_int),
                ("location_id", ctypes.c_int), ("win32", pointer), ("max_size", size_t),
                ("reserved", ctypes.c_ubyte * 56)]


def make_pool(location_type=1):
    pool, props = pointer(), Props(1, 0, location_type, 0)
    return cuda.cuMemPoolCreate(ctypes.byref(pool), ctypes.byref(props)), pool


def attribute(pool, which):
    value = u64(77)
    status = cuda.cuMemPoolGetAttribute(pool, which, ctypes.byref(value))
    return value.value if status == OK else -status


def set_attribute(pool, which, value):
    return cuda.cuMemPoolSetAttribute(pool, which, ctypes.byref(u64(value)))


def counters(pool):
    return [attribute(pool, which) for which in (RESERVED, RESERVED_HIGH, USED, USED_HIGH)]


class Blocked:
    """A stream whose work waits for the program."""

    def __init__(self):
        self.stream, self.word = stream(), pointer()
        assert cuda.cuMemHostAlloc(ctypes.byref(self.word), size_t(4096), 0) == OK
        ctypes.c_uint32.from_address(self.word.value).value = 0
        assert cuda.cuStreamWaitValue32_v2(self.stream, u64(self.word.value), ctypes.c_uint32(1), 0) == OK

    def let_go(self):
        ctypes.c_uint32.from_address(self.word.value).value = 1


def written(where, size, value, pool=None):
    address = taken(where, size, pool)
    assert cuda.cuMemsetD8Async(u64(address), ctypes.c_ubyte(value), size_t(size), where) == OK
    return address


def is_all(address, size, value):
    return get(address, size) == bytes([value]) * size


def holds_pooled():
    """Allocates blocks of the given sizes in the default pool and fills each with its number by its stream; at each
    line reports whether they are right, then frees one and allocates it again."""
    start()
    pool, where = default_pool(), stream()
    assert set_attribute(pool, THRESHOLD, 1 << 40) == OK
    sizes = [int(word) for word in sys.argv[2:]]
    blocks = [written(where, size, number + 1) for number, size in enumerate(sizes)]
    assert wait(where) == OK
    ready()
    for round_number, _ in enumerate(sys.stdin):
        good = all(is_all(address, size, number + 1)
                   for number, (address, size) in enumerate(zip(blocks, sizes)))
        which = round_number % len(sizes)
        assert free_in(where, blocks[which]) == OK
        blocks[which] = written(where, sizes[which], which + 1)
        print(json.dumps({"good": good, "counters": counters(pool)}), flush=True)
    freed = [free_in(where, address) for address in blocks]
    return {"freed": freed, "waited": wait(where), "used": attribute(pool, USED),
            "trimmed": cuda.cuMemPoolTrimTo(pool, size_t(0)), "reserved": attribute(pool, RESERVED)}


def answers():
    """The answers of calls about pools, one after the other: the same with the shim and without."""
    _, context = start()
    pool, one, two = default_pool(), stream(), stream()
    told = [attribute(pool, THRESHOLD), counters(pool)]
    a, b = taken(one, 10 * MIB), taken(two, 1024)
    told += [counters(pool), a % 512, b % 512, a != b, allocate_in(one, 0)[0]]
    base, length, its, number = u64(), size_t(), pointer(), ctypes.c_ulonglong()
    for at in (a, a + 5 * MIB, b + 1023):
        told += [cuda.cuMemGetAddressRange_v2(ctypes.byref(base), ctypes.byref(length), u64(at)), at - base.value,
                 length.value, cuda.cuPointerGetAttribute(ctypes.byref(its), 17, u64(at)), its.value == pool.value,
                 cuda.cuPointerGetAttribute(ctypes.byref(number), 10, u64(at)), number.value & 0xffffffff]
    told += [cuda.cuMemGetAddressRange_v2(ctypes.byref(base), ctypes.byref(length), u64(a + 30 * MIB)) != OK]
    told += [free_in(one, a + 512), free_in(one, 12345), free_in(one, 0), free(a + 512)]
    told += [free_in(one, a), counters(pool)[2], wait(one), counters(pool), free_in(one, a), free(a)]
    told += [free(b), counters(pool)[0], set_attribute(pool, USED_HIGH, 0), set_attribute(pool, RESERVED_HIGH, 0),
             set_attribute(pool, USED_HIGH, 5), attribute(pool, RESERVED_HIGH)]
    # What a pool keeps, and until when.
    told += [set_attribute(pool, THRESHOLD, 64 * MIB), attribute(pool, THRESHOLD)]
    held = [taken(one, 32 * MIB) for _ in range(3)]
    told += [attribute(pool, RESERVED)] + [free_in(one, address) for address in held] + [wait(one)]
    told += [attribute(pool, RESERVED), cuda.cuMemPoolTrimTo(pool, size_t(32 * MIB)), attribute(pool, RESERVED),
             cuda.cuMemPoolTrimTo(pool, size_t(0)), counters(pool)[0], set_attribute(pool, THRESHOLD, 0)]
    # Plain memory freed in a stream, and pooled memory without a stream.
    plain, pooled = allocate(4 * MIB)[1], taken(one, 4 * MIB)
    # A second free, of the one without a stream or of the other with one, makes the driver of an H200 crash some calls
    # later.
    told += [free_in(one, plain), free(pooled)]
    # A pool of the program.
    status, own = make_pool()
    told += [status, counters(own)]
    c = written(two, 3 * MIB, 9, own)
    told += [wait(two), counters(own), is_all(c, 3 * MIB, 9), cuda.cuDeviceSetMemPool(0, own)]
    d = written(two, MIB, 7)
    told += [wait(two), is_all(d, MIB, 7), attribute(own, USED), free_in(two, d), wait(two)]
    told += [cuda.cuMemPoolDestroy(own), cuda.cuMemPoolDestroy(pool), is_all(c, 3 * MIB, 9), free_in(two, c), wait(two)]
    told += [counters(pool)[0], allocate_in(one, 1 << 63)[0], allocate_in(one, 1 << 45)[0]]
    # During a capture.
    graph, kept = pointer(), taken(one, MIB)
    # During a capture in another stream, the driver of an H200 refused memory once and invalidated the capture; the
    # shim does not.
    told += [cuda.cuStreamBeginCapture_v2(two, 0), allocate_in(two, MIB)[0],
             cuda.cuStreamEndCapture(two, ctypes.byref(graph)), free_in(one, kept), wait(one)]
    # Memory ends with its context. A stream that ended with it makes the driver of an H200 crash.
    taken(one, 2 * MIB)
    return told + [cuda.cuMemPoolGetAttribute(pool, RESERVED, None), cuda.cuCtxDestroy_v2(context)]


def order():
    """Memory freed in a stream that still works is available only to that stream; other streams do not overwrite what
    is written there before."""
    start()
    pool, other, blocked = default_pool(), stream(), Blocked()
    assert set_attribute(pool, THRESHOLD, 1 << 40) == OK
    first = taken(blocked.stream, 32 * MIB)
    assert cuda.cuMemsetD8Async(u64(first), ctypes.c_ubyte(1), size_t(32 * MIB), blocked.stream) == OK
    assert free_in(blocked.stream, first) == OK
    elsewhere = written(other, 32 * MIB, 2)
    again = taken(blocked.stream, 16 * MIB)
    told = {"elsewhere": elsewhere != first, "again": again == first, "held": attribute(pool, RESERVED) // MIB,
            "used": attribute(pool, USED) // MIB}
    blocked.let_go()
    assert wait(blocked.stream) == OK and wait(other) == OK
    told["good"] = is_all(elsewhere, 32 * MIB, 2)
    # Now every stream may use the rest of it.
    told["half"] = taken(other, 16 * MIB) == first + 16 * MIB
    told["held_then"] = attribute(pool, RESERVED) // MIB
    return told


def default_streams():
    """Frees and allocates again in default streams, of the context and of the thread, and in streams that are
    destroyed."""
    _, context = start()
    pool = default_pool()
    assert set_attribute(pool, THRESHOLD, 1 << 40) == OK
    told = []
    for where in (pointer(0), pointer(1), pointer(2)):
        addresses = set()
        for number in range(50):
            address = written(where, MIB, number)
            addresses.add(address)
            assert free_in(where, address) == OK
        told.append([len(addresses), wait(where), attribute(pool, RESERVED) // MIB])
    address, addresses = u64(), set()
    for _ in range(50):
        assert cuda.cuMemAllocAsync_ptsz(ctypes.byref(address), size_t(MIB), pointer(0)) == OK
        addresses.add(address.value)
        assert cuda.cuMemFreeAsync_ptsz(address, pointer(0)) == OK
    told.append([len(addresses), cuda.cuStreamSynchronize_ptsz(pointer(0)), attribute(pool, RESERVED) // MIB])
    for _ in range(50):
        blocked = Blocked()
        address = taken(blocked.stream, MIB)
        assert free_in(blocked.stream, address) == OK
        blocked.let_go()
        assert cuda.cuStreamDestroy_v2(blocked.stream) == OK
        assert cuda.cuMemFreeHost(blocked.word) in (OK, 1)
    assert cuda.cuCtxSynchronize() == OK
    told += [attribute(pool, USED), cuda.cuMemPoolTrimTo(pool, size_t(0)), attribute(pool, RESERVED)]
    return told


def orders_of_many():
    """Threads with streams of their own that allocate, write, hand over to one another, read and free."""
    _, context = start()
    threads, pool = int(sys.argv[2]), default_pool()
    assert set_attribute(pool, THRESHOLD, 256 * MIB) == OK
    streams = [stream() for _ in range(threads)]
    chance = [random.Random(i) for i in range(threads)]

    def work(i, number, _):
        assert cuda.cuCtxSetCurrent(context) == OK
        mine, next_one = streams[i], streams[(i + 1) % threads]
        held = []
        for step in range(4):
            size = chance[i].choice((300, 70_000, 700_000, 3 * MIB))
            value = (number * 7 + i * 31 + step) % 251
            held.append((written(mine, size, value), size, value))
        event = pointer()
        assert cuda.cuEventCreate(ctypes.byref(event), 2) == OK
        assert cuda.cuEventRecord(event, mine) == OK
        assert cuda.cuStreamWaitEvent(next_one, event, 0) == OK
        assert cuda.cuEventDestroy_v2(event) == OK
        for address, size, value in held:
            data = ctypes.create_string_buffer(size)
            assert cuda.cuMemcpyDtoHAsync_v2(data, u64(address), size_t(size), next_one) == OK
            assert wait(next_one) == OK
            assert data.raw == bytes([value]) * size, (value, data.raw[:4])
            assert free_in(next_one, address) == OK
    answer = until_told(work, threads)
    assert cuda.cuCtxSynchronize() == OK
    return {**answer, "used": attribute(pool, USED), "trimmed": cuda.cuMemPoolTrimTo(pool, size_t(0)),
            "reserved": attribute(pool, RESERVED)}


def idle_pool():
    """A pool keeps 40 unused MiB; at a line the program takes 48 MiB of another kind, at the next the pool has 40
    again."""
    start()
    pool, where = default_pool(), stream()
    assert set_attribute(pool, THRESHOLD, 1 << 40) == OK
    kinds = [lambda: allocate(48 * MIB)[0], lambda: probe.create(48 * MIB)[0]]
    while True:
        assert free_in(where, taken(where, 40 * MIB)) == OK and wait(where) == OK
        ready()
        if not sys.stdin.readline():
            return {}
        print(json.dumps({"before": attribute(pool, RESERVED) // MIB, "status": kinds[0](),
                          "after": attribute(pool, RESERVED) // MIB}), flush=True)
        kinds.reverse()
        sys.stdin.readline()


def up_to_the_limit():
    """Takes pieces until there are no more, then again, in another size, after a free."""
    start()
    where, told = stream(), []
    for size in (32 * MIB, 6 * MIB, 48 * MIB):
        held = []
        while True:
            status, address = allocate_in(where, size)
            if status != OK:
                break
            held.append(address)
        told.append([len(held) * size // MIB, status])
        for address in held:
            assert free_in(where, address) == OK
    told.append(allocate(96 * MIB)[0])
    return told


if __name__ == "__main__":
    name = sys.argv[1]
    one = globals().get(name) or getattr(evict_probe, name, None) or getattr(probe, name)
    print(json.dumps(one()), flush=True)

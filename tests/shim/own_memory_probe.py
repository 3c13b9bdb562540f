"""Small CUDA programs for own_memory_test.py, as in evict_probe.py: they make and map device memory themselves.

At each line on standard input they report whether all of it is unchanged, with the access that they set.
"""

import ctypes
import json
import os
import random
import sys

import evict_probe
import probe
from evict_probe import get, put, ready, told_to_go_on, until_told
from probe import MIB, OK, Prop, allocate, cuda, free, pointer, size_t, start, u64

NONE, READ, READ_WRITE = 0, 1, 3


class Access(ctypes.Structure):
    _fields_ = [("location_type", ctypes.c_int), ("location_id", ctypes.c_int), ("flags", ctypes.c_int)]


def make(size, types=1, direct=0, usage=0):
    handle, prop = u64(), Prop(1, types, 1, 0)
    prop.flags[1], prop.flags[2] = direct, usage
    return cuda.cuMemCreate(ctypes.byref(handle), size_t(size), ctypes.byref(prop), u64(0)), handle.value


def reserve(size):
    address = u64()
    assert cuda.cuMemAddressReserve(ctypes.byref(address), size_t(size), size_t(0), u64(0), u64(0)) == OK
    return address.value


def bind(address, size, handle, offset=0):
    return cuda.cuMemMap(u64(address), size_t(size), size_t(offset), u64(handle), u64(0))


def allow(address, size, flags=READ_WRITE):
    return cuda.cuMemSetAccess(u64(address), size_t(size), ctypes.byref(Access(1, 0, flags)), size_t(1))


def access(address):
    flags, where = ctypes.c_ulonglong(), (ctypes.c_int * 2)(1, 0)
    status = cuda.cuMemGetAccess(ctypes.byref(flags), where, u64(address))
    return flags.value if status == OK else -status


def unbind(address, size):
    return cuda.cuMemUnmap(u64(address), size_t(size))


def release(handle):
    return cuda.cuMemRelease(u64(handle))


def properties(handle):
    prop = Prop()
    status = cuda.cuMemGetAllocationPropertiesFromHandle(ctypes.byref(prop), u64(handle))
    return [status, prop.type, prop.handle_types, prop.location_type, prop.location_id, prop.flags[1]]


def export(handle):
    descriptor = ctypes.c_int(-1)
    status = cuda.cuMemExportToShareableHandle(ctypes.byref(descriptor), u64(handle), 1, u64(0))
    return status, descriptor.value


def mapped(size, **named):
    """Maps memory as PyTorch does, at addresses of its own."""
    status, handle = make(size, **named)
    assert status == OK, status
    address = reserve(size)
    assert bind(address, size, handle) == OK and allow(address, size) == OK
    return address, handle


class Segment:
    """A segment that grows and shrinks at its end, as PyTorch's expandable segments do."""

    def __init__(self, chunk, room, keep=True):
        self.chunk, self.keep, self.handles = chunk, keep, []
        self.base = reserve(chunk * room)

    def end(self):
        return self.base + self.chunk * len(self.handles)

    def grow(self, count, seed):
        begin = self.end()
        for _ in range(count):
            status, handle = make(self.chunk, direct=1)
            assert status == OK, status
            assert bind(self.end(), self.chunk, handle) == OK
            if not self.keep:
                assert release(handle) == OK
            self.handles.append((handle, seed))
        assert allow(begin, self.chunk * count) == OK
        for i in range(count):
            self.write(len(self.handles) - 1 - i)

    def write(self, i):
        data = bytes([(self.handles[i][1] + i) % 251]) * 4096
        put(self.base + i * self.chunk, data)
        put(self.base + (i + 1) * self.chunk - 4096, data)

    def good(self):
        return all(get(self.base + i * self.chunk + at, 4096) == bytes([(seed + i) % 251]) * 4096
                   for i, (_, seed) in enumerate(self.handles) for at in (0, self.chunk - 4096)) and \
            all(access(self.base + i * self.chunk) == READ_WRITE for i in range(len(self.handles)))

    def shrink(self, count):
        for _ in range(count):
            handle, _ = self.handles.pop()
            assert unbind(self.end(), self.chunk) == OK
            if self.keep:
                assert release(handle) == OK

    def drop(self, room):
        self.shrink(len(self.handles))
        return cuda.cuMemAddressFree(u64(self.base), size_t(self.chunk * room))


def expands():
    """At each line, grows or shrinks segments of 2 and of 20 MiB, one whose handles are kept and one whose are not."""
    start()
    segments = [Segment(2 * MIB, 64), Segment(20 * MIB, 16, keep=False)]
    for segment in segments:
        segment.grow(4, 3)
    ready()
    for number, _ in enumerate(sys.stdin):
        good = all(segment.good() for segment in segments)
        for segment in segments:
            segment.shrink(2)
            segment.grow(3, number)
        print(json.dumps({"good": good and all(segment.good() for segment in segments)}), flush=True)
    return {"freed": [segment.drop(room) for segment, room in zip(segments, (64, 16))]}


def expands_all_the_time():
    """The same in threads, until there is a line."""
    _, context = start()
    segments = [Segment(2 * MIB, 32, keep=i % 2 == 0) for i in range(int(sys.argv[2]))]

    def work(i, number, _):
        assert cuda.cuCtxSetCurrent(context) == OK
        segments[i].grow(1 + number % 4, number)
        assert segments[i].good()
        segments[i].shrink(number % 3 if len(segments[i].handles) < 24 else 20)
    answer = until_told(work, len(segments))
    return {**answer, "freed": [segment.drop(32) for segment in segments]}


def kinds():
    """Memory of every kind. 26 MiB of it may leave."""
    start()
    leaves = {"plain": mapped(2 * MIB, types=0), "shareable": mapped(2 * MIB), "direct": mapped(2 * MIB, direct=1),
              "large": mapped(16 * MIB)}
    stays = {"exported": mapped(2 * MIB), "twice": mapped(4 * MIB), "tiles": mapped(2 * MIB, types=0, usage=1),
             "ranged": mapped(2 * MIB), "imported": (reserve(2 * MIB), 0)}
    status, descriptor = export(stays["exported"][1])
    assert status == OK
    handle, fd = u64(), ctypes.c_int()
    assert cuda.cuMemImportFromShareableHandle(ctypes.byref(handle), pointer(descriptor), 1) == OK
    stays["imported"] = (stays["imported"][0], handle.value)
    assert bind(stays["imported"][0], 2 * MIB, handle.value) == OK and allow(stays["imported"][0], 2 * MIB) == OK
    again = reserve(4 * MIB)
    assert bind(again, 4 * MIB, stays["twice"][1]) == OK and allow(again, 4 * MIB) == OK
    assert cuda.cuMemGetHandleForAddressRange(ctypes.byref(fd), u64(stays["ranged"][0]), size_t(2 * MIB), 1,
                                              u64(0)) == OK
    unmapped = make(8 * MIB)[1]
    read_only, unseen = mapped(2 * MIB), mapped(2 * MIB)
    everything = {**leaves, **stays, "read_only": read_only}
    for i, (address, _) in enumerate(everything.values()):
        put(address, bytes([i + 1]) * 4096)
    put(stays["exported"][0], b"\x63" * 4096)
    assert allow(read_only[0], 2 * MIB, READ) == OK and allow(unseen[0], 2 * MIB, NONE) == OK
    ready()
    for _ in sys.stdin:
        told = {name: get(address, 4096)[:1] == (b"\x63" if name in ("exported", "imported") else bytes([i + 1]))
                for i, (name, (address, _)) in enumerate(everything.items())}
        told["access"] = [access(address) for address, _ in (*leaves.values(), read_only, unseen)]
        told["properties"] = [properties(handle) for _, handle in leaves.values()]
        told["same"] = get(again, 4096) == get(stays["twice"][0], 4096)
        print(json.dumps(told), flush=True)
    return {"released": [release(handle) for _, handle in everything.values()] + [release(unmapped)],
            "again": [release(handle) for _, handle in leaves.values()],
            "unmapped": [unbind(address, 2 * MIB) for name, (address, _) in everything.items()
                         if name not in ("large", "twice")]}


def handles():
    """The handles' answers, which must be as without the shim; prints "ready" in the middle, when all may have been
    away."""
    start()
    answers = []
    address, handle = mapped(4 * MIB)
    plain_at, plain = mapped(2 * MIB, types=0)
    put(address, b"\7" * 4096)
    ready()
    told_to_go_on()
    again = u64()
    answers.append(cuda.cuMemRetainAllocationHandle(ctypes.byref(again), pointer(address + 4096)))
    answers += [again.value == handle, properties(handle), properties(plain), export(plain)[0]]
    other = reserve(8 * MIB)
    answers += [bind(other, 2 * MIB, handle), bind(other, 2 * MIB, handle, 2 * MIB), bind(other, 8 * MIB, handle),
                bind(address, 4 * MIB, handle), bind(other + 4096, 4 * MIB, handle), unbind(address, 2 * MIB)]
    base, length = u64(), size_t()
    answers += [cuda.cuMemGetAddressRange_v2(ctypes.byref(base), ctypes.byref(length), u64(address + MIB)),
                base.value - address, length.value, cuda.cuMemFree_v2(u64(address))]
    answers += [release(handle), release(again.value), release(handle), properties(handle)[0], export(handle)[0],
                bind(other, 4 * MIB, handle)]
    answers.append(cuda.cuMemRetainAllocationHandle(ctypes.byref(again), pointer(address)))
    answers += [get(address, 4096) == b"\7" * 4096, cuda.cuMemAddressFree(u64(address), size_t(4 * MIB)),
                unbind(address, 4 * MIB), access(address), bind(other, 4 * MIB, again.value), allow(other, 4 * MIB),
                get(other, 4096) == b"\7" * 4096, unbind(other, 8 * MIB), release(again.value), release(again.value),
                unbind(plain_at, 2 * MIB), release(plain), cuda.cuMemAddressFree(u64(other), size_t(8 * MIB)),
                cuda.cuMemAddressFree(u64(address), size_t(4 * MIB))]
    return answers


def passes_on():
    """Exports memory to a child after it may have been away; the child writes, and this program reads."""
    start()
    address, handle = mapped(4 * MIB)
    put(address, b"\1" * 4096)
    ready()
    told_to_go_on()
    status, descriptor = export(handle)
    assert status == OK, status
    os.set_inheritable(descriptor, True)
    child = os.spawnv(os.P_WAIT, sys.executable, [sys.executable, __file__, "takes", str(descriptor)])
    written = get(address, 4096) == b"\2" * 4096
    ready()
    told_to_go_on()
    return {"child": child, "written": written, "good": get(address, 4096) == b"\2" * 4096}


def takes():
    """Memory that came as a descriptor: reads ones and writes twos."""
    start()
    handle = u64()
    assert cuda.cuMemImportFromShareableHandle(ctypes.byref(handle), pointer(int(sys.argv[2])), 1) == OK
    address = reserve(4 * MIB)
    assert bind(address, 4 * MIB, handle.value) == OK and allow(address, 4 * MIB) == OK
    assert get(address, 4096) == b"\1" * 4096
    put(address, b"\2" * 4096)
    return {}


def access_of(address):
    """The answers for each device that the process sees."""
    answers = []
    for device in range(2):
        flags, where = ctypes.c_ulonglong(), (ctypes.c_int * 2)(1, device)
        answers.append((cuda.cuMemGetAccess(ctypes.byref(flags), where, u64(address)), flags.value))
    return answers


def two_devices():
    """Memory on both devices; at each line copies between them, and reports each device's access."""
    _, context = start()
    before = [allocate(size)[1] for size in (8 * MIB, 1000)]
    other, ignored = pointer(), pointer()
    assert cuda.cuCtxCreate_v2(ctypes.byref(other), 0, 1) == OK
    there = [allocate(size)[1] for size in (6 * MIB, 1000)]
    assert cuda.cuCtxPopCurrent_v2(ctypes.byref(ignored)) == OK
    after = allocate(4 * MIB)[1]
    own, _ = mapped(2 * MIB)
    blocks = [*before, *there, after, own]
    for i, address in enumerate(blocks):
        put(address, bytes([i + 1]) * 1000)
    ready()
    for number, _ in enumerate(sys.stdin):
        good = all(get(address, 1000) == bytes([i + 1 + number]) * 1000 for i, address in enumerate(blocks))
        for to, source in ((there[0], before[0]), (after, there[1])):
            kept = get(to, 1000)
            good = good and cuda.cuMemcpyDtoD_v2(u64(to), u64(source), size_t(1000)) == OK
            good = good and get(to, 1000) == get(source, 1000)
            put(to, kept)
        for i, address in enumerate(blocks):
            put(address, bytes([i + 2 + number]) * 1000)
        told = [access_of(address) for address in (*before, after, own)]
        print(json.dumps({"good": good, "access": told}), flush=True)
    return {"freed": [free(address) for address in (*before, *there, after)],
            "destroyed": [cuda.cuCtxDestroy_v2(one) for one in (other, context)]}


def fills_second():
    """Takes memory on the first device, and then so many MiB on the second: that may wait for room."""
    start()
    assert allocate(2 * MIB)[0] == OK
    other = pointer()
    assert cuda.cuCtxCreate_v2(ctypes.byref(other), 0, 1) == OK
    print(json.dumps({"allocated": allocate(int(sys.argv[2]) * MIB)[0]}), flush=True)
    sys.stdin.readline()
    return {}


def many():
    """Allocates a number of chunks of 2 MiB, each with its number."""
    start()
    segment = Segment(2 * MIB, int(sys.argv[2]))
    for number in range(int(sys.argv[2])):
        segment.grow(1, number)
    ready()
    for _ in sys.stdin:
        print(json.dumps({"good": segment.good()}), flush=True)
    return {"freed": segment.drop(int(sys.argv[2]))}


def small_ones():
    """Small allocations of many sizes that come and go at each line, and their attributes."""
    start()
    chance, held = random.Random(int(sys.argv[2])), []

    def more(count):
        for _ in range(count):
            size = chance.choice((1, 512, 513, 4000, 70_000, 2 * MIB - 1, chance.randrange(1, 300_000)))
            status, address = allocate(size)
            assert status == OK and address % 512 == 0, (status, address)
            data = bytes([chance.randrange(256)]) * min(size, 4096)
            put(address, data)
            put(address + size - len(data), data)
            held.append((address, size, data))

    def good():
        ids = set()
        for address, size, data in held:
            base, length, number, owner = u64(), size_t(), ctypes.c_ulonglong(), pointer()
            for at in (address, address + size - 1):
                assert cuda.cuMemGetAddressRange_v2(ctypes.byref(base), ctypes.byref(length), u64(at)) == OK
                assert (base.value, length.value) == (address, size)
                assert cuda.cuPointerGetAttribute(ctypes.byref(number), 7, u64(at)) == OK
                assert cuda.cuPointerGetAttribute(ctypes.byref(owner), 1, u64(at)) == OK and owner.value
            ids.add(number.value)
            assert get(address, len(data)) == data and get(address + size - len(data), len(data)) == data
        return len(ids) == len(held)
    more(150)
    ready()
    for _ in sys.stdin:
        fine = good()
        chance.shuffle(held)
        for address, _, _ in [held.pop() for _ in range(100)]:
            assert free(address) == OK
        more(100)
        print(json.dumps({"good": fine and good()}), flush=True)
    freed = [free(address) for address, _, _ in held]
    return {"freed": sorted(set(freed)), "again": sorted({free(address) for address, _, _ in held})}


def told_of_small():
    """The attributes of small allocations, which must equal those of plain memory."""
    _, context = start()
    answers = []
    address, other = allocate(1000)[1], allocate(70_000)[1]
    for at in (address, address + 999, other + 69_999):
        owner, begin, length, kind = pointer(), u64(), size_t(), ctypes.c_uint()
        wanted, where = (ctypes.c_int * 4)(1, 11, 12, 2), (pointer * 4)(
            *(ctypes.cast(ctypes.byref(one), pointer) for one in (owner, begin, length, kind)))
        answers += [cuda.cuPointerGetAttributes(4, wanted, where, u64(at)), owner.value == context.value,
                    begin.value in (address, other), length.value, kind.value]
    large, handle = allocate(4 * MIB)[1], u64(77)
    for at in (address, large, large + MIB):
        answers.append(cuda.cuMemRetainAllocationHandle(ctypes.byref(handle), pointer(at)))
    answers.append(free(large))
    pitched, pitch = u64(), size_t()
    answers += [cuda.cuMemAllocPitch_v2(ctypes.byref(pitched), ctypes.byref(pitch), size_t(500), size_t(100), 4),
                pitch.value, free(pitched.value), free(pitched.value)]
    put(address, b"\5" * 1000)
    answers += [free(address + 512), free(address + 1), get(address, 1000) == b"\5" * 1000, free(address),
                free(address), cuda.cuMemFreeAsync(u64(other), pointer(0)), cuda.cuCtxDestroy_v2(context), free(other)]
    return answers


if __name__ == "__main__":
    name = sys.argv[1]
    one = globals().get(name) or getattr(evict_probe, name, None) or getattr(probe, name)
    print(json.dumps(one()), flush=True)

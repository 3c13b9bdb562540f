"""Small CUDA programs for evict_test.py, as probe.py is for shim_test.py: they use memory that comes and goes.

Programs that run until the test ends them check all the time that their data is right. A line "ready" says that they
hold their memory; a line on standard input tells them to end, or to continue.
"""

import contextlib
import ctypes
import json
import mmap
import os
import socket
import subprocess
import sys
import threading
import time

import probe
from probe import MIB, OK, allocate, cuda, free, pointer, size_t, start, u64


def ready():
    print("ready", flush=True)


def told_to_go_on():
    return sys.stdin.readline()


def put(address, data):
    assert cuda.cuMemcpyHtoD_v2(u64(address), data, size_t(len(data))) == OK


def get(address, size):
    data = ctypes.create_string_buffer(size)
    assert cuda.cuMemcpyDtoH_v2(data, u64(address), size_t(size)) == OK
    return data.raw


def until_told(work, threads):
    """Calls work(i, round, ended) again and again in each thread, until there is a line or the end of standard input.
    Returns the number of calls, and what went wrong."""
    ended, rounds, wrong = threading.Event(), [0] * threads, []

    def run(i):
        try:
            while not ended.is_set():
                work(i, rounds[i], ended)
                rounds[i] += 1
        except AssertionError as error:
            wrong.append(repr(error))
    running = [threading.Thread(target=run, args=(i,)) for i in range(threads)]
    for thread in running:
        thread.start()
    ready()
    told_to_go_on()
    ended.set()
    for thread in running:
        thread.join()
    return {"rounds": sum(rounds), "wrong": wrong}


def many_threads():
    """Threads that set, copy and read memory of their own; each round runs in a new thread."""
    _, context = start()
    threads, size = int(sys.argv[2]), 3 * MIB
    mine = [allocate(size)[1] for _ in range(threads)]

    def one_round(i, number, wrong):
        try:
            assert cuda.cuCtxSetCurrent(context) == OK
            value = (i * 31 + number) % 251
            assert cuda.cuMemsetD8_v2(u64(mine[i]), ctypes.c_ubyte(value), size_t(size)) == OK
            assert cuda.cuCtxSynchronize() == OK
            data = get(mine[i], size)
            assert data == bytes([value]) * size, (value, data[:4])
        except AssertionError as error:
            wrong.append(error)

    def work(i, number, _):
        wrong = []
        thread = threading.Thread(target=one_round, args=(i, number, wrong))
        thread.start()
        thread.join()
        assert not wrong, wrong
    return until_told(work, threads)


def comes_and_goes():
    """Threads that allocate, write, read and free."""
    _, context = start()

    def work(i, number, _):
        assert cuda.cuCtxSetCurrent(context) == OK
        held = []
        for step in range(3):
            size = (2 + (i + step + number) % 5) * MIB + 512 * step
            status, address = allocate(size)
            assert status == OK, status
            data = bytes([(i * 7 + step * 3 + number) % 256]) * 4096
            put(address, data)
            put(address + size - 4096, data)
            held.append((address, size, data))
        for address, size, data in held:
            assert get(address, 4096) == data and get(address + size - 4096, 4096) == data
            assert free(address) == OK
    return until_told(work, int(sys.argv[2]))


def holds():
    """Allocates a number of MiB in blocks of a size, and reports at each line whether they are unchanged."""
    _, context = start()
    total, step = int(sys.argv[2]), int(sys.argv[3])
    blocks = []
    for i in range(total // step):
        status, address = allocate(step * MIB)
        assert status == OK, status
        blocks.append(address)
        put(address, bytes([i + 1]) * 4096)
        put(address + step * MIB - 4096, bytes([i + 2]) * 4096)
    ready()
    for _ in sys.stdin:
        if cuda.cuCtxSynchronize() != OK:
            sys.exit(1)
        good = all(get(address, 4096) == bytes([i + 1]) * 4096 and
                   get(address + step * MIB - 4096, 4096) == bytes([i + 2]) * 4096
                   for i, address in enumerate(blocks))
        print(json.dumps({"good": good}), flush=True)
    return {"freed": [free(address) for address in blocks], "destroyed": cuda.cuCtxDestroy_v2(context)}


def past_the_gate(name):
    """The driver's own function, found in a way that no program uses, and called as the CUDA runtime calls its internal
    functions."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        lines = [line.split() for line in maps if "libcuda.so" in line]
    base = min(int(line[0].partition("-")[0], 16) for line in lines)
    names = subprocess.run(["nm", "-D", lines[0][-1]], stdout=subprocess.PIPE, text=True, check=True,
                           env={**os.environ, "LD_PRELOAD": ""}).stdout
    offset = next(int(words[0], 16) for words in map(str.split, names.splitlines()) if words[-1].partition("@")[0] == name)
    return ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(base + offset)


def ends_away():
    """Destroys its context past the gate, as the CUDA runtime does at a program's end; then frees."""
    context = pointer()
    assert cuda.cuInit(0) == OK
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == OK
    assert cuda.cuCtxSetCurrent(context) == OK
    address = allocate(96 * MIB)[1]
    release = past_the_gate("cuDevicePrimaryCtxRelease_v2")
    ready()
    told_to_go_on()
    print("released", release(0), flush=True)
    free(address)
    return "ended"


def captures():
    """Captures a stream until there is a line, then launches the graph."""
    start()
    status, address = allocate(4 * MIB)
    assert status == OK
    stream, graph, executable = pointer(), pointer(), pointer()
    assert cuda.cuStreamCreate(ctypes.byref(stream), 1) == OK
    assert cuda.cuStreamBeginCapture_v2(stream, 0) == OK
    assert cuda.cuMemsetD8Async(u64(address), ctypes.c_ubyte(7), size_t(4 * MIB), stream) == OK
    ready()
    told_to_go_on()
    ended = cuda.cuStreamEndCapture(stream, ctypes.byref(graph))
    ready()
    told_to_go_on()
    made = cuda.cuGraphInstantiateWithFlags(ctypes.byref(executable), graph, ctypes.c_ulonglong(0))
    launched = cuda.cuGraphLaunch(executable, stream)
    waited = cuda.cuStreamSynchronize(stream)
    return {"statuses": [ended, made, launched, waited], "good": get(address, 4 * MIB) == b"\7" * (4 * MIB)}


def loads_a_library():
    """Loads the library at a line; the library's constructor uses CUDA."""
    start()
    status, address = allocate(4 * MIB)
    assert status == OK
    put(address, bytes([5]) * (4 * MIB))
    os.environ["LOADED_LIBRARY_SETS"] = str(address)
    ready()
    # Not with Python's own reader: it would read more than the line, and the constructor needs the next one.
    assert os.read(0, 1) == b"\n"
    library = ctypes.CDLL(sys.argv[2])
    good = get(address, 4 * MIB) == b"\7" * 4096 + b"\5" * (4 * MIB - 4096)
    told_to_go_on()  # the test looks at the process in the ledger before it ends
    return {"status": library.LoadedStatus(), "good": good}


def captures_into_a_graph():
    """As captures, into a graph that exists before."""
    start()
    status, address = allocate(4 * MIB)
    assert status == OK
    stream, graph, same, executable = pointer(), pointer(), pointer(), pointer()
    statuses = [cuda.cuStreamCreate(ctypes.byref(stream), 1), cuda.cuGraphCreate(ctypes.byref(graph), 0),
                cuda.cuStreamBeginCaptureToGraph(stream, graph, None, None, size_t(0), 0),
                cuda.cuMemsetD8Async(u64(address), ctypes.c_ubyte(9), size_t(4 * MIB), stream)]
    ready()
    told_to_go_on()
    statuses.append(cuda.cuStreamEndCapture(stream, ctypes.byref(same)))
    ready()
    told_to_go_on()
    statuses += [cuda.cuGraphInstantiateWithFlags(ctypes.byref(executable), graph, ctypes.c_ulonglong(0)),
                 cuda.cuGraphLaunch(executable, stream), cuda.cuStreamSynchronize(stream)]
    return {"statuses": statuses, "good": get(address, 4 * MIB) == b"\x09" * (4 * MIB), "same": same.value == graph.value}


def captures_again_and_again():
    """Thread-local captures, one after the other, with a little work between them, until there is a line."""
    _, context = start()
    status, address = allocate(4 * MIB)
    assert status == OK
    statuses = []

    def work(_, number, __):
        assert cuda.cuCtxSetCurrent(context) == OK
        stream, graph = pointer(), pointer()
        statuses.append(cuda.cuStreamCreate(ctypes.byref(stream), 0))
        statuses.append(cuda.cuStreamBeginCapture_v2(stream, 0))
        statuses.append(cuda.cuMemsetD8Async(u64(address), ctypes.c_ubyte(number % 256), size_t(4 * MIB), stream))
        threading.Event().wait(0.003)
        statuses.append(cuda.cuStreamEndCapture(stream, ctypes.byref(graph)))
        statuses.append(cuda.cuGraphDestroy(graph))
        statuses.append(cuda.cuStreamDestroy_v2(stream))
    answer = until_told(work, 1)
    return {"statuses": sorted(set(statuses)), **answer}


def pauses():
    """Does nothing; between two lines it works, and prints "works" before and "rests" after."""
    _, context = start()
    status, address = allocate(4 * MIB)
    assert status == OK
    told = threading.Event()

    def work():
        assert cuda.cuCtxSetCurrent(context) == OK
        while not told.is_set():
            assert cuda.cuMemsetD8_v2(u64(address), ctypes.c_ubyte(1), size_t(4096)) == OK
            assert cuda.cuCtxSynchronize() == OK
    ready()
    while sys.stdin.readline():
        told.clear()
        worker = threading.Thread(target=work)
        worker.start()
        print("works", flush=True)
        told_to_go_on()
        told.set()
        worker.join()
        print("rests", flush=True)
    return {}


def allocates():
    """Allocates a size of a kind at each line, and reports the result."""
    start()
    kind, size = sys.argv[2], int(sys.argv[3]) * MIB if len(sys.argv) > 3 else 16 * MIB
    stream = pointer()
    assert cuda.cuStreamCreate(ctypes.byref(stream), 1) == OK
    first = allocate(2 * MIB)
    assert first[0] == OK
    put(first[1], b"\1" * 4096)

    def one():
        address = u64()
        if kind == "async":
            return cuda.cuMemAllocAsync(ctypes.byref(address), size_t(64 * MIB), stream)
        if kind == "vmm":
            return probe.create(size)[0]
        return allocate(size if kind == "malloc" else MIB)[0]
    ready()
    while sys.stdin.readline():
        print(json.dumps({"status": one()}), flush=True)
    return {}


def takes_less():
    """Allocates a number of MiB, else half of that, and so on, without a pause, as the frameworks' allocators do;
    reports what it got."""
    start()
    size = int(sys.argv[2])
    while size > 0 and allocate(size * MIB)[0] != OK:
        size //= 2
    return {"got": size}


# Looks at the clock for so many nanoseconds, or until the word `hurry` is set, then adds one to another word.
COUNTS = b""".version 7.0
.target sm_70
.address_size 64
.visible .entry counts(.param .u64 word, .param .u64 ns, .param .u64 hurry)
{
  .reg .u64 %t<6>; .reg .u32 %v; .reg .pred %p<2>;
  ld.param.u64 %t0, [word]; ld.param.u64 %t1, [ns]; ld.param.u64 %t5, [hurry]; mov.u64 %t2, %globaltimer;
AGAIN:
  ld.volatile.global.u32 %v, [%t5]; setp.ne.u32 %p1, %v, 0; @%p1 bra DONE;
  mov.u64 %t3, %globaltimer; sub.u64 %t4, %t3, %t2; setp.lt.u64 %p0, %t4, %t1; @%p0 bra AGAIN;
DONE:
  ld.global.u32 %v, [%t0]; add.u32 %v, %v, 1; st.global.u32 [%t0], %v; ret;
}
"""


def counts_kernel():
    module, function = pointer(), pointer()
    assert cuda.cuModuleLoadData(ctypes.byref(module), COUNTS) == OK
    assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b"counts") == OK
    return function


def launch_count(function, word, nanoseconds, hurry, stream):
    values = u64(word), u64(nanoseconds), u64(hurry)
    parameters = (pointer * 3)(*(ctypes.cast(ctypes.pointer(value), pointer) for value in values))
    return cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, None)


def own_words():
    """Words of the program's own memory, which the GPU can use, and which outlive a context."""
    words = mmap.mmap(-1, 4096)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(words))  # the GPU may work at the program's end
    address = ctypes.addressof(ctypes.c_char.from_buffer(words))
    assert cuda.cuMemHostRegister_v2(pointer(address), size_t(4096), 3) == OK
    return words, address


def in_child(address):
    """What a child of a fork has of the driver: nothing."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, json.dumps([allocate(4 * MIB)[0], free(address), cuda.cuInit(0)]).encode())
        os._exit(0)
    os.close(writing)
    answer = os.read(reading, 1000).decode()
    os.close(reading)
    os.waitpid(child, 0)
    return answer


def launches_ahead():
    """Launches argument 3's kernels of 20 ms in each of argument 2's streams, far ahead of the GPU, as soon as a
    line comes; with "graphs": as graphs of one kernel; with "joined": each waits for that of the first stream. Each
    line makes it print how many have ended; after a line "hurry" kernels take no time any more, and at a line
    "fork" it prints what a child says. At the end of standard input it waits for all, and compares a block of
    memory with what it wrote; with "quits" it ends in the middle of its work.

    The streams but the first are, with "per_thread", the default streams of threads; with "many_streams", beyond
    the 64 with the first launches; with "contexts", in contexts of their own; with "captured", such as have their
    launches beside a capture; with "destroyed", destroyed as soon as all is launched."""
    _, context = start()
    streams, each = int(sys.argv[2]), int(sys.argv[3])
    status, address = allocate(4 * MIB)
    assert status == OK
    put(address, b"\7" * (4 * MIB))
    entry, host, word = counts_kernel(), pointer(), u64()
    assert cuda.cuMemHostAlloc(ctypes.byref(host), size_t(4096), 3) == OK
    assert cuda.cuMemHostGetDevicePointer_v2(ctypes.byref(word), host, 0) == OK
    counts = (ctypes.c_uint32 * streams).from_address(host.value)
    hurry = ctypes.c_uint32.from_address(host.value + 2048)
    events, made = [pointer() for _ in range(each)], [threading.Event() for _ in range(each)]
    captured, first = threading.Barrier(streams), threading.Event()
    aside = {"per_thread", "many_streams", "contexts", "captured"} & set(sys.argv)

    def work(i):
        assert cuda.cuCtxSetCurrent(context) == OK
        stream, graph, executable = pointer(), pointer(), pointer()
        function = entry
        if i > 0 and "contexts" in sys.argv:
            assert start()[0] == OK
            function = counts_kernel()
        if i > 0:  # the first one is the default stream
            assert cuda.cuStreamCreate(ctypes.byref(stream), 1) == OK
        if i > 0 and "per_thread" in sys.argv:
            stream = pointer(2)

        def launch():
            return launch_count(function, word.value + 4 * i, 20_000_000, word.value + 2048, stream)
        if i > 0 and "graphs" in sys.argv:
            assert cuda.cuStreamBeginCapture_v2(stream, 1) == OK and launch() == OK
            assert cuda.cuStreamEndCapture(stream, ctypes.byref(graph)) == OK
            assert cuda.cuGraphInstantiateWithFlags(ctypes.byref(executable), graph, ctypes.c_ulonglong(0)) == OK
        captured.wait()  # launches beside a capture have no marks
        if i > 0 and aside:
            first.wait()
        if i == 1 and "many_streams" in sys.argv:
            for _ in range(64):
                other = pointer()
                assert cuda.cuStreamCreate(ctypes.byref(other), 1) == OK
                assert launch_count(function, word.value + 1024, 0, word.value + 2048, other) == OK
        if i > 0 and "captured" in sys.argv:
            other, graph = pointer(), pointer()
            assert cuda.cuStreamCreate(ctypes.byref(other), 1) == OK and cuda.cuStreamBeginCapture_v2(other, 2) == OK
        for number in range(each):
            if "joined" in sys.argv and i > 0:
                made[number].wait()
                assert cuda.cuStreamWaitEvent(stream, events[number], 0) == OK
            assert (cuda.cuGraphLaunch(executable, stream) if executable else launch()) == OK
            if "joined" in sys.argv and i == 0:
                assert cuda.cuEventCreate(ctypes.byref(events[number]), 2) == OK
                assert cuda.cuEventRecord(events[number], stream) == OK
                made[number].set()
            first.set()
        if i > 0 and "captured" in sys.argv:
            assert cuda.cuStreamEndCapture(other, ctypes.byref(graph)) == OK
        if i > 0 and "destroyed" in sys.argv:
            assert cuda.cuStreamDestroy_v2(stream) == OK
            assert cuda.cuCtxSynchronize() == OK
            return
        assert cuda.cuStreamSynchronize(stream) == OK
    ready()
    told_to_go_on()
    threads = [threading.Thread(target=work, args=(i,), daemon="quits" in sys.argv) for i in range(streams)]
    for thread in threads:
        thread.start()
    print(sum(counts), flush=True)
    while line := sys.stdin.readline():
        hurry.value |= "hurry" in line
        print(in_child(address) if "fork" in line else sum(counts), flush=True)
    if "quits" in sys.argv:
        return {"counts": list(counts)}
    for thread in threads:
        thread.join()
    return {"counts": list(counts), "good": get(address, 4 * MIB) == b"\7" * (4 * MIB)}


def makes_contexts_anew():
    """Launches kernels in a context, ends it, and begins with the next one, until there is a line."""
    last = [start()[1]]

    def work(_, number, __):
        context = last[0]
        assert cuda.cuCtxSetCurrent(context) == OK
        status, address = allocate(2 * MIB)
        module, function, hurry = pointer(), pointer(), u64(address + 2048)
        assert status == OK and cuda.cuMemsetD8_v2(u64(address), ctypes.c_ubyte(0), size_t(4096)) == OK
        assert cuda.cuModuleLoadData(ctypes.byref(module), COUNTS) == OK
        assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b"counts") == OK
        values = u64(address), ctypes.c_uint64(100_000), hurry
        parameters = (pointer * 3)(*(ctypes.cast(ctypes.pointer(value), pointer) for value in values))
        for _ in range(30):
            assert cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, pointer(), parameters, None) == OK
        assert cuda.cuCtxSynchronize() == OK
        assert int.from_bytes(get(address, 4), "little") == 30
        assert cuda.cuCtxDestroy_v2(context) == OK
        last[0] = start()[1]
    return until_told(work, 1)


def launches_twice():
    """At a line launches a kernel of a minute in the thread's default stream, then 199 of 20 ms in another one;
    ends them at the next line. At another line launches 200 more of 20 ms, then ends them where standard input
    ends."""
    start()
    (_words, word), function, stream = own_words(), counts_kernel(), pointer()
    count, hurry = (ctypes.c_uint32.from_address(word + offset) for offset in (0, 2048))
    other = ctypes.c_uint32.from_address(word + 1024)

    def launch(number):
        for _ in range(number):
            assert launch_count(function, word, 20_000_000, word + 2048, stream) == OK
    assert cuda.cuStreamCreate(ctypes.byref(stream), 1) == OK
    ready()
    told_to_go_on()
    assert launch_count(function, word + 1024, 60_000_000_000, word + 2048, pointer(2)) == OK
    launch(199)
    print(count.value, flush=True)
    told_to_go_on()
    hurry.value = 1
    ready()
    told_to_go_on()
    assert cuda.cuCtxSynchronize() == OK
    hurry.value = 0
    launch(200)
    ready()
    while sys.stdin.readline():
        print(count.value, flush=True)
    hurry.value = 1
    assert cuda.cuCtxSynchronize() == OK
    return {"count": count.value + other.value}


def meets_waits():
    """Work of a minute in one stream; with "queue" a hundred kernels of 30 ms instead, and with "ends" one of 1.5
    s. At a line its context ends ("queue", "destroy", "reset"), captures begin in other contexts ("capture"), or
    the program ends ("ends"). Its work ends a moment later."""
    kind, context = sys.argv[2], pointer()
    if kind == "reset":
        assert cuda.cuInit(0) == OK and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == OK
        assert cuda.cuCtxSetCurrent(context) == OK
    else:
        context = start()[1]
    (_words, word), stream = own_words(), pointer()
    assert cuda.cuStreamCreate(ctypes.byref(stream), 1) == OK
    function, hurry = counts_kernel(), ctypes.c_uint32.from_address(word + 2048)
    ready()
    told_to_go_on()
    for _ in range(100 if kind == "queue" else 1):
        nanoseconds = {"queue": 30_000_000, "ends": 1_500_000_000}.get(kind, 60_000_000_000)
        assert launch_count(function, word, nanoseconds, word + 2048, stream) == OK
    streams = []
    for _ in range(6 if kind == "capture" else 0):
        other = pointer()
        assert start()[0] == OK and cuda.cuStreamCreate(ctypes.byref(other), 1) == OK
        streams.append(other)
    ready()
    told_to_go_on()

    def hurries():
        hurry.value = 1
    threading.Timer(0 if kind == "queue" else 0.05, hurries).start()
    if kind == "ends":
        return {"statuses": []}
    if kind != "capture":
        return {"statuses": [cuda.cuDevicePrimaryCtxReset_v2(0) if kind == "reset" else cuda.cuCtxDestroy_v2(context)]}
    statuses = [cuda.cuStreamBeginCapture_v2(other, 2) for other in streams]
    time.sleep(0.3)
    for other in streams:
        statuses.append(cuda.cuStreamEndCapture(other, ctypes.byref(pointer())))
    return {"statuses": statuses}


def ends_a_context_behind_work():
    """A thread ends the context, and so waits for work that ends after a line."""
    _, context = start()
    (_words, word), stream = own_words(), pointer()
    assert cuda.cuStreamCreate(ctypes.byref(stream), 1) == OK
    assert launch_count(counts_kernel(), word, 60_000_000_000, word + 2048, stream) == OK
    status = []
    ending = threading.Thread(target=lambda: status.append(cuda.cuCtxDestroy_v2(context)))
    ending.start()
    ready()
    told_to_go_on()
    ctypes.c_uint32.from_address(word + 2048).value = 1
    ending.join()
    return {"status": status}


def ends_a_context_where_it_stands():
    """Launches kernels of 20 ms ahead of the GPU at a line and ends the context, so that the call waits for them; then
    begins with the next context."""
    _, context = start()
    (_words, word), function, stream = own_words(), counts_kernel(), pointer()
    counts, hurry = (ctypes.c_uint32.from_address(word + offset) for offset in (0, 2048))
    statuses = []

    def ends():
        statuses.append(cuda.cuCtxDestroy_v2(context))
        statuses.append(start()[0])
        _more, other = own_words()
        statuses.append(launch_count(counts_kernel(), other, 0, other + 2048, pointer()))
        statuses.append(cuda.cuCtxSynchronize())
    ready()
    told_to_go_on()
    assert cuda.cuStreamCreate(ctypes.byref(stream), 1) == OK
    for _ in range(200):
        assert launch_count(function, word, 20_000_000, word + 2048, stream) == OK
    ending = threading.Thread(target=ends)
    ending.start()
    print(counts.value, flush=True)
    while line := sys.stdin.readline():
        hurry.value |= "hurry" in line
        print(counts.value, flush=True)
    ending.join()
    return {"statuses": statuses}


def waits_for_itself():
    """A stream whose work waits for a word that this program writes at the first line; with an argument: the default
    stream."""
    start()
    status, address = allocate(4 * MIB)
    word = pointer()
    assert status == OK and cuda.cuMemHostAlloc(ctypes.byref(word), size_t(4096), 0) == OK
    ctypes.c_uint32.from_address(word.value).value = 0
    stream = pointer()
    assert len(sys.argv) > 2 or cuda.cuStreamCreate(ctypes.byref(stream), 1) == OK
    put(address, b"\5" * 4096)
    assert cuda.cuStreamWaitValue32_v2(stream, u64(word.value), ctypes.c_uint32(1), 0) == OK
    ready()
    told_to_go_on()
    ctypes.c_uint32.from_address(word.value).value = 1
    waited = cuda.cuStreamSynchronize(stream)
    ready()
    told_to_go_on()
    return {"waited": waited, "good": get(address, 4096) == b"\5" * 4096}


def closes():
    """At each line but the last, closes the descriptors that it did not open (except the driver's), and opens sockets
    of its own with those numbers. Returns whether its data and the messages at the sockets are right; prints how many
    it closed."""
    _, context = start()
    blocks = [allocate(8 * MIB)[1] for _ in range(3)]
    for number, address in enumerate(blocks):
        put(address, bytes([number + 1]) * 4096)
    ready()
    own, pairs, lowest = set(), [], 600
    for line in sys.stdin:
        there = {int(name) for name in os.listdir("/proc/self/fd")}
        foreign = [number for number in there - own if number >= lowest]
        for number in foreign:
            os.close(number)
            ours, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            os.dup2(ours.fileno(), number)
            other.send(b"x")
            pairs.append((ours, other))
        own.update(foreign)
        print(len(foreign), flush=True)

    def messages_at(end):
        end.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            return end.recv(8)
    return {"good": [get(address, 4096) == bytes([number + 1]) * 4096 for number, address in enumerate(blocks)],
            "said": [[messages_at(ours) == b"x", messages_at(other)] for ours, other in pairs],
            "freed": [free(address) for address in blocks]}


def forks():
    """A child of a fork while the parent has memory that can leave: both have their own state."""
    start()
    status, address = allocate(8 * MIB)
    assert status == OK
    put(address, b"\3" * 4096)
    ready()
    told_to_go_on()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, json.dumps([allocate(4 * MIB)[0], free(address), cuda.cuInit(0)]).encode())
        ready()
        told_to_go_on()
        os._exit(0)
    os.close(writing)
    answers = json.loads(os.read(reading, 1000))
    os.waitpid(child, 0)
    return {"child": answers, "good": get(address, 4096) == b"\3" * 4096, "freed": free(address)}


def told_of_pointers():
    """The attributes of memory that the shim backs, which must equal those of plain memory."""
    _, context = start()
    size = 300 * MIB + 1000  # several of the driver's handles
    status, address = allocate(size)
    assert status == OK
    answers = []
    for at in (address, address + 1, address + 299 * MIB, address + size - 1):
        base, length = u64(), size_t()
        answers.append([cuda.cuMemGetAddressRange_v2(ctypes.byref(base), ctypes.byref(length), u64(at)),
                        base.value - address, length.value])
        answers.append(cuda.cuMemGetAddressRange_v2(None, ctypes.byref(length), u64(at)))
        owner, begin, length, kind = pointer(), u64(), size_t(), ctypes.c_uint()
        answers += [cuda.cuPointerGetAttribute(ctypes.byref(owner), 1, u64(at)), owner.value == context.value,
                    cuda.cuPointerGetAttribute(ctypes.byref(kind), 2, u64(at)), kind.value,
                    cuda.cuPointerGetAttribute(ctypes.byref(begin), 11, u64(at)), begin.value - address,
                    cuda.cuPointerGetAttribute(ctypes.byref(length), 12, u64(at)), length.value]
        owner, begin, length = pointer(), u64(), size_t()
        wanted, where = (ctypes.c_int * 3)(1, 11, 12), (pointer * 3)(
            *(ctypes.cast(ctypes.byref(one), pointer) for one in (owner, begin, length)))
        answers += [cuda.cuPointerGetAttributes(3, wanted, where, u64(at)), owner.value == context.value,
                    begin.value - address, length.value]
    ids = []
    for at in (address, address + 299 * MIB):
        number = ctypes.c_ulonglong()
        assert cuda.cuPointerGetAttribute(ctypes.byref(number), 7, u64(at)) == OK
        ids.append(number.value)
    answers.append(ids[0] == ids[1])
    pitched, pitch = u64(), size_t()
    answers += [cuda.cuMemAllocPitch_v2(ctypes.byref(pitched), ctypes.byref(pitch), size_t(5000), size_t(1000), 4),
                pitch.value, free(pitched.value), free(pitched.value),
                cuda.cuMemAllocPitch_v2(ctypes.byref(pitched), ctypes.byref(pitch), size_t(5000), size_t(1000), 3)]
    # One copy across all of it, and a stream-ordered free.
    put(address + 250 * MIB, bytes(range(256)) * (20 * MIB // 256))
    answers.append(get(address + 255 * MIB, 4 * MIB) == bytes(range(256)) * (4 * MIB // 256))
    answers += [free(address + MIB), cuda.cuMemFreeAsync(u64(address), pointer(0)), free(address)]
    return answers


def checkpoints():
    """The driver's own checkpoint of another process: lock, checkpoint, a line, restore, unlock."""
    assert cuda.cuInit(0) == OK
    pid, arguments = int(sys.argv[2]), (ctypes.c_ubyte * 64)()
    ctypes.c_uint32.from_buffer(arguments).value = 5000
    print(json.dumps([cuda.cuCheckpointProcessLock(pid, arguments),
                      cuda.cuCheckpointProcessCheckpoint(pid, (ctypes.c_ubyte * 64)())]), flush=True)
    told_to_go_on()
    return [cuda.cuCheckpointProcessRestore(pid, (ctypes.c_ubyte * 64)()),
            cuda.cuCheckpointProcessUnlock(pid, (ctypes.c_ubyte * 64)())]


def fills():
    """Takes all of the device's memory but a number of MiB, until there is a line."""
    start()
    room = probe.info()[0] // (2 * MIB) * (2 * MIB) - int(sys.argv[2]) * MIB
    status = allocate(room)[0]
    ready()
    told_to_go_on()
    return {"status": status}


def device_used():
    """NVML's figures of the device with that index, else the first, without a context."""
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    device, memory = pointer(), (u64 * 3)()
    assert nvml.nvmlInit_v2() == OK
    assert nvml.nvmlDeviceGetHandleByIndex_v2(int((sys.argv + [0])[2]), ctypes.byref(device)) == OK
    assert nvml.nvmlDeviceGetMemoryInfo(device, memory) == OK
    return memory[2]


if __name__ == "__main__":
    print(json.dumps((globals().get(sys.argv[1]) or getattr(probe, sys.argv[1]))()), flush=True)

"""How long other users wait while one user lists, submits and cancels jobs by the ten thousand, for bench.py."""

import contextlib
import threading
import time

import machine
from queue_bench import MANY, Client, resident_mib

JOBS = 60_000


class Neighbour:
    """Sends a small request again and again, each on a connection of its own; returns the times in ms."""

    def __init__(self, m, target="/v1/version"):
        self.m, self.target, self.times, self.over = m, target, [], threading.Event()
        self.thread = threading.Thread(target=self.ask)

    def ask(self):
        while not self.over.is_set():
            begin = time.monotonic()
            connection = machine.UnixConnection(self.m.env["GPUMAN_SOCKET"], timeout=120)
            with contextlib.closing(connection):
                connection.request("GET", self.target)
                connection.getresponse().read()
            self.times.append((time.monotonic() - begin) * 1e3)
            time.sleep(0.005)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


class Reader:
    """Requests the whole queue again and again and reads each answer to its end."""

    def __init__(self, m):
        self.m, self.over, self.lists = m, threading.Event(), 0
        self.thread = threading.Thread(target=self.read)

    def read(self):
        while not self.over.is_set():
            connection = machine.UnixConnection(self.m.env["GPUMAN_SOCKET"], timeout=300)
            with contextlib.closing(connection):
                connection.request("GET", "/v1/queue?states=all")
                answer = connection.getresponse()
                while answer.read(1 << 20) and not self.over.is_set():
                    pass
            self.lists += not self.over.is_set()


def figure(times):
    ordered = sorted(times)
    return f"median {ordered[len(ordered) // 2]:.1f}, p99 {ordered[len(ordered) * 99 // 100]:.1f}, max {ordered[-1]:.1f} ms, n={len(ordered)}"


def measure(tell):
    """Calls tell(what, figure, bar) for each figure."""
    with machine.Machine(gpus=2, config=MANY) as m:
        client = Client(m)
        client.ask("PATCH", "/v1/queue/settings", {"paused": True})
        with Neighbour(m) as rest:
            time.sleep(3)
        tell("a small request, nobody else asks", figure(rest.times), "")
        differing = [{"command": ["true", str(n)], "gpus": {"count": 1}} for n in range(JOBS // 3)]
        with Neighbour(m) as neighbour:
            begin = time.monotonic()
            for _ in range(3):
                client.submit(differing)
            took = time.monotonic() - begin
        tell(f"the same while {JOBS:,} jobs are submitted, {JOBS // 3:,} in a request", figure(neighbour.times), "at most 100 ms")
        tell("those submissions", f"{JOBS / took:.0f} jobs a second", "")
        with Neighbour(m) as neighbour:
            begin = time.monotonic()
            array = client.submit([{"command": ["true"], "gpus": {"count": 1}, "array": {"indices": [{"first": 1, "last": JOBS}]}}])[0]
            took = time.monotonic() - begin
        tell(f"the same while an array of {JOBS:,} tasks is submitted", figure(neighbour.times), "at most 100 ms")
        tell("that submission", f"{took:.2f} s", "")
        before = resident_mib(m.daemon.pid)
        readers = [Reader(m) for _ in range(8)]
        with Neighbour(m) as neighbour:
            for reader in readers:
                reader.thread.start()
            time.sleep(20)
            for reader in readers:
                reader.over.set()
            listed = resident_mib(m.daemon.pid)
            for reader in readers:
                reader.thread.join()
        tell(f"the same while eight clients list {2 * JOBS:,} jobs", figure(neighbour.times), "at most 100 ms", f"{sum(r.lists for r in readers)} whole lists")
        tell("memory for those lists", f"{listed - before:.0f} MiB", "")
        with Neighbour(m) as neighbour:
            begin = time.monotonic()
            client.ask("POST", f"/v1/jobs/{array['id']}/cancel")
            took = time.monotonic() - begin
        tell(f"the same while an array of {JOBS:,} tasks is cancelled", figure(neighbour.times), "at most 100 ms")
        tell("that cancellation", f"{took:.1f} s", "")
        m.stop_daemon()  # so that the end of the machine does not remove job by job

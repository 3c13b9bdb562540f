"""The Kubernetes plugin end to end, and its packing on a model of a cluster, for bench.py."""

import json
import pathlib
import statistics
import subprocess
import time

import machine
from kube_node import Node

GPUS, GIB = 8, 141
RESOURCE = "gpuman.io/gpumem-gib"
CONFIG = f'[[resource]]\nname = "{RESOURCE}"\nkind = "memory"\n'
REST = 60  # seconds


def quantile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def switches(pid):
    """How often the threads of the process have gone to sleep."""
    total = 0
    for status in pathlib.Path(f"/proc/{pid}/task").glob("*/status"):
        total += sum(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("voluntary"))
    return total


def resident(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1000
    raise SystemExit("bench: no VmRSS")


def whole(line):
    return len(line["healthy"]) == GPUS * GIB


def measure_restarts(node, tell, count=20):
    """Measures from the appearance of kubelet's socket; fake_kubelet starts to serve later, so the true time is
    shorter."""
    times = []
    for _ in range(count):
        node.stop_kubelet()
        begin = time.monotonic()
        node.start_kubelet()
        while not (node.kubelet_dir / "kubelet.sock").exists():
            if time.monotonic() - begin > 60:
                raise SystemExit("bench: no kubelet.sock")
        begin = time.monotonic()
        node.kubelet.devices(RESOURCE, whole)
        times.append((time.monotonic() - begin) * 1e3)
    tell("kubelet's socket appears until all devices are listed", f"median {statistics.median(times):.0f}, max {max(times):.0f} ms, n={count}",
         "at most 2 s")


def measure_packing(tell):
    done = subprocess.run([machine.build_dir() / "bench" / "kube" / "kube_packing"], check=True, capture_output=True, text=True)
    for figures in map(json.loads, done.stdout.splitlines()):
        tell(f"packing by {figures['rule']}, scheduler {figures['scheduler']}", f"{figures['refused'] * 100:.2f} % refused as straddling, {figures['stranded'] * 100:.2f} % of memory stranded",
             "lower than first fit" if "least" in figures["scheduler"] else "none", f"{figures['arrivals']} arrivals × {figures['runs']}")


def measure(tell):
    with machine.Machine(profile="h200", gpus=GPUS, memory=f"{GIB}GiB") as m:
        node = Node(m, CONFIG)
        try:
            node.start_kubelet()
            node.start_plugin()
            line = node.kubelet.devices(RESOURCE, whole)
            tell(f"list of {GPUS} × {GIB} devices", f"{line['bytes'] / 1024:.0f} KiB", "kubelet takes 4,096 KiB")
            for size in (1, 80):
                times = node.kubelet.ask("time", RESOURCE, size, 2000)["milliseconds"]
                tell(f"Allocate, {size} GiB", f"median {statistics.median(times):.2f}, p99 {quantile(times, 0.99):.2f}, max {max(times):.2f} ms, "
                     f"n={len(times)}", "p99 at most 20 ms", "through the gRPC library")
            measure_restarts(node, tell)
            time.sleep(10)  # until gpumand's first looks are over
            before = switches(node.plugin.pid)
            time.sleep(REST)
            tell("plugin at rest, wake-ups", f"{switches(node.plugin.pid) - before} in {REST} s", "none")
            tell("plugin at rest, memory", f"{resident(node.plugin.pid):.1f} MB resident", "at most 20 MB")
        finally:
            node.close()
    measure_packing(tell)

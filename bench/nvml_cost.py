#!/usr/bin/env python3
"""The cost of each NVML call that gpumand makes: median and p99 microseconds, and the processor time in them.

Usage: nvml_cost.py [GPU]     (standard library alone; on the simulated driver through gpuman-sim exec)
"""

import ctypes
import statistics
import sys
import time


class Memory(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint), *((name, ctypes.c_ulonglong) for name in ("total", "reserved", "free", "used"))]


class Process(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("gi", ctypes.c_uint), ("ci", ctypes.c_uint)]


class Utilization(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


def main():
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    assert nvml.nvmlInit_v2() == 0
    device = ctypes.c_void_p()
    assert nvml.nvmlDeviceGetHandleByIndex_v2(int(sys.argv[1]) if len(sys.argv) > 1 else 0, ctypes.byref(device)) == 0
    memory = Memory(version=ctypes.sizeof(Memory) | 2 << 24)
    found, utilization, value = ctypes.c_uint(), Utilization(), ctypes.c_uint()
    processes = (Process * 256)()

    def list_of(kind):
        def call():
            found.value = 256
            return getattr(nvml, f"nvmlDeviceGet{kind}RunningProcesses_v3")(device, ctypes.byref(found), processes)
        return call

    calls = {
        "memory info v2": lambda: nvml.nvmlDeviceGetMemoryInfo_v2(device, ctypes.byref(memory)),
        "graphics processes": list_of("Graphics"),
        "compute processes": list_of("Compute"),
        "utilization": lambda: nvml.nvmlDeviceGetUtilizationRates(device, ctypes.byref(utilization)),
        "temperature": lambda: nvml.nvmlDeviceGetTemperature(device, 0, ctypes.byref(value)),
        "power": lambda: nvml.nvmlDeviceGetPowerUsage(device, ctypes.byref(value)),
    }
    for pause in (0, 0.1):
        print(f"{'one after the other' if not pause else 'every 100 ms'}:")
        for name, call in calls.items():
            times, rc, processor = [], 0, time.thread_time_ns()
            for _ in range(2000 if not pause else 50):
                time.sleep(pause)
                start = time.monotonic_ns()
                rc = call()
                times.append((time.monotonic_ns() - start) / 1e3)
            processor = (time.thread_time_ns() - processor) / len(times) / 1e3
            times.sort()
            note = f", {found.value} listed" if "processes" in name else ""
            print(f"  {name:20} median {statistics.median(times):8.1f}  p99 {times[int(0.99 * (len(times) - 1))]:8.1f} us"
                  f"  (processor {processor:6.1f})" + (f"  rc {rc}" if rc else "") + note)


main()

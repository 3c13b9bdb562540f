#!/usr/bin/env python3
"""nvidia-ml-py, gpustat and nvitop show the devices and processes of the simulated driver.

Without arguments of its own the script prepares the packages and runs itself under gpuman-sim, once for each machine.
"""
import argparse
import json
import os
import subprocess
import sys
import venv

PACKAGES = ["nvidia-ml-py==13.580.82", "gpustat==1.1.1", "nvitop==1.6.0"]
SKIPPED = 77
GIB = 1 << 30
MACHINES = [("h200", "580.159.04", 2), ("rtx4050", "550.90.07", 1), ("a100", "470.82.1", 4)]


def prepare(folder):
    """Installs the packages in a virtual environment that later runs use again."""
    stamp = os.path.join(folder, "installed")
    if os.path.exists(stamp) and open(stamp).read().split() == PACKAGES:
        return
    try:
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([f"{folder}/bin/pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES],
                       check=True, timeout=200)
    except (subprocess.SubprocessError, OSError) as error:
        print(f"skipped: the packages {' '.join(PACKAGES)} could not be installed: {error}")
        sys.exit(SKIPPED)
    with open(stamp, "w") as file:
        file.write("\n".join(PACKAGES))


def expect(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def check_pynvml(gpus, pid, has_v3):
    import pynvml
    pynvml.nvmlInit()
    expect(pynvml.nvmlDeviceGetCount() == gpus, "nvidia-ml-py sees every GPU")
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    expect(pynvml.nvmlDeviceGetName(handle).startswith("NVIDIA"), "nvidia-ml-py gives the name")
    if has_v3:
        used = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2).used
        processes = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    else:
        # The first version includes the driver's own memory; old drivers lack the functions of later ones.
        used = GIB if pynvml.nvmlDeviceGetMemoryInfo(handle).used > GIB else 0
        try:
            pynvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)
            expect(False, "an old driver lacks the newest functions")
        except pynvml.NVMLError_FunctionNotFound:
            processes = pynvml.nvmlDeviceGetComputeRunningProcesses_v2(handle)
    expect(used == GIB, f"nvidia-ml-py sees 1 GiB in use, not {used}")
    seen = [(process.pid, process.usedGpuMemory) for process in processes]
    expect(seen == [(pid, GIB)], f"nvidia-ml-py sees the process, not {seen}")
    pynvml.nvmlShutdown()


def check_gpustat(gpus, pid, has_v3):
    output = subprocess.run([sys.executable, "-m", "gpustat", "--json"], check=True, capture_output=True, text=True)
    machine = json.loads(output.stdout)
    expect(len(machine["gpus"]) == gpus, "gpustat sees every GPU")
    if has_v3:  # gpustat calls a function that old drivers lack, and then shows no process
        seen = [(process["pid"], process["gpu_memory_usage"]) for process in machine["gpus"][0]["processes"]]
        expect(seen == [(pid, 1024)], f"gpustat sees the process, not {seen}")


def check_nvitop(gpus, pid):
    output = subprocess.run([sys.executable, "-m", "nvitop", "--once", "--no-unicode"], check=True,
                            capture_output=True, text=True, env={**os.environ, "COLUMNS": "120", "TERM": "dumb"}).stdout
    for gpu in range(gpus):
        expect(any(line.startswith(f"|   {gpu}  ") for line in output.splitlines()), f"nvitop shows GPU {gpu}")
    row = next((line for line in output.splitlines() if f" {pid} " in line), None)
    expect(row is not None and "1024MiB" in row, f"nvitop shows the process with its memory, not {row}\n{output}")


def check_machine(holder, gpus, driver):
    with subprocess.Popen([holder, "0", str(GIB)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        expect(process.stdout.readline() == "holding\n", "the helper holds memory")
        has_v3 = int(driver.split(".")[0]) >= 510
        check_pynvml(gpus, process.pid, has_v3)
        check_gpustat(gpus, process.pid, has_v3)
        check_nvitop(gpus, process.pid)
        process.stdin.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--simulator")
    parser.add_argument("--holder", required=True)
    parser.add_argument("--venv")
    parser.add_argument("--inside", nargs=2, metavar=("GPUS", "DRIVER"))
    arguments = parser.parse_args()
    if arguments.inside:
        check_machine(arguments.holder, int(arguments.inside[0]), arguments.inside[1])
        return
    prepare(arguments.venv)
    for profile, driver, gpus in MACHINES:
        subprocess.run([arguments.simulator, "exec", "--profile", profile, "--driver", driver, "--gpus", str(gpus),
                        "--", f"{arguments.venv}/bin/python", os.path.abspath(__file__), "--holder", arguments.holder,
                        "--inside", str(gpus), driver], check=True)
        print(f"{profile} with driver {driver}: nvidia-ml-py, gpustat and nvitop agree")


if __name__ == "__main__":
    main()

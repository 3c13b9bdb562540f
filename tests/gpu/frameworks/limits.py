#!/usr/bin/env python3
"""Programs that ask for more than their limit, each under a ledger (or a daemon) of its own, several at once.

Usage: limits.py [--limit BYTES] [--parallel N] [--daemon] [--runtime PROGRAM] [--json FILE] [NAME…]

NAMEs choose programs by the start of their names (`torch`, `jax`); `driver` needs no framework and runs on the simulated
driver too. --daemon: `gpuman run` starts them under a daemon of this script's own. --runtime names what runtime_limit.cu
was built to. What NVML shows of a program is told beside what it held; the two differ by code and contexts, which the ledger
knows only where a daemon writes them into it. Exit status 1: one of them did not do what it should.
"""

import argparse
import concurrent.futures
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "tests/harness"))
import ledger  # noqa: E402
import machine  # noqa: E402

MIB, GIB = 1 << 20, 1 << 30
TORCH, JAX = "PYTORCH_CUDA_ALLOC_CONF", "XLA_PYTHON_CLIENT_"


def programs(runtime):
    """Returns {name: (command, environment)}."""
    def script(name, *arguments):
        return [sys.executable, str(HERE / name), *arguments]
    known = {
        "driver": (script("driver_limit.py"), {}),
        "torch": (script("torch_limit.py"), {}),
        "torch expandable": (script("torch_limit.py"), {TORCH: "expandable_segments:True"}),
        "torch async": (script("torch_limit.py"), {TORCH: "backend:cudaMallocAsync"}),
        "cupy": (script("cupy_limit.py"), {}),
        "cupy async": (script("cupy_limit.py", "--pool", "async"), {}),
        "jax": (script("jax_limit.py"), {JAX + "PREALLOCATE": "true"}),
        "jax growing": (script("jax_limit.py"), {JAX + "PREALLOCATE": "false"}),
        "jax platform": (script("jax_limit.py"), {JAX + "PREALLOCATE": "false", JAX + "ALLOCATOR": "platform"}),
    }
    if runtime:
        known["runtime"] = ([os.path.abspath(runtime)], {})
    return known


class Watch:
    """Records the largest memory that NVML showed of each process."""

    def __init__(self):
        self.most, self.failed = {}, None
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._look)

    def _look(self):
        try:
            nvml = ledger.Nvml()
            while not self.ended.wait(0.002):
                for pid, used in nvml.processes().items():
                    self.most[pid] = max(used, self.most.get(pid, 0))
        except (RuntimeError, OSError) as error:
            self.failed = str(error)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


def answer_of(output, status, errors):
    lines = [line for line in output.splitlines() if line.startswith("{")]
    if lines:
        return dict(json.loads(lines[-1]), status=status)
    return {"ok": False, "wrong": [f"exit status {status}: {errors[-1500:]}"], "status": status}


def under_ledger(name, command, settings, limit, uuid, watch):
    with tempfile.TemporaryDirectory(prefix="gpuman-limit-") as directory:
        with ledger.Ledger(directory + "/shim.sock", "--gpu", uuid, limit, 518 * MIB) as served:
            process = subprocess.Popen([*command, "--limit", str(limit)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       text=True, env={**ledger.preloaded(directory + "/shim.sock"), **settings})
            try:
                output, errors = process.communicate(timeout=180)
            except subprocess.TimeoutExpired:
                process.kill()
                output, errors = process.communicate()
            answer = answer_of(output, process.returncode, errors)
            wrong = list(answer["wrong"])
            if served("joined") == "0":
                wrong.append("did not join the ledger")
            served("reclaim")
            left = int(served("used", uuid))
            if left != 0:
                wrong.append(f"left {left} bytes in the ledger")
    return {**answer, "name": name, "ok": answer["ok"] and not wrong, "wrong": wrong,
            "nvml_most": watch.most.get(process.pid)}


def under_daemon(name, command, settings, limit, m):
    words = ["env", *(f"{key}={value}" for key, value in settings.items()), *command, "--limit", str(limit)]
    tag = name.replace(" ", "-")
    job = m.run_json("run", "--tag", tag, "--memory", str(limit), "--detach", "--", *words)
    ended = m.api("GET", f"/v1/jobs/{job['id']}/wait")
    output = pathlib.Path(ended["log_path"]).read_text()
    answer = answer_of(output, ended["exit_code"], output + str(ended.get("reason_detail")))
    return {**answer, "name": name, "nvml_most": ended["memory"]["peak"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, default=6 * GIB)
    parser.add_argument("--parallel", type=int, default=4)
    parser.add_argument("--daemon", action="store_true")
    parser.add_argument("--runtime", metavar="PROGRAM")
    parser.add_argument("--json", metavar="FILE", help="where to append the answers")
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    chosen = {name: program for name, program in programs(arguments.runtime).items()
              if not arguments.names or any(name.startswith(start) for start in arguments.names)}
    nvml = ledger.Nvml()
    uuid = nvml.uuid()
    # All programs run at once with twice their limit, and some use managed memory: the device must have that much.
    arguments.parallel = max(1, min(arguments.parallel, int(nvml.memory()["free"] // (2 * arguments.limit))))
    with contextlib.ExitStack() as stack:
        watch = stack.enter_context(Watch())
        m = stack.enter_context(machine.Machine(real=True)) if arguments.daemon else None
        pool = stack.enter_context(concurrent.futures.ThreadPoolExecutor(arguments.parallel))

        def run(name):
            command, settings = chosen[name]
            if m:
                return under_daemon(name, command, settings, arguments.limit, m)
            return under_ledger(name, command, settings, arguments.limit, uuid, watch)
        answers = list(pool.map(run, chosen))
    print("| program | result | its error | held of the limit, MiB | NVML's most, MiB | remark |\n|---|---|---|---|---|---|")
    for answer in answers:
        held = " and ".join(str(each // MIB) for each in answer.get("held", [])) or "-"
        most = answer["nvml_most"]
        print(f"| {answer['name']} | {'ok' if answer['ok'] else 'FAILED'} | {answer.get('error', '-')} "
              f"| {held} of {arguments.limit // MIB} | {'-' if most is None else most // MIB} "
              f"| {'; '.join(answer['wrong'])[:300]} |")
    if watch.failed:
        print(f"NVML could not be watched: {watch.failed}")
    if arguments.json:
        with open(arguments.json, "a", encoding="utf-8") as file:
            for answer in answers:
                print(json.dumps({"bench": "limits", **answer}), file=file)
    return 0 if all(answer["ok"] for answer in answers) else 1


if __name__ == "__main__":
    sys.exit(main())

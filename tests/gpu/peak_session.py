#!/usr/bin/env python3
"""Peaks and refusals on a real GPU, through a daemon of its own: what gpuman tells against what random programs did.

Usage: peak_session.py [--gpu N] [--programs 8] [--limit 2GiB] [--json FILE] [--sim]

  first     the first job under this daemon, which has never seen a context here, takes memory until it is refused; then a
            second one. What the driver says that each has must not be above its limit.
  alone     programs of one process (tests/integration/peak_program.py)
  limit     the same with --limit: most of them are refused memory several times
  pool      the same from the driver's pool
  three     programs of three processes
  killed    the same, whose processes are killed at any instruction: within the bounds of the killed calls

Prints one table; exit status 1 where a figure is wrong. Nothing else should use the GPU. --sim: on the simulated driver, to
try the script. GPUMAN_BUILD_DIR names the build.
"""

import argparse
import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from machine import Machine, program  # noqa: E402

MIB = 1 << 20
PROGRAM = pathlib.Path(__file__).resolve().parents[1] / "integration" / "peak_program.py"
KINDS = {"alone": ["--steps", "100"], "limit": ["--steps", "100"], "pool": ["--steps", "100", "--pool"],
         "three": ["--steps", "60", "--processes", "3"], "killed": ["--steps", "400", "--processes", "3", "--kills", "8"]}

# Takes 2 MiB at a time until it is refused, says how much that was, and keeps it.
TAKER = """
import ctypes, pathlib, sys, time
cuda, device, context, taken = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_void_p(), 0
assert (cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), 0) or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
        or cuda.cuCtxSetCurrent(context)) == 0
while cuda.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(2 << 20)) == 0:
    taken += 2 << 20
print(taken, flush=True)
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.05)
"""


class Session:
    def __init__(self, machine, options):
        self.m, self.o, self.rows, self.results, self.wrong = machine, options, [], [], 0

    def job(self, tag):
        return self.m.api("GET", f"/v1/jobs/{tag}")

    def log(self, job):
        path = pathlib.Path(job["log_path"])
        return path.read_text(errors="replace") if path.exists() else ""

    def until(self, true):
        end = time.monotonic() + 120
        while not (value := true()):
            if time.monotonic() > end:
                sys.exit(f"peak_session.py: not within two minutes\n{self.m.last_words()}")
            time.sleep(0.05)
        return value

    def start(self, tag, *words, limit=None):
        self.m.run_json("run", "--tag", tag, "--gpu", str(self.o.gpu), *(["--memory", limit] if limit else []), "--detach", "--", *words)

    def add(self, kind, number, right, words):
        self.wrong += not right
        self.rows.append(f"{kind:<8}{number:>3}  {words}{'' if right else '  WRONG'}")
        self.results.append({"kind": kind, "number": number, "right": right, "words": words})

    def first(self):
        """What the driver says that the job has, once it was refused memory, against its limit."""
        end = self.m.dir / "taker-end"
        for tag in ("first", "second"):
            self.start(tag, sys.executable, "-c", TAKER, str(end), limit=self.o.limit)
            taken = int(self.until(lambda tag=tag: self.log(self.job(tag)).split())[0])
            time.sleep(2)  # the driver's own figures are sampled
            limit, gpu = self.job(tag)["memory"]["limit"], self.m.api("GET", f"/v1/gpus/{self.o.gpu}")
            (has,) = [process["memory"] for process in gpu["processes"] if process["job"] is not None]
            end.touch()
            self.until(lambda tag=tag: self.job(tag)["ended_at"])
            end.unlink()
            self.add(tag, 0, has <= limit, f"took {taken // MIB} MiB until it was refused, has {has / MIB:.1f} MiB of {limit // MIB} MiB")

    def context_bytes(self):
        """As the daemon has stored it."""
        self.start("learns", program("gpuman-load"), "--alloc", "4MiB", "--hold", "1h")
        self.until((self.m.dir / "lib" / "contexts.json").exists)
        self.m.api("DELETE", "/v1/jobs/learns")
        (known,) = json.loads((self.m.dir / "lib" / "contexts.json").read_text()).values()
        return known["bytes"]

    def programs(self, kind, context):
        words, limited = KINDS[kind], kind == "limit"
        for seed in range(self.o.programs):
            tag = f"{kind}{seed}"
            self.start(tag, sys.executable, str(PROGRAM), str(seed), *words, "--context", str(context),
                       limit=self.o.limit if limited else None)
            job = self.until(lambda tag=tag: (now := self.job(tag))["ended_at"] and now)
            if job["state"] != "finished":
                self.add(kind, seed, False, f"{job['state']}: {job['reason_detail']}: {self.log(job)[-300:]}")
                continue
            self.compare(kind, seed, job, json.loads(self.log(job).splitlines()[-1]))

    def compare(self, kind, seed, job, said):
        peak, refusal = job["memory"]["peak"], job["refusal"]
        count = refusal["count"] if refusal else 0
        unsure = len(said.get("interrupted", [])) if kind == "killed" else 0
        right = said["least"] <= peak <= said["most"] and said["refused"] <= count <= said["refused"] + unsure
        if kind != "killed":
            right = right and said["least"] == said["most"]
            if count:
                right = right and [refusal["first"]["asked"], refusal["asked"]] == said["asked"]
        if kind in ("alone", "limit", "pool"):
            parts = {name: size for name, size in (job["memory"]["peak_parts"] or {}).items() if size}
            right = right and parts == {name: size for name, size in said["parts"].items() if size}
        between = lambda least, most: f"{least}" if least == most else f"{least} to {most}"
        told = (f"peak {peak} told, {between(said['least'], said['most'])} had; refused {count} told, "
                f"{between(said['refused'], said['refused'] + unsure)} had")
        self.add(kind, seed, right, told if right else f"{told}; {job['memory']['peak_parts']}, {refusal}, {said}")



def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--programs", type=int, default=8)
    parser.add_argument("--limit", default="2GiB")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--sim", action="store_true")
    o = parser.parse_args()
    with Machine(real=not o.sim, memory="8GiB" if o.sim else None) as machine:
        session = Session(machine, o)
        session.first()
        context = session.context_bytes()
        for kind in KINDS:
            session.programs(kind, context)
    kinds = dict.fromkeys(row["kind"] for row in session.results)
    print("\n".join(row for row, result in zip(session.rows, session.results) if not result["right"] or result["kind"] in ("first", "second")))
    for kind in kinds:
        right = [row["right"] for row in session.results if row["kind"] == kind]
        print(f"{kind:<8} {sum(right)} of {len(right)} right")
    if o.json:
        o.json.write_text(json.dumps(session.results, indent=1) + "\n")
    return 1 if session.wrong else 0


if __name__ == "__main__":
    sys.exit(main())

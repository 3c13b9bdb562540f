#!/usr/bin/env python3
"""Energy of jobs that share a real GPU, through a daemon of its own: two loads alone, in turns, and at once.

Usage: energy.py [--gpu N] [--alone 15] [--turns 30] [--size 6GiB] [--capacity 8GiB] [--sim] [--json FILE] [--log DIR]

  memory   works on all of its memory all the time (gpuman-load --verify): draws much
  spin     one long kernel after the other that hardly uses memory (gpuman-load --kernel-time): draws little

Each runs for --alone seconds with the GPU to itself, then both for --turns seconds in turns: they do not fit together into
--capacity; and both at once for half as long, without that capacity. Prints one table; the bars: the parts are within 2 % of
the GPU's counter in each phase, and the energy of each job for a unit of its work (an iteration) in turns is within 5 % of
that alone; at once it is only told, since work at once draws less than the sum. Exit status 1 where a bar is missed. Nothing
else should use the GPU. --sim: on the simulated driver, to try the script. GPUMAN_BUILD_DIR names the build.
"""

import argparse
import json
import pathlib
import re
import shutil
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from machine import Machine, UnixConnection, program  # noqa: E402

LOADS = {"memory": ["--verify"], "spin": ["--kernel-time", "5ms"]}
# The simulated driver computes on the processor, and draws the same for every kernel.
SIM_LOADS = {"memory": ["--kernel-time", "5ms"], "spin": ["--kernel-time", "5ms", "--duty", "0.4"]}


class Session:
    def __init__(self, machine, options):
        self.m, self.o, self.number, self.missed = machine, options, 0, False
        self.loads = SIM_LOADS if options.sim else LOADS
        self.rows, self.results = [], []

    def metrics(self):
        connection = UnixConnection(self.m.env["GPUMAN_SOCKET"])
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        def value(name, *labels):
            wanted = (f'gpu="{self.o.gpu}"', *labels)
            found = [float(line.rpartition(" ")[2]) for line in text.splitlines()
                     if line.startswith(name + "{") and all(label in line for label in wanted)]
            return found[0] if found else None
        parts = {part: value("gpuman_gpu_energy_part_joules_total", f'part="{part}"') for part in ("jobs", "idle", "others")}
        return {**parts, "counter": value("gpuman_gpu_energy_joules_total")}

    def settled(self):
        """The counter and the parts, once the GPU is idle: then the last reading is split."""
        time.sleep(3)
        before = self.metrics()
        while (now := self.metrics())["idle"] == before["idle"]:
            time.sleep(0.2)
        return now

    def start(self, name):
        self.number += 1
        tag, end = f"{name}{self.number}", self.m.dir / f"end{self.number}"
        self.m.run_json("run", "--tag", tag, "--gpu", str(self.o.gpu), "--share", "--detach", "--", program("gpuman-load"),
                        "--alloc", self.o.size, "--step", self.o.step, "--json", "--until", str(end), *self.loads[name])
        return name, tag, end

    def finish(self, started):
        name, tag, end = started
        end.touch()
        while not (job := self.m.api("GET", f"/v1/jobs/{tag}"))["ended_at"]:
            time.sleep(0.1)
        text = pathlib.Path(job["log_path"]).read_text(errors="replace")
        done = [json.loads(line) for line in text.splitlines() if re.match(r'\{"event":"done"', line)]
        if job["state"] != "finished" or not done or job["energy_j"] is None:
            sys.exit(f"energy.py: {tag} {job['state']}: {job['reason_detail']}; its energy: {job['energy_j']}\n{text[-2000:]}")
        return {"load": name, "joules": job["energy_j"], "iterations": done[0]["iterations"]}

    def phase(self, title, names, seconds):
        before = self.settled()
        jobs = [self.start(name) for name in names]
        time.sleep(seconds)
        ended = [self.finish(job) for job in jobs]
        after = self.settled()
        used = {part: after[part] - before[part] for part in before}
        parts = used["jobs"] + used["idle"] + used["others"]
        off = parts / used["counter"] - 1
        self.missed |= abs(off) > 0.02
        self.rows.append(f"{title:<14} {'GPU':<8} {used['counter']:>10.0f} J counter; jobs {used['jobs']:.0f}, idle {used['idle']:.0f}, "
                         f"others {used['others']:.0f}: sum {off:+.2%} {'ok' if abs(off) <= 0.02 else 'MISSED'} (bar 2 %)")
        self.results.append({"phase": title, **used, "loads": ended})
        return ended

    def compare(self, how, alone, together):
        reference = {one["load"]: one["joules"] / one["iterations"] for one in alone}
        for one in alone if how == "in turns" else ():
            self.rows.append(f"{'alone':<14} {one['load']:<8} {one['joules']:>10.0f} J {one['iterations']:>8} iterations "
                             f"{reference[one['load']]:>10.4f} J each")
        for one in together:
            each = one["joules"] / one["iterations"]
            off = each / reference[one["load"]] - 1
            missed = how == "in turns" and abs(off) > 0.05
            self.missed |= missed
            bar = f" {'MISSED' if missed else 'ok'} (bar 5 %)" if how == "in turns" else ""
            self.rows.append(f"{how:<14} {one['load']:<8} {one['joules']:>10.0f} J {one['iterations']:>8} iterations {each:>10.4f} J "
                             f"each: {off:+.1%}{bar}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--alone", type=float, default=15)
    parser.add_argument("--turns", type=float, default=30)
    parser.add_argument("--size")
    parser.add_argument("--capacity")
    parser.add_argument("--sim", action="store_true")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--log", type=pathlib.Path, help="keep the daemon's log there")
    o = parser.parse_args()
    o.size, o.capacity = o.size or ("8MiB" if o.sim else "6GiB"), o.capacity or ("1046MiB" if o.sim else "8GiB")
    o.step = "4MiB" if o.sim else "512MiB"
    config = f'[share]\ncapacity = "{o.capacity}"\n' + ('[log]\nlevel = "debug"\n' if o.log else "")
    with Machine(real=not o.sim, memory="4GiB" if o.sim else None, config=config) as machine:
        session = Session(machine, o)
        time.sleep(12)  # the GPU has come to rest, and its power there is learnt
        for _ in range(1):  # the driver loads its code, and the daemon learns what a context takes
            session.finish(session.start("spin"))
        alone = [session.phase(f"alone {name}", [name], o.alone)[0] for name in session.loads]
        together = session.phase("in turns", list(session.loads), o.turns)
        shares = machine.api("GET", "/v1/share")
        session.compare("in turns", alone, together)
        machine.api("PUT", "/v1/share", {"clear_capacity": True})
        session.compare("at once", alone, session.phase("at once", list(session.loads), o.turns / 2))
        moved = [gpu["hand_overs"] for gpu in shares["gpus"]]
        if o.log:
            o.log.mkdir(parents=True, exist_ok=True)
            shutil.copy(machine.dir / "daemon.log", o.log)
    print("\n".join(session.rows))
    if moved:
        print(f"hand-overs: {sum(moved)}")
    if o.json:
        o.json.write_text(json.dumps(session.results, indent=1) + "\n")
    return 1 if session.missed else 0


if __name__ == "__main__":
    sys.exit(main())

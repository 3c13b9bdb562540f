#!/usr/bin/env python3
"""Compares what gpuman reads of the first GPU, field by field, with `nvidia-smi -q`. It only reads: no setting changes.

Usage: read_check.py [OUT_DIR]; GPUMAN_BUILD_DIR names the build. Prints a table; exit status 1 where the two differ.

What changes by itself (power, temperature, clocks, memory of other programs) may differ by what the table says.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from machine import Machine  # noqa: E402

GIB, MIB = 1 << 30, 1 << 20


def smi(*words):
    return subprocess.run(["nvidia-smi", *words], capture_output=True, text=True, check=False).stdout


class Table:
    def __init__(self):
        self.bad, self.count = 0, 0

    def row(self, what, theirs, ours, slack=None):
        """Numbers may differ by `slack`, if it is given; else both must be the same word."""
        self.count += 1
        if slack is not None and theirs is not None and ours is not None:
            same = abs(float(theirs) - float(ours)) <= slack
        else:
            same = theirs == ours
        self.bad += not same
        print(f"{'ok     ' if same else 'DIFFERS'} {what:<44} nvidia-smi {theirs!s:<28} gpuman {ours!s}", flush=True)


def number(text):
    """Returns None for what nvidia-smi calls N/A."""
    found = re.match(r"-?[\d.]+", text or "")
    return float(found[0]) if found else None


def devices(table, gpu, device):
    now = {one["name"]: one for one in device["settings"]}
    on = {"Enabled": "on", "Disabled": "off", "N/A": None}
    table.row("persistence", on[gpu.findtext("persistence_mode")], now["persistence"]["now"])
    table.row("compute mode", {"Default": "default", "Exclusive_Process": "exclusive-process", "Prohibited": "prohibited"}[
        gpu.findtext("compute_mode")], now["compute_mode"]["now"])
    table.row("ECC now", on[gpu.findtext("ecc_mode/current_ecc")], now["ecc"]["now"])
    pending = on[gpu.findtext("ecc_mode/pending_ecc")]
    table.row("ECC after a reset", pending, now["ecc"]["pending"] or now["ecc"]["now"])
    power = gpu.find("gpu_power_readings")
    table.row("power limit, W", number(power.findtext("current_power_limit")), number(now["power"]["now"]), 0.5)
    table.row("power limit by default, W", number(power.findtext("default_power_limit")), number(now["power"]["default"]), 0.5)
    table.row("least power limit, W", number(power.findtext("min_power_limit")), (now["power"]["range"] or {}).get("min"), 0.5)
    table.row("most power limit, W", number(power.findtext("max_power_limit")), (now["power"]["range"] or {}).get("max"), 0.5)
    supported = gpu.find("supported_clocks")
    memory = sorted(number(one.findtext("value")) for one in supported.findall("supported_mem_clock"))
    graphics = {number(clock.text) for one in supported.findall("supported_mem_clock") for clock in one.findall("supported_graphics_clock")}
    table.row("memory clocks, MHz", [f"{clock:.0f}" for clock in memory], sorted(now["memory_clocks"]["choices"], key=float))
    table.row("least graphics clock, MHz", min(graphics), (now["graphics_clocks"]["range"] or {}).get("min"))
    table.row("most graphics clock, MHz", max(graphics), (now["graphics_clocks"]["range"] or {}).get("max"))
    table.row("graphics clock now, MHz", number(gpu.findtext("clocks/graphics_clock")), device["clocks_mhz"]["graphics"], 300)
    table.row("memory clock now, MHz", number(gpu.findtext("clocks/mem_clock")), device["clocks_mhz"]["memory"], 700)


def metrics(table, gpu, text):
    values = {}
    for line in text.splitlines():
        found = re.match(r'(DCGM_FI_DEV_\w+|gpuman_gpu_\w+)\{([^}]*)\} (\S+)$', line)
        if found and re.search(r'(?:^|,)gpu="0"', found[2]):
            values[found[1]] = float(found[3])

    def row(name, theirs, slack=0.0):
        table.row(name, theirs, values.get(name), slack)
    fb = gpu.find("fb_memory_usage")
    row("DCGM_FI_DEV_FB_USED", number(fb.findtext("used")), 600)
    row("DCGM_FI_DEV_FB_FREE", number(fb.findtext("free")), 600)
    row("DCGM_FI_DEV_FB_RESERVED", number(fb.findtext("reserved")), 1)
    row("DCGM_FI_DEV_GPU_TEMP", number(gpu.findtext("temperature/gpu_temp")), 5)
    row("DCGM_FI_DEV_MEMORY_TEMP", number(gpu.findtext("temperature/memory_temp")), 5)
    power = gpu.find("gpu_power_readings")
    row("DCGM_FI_DEV_POWER_USAGE", number(power.findtext("instant_power_draw") or power.findtext("power_draw")), 60)
    row("DCGM_FI_DEV_SM_CLOCK", number(gpu.findtext("clocks/sm_clock")), 300)
    row("DCGM_FI_DEV_MEM_CLOCK", number(gpu.findtext("clocks/mem_clock")), 700)
    row("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", number(gpu.findtext("pci/replay_counter")))
    row("DCGM_FI_DEV_ENC_UTIL", number(gpu.findtext("utilization/encoder_util")), 5)
    row("DCGM_FI_DEV_DEC_UTIL", number(gpu.findtext("utilization/decoder_util")), 5)
    errors = gpu.find("ecc_errors")
    for when, name in (("volatile", "VOL"), ("aggregate", "AGG")):
        part = errors.find(when)
        for kind, parts in (("SBE", ("sram_correctable", "dram_correctable")),
                            ("DBE", ("sram_uncorrectable_parity", "sram_uncorrectable_secded", "dram_uncorrectable"))):
            counts = [number(part.findtext(one)) for one in parts]
            row(f"DCGM_FI_DEV_ECC_{kind}_{name}_TOTAL", None if None in counts else sum(counts))
    rows = gpu.find("remapped_rows")
    row("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", number(rows.findtext("remapped_row_corr")))
    row("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", number(rows.findtext("remapped_row_unc")))
    row("DCGM_FI_DEV_ROW_REMAP_FAILURE", {"Yes": 1.0, "No": 0.0}.get(rows.findtext("remapped_row_failure")))
    row("gpuman_gpu_memory_total_bytes", number(fb.findtext("total")) * MIB, MIB)
    sums = {name: sum(float(value) for value in re.findall(rf"^gpuman_sampler_round_seconds_{name}\S* (\S+)$", text, re.M))
            for name in ("sum", "count")}
    if sums["count"]:
        print(f"        one look at one GPU: {1000 * sums['sum'] / sums['count']:.3f} ms in the mean of {sums['count']:.0f} (bar 2 ms)")


def profiles(table, report):
    theirs = {(int(number), name): (int(free), int(total), float(memory)) for name, number, free, total, memory in
              re.findall(r"MIG (\S+) +(\d+) +(\d+)/(\d+) +([\d.]+)", smi("mig", "-i", "0", "-lgip"))}
    ours = {one["name"]: one for one in report["gpus"][0]["profiles"]}
    print(f"        nvidia-smi mig -lgip names {len(theirs)} profiles, gpuman {len(ours)}: {', '.join(ours)}; MIG is "
          f"{'on' if report['gpus'][0]['enabled'] else 'off'}, supported: {report['gpus'][0]['supported']}, {report['gpus'][0]['error']}")
    for (_, name), (_, total, memory) in theirs.items():
        table.row(f"MIG profile {name}", total, ours.get(name, {}).get("most"))
        table.row(f"MIG profile {name}, GiB", memory, ours[name]["memory"] / GIB if name in ours else None, 0.02)


def main():
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else None
    table = Table()
    with Machine(real=True) as machine:
        first = machine.run("metrics").stdout
        time.sleep(12)  # slow readings begin with the first look at them
        query = ElementTree.fromstring(smi("-q", "-x"))
        text = machine.run("metrics").stdout
        shown = {name: machine.run(*words, "--json").stdout for name, words in {
            "device": ("device", "show", "0"), "health": ("health",), "doctor": ("doctor",), "mig": ("mig", "profiles")}.items()}
        words = {name: machine.run(*line).stdout for name, line in {"device": ("device", "show"), "health": ("health",),
                                                                    "doctor": ("doctor", "--measure"), "mig": ("mig", "profiles"),
                                                                    "top": ("top", "--once")}.items()}
        gpu = query.find("gpu")
        device = json.loads(shown["device"])
        devices(table, gpu, device.get("devices", [device])[0])
        metrics(table, gpu, text)
        profiles(table, json.loads(shown["mig"]))
        for health in json.loads(shown["health"])["gpus"]:
            print(f"        health of GPU {health['index']}: {health['health']['state']} {health['health']['reasons']}; nvidia-smi: recovery action "
                  f"{gpu.findtext('gpu_recovery_action')}")
        if out:
            for name, said in {**{f"{name}.json": said for name, said in shown.items()}, **{f"{name}.txt": said for name, said in words.items()},
                               "metrics.txt": text, "metrics-first.txt": first, "smi.xml": smi("-q", "-x"), "lgip.txt": smi("mig", "-i", "0", "-lgip"),
                               "lgipp.txt": smi("mig", "-i", "0", "-lgipp"), "daemon.log": (machine.dir / "daemon.log").read_text()}.items():
                (out / name).write_text(said or "")
        print(words["doctor"])
    print(f"{table.count} fields, {table.bad} differ")
    sys.exit(1 if table.bad else 0)


main()

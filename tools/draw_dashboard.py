#!/usr/bin/env python3
"""A picture of packaging/grafana/gpuman.json: what each panel's queries answer, over jobs on simulated GPUs.

Usage: draw_dashboard.py [--minutes N] PICTURE.png    (GPUMAN_BUILD_DIR names the build tree)

Needs Debian's prometheus and python3-matplotlib, and root. The lines are drawn by matplotlib at the places and in the units that
the dashboard names: Grafana draws them in its own style. Panels whose queries answer nothing are named at the end.
"""

import argparse
import contextlib
import json
import math
import pathlib
import random
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "harness"))
import machine  # noqa: E402

PALETTE = ["#7eb26d", "#eab839", "#6ed0e0", "#ef843c", "#e24d42", "#1f78c1", "#ba43a9", "#705da0", "#508642", "#cca300"]
CONFIG = """[metrics]
listen = "127.0.0.1:{port}"
[share]
capacity = "3GiB"
"""


def free_port():
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Prometheus:
    def __init__(self, directory, target):
        self.address = f"127.0.0.1:{free_port()}"
        config = directory / "prometheus.yml"
        config.write_text("global: {scrape_interval: 2s}\nscrape_configs:\n- job_name: gpuman\n  static_configs:\n"
                          f"  - targets: ['{target}']\n    labels: {{instance: lab}}\n")
        self.process = subprocess.Popen(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={directory}/data",
                                         f"--web.listen-address={self.address}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def ask(self, what, **arguments):
        url = f"http://{self.address}/api/v1/{what}?{urllib.parse.urlencode(arguments)}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.load(answer)["data"]["result"]


def work(m, minutes):
    """A lab's afternoon, in little: jobs that come and go, two that share a GPU, a fault, somebody outside gpuman."""
    chance = random.Random(7)
    load = machine.program("gpuman-load")
    outside = subprocess.Popen([load, "--alloc", "700MiB", "--hold", f"{30 * minutes:.0f}s"], env=m.env, stdout=subprocess.DEVNULL)
    for name in "ab":
        m.run("run", "--detach", "--gpu", "3", "--share", "--tag", f"shared-{name}", "--", load, "--alloc", "1900MiB", "--hold", "1h",
              "--kernel-time", "500ms", "--duty", "0.5")
    end = time.monotonic() + 60 * minutes
    faulted = False
    while time.monotonic() < end:
        project = chance.choice(["vision", "speech", "protein"])
        m.run("submit", "--gpus", "1", "--memory", "2GiB", "--project", project, "--name", f"{project}-{chance.randrange(99)}", "--",
              load, "--alloc", f"{chance.randrange(200, 1800)}MiB", "--hold", f"{chance.randrange(4, 24)}s")
        for gpu in range(4):
            for what, value in (("utilization", 100 if gpu < 2 else 60), ("temperature", 70), ("power", 520)):
                value = int(value * chance.uniform(0.6, 1))
                subprocess.run([machine.program("gpuman-sim"), "inject", what, "--gpu", str(gpu), str(value)], env=m.env,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if not faulted and time.monotonic() > end - 20 * minutes:  # the last third
            faulted = True
            subprocess.run([machine.program("gpuman-sim"), "inject", "ecc", "--uncorrected", "--count", "2", "--gpu", "2"], env=m.env, check=True)
            subprocess.run([machine.program("gpuman-sim"), "inject", "xid", "31", "--gpu", "1"], env=m.env, check=True)
            m.run("run", "--detach", "--gpu", "1", "--memory", "400MiB", "--tag", "greedy", "--", load, "--alloc", "500MiB", "--hold", "20s")
            m.run("suspend", "shared-a")
        time.sleep(chance.uniform(1, 8))
    outside.wait()


def short(value, unit):
    if unit == "percentunit":
        return f"{100 * value:.0f} %"
    base, steps = (1024, ["", " KiB", " MiB", " GiB", " TiB"]) if unit == "bytes" else (1000, ["", " k", " M", " G", " T"])
    step = min(int(math.log(abs(value), base)), 4) if abs(value) >= base else 0
    suffix = {"Bps": "B/s", "hertz": "Hz", "watt": " W", "celsius": " °C", "s": " s"}.get(unit, "")
    number = value / base**step
    return f"{number:.3g}{steps[step] or (' ' if unit in ('Bps', 'hertz') else '')}{suffix}"


def legend_of(target, labels):
    text = target.get("legendFormat") or "{{instance}}"
    return re.sub(r"{{\s*(\w+)\s*}}", lambda match: labels.get(match.group(1), ""), text).strip()[:34]


def draw(dashboard, prometheus, start, end, picture):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot, ticker
    pyplot.rcParams.update({"font.size": 7, "axes.facecolor": "#181b1f", "figure.facecolor": "#111217", "text.color": "#ccccdc",
                            "axes.edgecolor": "#2c3235", "xtick.color": "#8e8e99", "ytick.color": "#8e8e99", "grid.color": "#2c3235"})
    rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in dashboard["panels"])
    figure = pyplot.figure(figsize=(14, rows * 0.3))
    silent = []
    for panel in dashboard["panels"]:
        place, unit = panel["gridPos"], panel.get("fieldConfig", {}).get("defaults", {}).get("unit", "none")
        left, top = place["x"] / 24, 1 - place["y"] / rows
        if panel["type"] == "row":
            figure.text(left + 0.005, top - 0.6 / rows, panel["title"], fontsize=10, weight="bold", va="center")
            continue
        axes = figure.add_axes((left + 0.035, top - (place["h"] - 0.9) / rows, place["w"] / 24 - 0.045, (place["h"] - 2.3) / rows))
        axes.set_title(panel["title"], loc="left", fontsize=8, color="#ccccdc")
        series = []
        for target in panel["targets"]:
            query = target["expr"].replace("$instance", ".*").replace("$gpu", ".*")
            for one in prometheus.ask("query_range", query=query, start=start, end=end, step=(end - start) / 240):
                points = [(float(at) - start, float(value)) for at, value in one["values"] if value not in ("NaN", "+Inf")]
                if points:
                    series.append((legend_of(target, one["metric"]), points, one["metric"]))
        if not series:
            silent.append(panel["title"])
        if panel["type"] != "timeseries":
            axes.axis("off")
            lines = [" ".join(filter(None, (labels.get("gpu"), labels.get("code") or labels.get("fault")))) for _, _, labels in series]
            text = short(series[-1][1][-1][1], unit) if panel["type"] == "stat" and series else "\n".join(lines[:6])
            axes.text(0.5, 0.5, text, ha="center", va="center", fontsize=20 if panel["type"] == "stat" else 8, color="#73bf69",
                      transform=axes.transAxes)
            continue
        for number, (name, points, _) in enumerate(series[:10]):
            axes.plot(*zip(*points), color=PALETTE[number], linewidth=0.9, label=name)
        axes.grid(linewidth=0.4)
        axes.set_xlim(0, end - start)
        axes.set_ylim(0, 1.25 * max((value for _, points, _ in series for _, value in points), default=0) or 1)
        axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda x, _: f"{x / 60:.0f} min"))
        axes.yaxis.set_major_locator(ticker.MaxNLocator(4))
        axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda y, _, unit=unit: short(y, unit)))
        if 0 < len(series) <= 6:
            axes.legend(loc="upper left", frameon=False, fontsize=5.5, labelcolor="#ccccdc")
    figure.savefig(picture, dpi=100)
    return silent


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=12)
    parser.add_argument("picture")
    arguments = parser.parse_args()
    dashboard = json.loads((ROOT / "packaging" / "grafana" / "gpuman.json").read_text())
    port = free_port()
    with tempfile.TemporaryDirectory() as directory, machine.Machine(gpus=4, memory="4GiB", config=CONFIG.format(port=port)) as m:
        prometheus = Prometheus(pathlib.Path(directory), f"127.0.0.1:{port}")
        try:
            start = time.time()
            work(m, arguments.minutes)
            silent = draw(dashboard, prometheus, start, time.time(), arguments.picture)
        finally:
            prometheus.process.terminate()
            prometheus.process.wait()
    print(f"panels without an answer: {', '.join(silent) or 'none'}")


if __name__ == "__main__":
    main()

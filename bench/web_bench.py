"""The page of `gpuman web`, for bench.py: until it shows the machine, how much it loads, and what it costs while nobody
touches it, at rest and while jobs start and end. 8 simulated GPUs with a job on each, and 10,000 jobs that wait. Each
bar is judged."""

import dataclasses
import os
import pathlib
import statistics
import subprocess
import threading
import time

import browser
import machine
import web

GPUS, WAITING, OPENINGS, WATCHED, JOBS_A_SECOND = 8, 10_000, 5, 30, 20
PAGES = {"machine": "#/", "queue": "#/queue"}
PAINT_MS, FILES_KB, CORE_PERCENT = 1000, 200, 5  # the bars: each at most that
PAINT = """
const paint = performance.getEntriesByName("first-contentful-paint")[0];
return paint ? paint.startTime : null"""
LOADED = """
const entries = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
const files = entries.filter((entry) => !entry.name.includes("/v1/"));
const sum = (list) => list.reduce((all, entry) => all + entry.encodedBodySize, 0);
return [sum(files), sum(entries) - sum(files), entries.length]"""


def seconds_of(pids):
    """Processor time of processes so far, in seconds."""
    ticks = 0
    for pid in pids:
        try:
            words = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            ticks += int(words[11]) + int(words[12])
        except OSError:
            continue
    return ticks / os.sysconf("SC_CLK_TCK")


def until_it_shows(shown, gpus):
    begin = time.monotonic()
    while time.monotonic() - begin < 60:
        text = shown.text("main")
        if all(f"GPU {number}" in text for number in range(gpus)):
            return 1000 * (time.monotonic() - begin)
        time.sleep(0.01)
    raise SystemExit(f"bench: the page did not show {gpus} GPUs in 60 s: {shown.text()[:400]!r}, {shown.console()}")


class Jobs:
    """Has so many short jobs start each second, which use no GPU, until it is closed."""

    def __init__(self, m):
        self.m, self.ended = m, threading.Event()
        self.thread = threading.Thread(target=self.submit)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()

    def submit(self):
        due = time.monotonic()
        while not self.ended.wait(max(0, due - time.monotonic())):
            self.m.api("POST", "/v1/submissions", {"jobs": [{"command": ["/bin/true"], "gpus": {"count": 0}}], "directory": "/",
                                                   "environment": {}})
            due += 1 / JOBS_A_SECOND


class Processes:
    """What the page costs: the browser, the page's server, and the daemon."""

    def __init__(self, m, server, shown):
        self.m, self.groups = m, (shown.processes, lambda: [server], lambda: [m.daemon.pid])

    def watch(self):
        """Parts of a core that each spends, in percent, and how many jobs end a second meanwhile."""
        last = self.m.api("GET", "/v1/events?limit=1")["events"][-1]["id"]
        before, begin = [seconds_of(group()) for group in self.groups], time.monotonic()
        time.sleep(WATCHED)
        took = time.monotonic() - begin
        spent = [100 * (seconds_of(group()) - earlier) / took for group, earlier in zip(self.groups, before)]
        return spent, sum(event["kind"] == "job_finished" for event in self.m.events(last)) / took


@dataclasses.dataclass
class Figures:
    paints: list  # ms, of each opening
    shown_after: list
    files: int  # bytes
    answers: int
    count: int
    at_rest: list  # percent of a core: the browser, gpuman web, gpumand
    busy: dict  # by page: such a list, and how many jobs a second ended
    alone: float  # gpumand, without a page, while as many jobs come


def report(figures, tell):
    what = f"{GPUS} GPUs, {WAITING} jobs wait"
    tell(f"{what}: first paint", f"median {statistics.median(figures.paints):.0f}, max {max(figures.paints):.0f} ms, n={len(figures.paints)}",
         f"{PAINT_MS} ms", met=max(figures.paints) <= PAINT_MS)
    tell(f"{what}: opened until all GPUs are shown",
         f"median {statistics.median(figures.shown_after):.0f}, max {max(figures.shown_after):.0f} ms", "none", "through the driver of the browser")
    tell("files of the page", f"{figures.files / 1000:.0f} kB", f"{FILES_KB} kB",
         f"and {figures.answers / 1000:.0f} kB of answers, {figures.count} in all", met=figures.files <= 1000 * FILES_KB)
    tell(f"{what}: the page stays open, of a core", "browser {:.1f} %, gpuman web {:.1f} %, gpumand {:.1f} %".format(*figures.at_rest),
         f"{CORE_PERCENT} %", f"over {WATCHED} s, 8 jobs run", met=sum(figures.at_rest) <= CORE_PERCENT)
    for name, ((browsers, ours, daemon), rate) in figures.busy.items():
        for_it = max(0.0, daemon - figures.alone)
        tell(f"{what}, {rate:.0f} jobs a second start and end, {name}: of a core",
             f"browser {browsers:.1f} %, gpuman web {ours:.1f} %, gpumand {for_it:.1f} % for it", f"{CORE_PERCENT} %",
             f"over {WATCHED} s; gpumand without a page {figures.alone:.1f} %", met=browsers + ours + for_it <= CORE_PERCENT)


def measure(tell):
    if lacks := browser.missing():
        print(f"  not measured: {' and '.join(lacks)} not installed")
        return
    with machine.Machine(gpus=GPUS, memory="8GiB") as m:
        load = [machine.program("gpuman-load"), "--alloc", "64MiB", "--hold", "1h"]
        for number in range(GPUS):
            m.run("run", "--tag", f"train{number}", "--gpus", "1", "-d", "--", *load, check=True)
        m.run("submit", "--gpus", str(GPUS), "--array", f"0-{WAITING - 1}", "--name", "waits", "--", "true", check=True)
        process = subprocess.Popen([machine.program("gpuman"), "web"], env=m.env, stdout=subprocess.PIPE)
        page = web.Page(process)
        paints, shown_after = [], []
        try:
            for _ in range(OPENINGS):
                with browser.Browser() as shown:
                    begin = time.monotonic()
                    shown.open(page.link)
                    until_it_shows(shown, GPUS)
                    shown_after.append(1000 * (time.monotonic() - begin))
                    paints.append(shown.run(PAINT))
                    if len(paints) < OPENINGS:
                        continue
                    time.sleep(5)  # all of it has come
                    files, answers, count = shown.run(LOADED)
                    processes = Processes(m, process.pid, shown)
                    at_rest, _ = processes.watch()
                    with Jobs(m):
                        busy = {}
                        for name, place in PAGES.items():
                            shown.run("location.hash = arguments[0]", place)
                            time.sleep(5)
                            busy[name] = processes.watch()
                        shown.open("about:blank")
                        time.sleep(5)
                        (_, _, alone), _ = processes.watch()
        finally:
            process.kill()
            process.communicate()
    report(Figures(paints, shown_after, files, answers, count, at_rest, busy, alone), tell)

"""Runs commands side by side, each at the lowest priority: for what takes hours of processors and little of anybody."""

import concurrent.futures
import contextlib
import dataclasses
import os
import pathlib
import platform
import signal
import subprocess
import threading
import time


@dataclasses.dataclass
class Run:
    """A command that has ended. `status` is its exit status, minus the signal, or None where it took too long.
    `processor`: the seconds that it, and the processes that it waited for, had a processor."""
    status: int
    seconds: float
    processor: float
    output: str


def prefix():
    """What comes before a command: lowest priority, and addresses that the sanitizers of older compilers can live with.
    Under some kernels they find no room for their shadow while addresses are random."""
    fixed = ["setarch", platform.machine(), "-R"]
    nice = ["nice", "-n", "19"]
    try:
        done = subprocess.run([*fixed, "true"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return nice + fixed if done.returncode == 0 else nice
    except OSError:
        return nice


def run(command, before=(), limit=None, cwd=None, env=None, log=None):
    """Runs it to its end, in a session of its own, which is killed whole after `limit` seconds. What it says on both
    streams is returned, and written to the file `log` where there is one."""
    started = time.monotonic()
    child = subprocess.Popen([*before, *map(str, command)], cwd=cwd, env=env, stdin=subprocess.DEVNULL, text=True,
                             errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    # Where Linux shares processors out by sessions, a new session is worth as much as any, however nice its processes are.
    with contextlib.suppress(OSError):
        pathlib.Path("/proc/%d/autogroup" % child.pid).write_text("19")
    too_long = threading.Event()

    def end():
        too_long.set()
        os.killpg(child.pid, signal.SIGKILL)

    timer = threading.Timer(limit or threading.TIMEOUT_MAX, end)
    timer.daemon = True
    timer.start()
    output = child.stdout.read()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # the number stays the child's as long as the timer runs
    timer.cancel()
    timer.join()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    child.stdout.close()
    if log:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(output)
    return Run(None if too_long.is_set() else child.returncode, time.monotonic() - started, usage.ru_utime + usage.ru_stime, output)


def each(things, jobs, work, report=None):
    """work(thing) of all of them, `jobs` at a time, in their order; report(thing, result) from this thread as they end."""
    with concurrent.futures.ThreadPoolExecutor(max(1, jobs)) as pool:
        futures = {pool.submit(work, thing): thing for thing in things}
        results = {}
        for future in concurrent.futures.as_completed(futures):
            results[futures[future]] = future.result()
            if report:
                report(futures[future], future.result())
    return results


def table(heading, rows):
    """Lines of text: columns as wide as their widest cell."""
    cells = [[str(cell) for cell in row] for row in [heading, *rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(heading))]
    return "".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() + "\n" for row in cells)

#!/usr/bin/env python3
"""Draws the pictures of docs/web.md: the page of `gpuman web` on a simulated machine with four GPUs and some jobs.

Usage: draw_web.py [DIRECTORY]    (default: docs/pictures; GPUMAN_BUILD_DIR names the build tree; needs chromium and
                                   chromium-driver)

Exit status: 0 drawn, 1 not possible.
"""

import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "harness"))
import browser  # noqa: E402
import machine  # noqa: E402
import web  # noqa: E402

SECONDS = 40  # until there is some history
PAGES = {"machine": "#/", "queue": "#/queue", "job": "#/job/train", "people": "#/people"}


def fill(m):
    """Jobs that run, share and wait."""
    def gpuman(*words):
        subprocess.run(["gpuman", *words], env={**m.env, "PATH": f"{machine.build_dir() / 'bin'}:{os.environ['PATH']}"}, cwd="/home",
                       check=True, stdout=subprocess.DEVNULL)

    def load(memory, *more):
        return ["gpuman-load", "--alloc", memory, "--hold", "1h", *more]
    gpuman("run", "--tag", "train", "--gpus", "1", "--memory", "100GiB", "-d", "--", *load("88GiB", "--kernel-time", "20ms"))
    gpuman("run", "--tag", "notebook", "--gpus", "1", "--memory", "40GiB", "-d", "--", *load("21GiB", "--kernel-time", "5ms", "--duty", "0.2"))
    for tag in ("server-a", "server-b"):
        gpuman("run", "--share", "--tag", tag, "--gpus", "1", "-d", "--", *load("3GiB", "--kernel-time", "5ms", "--duty", "0.5"))
    gpuman("submit", "--gpus", "2", "--name", "sweep", "--array", "0-9", "--time", "20m", "--", *load("1GiB"))
    gpuman("submit", "--gpus", "4", "--name", "large", "--time", "2h", "--", *load("1GiB"))


def main():
    directory = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "docs" / "pictures")
    if lacks := browser.missing():
        print(f"draw_web: {' and '.join(lacks)} not installed", file=sys.stderr)
        return 1
    with machine.Machine(gpus=4) as m:
        fill(m)
        process = subprocess.Popen([machine.program("gpuman"), "web"], env=m.env, stdout=subprocess.PIPE)
        try:
            link = web.Page(process).link
            time.sleep(SECONDS)
            with browser.Browser(1280, 800) as shown:
                shown.open(link)
                for name, place in PAGES.items():
                    shown.run("location.hash = arguments[0]", place)
                    time.sleep(5)
                    shown.screenshot(directory / f"web-{name}.png")
        finally:
            process.kill()
            process.communicate()
    return 0


if __name__ == "__main__":
    sys.exit(main())

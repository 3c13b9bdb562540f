#!/usr/bin/env python3
"""Runs tests of a build again and again, in several copies side by side, and prints how often each passed.

A copy runs the tests one after another, in an order of its own, each in an empty folder that is also its TMPDIR. What a
test says is kept in --out where it fails. BUILD is a build's folder; where there is no ctest, it has tests.json, the
output of `ctest --show-only=json-v1`.

Exit status: 0 none failed; 1 failures; 2 usage.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

import side_by_side


def parsed(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-R", "--regex", default="", help="only tests whose names it matches")
    parser.add_argument("--rounds", type=int, default=20, help="of each copy")
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no test after so long")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="a folder for table.txt and logs of failures")
    parser.add_argument("builds", type=pathlib.Path, nargs="+", metavar="BUILD")
    return parser.parse_args(arguments)


def tests_of(build, regex):
    listed = build / "tests.json"
    if listed.exists():
        text = listed.read_text()
    else:
        text = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True, text=True,
                              stdout=subprocess.PIPE).stdout
    found = []
    for test in json.loads(text)["tests"]:
        properties = {one["name"]: one["value"] for one in test.get("properties", [])}
        if re.search(regex, test["name"]) and "command" in test and not properties.get("DISABLED"):
            found.append((build.name, test["name"], test["command"], properties))
    return found


def run_test(test, before, copy, number, out):
    """Whether it "passed", was "skipped" or "failed"."""
    build, name, command, properties = test
    folder = pathlib.Path(tempfile.mkdtemp(prefix="t-"))  # short: sockets below it have at most 107 bytes of path
    folder.chmod(0o1777)  # as /tmp: tests have programs of other users
    try:
        variables = dict(one.split("=", 1) for one in properties.get("ENVIRONMENT", []))
        done = side_by_side.run(command, before, limit=properties.get("TIMEOUT", 600), cwd=folder,
                                env=dict(os.environ, TMPDIR=str(folder), **variables))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if done.status == 0:
        return "passed"
    if done.status is not None and str(done.status) == str(properties.get("SKIP_RETURN_CODE")):
        return "skipped"
    says = "took too long" if done.status is None else "exit status %d" % done.status
    log = out / ("%s-%s-%d.%d.log" % (build, name, copy, number))
    log.write_text("%s after %.1f s\n%s" % (says, done.seconds, done.output))
    return "failed"


def main(arguments):
    options = parsed(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    tests = [test for build in options.builds for test in tests_of(build, options.regex)]
    if not tests:
        sys.exit("repeat_tests.py: no test matches %s" % options.regex)
    before, ends = side_by_side.prefix(), time.monotonic() + options.seconds

    def copy_of(copy):
        counts, order = collections.Counter(), random.Random(copy)
        for number in range(options.rounds):
            for test in order.sample(tests, len(tests)):
                if time.monotonic() < ends:
                    counts[test[0], test[1], run_test(test, before, copy, number, options.out)] += 1
        return counts

    counts = sum(side_by_side.each(range(options.copies), options.copies, copy_of).values(), collections.Counter())
    rows = [[build, name, *(counts[build, name, end] for end in ("passed", "failed", "skipped"))]
            for build, name, _, _ in tests]
    text = side_by_side.table(["build", "test", "passed", "failed", "skipped"], rows)
    (options.out / "table.txt").write_text(text)
    failed = sum(row[3] for row in rows)
    print("%s%d passed, %d failed, %d skipped" % (text, sum(row[2] for row in rows), failed, sum(row[4] for row in rows)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

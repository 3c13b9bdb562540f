#!/usr/bin/env python3
"""Runs clang-tidy on the sources that it reads from its input, one a line, several at a time, and prints each finding
once, also where many sources include the header that has it.

Exit status: 0 clean; 1 findings, or sources that could not be looked at; 2 usage; 3 not all of them in --seconds.
"""

import argparse
import os
import pathlib
import re
import sys
import time

import side_by_side

FINDING = re.compile(r"^(.+?):(\d+):(\d+): (error|warning): (.*)$")


def parsed(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", required=True, help="the folder of compile_commands.json")
    parser.add_argument("--tidy", default="clang-tidy-14", help="the program")
    parser.add_argument("--argument", action="append", default=[], help="one more argument of it, as --argument=--WORD")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start none after so long")
    parser.add_argument("--out", type=pathlib.Path, help="a folder for findings.txt, table.txt and logs; what was done "
                        "there is not done again")
    return parser.parse_args(arguments)


def findings_of(output):
    """Each finding with the lines below it, by place and text."""
    found, current = {}, None
    for line in output.splitlines():
        if FINDING.match(line):
            current = found.setdefault(line, [])
        elif re.match(r"^\d+ warnings? ", line) or line.startswith("Suppressed "):
            current = None
        elif current is not None:
            current.append(line)
    return found


class Record:
    """What was done, in the folder --out where there is one: a line of table.txt for each source."""

    def __init__(self, folder):
        self.folder, self.rows, self.findings = folder, {}, {}
        if folder:
            folder.mkdir(parents=True, exist_ok=True)
            for line in self.lines("table.txt"):
                source, seconds, status, count = line.split("\t")
                self.rows[source] = (float(seconds), status, int(count))
            for log in sorted((folder / "logs").glob("*.log")):
                self.findings.update(findings_of(log.read_text()))

    def lines(self, name):
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def add(self, source, run):
        found = findings_of(run.output)
        for finding, rest in found.items():
            if finding not in self.findings:
                print("\n".join([finding, *rest]), flush=True)
        if run.status != 0 and not found:
            print("%s: not looked at\n%s" % (source, run.output), flush=True)
        self.findings.update(found)
        self.rows[source] = (run.seconds, "ended" if run.status is None else str(run.status), len(found))
        if not self.folder:
            return
        with open(self.folder / "table.txt", "a") as rows:
            rows.write("%s\t%.1f\t%s\t%d\n" % (source, *self.rows[source]))
        if run.status != 0:
            (self.folder / "logs").mkdir(exist_ok=True)
            (self.folder / "logs" / (source.strip("/").replace("/", "_") + ".log")).write_text(run.output)
        text = "".join("\n".join([finding, *self.findings[finding]]) + "\n" for finding in sorted(self.findings))
        (self.folder / "findings.txt").write_text(text)


def main(arguments):
    options = parsed(arguments)
    record = Record(options.out)
    sources = [line.strip() for line in sys.stdin if line.strip()]
    left = sorted(set(sources) - set(record.rows), key=lambda source: -os.path.getsize(source))
    ends = time.monotonic() + options.seconds
    command = [options.tidy, "-p", options.database, "--quiet", "--warnings-as-errors=*", *options.argument]

    def look(source):
        return side_by_side.run([*command, source]) if time.monotonic() < ends else None

    side_by_side.each(left, options.jobs, look, lambda source, run: run and record.add(source, run))
    seen = [record.rows[source] for source in sources if source in record.rows]
    bad = [row for row in seen if row[1] != "0"]
    print("%d of %d sources, %d findings, %d sources with any, %.0f s of processors" % (
        len(seen), len(sources), len(record.findings), len(bad), sum(row[0] for row in seen)))
    if bad:
        return 1
    return 0 if len(seen) == len(sources) else 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

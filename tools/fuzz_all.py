#!/usr/bin/env python3
"""Runs fuzz targets side by side, each for the same time from its corpus and its seeds, and prints a table of them.

What a target reaches is added to its corpus; an input that it dies of stays in --out, and the target goes on without it.
The corpus also keeps how many seconds of a processor each target has had in all: on a machine with other work that is
less than the time. With --in-all a target runs until it has had so many, over any number of calls.

Exit status: 0 nothing found; 1 something found, or a target did not run; 2 usage.
"""

import argparse
import json
import os
import pathlib
import re
import sys
import time

import side_by_side

DEATHS = 20  # of one target, then it is left alone


def parsed(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, required=True, help="the folder of the targets")
    parser.add_argument("--seeds", type=pathlib.Path, required=True, help="a folder of seeds for each target, by name")
    parser.add_argument("--corpus", type=pathlib.Path, required=True, help="the same for what is kept; written to")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="inputs that a target died of; logs, table.txt")
    parser.add_argument("--seconds", type=int, default=30, help="for each target")
    parser.add_argument("--in-all", type=int, help="leave out a target that has had so many seconds of a processor")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many processes at a time")
    parser.add_argument("--processes", type=int, default=1, help="of each target, on one corpus")
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    return parser.parse_args(arguments)


def targets_of(options):
    names = [path.name for path in sorted(options.programs.iterdir()) if path.is_file() and os.access(path, os.X_OK)]
    unknown = sorted(set(options.targets) - set(names))
    if unknown or not names:
        sys.exit("fuzz_all.py: no fuzz target %s in %s" % (" ".join(unknown), options.programs))
    return [name for name in names if not options.targets or name in options.targets]


def fuzz(options, before, target, process):
    """One process of a target until its time is over, started again where it dies. Returns the runs, one for each start."""
    corpus = options.corpus / target
    corpus.mkdir(parents=True, exist_ok=True)
    seeds = options.seeds / target
    folders = [corpus, *([seeds] if seeds.is_dir() else [])]
    ends, runs = time.monotonic() + options.seconds, []
    while len(runs) < DEATHS and (not runs or ends - time.monotonic() >= 1):
        left = max(1, round(ends - time.monotonic()))
        command = [(options.programs / target).resolve(), "-max_total_time=%d" % left, "-rss_limit_mb=4096",
                   "-timeout=10", "-print_final_stats=1", "-artifact_prefix=%s/%s-" % (options.out, target),
                   *folders]
        log = options.out / "logs" / ("%s.%d.%d.log" % (target, process, len(runs)))
        runs.append(side_by_side.run(command, before, limit=left + 120, log=log))
        if runs[-1].status == 0 or "cov: " not in runs[-1].output:
            break  # its time is over, or it cannot run here, or dies of a seed
    return runs


def number(pattern, text):
    found = re.findall(pattern, text)
    return int(found[-1]) if found else 0


def row(target, runs, in_all):
    """Of all runs of all processes of a target: inputs tried, seconds of all processes and of processors, deaths, what is
    reached."""
    tried = sum(number(r"number_of_executed_units:\s+(\d+)", run.output) or number(r"(?m)^#(\d+)", run.output) for run in runs)
    reached = [max(number(word + r": (\d+)", run.output) for run in runs) for word in ("cov", "ft", "corp")]
    seconds = [round(sum(run.seconds for run in runs)), round(sum(run.processor for run in runs)), round(in_all)]
    return [target, tried, *seconds, sum(run.status != 0 for run in runs), *reached]


def times_of(corpus):
    """Seconds of a processor that each target has had in all."""
    times = corpus / "processor_seconds.json"
    return json.loads(times.read_text()) if times.exists() else {}


def add_time(corpus, target, runs):
    times = times_of(corpus)
    times[target] = times.get(target, 0) + sum(run.processor for run in runs)
    fresh = corpus / "processor_seconds.new"
    fresh.write_text(json.dumps(times, indent=1, sort_keys=True) + "\n")
    fresh.rename(corpus / "processor_seconds.json")


def main(arguments):
    options = parsed(arguments)
    targets = targets_of(options)
    options.out.mkdir(parents=True, exist_ok=True)
    options.out = options.out.resolve()
    options.corpus.mkdir(parents=True, exist_ok=True)
    before = side_by_side.prefix()
    if options.in_all is not None:
        had = times_of(options.corpus)
        targets = [target for target in targets if had.get(target, 0) < options.in_all]
    work = [(target, process) for process in range(options.processes) for target in targets]
    # As each ends, so that no more is lost where this is stopped.
    done = side_by_side.each(work, options.jobs, lambda one: fuzz(options, before, *one),
                             lambda one, runs: add_time(options.corpus, one[0], runs))
    sums = times_of(options.corpus)
    rows = [row(target, [run for (name, _), runs in done.items() if name == target for run in runs], sums[target])
            for target in targets]
    heading = ["target", "inputs", "seconds", "processor", "in all", "deaths", "coverage", "features", "corpus"]
    text = side_by_side.table(heading, rows)
    (options.out / "table.txt").write_text(text)
    sys.stdout.write(text)
    return 1 if any(row[heading.index("deaths")] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

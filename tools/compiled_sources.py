#!/usr/bin/env python3
"""Which sources a database of compile commands has, also those that the compiler gets several at once.

Usage: compiled_sources.py DATABASE check [--known PATTERN]… [FOLDER…]    sources on the input, one a line
       compiled_sources.py DATABASE units

check prints those of the input that are in the folders (all without any) and no known exceptions, and fails with the
names of those that the database lacks. units prints what is to be compiled for the input: a source, or the file that
includes it beside others of its target.
"""

import argparse
import fnmatch
import json
import os
import re
import sys

INCLUDE = re.compile(r'^#include "(.+)"$', re.MULTILINE)


def units_of(database):
    """The file that each source is compiled by, by the real paths of both."""
    units = {}
    with open(database) as text:
        entries = json.load(text)
    for entry in entries:
        file = os.path.realpath(os.path.join(entry["directory"], entry["file"]))
        units[file] = file
        if "/Unity/unity_" in file:
            with open(file) as several:
                for source in INCLUDE.findall(several.read()):
                    # A source of several targets is compiled by each; one of them is enough.
                    units.setdefault(os.path.realpath(source), file)
    return units


def check(units, sources, known, folders):
    folders = tuple(folder + "/" for folder in folders) or ""
    chosen = [source for source in sources
              if source.startswith(folders) and not any(fnmatch.fnmatch(source, pattern) for pattern in known)]
    missing = [source for source in chosen if os.path.realpath(source) not in units]
    if missing:
        sys.exit("%d of %d sources are not compiled, so that clang-tidy cannot look at them: %s%s" % (
            len(missing), len(chosen), " ".join(missing[:10]), " …" if len(missing) > 10 else ""))
    return chosen


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("database")
    parser.add_argument("what", choices=("check", "units"))
    parser.add_argument("--known", action="append", default=[])
    parser.add_argument("folders", nargs="*")
    options = parser.parse_intermixed_args(arguments)
    units = units_of(options.database)
    sources = sys.stdin.read().splitlines()
    if options.what == "check":
        lines = check(units, sources, options.known, options.folders)
    else:
        lines = dict.fromkeys(units[os.path.realpath(source)] for source in sources)
    sys.stdout.writelines(line + "\n" for line in lines)


if __name__ == "__main__":
    main(sys.argv[1:])

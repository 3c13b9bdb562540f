#!/usr/bin/env python3
"""Whether the tree may become the release of a tag: the tag is the version that it is built with, and what whoever
publishes it has to fill in is filled in. What is in the way is printed, a line each; release_notes.py looks at the rest.

Usage: release_check.py TAG [TREE]      GPUMAN_MAINTAINER, GPUMAN_HOMEPAGE: as for ./dev package

Exit status: 0 it may; 1 it may not; 2 usage.
"""

import os
import pathlib
import re
import sys

# What users and visitors read of the project, by glob.
READ = ("*.md", "docs/**/*", "packaging/**/*", ".github/**/*")
# The placeholders there are for packages without the variables.
DEFAULTS = "packaging/deb/package.cmake"
PLACEHOLDER = re.compile(r"\bFILL[- ]IN\b[\w-]*|\bfill-in[\w-]*[.@][\w.-]*\binvalid\b")
VARIABLES = ("GPUMAN_MAINTAINER", "GPUMAN_HOMEPAGE")


def version_of(tree):
    return re.search(r"^project\(gpuman VERSION ([0-9.]+)", (tree / "CMakeLists.txt").read_text(), re.MULTILINE).group(1)


def of_version(tag, tree):
    version = version_of(tree)
    return [] if tag == "v" + version else ["the tag is %s, and CMakeLists.txt has the version %s: v%s" % (tag, version, version)]


def unfilled(tree):
    found = []
    for path in sorted({path for pattern in READ for path in tree.glob(pattern) if path.is_file()}):
        name = path.relative_to(tree).as_posix()
        if name == DEFAULTS:
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            found += ["%s:%d: %s is to be filled in" % (name, number, place) for place in PLACEHOLDER.findall(line)]
    return found


def unnamed(variables):
    return ["%s is not given: the packages would have a placeholder" % name for name in VARIABLES
            if not variables.get(name, "").strip() or PLACEHOLDER.search(variables[name])]


def main(arguments):
    if len(arguments) not in (1, 2) or arguments[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    tree = pathlib.Path(arguments[1]) if len(arguments) == 2 else pathlib.Path(__file__).resolve().parent.parent
    found = of_version(arguments[0], tree) + unfilled(tree) + unnamed(os.environ)
    for line in found:
        print("release_check.py: " + line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

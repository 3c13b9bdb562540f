#!/usr/bin/env python3
"""Prints what CHANGELOG.md says of one version, as the text of a release: each point on a line of its own, unwrapped.

Usage: release_notes.py VERSION [CHANGELOG]

Exit status: 0 printed; 1 there is no such version, it says nothing, or it is "not yet released"; 2 usage.
"""

import pathlib
import re
import sys


class NoNotes(Exception):
    """Why there are none, as a sentence."""


def section_of(changelog, version):
    """The lines below `## VERSION…` up to the next version."""
    lines, inside, known = [], False, []
    for line in changelog.splitlines():
        heading = re.match(r"##\s+(\S+?),?(\s.*)?$", line)
        if heading:
            known.append(heading.group(1))
            inside = heading.group(1) == version
            if inside and "not yet released" in line:
                raise NoNotes("%s is not yet released: put the date into its heading, ## %s, YYYY-MM-DD" % (version, version))
        elif inside:
            lines.append(line)
    if version not in known:
        raise NoNotes("there is no ## %s; there are %s" % (version, ", ".join(known) or "none"))
    return lines


def unwrapped(lines):
    """Lines that go on are joined: what shows release notes breaks lines where the source does."""
    joined = []
    for line in lines:
        starts = not line.strip() or re.match(r"\s*([-*]|\d+\.|#|\||```)\s*", line)
        if starts or not joined or not joined[-1]:
            joined.append(line.rstrip())
        else:
            joined[-1] += " " + line.strip()
    return "\n".join(joined).strip()


def notes(changelog, version):
    text = unwrapped(section_of(changelog, version))
    if not text:
        raise NoNotes("## %s says nothing" % version)
    return text + "\n"


def main(arguments):
    if len(arguments) not in (1, 2) or arguments[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    file = pathlib.Path(arguments[1]) if len(arguments) == 2 else pathlib.Path(__file__).resolve().parent.parent / "CHANGELOG.md"
    try:
        sys.stdout.write(notes(file.read_text(encoding="utf-8"), arguments[0]))
    except (OSError, NoNotes) as problem:
        print("release_notes.py: %s: %s" % (file.name, problem), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

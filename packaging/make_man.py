#!/usr/bin/env python3
"""Makes a man page (OUTPUT, compressed) of what a program says about itself.

Usage: make_man.py PROGRAM SECTION VERSION DESCRIPTION OUTPUT [--subcommands]

With --subcommands the help of each subcommand that the program's help lists follows, a section each; it is an error that
there is none.
"""

import gzip
import pathlib
import re
import subprocess
import sys

# The headings of a help text below which there are no commands.
NO_COMMANDS = re.compile(r"(options|examples?|positionals|environment)\b", re.IGNORECASE)


def help_of(program, *words):
    done = subprocess.run([program, *words, "--help"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                          env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "COLUMNS": "80", "NO_COLOR": "1"},
                          timeout=60, check=True)
    return done.stdout.rstrip().replace(str(pathlib.Path(program).parent) + "/", "")


def roff(text):
    """Preformatted text: nothing in it is markup."""
    lines = []
    for line in text.splitlines():
        line = line.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
        line = line.replace("…", "...").replace("^", "\\(ha").replace("~", "\\(ti")
        lines.append("\\&" + line if line.startswith(".") else line)
    return ".nf\n" + "\n".join(lines) + "\n.fi\n"


def subcommands(text):
    """The names below the headings of the program's help, which are in groups; other lists have no commands."""
    names, inside = [], False
    for line in text.splitlines():
        if line and not line.startswith(" "):
            inside = line.endswith(":") and not NO_COMMANDS.match(line)
        elif inside:
            match = re.match(r"^ {2}([a-z][a-z0-9-]*)(?: {2,}\S|$)", line)
            if match:
                names.append(match.group(1))
    return names


def main(arguments):
    with_subcommands = "--subcommands" in arguments
    arguments = [argument for argument in arguments if argument != "--subcommands"]
    if len(arguments) != 5:
        print(__doc__, file=sys.stderr)
        return 2
    program, section, version, description, output = arguments
    name = pathlib.Path(program).name
    text = help_of(program)
    page = ['.TH %s %s "" "gpuman %s" "gpuman"' % (name.upper(), section, version),
            ".SH NAME", "%s \\- %s" % (name, description), ".SH DESCRIPTION", roff(text)]
    if with_subcommands:
        commands = subcommands(text)
        if not commands:
            print("make_man.py: the help of %s lists no commands" % name, file=sys.stderr)
            return 1
        for command in commands:
            page += [".SH %s %s" % (name.upper(), command.upper()), roff(help_of(program, command))]
    page += [".SH SEE ALSO", ".BR gpuman (1),\n.BR gpumand (8)"]
    data = gzip.compress(("\n".join(page) + "\n").encode(), mtime=0)
    pathlib.Path(output).write_bytes(data)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

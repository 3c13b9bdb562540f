#!/usr/bin/env python3
"""Holds the layers of docs/architecture.md: an include only goes downwards.

Usage: check_layers.py [ROOT]

Reads every #include "…" of C and C++ sources under src, sim, apps, plugins, tests, bench and packaging, and reports

  - an include that its layer may not make (LAYERS below),
  - an include within src/shim that goes up from one of its rooms to another (SHIM_ROOMS),
  - an include between folders of src/daemon against their order (DAEMON below), a folder that is not in it, and modules
    that are constructed in another order or have no folder of their name,
  - an include between folders of src/cli against their order (CLI below), and a folder that is not in it,
  - an include that names no file, or climbs with "..",
  - headers that include each other in a circle,
  - a folder of src/ that this table does not know, and a source of src/shim that is in no room,
  - a folder that LAYERS, SHIM_ROOMS, DAEMON or CLI has and the tree does not have,
  - an apps/*/main.cc of 60 lines or more,
  - a whole number that the product takes out of JSON without a check (src/base/json_number.h).

Exit status: 0 clean, 1 findings (one a line, FILE:LINE: what), 2 usage.
"""

import pathlib
import re
import sys

CAPABILITIES = ("guard", "ledger", "share", "jobs", "queue", "suspend", "device", "energy", "mig", "mps", "health",
                "history", "metrics", "notify")

# Capabilities do not see each other's insides; these headers are a capability's public face.
KEEPER_FACE = tuple("keeper/%s.h" % name for name in ("spec", "journal", "client", "process_tree"))

# The page itself, and who may see it.
WEB_FACE = tuple("web/%s.h" % name for name in ("answers", "assets", "request_check", "secret"))

# Layer: what it may include besides itself. A name is a folder of src/, a name with a slash a file or a
# folder's beginning.
LAYERS = {
    "base": (),
    "driver": ("base",),
    "gpu": ("driver", "base"),
    "spec": ("base",),
    **{name: ("gpu", "driver", "base") for name in CAPABILITIES},
    "suspend": ("gpu", "driver", "base", "ledger/wire/"),
    "jobs": ("gpu", "driver", "base", "spec") + KEEPER_FACE,
    "queue": ("gpu", "driver", "base", "spec"),
    # The other side of suspend, in a process of its own.
    "mover": ("driver", "base", "ledger/wire/", "suspend/request.h", "suspend/mover_options.h"),
    # Sends what notify says, in a process of its own.
    "notifier": ("notify", "base"),
    "keeper": ("base", "spec"),
    "api": ("base", "spec"),
    "doctor": ("driver", "base"),
    "trace": ("base", "ledger/wire/"),
    "cli": ("api", "base", "spec", "doctor", "trace", "web"),
    "web": ("api", "base"),
    "daemon": ("api", "gpu", "driver", "base", "spec", "keeper") + CAPABILITIES + WEB_FACE,
    "shim": ("driver/abi/", "ledger/wire/"),
}
# The rooms of the shim, from the lowest up: a room includes itself and those before it.
SHIM_ROOMS = ("libc", "symbols", "link", "trace", "accounting", "gate", "backing", "eviction", "hooks")
# The folders of the daemon: each may include those before it. It is the order in which modules are constructed
# (src/daemon/daemon.cc). What lies in src/daemon itself puts them together and may include all of them.
DAEMON = ("config", "http", "core", "compat", "job_requests", "notify", "shims", "containers", "suspension", "sharing",
          "energy", "device", "driver_limits", "mps", "mig", "health", "queue", "jobs", "history", "status", "metrics", "web")
# The folders of the command line: each may include those before it. What lies in src/cli itself is used by all of them
# and puts them together. Tests of a folder run whole programs, and may include all of them.
CLI = ("queue", "top", "compat")
SIM_MAY = ("driver/abi/",)
SIM_TOOL_MAY = ("driver/abi/", "base")  # gpuman-sim is a program of its own; the libraries live in other programs
PLUGIN_MAY = ("api", "base", "spec")

MAIN_LINES = 60
SOURCES = {".h", ".hh", ".c", ".cc", ".cpp"}
FOLDERS = ("src", "sim", "apps", "plugins", "tests", "bench", "packaging")
TEST_FOLDERS = ("tests", "bench", "packaging")
MODULES = "src/daemon/daemon.cc"
MODULE = re.compile(r"\bAdd<(\w+)Module>\(")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')

# nlohmann's get<int>() and value("name", 0) take numbers that do not fit. A name in capitals is a template's parameter.
CHECKED_NUMBERS = "src/base/json_number.h"
UNCHECKED_NUMBER = re.compile(
    r'(?:\.|->)(?:template )?(?:get<\s*(?:(?:std::)?(?:u?int\w*|s?size_t|[pugm]\w*id_t|mode_t)|(?:unsigned|signed|long|short|char)\b[^>]*'
    r'|[A-Z]\w*)>\(|value\("\w*",\s*(?:std::u?int|-?\d))')


def is_test(path):
    return path.stem.endswith(("_test", "_fuzz", "_bench")) or path.stem.startswith("test_")


def layer_of(path):
    """The layer of a path relative to the root: ("src", "guard"), ("sim",), ("apps", "gpumand"), …"""
    parts = path.parts
    if parts[0] in ("src", "apps", "plugins"):
        return parts[:2]
    return parts[:1]


def room_of(path):
    """How high the room of a source of src/shim is, from 0; None: it is in none. Relative to the root."""
    room = path.parts[2] if len(path.parts) > 3 else None
    return SHIM_ROOMS.index(room) if room in SHIM_ROOMS else None


def goes_up(source, target):
    """Whether the include goes from a room of the shim to a higher one; both relative to the root."""
    if layer_of(source) != ("src", "shim") or layer_of(target) != ("src", "shim"):
        return False
    here, there = room_of(source), room_of(target)
    return here is not None and there is not None and there > here


def daemon_folder(path):
    """The folder of src/daemon that a path relative to the root lies in; None: src/daemon itself, or elsewhere."""
    parts = path.parts
    return parts[2] if parts[:2] == ("src", "daemon") and len(parts) > 3 else None


def cli_folder(path):
    """The folder of src/cli that a path relative to the root lies in; None: src/cli itself, or elsewhere."""
    parts = path.parts
    return parts[2] if parts[:2] == ("src", "cli") and len(parts) > 3 else None


def against_cli(source, target):
    """Whether the include goes from a folder of the command line to a later one; both relative to the root."""
    here, there = cli_folder(source), cli_folder(target)
    if here not in CLI or there not in CLI or is_test(source):
        return False
    return CLI.index(there) > CLI.index(here)


def modules_of(text):
    """The folders of the modules in the text of MODULES, in the order in which they are constructed.

    A module's class has its folder's name: DriverLimitsModule lies in driver_limits.
    """
    return [re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower() for name in MODULE.findall(text)]


def misplaced_modules(text):
    """The folders of the modules in the text of MODULES that DAEMON has before one that is constructed earlier."""
    places = [DAEMON.index(name) for name in modules_of(text) if name in DAEMON]
    return [DAEMON[place] for before, place in zip(places, places[1:]) if place < before]


def allowed_in_daemon(source, target):
    """The same as allowed, for two files of the daemon. A folder that DAEMON does not have is reported as such."""
    here, there = daemon_folder(source), daemon_folder(target)
    if here is None or here == there or here not in DAEMON:
        return True
    return there in DAEMON and DAEMON.index(there) < DAEMON.index(here)


def allowed(source, target):
    """Whether source may include target; both relative to the root."""
    here, there = layer_of(source), layer_of(target)
    if here == there == ("src", "daemon"):
        return allowed_in_daemon(source, target)
    if here == there or here[0] in TEST_FOLDERS:
        return True
    if there[0] == "sim":
        return is_test(source)
    if there[0] != "src":
        return False
    if here[0] == "apps":
        return True
    if here[0] == "sim":
        may = SIM_TOOL_MAY if source.parts[1] == "tool" else SIM_MAY
        if is_test(source):
            return there[1] in ("driver", "base")
    elif here[0] == "plugins":
        may = PLUGIN_MAY
    else:
        may = LAYERS.get(here[1], ())
    name = "/".join(target.parts[1:])
    return any(there[1] == entry or ("/" in entry and name.startswith(entry)) for entry in may)


def resolve(root, source, name):
    """The included file, relative to the root, or None: beside the source, under src/, or under the root.

    A file that CMake makes is known by its template, NAME.in, or by its name in a CMakeLists.txt above.
    Tests may also use the parts of a program.
    """
    folders = [source.parent, pathlib.Path("src"), pathlib.Path(".")]
    if source.parts[0] in TEST_FOLDERS:
        folders += sorted(path.relative_to(root) for path in (root / "apps").glob("*"))
    for base in folders:
        candidate = base / name
        if (root / candidate).is_file() or (root / base / (name + ".in")).is_file():
            return candidate
    made = re.compile(r"\bOUTPUT\s+%s\b" % re.escape(name))
    for folder in source.parents:
        lists = root / folder / "CMakeLists.txt"
        if lists.is_file() and made.search(lists.read_text(encoding="utf-8")):
            return source.parent / name
    return None


def circles(graph):
    """Each circle among the headers, as a list of paths that starts at its smallest."""
    done, found = set(), []
    for start in sorted(graph):
        stack, path, on_path = [(start, iter(sorted(graph[start])))], [start], {start}
        if start in done:
            continue
        while stack:
            node, successors = stack[-1]
            for successor in successors:
                if successor in on_path:
                    circle = path[path.index(successor):]
                    smallest = circle.index(min(circle))
                    found.append(circle[smallest:] + circle[:smallest])
                elif successor in graph and successor not in done:
                    stack.append((successor, iter(sorted(graph[successor]))))
                    path.append(successor)
                    on_path.add(successor)
                    break
            else:
                stack.pop()
                path.pop()
                on_path.discard(node)
                done.add(node)
    return found


def check(root):
    """All findings of the tree at root, sorted."""
    findings, graph = [], {}
    for top in FOLDERS:
        for full in sorted((root / top).rglob("*")):
            if full.suffix not in SOURCES or not full.is_file():
                continue
            source = full.relative_to(root)
            if source.parts[0] == "src" and (len(source.parts) < 3 or source.parts[1] not in LAYERS):
                findings.append("%s:1: no layer for this folder in tools/check_layers.py" % source)
            if layer_of(source) == ("src", "shim") and room_of(source) is None:
                findings.append("%s:1: no room of the shim for this source in tools/check_layers.py" % source)
            if daemon_folder(source) not in (None, *DAEMON):
                findings.append("%s:1: no place for this folder in DAEMON of tools/check_layers.py" % source)
            if cli_folder(source) not in (None, *CLI):
                findings.append("%s:1: no place for this folder in CLI of tools/check_layers.py" % source)
            includes = graph.setdefault(source, set())
            lines = full.read_text(encoding="utf-8", errors="replace").splitlines()
            if source.as_posix() == MODULES:
                findings += ["%s:1: %s is constructed out of the order of DAEMON in tools/check_layers.py" % (source, name)
                             for name in misplaced_modules("\n".join(lines))]
                findings += ["%s:1: the module %s has no folder of its name in DAEMON of tools/check_layers.py"
                             % (source, name) for name in modules_of("\n".join(lines)) if name not in DAEMON]
            product = top not in TEST_FOLDERS and not is_test(source) and source.as_posix() != CHECKED_NUMBERS
            for number, line in enumerate(lines, 1):
                if product and UNCHECKED_NUMBER.search(line.split("//")[0]):
                    findings.append("%s:%d: a number of JSON, unchecked; use %s" % (source, number, CHECKED_NUMBERS))
                match = INCLUDE.match(line)
                if not match:
                    continue
                where, name = "%s:%d" % (source, number), match.group(1)
                if ".." in pathlib.PurePath(name).parts:
                    findings.append("%s: \"%s\" climbs; name it from src/ or from the root" % (where, name))
                    continue
                target = resolve(root, source, name)
                if target is None:
                    findings.append("%s: \"%s\" is not a file of this tree; use <…> for a library" % (where, name))
                    continue
                includes.add(target)
                if not allowed(source, target):
                    here = "/".join(layer_of(source) + (daemon_folder(source) or "",)).rstrip("/")
                    findings.append("%s: %s may not include %s" % (where, here, target))
                if goes_up(source, target):
                    findings.append("%s: %s is below %s, and may not include it"
                                    % (where, source.parent, target))
                if against_cli(source, target):
                    findings.append("%s: src/cli/%s may not include %s" % (where, cli_folder(source), target))
    for circle in circles(graph):
        findings.append("%s:1: includes itself: %s" % (circle[0], " -> ".join(map(str, circle + circle[:1]))))
    for main in sorted((root / "apps").glob("*/main.cc")):
        count = len(main.read_text(encoding="utf-8").splitlines())
        if count >= MAIN_LINES:
            findings.append("%s:%d: a main has fewer than %d lines" % (main.relative_to(root), count, MAIN_LINES))
    return sorted(set(findings))


def missing_folders(root):
    """The entries of the tables above that are no folder of the tree at root, sorted."""
    tables = (("src", LAYERS, "LAYERS"), ("src/shim", SHIM_ROOMS, "SHIM_ROOMS"), ("src/daemon", DAEMON, "DAEMON"),
              ("src/cli", CLI, "CLI"))
    return sorted("%s/%s:1: %s of tools/check_layers.py has this folder, and the tree does not" % (above, name, table)
                  for above, names, table in tables for name in names if not (root / above / name).is_dir())


def main(arguments):
    if len(arguments) > 1 or any(argument.startswith("-") for argument in arguments):
        print(__doc__, file=sys.stderr)
        return 2
    root = pathlib.Path(arguments[0]) if arguments else pathlib.Path(__file__).resolve().parent.parent
    findings = check(root) + missing_folders(root)
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

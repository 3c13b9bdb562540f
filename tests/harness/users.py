"""Processes of other real users, and how long one of them waits while another attacks.

Needs root, which alone can become another user. Users are numbers: the machine's user database does not change.
Standard library only.
"""

import dataclasses
import json
import os
import pathlib
import select
import shutil
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
AS_USER = HERE / "as_user.py"
MEMBER = HERE / "user_process.py"
PATIENCE = 60  # seconds for one answer; nothing takes long without an attack


def within_reach(path, directory):
    """Copies a program for other users into a directory that they may enter: they may not enter each directory above a
    checkout."""
    copy = pathlib.Path(directory) / pathlib.Path(path).name
    if not copy.exists():
        shutil.copy(path, copy)
        copy.chmod(0o755)
    return copy


@dataclasses.dataclass(frozen=True)
class User:
    name: str
    uid: int
    gid: int

    # The user must be able to reach the executable.
    def popen(self, command, **options):
        options.setdefault("start_new_session", True)
        return subprocess.Popen(command, user=self.uid, group=self.gid, extra_groups=[], **options)

    def run(self, command, **options):
        return subprocess.run(command, user=self.uid, group=self.gid, extra_groups=[], capture_output=True, text=True,
                              timeout=PATIENCE * 3, **options)

    def python(self, script, *arguments, **options):
        """Runs a Python script as this user; the caller reads its output line by line. It can use the modules that
        as_user.py imports."""
        options.setdefault("stdin", subprocess.PIPE)
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("start_new_session", True)
        return subprocess.Popen([sys.executable, "-B", str(AS_USER), str(self.uid), str(self.gid), script,
                                 *map(str, arguments)], text=True, bufsize=1, **options)


class Asker:
    """A process of a user that sends small requests one after another, each on a connection of its own, and reports the
    time of each. It sends `steps` in turn: (method, path) or (method, path, body)."""

    def __init__(self, user, socket, steps):
        self.process = user.python(MEMBER.read_text(), socket, PATIENCE)
        self.process.stdin.write(json.dumps(steps) + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "ready\n"

    def ask(self):
        self.process.stdin.write("ask\n")
        return Answered(**json.loads(self.process.stdout.readline()))

    def measure(self, least, until=lambda: True):
        """Collects at least `least` answers, until `until` holds. Raises if an answer does not come in time, or is a
        refusal."""
        answers = []
        while len(answers) < least or not until():
            answers.append(self.ask())
            if answers[-1].error or answers[-1].status >= 400:
                raise AssertionError(f"the neighbour was not answered: {answers[-1]}")
        return answers

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(timeout=PATIENCE)


@dataclasses.dataclass
class Answered:
    seconds: float
    status: int  # 0: no answer, and `error` says why
    error: str
    body: str

    def json(self):
        return json.loads(self.body)

    def code(self):
        return self.json()["error"]["code"]


def spread(answers):
    times = sorted(answer.seconds * 1000 for answer in answers)
    p99 = times[min(len(times) - 1, len(times) * 99 // 100)]
    return {"n": len(times), "median_ms": round(statistics.median(times), 2), "p99_ms": round(p99, 2),
            "max_ms": round(times[-1], 2)}


FIGURES = []


def record(attempt, rest, attacked):
    """Records one row of the table that the run prints at its end."""
    FIGURES.append({"attempt": attempt, "rest": spread(rest), "attacked": spread(attacked)})


def print_figures():
    """Prints the neighbour's latency, at rest and during each attempt. Also writes it to the file that
    GPUMAN_HOSTILE_FIGURES names, one JSON object a line."""
    if not FIGURES:
        return
    print("\nThe neighbour's answers in ms (median / p99 / max), nothing of it asserted:")
    for row in FIGURES:
        cells = ["{median_ms} / {p99_ms} / {max_ms} n={n}".format(**row[when]) for when in ("rest", "attacked")]
        print(f"  {row['attempt']}: at rest {cells[0]}; attacked {cells[1]}", flush=True)
    if file := os.environ.get("GPUMAN_HOSTILE_FIGURES"):
        with open(file, "a") as out:
            out.writelines(json.dumps(row) + "\n" for row in FIGURES)


def read_line(process, patience=PATIENCE * 3):
    """Waits for the next line of a process of the test. Nobody else reads from the process: several lines may come at
    once, and those that are not returned yet are kept with it, where select() sees them no more."""
    deadline = time.monotonic() + patience
    kept = getattr(process, "kept", b"")
    while b"\n" not in kept:
        ready, _, _ = select.select([process.stdout], [], [], max(0, deadline - time.monotonic()))
        if not ready:
            raise AssertionError("the process said nothing")
        piece = os.read(process.stdout.fileno(), 1 << 16)
        if not piece:
            break
        kept += piece
    line, _, process.kept = kept.partition(b"\n")
    return line.decode().strip()

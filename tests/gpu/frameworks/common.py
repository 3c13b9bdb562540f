"""The common part of the programs in this folder. Each prints JSON lines on standard output; the last one is its
result."""

import argparse
import json
import os
import sys

MIB, GIB = 1 << 20, 1 << 30


def say(**fields):
    # One write for a line: processes of one job share their output.
    sys.stdout.flush()
    os.write(sys.stdout.fileno(), (json.dumps(fields) + "\n").encode())


def limit_arguments(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--limit", type=int, required=True, help="what the shim holds this program to, in bytes")
    parser.add_argument("--step", type=int, default=128 * MIB)
    return parser


class Trial:
    """A program at its limit: what the driver told it, how much it got, its own error, and whether it worked
    afterwards."""

    def __init__(self, name, arguments):
        self.limit, self.step = arguments.limit, arguments.step
        self.result = {"program": name, "limit": self.limit, "held": []}
        self.wrong = []

    def note(self, **fields):
        self.result.update(fields)

    def expect(self, condition, what):
        if not condition:
            self.wrong.append(what)

    def filled(self, held, error):
        """Records that the program took `held` bytes until `error` (its class's name) came."""
        self.expect(not self.result["held"] or abs(self.result["held"][-1] - held) <= self.step,
                    "the second time came to something else")
        self.result["held"].append(held)
        self.note(error=error)
        self.expect(held <= self.limit, f"held {held} of {self.limit}")
        self.expect(held >= self.limit // 4, f"came only to {held} of {self.limit}")

    def end(self):
        say(**self.result, ok=not self.wrong, wrong=self.wrong)
        sys.exit(0 if not self.wrong else 1)


def fill(take, is_out_of_memory, most):
    """Calls take() until it raises an out-of-memory error; returns its results, and the error. `most`: the maximum of
    calls."""
    held = []
    for _ in range(most):
        try:
            held.append(take())
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            return held, error
    return held, None

"""The table of routes (src/api/routes.h), as the program list_routes prints it."""

import collections
import os
import pathlib
import subprocess

Route = collections.namedtuple("Route", "method path right status body answer")


def table():
    program = pathlib.Path(os.environ["GPUMAN_BUILD_DIR"]) / "tests/list_routes"
    lines = subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()
    return [Route(*line.split()) for line in lines]

"""The table of routes (src/api/routes.h), as the program list_routes prints it."""

import collections
import subprocess

from machine import build_dir

Route = collections.namedtuple("Route", "method path right status body answer")


def table():
    lines = subprocess.run([build_dir() / "tests/list_routes"], check=True, capture_output=True, text=True).stdout.splitlines()
    return [Route(*line.split()) for line in lines]

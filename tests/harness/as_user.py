"""Runs Python as another user, even if that user cannot reach this interpreter: it imports all modules of a script
first. The process can be traced by others of the same user, like one that the user started.

Usage: as_user.py UID GID SCRIPT [ARGUMENTS]
"""

import array  # noqa: F401
import ctypes
import encodings.ascii  # noqa: F401
import encodings.idna  # noqa: F401
import encodings.latin_1  # noqa: F401
import email.message  # noqa: F401
import email.parser  # noqa: F401
import fcntl  # noqa: F401
import http.client  # noqa: F401
import itertools  # noqa: F401
import json  # noqa: F401
import mmap  # noqa: F401
import os
import pathlib
import pty  # noqa: F401
import random  # noqa: F401
import resource  # noqa: F401
import select  # noqa: F401
import signal  # noqa: F401
import socket  # noqa: F401
import struct  # noqa: F401
import subprocess  # noqa: F401
import sys
import tempfile  # noqa: F401
import threading  # noqa: F401
import time  # noqa: F401

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import machine  # noqa: E402,F401

PR_SET_DUMPABLE = 4


def main():
    uid, gid, script = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    sys.argv = ["-c", *sys.argv[4:]]
    prctl = ctypes.CDLL(None).prctl
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
    exec(compile(script, "script", "exec"), {"__name__": "__main__"})


main()

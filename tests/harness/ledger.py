"""The daemon's side of the shim's protocol, and the environment of a program with the shim preloaded.

tests/shim, tests/gpu and bench use it. Standard library only; works on the driver that the process sees.
"""

import ctypes
import os
import subprocess
import time

from machine import build_dir


def shim():
    return str(build_dir() / "lib/libgpuman.so")


def preloaded(socket, library=None, environment=None):
    """The environment for a program of job 1, whose ledger is served at `socket`."""
    env = dict(os.environ if environment is None else environment)
    env.update(LD_PRELOAD=library or shim(), GPUMAN_SHIM_SOCKET=str(socket), GPUMAN_JOB_ID="1")
    return env


class Ledger:
    """One job's ledger, served until stop(); each question is a call: ledger("used", uuid). `around`: a command in front
    of the server's."""

    def __init__(self, socket, *options, around=()):
        self.process = subprocess.Popen([*around, str(build_dir() / "tests/ledger_server"), str(socket), *map(str, options)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "ready\n":
            raise RuntimeError("the ledger server did not start")

    def __call__(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def until_given_back(self, uuid):
        """Waits until no process of the job holds memory. The kernel may drop the lock on the slot of a process that has
        ended, and was waited for, some milliseconds later."""
        end = time.monotonic() + 60
        while (held := (self("reclaim"), self("used", uuid), self("host"))[1:]) != ("0", "0"):
            if time.monotonic() > end:
                raise AssertionError(f"after a minute the job still holds {held[0]} on the GPU, {held[1]} of the host")
            time.sleep(0.002)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


class Nvml:
    """The tests' few questions to the driver, about one GPU, without the shim. Bytes."""

    class _Memory(ctypes.Structure):
        _fields_ = [("version", ctypes.c_uint),
                    *((name, ctypes.c_ulonglong) for name in ("total", "reserved", "free", "used"))]

    class _Process(ctypes.Structure):
        _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("gi", ctypes.c_uint), ("ci", ctypes.c_uint)]

    MOST = 2048

    def __init__(self, index=0):
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        self.device = ctypes.c_void_p()
        self._check(self.library.nvmlInit_v2())
        self._check(self.library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(self.device)))
        self._memory = self._Memory()
        self._list = (self._Process * self.MOST)()
        self._found = ctypes.c_uint()

    @staticmethod
    def _check(status):
        if status != 0:
            raise RuntimeError(f"NVML answers {status}")

    def uuid(self):
        text = ctypes.create_string_buffer(96)
        self._check(self.library.nvmlDeviceGetUUID(self.device, text, len(text)))
        return text.value.decode()

    def memory(self):
        """total, free and used, without the driver's own memory."""
        self._memory.version = ctypes.sizeof(self._Memory) | 2 << 24
        self._check(self.library.nvmlDeviceGetMemoryInfo_v2(self.device, ctypes.byref(self._memory)))
        return {name: getattr(self._memory, name) for name in ("total", "free", "used")}

    def processes(self):
        """Bytes by pid, without processes whose memory the driver does not tell."""
        self._found.value = self.MOST
        self._check(self.library.nvmlDeviceGetComputeRunningProcesses_v3(
            self.device, ctypes.byref(self._found), self._list))
        return {entry.pid: entry.used for entry in self._list[:self._found.value] if entry.used < 1 << 63}

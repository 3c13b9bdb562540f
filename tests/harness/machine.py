"""A machine for one test: the simulated driver, a daemon of its own, and the command line, in a directory of its own.

tests/fault and bench use it. Standard library only. With `real=True` it uses the machine's driver instead of the
simulated one.
"""

import contextlib
import errno
import faulthandler
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Before ctest ends a test silently for its time, the test prints where it is.
faulthandler.dump_traceback_later(570)


def has_ended(pid):
    """Whether the process does not exist, or is a zombie."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def command_line(pid):
    """The words of a process's command line; empty where there is none. One read: between two the process may execute
    another program, and the second would go on in the command line of that."""
    try:
        descriptor = os.open(f"/proc/{pid}/cmdline", os.O_RDONLY)
        try:
            words = os.read(descriptor, 4 << 20).decode(errors="replace").split("\0")
        finally:
            os.close(descriptor)
    except OSError:
        return []
    return words[:-1]


def build_dir():
    return pathlib.Path(os.environ.get("GPUMAN_BUILD_DIR", ROOT / "build" / "release")).absolute()


def free_port():
    """Returns a port of the loopback device that no process uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def fill_disk(file):
    """Writes to the file until its disk has no byte left."""
    with open(file, "wb", buffering=0) as filler:
        try:
            while filler.write(b"x" * 4096):
                pass
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise


def program(name):
    path = build_dir() / "bin" / name
    if not path.exists():
        raise SystemExit(f"{path} is missing: run ./dev build first")
    return str(path)


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket, for what the command line does not show."""

    def __init__(self, path, timeout=120):
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # The client waits, like gpuman, to be accepted even if the queue is full (with Python's own timeout it would be
        # refused at once).
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(self.timeout or 0), 0))
        self.sock.connect(self._path)
        self.sock.settimeout(self.timeout)


class Machine:
    running = set()

    def __init__(self, profile="h200", gpus=1, memory=None, real=False, config="", driver=None, bus=None, vmm=True, nvlink=None):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="gpuman-test-"))
        self.real = real
        self.profile, self.gpus, self.memory, self.driver, self.vmm = profile, gpus, memory, driver, vmm
        self.nvlink = nvlink  # groups of GPUs that NVLink joins, in gpuman-sim's form; None: the profile's
        self.bus = bus  # bytes a second each way; None: unlimited
        self.daemon = None
        self.sim = None
        self.env = dict(os.environ)
        self.env.update(
            XDG_RUNTIME_DIR=str(self.dir / "run"),
            XDG_STATE_HOME=str(self.dir / "state"),
            XDG_CONFIG_HOME=str(self.dir / "config"),
            GPUMAN_SOCKET=str(self.dir / "gpumand.sock"),
            GPUMAN_STATE_DIR=str(self.dir / "lib"),
            GPUMAN_CONFIG=str(self.dir / "gpumand.toml"),
        )
        for name in ("run", "state", "config", "lib"):
            (self.dir / name).mkdir(mode=0o700)
        (self.dir / "gpumand.toml").write_text(config)

    def __enter__(self):
        if not self.real:
            self._start_simulation()
        self.start_daemon()
        Machine.running.add(self)
        return self

    def __exit__(self, *_):
        """Also runs after an __enter__ that failed."""
        Machine.running.discard(self)
        with contextlib.suppress(Exception):
            for job in self.api("GET", "/v1/jobs")["jobs"]:
                if job["ended_at"] is None:
                    self.run("remove", str(job["id"]))
        self.stop_daemon()
        if self.sim:
            self.sim.stdin.close()
            self.sim.wait(timeout=120)
            self.sim.stdout.close()
        self._keep_log()
        shutil.rmtree(self.dir, ignore_errors=True)

    def last_words(self, lines=15):
        """What the daemon wrote last, for a failure that happens on another machine only."""
        with contextlib.suppress(OSError):
            written = (self.dir / "daemon.log").read_text(errors="replace").splitlines()[-lines:]
            return f"\nthe daemon's last words:\n{chr(10).join(line[:240] for line in written)}"
        return ""

    def _keep_log(self):
        """Copies the daemon's log into the folder that GPUMAN_TEST_LOGS names, for a search after a failure."""
        if folder := os.environ.get("GPUMAN_TEST_LOGS"):
            with contextlib.suppress(OSError):
                shutil.copy(self.dir / "daemon.log", pathlib.Path(folder) / f"{self.dir.name}.log")

    def _start_simulation(self):
        """Keeps one simulated driver for the life of the machine and uses the environment that it sets."""
        command = [program("gpuman-sim"), "exec", "--profile", self.profile, "--gpus", str(self.gpus)]
        if self.memory:
            command += ["--memory", self.memory]
        if self.driver:
            command += ["--driver", self.driver]
        if self.bus:
            command += ["--bus-to-device", self.bus, "--bus-to-host", self.bus]
        if self.nvlink:
            command += ["--nvlink", self.nvlink]
        if not self.vmm:
            command.append("--no-vmm")
        command += ["--", "sh", "-c", "env -0; printf '\\0END\\0'; exec cat"]
        self.sim = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self.env)
        data = b""
        while b"\0END\0" not in data:
            chunk = os.read(self.sim.stdout.fileno(), 65536)
            if not chunk:
                raise SystemExit("the simulated driver did not start")
            data += chunk
        for entry in data.split(b"\0END\0")[0].split(b"\0"):
            name, _, value = entry.decode().partition("=")
            if name.startswith("GPUMAN_SIM") or name == "LD_LIBRARY_PATH":
                self.env[name] = value

    def daemon_arguments(self):
        return ["--user"]

    def start_daemon(self):
        with open(self.dir / "daemon.log", "ab") as log:
            self.daemon = subprocess.Popen(
                [program("gpumand"), *self.daemon_arguments()], env=self.env, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.api("GET", "/v1/version")["pid"] == self.daemon.pid:
                    return
            if self.daemon.poll() is not None:
                break
            time.sleep(0.01)
        self.daemon.kill()
        self.daemon.wait()
        raise SystemExit("the daemon did not answer:\n" + (self.dir / "daemon.log").read_text()[-2000:])

    def stop_daemon(self, how=signal.SIGTERM):
        if self.daemon and self.daemon.poll() is None:
            self.daemon.send_signal(how)
            self.daemon.wait(timeout=120)

    def inject(self, *words):
        """Injects a fault into the simulated GPUs, or ends one."""
        done = subprocess.run([program("gpuman-sim"), "inject", *map(str, words)], env=self.env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def api(self, method, path, body=None):
        connection = UnixConnection(self.env["GPUMAN_SOCKET"])
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None)
            answer = connection.getresponse()
            data = answer.read()
            return json.loads(data) if data else None
        finally:
            connection.close()

    def popen(self, *arguments, **options):
        return subprocess.Popen([program("gpuman"), *arguments], env=self.env, **options)

    def run(self, *arguments, **options):
        return subprocess.run([program("gpuman"), *arguments], env=self.env, capture_output=True, text=True, **options)

    def run_json(self, *arguments):
        words = list(arguments)
        words.insert(words.index("--") if "--" in words else len(words), "--json")
        done = self.run(*words)
        if done.returncode != 0:
            raise RuntimeError(f"gpuman {' '.join(arguments)}: exit {done.returncode}: {done.stderr}")
        return json.loads(done.stdout)

    def jobs(self):
        return self.api("GET", "/v1/jobs?all=1")["jobs"]

    def events(self, since=0):
        return self.api("GET", f"/v1/events?since={since}&limit=100000")["events"]

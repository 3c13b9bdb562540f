"""A Slurm cluster of one node for a test: munged, slurmctld and slurmd of the distribution in a directory of their own,
on the simulated driver, with a system daemon.

It changes nothing outside the directory, and ends every process that it started, also after a start that failed. Needs
root, as slurmd does.
"""

import atexit
import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "harness"))
from daemon_case import PATIENCE, until  # noqa: E402
from machine import ROOT, Machine, build_dir, command_line, program  # noqa: E402

CONFIG = """
[sampling]
rest = "20ms"
[share]
capacity = "222MiB"
quantum_min = "50ms"
quantum_max = "200ms"
idle = "20ms"
"""
SHARDS = 4  # a GPU
GPUS = 2


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def slurm_conf(directory, node, ports):
    return f"""ClusterName=gpuman
SlurmctldHost={node}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={directory}/munge.sock
StateSaveLocation={directory}/ctld
SlurmdSpoolDir={directory}/spool
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd.pid
PlugStackConfig={directory}/plugstack.conf
Epilog={directory}/epilog
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu,shard
ReturnToService=2
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,batch_sched_delay=0
KillWait=2
NodeName={node} NodeAddr=127.0.0.1 CPUs=16 Boards=1 SocketsPerBoard=1 CoresPerSocket=16 ThreadsPerCore=1 RealMemory=1000 Gres=gpu:{GPUS},shard:{GPUS * SHARDS}
PartitionName=main Nodes={node} Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
"""


class SystemMachine(Machine):
    """A machine with a system daemon, which serves every user; other users can reach the parts that they need."""

    def daemon_arguments(self):
        self.dir.chmod(0o755)
        return ["--config", self.env["GPUMAN_CONFIG"], "--socket", self.env["GPUMAN_SOCKET"], "--state-dir",
                self.env["GPUMAN_STATE_DIR"]]


class Cluster:
    def __init__(self):
        self.m = SystemMachine(profile="rtx4050", gpus=GPUS, memory=f"{SHARDS}GiB", config=CONFIG)
        self.dir = self.m.dir / "slurm"
        self.dir.mkdir(mode=0o755)
        self.node = socket.gethostname().partition(".")[0]
        self.parts = []
        self.env = {}

    def __enter__(self):
        # This also happens when the test gets a signal to end.
        atexit.register(self.__exit__)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            self.m.__enter__()
            self.env = {**self.m.env, "SLURM_CONF": str(self.dir / "slurm.conf"), "PYTHONUNBUFFERED": "1"}
            self._write()
            self._munge()
            self._start("slurmctld", "-D", "-c")
            self._start("slurmd", "-D", "-c")
            until("the node is idle", lambda: self._alive() and "idle" in self.ask("sinfo", "-h", "-o", "%t"))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        atexit.unregister(self.__exit__)
        if self.env:
            with contextlib.suppress(Exception):
                self.clear()
        for part in reversed(self.parts):
            part.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                part.wait(timeout=20)
            if part.poll() is None:
                part.kill()
                part.wait()
        self._end_stepds()
        self.m.__exit__()

    def clear(self):
        """Ends every job of Slurm, and waits until none is left."""
        self.ask("scancel", "--full", "--signal=KILL", "--state=RUNNING")
        self.ask("scancel", "--state=PENDING")
        until("no job is left", lambda: not self.ask("squeue", "-h"))

    def _end_stepds(self):
        """Ends the slurmstepds, which outlive slurmd; their environment names this cluster's configuration."""
        mine = f"SLURM_CONF={self.env.get('SLURM_CONF')}".encode()
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if "slurmstepd" in " ".join(command_line(entry.name)) and mine in (entry / "environ").read_bytes().split(b"\0"):
                    os.kill(int(entry.name), signal.SIGKILL)

    def _write(self):
        for name in ("ctld", "spool"):
            (self.dir / name).mkdir(mode=0o755)
        (self.dir / "slurm.conf").write_text(slurm_conf(self.dir, self.node, free_ports(2)))
        # Two character devices that exist everywhere stand for the GPUs' devices.
        devices = ("/dev/null", "/dev/zero")
        lines = [f"Name=gpu File={device}\nName=shard Count={SHARDS} File={device}\n" for device in devices]
        (self.dir / "gres.conf").write_text("".join(sorted("".join(lines).splitlines(True))))
        epilog = self.dir / "epilog"
        epilog.write_text(f"#!/bin/sh\nGPUMAN={program('gpuman')} PATIENCE=${{PATIENCE:-30}} GPUMAN_SOCKET={self.m.env['GPUMAN_SOCKET']} "
                          f"exec {ROOT}/packaging/slurm/epilog\n")
        epilog.chmod(0o755)
        self.plugin()

    def plugin(self, *words, keyword="required"):
        """Configures the plugin; the change applies to the next step."""
        library = build_dir() / "lib" / "spank_gpuman.so"
        line = f"{keyword} {library} socket={self.m.env['GPUMAN_SOCKET']} {' '.join(words)}\n"
        (self.dir / "plugstack.conf").write_text(line)

    def _munge(self):
        key = self.dir / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        options = [f"--{name}={self.dir}/munge.{end}" for name, end in (
            ("key-file", "key"), ("socket", "sock"), ("pid-file", "pid"), ("log-file", "log"), ("seed-file", "seed"))]
        self._start("munged", "--foreground", "--force", *options)
        until("munged listens", lambda: self._alive() and (self.dir / "munge.sock").exists())

    def _start(self, name, *words):
        found = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
        assert found, f"{name} is missing: ./dev e2e slurm installs it"
        with open(self.dir / f"{name}.log", "ab") as log:
            self.parts.append(subprocess.Popen([found, *words], env=self.env, cwd=self.dir, stdin=subprocess.DEVNULL,
                                               stdout=log, stderr=log, start_new_session=True))

    def _alive(self):
        for part in self.parts:
            if part.poll() is not None:
                log = self.dir / (pathlib.Path(part.args[0]).name + ".log")
                raise AssertionError(f"{part.args[0]} has ended ({part.returncode}):\n{log.read_text()[-3000:]}")
        return True

    def ask(self, *words):
        done = subprocess.run(words, env=self.env, capture_output=True, text=True, timeout=PATIENCE)
        return done.stdout.strip()

    def run(self, *words, **more):
        return subprocess.run(words, env={**self.env, **more}, capture_output=True, text=True, timeout=PATIENCE)

    def start(self, *words, **options):
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, **options}
        return subprocess.Popen(words, env=self.env, **options)

    def jobs(self, everything=False):
        """The jobs that have not ended, or all."""
        jobs = self.m.api("GET", "/v1/jobs?all=1")["jobs"]
        return [job for job in jobs if everything or job["ended_at"] is None]

    def story(self):
        """What gpumand and Slurm said last, for a test that fails."""
        logs = [self.m.dir / "daemon.log", *(self.dir / f"{name}.log" for name in ("slurmctld", "slurmd"))]
        return "\n".join([f"jobs: {self.jobs(True)[-4:]}", f"events: {self.m.events()[-16:]}",
                          *(f"{log.name}:\n{log.read_text()[-6000:]}" for log in logs)])

    def job(self, tag):
        return next((job for job in reversed(self.jobs(True)) if job["tag"] == tag), None)


class ClusterCase(unittest.TestCase):
    """The tests of a class share one cluster, `c`; no job outlives its test."""

    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("needs root, as slurmd does")
        cls.c = Cluster()
        cls.addClassCleanup(cls.c.__exit__)
        cls.c.__enter__()

    def tearDown(self):
        self.c.clear()

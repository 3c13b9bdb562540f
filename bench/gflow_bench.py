"""The queue's own measurements with gflow (runqd on PyPI), for bench.py: gflow's figures beside ours.

gflow gets a virtual environment below the build tree, made when it is missing, and for each measurement its own home,
configuration, state, port and tmux server: it neither sees nor changes a user's gflow. It uses the simulated GPUs. It
polls them each second, the shortest interval; with the default of 10 s, jobs shorter than that stall it: it does not
notice a job that ran between two polls at which the GPU was free. Needs tmux, and the network once.
"""

import contextlib
import http.client
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import machine

PACKAGE = "runqd==0.4.18"
PATIENCE = 180  # seconds for all jobs of a measurement


def programs():
    """The directory of gflow's programs."""
    place = machine.build_dir() / "bench" / "gflow"
    if not (place / "bin" / "gflowd").exists():
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        subprocess.run([place / "bin" / "pip", "install", "--quiet", PACKAGE], check=True)
    return place / "bin"


class Gflow:
    """A gflowd on the simulated GPUs of `m`. `executor`: "tmux", gflow's default, or "process"."""

    def __init__(self, m, executor):
        self.bin, self.port = programs(), machine.free_port()
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="gpuman-gflow-"))
        self.env = {name: value for name, value in m.env.items() if not name.startswith(("TMUX", "XDG_"))}
        self.env.update(HOME=str(self.dir), PATH=f"{self.bin}:{os.environ['PATH']}", SHELL="/bin/bash")
        for name, part in (("XDG_CONFIG_HOME", "config"), ("XDG_DATA_HOME", "data"), ("XDG_RUNTIME_DIR", "run"),
                           ("XDG_STATE_HOME", "state"), ("XDG_CACHE_HOME", "cache"), ("TMUX_TMPDIR", "tmux")):
            (self.dir / part).mkdir(mode=0o700)
            self.env[name] = str(self.dir / part)
        # The shell of each tmux session is a login shell, which resets PATH; without gcancel no job ends.
        (self.dir / ".bash_profile").write_text(f"export PATH={self.env['PATH']}\n")
        (self.dir / "config" / "gflow").mkdir()
        (self.dir / "config" / "gflow" / "gflow.toml").write_text(
            f'[daemon]\nhost = "127.0.0.1"\nport = {self.port}\ngpu_poll_interval_secs = 1\n[executor]\ntype = "{executor}"\n')

    def __enter__(self):
        with open(self.dir / "gflowd.log", "wb") as log:
            self.daemon = subprocess.Popen([self.bin / "gflowd"], env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if len(self.ask("GET", "/info")["gpus"]) == 2:
                    return self
            self.connection.close()
            time.sleep(0.1)
        self.__exit__()
        raise SystemExit("bench: gflowd did not come up with two GPUs")

    def __exit__(self, *_):
        self.connection.close()
        self.daemon.terminate()
        self.daemon.wait(timeout=60)
        if shutil.which("tmux"):
            subprocess.run(["tmux", "kill-server"], env=self.env, stderr=subprocess.DEVNULL)
        shutil.rmtree(self.dir, ignore_errors=True)

    def ask(self, method, path, body=None):
        self.connection.request(method, path, json.dumps(body) if body is not None else None,
                                {"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise SystemExit(f"bench: gflow: {method} {path}: {answer.status} {text[:300]}")
        return json.loads(text)

    def submit(self, name, command, gpus=1):
        """Sends what `gbatch --gpus 1 --name NAME COMMAND` sends."""
        return self.ask("POST", "/jobs", {
            "id": 0, "script": None, "command": command, "gpus": gpus, "conda_env": None, "run_dir": str(self.dir), "priority": 10,
            "depends_on": None, "depends_on_ids": [], "dependency_mode": None, "auto_cancel_on_dependency_failure": True,
            "task_id": None, "gpu_sharing_mode": "Exclusive", "gpu_memory_limit_mb": None, "time_limit": None,
            "memory_limit_mb": None, "submitted_by": "bench", "redone_from": None, "retried_from": None, "max_retries": 0,
            "auto_close_tmux": True, "parameters": {}, "group_id": None, "max_concurrent": None, "run_name": name,
            "project": None, "state": "Queued", "gpu_ids": None, "submitted_at": None, "started_at": None, "finished_at": None,
            "reason": None, "scheduled_at": None})

    def wait_for(self, count):
        """Waits until `count` jobs have finished, or the time is up; returns how many have finished."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            states = [job["state"] for job in self.ask("GET", "/jobs")]
            if "Failed" in states:
                raise SystemExit(f"bench: gflow: a job failed: {states}")
            if states.count("Finished") >= count:
                break
            time.sleep(0.05)
        return states.count("Finished")


def measure_jobs(tell, m, executor, count):
    with Gflow(m, executor) as gflow:
        times = gflow.dir / "times"
        stamp = f"date +%s%N >> {times}.$CUDA_VISIBLE_DEVICES"
        begin = time.monotonic()
        for number in range(count):
            gflow.submit(f"w{number}", f"{stamp}; {stamp}")
        done = gflow.wait_for(count)
        rate = done / (time.monotonic() - begin)
        gaps = []
        for file in gflow.dir.glob("times.*"):
            stamps = [int(line) / 1e9 for line in file.read_text().split()]
            gaps += [after - before for before, after in zip(stamps[1::2], stamps[2::2])]
    tell(f"gflow, executor {executor}: the same", f"{rate:.2f} a second, {done} of {count} ended", "ours at least 50 times")
    if gaps:
        tell(f"gflow, executor {executor}: a GPU freed until the next job's command",
             f"median {statistics.median(gaps):.1f} s, max {max(gaps):.1f}, n={len(gaps)}", "")


def measure_submissions(tell, m, count):
    """Each job asks for two GPUs, and one job holds both: nothing starts meanwhile, as in a paused queue."""
    with Gflow(m, "process") as gflow:
        gflow.submit("holder", "sleep 600", gpus=2)
        begin = time.monotonic()
        for number in range(count):
            gflow.submit(f"w{number}", "true", gpus=2)
        took = time.monotonic() - begin
        gflow.ask("POST", "/jobs/1/cancel")
    tell("gflow: submissions one by one, from one client (it writes them down later)", f"{count / took:.0f} a second, n={count}", "")


def measure(tell, count=8):
    with machine.Machine(gpus=2) as m:
        m.stop_daemon()
        for executor in ("tmux", "process"):
            measure_jobs(tell, m, executor, count)
        measure_submissions(tell, m, 1000)

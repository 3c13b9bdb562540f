"""Containers of Kubernetes as gpumand sees them: cgroups with the right names, and kubelet's files about them.

Needs root and a tree of cgroup v2. Standard library only.
"""

import os
import pathlib
import secrets
import signal
import subprocess
import time
import uuid


def unified_tree():
    """The directory where cgroups can be made; None: there is none."""
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        words = line.split()
        if words[words.index("-") + 1] == "cgroup2" and words[3] == "/" and os.geteuid() == 0:
            return pathlib.Path(words[4]) if os.access(words[4], os.W_OK) else None
    return None


# The prefixes that runtimes give to a container's scope if systemd makes the cgroups.
SCOPES = {"containerd": "cri-containerd-", "CRI-O": "crio-", "Docker": "docker-", "Podman": "libpod-"}


class Container:
    """A container of a pod in a tree of cgroups of its own; it exists until `close`. Without a `runtime` (of SCOPES)
    its cgroup looks as if kubelet and the runtime had made it themselves, which is the same for all runtimes."""

    def __init__(self, logs, pod, name="main", space="team", named=True, uid=None, qos="burstable", runtime=None):
        self.logs, self.pod, self.name, self.space = pathlib.Path(logs), pod, name, space
        self.uid = uid or str(uuid.uuid4())
        self.id = secrets.token_hex(32)
        self.top = unified_tree() / f"gpuman-test-{os.getpid()}"
        self.cgroup = self.top / "kubepods" / qos / f"pod{self.uid}" / self.id
        if runtime:
            pod_slice = f"kubepods-{qos}-pod{self.uid.replace('-', '_')}.slice"
            self.cgroup = self.top / "kubepods.slice" / f"kubepods-{qos}.slice" / pod_slice / f"{SCOPES[runtime]}{self.id}.scope"
        self.cgroup.mkdir(parents=True)
        self.processes = []
        (self.logs / "pods" / f"{space}_{pod}_{self.uid}").mkdir(parents=True, exist_ok=True)
        (self.logs / "containers").mkdir(exist_ok=True)
        if named:
            self.write_name()

    def write_name(self):
        (self.logs / "containers" / f"{self.pod}_{self.space}_{self.name}-{self.id}.log").symlink_to("/nowhere/0.log")

    def given(self, **what):
        """The container's entry in the table."""
        return {"namespace": self.space, "pod": self.pod, "container": self.name, **what}

    def start(self, command, environment, uid=None):
        """Starts a process of the container that no other process of it has started, as `kubectl exec` does."""
        def enter():
            (self.cgroup / "cgroup.procs").write_text("0")
            if uid is not None:
                os.setgroups([])
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
        process = subprocess.Popen(command, env=environment, preexec_fn=enter, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.processes.append(process)
        return process

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            process.stdout.close()
        for pid in (self.cgroup / "cgroup.procs").read_text().split():
            os.kill(int(pid), signal.SIGKILL)
        for path in [self.cgroup, *self.cgroup.parents]:
            if not path.is_relative_to(self.top):
                return
            while not self.remove(path):
                time.sleep(0.01)

    @staticmethod
    def remove(path):
        """Whether the directory is gone, or has other directories in it."""
        try:
            path.rmdir()
        except FileNotFoundError:
            return True
        except OSError:
            return any(entry.is_dir() for entry in path.iterdir())
        return True

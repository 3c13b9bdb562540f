"""Pods of a kubelet without a server: a file in a directory is a pod."""

import json
import pathlib
import re
import subprocess
import urllib.request

import image
from daemon_case import until

CONTAINERD = "/run/containerd/containerd.sock"
PODS = "http://127.0.0.1:10255/pods"
NAME = "node"  # kubelet's name of the node; it follows the names of pods


def ctr(*words):
    return subprocess.run(["ctr", "--address", CONTAINERD, "--namespace", "k8s.io", *words], capture_output=True, text=True,
                          timeout=180)


class StaticPods:
    """The static pods of a node, by the names of the test. `directory`: kubelet reads its subdirectory `pods`."""

    def __init__(self, directory):
        self.directory = directory
        self.names = {}
        self.started = 0
        (directory / "pods").mkdir()

    def start(self, name, resource, count, *command, **more):
        """Starts a pod of one container, `main`."""
        self.start_together(name, {"main": (resource, count, command)}, **more)

    def start_together(self, name, containers, **more):
        """Starts a pod of several containers: for each name the resource, the count and the command. `more`: fields of
        Kubernetes for each."""
        self.apply(name, {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [
            {"name": container, "image": image.NAME, "command": list(command), "resources": {"limits": {resource: str(count)}}, **more}
            for container, (resource, count, command) in containers.items()]})

    def apply(self, name, spec):
        """Each pod has a new name: kubelet would take a second pod of the same name for the first, which has ended."""
        self.started += 1
        self.names[name] = f"{name}-{self.started}"
        spec = {**spec, "hostNetwork": True}  # the node has no other network
        for container in spec["containers"]:
            container["imagePullPolicy"] = "Never"
        # Written under another name and moved, so that a reader of the directory sees it whole.
        written = self.directory / f"{name}.json"
        written.write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", "spec": spec,
                                       "metadata": {"name": self.names[name], "namespace": "lab"}}))
        written.rename(self.directory / "pods" / written.name)

    def execute(self, container, *command):
        """Runs a program in a running container, as `kubectl exec` does; returns its exit status."""
        self.started += 1
        number = container["containerID"].removeprefix("containerd://")
        return ctr("tasks", "exec", "--exec-id", f"exec-{self.started}", number, *command).returncode

    def remove(self, name):
        """Removes the pod; returns after the last process of its containers has ended."""
        numbers = [container.get("containerID", "").removeprefix("containerd://") for container in self.containers(name)]
        (self.directory / "pods" / f"{name}.json").unlink()

        def gone():
            lives = ctr("tasks", "ls", "-q").stdout.split()
            return self.pod(name) is None and not any(number in lives for number in numbers)
        until(f"pod {name} is gone", gone)

    def remove_all(self):
        for pod in list((self.directory / "pods").iterdir()):
            self.remove(pod.stem)

    def pods(self):
        """The pods that kubelet reports; None while it does not answer."""
        try:
            with urllib.request.urlopen(PODS, timeout=30) as answer:
                return json.load(answer)["items"] or []
        except OSError:
            return None

    def pod(self, name):
        return next((pod for pod in self.pods() or [] if pod["metadata"]["name"] == f"{self.names[name]}-{NAME}"), None)

    def containers(self, name):
        """The states of a pod's containers: dictionaries with `name`, `state`, `containerID`, `restartCount`."""
        pod = self.pod(name)
        return pod["status"].get("containerStatuses", []) if pod else []

    def running(self, name, container=None):
        """Waits until the container of that name, or the only one, runs; returns it."""
        return self._comes_to(name, "running", container)

    def ended(self, name):
        """Waits until the pod's only container has ended; returns (exit status, output)."""
        return self._comes_to(name, "terminated")["state"]["terminated"]["exitCode"], self.said_by(name)

    def _comes_to(self, name, state, which=None):
        def look():
            pod = self.pod(name)
            container = next((one for one in self.containers(name) if which in (None, one["name"])), None)
            if container and state in container["state"]:
                return container
            waits = (container or {}).get("state", {}).get("waiting", {}).get("reason", "ContainerCreating")
            if pod and (pod["status"]["phase"] == "Failed" or waits != "ContainerCreating"):
                raise AssertionError(f"pod {name}: {pod['status']}\n{self.said_by(name, which or '*')}")
            return None
        return until(f"pod {name} is {state}", look)

    def refused(self, name):
        """Waits until kubelet refuses the pod; returns the reason."""
        status = until(f"pod {name} is refused", lambda: (p := self.pod(name)) and p["status"]["phase"] == "Failed" and p["status"])
        return f"{status['reason']}: {status['message']}"

    def said_by(self, name, container="main"):
        """The output of the container; a time, a stream and a mark stand before each line of the log."""
        logs = sorted(pathlib.Path("/var/log/pods").glob(f"lab_{self.names[name]}-{NAME}_*/{container}/*.log"))
        return "".join(re.sub(r"(?m)^\S+ std(?:out|err) [FP] ", "", log.read_text(errors="replace")) for log in logs)

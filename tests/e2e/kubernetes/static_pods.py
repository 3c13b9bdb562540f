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
NAME = "node"  # kubelet's; it comes after the names of pods


def ctr(*words):
    return subprocess.run(["ctr", "--address", CONTAINERD, "--namespace", "k8s.io", *words], capture_output=True, text=True,
                          timeout=180)


class StaticPods:
    """Those of a node, by what the test calls them. `directory`: kubelet's is `pods` in it."""

    def __init__(self, directory):
        self.directory = directory
        self.names = {}
        self.started = 0
        (directory / "pods").mkdir()

    def start(self, name, resource, count, *command, **more):
        """A pod of one container, `main`."""
        self.start_together(name, {"main": (resource, count, command)}, **more)

    def start_together(self, name, containers, **more):
        """A pod of several: by name what each is given, how many of it, and its command. `more`, as Kubernetes has it, is each's."""
        self.apply(name, {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [
            {"name": container, "image": image.NAME, "command": list(command), "resources": {"limits": {resource: str(count)}}, **more}
            for container, (resource, count, command) in containers.items()]})

    def apply(self, name, spec):
        """Each pod has a name of its own: kubelet would take one that is as one before for that one, which is over."""
        self.started += 1
        self.names[name] = f"{name}-{self.started}"
        spec = {**spec, "hostNetwork": True}  # there is no other here
        for container in spec["containers"]:
            container["imagePullPolicy"] = "Never"
        # Whole at once, for who looks at the directory.
        written = self.directory / f"{name}.json"
        written.write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", "spec": spec,
                                       "metadata": {"name": self.names[name], "namespace": "lab"}}))
        written.rename(self.directory / "pods" / written.name)

    def execute(self, container, *command):
        """A program in a running container, as `kubectl exec` has it; its exit status."""
        self.started += 1
        number = container["containerID"].removeprefix("containerd://")
        return ctr("tasks", "exec", "--exec-id", f"exec-{self.started}", number, *command).returncode

    def remove(self, name):
        """With the last process of its containers."""
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
        """As kubelet has them; None while it does not answer."""
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
        """The container of that name, or the only one, once it runs."""
        return self._comes_to(name, "running", container)

    def ended(self, name):
        """(exit status, output) of the pod's only container, once it has ended."""
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
        """Why kubelet does not admit it."""
        status = until(f"pod {name} is refused", lambda: (p := self.pod(name)) and p["status"]["phase"] == "Failed" and p["status"])
        return f"{status['reason']}: {status['message']}"

    def said_by(self, name, container="main"):
        """What its container has printed; each line comes with a time, a stream and a mark before it."""
        logs = sorted(pathlib.Path("/var/log/pods").glob(f"lab_{self.names[name]}-{NAME}_*/{container}/*.log"))
        return "".join(re.sub(r"(?m)^\S+ std(?:out|err) [FP] ", "", log.read_text(errors="replace")) for log in logs)

"""A node of Kubernetes: a real kubelet without a server, containerd, gpumand on the simulated driver and gpuman-kube-plugin, each
where it looks for the others on a machine of its own (enclosure.py). Pods are static: a file in a directory is a pod.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request

import yaml

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "harness"))
import image  # noqa: E402
import machine  # noqa: E402
from daemon_case import until  # noqa: E402
from kube_node import Node  # noqa: E402
from settings import CONTAINERD_CONFIG, GPUMAND, kubelet_config  # noqa: E402

KUBELET = pathlib.Path("/var/lib/kubelet")
CHECKPOINT = KUBELET / "device-plugins" / "kubelet_internal_checkpoint"
CONTAINERD = "/run/containerd/containerd.sock"
PODS = "http://127.0.0.1:10255/pods"
NAME = "node"
GPUS, GIB_EACH = 3, 8
WHOLE, GIB = "gpuman.io/gpu", "gpuman.io/gpumem-gib"


def plugin_config(m):
    """Every container gets the simulated driver as it would get the machine's: its libraries, and the device (a directory)."""
    libraries, devices = str(machine.build_dir() / "lib" / "sim"), m.env["GPUMAN_SIM_DIR"]
    return f"""
[container]
environment = {{ LD_LIBRARY_PATH = "{m.env['LD_LIBRARY_PATH']}", GPUMAN_SIM_DIR = "{devices}" }}
[[container.mount]]
host = "{libraries}"
container = "{libraries}"
[[container.mount]]
host = "{devices}"
container = "{devices}"
writable = true
[[resource]]
name = "{WHOLE}"
kind = "whole"
[[resource]]
name = "{GIB}"
kind = "memory"
gpus = [0, 1]
"""


class SystemMachine(machine.Machine):
    """Its daemon is the system's, where the system's is."""

    def __init__(self, **options):
        super().__init__(**options)
        pathlib.Path("/run/gpuman").mkdir(mode=0o755)
        self.env["GPUMAN_SOCKET"] = "/run/gpuman/gpumand.sock"

    def daemon_arguments(self):
        return ["--config", self.env["GPUMAN_CONFIG"], "--socket", self.env["GPUMAN_SOCKET"], "--state-dir",
                self.env["GPUMAN_STATE_DIR"]]


class KubeletNode(Node):
    """`with`: everything runs, and the plugin's devices are kubelet's to give out."""

    def __init__(self, kubelet):
        self.m = SystemMachine(profile="h200", gpus=GPUS, memory=f"{GIB_EACH}GiB", config=GPUMAND)
        super().__init__(self.m, "")
        self.kubelet_dir = CHECKPOINT.parent
        self.kubelet_program = kubelet
        self.containerd = None
        self.names = {}  # of pods, by what the test calls them
        self.started = 0
        (self.dir / "pods").mkdir()

    def __enter__(self):
        self.m.__enter__()
        self.config.write_text(plugin_config(self.m))
        self.uuids = [gpu["uuid"] for gpu in self.m.api("GET", "/v1/gpus")["gpus"]]
        self._start_containerd()
        self.start_kubelet()
        self.start_plugin()
        self.until_whole()
        return self

    def __exit__(self, *_):
        """What the containers are in ends with the enclosure; they end before."""
        self.remove_all()
        self.close()
        if self.containerd:
            self.containerd.terminate()
            self.containerd.wait(timeout=60)
        self.m.__exit__()

    # --- its parts ---

    def _spawn(self, name, *words):
        found = shutil.which(words[0], path=os.environ["PATH"] + ":/usr/sbin:/sbin")
        assert found, f"{words[0]} is missing: ./dev e2e kubernetes installs it"
        with open(self.dir / f"{name}.log", "ab") as log:
            return subprocess.Popen([found, *words[1:]], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def _start_containerd(self):
        config = self.dir / "containerd.toml"
        config.write_text(CONTAINERD_CONFIG)
        archive = self.dir / "image.tar"
        image.write(archive, [machine.program(name) for name in ("gpuman-load", "gpuman-kube-plugin")])
        self.containerd = self._spawn("containerd", "containerd", "--config", str(config))
        until("containerd answers", lambda: self.alive(self.containerd, "containerd") and self._ctr("version").returncode == 0)
        done = self._ctr("images", "import", str(archive))
        assert done.returncode == 0, done.stderr

    def _ctr(self, *words):
        return subprocess.run(["ctr", "--address", CONTAINERD, "--namespace", "k8s.io", *words], capture_output=True, text=True,
                              timeout=180)

    def alive(self, process, name):
        assert process.poll() is None, f"{name} has ended ({process.returncode}):\n{self.log_of(name)[-3000:]}"
        return True

    def execute(self, container, *command):
        """A program in a running container, as `kubectl exec` has it; its exit status."""
        self.started += 1
        number = container["containerID"].removeprefix("containerd://")
        return self._ctr("tasks", "exec", "--exec-id", f"exec-{self.started}", number, *command).returncode

    def log_of(self, name):
        return (self.dir / f"{name}.log").read_text(errors="replace")

    def logs(self):
        """The last that each part has said."""
        return "\n".join(f"--- {name}\n{self.log_of(name)[-4000:]}" for name in ("containerd", "kubelet", "plugin"))

    def start_kubelet(self, wait=True):
        config = self.dir / "kubelet.json"
        config.write_text(json.dumps(kubelet_config(self.dir)))
        self.kubelet = self._spawn("kubelet", self.kubelet_program, "--config", str(config), "--hostname-override", NAME,
                                   "--node-labels", "gpuman.io/gpus=true",
                                   "--container-runtime", "remote", "--container-runtime-endpoint", f"unix://{CONTAINERD}")
        if wait:
            until("kubelet answers", lambda: self.alive(self.kubelet, "kubelet") and self.pods() is not None)

    def stop_kubelet(self, kill=False):
        self.kubelet.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        self.kubelet.wait(timeout=60)
        self.kubelet = None

    def socket(self):
        """Names the socket of the kubelet that runs: each makes one of its own. None while there is none."""
        try:
            found = (self.kubelet_dir / "kubelet.sock").stat()
            return found.st_ino, found.st_mtime_ns
        except FileNotFoundError:
            return None

    # --- devices ---

    def allocatable(self, resource, since=None):
        """Ids of the devices that kubelet may give out, as it has written them down; since then, if given (`checkpoint`)."""
        try:
            if since is not None and self.checkpoint() == since:
                return []
            return json.loads(CHECKPOINT.read_text())["Data"]["RegisteredDevices"].get(resource) or []
        except FileNotFoundError:
            return []

    def checkpoint(self):
        """Names what kubelet has written down last: it writes a file anew each time."""
        state = CHECKPOINT.stat()
        return state.st_ino, state.st_mtime_ns

    def is_whole(self, since=None):
        return self.alive(self.kubelet, "kubelet") and len(self.allocatable(GIB, since)) == 2 * GIB_EACH and \
            self.allocatable(WHOLE, since) == [self.uuids[2]]

    def until_whole(self, since=None):
        """Waits until all devices are there; `since` as of `allocatable`.

        Kubelet writes after it has let go of its lock: of two lists at once the older may be what stays. A pod that is given a device
        makes it write once more.
        """
        def look():
            for _ in range(200):
                if self.is_whole(since):
                    return True
                time.sleep(0.01)
            self.start("probe", GIB, 1, "true")
            until("the probe is over", lambda: (pod := self.pod("probe")) and pod["status"]["phase"] in ("Failed", "Succeeded"))
            self.remove("probe")
            return False
        until("all devices can be given out", look)

    # --- pods ---

    def start(self, name, resource, count, *command):
        """A pod of one container, `main`. It has the node's processes, since the simulated driver knows them by their numbers there."""
        self.apply(name, {
            "hostPID": True, "restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": image.NAME, "command": list(command),
                            "resources": {"limits": {resource: str(count)}}}]})

    def apply(self, name, spec):
        """Each pod has a name of its own: kubelet would take one that is as one before for that one, which is over."""
        self.started += 1
        self.names[name] = f"{name}-{self.started}"
        spec = {**spec, "hostNetwork": True}  # there is no other here
        for container in spec["containers"]:
            container["imagePullPolicy"] = "Never"
        # Whole at once, for who looks at the directory.
        written = self.dir / f"{name}.json"
        written.write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", "spec": spec,
                                       "metadata": {"name": self.names[name], "namespace": "lab"}}))
        written.rename(self.dir / "pods" / written.name)

    def start_plugin_as_packaged(self):
        """As a pod, of the manifest: what it may do and what it sees of the node is as there. A pod of a file has no ConfigMap."""
        manifest = yaml.safe_load((machine.ROOT / "packaging" / "kubernetes" / "daemonset.yaml").read_text())
        spec = manifest["spec"]["template"]["spec"]
        (self.dir / "etc").mkdir(exist_ok=True)
        shutil.copy(self.config, self.dir / "etc" / "kube-plugin.toml")
        for volume in spec["volumes"]:
            if volume.pop("configMap", None):
                volume["hostPath"] = {"path": str(self.dir / "etc"), "type": "Directory"}
        spec["containers"][0].update(image=image.NAME, command=["/bin/gpuman-kube-plugin"])
        self.apply("plugin", spec)

    def remove(self, name):
        container = self.container(name)
        (self.dir / "pods" / f"{name}.json").unlink()
        until(f"pod {name} is gone", lambda: self.pod(name) is None and not self._lives(container))

    def remove_all(self):
        for pod in list((self.dir / "pods").iterdir()):
            self.remove(pod.stem)

    def _lives(self, container):
        number = (container or {}).get("containerID", "").removeprefix("containerd://")
        return number and number in self._ctr("tasks", "ls", "-q").stdout

    def pods(self):
        """As kubelet has them; None while it does not answer."""
        try:
            with urllib.request.urlopen(PODS, timeout=30) as answer:
                return json.load(answer)["items"] or []
        except OSError:
            return None

    def pod(self, name):
        return next((pod for pod in self.pods() or [] if pod["metadata"]["name"] == f"{self.names[name]}-{NAME}"), None)

    def container(self, name):
        """The state of a pod's container: a dictionary with `state`, `containerID`, `restartCount`; None before there is one."""
        pod = self.pod(name)
        return next(iter(pod["status"].get("containerStatuses", [])), None) if pod else None

    def running(self, name):
        """Its container, once it runs."""
        return self._comes_to(name, "running")

    def ended(self, name):
        """(exit status, output) of its container, once it has ended."""
        return self._comes_to(name, "terminated")["state"]["terminated"]["exitCode"], self.said_by(name)

    def _comes_to(self, name, state):
        def look():
            pod, container = self.pod(name), self.container(name)
            if container and state in container["state"]:
                return container
            waits = (container or {}).get("state", {}).get("waiting", {}).get("reason", "ContainerCreating")
            if pod and (pod["status"]["phase"] == "Failed" or waits != "ContainerCreating"):
                raise AssertionError(f"pod {name}: {pod['status']}\n{self.said_by(name)}")
            return None
        return until(f"pod {name} is {state}", look)

    def refused(self, name):
        """Why kubelet does not admit it."""
        status = until(f"pod {name} is refused", lambda: (p := self.pod(name)) and p["status"]["phase"] == "Failed" and p["status"])
        return f"{status['reason']}: {status['message']}"

    def said_by(self, name):
        """What its container has printed; each line comes with a time, a stream and a mark before it."""
        logs = sorted(pathlib.Path("/var/log/pods").glob(f"lab_{self.names[name]}-{NAME}_*/main/*.log"))
        return "".join(re.sub(r"(?m)^\S+ std(?:out|err) [FP] ", "", log.read_text(errors="replace")) for log in logs)

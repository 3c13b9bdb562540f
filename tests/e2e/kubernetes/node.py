"""A node of Kubernetes: a real kubelet without a server, containerd, gpumand on the simulated driver and
gpuman-kube-plugin. Each is where the others look for it, on a machine of its own (enclosure.py).
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import yaml

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "harness"))
import image  # noqa: E402
import machine  # noqa: E402
from daemon_case import until  # noqa: E402
from kube_node import Node  # noqa: E402
from settings import CONTAINERD_CONFIG, GPUMAND, kubelet_config  # noqa: E402
from static_pods import CONTAINERD, NAME, StaticPods, ctr  # noqa: E402

KUBELET = pathlib.Path("/var/lib/kubelet")
CHECKPOINT = KUBELET / "device-plugins" / "kubelet_internal_checkpoint"
GPUS, GIB_EACH = 3, 8
WHOLE, GIB = "gpuman.io/gpu", "gpuman.io/gpumem-gib"
OFFERS = {GIB: 2 * GIB_EACH, WHOLE: 1}  # devices of each resource


def plugin_config(m):
    """Gives every container the simulated driver as it would the machine's: its libraries, and the device (a
    directory)."""
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
    """A machine whose daemon uses the socket of the system's daemon."""

    def __init__(self, **options):
        super().__init__(**options)
        pathlib.Path("/run/gpuman").mkdir(mode=0o755)
        self.env["GPUMAN_SOCKET"] = "/run/gpuman/gpumand.sock"

    def daemon_arguments(self):
        return ["--config", self.env["GPUMAN_CONFIG"], "--socket", self.env["GPUMAN_SOCKET"], "--state-dir",
                self.env["GPUMAN_STATE_DIR"]]


class KubeletNode(Node, StaticPods):
    """Between `begin` and `end` all parts run; `begin` waits until kubelet can allocate the plugin's devices."""

    def __init__(self, kubelet):
        self.m = SystemMachine(profile="h200", gpus=GPUS, memory=f"{GIB_EACH}GiB", config=GPUMAND)
        Node.__init__(self, self.m, "")
        StaticPods.__init__(self, self.dir)
        self.kubelet_dir = CHECKPOINT.parent
        self.kubelet_program = kubelet
        self.containerd = None
        self.offers = OFFERS

    def begin(self):
        self.m.__enter__()
        self.config.write_text(plugin_config(self.m))
        self.uuids = [gpu["uuid"] for gpu in self.m.api("GET", "/v1/gpus")["gpus"]]
        self._start_containerd()
        self.start_kubelet()
        self.start_plugin()
        self.until_whole()

    def end(self):
        """The containers end before the enclosure, which ends what they run in."""
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
        until("containerd answers", lambda: self.alive(self.containerd, "containerd") and ctr("version").returncode == 0)
        done = ctr("images", "import", str(archive))
        assert done.returncode == 0, done.stderr

    def alive(self, process, name):
        assert process.poll() is None, f"{name} has ended ({process.returncode}):\n{self.log_of(name)[-3000:]}"
        return True

    def log_of(self, name):
        return (self.dir / f"{name}.log").read_text(errors="replace")

    def logs(self):
        """The last output of each part."""
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
        """Identifies the socket of the running kubelet, since each kubelet makes its own. None if there is none."""
        try:
            found = (self.kubelet_dir / "kubelet.sock").stat()
            return found.st_ino, found.st_mtime_ns
        except FileNotFoundError:
            return None

    def parts(self):
        """How each part is killed, and started."""
        return {
            "gpumand": (lambda: self.m.stop_daemon(signal.SIGKILL), self.m.start_daemon),
            "the plugin": (lambda: self.stop_plugin(signal.SIGKILL), self.start_plugin),
            "kubelet": (lambda: self.stop_kubelet(kill=True), self.start_kubelet),
        }

    def configure(self, config, offers=None):
        """Restarts the plugin with this configuration; `offers` are its devices then (OFFERS if not given)."""
        self.offers = offers or OFFERS
        since = self.checkpoint()
        self.stop_plugin()
        self.config.write_text(config)
        self.start_plugin()
        self.until_whole(since)

    def start_plugin_as_packaged(self):
        """Starts the plugin as a pod of the manifest, with the same rights and view of the node. A static pod has no
        ConfigMap."""
        manifest = yaml.safe_load((machine.ROOT / "packaging" / "kubernetes" / "daemonset.yaml").read_text())
        spec = manifest["spec"]["template"]["spec"]
        (self.dir / "etc").mkdir(exist_ok=True)
        shutil.copy(self.config, self.dir / "etc" / "kube-plugin.toml")
        for volume in spec["volumes"]:
            if volume.pop("configMap", None):
                volume["hostPath"] = {"path": str(self.dir / "etc"), "type": "Directory"}
        spec["containers"][0].update(image=image.NAME, command=["/bin/gpuman-kube-plugin"])
        self.apply("plugin", spec)

    # --- devices ---

    def allocatable(self, resource, since=None):
        """The ids of the devices that kubelet may allocate, by its checkpoint; empty if kubelet has not written since
        `since` (`checkpoint`)."""
        try:
            if since is not None and self.checkpoint() == since:
                return []
            return json.loads(CHECKPOINT.read_text())["Data"]["RegisteredDevices"].get(resource) or []
        except FileNotFoundError:
            return []

    def checkpoint(self):
        """Identifies kubelet's last checkpoint: kubelet writes a new file each time."""
        state = CHECKPOINT.stat()
        return state.st_ino, state.st_mtime_ns

    def is_whole(self, since=None):
        return self.alive(self.kubelet, "kubelet") and all(
            len(self.allocatable(resource, since)) == number for resource, number in self.offers.items())

    def until_whole(self, since=None):
        """Waits until all devices are allocatable; `since` as in `allocatable`.

        Kubelet writes after it releases its lock: of two lists at once the older may stay. A pod that gets a device
        makes it write once more.
        """
        def look():
            for _ in range(200):
                if self.is_whole(since):
                    return True
                time.sleep(0.01)
            self.start("probe", next(iter(self.offers)), 1, "true")
            until("the probe is over", lambda: (pod := self.pod("probe")) and pod["status"]["phase"] in ("Failed", "Succeeded"))
            self.remove("probe")
            return False
        until("all devices can be given out", look)

"""A node of Kubernetes for tests and benchmarks: gpuman-kube-plugin, and kubelet's side of its protocol (fake_kubelet).

The plugin and kubelet may start and end in any order. Standard library only.
"""

import json
import pathlib
import shutil
import signal
import subprocess
import tempfile
import threading

import machine


class Kubelet:
    """A process that prints one line of JSON for each event; the lines are kept."""

    def __init__(self, directory, *arguments):
        command = [str(machine.build_dir() / "tests" / "fake_kubelet"), str(directory), *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.lines = []
        self.changed = threading.Condition()
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            with self.changed:
                self.lines.append(json.loads(line))
                self.changed.notify_all()

    def await_line(self, what, since=0, seconds=180):
        """Waits for the first line from number `since` on for which `what` is true."""
        def find():
            return next((line for line in self.lines[since:] if what(line)), None)
        with self.changed:
            if not self.changed.wait_for(find, seconds):
                raise AssertionError(f"not within {seconds} s; kubelet said {self.lines[since:]}")
            return find()

    def devices(self, resource, what, since=0):
        return self.await_line(lambda line: line["event"] == "devices" and line["resource"] == resource and what(line), since)

    def tell(self, *words):
        """Sends a command that has no answer."""
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def ask(self, *words):
        """Sends a command; returns the answer."""
        since = len(self.lines)
        self.tell(*words)
        return self.await_line(lambda line: line["event"] not in ("serving", "devices", "registered", "ended"), since)

    def end(self, kill=False):
        if kill:
            self.process.kill()
        self.process.stdin.close()
        self.process.wait(timeout=60)
        self.reader.join()
        self.process.stdout.close()


class Node:
    """The plugin on a machine (machine.py) whose gpumand may start and end."""

    def __init__(self, of, config):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="gpuman-node-"))
        self.kubelet_dir = self.dir / "device-plugins"
        self.kubelet_dir.mkdir()
        (self.dir / "pod-resources").mkdir()
        self.config = self.dir / "plugin.toml"
        self.config.write_text(f'[kubelet]\npod_resources = "{self.dir}/pod-resources/kubelet.sock"\n' + config)
        self.log = self.dir / "plugin.log"
        self.of = of
        self.plugin = None
        self.kubelet = None

    def command(self, *more):
        return [machine.program("gpuman-kube-plugin"), "--config", str(self.config), "--kubelet", str(self.kubelet_dir),
                "--socket", self.of.env["GPUMAN_SOCKET"], *more]

    def start_plugin(self):
        with open(self.log, "ab") as log:
            self.plugin = subprocess.Popen(self.command(), stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def stop_plugin(self, how=signal.SIGTERM):
        """Ends the plugin; returns its exit status."""
        if self.plugin.poll() is None:
            self.plugin.send_signal(how)
        return self.plugin.wait(timeout=60)

    def start_kubelet(self, *arguments):
        self.kubelet = Kubelet(self.kubelet_dir, *arguments)

    def stop_kubelet(self, kill=False):
        self.kubelet.end(kill)
        self.kubelet = None

    def said(self):
        return self.log.read_text() if self.log.exists() else ""

    def close(self):
        if self.plugin:
            self.stop_plugin()
        if self.kubelet:
            self.stop_kubelet()
        shutil.rmtree(self.dir, ignore_errors=True)

#!/usr/bin/env python3
"""gpuman-kube-plugin with kubelet's side of the protocol (gRPC library), and gpumand on the simulated driver.

Usage: kube_plugin_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
import machine  # noqa: E402
from daemon_case import until  # noqa: E402
from kube_node import Node  # noqa: E402

WHOLE = '[[resource]]\nname = "gpuman.io/gpu"\nkind = "whole"\n'
MEMORY = '[[resource]]\nname = "gpuman.io/gpumem-gib"\nkind = "memory"\ngpus = [0, 1]\n'
GIB = "gpuman.io/gpumem-gib"


class KubePluginTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.m = machine.Machine(profile="h200", gpus=3, memory="8GiB",
                                config='[sampling]\nrest = "20ms"\nslow = "100ms"\nretry = "200ms"\n[health]\nkernel_log = ""\n')
        cls.addClassCleanup(cls.m.__exit__)
        cls.m.__enter__()
        cls.uuids = [gpu["uuid"] for gpu in cls.m.api("GET", "/v1/gpus")["gpus"]]

    def node(self, config=WHOLE + MEMORY):
        node = Node(self.m, config)
        self.addCleanup(node.close)
        return node

    def running(self, config=WHOLE + MEMORY):
        node = self.node(config)
        node.start_kubelet()
        node.start_plugin()
        return node

    def is_whole(self, node, since=0):
        """Waits until both resources are there and healthy."""
        node.kubelet.devices("gpuman.io/gpu", lambda line: line["healthy"] == [self.uuids[2]] and not line["unhealthy"], since)
        return node.kubelet.devices(GIB, lambda line: len(line["healthy"]) == 16 and not line["unhealthy"], since)

    def parts(self, gpu, *numbers):
        return [f"{self.uuids[gpu]}::{number}" for number in numbers]

    def inject(self, *arguments):
        self.m.inject(*arguments)

    def until_said(self, node, text):
        until(f"the plugin says '{text}'", lambda: text in node.said())

    def test_devices_are_listed_and_given_out(self):
        node = self.running()
        self.is_whole(node)
        self.assertEqual(node.kubelet.ask("options", GIB), {"event": "options", "ok": True, "prefers": True, "pre_start": True})
        free = self.parts(0, *range(8)) + self.parts(1, 5, 6, 7)
        wish = node.kubelet.ask("prefer", GIB, 3, *free)["ids"]
        self.assertEqual(wish, self.parts(1, 5, 6, 7))
        granted = node.kubelet.ask("allocate", GIB, *wish)
        self.assertEqual(granted["event"], "granted", granted)
        self.assertEqual(granted["environment"]["NVIDIA_VISIBLE_DEVICES"], self.uuids[1])
        self.assertEqual(granted["environment"]["GPUMAN_MEMORY"], str(3 << 30))

    def test_an_impossible_allocation_is_refused(self):
        node = self.running()
        self.is_whole(node)
        spread = node.kubelet.ask("allocate", GIB, *self.parts(0, 1), *self.parts(1, 1))
        self.assertIn("spread over 2 GPUs", spread["message"])
        unknown = node.kubelet.ask("allocate", GIB, *self.parts(0, 8))
        self.assertEqual((unknown["event"], unknown["code"]), ("refused", 5), unknown)
        other = node.kubelet.ask("allocate", GIB, self.uuids[2])
        self.assertEqual(other["event"], "refused", "a GPU of another resource")
        self.assertEqual(node.kubelet.ask("allocate", "gpuman.io/gpu", self.uuids[2])["event"], "granted")

    def test_a_gpu_that_is_ill_is_withdrawn_until_it_is_mended(self):
        node = self.running()
        self.is_whole(node)
        since = len(node.kubelet.lines)
        self.inject("lost", "--gpu", "1")
        self.addCleanup(self.inject, "clear", "--gpu", "1")
        # On a machine that stands still for seconds the driver may count as silent before, and as well again.
        until("gpumand knows that it is lost", lambda: "lost" in str(self.m.api("GET", "/v1/gpus/1")["health"]["reasons"]))
        ill = node.kubelet.devices(GIB, lambda line: line["unhealthy"], since)
        self.assertEqual(ill["unhealthy"], self.parts(1, *range(8)))
        self.assertEqual(ill["healthy"], self.parts(0, *range(8)))
        refused = node.kubelet.ask("allocate", GIB, *self.parts(1, 0))
        self.assertIn("not healthy", refused.get("message", ""),
                      (refused, node.kubelet.lines[since:], node.said(), self.m.api("GET", "/v1/gpus/1"), self.m.events()[-6:]))
        since = len(node.kubelet.lines)
        self.inject("clear", "--gpu", "1")
        node.kubelet.devices(GIB, lambda line: len(line["healthy"]) == 16, since)

    def test_without_gpumand_nothing_is_healthy_until_it_is_back(self):
        node = self.running()
        self.is_whole(node)
        since = len(node.kubelet.lines)
        self.m.stop_daemon(signal.SIGKILL)
        try:
            node.kubelet.devices("gpuman.io/gpu", lambda line: line["unhealthy"] == [self.uuids[2]], since)
            node.kubelet.devices(GIB, lambda line: len(line["unhealthy"]) == 16 and not line["healthy"], since)
            refused = node.kubelet.ask("allocate", GIB, *self.parts(1, 0))
            self.assertIn("gpumand does not answer", refused["message"])
            since = len(node.kubelet.lines)
        finally:
            self.m.start_daemon()
        self.is_whole(node, since)

    def test_a_plugin_that_starts_before_gpumand_offers_devices_when_they_are_known(self):
        node = self.node()
        self.m.stop_daemon()
        try:
            node.start_kubelet()
            node.start_plugin()
            node.kubelet.devices(GIB, lambda line: not line["healthy"])
        finally:
            self.m.start_daemon()
        self.is_whole(node)

    def test_a_kubelet_that_begins_anew_gets_the_devices_again(self):
        node = self.running()
        self.is_whole(node)
        for kill in (False, True):
            node.stop_kubelet(kill)
            node.start_kubelet()
            self.is_whole(node)

    def test_a_plugin_that_begins_anew_is_taken_again(self):
        node = self.running()
        for how in (signal.SIGTERM, signal.SIGKILL):
            self.is_whole(node)
            since = len(node.kubelet.lines)
            status = node.stop_plugin(how)
            self.assertEqual(status, 0 if how == signal.SIGTERM else -how)
            node.kubelet.await_line(lambda line: line["event"] == "ended", since)
            if how == signal.SIGTERM:
                self.assertEqual(sorted(os.listdir(node.kubelet_dir)), ["kubelet.sock"], "it leaves no socket behind")
            since = len(node.kubelet.lines)
            node.start_plugin()
            self.is_whole(node, since)

    def test_the_plugin_waits_for_a_kubelet_that_is_absent(self):
        node = self.node()
        node.kubelet_dir.rmdir()
        node.start_plugin()
        self.until_said(node, "is kubelet running here?")
        node.kubelet_dir.mkdir()
        self.until_said(node, "waiting for " + str(node.kubelet_dir / "kubelet.sock"))
        node.start_kubelet()
        self.is_whole(node)

    def test_a_directory_that_goes_is_waited_for(self):
        node = self.running()
        self.is_whole(node)
        node.stop_kubelet()
        shutil.rmtree(node.kubelet_dir)
        self.until_said(node, "is gone; waiting for it")
        node.kubelet_dir.mkdir()
        node.start_kubelet()
        self.is_whole(node)

    def test_a_directory_in_which_nothing_can_be_made_ends_the_plugin_with_the_reason(self):
        node = self.node()
        node.kubelet_dir.rmdir()
        node.kubelet_dir = pathlib.Path("/proc/self")
        done = subprocess.run(node.command(), capture_output=True, text=True, timeout=180)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("listening at /proc/self/gpuman.io_gpu", done.stderr)

    def test_a_directory_that_is_read_only_ends_the_plugin_with_the_reason(self):
        node = self.node()
        own = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
        if subprocess.run([*own, "true"], capture_output=True, timeout=180).returncode != 0:
            self.skipTest("may not make namespaces")
        mounted = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
        done = subprocess.run([*own, mounted, str(node.kubelet_dir), *node.command()], capture_output=True, text=True, timeout=180)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(f"listening at {node.kubelet_dir}/gpuman.io_gpu", done.stderr)
        self.assertIn("Read-only file system", done.stderr)

    def test_a_kubelet_of_another_protocol_is_told(self):
        node = self.node()
        node.start_kubelet("v2")
        node.start_plugin()
        self.until_said(node, 'kubelet does not take gpuman.io/gpu: API version "v1beta1" is not supported, v2 is')
        node.stop_kubelet()
        node.start_kubelet()
        self.is_whole(node)

    def test_a_container_comes_to_its_gpu_as_the_configuration_says(self):
        node = self.running(WHOLE + '[container]\ndevices = ["cdi"]\nenvironment = { MODE = "x" }\n'
                            '[[container.mount]]\nhost = "/opt/h"\ncontainer = "/opt/c"\n')
        node.kubelet.devices("gpuman.io/gpu", lambda line: len(line["healthy"]) == 3)
        granted = node.kubelet.ask("allocate", "gpuman.io/gpu", self.uuids[2], self.uuids[0])
        self.assertEqual(granted["cdi"], [f"nvidia.com/gpu={self.uuids[2]}", f"nvidia.com/gpu={self.uuids[0]}"])
        files = self.m.api("GET", "/v1/containers")["files"]
        self.assertEqual(granted["mounts"], [["/opt/h", "/opt/c", True], [files["library"], files["library"], True],
                                             [files["preload"], "/etc/ld.so.preload", True],
                                             [files["socket_directory"], "/run/gpuman", True]])
        self.assertEqual(granted["environment"], {"MODE": "x", "GPUMAN_RESOURCE": "gpuman.io/gpu",
                                                  "GPUMAN_SHIM_SOCKET": "/run/gpuman/shim.sock",
                                                  "CUDA_VISIBLE_DEVICES": f"{self.uuids[2]},{self.uuids[0]}"})

    def table(self):
        return {entry["pod"]: entry for entry in self.m.api("GET", "/v1/containers")["containers"]}

    def test_gpumand_knows_what_a_container_has_before_it_starts(self):
        node = self.running()
        self.is_whole(node)
        ids = self.parts(1, 2, 3, 4)
        node.kubelet.ask("pod", GIB, "team", "train", "main", *ids)
        self.assertEqual(node.kubelet.ask("start", GIB, *ids)["event"], "started")
        self.assertEqual(self.table()["train"], {"namespace": "team", "pod": "train", "container": "main", "resource": GIB,
                                                 "gpus": [self.uuids[1]], "memory": 3 << 30, "share": False})
        node.kubelet.ask("pod", "gpuman.io/gpu", "team", "whole", "main", self.uuids[2])
        node.kubelet.ask("start", "gpuman.io/gpu", self.uuids[2])
        self.assertEqual(self.table()["whole"]["gpus"], [self.uuids[2]])
        self.assertNotIn("memory", self.table()["whole"])
        self.assertIn("train", self.table(), "the table is told whole each time")

    def test_gpumand_is_told_again_when_it_or_the_plugin_begins_anew(self):
        node = self.running()
        self.is_whole(node)
        node.kubelet.ask("pod", GIB, "team", "stays", "main", *self.parts(0, 0))
        self.m.stop_daemon(signal.SIGKILL)
        self.m.start_daemon()
        until("gpumand is told", lambda: "stays" in self.table())
        node.stop_plugin(signal.SIGKILL)
        node.kubelet.ask("pod", GIB, "team", "more", "main", *self.parts(0, 1))
        node.start_plugin()
        until("gpumand is told", lambda: "more" in self.table())

    def test_a_kubelet_that_does_not_watch_the_devices_any_more_gets_them_again(self):
        node = self.running()
        self.is_whole(node)
        since = len(node.kubelet.lines)
        node.kubelet.tell("unwatch", "gpuman.io/gpu")
        node.kubelet.await_line(lambda line: line["event"] == "ended", since)
        node.kubelet.devices("gpuman.io/gpu", lambda line: line["healthy"] == [self.uuids[2]], since)
        self.until_said(node, "kubelet does not watch gpuman.io/gpu; registering it again")

    def test_without_gpumand_or_pod_resources_a_container_starts_unless_limits_are_required(self):
        node = self.running()
        self.is_whole(node)
        (node.dir / "pod-resources" / "kubelet.sock").unlink()
        self.assertEqual(node.kubelet.ask("start", GIB, *self.parts(0, 1))["event"], "started")
        self.until_said(node, "limits of containers that start now are not held")
        node.config.write_text(node.config.read_text() + "[container]\nrequired = true\n")
        node.plugin.send_signal(signal.SIGHUP)
        self.until_said(node, "is read again")
        refused = node.kubelet.ask("start", GIB, *self.parts(0, 1))
        self.assertEqual(refused["event"], "refused", refused)
        self.assertIn("kubelet.sock", refused["message"])
        node.config.write_text(node.config.read_text().replace("required = true", "limits = false"))
        node.plugin.send_signal(signal.SIGHUP)
        until("it starts", lambda: node.kubelet.ask("start", GIB, *self.parts(0, 1))["event"] == "started")
        self.assertFalse(node.kubelet.ask("options", GIB)["pre_start"])

    @unittest.skipIf(os.geteuid() != 0, "the driver shows and changes instances for root alone")
    def test_a_gpu_that_is_split_is_given_out_as_its_instances(self):
        mig = "gpuman.io/mig-1g.18gb"
        node = self.running(WHOLE + f'[[resource]]\nname = "{mig}"\nkind = "mig"\nprofile = "1g.18gb"\n')
        node.kubelet.devices("gpuman.io/gpu", lambda line: len(line["healthy"]) == 3)
        self.addCleanup(self.split, [], False)
        since = len(node.kubelet.lines)
        self.split(["1g.18gb", "1g.18gb", "3g.71gb"], True)
        instances = node.kubelet.devices(mig, lambda line: len(line["healthy"]) == 2, since)["healthy"]
        node.kubelet.devices("gpuman.io/gpu", lambda line: line["healthy"] == self.uuids[1:], since)
        granted = node.kubelet.ask("allocate", mig, instances[1])
        self.assertEqual(granted["environment"]["NVIDIA_VISIBLE_DEVICES"], instances[1])
        self.assertIn("one MIG instance", node.kubelet.ask("allocate", mig, *instances)["message"])
        since = len(node.kubelet.lines)
        self.split([], False)
        node.kubelet.devices("gpuman.io/gpu", lambda line: len(line["healthy"]) == 3, since)
        node.kubelet.devices(mig, lambda line: not line["healthy"], since)

    def split(self, instances, enabled):
        self.m.api("POST", "/v1/mig/apply", {"devices": [{"gpus": ["0"], "enabled": enabled, "instances": instances}],
                                             "forget": not enabled})

    def test_a_new_configuration_holds_without_a_restart_and_a_wrong_one_does_not(self):
        node = self.running()
        self.is_whole(node)
        node.config.write_text(WHOLE + WHOLE)
        node.plugin.send_signal(signal.SIGHUP)
        self.until_said(node, "gpuman.io/gpu stands there twice")
        self.assertEqual(node.kubelet.ask("allocate", GIB, *self.parts(0, 1))["event"], "granted")
        since = len(node.kubelet.lines)
        node.config.write_text(MEMORY.replace("[0, 1]", "[0]") +
                               '[[resource]]\nname = "gpuman.io/shared"\nkind = "shared"\nreplicas = 4\n')
        node.plugin.send_signal(signal.SIGHUP)
        node.kubelet.devices("gpuman.io/shared", lambda line: len(line["healthy"]) == 8, since)
        node.kubelet.devices(GIB, lambda line: line["healthy"] == self.parts(0, *range(8)), since)
        node.kubelet.await_line(lambda line: line["event"] == "ended" and line["resource"] == "gpuman.io/gpu", since)
        turn = node.kubelet.ask("allocate", "gpuman.io/shared", *self.parts(2, 3))
        self.assertEqual(turn["environment"]["NVIDIA_VISIBLE_DEVICES"], self.uuids[2])

    def test_a_configuration_is_checked(self):
        node = self.node(MEMORY + MEMORY.replace("gib", "gb"))
        done = subprocess.run(node.command("--check-config"), capture_output=True, text=True, timeout=180)
        self.assertEqual(done.returncode, 2)
        self.assertIn("GPU 0 is in gpuman.io/gpumem-gib and in gpuman.io/gpumem-gb", done.stderr)
        node.config.write_text(WHOLE)
        self.assertEqual(subprocess.run(node.command("--check-config"), timeout=180).returncode, 0)
        node.config.unlink()
        done = subprocess.run(node.command("--check-config"), capture_output=True, text=True, timeout=180)
        self.assertEqual((done.returncode, done.stderr), (4, f"there is no file {node.config}\n"), "as gpumand --check-config")

    def test_bytes_that_are_no_http2_do_no_harm(self):
        import socket
        node = self.running()
        self.is_whole(node)
        path = str(node.kubelet_dir / "gpuman.io_gpu.sock")
        for junk in (b"GET / HTTP/1.1\r\n\r\n", b"\0" * 4096, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 64):
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(180)
                client.connect(path)
                client.sendall(junk)
                while client.recv(4096):
                    pass
        self.assertEqual(node.kubelet.ask("allocate", "gpuman.io/gpu", self.uuids[2])["event"], "granted")

    def test_a_kubelet_that_gives_the_sockets_path_as_authority_is_answered(self):
        """As kubelet 1.20 does. The gRPC library here does not, so the test writes the bytes of the call: full headers,
        one empty message."""
        import socket
        node = self.running()
        self.is_whole(node)
        path = str(node.kubelet_dir / "gpuman.io_gpu.sock")
        headers = {":method": "POST", ":scheme": "http", ":path": "/v1beta1.DevicePlugin/GetDevicePluginOptions",
                   ":authority": path, "content-type": "application/grpc", "te": "trailers"}
        block = b"".join(b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
                         for name, value in headers.items())

        def frame(kind, flags, stream, body):
            return len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body
        data, head, reset = 0, 1, 3
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(180)
            client.connect(path)
            client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"") + frame(head, 4, 1, block) +
                           frame(data, 1, 1, b"\0\0\0\0\0"))
            answers = client.makefile("rb")
            kinds = []
            while not kinds or kinds[-1] not in (data, reset):
                start = answers.read(9)
                self.assertEqual(len(start), 9, "the plugin hung up")
                answers.read(int.from_bytes(start[:3], "big"))
                if int.from_bytes(start[5:], "big") == 1:
                    kinds.append(start[3])
        self.assertEqual(kinds, [head, data])


if __name__ == "__main__":
    unittest.main(verbosity=2)

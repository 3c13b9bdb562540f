#!/usr/bin/env python3
"""gpuman-kube-plugin and gpumand under a real kubelet with real containers, and what happens when one of these ends.

Usage: kubernetes_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import itertools
import os
import pathlib
import signal
import sys
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import enclosure  # noqa: E402
from case import KubernetesCase, load  # noqa: E402
from limits_test import LimitsTest  # noqa: E402, F401
from modes_test import ModesTest  # noqa: E402, F401
from node import GIB, GIB_EACH, WHOLE, KubeletNode, until  # noqa: E402


class KubernetesTest(KubernetesCase):
    # --- what a pod gets ---

    def test_a_pod_gets_its_part_of_a_gpu(self):
        self.start("one", 4, "sh", "-c", "env; ls -d $GPUMAN_SIM_DIR; exec gpuman-load --alloc 1GiB --verify --json")
        status, said = self.node.ended("one")
        self.assertEqual(status, 0, said)
        lines = said.splitlines()
        self.assertIn("GPUMAN_RESOURCE=" + GIB, lines)
        self.assertIn(f"GPUMAN_MEMORY={4 << 30}", lines)
        self.assertTrue(any(f"CUDA_VISIBLE_DEVICES={uuid}" in lines for uuid in self.node.uuids[:2]), said)
        self.assertIn(self.node.m.env["GPUMAN_SIM_DIR"], lines, "the directory that the configuration mounts")

    def test_a_whole_gpu_is_given_to_one_pod_alone(self):
        self.start("first", 1, "sh", "-c", "env; exec sleep 100000", resource=WHOLE)
        self.node.running("first")
        until("it has said what it has", lambda: f"CUDA_VISIBLE_DEVICES={self.node.uuids[2]}\n" in self.node.said_by("first"))
        self.is_refused("second", 1, 0, WHOLE)

    def test_parts_come_from_one_gpu_or_not_at_all(self):
        self.held("left", 5)
        self.held("right", 5)
        self.start("wide", 4, *load("1MiB"))
        self.assertIn("spread over 2 GPUs", self.node.refused("wide"))
        self.start("fits", 3, *load("1MiB"))
        self.assertEqual(self.node.ended("fits")[0], 0)

    def test_more_than_there_is_is_refused(self):
        self.is_refused("huge", 2 * GIB_EACH + 1, 2 * GIB_EACH)

    def test_the_plugin_runs_as_the_manifest_has_it(self):
        self.addCleanup(self.node.configure, self.node.config.read_text())
        self.node.stop_plugin()
        since = self.node.checkpoint()
        self.node.start_plugin_as_packaged()
        self.node.until_whole(since)
        self.start("one", 4, *load("1GiB"))
        self.assertEqual(self.node.ended("one")[0], 0)
        self.goes_on("plugin", self.node.running("plugin"))

    # --- things go and come back ---

    def test_a_gpu_that_is_ill_is_given_to_nobody_until_it_is_mended(self):
        pods = {name: self.held(name, 5) for name in ("left", "right")}
        self.addCleanup(self.inject, "clear", "--gpu", "1")
        self.inject("lost", "--gpu", "1")
        until("its parts are withdrawn", lambda: len(self.node.allocatable(GIB)) == GIB_EACH)
        self.assertEqual({part.partition("::")[0] for part in self.node.allocatable(GIB)}, {self.node.uuids[0]})
        self.is_refused("late", 5, 3)
        for name, container in pods.items():
            self.goes_on(name, container)
        self.inject("clear", "--gpu", "1")
        self.node.until_whole()

    def test_without_gpumand_nothing_is_given_out_and_pods_go_on(self):
        container = self.held("pod", 4)
        self.node.m.stop_daemon(signal.SIGKILL)
        try:
            # Of two lists at once kubelet may record the older (until_whole); both begin with an empty list.
            until("all is withdrawn", lambda: not self.node.allocatable(GIB) or not self.node.allocatable(WHOLE))
            self.start("late", 1, "true")
            self.assertIn("UnexpectedAdmissionError", self.node.refused("late"))
            self.goes_on("pod", container)
        finally:
            self.node.m.start_daemon()
        self.node.until_whole()
        self.goes_on("pod", container)

    def test_without_the_plugin_nothing_is_given_out_and_pods_go_on(self):
        container = self.held("pod", 4)
        for how in (signal.SIGTERM, signal.SIGKILL):
            self.node.stop_plugin(how)
            since = self.node.checkpoint()
            self.is_refused("late", 1, 0)
            self.node.remove("late")
            self.node.start_plugin()
            self.node.until_whole(since)
            self.goes_on("pod", container)

    def test_a_pod_keeps_its_gpu_over_a_restart_of_kubelet(self):
        self.held("pod", 6)
        for kill in (False, True):
            self.restart_kubelet(kill)
            self.start("late", 7, *load("1MiB"))
            self.assertEqual(self.node.ended("late")[0], 0, "the other GPU is free")
            self.node.remove("late")
            self.is_refused("late", 11, 10)
            self.node.remove("late")

    def restart_kubelet(self, kill):
        since = self.node.checkpoint()
        self.node.stop_kubelet(kill)
        self.node.start_kubelet()
        self.node.until_whole(since)

    def test_all_are_killed_and_started_in_any_order(self):
        container, parts = self.held("pod", 4), self.node.parts()
        for order in itertools.permutations(parts):
            with self.subTest(order=order):
                since = self.node.checkpoint()
                for part in order:
                    parts[part][0]()
                for part in order:
                    parts[part][1]()
                self.node.until_whole(since)
                self.goes_on("pod", container)
        self.start("late", 4, *load("1MiB"))
        self.assertEqual(self.node.ended("late")[0], 0)

    def test_kubelet_has_the_devices_soon_after_it_begins_anew(self):
        """Measures and prints, without a bar: from kubelet's socket until kubelet can allocate all devices."""
        took = []
        for _ in range(5):
            since, socket = self.node.checkpoint(), self.node.socket()
            self.node.stop_kubelet()
            self.node.start_kubelet(wait=False)
            until("its socket is there", lambda socket=socket: self.node.socket() not in (None, socket))
            began = time.monotonic()
            self.node.until_whole(since)
            took.append(time.monotonic() - began)
            until("kubelet answers", lambda: self.node.pods() is not None)
        print(f"from kubelet's socket to all devices: median {sorted(took)[2]:.3f} s, longest {max(took):.3f} s", file=sys.stderr)


if __name__ == "__main__":
    if enclosure.MARK not in os.environ:
        if reason := enclosure.unfit():
            sys.exit(f"kubernetes_test.py: {reason}")
        sys.exit(enclosure.run(pathlib.Path(__file__).resolve(), sys.argv[1:]))
    enclosure.furnish()
    KubernetesCase.node = KubeletNode(os.environ["GPUMAN_KUBELET"])
    try:
        KubernetesCase.node.begin()
        done = unittest.main(verbosity=2, exit=False)
    finally:
        KubernetesCase.node.end()
    sys.exit(not done.result.wasSuccessful())

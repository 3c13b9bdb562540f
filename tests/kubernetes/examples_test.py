#!/usr/bin/env python3
"""The pods of the examples get what the examples say, with every resource of the packaged configuration.

Usage: examples_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import os
import pathlib
import re
import sys
import unittest

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
import machine  # noqa: E402
from kube_node import Node  # noqa: E402

HERE = machine.ROOT / "packaging" / "kubernetes"
GIB = 1 << 30


class ExamplesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.m = machine.Machine(profile="h200", gpus=6, memory="80GiB", config='[health]\nkernel_log = ""\n')
        cls.addClassCleanup(cls.m.__exit__)
        cls.m.__enter__()
        cls.uuids = [gpu["uuid"] for gpu in cls.m.api("GET", "/v1/gpus")["gpus"]]
        switched_on = re.sub(r"(?m)^# (?=\[\[|[a-z]+ = )", "", (HERE / "kube-plugin.toml").read_text())
        cls.node = Node(cls.m, switched_on)
        cls.addClassCleanup(cls.node.close)
        cls.node.start_kubelet()
        cls.node.start_plugin()

    def given(self, example):
        """The environment that the example's container gets."""
        container, = yaml.safe_load((HERE / "examples" / f"{example}.yaml").read_text())["spec"]["containers"]
        (resource, count), = container["resources"]["limits"].items()
        free = self.node.kubelet.devices(resource, lambda line: len(line["healthy"]) >= count)["healthy"]
        wish = self.node.kubelet.ask("prefer", resource, count, *free)["ids"]
        granted = self.node.kubelet.ask("allocate", resource, *wish)
        self.assertEqual(granted["event"], "granted", granted)
        self.assertEqual(granted["environment"]["GPUMAN_RESOURCE"], resource)
        return granted["environment"]

    def test_a_whole_gpu_is_one_that_nothing_else_names(self):
        environment = self.given("whole")
        self.assertIn(environment["CUDA_VISIBLE_DEVICES"], self.uuids[4:])
        self.assertNotIn("GPUMAN_MEMORY", environment)

    def test_memory_is_a_part_of_one_gpu(self):
        environment = self.given("memory")
        self.assertIn(environment["CUDA_VISIBLE_DEVICES"], self.uuids[:2])
        self.assertEqual(environment["GPUMAN_MEMORY"], str(20 * GIB))

    def test_a_slice_is_a_part_of_one_size(self):
        environment = self.given("slice")
        self.assertEqual((environment["CUDA_VISIBLE_DEVICES"], environment["GPUMAN_MEMORY"]), (self.uuids[2], str(20 * GIB)))

    def test_a_turn_is_all_of_a_gpu(self):
        environment = self.given("shared")
        self.assertEqual((environment["CUDA_VISIBLE_DEVICES"], environment["GPUMAN_SHIM_EVICTABLE"]), (self.uuids[3], "1"))
        self.assertNotIn("GPUMAN_MEMORY", environment)

    @unittest.skipIf(os.geteuid() != 0, "the driver shows and changes instances for root alone")
    def test_an_instance_comes_of_the_command_that_the_example_names(self):
        said = (HERE / "examples" / "mig.yaml").read_text()
        words = re.search(r"gpuman (mig apply --gpu) N (\w+\.\w+)", said)
        done = self.m.run(*words.group(1).split(), "5", words.group(2))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(self.given("mig")["CUDA_VISIBLE_DEVICES"].startswith("MIG-"))


if __name__ == "__main__":
    unittest.main(verbosity=2)

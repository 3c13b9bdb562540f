#!/usr/bin/env python3
"""The manifests, the chart's values and the pages of Kubernetes agree with each other and with the plugin.

Usage: manifests_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
import machine  # noqa: E402

HERE = machine.ROOT / "packaging" / "kubernetes"
DEFAULT = (HERE / "kube-plugin.toml").read_text()
# Every example in it switched on.
EVERYTHING = re.sub(r"(?m)^# (?=\[\[|[a-z]+ = )", "", DEFAULT)


class ManifestsTest(unittest.TestCase):
    def accepts(self, text):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write(text)
            file.flush()
            done = subprocess.run([machine.program("gpuman-kube-plugin"), "--check-config", "--config", file.name],
                                  capture_output=True, text=True, timeout=180)
        self.assertEqual((done.returncode, done.stderr), (0, ""), text)

    def test_the_plugin_takes_every_configuration_that_is_shown(self):
        self.accepts(DEFAULT)
        self.assertEqual(EVERYTHING.count("\n[[resource]]"), 5)
        self.accepts(EVERYTHING)
        self.accepts(yaml.safe_load((HERE / "helm" / "values.yaml").read_text())["config"])
        for block in re.findall(r"(?ms)^```toml\n(.*?)^```", (machine.ROOT / "docs" / "kubernetes.md").read_text()):
            self.accepts(block)

    def test_each_example_asks_for_a_resource_that_the_configuration_shows(self):
        shown = set(re.findall(r'(?m)^name = "(.+?)"', EVERYTHING))
        asked = set()
        for path in (HERE / "examples").glob("*.yaml"):
            for container in yaml.safe_load(path.read_text())["spec"]["containers"]:
                asked |= set(container["resources"]["limits"])
        self.assertEqual(asked, shown)

    def test_what_is_named_is_there(self):
        kustomization = yaml.safe_load((HERE / "kustomization.yaml").read_text())
        files = kustomization["resources"] + [name for one in kustomization["configMapGenerator"] for name in one["files"]]
        for name in files:
            self.assertTrue((HERE / name).exists(), name)
        made = {"ConfigMap": {one["name"] for one in kustomization["configMapGenerator"]}}
        for name in kustomization["resources"]:
            document = yaml.safe_load((HERE / name).read_text())
            made.setdefault(document["kind"], set()).add(document["metadata"]["name"])
        pod = yaml.safe_load((HERE / "daemonset.yaml").read_text())["spec"]["template"]["spec"]
        self.assertIn(pod["serviceAccountName"], made["ServiceAccount"])
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        self.assertIn(volumes["config"]["configMap"]["name"], made["ConfigMap"])
        for mount in pod["containers"][0]["volumeMounts"]:
            self.assertIn(mount["name"], volumes)

    def test_the_plugin_sees_kubelet_and_gpumand_where_its_configuration_has_them(self):
        container = yaml.safe_load((HERE / "daemonset.yaml").read_text())["spec"]["template"]["spec"]["containers"][0]
        mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
        socket = re.search(r'socket = "(.+)"', DEFAULT).group(1)
        self.assertIn(str(pathlib.PurePath(socket).parent), mounted)
        self.assertIn("/var/lib/kubelet/device-plugins", mounted)
        self.assertIn("/var/lib/kubelet/pod-resources", mounted)
        config = container["args"][container["args"].index("--config") + 1]
        self.assertIn(str(pathlib.PurePath(config).parent), mounted)

    def test_the_plugin_has_no_rights_that_it_does_not_need(self):
        pod = yaml.safe_load((HERE / "daemonset.yaml").read_text())["spec"]["template"]["spec"]
        security = pod["containers"][0]["securityContext"]
        self.assertEqual(security["capabilities"], {"drop": ["ALL"]})
        self.assertTrue(security["readOnlyRootFilesystem"])
        self.assertFalse(security["allowPrivilegeEscalation"])
        self.assertFalse(pod["automountServiceAccountToken"])
        self.assertFalse({"hostNetwork", "hostPID", "hostIPC"} & set(pod))


if __name__ == "__main__":
    unittest.main(verbosity=2)

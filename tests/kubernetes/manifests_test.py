#!/usr/bin/env python3
"""The manifests, the chart, the image and the pages about Kubernetes agree with each other and with the plugin.

Usage: manifests_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import hashlib
import json
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
# The configuration with all of its examples enabled.
EVERYTHING = re.sub(r"(?m)^# (?=\[\[|[a-z]+ = )", "", DEFAULT)


def render(name, values, release):
    """Renders a template of the chart as helm does, for the part of helm's language that the chart uses; anything else
    fails."""
    filters = {"quote": json.dumps, "toJson": json.dumps, "sha256sum": lambda text: hashlib.sha256(text.encode()).hexdigest()}

    def value(path):
        found = {"Values": values, "Release": {"Name": release}}
        for key in path.lstrip(".").split("."):
            found = found[key]
        return found

    def expression(match):
        first, *then = match.group(1).split(" | ")
        words = first.split()
        result = json.loads(words[1]).replace("%v", "%s") % tuple(map(value, words[2:])) if words[0] == "printf" else value(first)
        for one in then:
            result = filters[one](result)
        return result

    text = (HERE / "helm" / "templates" / name).read_text()
    return yaml.safe_load(re.sub(r"\{\{ (.+?) \}\}", expression, text))


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

    def test_each_name_in_the_manifests_exists(self):
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

    def test_the_chart_makes_what_the_manifests_make(self):
        values = yaml.safe_load((HERE / "helm" / "values.yaml").read_text())
        kustomization = yaml.safe_load((HERE / "kustomization.yaml").read_text())
        manifest, chart = yaml.safe_load((HERE / "daemonset.yaml").read_text()), render("daemonset.yaml", values, "kube-plugin")
        image = {"image": "{name}:{newTag}".format(**kustomization["images"][0]), "imagePullPolicy": "IfNotPresent"}
        manifest["spec"]["template"]["spec"]["containers"][0].update(image)
        release = {"app.kubernetes.io/instance": "kube-plugin"}
        template = manifest["spec"]["template"]["metadata"]
        for labels in (manifest["metadata"]["labels"], manifest["spec"]["selector"]["matchLabels"], template["labels"]):
            labels.update(release)
        template["annotations"] = {"gpuman.io/config": hashlib.sha256(values["config"].encode()).hexdigest()}
        self.assertEqual(chart, manifest)
        self.assertEqual(render("serviceaccount.yaml", values, "kube-plugin"),
                         yaml.safe_load((HERE / "serviceaccount.yaml").read_text()))
        self.assertEqual(render("configmap.yaml", values, "kube-plugin")["data"], {"kube-plugin.toml": values["config"]})
        rendered = {"daemonset.yaml", "serviceaccount.yaml", "configmap.yaml"}
        self.assertEqual({path.name for path in (HERE / "helm" / "templates").iterdir()}, rendered)

    def test_every_value_of_the_chart_comes_to_be(self):
        values = {"image": {"repository": "registry/plugin", "tag": 7, "pullPolicy": "Always"}, "nodeSelector": {"a": "b"},
                  "tolerations": [{"operator": "Exists"}], "kubeletDirectory": "/k", "podResourcesDirectory": "/p",
                  "gpumandDirectory": "/g", "config": "# a\n"}
        self.assertEqual(set(values), set(yaml.safe_load((HERE / "helm" / "values.yaml").read_text())))
        schema = json.loads((HERE / "helm" / "values.schema.json").read_text())
        self.assertEqual(set(schema["properties"]), set(values) | {"global"}, "which helm itself adds")
        self.assertEqual(set(schema["properties"]["image"]["properties"]), set(values["image"]))
        pod = render("daemonset.yaml", values, "two")["spec"]["template"]["spec"]
        container = pod["containers"][0]
        self.assertEqual((container["image"], container["imagePullPolicy"]), ("registry/plugin:7", "Always"))
        self.assertEqual((pod["nodeSelector"], pod["tolerations"]), (values["nodeSelector"], values["tolerations"]))
        places = {volume["name"]: volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume}
        self.assertEqual(places, {"device-plugins": "/k", "pod-resources": "/p", "gpumand": "/g"})
        made = {render(name, values, "two")["metadata"]["name"] for name in ("configmap.yaml", "serviceaccount.yaml")}
        config = next(volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume)
        self.assertEqual({config, pod["serviceAccountName"]} | made, {"two"})

    def test_all_are_of_one_version(self):
        version = re.search(r"project\(gpuman VERSION (\S+)", (machine.ROOT / "CMakeLists.txt").read_text()).group(1)
        chart = yaml.safe_load((HERE / "helm" / "Chart.yaml").read_text())
        image = re.search(r"-t gpuman-kube-plugin:(\S+)", (HERE / "Containerfile").read_text()).group(1)
        values = yaml.safe_load((HERE / "helm" / "values.yaml").read_text())
        tag = yaml.safe_load((HERE / "kustomization.yaml").read_text())["images"][0]["newTag"]
        self.assertEqual({chart["version"], chart["appVersion"], image, values["image"]["tag"], tag}, {version})

    def test_the_image_has_the_libraries_that_the_plugin_is_linked_with(self):
        """Compares the names of libraries and their packages, which begin the same. Libraries of the base system are
        skipped."""
        dynamic = subprocess.run(["readelf", "--dynamic", machine.program("gpuman-kube-plugin")], capture_output=True, text=True,
                                 check=True).stdout
        needed = {name.partition(".so")[0] for name in re.findall(r"\(NEEDED\).*\[(.+?)\]", dynamic)}
        installed = re.findall(r"install -y --no-install-recommends (lib.+?) \\", (HERE / "Containerfile").read_text())[0].split()
        for library in needed - {"libc", "libm", "libstdc++", "libgcc_s", "ld-linux-x86-64", "ld-linux-aarch64"}:
            self.assertTrue([package for package in installed if package.startswith(library)], library)

    def test_the_image_is_built_from_folders_that_are_there(self):
        copied = re.findall(r"(?m)^COPY (?!--from)(\S+) (\S+)$", (HERE / "Containerfile").read_text())
        known = re.findall(r"(?m)^(?:  )?add_subdirectory\((\w+)", (machine.ROOT / "CMakeLists.txt").read_text())
        folders = {source for source, _ in copied if (machine.ROOT / source).is_dir()}
        self.assertEqual(folders, set(known) - {"tests", "bench"} | {"cmake"})
        for source, target in copied:
            self.assertTrue((machine.ROOT / source).exists(), source)
            self.assertIn(target, (source, "./"))

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

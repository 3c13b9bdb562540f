#!/usr/bin/env python3
"""The workflows and templates of .github: they can be read, run the whole check as root, and test the packages that are
released. Steps are run here beside programs that only say how they were called."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import yaml

TREE = pathlib.Path(__file__).resolve().parent.parent
WORKFLOWS = {path.stem: yaml.safe_load(path.read_text()) for path in sorted((TREE / ".github/workflows").glob("*.yml"))}
EXPRESSION = re.compile(r"\$\{\{ *([\w.]+) *\}\}")

# As sudo of the runners' image: nothing of the caller's environment comes through.
SUDO = """#!/bin/sh
home=$HOME
if [ "$1" = --set-home ]; then home=/root; shift; fi
exec env -i PATH="$PATH" HOME="$home" AS=root "$@"
"""
SAYS = """#!/bin/sh
echo "${AS:-user} HOME=$HOME CCACHE_DIR=$CCACHE_DIR $(basename "$0") $*"
"""


def steps(workflow, job):
    """What the steps of a job run, in their order."""
    return [step for step in WORKFLOWS[workflow]["jobs"][job]["steps"] if "run" in step]


def commands(workflow, job):
    return [step["run"] for step in steps(workflow, job)]


class WorkflowsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name)
        self.program("bin/sudo", SUDO)

    def program(self, name, text):
        path = self.tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def call(self, command, **variables):
        """Runs a step's command as the runner's user does."""
        environment = {"PATH": "%s:%s" % (self.tree / "bin", os.environ["PATH"]), "HOME": "/home/runner", **variables}
        done = subprocess.run(["bash", "-e", "-c", command], cwd=self.tree, env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def test_there_are_both_and_each_job_has_a_limit_of_time(self):
        self.assertEqual(sorted(WORKFLOWS), ["check", "release"])
        for workflow in WORKFLOWS.values():
            for name, job in workflow["jobs"].items():
                self.assertTrue("timeout-minutes" in job or name == "release", name)

    def test_what_a_job_needs_is_a_job(self):
        for workflow in WORKFLOWS.values():
            for job in workflow["jobs"].values():
                self.assertIn(job.get("needs", next(iter(workflow["jobs"]))), workflow["jobs"])

    def test_the_check_is_run_by_root_with_the_cache_that_is_kept(self):
        self.program(".ci/run", SAYS)
        kept = next(step["with"]["path"] for step in WORKFLOWS["check"]["jobs"]["test"]["steps"]
                    if step.get("uses", "").startswith("actions/cache@")).replace("~", "/home/runner")
        check = [one for one in commands("check", "test") if ".ci/run" in one]
        self.assertEqual([self.call(one) for one in check],
                         ["root HOME=/root CCACHE_DIR=%s run --kubernetes-if-built\n" % kept])
        check = [one for one in commands("release", "test") if ".ci/run" in one]
        self.assertEqual([self.call(one) for one in check], ["root HOME=/root CCACHE_DIR= run --kubernetes-if-built\n"])

    def test_what_root_wrote_is_given_back_also_after_a_failure(self):
        self.program("bin/chown", SAYS)
        all_steps = WORKFLOWS["check"]["jobs"]["test"]["steps"]
        given = next(number for number, step in enumerate(all_steps) if "chown" in step.get("run", ""))
        self.assertEqual(all_steps[given]["if"], "always()")
        self.assertIn("chown -R %d build /home/runner/.cache/ccache" % os.getuid(), self.call(all_steps[given]["run"]))
        self.assertLess(next(number for number, step in enumerate(all_steps) if ".ci/run" in step.get("run", "")), given)
        self.assertGreater(next(number for number, step in enumerate(all_steps) if "upload" in step.get("uses", "")), given)

    def test_packages_are_tested_on_the_system_that_they_were_built_on(self):
        suites = {"debian:12": "bookworm", "ubuntu:24.04": "noble"}
        of_release = WORKFLOWS["release"]["jobs"]["packages"]["strategy"]["matrix"]["include"]
        self.assertEqual({one["image"]: one["suite"] for one in of_release}, suites)
        for workflow, suite in ("check", "bookworm"), ("release", "${{ matrix.suite }}"):
            job = WORKFLOWS[workflow]["jobs"]["packages"]
            self.assertEqual(suites.get(job["container"]["image"], "${{ matrix.suite }}"), suite)
            self.assertIn("--privileged", job["container"]["options"])
            ordered = [one for one in commands(workflow, "packages") if "./dev package" in one or "deb_test" in one]
            self.assertEqual(ordered, ["./dev package", "packaging/test/deb_test.sh " + suite])
        for step in steps("release", "packages"):
            if "package" in step["run"].split()[0] or "./dev" in step["run"]:
                self.assertEqual(sorted(step["env"]), ["GPUMAN_HOMEPAGE", "GPUMAN_MAINTAINER"], step)

    def test_each_package_with_what_is_beside_it_becomes_part_of_the_release(self):
        folder = self.tree / "build/package/packages"
        (folder / "_CPack_Packages").mkdir(parents=True)
        made = ["gpuman_1-1.cdx.json", "gpuman_1-1_amd64.deb", "gpuman-dbgsym_1-1_amd64.ddeb", "gpuman-sim_1-1_amd64.deb"]
        for name in made:
            (folder / name).touch()
        output = self.tree / "output"
        for step in steps("release", "packages"):
            if "debian" in step["run"] or "steps.name" in step["run"] or "matrix.image" in step["run"]:
                values = {"matrix.image": "debian:12", "steps.name.outputs.name": "debian-12"}
                self.call(EXPRESSION.sub(lambda found: values[found.group(1)], step["run"]), GITHUB_OUTPUT=str(output))
        self.assertEqual(output.read_text(), "name=debian-12\n")
        listed = self.call("tar -tf debian-12.tar").split()
        self.assertEqual(sorted(listed), sorted(["debian-12/"] + ["debian-12/" + name for name in made]))

    def test_a_release_is_checked_before_anything_is_made(self):
        before = commands("release", "test")
        self.assertEqual(before[0], 'python3 tools/release_check.py "$GITHUB_REF_NAME"')
        self.assertEqual(sorted(steps("release", "test")[0]["env"]), ["GPUMAN_HOMEPAGE", "GPUMAN_MAINTAINER"])
        self.assertTrue(before[1].startswith("python3 tools/release_notes.py "))
        self.assertIn(".ci/run", before[2])
        self.assertEqual(WORKFLOWS["release"]["jobs"]["packages"]["needs"], "test")
        self.assertEqual(WORKFLOWS["release"]["jobs"]["release"]["needs"], "packages")

    def test_the_scripts_that_they_call_are_there(self):
        for workflow in WORKFLOWS:
            for job in WORKFLOWS[workflow]["jobs"]:
                for command in commands(workflow, job):
                    for name in re.findall(r"(?<![\w/])(?:\./dev|\.ci/run|(?:tools|packaging)/[\w/]+\.(?:py|sh))", command):
                        self.assertTrue(os.access(TREE / name, os.R_OK), name)


class TemplatesTest(unittest.TestCase):
    def test_who_opens_an_issue_is_told_where_holes_are_reported(self):
        templates = {path.stem: yaml.safe_load(path.read_text()) for path in (TREE / ".github/ISSUE_TEMPLATE").glob("*.yml")}
        link, = templates.pop("config")["contact_links"]
        self.assertRegex(link["url"], r"^https://[^ ]+/SECURITY\.md$")
        self.assertTrue((TREE / "SECURITY.md").exists())
        for field in "name", "about":
            self.assertTrue(link[field])
        for name, template in templates.items():
            self.assertTrue(template["name"] and template["description"] and template["body"], name)


if __name__ == "__main__":
    unittest.main()

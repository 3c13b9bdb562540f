#!/usr/bin/env python3
"""tools/release_check.py: no release of another version than its tag's, and none with placeholders."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import release_check  # noqa: E402

TREE = pathlib.Path(__file__).resolve().parent.parent
NAMED = {"GPUMAN_MAINTAINER": "Anna <anna@example.org>", "GPUMAN_HOMEPAGE": "https://example.org/"}


class ReleaseCheckTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name)
        self.write("CMakeLists.txt", "cmake_minimum_required(VERSION 3.25)\nproject(gpuman VERSION 1.2.3 LANGUAGES C CXX)\n")
        self.write("SECURITY.md", "# Security\n\nWrite to security@example.org.\n")

    def write(self, name, text):
        path = self.tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def check(self, tag, **variables):
        environment = {name: value for name, value in os.environ.items() if name not in NAMED}
        done = subprocess.run([sys.executable, "-B", release_check.__file__, tag, self.tree],
                              env={**environment, **NAMED, **variables}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done.returncode, done.stdout

    def test_a_tag_of_the_version_with_everything_filled_in_may_be_released(self):
        self.assertEqual(self.check("v1.2.3"), (0, ""))

    def test_another_version_may_not(self):
        for tag in "v1.2.4", "1.2.3", "v1.2.3-rc1", "v1.2":
            status, said = self.check(tag)
            self.assertEqual(status, 1, tag)
            self.assertIn("the tag is %s, and CMakeLists.txt has the version 1.2.3" % tag, said)

    def test_a_placeholder_may_not_and_is_named(self):
        self.write("SECURITY.md", "# Security\n\nWrite to `FILL-IN-SECURITY-ADDRESS` (whoever\n")
        self.write(".github/ISSUE_TEMPLATE/config.yml", "url: https://github.com/FILL-IN-OWNER/gpuman\n")
        self.write("docs/a/b.md", "https://fill-in-gpuman-homepage.invalid/\n")
        self.write("src/gbatch.cc", '"Create a script to fill in", FILL IN\n')
        status, said = self.check("v1.2.3")
        self.assertEqual(status, 1)
        self.assertEqual([line.split(": ", 1)[1] for line in said.splitlines()],
                         [".github/ISSUE_TEMPLATE/config.yml:1: FILL-IN-OWNER is to be filled in",
                          "SECURITY.md:3: FILL-IN-SECURITY-ADDRESS is to be filled in",
                          "docs/a/b.md:1: fill-in-gpuman-homepage.invalid is to be filled in"])

    def test_the_packages_are_somebodys(self):
        for name, value in ("GPUMAN_MAINTAINER", ""), ("GPUMAN_HOMEPAGE", " "), ("GPUMAN_MAINTAINER", "FILL IN <a@b>"):
            status, said = self.check("v1.2.3", **{name: value})
            self.assertEqual((status, said), (1, "release_check.py: %s is not given: the packages would have a placeholder\n" % name))

    def test_the_placeholders_of_the_packages_own_file_are_known_as_such(self):
        text = (TREE / release_check.DEFAULTS).read_text()
        self.assertEqual(len(release_check.PLACEHOLDER.findall(text)), 3)
        self.assertNotIn(release_check.DEFAULTS, "".join(release_check.unfilled(TREE)))

    def test_the_changelog_has_the_version_of_the_project(self):
        self.assertIn("\n## %s, " % release_check.version_of(TREE), (TREE / "CHANGELOG.md").read_text())


if __name__ == "__main__":
    unittest.main()

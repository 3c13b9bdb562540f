#!/usr/bin/env python3
"""What the packages of a folder say of themselves, and that what debuggers need lies beside them.

Usage: packages_test.py [FOLDER]      default: build/package/packages, of ./dev package, which runs this
GPUMAN_MAINTAINER, GPUMAN_HOMEPAGE: what they were made with, as for ./dev package. Needs dpkg and binutils.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "build/package/packages"
NAMES = ["gpuman", "gpuman-kubernetes", "gpuman-sim", "gpuman-slurm"]


def said_by(*command):
    # readelf complains of what symbols alone do not have.
    return subprocess.run(list(map(str, command)), check=True, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL).stdout


def is_elf(path):
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def fields(package):
    """The control fields of a package. Lines that belong to the field before them are joined to it."""
    text = re.sub(r"\n +", " ", said_by("dpkg-deb", "-f", package))
    return {name: value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}


def build_ids(folder):
    """Path -> the build id of each program and library below the folder; None where it has none."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and is_elf(path):
            notes = re.search(r"Build ID: ([0-9a-f]+)", said_by("readelf", "--notes", path))
            found[path] = notes.group(1) if notes else None
    return found


class PackagesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.packages = {path.name.split("_")[0]: path for pattern in ("*.deb", "*.ddeb") for path in FOLDER.glob(pattern)}
        cls.fields = {name: fields(path) for name, path in cls.packages.items()}
        cls.trees = {name: pathlib.Path(folder.name, name) for name in cls.packages}
        for name, path in cls.packages.items():
            said_by("dpkg-deb", "-x", path, cls.trees[name])

    def test_all_packages_have_one_version_and_debug_symbols(self):
        self.assertEqual(sorted(self.packages), sorted(NAMES + [name + "-dbgsym" for name in NAMES]))
        self.assertEqual(len({said["Version"] for said in self.fields.values()}), 1)

    def test_packages_name_maintainer_and_homepage(self):
        maintainer, homepage = os.environ.get("GPUMAN_MAINTAINER"), os.environ.get("GPUMAN_HOMEPAGE")
        for name, said in self.fields.items():
            with self.subTest(name):
                self.assertRegex(said["Maintainer"], r"^\S.* <\S+@\S+>$")
                if maintainer:
                    self.assertEqual(said["Maintainer"], maintainer)
                if name in NAMES:  # CPack gives none to those of debug symbols
                    self.assertRegex(said["Homepage"], r"^https?://\S+$")
                    if homepage:
                        self.assertEqual(said["Homepage"], homepage)

    def test_slurm_and_kubernetes_packages_name_their_dependencies(self):
        of_gpuman = "gpuman (= %s)" % self.fields["gpuman"]["Version"]
        for name in "gpuman-slurm", "gpuman-kubernetes":
            said = self.fields[name]
            self.assertEqual(said["Recommends"], of_gpuman, name)
            self.assertRegex(said["Depends"], r"(^|, )libc6 \(>=", name)
        self.assertIn("slurm-client | slurmd | slurm-smd-client | slurm-smd-slurmd", self.fields["gpuman-slurm"]["Depends"])
        self.assertRegex(self.fields["gpuman-slurm"]["Description"], r"It fits Slurm \d+\.\d+, which refuses it else")
        for needed in "libnghttp2", "libprotobuf":
            self.assertRegex(self.fields["gpuman-kubernetes"]["Depends"], r"(^|, )%s" % needed)
        for needed in "kubelet 1.20 or newer", "NVIDIA's driver", "container toolkit", "need gpumand on the node":
            self.assertIn(needed, self.fields["gpuman-kubernetes"]["Description"])

    def test_programs_are_stripped_and_their_debug_symbols_are_found_by_build_id(self):
        for name in NAMES:
            programs = build_ids(self.trees[name])
            self.assertTrue(programs, name)
            for path, build_id in programs.items():
                with self.subTest(path.relative_to(self.trees[name])):
                    self.assertIsNotNone(build_id)
                    self.assertNotIn(".debug_info", said_by("readelf", "--sections", "--wide", path))
                    symbols = self.trees[name + "-dbgsym"] / "usr/lib/debug/.build-id" / build_id[:2] / (build_id[2:] + ".debug")
                    self.assertIn(".debug_info", said_by("readelf", "--sections", "--wide", symbols))

    def test_debug_symbols_need_the_package_that_they_are_of(self):
        for name in NAMES:
            said = self.fields[name + "-dbgsym"]
            self.assertEqual(said["Depends"], "%s (= %s)" % (name, said["Version"]))


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        FOLDER = pathlib.Path(sys.argv.pop(1))
    unittest.main()

#!/usr/bin/env python3
"""Links of the documents that are installed (packaging/documents.cmake) lead somewhere, and sources that they name exist.

Usage: documents_test.py CMAKE
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PACKAGING = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(PACKAGING.parent / "tools"))
import check_layers  # noqa: E402

CMAKE = "cmake"
PROJECT = """cmake_minimum_required(VERSION 3.25)
project(documents LANGUAGES NONE)
set(CMAKE_INSTALL_DOCDIR share/doc/gpuman)
include("%s/documents.cmake")
"""
# What deb/package.cmake puts beside, for each package.
OF_DEBIAN = ("copyright", "changelog.gz")


def dangling(folder):
    """The links of the folder's pages to files that are not there, as "PAGE: LINK"."""
    found = []
    for page in sorted(folder.rglob("*.md")):
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for link in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text):
            if not (page.parent / link).exists():
                found.append("%s: %s" % (page.relative_to(folder), link))
    return found


def unknown_sources(page, tree):
    """The sources that the page names and the tree does not have, by folder and name or by name."""
    known = {path.relative_to(tree).as_posix() for folder in ("apps", "bench", "plugins", "sim", "src", "tests", "tools")
             for path in (tree / folder).rglob("*")}
    names = {path.rsplit("/", 1)[-1] for path in known}
    said = re.findall(r"`([\w./-]+\.(?:cc|h|py|S))`", page.read_text())
    # NAME_test.cc stands for any such name.
    return [one for one in said if "NAME" not in one and one not in (known if "/" in one else names)]


# Headers of others that comments name.
FOREIGN = ("linux/", "cpython/", "internal/pycore", "cudaTypedefs.h", "cuda.h", "nvml.h", "slurm.h", "spank.h")
EXAMPLES = ("tensor.cc",)  # a name in a trace


def unknown_in_comments(tree):
    """The C++ sources that comments of C++ sources name and the tree does not have, as "FILE:LINE: NAME"."""
    sources = [path for folder in ("apps", "bench", "plugins", "sim", "src", "tests") for path in (tree / folder).rglob("*")
               if path.suffix in (".h", ".cc")]
    known = {"/" + path.relative_to(tree).as_posix() for path in sources}
    ends = {path[at:] for path in known for at in range(len(path)) if path[at] == "/"}
    found = []
    for path in sources:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            code, sign, comment = line.partition("//")
            if not sign or '"' in code:
                continue
            for name in re.findall(r"(?<![\w<./*-])([a-z][\w/]*\.(?:h|cc))\b", comment):
                if "/" + name not in ends and not name.startswith(FOREIGN) and name not in EXAMPLES:
                    found.append(f"{path.relative_to(tree)}:{number}: {name}")
    return sorted(found)


def without_code(text):
    """The text with its blocks and pieces of code left out, which are as wide as what they show."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^[ ]*```.*?^[ ]*```", "", text, flags=re.MULTILINE | re.DOTALL))


def too_wide(page, columns=120):
    return [line for line in without_code(page.read_text()).splitlines() if len(line) > columns]


def daemon_folders(page):
    """The folders in the page's table of src/daemon, in its order; a row may have several."""
    table = page.read_text().split("| folder | what |\n", 1)[1].split("\n\n", 1)[0]
    return [name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])]


class DocumentsTest(unittest.TestCase):
    def test_pages_are_at_most_120_columns_wide(self):
        tree = PACKAGING.parent
        pages = [tree / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]
        pages += [page for folder in ("docs", "tests", ".github") for page in (tree / folder).rglob("*.md")]
        pages += [tree / "docs/api/openapi.yaml", tree / "packaging/gpumand.toml"]
        self.assertGreater(len(pages), 40)
        self.assertEqual({page.name: lines for page in pages if (lines := too_wide(page))}, {})

    def test_a_line_that_is_too_wide_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder, "page.md")
            page.write_text("%s\n```\n%s\n```\n%s\n" % ("a " * 60, "b" * 200, "c " * 61))
            self.assertEqual(too_wide(page), ["c " * 61])

    def test_sources_named_in_comments_exist(self):
        self.assertEqual(unknown_in_comments(PACKAGING.parent), [])

    def test_sources_named_in_documents_exist(self):
        tree = PACKAGING.parent
        for page in ("walks.md", "glossary.md", "architecture.md"):
            self.assertEqual(unknown_sources(tree / "docs" / page, tree), [], page)

    def test_the_folders_of_the_daemon_are_on_their_page_in_order(self):
        page = PACKAGING.parent / "docs/architecture.md"
        self.assertEqual(daemon_folders(page), list(check_layers.DAEMON))

    def test_each_attempt_of_the_hostile_suite_is_named_on_its_page(self):
        tree = PACKAGING.parent
        said = re.findall(r"\b(\w+_\w+)(…?)", (tree / "docs/hostile-users.md").read_text())
        names = [name for file in (tree / "tests/hostile").glob("*_test.py")
                 for name in re.findall(r"def test_(\w+)", file.read_text())]
        self.assertGreater(len(names), 50)
        self.assertEqual([name for name in names if not any(
            name == one or more and len(one) > 5 and name.startswith(one) for one, more in said)], [])

    def test_each_class_of_a_file_of_tests_that_is_run_in_parts_is_in_one(self):
        folder = PACKAGING.parent / "tests/integration"
        parts = re.findall(r"daemon_test\((\w+) (\w+)((?: \w+)*)\)", (folder / "CMakeLists.txt").read_text())
        run = {subject: set() for _, subject, classes in parts if classes}
        for _, subject, classes in parts:
            if classes:
                run[subject] |= set(classes.split())
        self.assertGreaterEqual(len(run), 2)
        for subject, classes in run.items():
            bodies = re.split(r"^class (\w+)\b.*$", (folder / f"{subject}_test.py").read_text(), flags=re.MULTILINE)[1:]
            has_tests = {name for name, body in zip(bodies[::2], bodies[1::2]) if re.search(r"^    def test_", body, re.MULTILINE)}
            self.assertEqual(has_tests - classes, set(), subject)

    def test_a_source_that_is_not_there_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            tree = pathlib.Path(folder)
            (tree / "src/queue").mkdir(parents=True)
            (tree / "src/queue/pass.h").touch()
            page = tree / "page.md"
            page.write_text("`src/queue/pass.h`, `pass.h`, `pass.cc`, `src/pass.h`, `src/queue`\n")
            self.assertEqual(unknown_sources(page, tree), ["pass.cc", "src/pass.h"])

    def install(self, prefix):
        """The folder of documents, installed below a directory of the test's own."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        source = pathlib.Path(folder.name, "source")
        source.mkdir()
        (source / "CMakeLists.txt").write_text(PROJECT % PACKAGING)
        build, root = source / "build", pathlib.Path(folder.name, "root")
        for command in ([CMAKE, "-S", source, "-B", build, "-G", "Ninja", "-DCMAKE_INSTALL_PREFIX=" + prefix],
                        ["env", "DESTDIR=%s" % root, CMAKE, "--install", build]):
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.assertEqual(done.returncode, 0, done.stdout)
        return root / prefix.lstrip("/") / "share/doc/gpuman"

    def test_links_in_the_package_lead_to_files(self):
        documents = self.install("/usr")
        for name in OF_DEBIAN:
            (documents / name).touch()
        self.assertEqual(dangling(documents), [])
        # Debian has these under other names.
        self.assertFalse((documents / "LICENSE").exists())
        self.assertFalse((documents / "CHANGELOG.md").exists())
        self.assertIn("(changelog.gz)", (documents / "README.md").read_text())

    def test_readme_in_the_package_differs_only_in_debian_file_names(self):
        text = (self.install("/usr") / "README.md").read_text()
        of_the_tree = (PACKAGING.parent / "README.md").read_text()
        self.assertEqual(text, of_the_tree.replace("(CHANGELOG.md)", "(changelog.gz)").replace("(LICENSE)", "(copyright)"))

    def test_links_installed_outside_usr_lead_to_files(self):
        documents = self.install("/usr/local")
        self.assertEqual(dangling(documents), [])
        self.assertEqual((documents / "README.md").read_text(), (PACKAGING.parent / "README.md").read_text())

    def test_start_pages_link_to_security_page(self):
        for name, link in ("README.md", "SECURITY.md"), ("CONTRIBUTING.md", "SECURITY.md"), ("docs/README.md", "../SECURITY.md"):
            self.assertIn("](%s)" % link, (PACKAGING.parent / name).read_text(), name)

    def test_a_link_to_nothing_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder, "page.md")
            page.write_text("[here](page.md#part) [there](gone.md) [web](https://example.org)\n")
            self.assertEqual(dangling(pathlib.Path(folder)), ["page.md: gone.md"])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        CMAKE = sys.argv.pop(1)
    unittest.main()

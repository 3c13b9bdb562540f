#!/usr/bin/env python3
"""./dev lint compares with the right revision and says so: tools/dev/lint_scope.sh in small repositories."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent / "dev" / "lint_scope.sh"
ENVIRONMENT = dict(os.environ, GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_SYSTEM="/dev/null", GIT_AUTHOR_NAME="a",
                   GIT_AUTHOR_EMAIL="a@b", GIT_COMMITTER_NAME="a", GIT_COMMITTER_EMAIL="a@b")


class LintScopeTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.origin = pathlib.Path(self.folder.name, "origin")
        self.origin.mkdir()
        self.git(self.origin, "init", "-q", "-b", "main")
        self.commit(self.origin, "a.cc", "First words")
        self.clone = pathlib.Path(self.folder.name, "clone")
        self.git(self.folder.name, "clone", "-q", self.origin, self.clone)

    def git(self, where, *arguments):
        done = subprocess.run(["git", "-C", where, *map(str, arguments)], env=ENVIRONMENT, check=True, text=True,
                              stdout=subprocess.PIPE)
        return done.stdout.strip()

    def commit(self, where, name, subject):
        (where / name).write_text(subject)
        self.git(where, "add", name)
        self.git(where, "commit", "-q", "-m", subject)

    def scope(self, where, since="", all_files="no"):
        """What lint.sh does with the functions: the files, and the line that it prints."""
        script = """set -euo pipefail
            . "$1"
            base=
            if [ "$3" = no ]; then base=$(lint_base "$2") || exit 1; fi
            mapfile -t sources < <(lint_changed "$base" '*.cc')
            printf '%s\\n' "${sources[*]}"
            lint_scope "$3" "$base" ${#sources[@]} "$(tracked '*.cc' | wc -l)" """
        done = subprocess.run(["bash", "-c", script, "bash", SCRIPT, since, all_files], cwd=where, env=ENVIRONMENT,
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return done.stdout.splitlines() if done.returncode == 0 else None

    def test_a_fresh_clone_says_what_it_compared_with_and_what_else_there_is(self):
        revision = self.git(self.origin, "rev-parse", "--short", "HEAD")
        files, line = self.scope(self.clone)
        self.assertEqual(files, "")
        self.assertIn('0 of 1 sources: those that differ from %s "First words"' % revision, line)
        self.assertIn("./dev lint --all", line)

    def test_commits_changes_and_new_files_are_looked_at(self):
        self.commit(self.clone, "b.cc", "More")
        (self.clone / "a.cc").write_text("changed")
        (self.clone / "c.cc").write_text("not added")
        (self.clone / "d.h").write_text("no source")
        files, line = self.scope(self.clone)
        self.assertEqual(files, "a.cc b.cc c.cc")
        self.assertIn("3 of 3 sources: those that differ from", line)
        self.assertNotIn("--all", line)

    def test_with_nothing_to_compare_with_it_is_all_and_says_why(self):
        files, line = self.scope(self.origin)
        self.assertEqual(files, "a.cc")
        self.assertIn("1 of 1 sources, all: there is no upstream branch", line)

    def test_a_revision_may_be_asked_for(self):
        self.commit(self.clone, "b.cc", "More")
        self.commit(self.clone, "c.cc", "And more")
        files, line = self.scope(self.clone, since="HEAD~1")
        self.assertEqual(files, "c.cc")
        self.assertIn('"More"', line)
        self.assertIsNone(self.scope(self.clone, since="nonsense"))

    def test_all_is_all(self):
        self.assertEqual(self.scope(self.clone, all_files="yes"), ["a.cc", "1 of 1 sources, as asked for"])


class LintSourcesTest(unittest.TestCase):
    """clang-tidy says nothing of a source that the database of commands lacks, so such a database is refused."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name)

    def sources(self, names, compiled, *folders):
        """What lint_sources prints of the names, or where it fails what it says."""
        build = self.tree / "build"
        for name in *names, *compiled:
            path = self.tree / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        build.mkdir(exist_ok=True)
        (build / "commands.json").write_text(json.dumps(
            [{"directory": str(build), "file": str(self.tree / name), "command": "c++"} for name in compiled]))
        done = subprocess.run(["bash", "-c", '. "$1"; shift; lint_sources build/commands.json "$@"', "bash", SCRIPT,
                               *folders], cwd=self.tree, input="".join(name + "\n" for name in names), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        return done.stdout.split() if done.returncode == 0 else done.stderr

    def units(self, names):
        done = subprocess.run(["bash", "-c", '. "$1"; lint_units build/commands.json', "bash", SCRIPT], cwd=self.tree,
                              input="".join(name + "\n" for name in names), text=True, check=True, stdout=subprocess.PIPE)
        return done.stdout.split()

    def test_a_database_that_names_every_source_is_taken(self):
        names = ["apps/a.cc", "plugins/p/b.cc", "src/c.cc"]
        self.assertEqual(self.sources(names, [*names, "build/made.pb.cc"]), names)
        self.assertEqual(self.sources(names, names, "src", "plugins/p"), ["plugins/p/b.cc", "src/c.cc"])

    def test_what_is_compiled_several_at_once_is_looked_at_by_the_file_that_includes_it(self):
        several = self.tree / "build" / "src" / "Unity" / "unity_0_cxx.cxx"
        several.parent.mkdir(parents=True)
        includes = "".join('#include "%s"\n' % (self.tree / name) for name in ("src/a.cc", "src/b.cc"))
        compiled = ["src/c.cc", "build/src/Unity/unity_0_cxx.cxx"]
        names = ["src/a.cc", "src/b.cc", "src/c.cc"]
        several.write_text(includes)
        self.assertEqual(self.sources(names, compiled), names)
        self.assertEqual(self.units(names), [str(several), str(self.tree / "src/c.cc")])
        self.assertEqual(self.units(["src/b.cc"]), [str(several)])
        said = self.sources([*names, "src/d.cc"], compiled)
        self.assertIn("1 of 4 sources are not compiled", said)
        self.assertIn("src/d.cc", said)

    def test_a_source_that_no_target_has_is_named(self):
        self.assertIn("src/forgotten.cc", self.sources(["src/a.cc", "src/forgotten.cc"], ["src/a.cc"], "src"))

    def test_what_is_known_to_be_compiled_elsewhere_is_left_out(self):
        known = ["src/driver/abi/nvml_abi_vendor.cc", "tests/shim/arm64/small_driver.cc"]
        self.assertEqual(self.sources([*known, "src/a.cc"], ["src/a.cc"]), ["src/a.cc"])
        self.assertEqual(self.sources([*known, "src/a.cc"], [*known, "src/a.cc"]), ["src/a.cc"])

    def test_the_list_of_those_has_nothing_that_is_gone(self):
        script = '. "$1"; for each in "${LINT_NOT_COMPILED[@]}"; do compgen -G "$each" >/dev/null || echo "$each"; done'
        done = subprocess.run(["bash", "-c", script, "bash", SCRIPT], cwd=SCRIPT.parents[2], check=True, text=True,
                              stdout=subprocess.PIPE)
        self.assertEqual(done.stdout, "")


if __name__ == "__main__":
    if not shutil.which("git"):
        print("there is no git here")
        sys.exit(77)
    unittest.main()

#!/usr/bin/env python3
"""tools/release_notes.py: the notes of a release are what CHANGELOG.md says of it."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import release_notes  # noqa: E402

CHANGELOG = """# Changes

## 1.1.0, not yet released

- Later.

## 1.0.1, 2026-12-01

- One thing
  on two lines.
- Another.

Words that
go on.

## 1.0.0, 2026-11-01
"""


class ReleaseNotesTest(unittest.TestCase):
    def refusal(self, version):
        with self.assertRaises(release_notes.NoNotes) as refused:
            release_notes.notes(CHANGELOG, version)
        return str(refused.exception)

    def test_the_part_of_one_version_is_taken_and_unwrapped(self):
        self.assertEqual(release_notes.notes(CHANGELOG, "1.0.1"), "- One thing on two lines.\n- Another.\n\nWords that go on.\n")

    def test_what_is_not_there_not_released_or_empty_is_refused(self):
        self.assertIn("there are 1.1.0, 1.0.1, 1.0.0", self.refusal("2.0"))
        self.assertIn("## 1.1.0, YYYY-MM-DD", self.refusal("1.1.0"))
        self.assertIn("says nothing", self.refusal("1.0.0"))

    def test_the_project_s_own_changelog_has_every_version_readable(self):
        text = (pathlib.Path(__file__).resolve().parent.parent / "CHANGELOG.md").read_text(encoding="utf-8")
        versions = [line.split()[1].rstrip(",") for line in text.splitlines() if line.startswith("## ")]
        self.assertTrue(versions)
        for version in versions:
            released = text.replace("not yet released", "2026-01-01")
            self.assertIn("- ", release_notes.notes(released, version))


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""packaging/slurm/spank_gpuman.8 and docs/slurm.md, which are written by hand, have what the Slurm plugin takes: the
options of srun, and the words behind the plugin with their defaults and values."""

import pathlib
import re
import unittest

TREE = pathlib.Path(__file__).resolve().parent.parent
PAGE = (TREE / "packaging/slurm/spank_gpuman.8").read_text().replace("\\-", "-")
GUIDE = (TREE / "docs/slurm.md").read_text()
SETTINGS = (TREE / "plugins/slurm/slurm_step.h").read_text()
READER = (TREE / "plugins/slurm/slurm_step.cc").read_text()
PLUGIN = (TREE / "plugins/slurm/plugin.cc").read_text()


def options():
    """The options of srun, as a page writes them: with =SIZE where they take a value."""
    names = dict(re.findall(r'(k\w+Option) = "([\w-]+)"', SETTINGS))
    registered = re.findall(r'\{Text\((k\w+Option)\), (nullptr|Text\("\w+"\))', PLUGIN)
    assert len(registered) == len(names), registered
    return ["--" + names[constant] + ("" if value == "nullptr" else "=" + value[6:-2]) for constant, value in registered]


def words():
    """The words of plugstack.conf -> the values that step.cc names."""
    branches = re.split(r'if \(name == "', READER.split("Result<> Take(")[1].split("\n}\n")[0])[1:]
    found = {}
    for branch in branches:
        name = branch.split('"')[0]
        named = re.findall(r'value [!=]= "(\w+)"', branch)
        found[name] = sorted(set(named)) if named else ["no", "yes"] if "ParseYesNo" in branch else []
    return found


def defaults():
    """The word -> its default, as the struct has it."""
    def of(pattern):
        return re.search(pattern, SETTINGS).group(1)

    def yes_or_no(pattern):
        return "yes" if of(pattern) == "true" else "no"

    return {"socket": of(r'socket = "([^"]+)"'), "required": yes_or_no(r"required = (\w+)"),
            "timeout": "%ds" % (int(of(r"patience\{(\d+)\}")) / 1000), "shard": of(r"shard = base::GiB\((\d+)\)") + "GiB",
            "share": "whole" if of(r"share_whole = (\w+)") == "true" else "shards", "preload": yes_or_no(r"preload = (\w+)")}


def entries(section):
    """The term of each entry of a section of the page -> what is said of it."""
    text = PAGE.split("\n.SH %s\n" % section)[1].split("\n.SH ")[0]
    return dict(re.findall(r"^\.TP\n\.B (.+)\n((?:[^.].*\n?)+)", text, flags=re.MULTILINE))


class SlurmManTest(unittest.TestCase):
    def test_what_is_read_of_the_sources_is_all_of_it(self):
        told = re.split(", | and ", re.search(r'\{\}: there are ([\w, ]+)"', READER).group(1))
        self.assertEqual(sorted(words()), sorted(told))
        self.assertEqual(sorted(defaults()), sorted(told))
        self.assertEqual(len(options()), 5)

    def test_the_page_has_the_options_and_no_others(self):
        self.assertEqual(list(entries("OPTIONS OF SRUN, SBATCH AND SALLOC")), options())
        self.assertEqual(re.findall(r"\[(--gpuman[^\]]*)\]", PAGE.split(".SH DESCRIPTION")[0]), options())

    def test_the_page_has_the_words_with_their_defaults_and_no_others(self):
        self.assertEqual(list(entries("CONFIGURATION")), ["%s=%s" % one for one in defaults().items()])

    def test_the_page_names_the_other_value_of_a_word_that_has_two(self):
        said = entries("CONFIGURATION")
        for name, values in words().items():
            default = defaults()[name]
            for value in set(values) - {default}:
                self.assertRegex(said["%s=%s" % (name, default)], r"\b%s: " % value)

    def test_the_page_has_the_bounds_of_the_time(self):
        shortest, longest = re.search(r"it is a time from (\w+) to (\w+)", READER).groups()
        self.assertIn("%s to %s." % (shortest, longest), entries("CONFIGURATION")["timeout=" + defaults()["timeout"]])

    def test_the_guide_has_all_of_them_too(self):
        for option in options():
            self.assertIn(option.split("=")[0], GUIDE)
        for name, default in defaults().items():
            line = next((line for line in GUIDE.splitlines() if line.startswith("- `%s=" % name)), None)
            self.assertIsNotNone(line, name)
            self.assertIn("(when it is left out: `%s`" % default, line)


if __name__ == "__main__":
    unittest.main()

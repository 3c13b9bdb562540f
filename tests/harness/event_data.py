"""The data of events as the documents list them."""

import re

from machine import ROOT


def words(cell):
    return set(re.findall(r"`([^`]+)`", cell))


def of_sharing(kind):
    """The names of the data of this kind of event, from the table in docs/sharing.md."""
    row = re.search(rf"^\| `{kind}` \|[^|]*\|([^|]*)\|$", (ROOT / "docs/sharing.md").read_text(), re.MULTILINE)
    assert row, f"docs/sharing.md does not list {kind}"
    return words(row[1])


def kinds_of_sharing():
    """The kinds of events in that table."""
    return set(re.findall(r"^\| `(share_\w+)` \|", (ROOT / "docs/sharing.md").read_text(), re.MULTILINE))


def of_suspensions():
    """The names of the data of the events of suspensions, from the table in docs/suspend.md."""
    table = (ROOT / "docs/suspend.md").read_text().partition("| data | meaning |\n| --- | --- |\n")[2].partition("\n\n")[0]
    names = set().union(*(words(line.split("|")[1]) for line in table.splitlines()))
    assert "milliseconds" in names, "docs/suspend.md has no table of the data"
    return names

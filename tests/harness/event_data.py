"""The data of events as the documents list them."""

import re

from machine import ROOT


def words(text):
    return set(re.findall(r"`([^`]+)`", text))


def points(text):
    """The points of the lists in a document, each as one line."""
    return [" ".join(point.split()) for point in re.findall(r"^- (.*?)(?=\n- |\n\n|\Z)", text, re.MULTILINE | re.DOTALL)]


def of_sharing(kind):
    """The names of the data of this kind of event, from the list in docs/sharing.md."""
    rows = [point for point in points((ROOT / "docs/sharing.md").read_text()) if point.startswith(f"`{kind}`:")]
    assert len(rows) == 1, f"docs/sharing.md does not list {kind}"
    return words(rows[0].partition(" Data: ")[2])


def kinds_of_sharing():
    """The kinds of events in that list."""
    return set(re.findall(r"^- `(share_\w+)`:", (ROOT / "docs/sharing.md").read_text(), re.MULTILINE))


def of_suspensions():
    """The names of the data of the events of suspensions, from the list in docs/suspend.md."""
    listed = (ROOT / "docs/suspend.md").read_text().partition("each where it applies:\n\n")[2].partition("\n\n")[0]
    names = set().union(*(words(point.partition(": ")[0]) for point in points(listed)))
    assert "milliseconds" in names, "docs/suspend.md has no list of the data"
    return names

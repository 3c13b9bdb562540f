#!/usr/bin/env python3
"""Tests which bars bench.py judges, and its exit status.

Usage: bench_test.py
"""

import contextlib
import io
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import bench  # noqa: E402
import web_bench  # noqa: E402

GOOD = {"paints": [150, 999], "shown_after": [400, 5000], "files": 199_000, "answers": 900_000, "count": 30, "at_rest": [1.4, 0.1, 0.3],
        "busy": {"machine": ([3.7, 0.3, 10.8], 20), "queue": ([3.0, 0.6, 10.7], 20)}, "alone": 10.4}


def missed(**changes):
    """The bars that figures of the page miss, and the exit status."""
    rows = []
    web_bench.report(web_bench.Figures(**{**GOOD, **changes}), lambda *row, met=None: rows.append((row[2], met)))
    bench.ROWS.clear()
    with contextlib.redirect_stdout(io.StringIO()):
        web_bench.report(web_bench.Figures(**{**GOOD, **changes}), bench.row)
    return [bar for bar, met in rows if met is False], bench.exit_status(bench.ROWS)


class BenchTest(unittest.TestCase):
    def test_figures_within_their_bars_are_no_failure(self):
        self.assertEqual(missed(), ([], 0))

    def test_each_bar_of_the_page_that_is_missed_is_a_failure(self):
        for bar, changes in (("1000 ms", {"paints": [150, 1001]}), ("200 kB", {"files": 200_001}), ("5 %", {"at_rest": [4.9, 0.0, 0.2]}),
                             ("5 %", {"busy": {"machine": ([4.0, 0.5, 11.0], 20)}})):
            self.assertEqual(missed(**changes), ([bar], 1), changes)

    def test_a_figure_that_nobody_judged_is_no_failure(self):
        self.assertEqual(bench.exit_status([("what", "9 ms", "5 ms", "", "")]), 0)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""`gpuman web --open`: the browser gets the link, and nobody else reads it.

Usage: page_opened_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import json
import os
import pathlib
import re
import signal
import stat
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from daemon_case import DaemonTest, until  # noqa: E402
from machine import program  # noqa: E402
from web import start_page  # noqa: E402

# Says how it was started and what it was given, whole or not at all; then it goes on as a browser does.
OPENER = """#!/usr/bin/env python3
import json, os, sys
file = sys.argv[1]
said = {"words": sys.argv[1:], "command": open("/proc/self/cmdline").read(), "mode": os.stat(file).st_mode,
        "owner": os.stat(file).st_uid, "page": open(file).read(), "session": os.getsid(0)}
with open(os.environ["TOLD"] + ".new", "w") as told:
    json.dump(said, told)
os.rename(os.environ["TOLD"] + ".new", os.environ["TOLD"])
os.execvp("sleep", ["sleep", "1000"])
"""


class PageOpened(DaemonTest):
    def setUp(self):
        self.bin, self.told = self.m.dir / "bin", self.m.dir / "told"
        self.bin.mkdir(exist_ok=True)
        self.told.unlink(missing_ok=True)

    def opener(self, text=OPENER):
        path = self.bin / "xdg-open"
        path.write_text(text)
        path.chmod(0o755)

    def web(self, **environment):
        environment = {"DISPLAY": ":99", **environment, "PATH": f"{self.bin}:{os.environ['PATH']}", "TOLD": str(self.told)}
        environment = {**self.m.env, **environment}
        return start_page(self, [program("gpuman"), "web", "--open"],
                          {name: value for name, value in environment.items() if value is not None})

    def said_at_end(self, page):
        status, (rest, said) = page.end(signal.SIGINT)
        self.assertEqual((status, rest), (0, b""))
        return said.decode()

    def test_the_browser_gets_a_file_that_leads_to_the_link(self):
        self.opener()
        page = self.web()
        until("the browser is opened", self.told.exists)
        told = json.loads(self.told.read_text())
        self.addCleanup(os.kill, told["session"], signal.SIGKILL)
        (path,) = map(pathlib.Path, told["words"])
        self.assertEqual((stat.S_IMODE(told["mode"]), told["owner"]), (0o600, os.geteuid()))
        self.assertTrue(path.is_relative_to(self.m.env["XDG_RUNTIME_DIR"]), path)
        self.assertEqual(stat.S_IMODE(path.parent.stat().st_mode) & 0o022, 0)
        self.assertIn(f'content="0; url={page.link}"', told["page"])
        (link,) = set(re.findall(r'http://[^"]+', told["page"]))
        self.assertEqual(link, page.link)
        for command in (told["command"], pathlib.Path(f"/proc/{page.process.pid}/cmdline").read_text()):
            self.assertNotIn(page.secret, command)
        self.assertEqual(page.ask("/v1/status").status, 200)
        self.assertTrue(path.exists(), "a browser may read it late")
        self.assertNotIn("No browser", self.said_at_end(page))
        self.assertFalse(path.exists())
        os.kill(told["session"], 0)  # the browser goes on, also where Ctrl-C went to the page

    def test_where_no_browser_can_be_opened_it_says_why_and_serves(self):
        self.opener()
        for why, environment in (("there is no display: neither DISPLAY nor WAYLAND_DISPLAY is set", {"DISPLAY": None}),
                                 ("your browser is at the other end of ssh", {"SSH_CONNECTION": "192.0.2.7 50000 192.0.2.8 22"})):
            page = self.web(**environment)
            self.assertEqual(page.ask("/v1/status").status, 200)
            self.assertIn(f"No browser is opened: {why}. Open the link yourself.", self.said_at_end(page))
            self.assertFalse(self.told.exists())

    def test_a_program_that_fails_is_told(self):
        self.opener("#!/bin/sh\nexit 3\n")
        page = self.web()
        line = b""
        while b"No browser" not in line:
            line = page.process.stderr.readline()
            self.assertTrue(line, "it ended")
        self.assertIn(b"xdg-open ended with exit status 3", line)
        self.assertEqual(page.ask("/v1/status").status, 200)

    def test_the_page_for_everybody_is_not_opened(self):
        done = self.m.run("web", "--everybody", "--open")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--everybody", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)

#!/usr/bin/env python3
"""A page of another origin in the browser that has the page of `gpuman web` open: it reads nothing and changes nothing.

web_test.py has forged requests. On the simulated driver.

Usage: web_origin_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)

Skipped where Chromium or its driver is not installed.
"""

import json
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
import browser  # noqa: E402
from daemon_case import DaemonTest, until  # noqa: E402
from machine import program  # noqa: E402
from other_origin import OtherOrigin  # noqa: E402
from web import Page  # noqa: E402

# Another port of the page's own name, another name of the machine, and a name that its owner lets point here.
NAMES = ("127.0.0.1", "localhost", "evil.example")


@unittest.skipIf(browser.missing(), f"{', '.join(browser.missing())} is not installed")
class WebOriginTest(DaemonTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.web = subprocess.Popen([program("gpuman"), "web"], env=cls.m.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        cls.addClassCleanup(lambda: (cls.web.kill(), cls.web.communicate()))
        cls.page = Page(cls.web)
        cls.other = OtherOrigin()
        cls.addClassCleanup(cls.other.close)
        cls.granting = OtherOrigin()
        cls.addClassCleanup(cls.granting.close)
        cls.browser = browser.Browser(arguments=["--host-resolver-rules=MAP evil.example 127.0.0.1", "--disable-popup-blocking"])
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        super().setUp()
        self.job_id = self.start("kept", "exec sleep 1000")
        self.becomes("kept", "running")

    def calls(self):
        return (("POST", f"/v1/jobs/{self.job_id}/cancel", {}), ("POST", f"/v1/jobs/{self.job_id}/suspend", {}),
                ("POST", "/v1/cancellations", {"jobs": [str(self.job_id)]}), ("POST", "/v1/jobs", self.run_request("mine", "A=1; true")),
                ("PUT", "/v1/share", {"pause": True}), ("PATCH", f"/v1/jobs/{self.job_id}", {"priority": 3}),
                ("DELETE", f"/v1/jobs/{self.job_id}", {}))

    def state(self):
        """All that these calls would change."""
        jobs = self.request("GET", "/v1/jobs?all=1").json()["jobs"]
        return ([(job["id"], job["state"], job["priority"]) for job in jobs], self.request("GET", "/v1/share").json()["settings"],
                [event["id"] for event in self.events()])

    def test_it_reads_nothing_and_changes_nothing(self):
        self.browser.open(self.page.link)
        until("the page is live", lambda: "kept" in self.browser.text("tbody"), self.browser.text)
        owner, before = self.browser.window(), self.state()
        for name in NAMES:
            for target in (f"http://127.0.0.1:{self.page.port}", f"http://localhost:{self.page.port}"):
                self.browser.open_window("about:blank")
                self.browser.console()
                read = self.other.attack(self.browser, name, target, self.page.secret, self.calls())
                self.assertEqual({attempt: text for attempt, text in read.items() if text}, {}, (name, target))
                self.assertGreater(len(read), 30)
                self.assertIn("frame-ancestors", " ".join(self.browser.console()), "nobody puts the page into a frame")
                self.browser.close_window()
                self.browser.use(owner)
        self.assertEqual(self.state(), before)
        self.assertIn("kept", self.browser.text("tbody"))

    def test_a_server_that_grants_it_would_be_read_and_changed(self):
        """What the other test tries does work."""
        read = self.other.attack(self.browser, "127.0.0.1", f"http://127.0.0.1:{self.granting.port}", self.page.secret, self.calls())
        blind = {attempt for attempt, text in read.items() if not text}
        # Their answers cannot be read, whatever the server says: the requests arrive.
        self.assertEqual(blind, {"fetch without cors", "window"} | {attempt for attempt in read if attempt.startswith("form ") or
                                                                  attempt.endswith(" without cors")}, read)
        for method, path, _ in self.calls():
            sent = [body for got, where, body in self.granting.seen if (got, where) == (method, path)]
            self.assertEqual(len(sent), 4 if method == "POST" else 2, (method, path, self.granting.seen))
        sent = [json.loads(body) for _, path, body in self.granting.seen if path == "/v1/jobs" and body]
        self.assertEqual(sent, [self.run_request("mine", "A=1; true")] * 4, "a form can ask for a job as well")

    def test_the_page_by_a_name_that_is_not_the_machines_is_refused(self):
        """Whoever has the name lets it point to this machine: the browser takes his page and this one for one origin."""
        self.browser.open(f"http://evil.example:{self.page.port}/")
        self.assertIn("answers only to the names localhost", self.browser.text())
        read = self.browser.run("return fetch('/v1/jobs', {headers: {Authorization: 'Bearer ' + arguments[0]}}).then((one) => one.text())",
                                self.page.secret)
        self.assertNotIn("kept", read)
        self.assertIn("answers only to the names localhost", read)


if __name__ == "__main__":
    unittest.main(verbosity=2)

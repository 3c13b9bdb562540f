#!/usr/bin/env python3
"""The page of `gpuman web` in a browser: what each part of it shows, what its buttons do, and that what others chose to
be called stays text. On the simulated driver.

Usage: web_page_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)

Skipped where Chromium or its driver is not installed.
"""

import pathlib
import re
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
import browser  # noqa: E402
import colors  # noqa: E402
from daemon_case import DaemonTest, until  # noqa: E402
from machine import program  # noqa: E402

PAGES = ("#/", "#/queue", "#/people")
IMAGE = "<img src=x onerror=hit()>"
SCHEMES = ("light", "dark")
TURNED = "\u202egnp.exe"  # a sign that turns the line around


def start_web(machine):
    """`gpuman web`, and the link that it prints."""
    process = subprocess.Popen([program("gpuman"), "web"], env=machine.env, stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().strip()


@unittest.skipIf(browser.missing(), f"{', '.join(browser.missing())} is not installed")
class WebPageCase(DaemonTest):
    gpus, memory, profile = 2, "4GiB", "h200"
    config = '[sampling]\nrest = "20ms"\nslow = "100ms"\nretry = "200ms"\n[health]\nkernel_log = ""\n'

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.web, cls.link = start_web(cls.m)
        cls.addClassCleanup(cls.end_web)
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.close)
        cls.base = re.split("[?#]", cls.link)[0]

    @classmethod
    def end_web(cls):
        cls.web.send_signal(signal.SIGINT)
        cls.web.wait(timeout=30)
        cls.web.stdout.close()

    def setUp(self):
        super().setUp()
        self.browser.size(1280, 800)
        self.browser.open(self.link)
        until("the page is live", lambda: self.text("#link") == "live", self.seen)

    def tearDown(self):
        said = self.leave()
        super().tearDown()
        self.assertEqual(said, [])

    def leave(self):
        """What the console has of the page, which asks no more: not for a job either that is about to be taken away."""
        self.browser.open("about:blank")
        return self.console()

    def console(self):
        """Errors, and reports against the policy, since it was asked last."""
        return self.browser.console(("SEVERE",))

    def go(self, page):
        self.browser.run("location.hash = arguments[0]", page)

    def count(self, selector):
        return self.browser.run("return document.querySelectorAll(arguments[0]).length", selector)

    def focused(self):
        """What a person sees of what has the focus."""
        return self.browser.run("return document.activeElement.innerText")

    def texts(self, selector):
        """Of every element; what a person sees of it."""
        return self.browser.run("return [...document.querySelectorAll(arguments[0])].map((one) => one.innerText)", selector)

    def text(self, selector):
        return " ".join(self.texts(selector))

    def labels(self, selector):
        return self.browser.run("return [...document.querySelectorAll(arguments[0])].map((one) => one.ariaLabel ?? '')", selector)

    def seen(self):
        return f"\nthe page: {self.text('body')[:1500]}\nthe console: {self.console()}"

    def shows(self, selector, words):
        until(f"{selector} shows {words}", lambda: words in self.text(selector), self.seen)

    def click(self, words):
        """The button with these words. The page may draw it anew between the look at it and the click."""
        def clicked():
            button = self.browser.run("return [...document.querySelectorAll('button')].find((one) => one.innerText.trim() == arguments[0])", words)
            try:
                return button and (self.browser.click(button), True)
            except RuntimeError as error:
                if "stale" not in str(error):
                    raise
                return None
        until(f"there is the button {words}", clicked, self.seen)

    def eater(self, tag, *more, **options):
        self.start(tag, f"echo it begins; exec {self.load('512MiB', '--hold', '1h', *more)}", gpus=["0"], **options)
        until("it holds memory", lambda: self.job(tag)["memory"]["used"])
        return self.job(tag)["id"]

    def submit(self, *jobs):
        answer = self.request("POST", "/v1/submissions", {"jobs": list(jobs), "directory": "/",
                                                          "environment": self.run_request("", "")["environment"]})
        self.assertEqual(answer.status, 201, answer.body)
        return answer.json()["jobs"]


class WebPageTest(WebPageCase):
    def test_the_machine_has_who_holds_the_memory_of_each_gpu_and_its_figures(self):
        job = self.eater("train", "--kernel-time", "5ms")
        outside = subprocess.Popen([program("gpuman-load"), "--alloc", "256MiB", "--hold", "1h", "--device", "1"],
                                   env=self.m.env, stdout=subprocess.DEVNULL)
        self.addCleanup(outside.wait)
        self.addCleanup(outside.kill)
        until("both are in the bars", lambda: f"job {job} train" in "".join(self.labels(".bar")[:1]) and
              f"pid {outside.pid} gpuman-load" in "".join(self.labels(".bar")), self.seen)
        self.assertEqual(self.count(".gpu"), 2)
        self.assertRegex(self.text(".gpu"), r"GPU 0\s+H200\s+healthy")
        self.assertRegex(self.labels(".bar")[0], r"^Memory of GPU 0: \S+/4GiB; free \S+; .*job \d+ train \S+B(; gpuman \S+B)?$")  # the mover stays a while
        until("the utilization is told", lambda: re.search(r"Utilization of GPU 0: [1-9]\d*%", " ".join(self.labels(".bar"))), self.seen)
        self.assertRegex(self.text(".gpu dl"), r"Power\s+\d+ W\s+Temperature\s+\d+ °C")
        until("the last hour is drawn and told", lambda: re.search(r"^GPU 0.* memory last \d+%, highest \d+%", "".join(self.labels(".plot")[:1])) and
              self.count(".plot canvas"), self.seen)
        self.assertRegex(self.text("tbody"), rf"{job}\s+train\s+\S+\s+running\s+0\s")
        self.assertEqual(self.browser.run("return [...document.querySelectorAll('tbody a')].map((one) => one.href)"), [f"{self.base}#/job/{job}"])
        self.shows("main", "Jobs: 1 running, 0 queued")

    def test_jobs_that_share_a_gpu_have_their_turns_as_strips(self):
        answer = self.request("PUT", "/v1/share", {"capacity": "2GiB", "quantum_min": "100ms", "quantum_max": "1s"})
        self.assertEqual(answer.status, 200, answer.body)
        self.addCleanup(self.request, "PUT", "/v1/share", {"clear_capacity": True})
        # Each has a context of half a GiB beside it, and so has the mover.
        jobs = [self.start(tag, f"exec {self.load('700MiB', '--hold', '1h', '--kernel-time', '1ms')}", gpus=["0"], share=True) for tag in ("left", "right")]
        until("they take turns", lambda: sum(gpu["hand_overs"] for gpu in self.request("GET", "/v1/share").json()["gpus"]) >= 2, self.seen)
        self.shows(".turns", f"{jobs[0]} left")
        self.shows(".turns", f"{jobs[1]} right")
        self.assertRegex(self.text("main"), r"GPU 0: (turns|being handed over); \S+ wanted of 2GiB; quantum .*; \d+ hand-overs")
        self.browser.open("about:blank")  # its history is asked for at once, and then every 15 s
        self.browser.open(self.link)
        for job, tag in zip(jobs, ("left", "right")):
            until(f"what {tag} did is told", lambda job=job, tag=tag: any(
                (told := re.match(rf"Turns of job {job} {tag} from .*: running (\d+)%, waiting for its turn (\d+)%, suspended 0%$", label)) and
                int(told[1]) > 0 and int(told[2]) > 0 for label in self.labels(".strip")), self.seen)
        heights = self.browser.run("return [...document.querySelectorAll('.strip .run')].map((one) => one.style.height)")
        self.assertTrue({"25%", "50%", "75%"} & set(heights), heights)  # turns are shorter than the parts of an hour

    def test_what_is_not_known_of_a_gpu_is_told_so(self):
        self.shows(".gpu", "Utilization\n0%")
        self.inject("lost", "--gpu", "1")
        self.addCleanup(self.inject, "clear", "--gpu", "1")
        until("nothing of it is known", lambda: re.search(r"^Memory of GPU 1: n/a", " ".join(self.labels(".bar")[2:])), self.seen)
        self.assertIn("Utilization of GPU 1: n/a", self.labels(".bar"))
        self.assertRegex(self.texts(".gpu")[1], r"! unhealthy[^0]*Memory\s+n/a[^0]*Utilization\s+n/a\s+Power\s+n/a\s+Temperature\s+n/a")
        self.assertRegex(self.texts(".gpu")[0], r"healthy[^!]*Memory\s+\S+/4GiB")

    def test_the_page_of_a_job_has_its_facts_why_its_history_and_its_log_which_follows(self):
        flag = self.m.dir / "flag"
        self.start("talker", f"echo first; while [ ! -e {flag} ]; do sleep 0.05; done; echo second; exec {self.load('512MiB', '--hold', '1h')}",
                   gpus=["0"], memory="2GiB")  # a context takes half a GiB
        self.becomes("talker", "running")
        self.go("#/job/talker")
        self.shows("pre", "first")
        self.assertNotIn("second", self.text("pre"))
        flag.touch()
        self.shows("pre", "second")
        self.shows(".facts", "used of 2GiB")
        self.assertRegex(self.text(".facts"), r"state\s+running\s+user\s+\S+\s+place\s+GPU 0;")
        self.assertIn("started on GPU 0 as process", self.text(".story"))
        until("its memory is drawn and told", lambda: "Memory from" in "".join(self.labels(".plot")) and self.count(".plot canvas"), self.seen)
        until("what it did is told", lambda: re.search(r"running \d+%", "".join(self.labels(".strip"))), self.seen)
        self.assertRegex(self.browser.run("return document.title"), r"^Job \d+ talker - gpuman$")

    def test_many_windows_are_live_at_a_time(self):
        """A browser has six connections to a server for all windows."""
        self.start("talker", "while echo tick; do sleep 0.3; done")
        self.becomes("talker", "running")
        first = self.browser.window()
        windows = [self.browser.open_window(self.link) for _ in range(4)]
        try:
            for window in windows:
                self.browser.use(window)
                self.go("#/job/talker")
                until("the log is there", lambda: "tick" in self.text("pre") and self.text("#link") == "live", self.seen)
            for window in windows:
                self.browser.use(window)
                lines = self.text("pre").count("tick")
                until("the log goes on", lambda lines=lines: self.text("pre").count("tick") > lines, self.seen)
        finally:
            for window in windows:
                self.browser.use(window)
                self.browser.close_window()
            self.browser.use(first)

    def test_a_button_asks_first_and_then_does_it(self):
        job = self.eater("train")
        self.go(f"#/job/{job}")
        self.click("Suspend")
        self.assertIn(f"suspend job {job} 'train' of", self.text("dialog"))
        self.click("No")
        until("the question is gone", lambda: not self.count("dialog"))
        self.assertEqual(self.job(job)["state"], "running")
        self.click("Suspend")
        self.click("Yes, suspend")
        self.shows("main", f"suspend: done, job {job} is suspended.")
        self.assertEqual(self.job(job)["state"], "suspended")
        self.click("Resume")
        self.click("Yes, resume")
        self.shows("main", f"resume: done, job {job} is running.")  # one thing at a time
        self.click("Cancel")
        self.click("Yes, cancel")
        self.becomes(job, "cancelled")
        self.shows(".facts", "cancelled")
        until("it can only be restarted or forgotten", lambda: self.texts("button") == ["Restart", "End"], self.seen)

    def test_a_job_is_ended_after_a_question_and_leaves_the_lists(self):
        job = self.eater("train")
        after = self.submit({"name": "after", "command": ["/bin/true"], "gpus": {"count": 0},
                             "depends": {"list": [{"kind": "afterok", "job": str(job)}]}})[0]["id"]
        self.go(f"#/job/{job}")
        self.shows("pre", "it begins")
        self.click("End")
        self.shows("dialog", f"end job {job} 'train' of")
        self.shows("dialog", "its log is deleted")
        self.shows("dialog", "Jobs that wait for it and are cancelled too: 1.")
        self.click("No")
        until("the question is gone", lambda: not self.count("dialog"))
        self.assertEqual(self.job(job)["state"], "running")
        self.click("End")
        self.click("Yes, end")
        self.shows("main", f"end: done, job {job} is gone.")
        self.assertEqual(self.request("GET", f"/v1/jobs/{job}").status, 404)
        self.becomes(after, "cancelled")
        self.assertEqual(self.texts("button"), [])
        self.shows("pre", "it begins")
        self.assertEqual(self.text("#problem"), "")
        self.go("#/")
        self.shows("main", "Jobs: 0 running, 0 queued")
        self.assertNotIn("train", self.text("tbody"))

    def test_a_refusal_is_told_in_the_daemons_words(self):
        job = self.eater("train")
        self.go(f"#/job/{job}")
        self.click("Suspend")
        self.request("POST", f"/v1/jobs/{job}/cancel")
        words = self.request("POST", f"/v1/jobs/{job}/suspend").json()["error"]["message"]
        self.click("Yes, suspend")
        self.shows("main", words)
        self.assertTrue(all("409" in message for message in self.leave()))

    def test_escape_is_no(self):
        job = self.eater("train")
        self.go(f"#/job/{job}")
        self.click("Suspend")
        self.browser.press(browser.ESCAPE)
        until("the question is gone", lambda: not self.count("dialog"))
        self.assertEqual(self.focused(), "Suspend")
        self.assertEqual(self.job(job)["state"], "running")

    def test_the_queue_has_pages_reasons_and_a_timeline(self):
        one = {"command": ["/bin/sleep", "1000"], "gpus": {"count": 1}, "time_limit_s": 600}
        self.submit({**one, "name": "wide", "gpus": {"count": 2}})
        self.becomes("wide", "running")
        array = self.submit({**one, "name": "sweep", "array": {"indices": [{"first": 1, "last": 60}]}})[0]["id"]
        self.submit({**one, "name": "held", "hold": True})
        self.go("#/queue")
        self.shows("main", "Page 1 of 3")
        self.shows("main", "Jobs: 1 running, 61 queued")
        until("the reasons are sentences", lambda: "wants 1 GPU; 0 of 2 GPUs can be used now" in self.text("tbody"), self.seen)
        self.assertEqual(self.count("tbody tr"), 25)
        self.assertRegex(self.texts("tbody tr")[1], rf"^1\s+{array}_1\s+sweep\s")
        self.assertEqual(self.labels(".spans a")[0].partition(",")[0], f"job {self.job('wide')['id']} wide")
        self.assertRegex(self.labels(".spans a")[1], rf"job {array}_1 sweep, queued, expected to start .*\d\d:\d\d, ends by .*\d\d:\d\d")
        self.click("Next")
        self.shows("main", "Page 2 of 3")
        until("it has the next ones", lambda: re.search(rf"^25\s+{array}_25\s", (self.texts("tbody tr") or [""])[0]), self.seen)
        self.click("Last")
        self.shows("main", "Page 3 of 3")
        until("the held one is the last", lambda: re.search(r"^-\s+\d+\s+held\s.*held", (self.texts("tbody tr") or [""])[-1]), self.seen)
        self.browser.run("const one = document.querySelector('#states'); one.value = 'held'; one.dispatchEvent(new Event('change'))")
        until("it alone is shown", lambda: self.count("tbody tr") == 1 and "held" in self.text("tbody"), self.seen)

    def test_the_page_changes_with_the_events(self):
        self.go("#/queue")
        self.shows("main", "No jobs.")
        self.start("short", "sleep 1000")
        self.shows("tbody", "short")
        self.shows("#news", "short: started")
        self.request("DELETE", "/v1/jobs/short")
        self.shows("main", "No jobs.")

    def test_people_have_what_they_had(self):
        done = self.submit({"name": "done", "command": ["/bin/true"], "gpus": {"count": 1}, "project": "vision"})[0]["id"]
        self.wait(done)
        self.go("#/people")
        user = self.job(done)["user"]
        until("user and project are there", lambda: [rows.split("\t")[0].strip() for rows in self.texts("tbody tr")][:1] == [user] and
              "vision" in self.text("tbody"), self.seen)
        self.assertEqual(self.texts("caption"), ["By user", "By project"])
        self.assertRegex(self.text("main"), r"\d+ jobs? ended: \S+ GPU-hours")

    def test_what_others_chose_stays_text(self):
        self.browser.run("window.hit = () => { window.wasHit = true }")
        for number in range(2):
            self.submit({"name": f"evil{number}", "project": IMAGE, "gpus": {"count": 2},
                         "command": ["/bin/sh", "-c", f"echo '{IMAGE}' '{TURNED}'; printf '\\033[31mred\\033[0m 1%%\\r2%%\\n'; sleep 1000", IMAGE, "w" * 5000]})
        self.becomes("evil0", "running")
        self.start("loud", f"exec {self.load('64MiB', '--hold', '1h')} '{TURNED}' 2>&1 || sleep 1000", gpus=["0"])
        for page in ("#/", "#/queue"):
            self.go(page)
            self.shows("tbody", "evil0")
        self.go("#/job/evil0")
        self.shows("pre", IMAGE)
        self.shows("pre", "2%")
        self.assertNotRegex(self.text("pre"), "\x1b|\u202e|1%|\\[31m")
        self.shows(".facts", f"project {IMAGE}")
        self.assertIn("\\u202e", self.text(".facts"))
        self.assertLess(len(self.text(".facts")), 5000)
        self.go("#/people")
        self.shows("main", "By project")
        self.assertEqual(self.count("main img"), 0)
        self.assertIsNone(self.browser.run("return window.wasHit ?? null"))

    def test_a_hidden_page_asks_nothing(self):
        self.browser.run("""const real = window.fetch; window.asked = 0; window.fetch = (...all) => { ++window.asked; return real(...all) };
            window.hide = (yes) => { Object.defineProperty(document, 'visibilityState', {value: yes ? 'hidden' : 'visible', configurable: true});
                                     document.dispatchEvent(new Event('visibilitychange')) }""")
        until("it asks", lambda: self.browser.run("return window.asked") > 3)
        self.browser.run("window.hide(true); window.asked = 0")
        self.start("unseen", "sleep 1000")
        # Longer than it waits for figures of the machine.
        self.browser.run("return new Promise((ended) => setTimeout(ended, 5000))")
        self.assertEqual(self.browser.run("return window.asked"), 0)
        self.assertNotIn("unseen", self.text("tbody"))
        self.browser.run("window.hide(false)")
        self.shows("tbody", "unseen")
        self.shows("#link", "live")

    def test_it_says_when_the_daemon_is_away_and_goes_on_when_it_is_back(self):
        self.shows("main", "GPU 1")
        self.addCleanup(self.m.start_daemon)
        self.m.stop_daemon()
        self.shows("#problem", "These are old figures")
        self.assertEqual(self.text("#link"), "no answer")
        self.doCleanups()
        until("it is live again", lambda: self.text("#link") == "live" and not self.text("#problem"), self.seen)
        self.console()  # what could not be loaded meanwhile

    def test_a_link_that_is_no_longer_valid_is_told(self):
        self.browser.run("sessionStorage.clear(); location.reload()")
        self.shows("#problem", "Run the command again that printed the link")
        self.leave()  # what was refused

    def test_a_job_that_is_not_there_is_told_in_the_daemons_words(self):
        self.go("#/job/4711")
        self.shows("#problem", "there is no job 4711")
        self.assertNotIn("old figures", self.text("#problem"))
        self.leave()  # what was not found

    def test_it_fits_a_phone_and_a_wide_screen_and_can_be_used_with_keys(self):
        job = self.eater("a-job-with-a-rather-long-name-for-a-screen-of-this-size")
        for width, height in ((360, 800), (3840, 2160)):
            self.browser.size(width, height)
            for page in (*PAGES, f"#/job/{job}"):
                self.go(page)
                self.shows("main", {"#/people": "By user"}.get(page, "a-job-with"))
                self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth - innerWidth"), 0, (page, width))
        self.browser.open(self.base)
        self.shows("tbody", "a-job-with")
        self.browser.run("document.activeElement.blur()")
        self.browser.press(browser.TAB)
        self.assertEqual(self.focused(), "Skip to the content")
        self.browser.press(browser.ENTER)
        self.assertEqual(self.browser.run("return document.activeElement.id"), "main")
        self.assertEqual(self.browser.run("return location.hash"), "")

    def test_everything_has_a_name_for_a_screen_reader(self):
        self.eater("train")
        self.shows("tbody", "train")
        for page in PAGES:
            self.go(page)
            self.shows("h1", {"#/": "Machine", "#/queue": "Queue", "#/people": "People"}[page])
            unnamed = """return [...document.querySelectorAll("[role=img], [role=region], nav")].filter((one) => !one.ariaLabel && one.checkVisibility())
                .concat([...document.querySelectorAll("table")].filter((one) => !one.caption))
                .concat([...document.querySelectorAll("select, input")].filter((one) => one.labels.length == 0 && one.checkVisibility())).map((one) => one.outerHTML)"""
            until(f"all of {page} has names", lambda: self.browser.run(unnamed) == [], self.seen)
            self.assertEqual(self.browser.run("return document.querySelectorAll('[aria-current=page]').length"), 1)

    # Each colour of text that the page shows, on what lies behind it.
    WRITTEN = """
      const behind = (one) => { while (one && getComputedStyle(one).backgroundColor == "rgba(0, 0, 0, 0)") one = one.parentElement;
                                return getComputedStyle(one ?? document.documentElement).backgroundColor };
      const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = new Map();
      while (texts.nextNode()) {
        const one = texts.currentNode.parentElement, text = texts.currentNode.data.trim();
        if (!text || !one.checkVisibility()) continue;
        const pair = [getComputedStyle(one).color, behind(one)];
        found.set(pair.join(), [...pair, text.slice(0, 40)]);
      }
      return [...found.values()]"""

    def custom(self, *names):
        """Colours of the style sheet, by their names in it."""
        return {name: self.browser.run("return getComputedStyle(document.documentElement).getPropertyValue(arguments[0]).trim()", f"--{name}")
                for name in names}

    def in_each_scheme(self):
        self.addCleanup(self.browser.prefer, "")
        for scheme in SCHEMES:
            self.browser.prefer(scheme)
            yield scheme

    def test_text_can_be_read_in_light_and_dark(self):
        """Text 4.5:1, lines of plots 3:1 (https://www.w3.org/TR/WCAG22/#contrast-minimum and #non-text-contrast)."""
        job = self.eater("train", "--kernel-time", "5ms")
        self.submit({"command": ["sleep", "1000"], "gpus": {"count": 2}, "name": "waits"})
        backs = set()
        for scheme in self.in_each_scheme():
            for page in (*PAGES, f"#/job/{job}"):
                self.go(page)
                self.shows("main", {"#/people": "By user"}.get(page, "train"))
                self.shows("main", {"#/": "Jobs: 1 running", "#/queue": "waits", "#/people": "By user"}.get(page, "it begins"))
                written = self.browser.run(self.WRITTEN)
                self.assertGreaterEqual(len(written), 4, written)
                self.assertEqual([pair for pair in written if colors.contrast(*pair[:2]) < 4.5], [], (page, scheme))
            of = self.custom("text", "dim", "link", "good", "warning", "bad", "memory", "use", "back", "card")
            least = {**dict.fromkeys(("text", "dim", "link", "good", "warning", "bad"), 4.5), "memory": 3, "use": 3}
            low = {(name, back): ratio for back in ("back", "card") for name, enough in least.items()
                   if (ratio := colors.contrast(of[name], of[back])) < enough}
            self.assertEqual(low, {}, scheme)
            backs.add(of["back"])
        self.assertEqual(len(backs), 2, "the browser prefers one, then the other")

    def test_colours_can_be_told_apart_without_red_or_green(self):
        for scheme in self.in_each_scheme():
            for names in (("good", "warning", "bad"), ("memory", "use", "wait", "dim"), [f"job{i}" for i in range(7)]):
                found = self.custom(*names)
                self.assertEqual(colors.too_near(found), {}, (scheme, found))

    def test_plots_have_the_colours_of_the_scheme(self):
        self.go("#/")
        drawn = """const swatches = [...document.querySelectorAll(".gpu .keys .swatch")].slice(0, 2);
                   return swatches.map((one) => getComputedStyle(one).backgroundColor)"""
        # How many points of the first plot have this colour. A plot comes later than its keys: with the first history.
        points = """const canvas = document.querySelector(".plot canvas"), [r, g, b] = arguments[0];
                    if (!canvas?.width) return 0;
                    const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
                    let found = 0;
                    for (let i = 0; i < data.length; i += 4) found += data[i] == r && data[i + 1] == g && data[i + 2] == b && data[i + 3] > 200;
                    return found"""
        self.eater("train", "--kernel-time", "5ms")
        for _ in self.in_each_scheme():
            wanted = [colors.rgb(color) for color in self.custom("memory", "use").values()]
            until("the keys have them", lambda: [colors.rgb(color) for color in self.browser.run(drawn)] == wanted, self.seen)
            until("the plot has them", lambda: self.browser.run(points, wanted[0]), self.seen)


class PeoplePageTest(WebPageCase):
    """Figures and prices are so large that a short job has them."""

    gpus, memory = 1, "141GiB"
    config = WebPageCase.config + '[cost]\ngpu_hour = 1000\nkwh = 100000\ncurrency = "EUR"\n'

    def test_unused_memory_energy_and_cost_are_those_of_the_statistics(self):
        job = self.submit({"name": "large", "memory": "100GiB", "project": "vision",
                           "command": ["/bin/sh", "-c", f"exec {self.load('60GiB', '--hold', '3s', '--kernel-time', '20ms')}"],
                           "gpus": {"count": 1}})[0]["id"]
        self.assertEqual(self.wait(job)["state"], "finished")
        self.go("#/people")

        def told(by):
            """What the table is to show of the only row; its energy may still be split when it is asked."""
            row, = self.request("GET", f"/v1/stats?by={by}").json()["rows"]
            unused, known, kwh = row["gpu_byte_hours_unused"] / 2 ** 30, row["gpu_byte_hours_known"] / 2 ** 30, row["energy_j"] / 3.6e6
            self.assertNotIn(f"{unused:.2f}", ("0.00", f"{known:.2f}"), "it used more than half")
            self.assertGreater(row["cost"], 0.01)
            return {by.upper(): row["name"], "UNUSED": f"{unused:.2f}", "UNUSED PART": f"{100 * unused / known:.0f}%",
                    "ENERGY": f"{'<0.01' if kwh < 0.01 else f'{kwh:.2f}'} kWh, {row['cost']:.2f} EUR", "JOBS": "1"}

        def shown(place, names):
            table = self.browser.run("""return [...document.querySelectorAll("table")[arguments[0]].rows]
                                                .map((row) => [...row.cells].map((cell) => cell.innerText.trim()))""", place)
            return [{name: cell for name, cell in zip(table[0], cells) if name in names} for cells in table[1:]]

        until("the run is counted", lambda: [bool(row["energy_j"] and row["gpu_byte_hours_unused"])
                                             for row in self.request("GET", "/v1/stats").json()["rows"]] == [True])
        self.shows("main", "1 jobs ended")
        for place, by in enumerate(("user", "project")):
            until(f"the table by {by} has them", lambda by=by, place=place: shown(place, told(by)) == [told(by)],
                  lambda by=by, place=place: f"{shown(place, told(by))}, not {told(by)}")
        until("the summary has them", lambda: f"energy {(row := told('user'))['ENERGY']}; unused {row['UNUSED']} GiB-hours" in self.text("main"), self.seen)


if __name__ == "__main__":
    unittest.main(verbosity=2)

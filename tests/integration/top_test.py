#!/usr/bin/env python3
"""`gpuman top` on a terminal, and in tmux, where what a person sees can be read. On the simulated driver.

Usage: top_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)

The tests in tmux are skipped where tmux is not installed, that over ssh also where sshd is not.
"""

import contextlib
import fcntl
import getpass
import json
import os
import pathlib
import pty
import re
import select
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import termios
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from daemon_case import DaemonTest, until  # noqa: E402
from machine import free_port, program  # noqa: E402

POLL = "7"  # the system call on x86-64
TMUX = shutil.which("tmux")
SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:" + os.environ["PATH"])


class TopCase(DaemonTest):
    gpus, memory, profile = 2, "4GiB", "h200"
    config = '[sampling]\nrest = "20ms"\nslow = "100ms"\nretry = "200ms"\n[health]\nkernel_log = ""\n'

    def gpuman(self, *words):
        return self.m.run(*words)


class Terminal:
    """A program on a terminal of its own; `seen` is its output."""

    def __init__(self, arguments, env, columns=100, rows=30, name="xterm-256color"):
        self.ours, theirs = pty.openpty()
        self.resize(columns, rows)
        self.before = termios.tcgetattr(theirs)
        self.process = subprocess.Popen(arguments, env={**env, "TERM": name}, stdin=theirs, stdout=theirs,
                                        stderr=theirs, start_new_session=True)
        self.theirs, self.seen = theirs, ""

    def resize(self, columns, rows):
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self):
        while select.select([self.ours], [], [], 0)[0]:
            self.seen += os.read(self.ours, 65536).decode(errors="replace")
        return self.seen

    def type(self, text):
        os.write(self.ours, text.encode())

    def end(self):
        """The program's exit status, and whether it restored the terminal."""
        until("it ends", lambda: self.read() is not None and self.process.poll() is not None)
        self.read()
        # Local modes: echo and line mode are on again; the earlier screen is back.
        restored = termios.tcgetattr(self.theirs)[3] == self.before[3] and self.seen.rstrip().endswith(("\x1b[?1l\x1b>", "\x1b[?1049l\r\x1b[?1l\x1b>"))
        return self.process.returncode, restored and "\x1b[?1049l" in self.seen

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.ours)
        os.close(self.theirs)


class TopTest(TopCase):
    def setUp(self):
        super().setUp()
        self.start("eater", self.load("256MiB", "--hold", "1h"), gpus=["0"])
        until("it holds memory", lambda: self.job("eater")["memory"]["used"])

    def open(self, interval="100ms", **more):
        terminal = Terminal([program("gpuman"), "top", "--interval", interval], self.m.env, **more)
        self.addCleanup(terminal.close)
        until("it is drawn", lambda: "eater" in terminal.read())
        return terminal

    def test_without_a_terminal_it_prints_a_table_once(self):
        printed = self.gpuman("top", "--sort", "user")
        self.assertEqual(printed.returncode, 0, printed.stderr)
        self.assertNotIn("\x1b", printed.stdout)
        self.assertRegex(printed.stdout, r"\Agpuman top .* processes by user\nGPU  NAME ")
        self.assertIn("eater", printed.stdout)
        self.assertIn("Jobs: 1 running, 0 queued", printed.stdout)
        self.assertEqual(self.gpuman("top", "--sort", "size").returncode, 2)
        self.assertEqual(json.loads(self.gpuman("top", "--json").stdout)["jobs"][0]["tag"], "eater")

    def test_keys_change_pages_and_q_leaves_the_terminal_as_it_was(self):
        terminal = self.open()
        self.assertIn("\x1b[?1049h", terminal.seen)
        terminal.type("4")
        until("another page is shown", lambda: "[4 Processes]" in terminal.read())
        terminal.type("q")
        self.assertEqual(terminal.end(), (0, True))

    def test_its_keys_are_on_the_screen_and_explained(self):
        terminal = self.open(columns=80, rows=24)
        self.assertIn("q quit  h help  / filter", terminal.seen)
        self.assertIn("healthy", terminal.seen)
        for key in "h?":
            drawn = len(terminal.read())
            terminal.type(key)
            until("it explains its keys", lambda: "suspend, resume the chosen job" in terminal.read()[drawn:])
            drawn = len(terminal.read())
            terminal.type("x")
            until("it goes back", lambda: "eater" in terminal.read()[drawn:])
        terminal.type("q")
        self.assertEqual(terminal.end(), (0, True))

    def test_signals_leave_the_terminal_as_it_was(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            terminal = self.open()
            os.kill(terminal.process.pid, number)
            self.assertEqual(terminal.end(), (128 + number, True), number)

    def test_a_fault_leaves_the_terminal_as_it_was(self):
        for number in (signal.SIGSEGV, signal.SIGABRT):
            terminal = self.open()
            os.kill(terminal.process.pid, number)
            self.assertEqual(terminal.end(), (-number, True), number)

    def test_another_size_of_the_window_is_drawn_anew(self):
        terminal = self.open(columns=100, rows=30)
        drawn = len(terminal.seen)
        terminal.resize(50, 8)
        os.kill(terminal.process.pid, signal.SIGWINCH)
        until("it is drawn anew", lambda: "gpuman top" in terminal.read()[drawn:])
        terminal.resize(1, 1)
        os.kill(terminal.process.pid, signal.SIGWINCH)
        terminal.resize(120, 40)
        drawn = len(terminal.read())
        os.kill(terminal.process.pid, signal.SIGWINCH)
        until("it is drawn anew", lambda: "eater" in terminal.read()[drawn:])
        terminal.type("q")
        self.assertEqual(terminal.end(), (0, True))

    def test_it_says_that_a_terminal_cannot_be_drawn_on(self):
        for name in ("dumb", "nonsense"):
            terminal = Terminal([program("gpuman"), "top"], self.m.env, name=name)
            self.addCleanup(terminal.close)
            self.assertEqual(terminal.end()[0], 1)
            self.assertIn("--once", terminal.seen)

    @unittest.skipUnless(os.uname().machine == "x86_64", "numbers of system calls differ")
    def test_it_sleeps_between_two_looks(self):
        terminal = self.open("10m")

        def sleeps():
            """Whether the program waits in poll, for at least a minute: /proc shows a system call's number and its
            arguments."""
            with contextlib.suppress(PermissionError):
                call = pathlib.Path(f"/proc/{terminal.process.pid}/syscall").read_text().split()
                return call[0] == POLL and int(call[3], 16) >= 30_000
            self.skipTest("/proc does not show system calls here")
        until("it sleeps", sleeps)
        terminal.type("q")
        self.assertEqual(terminal.end(), (0, True))

    def test_a_daemon_that_goes_is_told_and_one_that_comes_is_shown(self):
        terminal = self.open()
        self.m.stop_daemon()
        until("it is told", lambda: "old figures" in terminal.read())
        self.m.start_daemon()
        drawn = len(terminal.read())
        terminal.type("4")
        until("it is shown", lambda: "[4 Processes]" in terminal.read()[drawn:])
        terminal.type("q")
        self.assertEqual(terminal.end(), (0, True))



class Tmux:
    """A shell in a tmux server of its own; what a person would see there."""

    def __init__(self, directory, env, columns=100, rows=30):
        self.command = [TMUX, "-u", "-S", str(directory / "tmux.sock"), "-f", "/dev/null"]
        self.env = {**env, "LC_ALL": "C.UTF-8", "TERM": "xterm-256color", "ENV": "", "HISTFILE": ""}
        self.env.pop("TMUX", None)
        self.columns, self.rows = columns, rows

    def begin(self):
        self.run("new-session", "-d", "-x", str(self.columns), "-y", str(self.rows), "/bin/sh -i")
        until("the shell is there", lambda: self.text().strip(), self.text)
        self.type("PS1='shell$ '")
        self.keys("Enter")
        until("the shell obeys", lambda: any(line.startswith("shell$") for line in self.lines()), self.text)

    def run(self, *words):
        done = subprocess.run([*self.command, *words], env=self.env, capture_output=True, text=True, encoding="utf-8")
        if done.returncode != 0:
            raise AssertionError(f"tmux {words}: {done.stderr}")
        return done.stdout

    def text(self, *options):
        return self.run("capture-pane", "-p", *options)

    def lines(self):
        return self.text().split("\n")

    def keys(self, *keys):
        self.run("send-keys", *keys)

    def type(self, text):
        self.run("send-keys", "-l", text)

    def click(self, column, row, button=0):
        """Presses and releases a button there, counted from 0, as a terminal tells it."""
        at = f"{button};{column + 1};{row + 1}"
        self.type(f"\x1b[<{at}M\x1b[<{at}m")

    def shows(self, *texts):
        return until(f"the screen shows {texts}", lambda: all(text in self.text() for text in texts), self.text)

    def leaves(self, text):
        return until(f"the screen does not show {text} any more", lambda: text not in self.text(), self.text)

    def place(self, text):
        """Column and row of a text."""
        for row, line in enumerate(self.lines()):
            if text in line:
                return line.index(text), row
        raise AssertionError(f"{text} is not on the screen: {self.text()}")

    def resize(self, columns, rows):
        self.run("resize-window", "-x", str(columns), "-y", str(rows))

    def close(self):
        subprocess.run([*self.command, "kill-server"], env=self.env, capture_output=True)


@unittest.skipUnless(TMUX, "tmux is not installed")
class TmuxCase(TopCase):
    def setUp(self):
        super().setUp()
        hold = ("--hold", "1h")
        self.train = self.start("train", self.load("512MiB", *hold), gpus=["0"])
        self.bert = self.start("bert", "echo bert begins; " + self.load("256MiB", *hold), gpus=["1"])
        for job in self.train, self.bert:
            until("it holds memory", lambda: self.job(job)["memory"]["used"])

    def open(self, *options, columns=100, rows=30):
        screen = Tmux(self.m.dir, self.m.env, columns, rows)
        self.addCleanup(screen.close)
        screen.begin()
        screen.type(shlex.join([program("gpuman"), "top", "--interval", "200ms", *options]))
        screen.keys("Enter")
        screen.shows("[1 Jobs]", "train", "bert")
        return screen

    def chosen(self, screen):
        return next((line for line in screen.lines() if line.startswith("> ")), "")

    def choose(self, screen, name):
        screen.keys("Home")
        for _ in range(10):
            if name in self.chosen(screen):
                return
            before = self.chosen(screen)
            screen.keys("Down")
            until("another row is chosen", lambda: self.chosen(screen) != before, screen.text)
        self.fail(f"{name} is in no row: {screen.text()}")


class TmuxTest(TmuxCase):
    def test_jobs_and_their_processes_are_a_tree_below_the_gpus(self):
        screen = self.open()
        lines = screen.lines()
        self.assertRegex(lines[2], r"^0   H200 +healthy +MEM .* [0-9.]+[MG]iB/4GiB +UTIL .*%")
        rows = [line for line in lines if "train" in line or "└─" in line]
        self.assertRegex(rows[0], r"^> +\d+ train +\S+ +running +0 ")
        self.assertRegex(rows[1], r"^ +└─ \d+ ")
        until("plots have begun", lambda: any(0x2800 < ord(c) < 0x2900 for c in screen.text()), screen.text)

    def test_clocks_and_pcie_are_read_while_it_is_open(self):
        screen = self.open()
        figures = re.compile(r"^    FAN +n/a  SM +\d+MHz  MEM +\d+MHz  PCIE TX +\S+B/s RX +\S+B/s$")
        until("both GPUs have them", lambda: sum(bool(figures.match(line.rstrip())) for line in screen.lines()) == 2, screen.text)

    def test_units_versions_and_the_limit_of_the_power_are_shown_where_there_is_room(self):
        screen = self.open(columns=140)
        screen.shows("driver 580.159.04, CUDA 13.0")
        units = re.compile(r"  PERF  P0  MBW +\d+%  ENC +0%  DEC +0%  LINK gen 5 x16$")
        until("both GPUs have units and a limit", lambda: (lines := [line.rstrip() for line in screen.lines()]) and
              sum(bool(units.search(line)) for line in lines) == 2 and sum(bool(re.search(r" \d+/700W$", line)) for line in lines) == 2, screen.text)
        screen.resize(80, 24)
        screen.leaves("driver 580")
        until("the limit has room, units have none", lambda: re.search(r" \d+/700W$", screen.lines()[2].rstrip()) and
              "MBW" not in screen.text(), screen.text)
        screen.type("h")
        screen.shows("driver 580.159.04, CUDA 13.0")

    def test_the_use_of_a_gpu_is_that_of_each_process(self):
        busy = self.start("busy", self.load("64MiB", "--hold", "1h", "--kernel-time", "20ms"), gpus=["1"])
        screen = self.open()

        def use(row):
            found = (re.match(row + r" +\S+ +(?:running +)?1 +(\d+)% ", line) for line in screen.lines())
            return next((int(one[1]) for one in found if one), None)
        until("one works, one does not", lambda: (use(".* busy") or 0) > 50 and use(".* bert") == 0, screen.text)
        pids = {process["job"]: process["pid"] for process in self.request("GET", "/v1/gpus").json()["gpus"][1]["processes"]}
        until("so it is with their processes", lambda: (use(f".*─ {pids[busy]}") or 0) > 50 and use(f".*─ {pids[self.bert]}") == 0, screen.text)
        screen.type("l")
        until("who works most comes first", lambda: [name for line in screen.lines() for name in ("train", "bert", "busy") if f" {name} " in line][:1]
              == ["busy"], screen.text)

    def test_jobs_are_sorted_by_keys_and_titles(self):
        screen = self.open()

        def order():
            return [name for line in screen.lines() for name in ("train", "bert") if f" {name} " in line]
        self.assertEqual(order(), ["train", "bert"], "by memory")
        screen.type("i")
        until("it is the other way round", lambda: order() == ["bert", "train"], screen.text)
        screen.click(*screen.place("USER"))
        screen.shows("USER>")
        screen.type("p")
        screen.leaves("USER>")
        self.assertEqual(sorted(order()), ["bert", "train"])

    def test_a_filter_leaves_what_fits_it(self):
        screen = self.open()
        screen.type("/gpu:1")
        screen.leaves("train")
        screen.keys("Enter")
        screen.shows("/gpu:1", "bert")
        screen.keys("Escape")
        screen.shows("train")
        screen.type("/nobody-has-this")
        screen.shows("Nothing fits the filter")
        screen.keys("Escape")
        screen.shows("train", "bert")

    def test_a_job_is_suspended_after_yes_and_resumed(self):
        screen = self.open()
        self.choose(screen, "train")
        screen.type("s")
        screen.shows(f"suspend job {self.train} 'train' of", "? y/n")
        screen.type("n")
        screen.leaves("? y/n")
        self.assertEqual(self.job(self.train)["state"], "running")
        screen.type("s")
        screen.shows("? y/n")
        screen.type("y")
        self.becomes(self.train, "suspended")
        until("it is shown", lambda: "suspended" in next(line for line in screen.lines() if " train " in line), screen.text)
        screen.type("r")
        screen.shows(f"resume job {self.train}")
        screen.type("y")
        self.becomes(self.train, "running")

    def test_a_refusal_has_the_words_of_the_daemon(self):
        over = self.start("over", "true")
        self.becomes(over, "finished")
        screen = self.open()
        self.choose(screen, "over")
        screen.type("s")
        screen.shows(f"suspend job {over} 'over'", "? y/n")
        screen.type("y")
        refused = self.request("POST", f"/v1/jobs/{over}/suspend")
        self.assertNotEqual(refused.status, 200)
        screen.shows("! " + refused.json()["error"]["message"][:40])

    def test_a_job_is_ended_and_leaves_the_list(self):
        screen = self.open()
        self.choose(screen, "bert")
        screen.type("e")
        screen.shows(f"end job {self.bert} 'bert'")
        screen.type("y")
        until("it is gone", lambda: "bert" not in "".join(screen.lines()[:-3]), screen.text)
        # The lists do not have it while its deletion is on the way to the disk.
        until("it is no job", lambda: self.request("GET", f"/v1/jobs/{self.bert}").status == 404)

    def test_a_job_has_a_page_with_its_log(self):
        screen = self.open()
        self.choose(screen, "bert")
        screen.keys("Enter")
        screen.shows(f"job {self.bert} 'bert' of", "log, its end", "bert begins", "why", "RR")
        screen.keys("Escape")
        screen.shows("[1 Jobs]")

    def test_the_queue_shows_who_waits_and_why(self):
        waits = self.request("POST", "/v1/submissions", {
            "jobs": [{"name": "later", "command": ["true"], "gpus": {"count": 2}}], "directory": "/", "environment": {}})
        self.assertEqual(waits.status, 201, waits.body)
        screen = self.open()
        screen.keys("Tab")
        screen.shows("[2 Queue]", "REASON", "later")
        job = waits.json()["jobs"][0]["id"]
        until("its reason and place are shown", lambda: any(
            re.match(rf"^> +1 +{job} +later .* {self.job(job)['reason']} *$", line) for line in screen.lines()), screen.text)
        screen.type("c")
        screen.shows(f"cancel job {job} 'later' of", "? y/n")
        screen.type("y")
        self.becomes(job, "cancelled")
        screen.shows("No job waits.")

    def test_the_page_on_sharing_shows_turns(self):
        for name in "ab":
            self.start(name, self.load("256MiB", "--hold", "1h", "--kernel-time", "20ms"), gpus=["1"], share=True)
        screen = self.open()
        screen.type("3")
        screen.shows("[3 Sharing]", "GPU 1: ", "OVER TIME", " a ", " b ")
        until("turns are drawn", lambda: any(level in screen.text() for level in "▂▃▄▅▆▇█"), screen.text)

    def test_the_mouse_chooses_pages_and_rows(self):
        screen = self.open()
        self.choose(screen, "train")
        screen.click(*screen.place(" bert "))
        until("it is chosen", lambda: "bert" in self.chosen(screen), screen.text)
        screen.click(*screen.place(" bert "))
        screen.shows(f"job {self.bert} 'bert' of")
        screen.keys("Escape")
        screen.shows("[1 Jobs]")
        screen.click(*screen.place("4 Processes"))
        screen.shows("[4 Processes]", "gpuman-load")
        first = self.chosen(screen)
        screen.click(5, 20, button=65)
        until("the wheel goes on", lambda: self.chosen(screen) != first, screen.text)

    def test_every_size_is_drawn_and_the_terminal_is_left_as_it_was(self):
        screen = self.open()
        for columns, rows in ((80, 24), (300, 100), (30, 8), (10, 3), (100, 30)):
            screen.resize(columns, rows)
            until("it fits", lambda: len(screen.lines()) >= rows and "gpuman top"[:columns - 1] in screen.lines()[0], screen.text)
        screen.shows("train", "bert", "q quit")
        screen.type("q")
        screen.shows("shell$")
        self.assertNotIn("train", screen.text().split("top")[-1], "the earlier screen is back")
        screen.type("echo it is $((6*7))")
        screen.keys("Enter")
        screen.shows("it is 42")
        screen.click(3, 3)
        self.assertEqual(screen.run("display-message", "-p", "#{mouse_any_flag}#{alternate_on}#{cursor_flag}").strip(), "001")

    def test_it_stops_and_goes_on_as_other_programs(self):
        screen = self.open()
        screen.keys("C-z")
        screen.shows("shell$", "Stopped")
        self.assertEqual(screen.run("display-message", "-p", "#{mouse_any_flag}#{alternate_on}#{cursor_flag}").strip(), "001")
        screen.type("fg")
        screen.keys("Enter")
        screen.shows("[1 Jobs]", "train")
        screen.type("2")
        screen.shows("[2 Queue]")
        screen.type("q")
        screen.shows("shell$")

    def test_keys_work_while_the_daemon_is_silent(self):
        screen = self.open()
        self.m.daemon.send_signal(signal.SIGSTOP)
        try:
            screen.shows("has not answered for")
            screen.type("h")
            screen.shows("suspend, resume the chosen job")
            screen.type("x")
            screen.shows("train")
        finally:
            self.m.daemon.send_signal(signal.SIGCONT)
        screen.leaves("old figures")
        self.m.stop_daemon()
        screen.shows("old figures", "no daemon serves")
        self.m.start_daemon()
        screen.leaves("old figures")
        screen.shows("train")

    def test_it_quits_while_the_daemon_is_silent(self):
        screen = self.open()
        self.m.daemon.send_signal(signal.SIGSTOP)
        try:
            screen.shows("has not answered for")
            self.choose(screen, "train")
            screen.type("s")
            screen.shows("? y/n")
            screen.type("y")
            screen.shows("asked")
            screen.type("q")
            screen.shows("shell$")
            screen.type("echo it is $((6*7))")
            screen.keys("Enter")
            screen.shows("it is 42")
        finally:
            self.m.daemon.send_signal(signal.SIGCONT)

    def test_without_colours_and_without_unicode(self):
        screen = self.open("--ascii")
        self.assertTrue(screen.text().isascii(), screen.text())
        screen.type("q")
        screen.shows("shell$")
        screen.type("NO_COLOR=1 " + shlex.join([program("gpuman"), "top"]))
        screen.keys("Enter")
        screen.shows("[1 Jobs]", "train")
        self.assertNotRegex(screen.text("-e"), r"\x1b\[[0-9;]*\b([34][0-8]|9[0-7])\b", "a colour")


@unittest.skipUnless(SSHD and shutil.which("ssh"), "sshd or ssh is not installed")
class SshTest(TmuxCase):
    def serve(self):
        """Begins a server of this user's own on a port of the loopback device; the words that reach it."""
        place = self.m.dir / "ssh"
        place.mkdir(mode=0o700)
        for key in "host", "user":
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", place / key], check=True)
        port = free_port()
        (place / "config").write_text(
            f"Port {port}\nListenAddress 127.0.0.1\nHostKey {place}/host\nAuthorizedKeysFile {place}/user.pub\nPidFile none\nUsePAM no\n"
            "StrictModes no\nPermitRootLogin prohibit-password\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n")
        if os.geteuid() == 0:  # root's server insists on it
            pathlib.Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        log = place / "log"
        server = subprocess.Popen([SSHD, "-D", "-e", "-f", place / "config"], stderr=log.open("w"))
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        until("it listens", lambda: "Server listening" in log.read_text() or server.poll() is not None, log.read_text)
        if server.poll() is not None:
            self.skipTest(f"sshd does not run here: {log.read_text()}")
        return ["ssh", "-F", "none", "-p", str(port), "-i", str(place / "user"), "-o", "IdentitiesOnly=yes", "-o", "StrictHostKeyChecking=no",
                "-o", f"UserKnownHostsFile={place}/known", f"{getpass.getuser()}@127.0.0.1"]

    def test_it_works_over_ssh(self):
        ssh = self.serve()
        screen = Tmux(self.m.dir, self.m.env)
        self.addCleanup(screen.close)
        screen.begin()
        remote = shlex.join(["env", f"GPUMAN_SOCKET={self.m.env['GPUMAN_SOCKET']}", "LC_ALL=C.UTF-8", program("gpuman"), "top", "--interval", "200ms"])
        screen.type(shlex.join([*ssh[:1], "-t", *ssh[1:], remote]))
        screen.keys("Enter")
        screen.shows("[1 Jobs]", "train", "bert", "└─", "q quit")
        self.choose(screen, "bert")
        screen.type("s")
        screen.shows(f"suspend job {self.bert} 'bert' of", "? y/n")
        screen.type("y")
        self.becomes(self.bert, "suspended")
        screen.click(*screen.place("4 Processes"))
        screen.shows("[4 Processes]")
        screen.resize(80, 24)
        until("the size comes over ssh", lambda: len(screen.lines()[0]) <= 80 and "q quit" in screen.lines()[23], screen.text)
        screen.type("q")
        screen.shows("shell$", "Connection to 127.0.0.1 closed")
        screen.type("echo it is $((6*7))")
        screen.keys("Enter")
        screen.shows("it is 42")
        self.assertEqual(screen.run("display-message", "-p", "#{mouse_any_flag}#{alternate_on}#{cursor_flag}").strip(), "001")


if __name__ == "__main__":
    unittest.main(verbosity=2)

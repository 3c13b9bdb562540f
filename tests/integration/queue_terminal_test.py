#!/usr/bin/env python3
"""`gpuman run --gpus N --pty` and the commands that follow a job, with a daemon on the simulated driver (2 GPUs).

Usage: queue_terminal_test.py [UNITTEST ARGUMENTS]
"""

import contextlib
import json
import os
import pathlib
import pty
import select
import signal
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))

from daemon_case import DaemonTest, PATIENCE, until  # noqa: E402
from machine import program  # noqa: E402


class Terminal:
    """A command on a terminal of its own, and its output."""

    def __init__(self, case, *arguments):
        self.case, self.shown = case, b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.clear()
            os.environ.update(case.m.env, TERM="dumb")
            os.execv(program("gpuman"), ["gpuman", *arguments])
        case.addCleanup(os.close, self.fd)

    def take(self):
        """Reads what is available; false: there is nothing, or the command has ended and all is read."""
        if not select.select([self.fd], [], [], 1)[0]:
            return False
        data = b""
        with contextlib.suppress(OSError):
            data = os.read(self.fd, 65536)
        self.shown += data
        return data != b""

    def read_until(self, text):
        deadline = time.monotonic() + PATIENCE
        while text not in self.shown and time.monotonic() < deadline:
            self.take()
        self.case.assertIn(text, self.shown)

    def status(self):
        """The exit status of the command, after its end."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            self.take()
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                while self.take():
                    pass
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        raise AssertionError(f"it does not end; it showed {self.shown[-300:]}")


class QueueTerminalTest(DaemonTest):
    profile, gpus = "rtx4050", 2

    def tearDown(self):
        self.go()
        for job in self.request("GET", "/v1/queue").json()["jobs"]:
            self.request("POST", f"/v1/jobs/{job['id']}/cancel")
        super().tearDown()
        (self.m.dir / "go").unlink()

    def go(self):
        (self.m.dir / "go").touch()

    def until_gone_on(self):
        return f"while [ ! -e {self.m.dir / 'go'} ]; do sleep 0.05; done"

    def wait_for(self, job, state):
        return until(f"job {job} is {state}", lambda: self.request("GET", f"/v1/jobs/{job}", checked=False).status == 200
                     and self.job(job)["state"] == state and self.job(job))

    def restart_the_daemon(self):
        self.m.stop_daemon(signal.SIGKILL)
        self.m.start_daemon()

    def test_output_of_a_job_that_ended_unseen_is_shown(self):
        done = self.m.run("submit", "--gpus", "2", "--name", "block", "--", "sh", "-c", self.until_gone_on())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.wait_for("block", "running")
        terminal = Terminal(self, "run", "--gpus", "1", "--tag", "mine", "--pty", "--", "echo", "here I was")
        terminal.read_until(b"waits: ")
        os.kill(terminal.pid, signal.SIGSTOP)
        self.go()
        self.wait_for("mine", "finished")
        os.kill(terminal.pid, signal.SIGCONT)
        self.assertEqual(terminal.status(), 0)
        self.assertIn(b"here I was", terminal.shown)

    def test_command_prints_notice_of_unused_memory_at_the_end(self):
        terminal = Terminal(self, "run", "--gpus", "1", "--tag", "wide", "--memory", "2GiB", "--pty", "--", program("gpuman-load"),
                            "--alloc", "64MiB", "--hold", "0s")
        self.assertEqual(terminal.status(), 0)
        self.assertRegex(terminal.shown, rb"gpuman: job \d+ 'wide': its limit was 2GiB on each GPU.* is enough for such a run")

    def test_large_input_and_output_pass_at_the_same_time(self):
        size = 600_000
        terminal = Terminal(self, "run", "--gpus", "1", "--pty", "--", "sh", "-c",
                            f"stty raw -echo; echo READY; head -c {size} | tee /dev/stderr")
        terminal.read_until(b"READY\n")
        self.assertNotIn(b"waits", terminal.shown, "nothing is in its way")
        terminal.shown = b""

        def feed():
            left = size
            while left:
                left -= os.write(terminal.fd, b"y" * min(left, 4096))

        writer = threading.Thread(target=feed, daemon=True)
        writer.start()
        self.assertEqual(terminal.status(), 0)
        writer.join()
        self.assertEqual(terminal.shown.count(b"y"), 2 * size)

    def test_a_terminal_stays_while_the_daemon_is_restarted(self):
        terminal = Terminal(self, "run", "--gpus", "1", "--tag", "mine", "--pty", "--", "sh", "-c",
                            f"echo BEGAN; {self.until_gone_on()}; echo ENDED; exit 4")
        terminal.read_until(b"BEGAN")
        self.restart_the_daemon()
        self.go()
        self.assertEqual(terminal.status(), 4)
        self.assertIn(b"ENDED", terminal.shown)
        self.assertEqual(self.job("mine")["exit_code"], 4)

    def test_a_waiting_command_survives_a_restart_of_the_daemon(self):
        log, notes = open(self.m.dir / "shown", "wb+"), open(self.m.dir / "notes", "wb+")
        self.addCleanup(log.close)
        self.addCleanup(notes.close)
        options = {"stdin": subprocess.DEVNULL, "stderr": notes}
        stays = self.m.popen("run", "--gpus", "1", "--tag", "mine", "--", "sh", "-c",
                             f"echo BEGAN; {self.until_gone_on()}; echo ENDED; exit 4", stdout=log, **options)
        until("it shows the output", lambda: (self.m.dir / "shown").read_bytes() == b"BEGAN\n")
        waits = self.m.popen("job", "wait", "mine", stdout=subprocess.PIPE, **options)
        until("it waits", lambda: len(self.connections_to(waits.pid)) > 0)
        self.m.stop_daemon(signal.SIGKILL)
        until("both say what they wait for", lambda: (self.m.dir / "notes").read_bytes().count(
            b"the daemon is not reachable") == 2)
        self.m.start_daemon()
        self.go()
        self.assertEqual(stays.wait(timeout=PATIENCE), 4)
        self.assertEqual((self.m.dir / "shown").read_bytes(), b"BEGAN\nENDED\n", "each line once")
        told, _ = waits.communicate(timeout=PATIENCE)
        self.assertEqual(waits.returncode, 4)
        self.assertIn(b"has ended: failed", told)

    def test_a_following_command_goes_on_after_a_restart(self):
        last = max((event["id"] for event in self.events()), default=0)
        done = self.m.run("submit", "--gpus", "1", "--name", "mine", "--", "sh", "-c",
                          f"echo ONE; echo TWO; {self.until_gone_on()}; echo THREE")
        self.assertEqual(done.returncode, 0, done.stderr)
        until("it writes", lambda: "TWO" in self.m.run("logs", "mine").stdout)
        followers = {name: open(self.m.dir / name, "wb+") for name in ("tail", "job log", "events")}
        for file in followers.values():
            self.addCleanup(file.close)
        options = {"stdin": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        tail = self.m.popen("logs", "mine", "-f", "-n", "1", stdout=followers["tail"], **options)
        whole = self.m.popen("job", "log", "-f", "mine", stdout=followers["job log"], **options)
        events = self.m.popen("--json", "events", "-f", "--since", str(last), stdout=followers["events"], **options)
        shown = lambda name: (self.m.dir / name).read_bytes()
        until("they show what is there", lambda: shown("tail") == b"TWO\n" and shown("job log") == b"ONE\nTWO\n")
        until("it shows events", lambda: shown("events"))
        self.restart_the_daemon()
        self.go()
        self.assertEqual((tail.wait(timeout=PATIENCE), whole.wait(timeout=PATIENCE)), (0, 0))
        self.assertEqual((shown("tail"), shown("job log")), (b"TWO\nTHREE\n", b"ONE\nTWO\nTHREE\n"))
        kinds = lambda: [json.loads(line)["kind"] for line in shown("events").splitlines()]
        until("the job's end was told", lambda: "job_finished" in kinds())
        self.assertEqual(kinds().count("job_finished"), 1, kinds())
        self.assertIsNone(events.poll())
        events.terminate()
        events.wait(timeout=PATIENCE)

    def connections_to(self, pid):
        """The sockets that the process has open."""
        found = []
        for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if os.readlink(fd).startswith("socket:"):
                    found.append(fd)
        return found


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""What a keeper does that takes over from a killed one.

The job's limit holds for what it starts even before the daemon knows it; and it starts nothing where it cannot know
what was started before.

Usage: new_keeper_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import os
import pathlib
import shutil
import signal
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from daemon_case import DaemonTest, NOBODY, needs_reach, until  # noqa: E402
from machine import build_dir, has_ended, program  # noqa: E402

OUT_OF_MEMORY = 3  # gpuman-load's exit status


class NewKeeperTest(DaemonTest):
    """While the file `slow` exists, the daemon learns of a keeper a second after the keeper began."""

    memory = "4GiB"
    config = '[sampling]\nrest = "20ms"\n[restart]\ninitial_delay = "1ms"\n[jobs]\nstop_grace = "100ms"\n'

    @classmethod
    def prepare(cls):
        built = build_dir()
        tree = pathlib.Path(tempfile.mkdtemp(prefix="gpuman-test-"))
        cls.addClassCleanup(shutil.rmtree, tree)
        cls.slow = tree / "slow"
        (tree / "bin").mkdir()
        (tree / "lib").symlink_to(built / "lib")
        for path in (built / "bin").iterdir():
            if path.name not in ("gpumand", "gpuman-keeper"):
                (tree / "bin" / path.name).symlink_to(path)
        # gpumand starts the programs beside it; a link would lead it back to the build tree.
        shutil.copy2(built / "bin" / "gpumand", tree / "bin")
        keeper = tree / "bin" / "gpuman-keeper"
        keeper.write_text(f'#!/bin/sh\n{built}/bin/gpuman-keeper "$@"\nstatus=$?\n[ ! -e {cls.slow} ] || sleep 1\nexit $status\n')
        keeper.chmod(0o755)
        before = os.environ.get("GPUMAN_BUILD_DIR")
        os.environ["GPUMAN_BUILD_DIR"] = str(tree)
        cls.addClassCleanup(lambda: os.environ.pop("GPUMAN_BUILD_DIR") if before is None else
                            os.environ.update(GPUMAN_BUILD_DIR=before))
        if os.geteuid() != 0:
            return
        # A system daemon: it serves every user.
        for path in (tree, cls.m.dir):
            path.chmod(0o755)
        cls.m.daemon_arguments = lambda: ["--config", cls.m.env["GPUMAN_CONFIG"], "--socket", cls.m.env["GPUMAN_SOCKET"],
                                          "--state-dir", cls.m.env["GPUMAN_STATE_DIR"]]

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="gpuman-test-"))
        self.addCleanup(shutil.rmtree, self.dir)
        self.slow.unlink(missing_ok=True)

    def lose_keeper(self, with_daemon=False):
        """The exit status of the job's second run, which asks for more than its limit."""
        status = self.dir / "status"
        first = self.dir / "first"
        script = (f"[ -e {first} ] || {{ touch {first}; exec sleep 1000; }}; "
                  f"{program('gpuman-load')} --alloc 2GiB; echo $? >{status}.new; mv {status}.new {status}; exec sleep 1000")
        job = self.start("again", script, memory="1GiB", restart="always")
        self.addCleanup(self.request, "DELETE", "/v1/jobs/again")
        until("its first run is there", first.exists)
        keeper = parent_of(self.becomes("again", "running")["pid"])
        self.slow.touch()
        if with_daemon:
            self.m.stop_daemon(signal.SIGKILL)
        os.kill(keeper, signal.SIGKILL)
        if with_daemon:
            self.m.start_daemon()
        until("its second run has asked", status.exists)
        self.assertEqual(self.job("again")["id"], job)
        return int(status.read_text())

    def test_a_run_of_a_new_keeper_waits_for_the_daemon(self):
        self.assertEqual(self.lose_keeper(), OUT_OF_MEMORY)

    def test_a_run_of_a_new_keeper_waits_for_a_restarted_daemon(self):
        self.assertEqual(self.lose_keeper(with_daemon=True), OUT_OF_MEMORY)

    @unittest.skipIf(os.geteuid() != 0, "needs root, whose jobs run as whom they like")
    def test_a_run_of_another_user_waits_for_the_daemon(self):
        needs_reach(self, program("gpuman-load"))
        simulation = pathlib.Path(self.m.env["GPUMAN_SIM_DIR"])
        simulation.parent.chmod(0o755)
        for path in (simulation, *simulation.rglob("*")):
            path.chmod(0o777 if path.is_dir() else 0o666)
        self.slow.touch()
        self.dir.chmod(0o777)
        status = self.dir / "status"
        as_nobody = f"setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups"
        self.start("other", f"{as_nobody} {program('gpuman-load')} --alloc 2GiB; echo $? >{status}.new; mv {status}.new {status}; exec sleep 1000",
                   memory="1GiB")
        until("it has asked", status.exists)
        self.assertEqual(int(status.read_text()), OUT_OF_MEMORY, self.log("other"))


class DamagedRecordsTest(DaemonTest):
    """Keeper and daemon of a job are killed, and what the next ones find is not what was written."""

    config = '[restart]\ninitial_delay = "1ms"\n'

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="gpuman-test-"))
        self.addCleanup(shutil.rmtree, self.dir)
        # A job that restarts whenever it ends and leaves a process behind; and one to which nothing happens.
        self.id = self.start("train", f"echo ran >> {self.dir}/count; setsid sleep 1000 & echo $! > {self.dir}/left.new; "
                                      f"mv {self.dir}/left.new {self.dir}/left; exec sleep 1000", restart="always")
        until("it has started its process", (self.dir / "left").exists)
        self.pids = [self.becomes("train", "running")["pid"], int((self.dir / "left").read_text())]
        # Once this job is stored, so is all that the daemon has said of the other one before.
        self.start("other", "exec sleep 1000")
        self.other = self.becomes("other", "running")["pid"]
        self.job_dir = pathlib.Path(self.m.env["GPUMAN_STATE_DIR"]) / "jobs" / str(self.id)
        keeper = parent_of(self.pids[0])
        self.m.stop_daemon(signal.SIGKILL)
        os.kill(keeper, signal.SIGKILL)
        until("its keeper is gone", lambda: has_ended(keeper))

    def ends(self, file, remark):
        """Starts a daemon, which finds that the job's records are damaged."""
        self.m.start_daemon()
        ended = self.wait("train")
        self.assertEqual((ended["state"], ended["reason"], ended["exit_code"]), ("failed", "keeper_lost", None))
        for words in (str(file), remark, "the command was not run again", "gpuman restart train"):
            self.assertIn(words, ended["reason_detail"])
        self.assertEqual((self.dir / "count").read_text(), "ran\n")
        for pid in self.pids:
            self.assertTrue(has_ended(pid), f"process {pid} of the first run lives")
        self.assertEqual(self.becomes("other", "running")["pid"], self.other)
        self.assertFalse(has_ended(self.other))

    def test_a_job_whose_first_record_was_altered_is_not_run_again(self):
        journal = self.job_dir / "journal"
        text = journal.read_text()
        altered = text.replace('"keeper"', '"keeqer"', 1)
        self.assertNotEqual(altered, text)
        journal.write_text(altered)
        self.ends(journal, f"line 1 of {journal} is damaged")
        self.assertEqual(journal.read_text(), altered, "it is kept as it is")
        # Nor by the next daemon; but by its user.
        self.m.stop_daemon(signal.SIGKILL)
        self.m.start_daemon()
        self.assertEqual(self.job("train")["reason"], "keeper_lost")
        self.assertEqual((self.dir / "count").read_text(), "ran\n")
        self.m.run("restart", "train")
        until("it runs again", lambda: (self.dir / "count").read_text() == "ran\nran\n", self.what_stands)

    def test_a_job_whose_last_record_was_altered_is_not_run_again(self):
        journal = self.job_dir / "journal"
        lines = journal.read_text().splitlines()
        lines[-1] = "0" + lines[-1][:-1]
        journal.write_text("".join(line + "\n" for line in lines))
        self.ends(journal, f"line {len(lines)} of {journal} is damaged")

    def test_a_job_whose_journal_is_gone_is_not_run_again(self):
        journal = self.job_dir / "journal"
        journal.unlink()
        self.ends(journal, "is damaged: it ends with record 0")

    def test_a_job_of_which_all_files_are_gone_is_not_run_again(self):
        shutil.rmtree(self.job_dir)
        self.pids = self.pids[:1]  # the key of the other, where the job has no cgroup, is gone with the files
        self.ends(self.job_dir / "journal", "is damaged: it ends with record 0")


def parent_of(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


if __name__ == "__main__":
    unittest.main()

"""A thousand processes of one job at once: each counts in the job's ledger, and afterwards the ledger is empty.

GPUMAN_MANY_STARTS of them start at the same time (default: all): each waits for the daemon's answer, however many ask
before it. Runs on the driver that it sees; the device must have room for as many contexts. GPUMAN_BUILD_DIR names the
build.
"""

import contextlib
import os
import pathlib
import select
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
import ledger  # noqa: E402
import machine  # noqa: E402

MIB = 1 << 20
PROCESSES = 1000
EACH = 2 * MIB
STARTS = int(os.environ.get("GPUMAN_MANY_STARTS", PROCESSES))


class ThousandProcesses(unittest.TestCase):
    def test_count_each_and_leave_nothing(self):
        with contextlib.ExitStack() as stack:
            socket = stack.enter_context(tempfile.TemporaryDirectory(prefix="gpuman-many-")) + "/shim.sock"
            uuid = ledger.Nvml().uuid()
            limit = PROCESSES * EACH
            served = stack.enter_context(ledger.Ledger(socket, "--gpu", uuid, limit, 0))
            command = [str(machine.build_dir() / "tests/race_load"), "--take", str(EACH // MIB)]
            # All of them read from one pipe and write to another.
            hold, held = os.pipe()
            said, says = os.pipe()
            processes, answers = [], b""
            while len(processes) < PROCESSES:
                for _ in range(min(STARTS, PROCESSES - len(processes))):
                    processes.append(subprocess.Popen(command, stdin=hold, stdout=says, env=ledger.preloaded(socket)))
                    stack.callback(processes[-1].kill)
                while answers.count(b"\n") < len(processes):
                    self.assertTrue(select.select([said], [], [], 60)[0], "a process says nothing")
                    answers += os.read(said, 65536)
            self.assertEqual(answers, b"ready\n" * PROCESSES)
            self.assertEqual(served("joined"), str(PROCESSES))
            self.assertEqual(served("used", uuid), str(limit))
            registered = [served("registered", process.pid) for process in processes]
            self.assertEqual(registered.count("yes"), PROCESSES)
            one_more = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False,
                                      env=ledger.preloaded(socket))
            self.assertEqual(one_more.returncode, 5, one_more)
            self.assertIn(b"OUT_OF_MEMORY", one_more.stderr)
            for descriptor in (hold, held, says):
                os.close(descriptor)
            self.assertEqual({process.wait() for process in processes}, {0})
            os.close(said)
            served.until_given_back(uuid)
            self.assertEqual(served("intact"), "yes")


if __name__ == "__main__":
    unittest.main()

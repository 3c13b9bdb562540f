#!/usr/bin/env python3
"""Programs that gpuman starts for a user: the effects of the user's environment, files and set-user-ID programs.

Usage: programs_test.py [UNITTEST ARGUMENTS]    (as root; GPUMAN_BUILD_DIR names the build tree)
"""

import os
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from hostile_case import ATTACKER, NEIGHBOUR, HostileTest, main, until  # noqa: E402
from machine import program  # noqa: E402
from users import read_line  # noqa: E402

# Records which processes load it.
LIBRARY = r"""
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
__attribute__((constructor)) static void Begin(void) {
  char name[256] = "", line[320];
  int fd = open("/proc/self/comm", O_RDONLY);
  if (fd >= 0) { if (read(fd, name, sizeof name - 1) < 0) name[0] = 0; close(fd); }
  name[strcspn(name, "\n")] = 0;
  fd = open("%s", O_WRONLY | O_APPEND | O_CREAT, 0666);
  if (fd < 0) return;
  int n = snprintf(line, sizeof line, "%%d %%s\n", (int)geteuid(), name);
  if (write(fd, line, n) < 0) return;
  close(fd);
}
unsigned la_version(unsigned version) { return version; }
"""

# Waits where a terminal's caller would, and sends a command to the client that comes.
CALLER = """
import socket, struct, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
import os
os.chmod(sys.argv[1], 0o777)
print("listens", flush=True)
peer = listener.accept()[0]
typed = f"touch {sys.argv[2]}\\n".encode()
try:
    peer.sendall(b"d" + struct.pack("I", len(typed)) + typed)
except OSError:
    pass
print("came", flush=True)
sys.stdin.read()
"""

# Lets a job write to a terminal for a while, then stops reading.
WATCHER = """
import os, pty, signal, sys
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
taken, last = 0, b""
while taken < 1 << 20:
    try:
        last = os.read(fd, 65536)
    except OSError:  # it has ended
        sys.exit(f"after {taken} bytes: {last[-400:]!r}, status {os.waitpid(pid, 0)[1]}")
    taken += len(last)
os.kill(pid, signal.SIGSTOP)
print("stopped", flush=True)
sys.stdin.read()
os.kill(pid, signal.SIGKILL)
"""


class Programs(HostileTest):
    config = '[sampling]\nrest = "20ms"\n[jobs]\nstop_grace = "100ms"\n'

    @unittest.skipUnless(shutil.which("cc"), "needs a compiler")
    def test_loader_variables_and_those_of_gpuman_reach_no_program_but_the_job(self):
        scratch = self.scratch(ATTACKER)
        seen = scratch / "seen"
        source = scratch / "library.c"
        source.write_text(LIBRARY % seen)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", scratch / "library.so", source], check=True)
        seen.touch()
        seen.chmod(0o666)
        request = self.run_request("loader", f"{program('gpuman-load')} --alloc 64MiB --hold 1h", share=True)
        nowhere = str(scratch / "nowhere")
        request["environment"].update({
            "LD_PRELOAD": str(scratch / "library.so"), "LD_AUDIT": str(scratch / "library.so"), "BASH_ENV": nowhere, "ENV": nowhere,
            "GPUMAN_SOCKET": nowhere, "GPUMAN_STATE_DIR": nowhere, "GPUMAN_CONFIG": nowhere, "GPUMAN_JOB_ID": "1", "GPUMAN_JOB_KEY": "x",
            "GPUMAN_SHIM_SOCKET": nowhere, "MALLOC_TRACE": nowhere, "GCONV_PATH": str(scratch), "PYTHONPATH": str(scratch)})
        answered = self.as_user(ATTACKER, "POST", "/v1/jobs", request)
        self.assertEqual(answered.status, 201, answered)
        job = answered.json()["id"]
        until("it has its memory", lambda: (self.job(job)["memory"]["used"] or 0) > 64 << 20)
        # So that the daemon starts a mover for the user.
        self.as_user(ATTACKER, "POST", f"/v1/jobs/{job}/suspend")
        until("it is suspended, or runs on", lambda: self.job(job)["state"] in ("suspended", "running"))
        loaded = [line.split(" ", 1) for line in seen.read_text().splitlines()]
        self.assertTrue(loaded, "the job itself has its user's library")
        self.assertEqual({uid for uid, _ in loaded}, {str(ATTACKER.uid)}, loaded)
        self.assertFalse([name for _, name in loaded if name.startswith(("gpumand", "gpuman-keeper", "gpuman-mover"))], loaded)
        self.assertFalse(pathlib.Path(nowhere).exists())

    def test_a_set_user_id_program_in_a_job_ends_with_it(self):
        scratch = self.scratch(ATTACKER)
        root_sleep = scratch / "root-sleep"
        shutil.copy(shutil.which("sleep"), root_sleep)
        os.chown(root_sleep, 0, 0)
        root_sleep.chmod(0o4755)
        job = self.start_as(ATTACKER, "setuid", f"{root_sleep} 100000 & {root_sleep} 100000; wait")

        def as_root():
            return [pid for pid in self.pids_of(root_sleep) if os.stat(f"/proc/{pid}").st_uid == 0]

        until("both run", lambda: len(self.pids_of(root_sleep)) == 2)
        if len(as_root()) != 2:
            self.skipTest("set-user-ID bits do nothing where this directory is mounted, or jobs gain no privileges")
        with self.beside("set-user-ID programs in the own job"):
            pass
        removed = self.as_user(ATTACKER, "DELETE", f"/v1/jobs/{job}")
        self.assertEqual(removed.status, 200, removed)
        until("none is left", lambda: not self.pids_of(root_sleep))

    def test_another_user_in_the_place_of_a_terminals_caller_types_nothing(self):
        place, made = self.scratch(ATTACKER), self.scratch(NEIGHBOUR) / "made"
        place.chmod(0o755)
        caller = self.python_as(ATTACKER, CALLER, place / "s", made)
        self.assertEqual(read_line(caller), "listens")
        # The command of a `gpuman run --pty` whose own side is gone.
        job = self.start_as(NEIGHBOUR, "terminal", f"exec {program('gpuman')} __terminal {place / 's'} sh")
        ended = self.wait(job)
        self.assertEqual(read_line(caller), "came")
        self.assertEqual((ended["state"], made.exists()), ("failed", False), ended)
        self.assertIn("another user's", self.as_user(NEIGHBOUR, "GET", f"/v1/jobs/{job}/log").body)

    def test_a_terminal_whose_owner_takes_nothing_holds_up_nobody(self):
        with self.beside("a job that writes to a terminal without end, whose owner takes nothing"):
            client = self.scratch(ATTACKER) / "gpuman"  # the build may be where the user cannot reach it
            shutil.copy(program("gpuman"), client)
            watcher = self.python_as(ATTACKER, WATCHER, client, "run", "--gpus", "1", "--tag", "talks", "--pty", "--", "yes")
            self.assertEqual(read_line(watcher), "stopped")
        cancelled = self.as_user(ATTACKER, "POST", "/v1/jobs/talks/cancel")
        self.assertEqual(cancelled.status, 200, cancelled)
        self.assertEqual(self.wait("talks")["state"], "cancelled")

    @staticmethod
    def pids_of(executable):
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(entry / "exe") == str(executable):
                    found.append(int(entry.name))
            except OSError:
                pass
        return found


if __name__ == "__main__":
    main()

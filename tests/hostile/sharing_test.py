#!/usr/bin/env python3
"""What a user may do with their own job on a GPU shared with a neighbour's: the job must not keep the neighbour out.

Usage: sharing_test.py [UNITTEST ARGUMENTS]    (as root; GPUMAN_BUILD_DIR names the build tree)
"""

import json
import os
import pathlib
import shutil
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
from hostile_case import ATTACKER, NEIGHBOUR, HostileTest, main  # noqa: E402
from daemon_case import until  # noqa: E402
from share_test import learn_what_a_context_takes  # noqa: E402

PYTHON = "/usr/bin/python3"  # which both users may run, wherever the test's own interpreter is
PROGRAM = pathlib.Path(__file__).resolve().parents[1] / "integration" / "share_program.py"

# Stops a process as soon as it continues, without end.
STOP_AGAIN = """
import os, signal, sys
pid = int(sys.argv[1])
print("begins", flush=True)
while True:
    os.kill(pid, signal.SIGSTOP)
"""

# Runs a program, and holds the threads of its libgpuman.so, and no other, while the file "hold" is in the directory.
HOLDS_THREADS = """
import ctypes, os, pathlib, subprocess, sys, time
SEIZE, INTERRUPT, DETACH, EVERY_THREAD = 0x4206, 0x4207, 17, 0x40000000
ptrace = ctypes.CDLL(None, use_errno=True).ptrace
ptrace.restype, ptrace.argtypes = ctypes.c_long, [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
directory, program, held = pathlib.Path(sys.argv[1]), subprocess.Popen(sys.argv[2:]), []

def ask(request, thread):
    if ptrace(request, thread, None, None) != 0:
        sys.exit(f"ptrace {request:#x}: {os.strerror(ctypes.get_errno())}")

def threads():
    for task in pathlib.Path(f"/proc/{program.pid}/task").iterdir():
        try:
            if (task / "comm").read_text() == "gpuman\\n":
                yield int(task.name)
        except OSError:  # it has ended
            pass

while program.poll() is None:
    if (directory / "hold").exists() and not held:
        for thread in list(threads()):
            ask(SEIZE, thread)
            ask(INTERRUPT, thread)
            os.waitpid(thread, EVERY_THREAD)
            held.append(thread)
        (directory / "held").write_text(str(len(held)))
    elif held and not (directory / "hold").exists():
        while held:
            ask(DETACH, held.pop())
        (directory / "held").unlink()
    time.sleep(0.01)
sys.exit(program.returncode)
"""


class SharingCase(HostileTest):
    """Room for two contexts of 104 MiB, and for the memory of one job."""
    memory = "4GiB"
    config = """
[sampling]
rest = "20ms"
[share]
capacity = "211MiB"
quantum_min = "10ms"
quantum_max = "10ms"
idle = "2ms"
yield_limit = "200ms"
retry = "100ms"
answer_limit = "500ms"
[suspend]
patience = "10s"
[log]
level = "debug"
"""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # The simulated driver is a file that all its users write.
        simulation = pathlib.Path(cls.m.env["GPUMAN_SIM_DIR"])
        simulation.parent.chmod(0o755)
        for path in (simulation, *simulation.rglob("*")):
            path.chmod(0o777 if path.is_dir() else 0o666)
        learn_what_a_context_takes(cls.m)

    def sharing(self, user, tag, gpu="0"):
        directory = self.scratch(user)
        shutil.copy(PROGRAM, directory)  # the checkout may lie below a home that is closed to the user
        self.stops = {**getattr(self, "stops", {}), tag: directory / "stop"}
        return self.start_as(user, tag, f"exec {PYTHON} {directory / PROGRAM.name} {directory / 'stop'} --rest 0.005",
                             gpus=[gpu], share=True)

    def share(self, **settings):
        return self.request("PUT", "/v1/share", settings).json()

    def tenant(self, job):
        return next((one for gpu in self.request("GET", "/v1/share").json()["gpus"] for one in gpu["jobs"] if one["id"] == job), None)

    def goes_on(self, tag, more=0.05):
        had = (self.tenant(self.job(tag)["id"]) or {"had_turn": 0})["had_turn"]
        until(f"{tag} has had a longer turn",
              lambda: (one := self.tenant(self.job(tag)["id"])) and one["had_turn"] >= had + more, self.what_stands)

    def runs(self, tag):
        """If no other job wants the GPU, turns are not counted: the gate is open, and `ends_right` checks the work."""
        until(f"{tag} runs", lambda: (one := self.tenant(self.job(tag)["id"])) and one["gate"] == "open", self.what_stands)

    @staticmethod
    def signal(pid, number):
        """Sends the signal as the job's user may; a turn is too short to start another process for it."""
        os.kill(pid, number)

    def ends_right(self, tag):
        self.stops[tag].touch()
        ended = self.wait(tag)
        self.assertEqual(ended["state"], "finished", ended)
        said = [json.loads(line) for line in self.log(tag).splitlines() if line.startswith("{")]
        self.assertEqual([one["wrong"] for one in said if "wrong" in one], [0])


class Stopped(SharingCase):
    def setUp(self):
        self.attackers = self.sharing(ATTACKER, "attackers")
        self.neighbours = self.sharing(NEIGHBOUR, "neighbours")
        until("both take part", lambda: all(self.tenant(job) for job in (self.attackers, self.neighbours)))
        self.goes_on("neighbours")
        self.goes_on("attackers")

    def is_let_go_on(self):
        """The user continues the job: again if the signal came during its suspension, since the daemon then stops it as
        it was before."""
        until("it goes on", lambda: self.signal(self.pid(), signal.SIGCONT) or
              (self.job(self.attackers)["state"] == "running" and not self.stands() and self.tenant(self.attackers)["gate"] == "open"))

    def pid(self):
        return self.job(self.attackers)["pid"]

    def stands(self):
        return pathlib.Path(f"/proc/{self.pid()}/stat").read_text().rsplit(") ", 1)[1][0] == "T"

    def what_it_does(self):
        status = pathlib.Path(f"/proc/{self.pid()}/status").read_text()
        return " ".join(line for line in status.splitlines() if line.startswith(("State", "Sig", "Shd"))), self.what_stands()

    def left_alone(self):
        """The process is stopped behind its gate and its memory is off the GPU, so other jobs have the GPU."""
        one = self.tenant(self.attackers)
        try:
            return bool(one) and one["gate"] == "closed" and one["memory"]["resident"] == 0 and self.stands() and "behind"
        except OSError:  # it is being ended
            return False

    def stop_it(self, gate):
        """Its own user stops it while its gate is in this state."""
        def stopped():
            if self.tenant(self.attackers)["gate"] != gate:
                return False
            self.signal(self.pid(), signal.SIGSTOP)
            until("it stands", self.stands, self.what_it_does)
            if self.tenant(self.attackers)["gate"] == gate:
                return True
            self.signal(self.pid(), signal.SIGCONT)
            return False
        until(f"it is stopped with its gate {gate}", stopped)

    def stop_it_at_work(self, stop=None, undo=None):
        """Stops it in its turn, on the GPU. A job that is stopped behind its gate, just after the gate opened, leaves
        without its help."""
        stop = stop or (lambda: self.signal(self.pid(), signal.SIGSTOP))

        def told():
            return sum(event["kind"] == "share_not_yielded" and event["job"] == self.attackers for event in self.events())

        def outcome(seen):
            if self.job(self.attackers)["state"] != "running":
                return "at work"
            gate = (self.tenant(self.attackers) or {}).get("gate")
            # What an attempt before caused may be told late; but one that is stopped at work keeps its gate open.
            return {"closed": "behind its gate", "open": told() > seen and "at work"}.get(gate)

        def stopped():
            if self.tenant(self.attackers)["gate"] != "open":
                return False
            seen = told()
            stop()
            until("it stands", self.stands, self.what_it_does)
            if until("it is seen where it stands", lambda: outcome(seen), self.what_stands) == "at work":
                return True
            (undo or (lambda: None))()
            self.signal(self.pid(), signal.SIGCONT)
            return False
        until("it is stopped at work", stopped)

    def test_a_job_that_is_stopped_in_its_turn_is_suspended_and_comes_back_when_it_goes_on(self):
        with self.beside("a sharing job is stopped in its turn"):
            self.stop_it_at_work()
        view = self.becomes(self.attackers, "suspended")
        self.assertEqual(view["reason"], "process_stopped")
        self.runs("neighbours")
        forced = [event for event in self.events() if event["kind"] == "share_forced"]
        self.assertRegex(forced[-1]["message"], rf"process {self.pid()} is stopped .*another user")
        until("it is stopped again, as its user left it", self.stands)
        self.signal(self.pid(), signal.SIGCONT)
        self.becomes(self.attackers, "running")
        self.goes_on("attackers")
        self.ends_right("attackers")
        self.ends_right("neighbours")

    def test_a_job_that_is_stopped_again_and_again_is_ended_or_off_the_gpu(self):
        loops = []
        with self.beside("a sharing job is stopped again and again"):
            self.stop_it_at_work(lambda: loops.append(self.python_as(ATTACKER, STOP_AGAIN, self.pid())),
                                 lambda: self.end(loops[-1]))
        # If other work keeps the loop from a processor, the job may be off the GPU before it is stopped again.
        left = until("it is off the GPU", lambda: (one := self.job(self.attackers))["state"] in ("killed", "suspended") and one)
        if left["state"] == "killed":
            self.assertEqual(left["reason"], "share_not_yielded")
            self.assertRegex(left["reason_detail"], "is stopped .*could not be suspended")
        else:
            self.assertEqual(left["reason"], "process_stopped")
        self.runs("neighbours")
        self.ends_right("neighbours")

    def test_a_job_that_is_stopped_out_of_its_turn_keeps_nobody_out(self):
        self.stop_it("closed")
        self.runs("neighbours")
        if self.job(self.attackers)["state"] == "suspended":
            self.assertEqual(self.job(self.attackers)["reason"], "process_stopped")
        self.is_let_go_on()
        self.goes_on("attackers")
        self.ends_right("attackers")
        self.ends_right("neighbours")

    def test_a_changed_setting_holds_at_once(self):
        self.addCleanup(self.share, on_no_answer="suspend")

        def ended():
            """Whether the setting ended it. One that a starved daemon took for one at work, and that stands behind its
            gate, leaves without its help, and goes on with this test's."""
            self.share(on_no_answer="wait")
            self.stop_it_at_work()
            view = until("the neighbour is told why", lambda: (one := self.job(self.neighbours))["reason"] == "share_wait" and one)
            self.assertRegex(view["reason_detail"], rf"job {self.attackers} 'attackers', which does not yield: process {self.pid()} is stopped")
            self.share(on_no_answer="end")
            if until("it is ended, or was behind its gate", lambda: self.job(self.attackers)["state"] == "killed" or self.left_alone()) is True:
                return True
            self.is_let_go_on()
            return False

        until("it is ended", ended)
        self.assertEqual(self.job(self.attackers)["reason"], "share_not_yielded")
        self.runs("neighbours")
        self.ends_right("neighbours")

    def test_a_job_that_starts_beside_one_that_is_stopped_waits_with_this_reason(self):
        self.addCleanup(self.share, on_no_answer="suspend")
        self.share(on_no_answer="wait")
        self.ends_right("neighbours")
        until("the attacker's is alone", lambda: self.tenant(self.attackers)["gate"] == "open" and not self.tenant(self.neighbours))
        self.signal(self.pid(), signal.SIGSTOP)
        until("it stands", self.stands, self.what_it_does)
        self.assertEqual(self.tenant(self.attackers)["gate"], "open", "it is stopped at work")
        late = self.sharing(NEIGHBOUR, "late")
        view = until("the newcomer is told why it waits", lambda: (one := self.job(late))["reason"] == "share_wait" and one, self.what_stands)
        self.assertEqual(view["state"], "running")
        self.assertRegex(view["reason_detail"], rf"job {self.attackers} 'attackers', which does not yield: process {self.pid()} is stopped")
        one = self.tenant(late)
        self.assertEqual(one["waits_for"], "yield", one)
        self.assertGreater(one["memory"]["wanted"], 0, "it has its context, and no memory yet")
        self.share(on_no_answer="suspend")
        self.assertEqual(self.becomes(self.attackers, "suspended")["reason"], "process_stopped")
        self.runs("late")
        self.ends_right("late")
        until("it is stopped again, as its user left it", self.stands)
        self.signal(self.pid(), signal.SIGCONT)
        self.becomes(self.attackers, "running")
        self.ends_right("attackers")

    def test_a_mover_that_a_killed_daemon_left_is_gpumans_own_until_it_ends(self):
        def movers():
            return [one for one in self.request("GET", "/v1/queue/info").json()["gpus"][0]["processes"] if one["name"] == "gpuman-mover"]

        mover = until("the attacker's mover is on the GPU", lambda: next((one for one in movers() if one["user"] == ATTACKER.name), None))
        self.assertTrue(mover["gpuman"])
        os.kill(mover["pid"], signal.SIGSTOP)  # it would end soon after its daemon
        self.m.stop_daemon(signal.SIGKILL)
        self.m.start_daemon()
        left = until("it is seen", lambda: next((one for one in movers() if one["pid"] == mover["pid"]), None))
        self.assertTrue(left["gpuman"])
        self.assertFalse(left["hoarding"])
        os.kill(mover["pid"], signal.SIGCONT)
        until("it ends", lambda: mover["pid"] not in [one["pid"] for one in movers()])
        self.goes_on("neighbours")
        self.goes_on("attackers")
        self.ends_right("attackers")
        self.ends_right("neighbours")


class DoesNotAnswer(SharingCase):
    """A program that works on, and whose libgpuman.so takes up no order to hold: it is not stopped. As for kernels that
    never end, the administrator decides by share.on_no_yield."""
    config = SharingCase.config.replace('"10ms"', '"300ms"')  # it is held in its turn

    def setUp(self):
        self.dir = self.scratch(ATTACKER)
        shutil.copy(PROGRAM, self.dir)
        self.stops = {"attackers": self.dir / "stop"}
        (self.dir / "holds.py").write_text(HOLDS_THREADS)
        words = [PYTHON, self.dir / "holds.py", self.dir, PYTHON, self.dir / PROGRAM.name, self.dir / "stop", "--rest", "0.005"]
        self.attackers = self.start_as(ATTACKER, "attackers", "exec " + " ".join(map(str, words)), gpus=["0"], share=True)
        self.neighbours = self.sharing(NEIGHBOUR, "neighbours")
        for tag in ("neighbours", "attackers"):
            until("both take part", lambda: self.tenant(self.job(tag)["id"]))
            self.goes_on(tag)

    def hold_at_work(self):
        """Holds the threads in the turn of the job: behind its gate the job does not block others."""
        hold, held = self.dir / "hold", self.dir / "held"

        def at_work():
            until("its gate is open", lambda: self.tenant(self.attackers)["gate"] == "open", self.what_stands)
            hold.touch()
            until("they are held", lambda: held.exists() and held.read_text(), lambda: self.log("attackers"))
            self.assertGreater(int(held.read_text()), 0, "it has such threads")
            seen = self.tenant(self.attackers)
            if seen["gate"] != "closed" and seen["memory"]["resident"]:
                return True
            hold.unlink()
            until("they go on", lambda: not held.exists())
            return False
        until("it is held at work", at_work)

    def test_a_job_that_takes_up_no_order_is_named_to_its_neighbour_and_ended_where_that_is_asked_for(self):
        self.addCleanup(self.share, on_no_yield="wait")
        with self.beside("a sharing job whose shim takes up no order"):
            self.hold_at_work()
        view = until("the neighbour is told why", lambda: (one := self.job(self.neighbours))["reason"] == "share_wait" and one)
        # It has not taken up the order, or does not carry out one that came just before, or is known not to answer.
        self.assertRegex(view["reason_detail"], rf"job {self.attackers} 'attackers', which does not yield: .*process \d+ ")
        self.share(on_no_yield="end")
        # A thread of the program that waits at the gate, or in a call, takes up orders, and it may be suspended before.
        view = until("it is off the GPU", lambda: (one := self.job(self.attackers))["state"] in ("killed", "suspended") and one)
        self.assertEqual(view["reason"], "share_not_yielded", view)
        self.runs("neighbours")
        self.ends_right("neighbours")


class GoesFirst(SharingCase):
    """A job whose work goes first, that works without end, beside a neighbour's: there is room for both."""
    config = SharingCase.config.replace("211MiB", "1GiB")

    def attack(self, **options):
        """Small kernels from a program that never waits for long."""
        self.attackers = self.start_as(ATTACKER, "attackers", f"exec {self.load('1MiB', '--kernel-time', '0.2ms', '--hold', '1h')}",
                                       gpus=["0"], share=True, **options)
        self.neighbours = self.sharing(NEIGHBOUR, "neighbours")
        until("both take part", lambda: all(self.tenant(job) for job in (self.attackers, self.neighbours)))

    def test_a_job_whose_work_goes_first_and_never_ends_leaves_the_neighbour_its_part(self):
        self.attack(latency=True)
        with self.beside("a job with --latency that works without end", steps=(("GET", "/v1/jobs"), ("GET", "/v1/share"))):
            self.goes_on("neighbours", 0.2)
        self.ends_right("neighbours")

    def test_a_job_that_asks_for_nearly_all_of_the_time_leaves_the_neighbour_its_part(self):
        self.attack(compute={"percent": 100, "may_exceed": True})
        with self.beside("a job with --compute 100%+", steps=(("GET", "/v1/jobs"), ("GET", "/v1/share"))):
            self.goes_on("neighbours", 0.2)
        self.ends_right("neighbours")


if __name__ == "__main__":
    main()

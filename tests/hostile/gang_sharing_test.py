#!/usr/bin/env python3
"""What a user may do with a job over several GPUs against a neighbour who shares one of them: a process that is stopped
on another GPU must not keep the neighbour out.

Usage: gang_sharing_test.py [UNITTEST ARGUMENTS]    (as root; GPUMAN_BUILD_DIR names the build tree)
"""

import json
import signal
import sys

import sharing_test
from hostile_case import ATTACKER, NEIGHBOUR, main, until
from machine import program
from users import User


ROOT = User("root", 0, 0)


class OneGpuOfSeveral(sharing_test.SharingCase):
    """Two ranks that need each other, on two GPUs; the neighbour is on the second."""
    gpus, profile = 2, "h200"  # GPUs that reach each other, with contexts of 518 MiB; gpuman-load takes 2 MiB more
    config = sharing_test.SharingCase.config.replace("211MiB", "1041MiB")

    def setUp(self):
        directory = self.scratch(ATTACKER)
        self.stops = {"attackers": directory / "stop"}
        words = ["--ranks", "2", "--peer", "host", "--alloc", "2MiB", "--work", "2ms", "--verify", "--json", "--until",
                 str(directory / "stop")]
        self.attackers = self.start_as(ATTACKER, "attackers", " ".join(["exec", program("gpuman-load"), *words]),
                                       gpus=["0", "1"], share=True)
        self.neighbours = self.sharing(NEIGHBOUR, "neighbours", gpu="1")
        for tag in ("neighbours", "attackers"):
            until(f"{tag} takes part", lambda: self.tenant(self.job(tag)["id"]))
            self.goes_on(tag)

    def said(self, event):
        lines = (json.loads(line) for line in self.log("attackers").splitlines() if line.startswith("{"))
        return [line for line in lines if line["event"] == event]

    def test_a_rank_that_is_stopped_beside_it_is_taken_off_with_its_job_and_comes_back(self):
        pid = next(line["child_pid"] for line in self.said("child") if line["rank"] == 0)

        def where_it_is():
            """Where the rank's job is out of the way. From the begin of a suspension the gate is closed too, but the
            daemon does not see a SIGCONT that comes before the job is off."""
            if self.job(self.attackers)["state"] == "suspended":
                return "off"
            one = self.tenant(self.attackers)
            return "behind" if one and one["gate"] == "closed" and not one["suspended"] else None

        def taken_off():
            """A rank that is stopped behind its gate does not block other jobs."""
            if (where := where_it_is()) == "off":
                return True
            if where == "behind":
                return False
            self.signal(pid, signal.SIGSTOP)
            if until("it is taken off, or behind its gate", where_it_is, self.what_stands) == "off":
                return True
            self.signal(pid, signal.SIGCONT)
            return False
        with self.beside("a rank of a job over several GPUs is stopped"):
            until("it is taken off", taken_off, self.what_stands)
        self.assertEqual(self.job(self.attackers)["reason"], "process_stopped")
        self.assertIn("share_forced", [event["kind"] for event in self.events()])
        self.runs("neighbours")
        until("it is let go on", lambda: self.signal(pid, signal.SIGCONT) or
              self.job(self.attackers)["state"] == "running", self.what_stands)
        self.goes_on("attackers")
        self.stops["attackers"].touch()
        self.assertEqual(self.wait("attackers")["state"], "finished", self.log("attackers")[-1500:])
        self.assertEqual([line["exit"] for line in self.said("done")], [0, 0])
        self.assertFalse([line for line in self.said("step") if line["wrong_words"]])
        self.ends_right("neighbours")

    def test_beside_a_job_of_another_user_on_each_gpu_all_have_turns_and_no_byte_is_wrong(self):
        self.sharing(ROOT, "roots", gpu="0")
        until("it takes part", lambda: self.tenant(self.job("roots")["id"]))
        with self.beside("a job over several GPUs beside a job on each"):
            for tag in ("roots", "neighbours", "attackers") * 2:
                self.goes_on(tag)
        self.stops["attackers"].touch()
        self.assertEqual(self.wait("attackers")["state"], "finished", self.log("attackers")[-1500:])
        self.assertFalse([line for line in self.said("step") if line["wrong_words"]])
        for tag in ("neighbours", "roots"):
            self.ends_right(tag)


if __name__ == "__main__":
    sys.exit(main())

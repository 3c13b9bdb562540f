"""The common part of the tests of tests/hostile: root's daemon on the simulated driver, and two ordinary users of the
group `gpuman`.

Each test is one attempt of the attacker. The measure is the neighbour's latency: the run prints it as a table at the
end, and asserts that each of the neighbour's requests is answered within users.PATIENCE during the attempt.

docs/hostile-users.md has a row for each attempt.
"""

import contextlib
import ctypes
import os
import pathlib
import signal
import socket
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
import users  # noqa: E402
from daemon_case import DaemonTest, until  # noqa: E402,F401
from machine import Machine, UnixConnection, build_dir  # noqa: E402,F401
from users import User  # noqa: E402

FIRST_ID, IDS_OF_A_RUN, RUNS = 61300, 4, 200


def ids_of_this_run():
    """The first of four ids that no other run has now: a test may stop, continue and kill every process of its attacker,
    and a limit on a user's processes counts all of them. The name of a socket is the claim; the kernel frees it with the
    process."""
    claim = socket.socket(socket.AF_UNIX)
    for run in range(RUNS):
        with contextlib.suppress(OSError):
            claim.bind(f"\0gpuman-hostile-users-{run}")
            return claim, FIRST_ID + run * IDS_OF_A_RUN
    raise SystemExit(f"{RUNS} runs of tests/hostile have their users: end some")


CLAIM, GROUP_ID = ids_of_this_run()
GROUP = "gpuman"
ATTACKER = User("attacker", GROUP_ID + 1, GROUP_ID + 1)
NEIGHBOUR = User("neighbour", GROUP_ID + 2, GROUP_ID + 2)
OUTSIDER = User("outsider", GROUP_ID + 3, GROUP_ID + 3)  # in no group
ROUNDS = 50  # the neighbour's requests, at rest and during an attempt
SKIPPED = 77

ACCESS = f'[access]\nsubmit_group = "{GROUP}"\nadmin_group = "root"\n'


def books(directory):
    """Writes passwd and group files with the test's users and their group."""
    passwd, group = directory / "passwd", directory / "group"
    own = [ATTACKER, NEIGHBOUR, OUTSIDER]
    passwd.write_text(pathlib.Path("/etc/passwd").read_text()
                      + "".join(f"{u.name}:x:{u.uid}:{u.gid}::/:/bin/sh\n" for u in own))
    others = [line for line in pathlib.Path("/etc/group").read_text().splitlines() if not line.startswith(GROUP + ":")]
    group.write_text("\n".join([*others, *(f"{u.name}:x:{u.gid}:" for u in own),
                                f"{GROUP}:x:{GROUP_ID}:{ATTACKER.name},{NEIGHBOUR.name}"]) + "\n")
    return {passwd: "/etc/passwd", group: "/etc/group"}


MS_BIND, MS_REC, MS_PRIVATE, CLONE_NEWNS, MNT_DETACH = 4096, 16384, 1 << 18, 0x20000, 2
libc = ctypes.CDLL(None, use_errno=True)


def lay_over(files):
    """Mounts files and directories over others, for this process and its children. OSError if that is not allowed."""

    def check(result, what):
        if result != 0:
            raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")

    check(libc.unshare(CLONE_NEWNS), "a mount namespace")
    check(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "making it private")
    for file, place in files.items():
        check(libc.mount(str(file).encode(), str(place).encode(), None, MS_BIND, None), f"laying over {place}")


@contextlib.contextmanager
def build_within_reach():
    """An empty directory that every user may enter, to mount the build tree over it: others may not enter each
    directory above a checkout. The exit unmounts the tree and never deletes it."""
    place = pathlib.Path(tempfile.mkdtemp(prefix="gpuman-build-"))
    place.chmod(0o755)
    try:
        yield place
    finally:
        libc.umount2(str(place).encode(), MNT_DETACH)
        place.rmdir()


class SystemMachine(Machine):
    """A machine with root's daemon, which other users can reach."""

    def __init__(self, **more):
        super().__init__(**more)
        for directory in (self.dir, self.dir / "lib"):  # the modes of packaging/gpumand.service.in
            directory.chmod(0o755)

    def daemon_arguments(self):
        return []

    def _start_simulation(self):
        super()._start_simulation()
        simulation = pathlib.Path(self.env["GPUMAN_SIM_DIR"])
        simulation.chmod(0o755)
        if self.dir in simulation.parents:
            simulation.parent.chmod(0o711)


class HostileTest(DaemonTest):
    """`config`: configuration in addition to ACCESS. `request` sends requests of root, `as_user` those of a user."""

    @classmethod
    def setUpClass(cls):
        cls.m = SystemMachine(profile=cls.profile, gpus=cls.gpus, memory=cls.memory, config=ACCESS + cls.config)
        cls.addClassCleanup(cls.m.__exit__)
        cls.prepare()
        cls.m.__enter__()

    def as_user(self, user, method, path, body=None):
        """Sends one request of the user; returns users.Answered."""
        asker = users.Asker(user, self.m.env["GPUMAN_SOCKET"], [(method, path, body)])
        try:
            return asker.ask()
        finally:
            asker.close()

    def start_as(self, user, tag, script, **more):
        """Starts a job of the user, by POST /v1/jobs."""
        answered = self.as_user(user, "POST", "/v1/jobs", self.run_request(tag, script, **more))
        self.assertEqual(answered.status, 201, answered)
        return answered.json()["id"]

    def asker(self, user, steps):
        asker = users.Asker(user, self.m.env["GPUMAN_SOCKET"], steps)
        self.addCleanup(asker.close)
        return asker

    @contextlib.contextmanager
    def beside(self, attempt, steps=(("GET", "/v1/jobs"),), who=NEIGHBOUR, least=ROUNDS):
        """Measures the neighbour at rest, then during the attack. The body of `with` begins the attack and may return
        at once: the neighbour is measured after the body. The test's clean-ups end the attack."""
        neighbour = self.asker(who, list(steps))
        rest = neighbour.measure(least)
        attack = Attack()
        yield attack
        attacked = neighbour.measure(least, attack.over)
        users.record(attempt, rest, attacked)
        attack.answers = attacked

    def python_as(self, user, script, *arguments, **options):
        """Runs a script of the user, with the machine's environment; the test's clean-up ends it."""
        process = user.python(script, *arguments, env=self.m.env, **options)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        """Ends the process and its children, which may have outlived it: it has a session of its own."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream:
                stream.close()

    def scratch(self, user):
        """A directory that belongs to the user."""
        directory = tempfile.TemporaryDirectory(prefix="gpuman-hostile-")
        self.addCleanup(directory.cleanup)
        os.chown(directory.name, user.uid, user.gid)
        return pathlib.Path(directory.name)


class Attack:
    """What `beside` yields. `over`: set it if the attack has an end; the neighbour sends requests until then."""

    def __init__(self):
        self.over = lambda: True
        self.answers = []


def main():
    if os.geteuid() != 0:
        print("skipped: needs root, to be other users")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory(prefix="gpuman-books-") as directory, build_within_reach() as place:
        path = pathlib.Path(directory)
        path.chmod(0o755)
        try:
            lay_over({**books(path), build_dir(): place})
            os.environ["GPUMAN_BUILD_DIR"] = str(place)
        except OSError as error:
            print(f"skipped: {error}")
            sys.exit(SKIPPED)
        program = unittest.main(verbosity=2, exit=False)
        users.print_figures()
    sys.exit(not program.result.wasSuccessful())

"""A part of the machine for a node of Kubernetes alone: namespaces of its own (mounts, processes, network, cgroups, names), a
directory for what it writes, and a group in each hierarchy of cgroups.

Nothing of the machine is changed that would have to be put back: the sysctls that kubelet sets are files of ours in there, and
whatever was started ends with the first process of the enclosure, also when that, or who made it, is killed; only of the
latter a directory in /tmp and empty groups are left. Needs root, and the controllers of cgroup v1, as Debian's kubelet 1.20
was tried with.

Usage: enclosure.py    prints why there can be none on this machine, and nothing where there can.
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

# What kubelet sets; it may in here.
SYSCTLS = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys",
           "kernel/keys/root_maxbytes")
CONTROLLERS = {"cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "pids"}
MARK = "GPUMAN_E2E_ENCLOSURE"  # its directory, for who is in it


def hierarchies():
    """Of cgroups: (where it is mounted, type, options, this process's group as a path)."""
    own = {}
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, names, group = line.split(":", 2)
        own[names] = group
    found = []
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        before, after = line.split(" - ")
        root, place = before.split()[3:5]
        kind, _, options = after.split()
        if kind not in ("cgroup", "cgroup2"):
            continue
        # Of version 2 the empty name; of version 1 the last options, after those that every file system has.
        names = next((known for known in own if known and options.endswith(known)), "") if kind == "cgroup" else ""
        if names in own and not any(one[2] == names for one in found):
            found.append((place, kind, names, pathlib.Path(place) / os.path.relpath(own[names], root)))
    return found


def unfit():
    """Why there can be none here, in a line; None where it can."""
    if os.geteuid() != 0:
        return "needs root, as kubelet does"
    missing = CONTROLLERS - {name for one in hierarchies() for name in one[2].split(",")}
    if missing:
        return f"needs the controllers of cgroup v1: {', '.join(sorted(missing))}"
    # Root may be short of any of the rights that it takes, in a container of its own above all: so it is tried.
    tried = subprocess.run([sys.executable, "-B", __file__, "rehearse"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if tried.returncode:
        return "cannot have a node of its own: " + (tried.stderr.strip().splitlines() or [f"exit status {tried.returncode}"])[-1]
    return None


def run(script, arguments):
    """Runs a Python script of ours in an enclosure; its exit status."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="gpuman-e2e-"))
    places = hierarchies()
    groups = [group / directory.name for *_, group in places]
    before = sysctls()
    try:
        for group in groups:
            make_group(group)
        # The first process is a shell, since it takes in the orphans; the second is the script. Who is killed takes all along.
        joined = "; ".join(f"echo $$ >'{group}/cgroup.procs'" for group in groups)
        inner = 'python3 -B "$@"; exit $?'
        command = f"set -e; {joined}; exec unshare --mount --pid --net --cgroup --uts --ipc --fork --kill-child --mount-proc " \
                  f"sh -c '{inner}' sh \"$@\""
        child = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "sh", "-c", command, "sh", str(script), *arguments],
                                 env={**os.environ, MARK: str(directory), "TMPDIR": str(directory)})
        return attend(child)
    finally:
        for group in groups:
            remove_group(group)
        shutil.rmtree(directory, ignore_errors=True)
        if before != sysctls():
            sys.exit(f"sysctls of the machine have changed: {before} became {sysctls()}")


def attend(child):
    """Waits for it. Ctrl-C reaches it as it reaches this process: it is given time to end by itself."""
    def end(*_):
        child.kill()
    taken = {signal.SIGTERM: end, signal.SIGHUP: end, signal.SIGINT: signal.SIG_IGN}
    previous = {number: signal.signal(number, handler) for number, handler in taken.items()}
    try:
        return child.wait()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def sysctls():
    return {name: (pathlib.Path("/proc/sys") / name).read_text().strip() for name in SYSCTLS}


def make_group(group):
    group.mkdir()
    # A group of this controller takes nobody before it is told this.
    for name in ("cpuset.cpus", "cpuset.mems"):
        with contextlib.suppress(FileNotFoundError):
            (group / name).write_text((group.parent / name).read_text())


def remove_group(group):
    """With those that containerd and kubelet made in it. The kernel may take a moment to let go of the last process."""
    deadline = time.monotonic() + 30
    while group.exists() and time.monotonic() < deadline:
        for directory, _, _ in os.walk(group, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(directory)
        if group.exists():
            time.sleep(0.1)


def mount(*words):
    subprocess.run(["mount", *words], check=True)


def furnish():
    """Called once by the script in the enclosure: the places where a node's parts write are its own. Returns its directory."""
    directory = pathlib.Path(os.environ[MARK])
    places = hierarchies()
    for place in ("/var/lib", "/var/log", "/run"):
        own = directory / "root" / place.strip("/").replace("/", "-")
        own.mkdir(parents=True)
        mount("--bind", str(own), place)
    mount("-t", "tmpfs", "shm", "/dev/shm")
    mount("-t", "sysfs", "sysfs", "/sys")
    mount("-t", "tmpfs", "cgroups", "/sys/fs/cgroup")
    for place, kind, names, _ in places:
        pathlib.Path(place).mkdir(parents=True, exist_ok=True)
        mount("-t", kind, *(["-o", "none," + names if names.startswith("name=") else names] if names else []), kind, place)
    for name in SYSCTLS:
        own = directory / "root" / name.replace("/", ".")
        own.write_text((pathlib.Path("/proc/sys") / name).read_text())
        mount("--bind", str(own), f"/proc/sys/{name}")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    return directory


def rehearse():
    """In the enclosure: what the parts of a node do there, once."""
    bundle = furnish() / "bundle"
    with open("/dev/kmsg", "rb"):  # kubelet ends where it cannot read it
        pass
    (bundle / "rootfs").mkdir(parents=True)
    shutil.copy("/bin/busybox", bundle / "rootfs")
    runc = shutil.which("runc", path=os.environ["PATH"] + ":/usr/sbin:/sbin") or "runc"
    subprocess.run([runc, "spec", "--bundle", str(bundle)], check=True)
    spec = json.loads((bundle / "config.json").read_text())
    spec["process"].update(terminal=False, args=["/busybox", "true"])
    (bundle / "config.json").write_text(json.dumps(spec))
    subprocess.run([runc, "run", "--bundle", str(bundle), "rehearsal"], check=True)


if __name__ == "__main__":
    if MARK in os.environ:
        try:
            rehearse()
        except OSError as error:
            sys.exit(str(error))
        except subprocess.CalledProcessError as error:
            sys.exit(error.returncode)  # it has said why
    elif sys.argv[1:] == ["rehearse"]:
        sys.exit(run(pathlib.Path(__file__).resolve(), []))
    elif why := unfit():
        print(why)

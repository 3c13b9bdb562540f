"""A part of the machine for one node of Kubernetes: its own namespaces (mounts, processes, network, cgroups, names), a
directory for its files, and a group in each hierarchy of cgroups.

Nothing on the machine changes that would have to be restored: the sysctls that kubelet sets are files of the enclosure,
and all started processes end with the first process of the enclosure, also if that or its creator is killed; a killed
creator leaves a directory in /tmp and empty groups. Needs root, and the controllers of cgroup v1, with which Debian's
kubelet 1.20 was tested.

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

# The sysctls that kubelet sets; in the enclosure it may.
SYSCTLS = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys",
           "kernel/keys/root_maxbytes")
CONTROLLERS = {"cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "pids"}
MARK = "GPUMAN_E2E_ENCLOSURE"  # names the directory of the enclosure to its processes


def hierarchies():
    """The hierarchies of cgroups: (mount point, type, options, this process's group as a path)."""
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
        # Version 2 has the empty name; version 1 has the last options, after those that every file system has.
        names = next((known for known in own if known and options.endswith(known)), "") if kind == "cgroup" else ""
        if names in own and not any(one[2] == names for one in found):
            found.append((place, kind, names, pathlib.Path(place) / os.path.relpath(own[names], root)))
    return found


def unfit():
    """Why there can be no enclosure here, in a line; None if there can."""
    if os.geteuid() != 0:
        return "needs root, as kubelet does"
    missing = CONTROLLERS - {name for one in hierarchies() for name in one[2].split(",")}
    if missing:
        return f"needs the controllers of cgroup v1: {', '.join(sorted(missing))}"
    # Root may lack some of the needed rights, above all in a container: so the script tries.
    tried = subprocess.run([sys.executable, "-B", __file__, "rehearse"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if tried.returncode:
        return "cannot have a node of its own: " + (tried.stderr.strip().splitlines() or [f"exit status {tried.returncode}"])[-1]
    return None


def run(script, arguments):
    """Runs a Python script of ours in an enclosure; returns its exit status."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="gpuman-e2e-"))
    places = hierarchies()
    groups = [group / directory.name for *_, group in places]
    before = sysctls()
    try:
        for group in groups:
            make_group(group)
        # The first process is a shell, since it adopts orphans; the second is the script. If one is killed, all end.
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
    """Waits for the child. Ctrl-C reaches the child as well as this process: the child gets time to end by itself."""
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
    # A group of this controller accepts no process before these are set.
    for name in ("cpuset.cpus", "cpuset.mems"):
        with contextlib.suppress(FileNotFoundError):
            (group / name).write_text((group.parent / name).read_text())


def remove_group(group):
    """Removes the group and the groups that containerd and kubelet made in it. The kernel may release the last process
    late."""
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
    """The script in the enclosure calls this once: it mounts own directories where a node's parts write. Returns the
    enclosure's directory."""
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
    """Runs in the enclosure: does once what the parts of a node do there."""
    bundle = furnish() / "bundle"
    with open("/dev/kmsg", "rb"):  # without it kubelet ends
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
            sys.exit(error.returncode)  # it has printed why
    elif sys.argv[1:] == ["rehearse"]:
        sys.exit(run(pathlib.Path(__file__).resolve(), []))
    elif why := unfit():
        print(why)

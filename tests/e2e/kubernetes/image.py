"""An image for the node's containers, made of files of this machine: a shell, our programs, and their libraries."""

import hashlib
import io
import json
import os
import pathlib
import re
import subprocess
import tarfile

NAME = "gpuman.test/load:1"
BUSYBOX = "/bin/busybox"
APPLETS = ("sh", "sleep", "cat", "env", "ls", "kill", "ps", "test", "touch", "mount", "umount", "unshare")


OF_LIBC = ("libdl.so.2", "libpthread.so.0")  # libgpuman.so needs them too, and every image with glibc has them


def libraries(program):
    """The libraries that the program is linked with and the rest of its libc, by the paths that the linker uses."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"(/\S+) \(0x", listed)
    libc = next(pathlib.Path(path) for path in found if path.endswith("/libc.so.6"))
    return found + [str(libc.parent / name) for name in OF_LIBC]


def layer(programs):
    """A tar of the root file system."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for directory in ("tmp", "proc", "sys", "dev", "etc"):
            entry = tarfile.TarInfo(directory)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if directory == "tmp" else 0o755
            tar.addfile(entry)
        files = {"/bin/busybox": BUSYBOX}
        for program in programs:
            files["/bin/" + os.path.basename(program)] = program
            files.update((path, path) for path in libraries(program))
        for target, source in files.items():
            entry = tar.gettarinfo(os.path.realpath(source), target.lstrip("/"))
            entry.uid = entry.gid = 0
            with open(source, "rb") as content:
                tar.addfile(entry, content)
        for applet in APPLETS:
            entry = tarfile.TarInfo("bin/" + applet)
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(entry)
    return data.getvalue()


def write(path, programs):
    """Writes an archive for `ctr images import`. Its default command waits: pods' sandboxes use the same image. The
    first process of a container takes no signal but the stop signal."""
    root = layer(programs)
    config = json.dumps({
        "architecture": subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True).stdout.strip(),
        "os": "linux",
        "config": {"Cmd": ["/bin/sleep", "1000000"], "Env": ["PATH=/bin"], "StopSignal": "SIGKILL"},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(root).hexdigest()]},
    }).encode()
    manifest = json.dumps([{"Config": "config.json", "RepoTags": [NAME], "Layers": ["layer.tar"]}]).encode()
    with tarfile.open(path, "w") as tar:
        for name, content in (("config.json", config), ("layer.tar", root), ("manifest.json", manifest)):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))

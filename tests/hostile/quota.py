"""A file system on which a user has a quota: the kernel's own (tmpfs from Linux 6.6 on, ext4), or that of a directory
(btrfs), whichever this kernel and its tools have.
"""

import ctypes
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import unittest

MIB = 1 << 20
IMAGE = 256 * MIB  # sparse
OF_USERS, ALL = ("tmpfs", "ext4"), ("tmpfs", "ext4", "btrfs")
SYS_QUOTACTL_FD, Q_SETQUOTA_OF_USER, QIF_BLIMITS = 443, 0x800008 << 8, 1
libc = ctypes.CDLL(None, use_errno=True)


def run(*command):
    """True: it has worked. What it says otherwise is of no use: the next kind is tried."""
    return bool(shutil.which(command[0])) and subprocess.run(command, capture_output=True).returncode == 0


def set_limit(place, user, size):
    """quotactl_fd(2): the user may have `size` bytes of the file system at `place`."""
    limits = struct.pack("=8QI4x", size // 1024, size // 1024, 0, 0, 0, 0, 0, 0, QIF_BLIMITS)
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return libc.syscall(SYS_QUOTACTL_FD, descriptor, Q_SETQUOTA_OF_USER, user.uid, limits) == 0
    finally:
        os.close(descriptor)


def mount_kind(kind, place, user, size, clean_up):
    if kind == "tmpfs":  # the limit is every user's but root's
        options = f"size={IMAGE // 4},usrquota,usrquota_block_hardlimit={size}"
        return run("mount", "-t", "tmpfs", "-o", options, "tmpfs", place)
    image = tempfile.NamedTemporaryFile(prefix="gpuman-disk-")
    clean_up(image.close)
    os.truncate(image.name, IMAGE)
    if kind == "ext4":
        return (run("mkfs.ext4", "-q", "-O", "quota", "-E", "quotatype=usrquota", image.name)
                and run("mount", "-o", "loop,usrquota", image.name, place) and set_limit(place, user, size))
    return (run("mkfs.btrfs", "-q", image.name) and run("mount", "-o", "loop", image.name, place)
            and run("btrfs", "quota", "enable", place) and run("btrfs", "subvolume", "create", place / "limited")
            and run("btrfs", "qgroup", "limit", str(size), place / "limited"))


def mount(place, user, size, clean_up, kinds=ALL):
    """Mounts a file system over the directory `place`; `clean_up` registers what unmounts it. Returns a directory of
    the user's on it, in which the user may have `size` bytes: with the kinds OF_USERS anywhere on it. Skips the test
    where there is no such file system."""
    place = pathlib.Path(place)
    for kind in kinds:
        if mount_kind(kind, place, user, size, clean_up):
            clean_up(subprocess.run, ["umount", "-l", place])
            directory = place / "limited"
            directory.mkdir(exist_ok=True)
            os.chown(directory, user.uid, user.gid)
            print(f"(the quota is of {kind})", end=" ", flush=True)
            return directory
        run("umount", "-l", place)
    raise unittest.SkipTest(f"neither kernel nor tools have a quota here ({', '.join(kinds)})")

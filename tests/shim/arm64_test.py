"""libgpuman.so for 64-bit Arm: it compiles without warnings, exports what it must, and holds a limit.

Needs a cross compiler (g++-aarch64-linux-gnu, of any version) and, to run it, qemu-user; without them it says so and is
skipped. GPUMAN_BUILD_DIR names the build.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "harness"))
import ledger  # noqa: E402
import machine  # noqa: E402

TRIPLE = "aarch64-linux-gnu"
MIB, GIB = 1 << 20, 1 << 30


def compilers():
    """A C and a C++ compiler of one version, or nothing."""
    for version in ("", *(f"-{number}" for number in range(20, 10, -1))):
        found = [shutil.which(f"{TRIPLE}-{name}{version}") for name in ("gcc", "g++")]
        if all(found):
            return found
    return None


class Arm64(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.build = machine.build_dir() / "arm64"
        cls.shim = cls.build / "shim/libgpuman.so"
        gcc, gxx = compilers()
        launcher = [f"-DCMAKE_{language}_COMPILER_LAUNCHER={shutil.which('ccache')}"
                    for language in ("C", "CXX") if shutil.which("ccache")]
        for command in (["cmake", "-S", HERE / "arm64", "-B", cls.build, "-G", "Ninja", "-DCMAKE_SYSTEM_NAME=Linux",
                         "-DCMAKE_SYSTEM_PROCESSOR=aarch64", f"-DCMAKE_C_COMPILER={gcc}", f"-DCMAKE_CXX_COMPILER={gxx}",
                         *launcher],
                        ["cmake", "--build", cls.build, "--target", "gpuman_shim", "cuda", "small_program"]):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise AssertionError(f"{' '.join(map(str, command))}:\n{(done.stdout + done.stderr)[-4000:]}")

    def readelf(self, *options):
        return subprocess.run(["readelf", "-W", *options, self.shim], capture_output=True, text=True, check=True).stdout

    def test_is_a_library_of_that_machine_that_needs_libc_alone(self):
        self.assertRegex(self.readelf("-h"), r"Machine: +AArch64")
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", self.readelf("-d")))
        self.assertLessEqual(needed, {"libc.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-aarch64.so.1"})
        versions = {tuple(map(int, version.split("."))) for version in re.findall(r"UND .*@GLIBC_([0-9.]+)", self.readelf("--dyn-syms"))}
        self.assertLessEqual(max(versions), (2, 25))
        self.assertNotIn("TEXTREL", self.readelf("-d"))
        self.assertRegex(self.readelf("-l"), r"GNU_STACK .* RW ")

    def test_defines_dlsym_for_each_version_a_program_asks_for(self):
        shown = [line.split() for line in self.readelf("--dyn-syms").splitlines() if " FUNC " in line]
        own = {words[7] for words in shown if words[6] != "UND" and words[4] == "GLOBAL"}
        self.assertEqual({name for name in own if not name.startswith(("cu", "nvml"))},
                         {"dlsym@GLIBC_2.17", "dlsym@GLIBC_2.34"})
        self.assertNotIn("GLIBCXX", self.readelf("-V"))

    def test_runs_nothing_before_the_program_does(self):
        """The runtime's choice of atomic instructions would run earlier, by getauxval."""
        self.assertNotIn("getauxval", self.readelf("--dyn-syms"))

    def test_looks_for_the_dlsym_of_every_libc_of_that_machine(self):
        text = self.shim.read_bytes()
        for version in (b"GLIBC_2.17\0", b"GLIBC_2.34\0"):
            self.assertIn(version, text)

    def run_program(self, *words, **variables):
        qemu = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
        root = pathlib.Path("/usr") / TRIPLE
        if qemu is None or not (root / "lib/ld-linux-aarch64.so.1").exists():
            self.skipTest("no qemu-user, or no libc for it")
        environment = [word for name, value in {"LD_LIBRARY_PATH": self.build, **variables}.items()
                       for word in ("-E", f"{name}={value}")]
        done = subprocess.run([qemu, "-L", root, *environment, self.build / "small_program", *words],
                              capture_output=True, text=True, timeout=120, check=False,
                              env={"PATH": os.environ["PATH"]})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def test_leaves_a_program_without_cuda_alone(self):
        self.assertEqual(self.run_program("plain", LD_PRELOAD=self.shim), {"plain": True})

    def test_holds_the_limit(self):
        with tempfile.TemporaryDirectory(prefix="gpuman-arm64-") as directory:
            socket = directory + "/shim.sock"
            uuid = "GPU-11111111-1111-1111-1111-111111111111"
            with ledger.Ledger(socket, "--gpu", uuid, GIB, 0) as served:
                for evictable, launch in (("0", "driver"), ("1", "shim")):
                    with self.subTest(evictable=evictable):
                        told = self.run_program(LD_PRELOAD=self.shim, GPUMAN_SHIM_SOCKET=socket, GPUMAN_JOB_ID=1,
                                                GPUMAN_SHIM_EVICTABLE=evictable)
                        self.assertEqual(told, {"plain": True, "of": "shim", "init_of": "driver", "launch_of": launch,
                                                "status": [0, 2, 0], "free": GIB - 64 * MIB, "left": GIB, "total": GIB,
                                                "errno": 77})
                self.assertEqual(served("joined"), "2")
                served.until_given_back(uuid)


if __name__ == "__main__":
    if compilers() is None:
        print("no compiler for arm64: apt-get install g++-aarch64-linux-gnu qemu-user")
        sys.exit(77)
    unittest.main()

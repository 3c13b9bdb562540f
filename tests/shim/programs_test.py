"""libgpuman.so in programs of every kind, most without CUDA: they run as they run without it.

Usage: programs_test.py [NAME…]; GPUMAN_BUILD_DIR names the build. Tests that need a missing compiler,
JVM or root are skipped.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from shim_test import BUILD, CONTEXT, MIB, SHIM, ShimCase  # noqa: E402

NOBODY = 65534
PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef LOADS
#include <dlfcn.h>
#endif
int main(void) {
  int status = 0;
#ifdef LOADS
  if (dlsym(RTLD_DEFAULT, "strtol") == NULL || dlsym(RTLD_DEFAULT, "no_such_function") != NULL) return 1;
  if (dlopen("no_such_library.so", RTLD_NOW) != NULL || dlerror() == NULL) return 2;
#endif
  pid_t child = fork();
  if (child == 0) _exit(4);
  waitpid(child, &status, 0);
  printf("user %d, child %d\n", (int)geteuid(), WEXITSTATUS(status));
  return 7;
}
"""


# Which dlsym a program gets that was linked with an older or a newer glibc.
BINDS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
__asm__(".symver dlsym, dlsym@" VERSION);
int main(void) {
  Dl_info info;
  if (dladdr((void*)dlsym, &info) == 0) return 1;
  printf("%s\n", info.dli_fname);
  return 0;
}
"""


# A driver of a later CUDA, which has a newer version of one function.
LATER_DRIVER = r"""
#include <stddef.h>
#include <string.h>
int cuMemAlloc_v2(unsigned long long* pointer, size_t bytes) { return *pointer = bytes, 0; }
int cuMemAlloc_v9(unsigned long long* pointer, size_t bytes, int more) { return *pointer = bytes, more; }
int cuMemFree_v2(unsigned long long pointer) { return pointer == 0; }
int cuGetProcAddress_v2(const char* name, void** out, int version, unsigned long long flags, int* status) {
  *out = NULL;
  if (strcmp(name, "cuMemAlloc") == 0) *out = version < 99000 ? (void*)cuMemAlloc_v2 : (void*)cuMemAlloc_v9;
  if (strcmp(name, "cuMemFree") == 0) *out = (void*)cuMemFree_v2;
  if (status != NULL) *status = *out == NULL;
  return flags != 0;
}
"""
# Which answers are the shim's, and which the driver's newer function.
ASKS_LATER_DRIVER = r"""
import ctypes, json, sys
driver, shim = ctypes.CDLL(sys.argv[1]), ctypes.CDLL(sys.argv[2])
address = lambda function: ctypes.cast(function, ctypes.c_void_p).value
def asked(name, version):
    out, status = ctypes.c_void_p(), ctypes.c_int()
    assert driver.cuGetProcAddress_v2(name, ctypes.byref(out), version, ctypes.c_uint64(0), ctypes.byref(status)) == 0
    return out.value
print(json.dumps({"known": asked(b"cuMemAlloc", 12000) == address(shim.cuMemAlloc_v2),
                  "newer": asked(b"cuMemAlloc", 99000) == address(driver.cuMemAlloc_v9),
                  "as_before": asked(b"cuMemFree", 99000) == address(shim.cuMemFree_v2)}))
"""


# A program at a fixed address, linked with the driver: a function whose address it takes has that address in the
# program itself, and a search of all libraries finds it there first.
FIXED_PROGRAM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
typedef int Allocate(unsigned long long* pointer, size_t bytes);
Allocate cuMemAlloc_v2;
int cuInit(unsigned flags), cuCtxCreate_v2(void** context, unsigned flags, int device);
Allocate* volatile taken;
int main(void) {
  void* context;
  unsigned long long pointer;
  taken = cuMemAlloc_v2;
  Allocate* const found[] = {(Allocate*)dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"),
                             (Allocate*)dlsym(dlopen(NULL, RTLD_LAZY), "cuMemAlloc_v2"), taken};
  if (cuInit(0) != 0 || cuCtxCreate_v2(&context, 0, 0) != 0) return 1;
  printf("{\"statuses\": [");
  for (int i = 0; i < 3; ++i) printf("%d, %d, ", found[i](&pointer, 1 << 26), found[i](&pointer, (size_t)1 << 35));
  printf("0]}\n");
  return 0;
}
"""


class ProgramCase(ShimCase):
    def environment(self, **variables):
        return {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "GPUMAN_JOB_ID": "1", "GPUMAN_SHIM_SOCKET": self.socket,
                **variables}

    def both(self, command, variables=None, **options):
        """Runs the command without the shim and with it; returns status, output and errors of each."""
        answers = []
        for preload in ({}, {"LD_PRELOAD": SHIM}):
            done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, check=False,
                                  env=self.environment(**(variables or {}), **preload), **options)
            answers.append((done.returncode, done.stdout, done.stderr))
        return answers

    def compiled(self, name, compiler, *options, text=PROGRAM):
        path = shutil.which(compiler)
        if path is None:
            self.skipTest(f"no {compiler}")
        source, program = pathlib.Path(self.dir, name + ".c"), pathlib.Path(self.dir, name)
        source.write_text(text)
        done = subprocess.run([path, *options, "-o", program, source], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            self.skipTest(f"{compiler} {' '.join(options)} does not work here: {done.stderr.splitlines()[-1:]}")
        return program

    def same(self, command, **options):
        without, with_shim = self.both(command, **options)
        self.assertEqual(with_shim, without)
        return with_shim


class OtherLibcs(ProgramCase):
    """Only the guard limits these programs. They must start."""

    def test_static_program_runs_the_same_with_preload(self):
        self.assertEqual(self.same([self.compiled("static", "gcc", "-static")])[0], 7)

    def test_musl_program_runs_the_same_with_preload(self):
        self.assertEqual(self.same([self.compiled("musl", "musl-gcc", "-DLOADS")])[0], 7)
        self.assertEqual(self.same([self.compiled("musl_static", "musl-gcc", "-static")])[0], 7)

    def test_a_program_of_32_bits_gets_one_line_of_the_linkers(self):
        """ld.so reports each library that it cannot preload. There is no CUDA for such programs."""
        program = self.compiled("narrow", "gcc", "-m32")
        without, with_shim = self.both([program])
        self.assertEqual((without[0], with_shim[:2]), (7, without[:2]))
        self.assertRegex(with_shim[2], r"^ERROR: ld.so: object '.*libgpuman.so' .*wrong ELF class.*ignored.\n$")

    def test_setuid_program_runs_the_same_with_preload(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        program = self.compiled("setuid", "gcc", "-DLOADS")
        os.chmod(self.dir, 0o755)
        os.chmod(program, 0o4755)
        status, said, errors = self.same([program], user=NOBODY, group=NOBODY, extra_groups=[])
        if "user 0" not in said:
            self.skipTest("set-user-ID does not work in this directory")
        self.assertEqual((status, errors), (7, ""))


class Sanitizers(ProgramCase):
    def test_gcc_address_sanitizer_needs_option_for_preload(self):
        """As with every preloaded library; docs/shim-protocol.md says so."""
        program = self.compiled("addresses", "gcc", "-fsanitize=address", "-DLOADS")
        told = {"ASAN_OPTIONS": "verify_asan_link_order=0:detect_leaks=0"}
        self.assertEqual(self.same([program], variables=told)[0], 7)
        without, with_shim = self.both([program], variables={"ASAN_OPTIONS": "detect_leaks=0"})
        self.assertEqual(without[0], 7)
        self.assertIn("ASan runtime does not come first", with_shim[2])


class Runtimes(ProgramCase):
    def test_jvm_runs_with_threads_processes_and_signals(self):
        if shutil.which("java") is None or shutil.which("javac") is None:
            self.skipTest("no JDK")
        subprocess.run(["javac", "-d", self.dir, HERE / "Program.java"], check=True, capture_output=True)
        status, said, _ = self.same(["java", "-cp", self.dir, "Program"])
        self.assertEqual(status, 3)
        self.assertIn("caught 25000\nsum 1225\nprocess 'child' 5\nprocess '' 137\nprocess '' 0\nSig", said)

    def test_processes_of_pythons_multiprocessing_count_each(self):
        for method in ("fork", "spawn", "forkserver"):
            with self.subTest(method):
                ledger = self.serve(16 * CONTEXT)
                told = self.probe("multiprocess", method)
                self.assertEqual(told, {"statuses": [[0, 2]] * 3, "exits": [0] * 3})
                self.assertEqual(ledger("joined"), "3")
                ledger.until_given_back(self.uuid)
                ledger.stop()
                os.unlink(self.socket)


class OddPrograms(ProgramCase):
    def odd(self, *words):
        done = subprocess.run(self.command(*map(str, words)), capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return json.loads(done.stdout)

    def test_one_with_a_dlsym_of_its_own_is_held_to_its_limit(self):
        self.serve()
        self.assertEqual(self.odd(BUILD / "tests/odd_program", "own_dlsym"), {"status": 0, "beyond": 2, "good": True})

    def test_one_of_any_glibc_is_bound_to_the_shims_dlsym(self):
        first = "GLIBC_2.17" if os.uname().machine == "aarch64" else "GLIBC_2.2.5"
        for version in (first, "GLIBC_2.34"):
            with self.subTest(version):
                program = self.compiled("binds", "gcc", f'-DVERSION="{version}"', text=BINDS)
                without, with_shim = self.both([program])
                self.assertEqual((with_shim[0], with_shim[1].strip()), (0, SHIM), with_shim)
                self.assertNotIn("gpuman", without[1])

    def test_one_that_asks_for_dlsym_itself_is_held_to_its_limit(self):
        self.serve()
        self.assertEqual(self.probe("by_dlsym_itself"), {"beyond": [2, 2, 2]})

    def test_one_at_a_fixed_address_that_looks_for_the_driver_everywhere_is_held_to_its_limit(self):
        self.serve()
        program = self.compiled("fixed", "gcc", "-no-pie", "-fno-pie", f"-L{BUILD}/lib/sim", "-Wl,--no-as-needed", "-lcuda",
                                text=FIXED_PROGRAM)
        self.assertEqual(self.odd(program), {"statuses": [0, 2, 0, 2, 0, 2, 0]})

    def test_one_that_asks_a_later_driver_for_what_takes_other_arguments_gets_the_drivers(self):
        driver = self.compiled("later.so", "gcc", "-shared", "-fPIC", "-Wl,-Bsymbolic", "-Wl,-soname,libcuda.so.1",
                               text=LATER_DRIVER)
        self.assertEqual(self.odd(sys.executable, "-c", ASKS_LATER_DRIVER, driver, SHIM),
                         {"known": True, "newer": True, "as_before": True})

    def test_one_that_closes_all_descriptors_keeps_its_limit_and_its_own_files(self):
        ledger = self.serve()
        self.assertEqual(self.odd(BUILD / "tests/odd_program", "closefrom"), {"status": 0, "beyond": 2, "good": True})
        ledger.until_given_back(self.uuid)
        self.assertEqual(ledger("intact"), "yes")

    def test_program_may_close_and_reopen_the_driver(self):
        ledger = self.serve()
        self.assertEqual(self.odd(BUILD / "tests/odd_program", "reload"), {"status": 0, "beyond": 2, "good": True})
        self.assertEqual(ledger("joined"), "1")

    def test_program_may_use_cuda_before_and_after_main(self):
        ledger = self.serve()
        self.assertEqual(self.odd(BUILD / "tests/early_program"), {"ready": True, "status": 0, "beyond": 2, "freed": 0})
        ledger.until_given_back(self.uuid)

    def test_programs_with_immediate_binding_or_fixed_addresses_get_the_same_answers(self):
        ledger = self.serve()
        told = self.probe("told")
        for words in (["env", "LD_BIND_NOW=1"], ["setarch", os.uname().machine, "-R"]):
            if subprocess.run([*words, "true"], capture_output=True, check=False).returncode != 0:
                continue  # a container may forbid the second
            with self.subTest(words[0]):
                self.assertEqual(self.odd(*words, *self.probe_command("told")), told)
        ledger.until_given_back(self.uuid)

    def test_a_deeply_bound_library_is_not_counted(self):
        """The guard sees it: tests/integration/second_line_test.py."""
        ledger = self.serve(512 * MIB)
        process = self.start(str(BUILD / "tests/odd_program"), "deep", str(BUILD / "tests/deep_library.so"))
        self.assertEqual(json.loads(process.stdout.readline()), {"beyond": 0})
        self.assertEqual(ledger("joined"), "0")


if __name__ == "__main__":
    unittest.main()

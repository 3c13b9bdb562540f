#!/usr/bin/env python3
"""The main job of gpuman, shown: programs that eat GPU memory are stopped at their limit, their neighbour goes on.

Usage: demo.py BUILD_DIRECTORY      (./dev demo calls it)
       demo.py --find-driver        exit status 0 when this machine has a driver with a GPU

Runs the programs of BUILD_DIRECTORY/bin on whichever driver it finds: the one of the machine, or the simulated one
when it is itself run by `gpuman-sim exec`. Everything it writes is in a temporary directory that it removes.
Exit status: 0 as promised, 1 not, with the reason.
"""

import ctypes
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20
LIMIT = 2048 * MIB
STEP = 128 * MIB
# What a CUDA context costs on top of what a program asks for differs by device: 300 to 600 MiB.
NEIGHBOUR = 256 * MIB
ENDED = ("finished", "failed", "cancelled", "timeout", "killed")


class Broken(Exception):
    pass


def find_driver():
    """The name of the first GPU, or None without both libraries and a device."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        ctypes.CDLL("libcuda.so.1")
        count, device, name = ctypes.c_uint(), ctypes.c_void_p(), ctypes.create_string_buffer(96)
        if nvml.nvmlInit_v2() != 0:
            return None
        found = nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0 and count.value > 0
        if found and nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0:
            nvml.nvmlDeviceGetName(device, name, len(name))
        nvml.nvmlShutdown()
        return name.value.decode(errors="replace") or "GPU 0" if found else None
    except (OSError, AttributeError):
        return None


def mib(size):
    return "unknown" if size is None else "%d MiB" % round(size / MIB)


class Demo:
    def __init__(self, build):
        self.bin = pathlib.Path(build).resolve() / "bin"
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="gpuman-demo-"))
        self.started = time.monotonic()
        self.environment = dict(os.environ)
        for name, folder in (("RUNTIME_DIR", "run"), ("STATE_HOME", "state"), ("CONFIG_HOME", "config")):
            (self.directory / folder).mkdir(mode=0o700)
            self.environment["XDG_" + name] = str(self.directory / folder)
        for name in ("GPUMAN_SOCKET", "GPUMAN_CONFIG", "GPUMAN_STATE_DIR"):
            self.environment.pop(name, None)
        self.daemon = None

    def say(self, text):
        print("%6.1f s  %s" % (time.monotonic() - self.started, text), flush=True)

    def gpuman(self, *arguments):
        """Runs gpuman; its output, parsed where that is asked for by --json."""
        done = subprocess.run([self.bin / "gpuman", *arguments], env=self.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
        if done.returncode != 0:
            raise Broken("gpuman %s failed (%d): %s" % (" ".join(arguments), done.returncode, done.stderr.strip()))
        return json.loads(done.stdout) if "--json" in arguments else done.stdout

    def start_daemon(self):
        with open(self.directory / "gpumand.log", "wb") as log:
            self.daemon = subprocess.Popen([self.bin / "gpumand", "--user"], env=self.environment, stdout=log,
                                           stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
        deadline = time.monotonic() + 30
        while True:
            try:
                # Before there is a socket, gpuman would start a daemon of its own.
                if self.daemon.poll() is None and not (self.directory / "run/gpuman/gpumand.sock").exists():
                    raise Broken("it does not listen")
                return self.gpuman("status", "--json")
            except Broken as error:
                if self.daemon.poll() is not None or time.monotonic() > deadline:
                    raise Broken("the daemon did not come up: %s\n%s" % (error, self.daemon_log())) from None
            time.sleep(0.05)

    def daemon_log(self):
        path = self.directory / "gpumand.log"
        return path.read_text(errors="replace")[-3000:] if path.exists() else ""

    def run_job(self, tag, *load, options=()):
        command = ["run", "--tag", tag, "--memory", "%dMiB" % (LIMIT // MIB), "--gpu", "0", *options, "--detach",
                   "--json", "--", str(self.bin / "gpuman-load"), "--json", *load]
        self.say("$ gpuman " + " ".join(word for word in command if word != "--json").replace(str(self.bin) + "/", ""))
        return self.gpuman(*command)

    def job(self, tag):
        for job in self.gpuman("status", "--json")["jobs"]:
            if job["tag"] == tag:
                return job
        raise Broken("job '%s' is gone from the status" % tag)

    def wait_for(self, what, condition, seconds=120):
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise Broken("waited %d s for %s" % (seconds, what))
            if self.daemon.poll() is not None:
                raise Broken("the daemon ended\n" + self.daemon_log())
            time.sleep(0.1)

    def log_of(self, tag):
        return self.gpuman("logs", tag)

    def show(self):
        status = self.start_daemon()
        if not status["gpus"]:
            raise Broken("the daemon sees no GPU: %s" % status.get("driver_error"))
        gpu = status["gpus"][0]
        self.say("%s with %s. gpumand runs for this user alone, in a directory of its own." % (
            gpu["name"], mib(gpu["memory"]["total"])))
        free = gpu["memory"]["free"]
        if free < 2 * LIMIT:
            raise Broken("GPU 0 has only %s free; the demo needs %s" % (mib(free), mib(2 * LIMIT)))

        self.say("A neighbour that behaves: %s, written, changed and checked byte for byte." % mib(NEIGHBOUR))
        self.run_job("neighbour", "--alloc", "%dMiB" % (NEIGHBOUR // MIB), "--verify", "--hold", "12s",
                     "--kernel-time", "20ms", "--duty", "0.3")
        self.wait_for("the neighbour to hold its memory",
                      lambda: (self.job("neighbour")["memory"]["used"] or 0) >= NEIGHBOUR
                      or self.job("neighbour")["state"] in ENDED)
        self.say("A hog that never stops asking: %s more every 100 ms." % mib(STEP))
        self.run_hog("hog")
        self.check_refused(self.job("hog"))
        self.say("A hog that gpuman cannot talk to: nothing is preloaded into it, as if it were a static program.")
        self.run_hog("wild-hog", "--no-preload")
        self.check_killed(self.job("wild-hog"))
        neighbour = self.job("neighbour")
        if neighbour["state"] != "running":
            raise Broken("the neighbour was %s when the hogs were stopped" % neighbour["state"])
        self.say("The neighbour goes on.")
        self.wait_for("the neighbour to finish", lambda: self.job("neighbour")["state"] in ENDED)
        self.check_neighbour(self.job("neighbour"))

    def run_hog(self, tag, *options):
        """Until it has ended, telling what it uses."""
        self.run_job(tag, "--alloc", "%dMiB" % (2 * LIMIT // MIB), "--step", "%dMiB" % (STEP // MIB),
                     "--interval", "100ms", "--hold", "60s", options=options)
        shown, began = -1, time.monotonic()
        while True:
            hog, neighbour = self.job(tag), self.job("neighbour")
            used = hog["memory"]["used"] or 0
            if used // (512 * MIB) > shown and hog["state"] == "running":
                shown = used // (512 * MIB)
                self.say("    hog %8s of %s    neighbour %8s, %s" % (
                    mib(used), mib(LIMIT), mib(neighbour["memory"]["used"]), neighbour["state"]))
            if hog["state"] in ENDED:
                return
            if time.monotonic() - began > 60:
                raise Broken("the hog was not stopped: %s after a minute" % mib(used))
            time.sleep(0.05)

    def check_refused(self, hog):
        refused = [event for event in map(json.loads, filter(lambda line: line.startswith("{"),
                                                             self.log_of("hog").splitlines()))
                   if event["event"] == "oom"]
        if refused:
            self.say("The hog has %s and was refused %s more: CUDA_ERROR_OUT_OF_MEMORY, as on a smaller GPU." % (
                mib(refused[0]["total"]), mib(refused[0]["requested"])))
        if hog["state"] != "failed" or hog["exit_code"] != 3:
            raise Broken("the hog should have been out of memory (exit 3), but: %s, %s, exit %s\n%s" % (
                hog["state"], hog["reason"], hog["exit_code"], self.log_of("hog")[-1500:]))
        peak = hog["memory"]["peak"] or 0
        if not LIMIT - 4 * STEP < peak <= LIMIT:
            raise Broken("the hog peaked at %s with a limit of %s" % (mib(peak), mib(LIMIT)))

    def check_killed(self, hog):
        self.say("The hog is %s: %s" % (hog["state"], hog["reason_detail"] or hog["reason"]))
        if hog["state"] != "killed" or hog["reason"] != "memory_limit":
            raise Broken("the hog should have been killed for memory_limit, but: %s, %s\n%s" % (
                hog["state"], hog["reason"], self.log_of("wild-hog")[-1500:]))
        peak = hog["memory"]["peak"] or 0
        # A step that was under way when the limit was passed may still have been taken.
        if not LIMIT < peak <= LIMIT + 8 * STEP:
            raise Broken("the hog peaked at %s with a limit of %s" % (mib(peak), mib(LIMIT)))

    def check_neighbour(self, neighbour):
        log = self.log_of("neighbour")
        if neighbour["state"] != "finished" or neighbour["exit_code"] != 0:
            raise Broken("the neighbour is %s (exit %s, signal %s)\n%s" % (
                neighbour["state"], neighbour["exit_code"], neighbour["signal"], log[-1500:]))
        events = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
        if not any(event["event"] == "verify" and event["bytes"] >= NEIGHBOUR and event["wrong_words"] == 0
                   for event in events):
            raise Broken("the neighbour did not say that its data was right:\n" + log[-1500:])
        self.say("The neighbour finished, exit status 0; it found every byte as it had left it.")

    def clean_up(self):
        for tag in ("hog", "wild-hog", "neighbour"):
            try:
                self.gpuman("remove", tag)
            except (Broken, OSError, subprocess.SubprocessError):
                pass
        if self.daemon and self.daemon.poll() is None:
            self.daemon.send_signal(signal.SIGTERM)
            try:
                self.daemon.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self.daemon.kill()
                self.daemon.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


def main(arguments):
    if arguments == ["--find-driver"]:
        name = find_driver()
        if name:
            print(name)
        return 0 if name else 1
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    demo = Demo(arguments[0])
    try:
        demo.show()
        print("\nAs promised: the hogs were stopped at their limit, and their neighbour was not harmed.")
        return 0
    except (Broken, OSError, subprocess.SubprocessError, KeyError, ValueError) as error:
        print("\nNOT as promised: %s" % error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        demo.clean_up()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

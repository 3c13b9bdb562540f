#!/usr/bin/env python3
"""A Jupyter server in an idle job, on a real GPU, through a daemon of its own: cells bring the job back, and data stay.

Usage: jupyter_session.py [--size GIB] [--json FILE] [--log DIR] [--simulated]

Needs jupyter_server, ipykernel, requests and websocket-client in this Python. Starts the server under
`gpuman run --idle-suspend 4s` and asks it as a browser does: kernels by REST, cells by websocket. Prints one table; exit
status 1 where a result was wrong, or the job did not leave or come back. GPUMAN_BUILD_DIR names the build.
"""

import argparse
import json
import pathlib
import socket
import sys
import time
import uuid

import requests
import websocket

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from machine import Machine  # noqa: E402
from share_session import Recording  # noqa: E402

PATIENCE = 100  # seconds for a cell: the first imports PyTorch

TORCH = """
import torch
x = torch.randint(0, 256, ({size},), dtype=torch.uint8, device="cuda")
def total():
    return int(x.view(torch.int64).sum())
print(total())
"""
DRIVER = """
import sys; sys.path.insert(0, {frameworks!r})
from driver import Device
import os
device = Device()
address = device.allocate({size})
device.write(address, os.urandom({size}))
def total():
    return sum(device.read(address, {size}))
print(total())
"""


class Kernel:
    def __init__(self, server):
        self.server = server
        self.id = server.post("/api/kernels")["id"]
        self.connect()

    def connect(self):
        self.socket = websocket.create_connection(
            f"{self.server.url.replace('http', 'ws')}/api/kernels/{self.id}/channels?token={self.server.token}", timeout=PATIENCE)

    def cell(self, code):
        """What the cell printed, and the seconds until its reply."""
        message, begin, text = uuid.uuid4().hex, time.monotonic(), ""
        header = {"msg_id": message, "msg_type": "execute_request", "username": "", "session": "s", "version": "5.3", "date": ""}
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False, "stop_on_error": True}
        self.socket.send(json.dumps({"header": header, "parent_header": {}, "metadata": {}, "content": content,
                                     "channel": "shell", "buffers": []}))
        while True:
            try:
                said = json.loads(self.socket.recv())
            except websocket.WebSocketTimeoutException:
                self.server.says_what_stands(code)
            if said["parent_header"].get("msg_id") != message:
                continue
            if said["msg_type"] == "stream":
                text += said["content"]["text"]
            if said["msg_type"] == "execute_reply":
                took = time.monotonic() - begin
                if said["content"]["status"] != "ok":
                    raise SystemExit("\n".join(said["content"].get("traceback", [])))
                return text.strip(), took


class Server:
    def __init__(self, machine):
        self.m, self.token = machine, uuid.uuid4().hex
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        machine.run_json("run", "--tag", "lab", "--gpu", "0", "--idle-suspend", "4s", "--detach", "--", sys.executable, "-m",
                         "jupyter_server", "--no-browser", "--allow-root", f"--port={port}", "--ServerApp.port_retries=0",
                         f"--IdentityProvider.token={self.token}", f"--ServerApp.root_dir={machine.dir}")
        deadline = time.monotonic() + 60
        while True:
            try:
                self.get("/api/status")
                return
            except requests.ConnectionError:
                if time.monotonic() > deadline:
                    raise SystemExit(pathlib.Path(self.job()["log_path"]).read_text()) from None
                time.sleep(0.2)

    def ask(self, method, path, **more):
        answer = requests.request(method, self.url + path, headers={"Authorization": f"token {self.token}"}, timeout=60, **more)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def get(self, path):
        return self.ask("GET", path)

    def post(self, path):
        return self.ask("POST", path, json={})

    def job(self):
        return self.m.api("GET", "/v1/jobs/lab")

    def says_what_stands(self, code):
        """Ends the session, with what is known of the job: its events, its threads, the daemon's log."""
        job = self.job()
        print(f"no reply within {PATIENCE} s to: {code.strip()}\n{json.dumps(job)}")
        for event in self.m.events():
            print(event["at"], event["kind"], event["message"])
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if "ipykernel" in words or "gpuman-mover" in words:
                    threads = [f"{(task / 'comm').read_text().strip()}:{(task / 'wchan').read_text()}" for task in (process / "task").iterdir()]
                    print(process.name, words[:120], *threads)
            except OSError:
                continue
        raise SystemExit((self.m.dir / "daemon.log").read_text()[-6000:])

    def leaves(self):
        deadline = time.monotonic() + 60
        while (job := self.job())["state"] != "suspended":
            if time.monotonic() > deadline:
                raise SystemExit(f"it does not leave: {job}")
            time.sleep(0.1)
        return job


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--size", type=float, default=10, help="GiB of the first kernel; the second has a fifth")
    options.add_argument("--json", type=pathlib.Path)
    options.add_argument("--log", type=pathlib.Path, help="a directory for the daemon's log, and the events")
    options.add_argument("--simulated", action="store_true")
    o = options.parse_args()
    size = 96 << 20 if o.simulated else int(o.size * (1 << 30))
    begin = DRIVER if o.simulated else TORCH
    frameworks = str(pathlib.Path(__file__).parent / "frameworks")
    results, bad = {}, False

    def row(what, value, fine=True):
        nonlocal bad
        bad = bad or not fine
        results[what] = value
        print(f"{what:<62}{value}{'' if fine else '   WRONG'}", flush=True)

    with Machine(real=not o.simulated, config='[log]\nlevel = "debug"\n') as machine, Recording(machine, o.log):
        server = Server(machine)
        first, second = Kernel(server), Kernel(server)
        totals = []
        for kernel, one in ((first, size), (second, size // 5)):
            text, took = kernel.cell(begin.format(size=one, frameworks=frameworks))
            totals.append(text)
            row(f"a kernel takes {one >> 20} MiB", f"{took:.1f} s", text.lstrip("-").isdigit())
        away = server.leaves()
        row("both idle: it leaves", away["reason_detail"])
        text, took = first.cell("print(6 * 7)")
        row("a cell that uses the CPU alone, away", f"{took:.3f} s, still {server.job()['state']}",
            text == "42" and server.job()["state"] == "suspended")
        text, took = first.cell("print(total())")
        row("a cell of the first kernel, from asking to the reply", f"{took:.3f} s", text == totals[0])
        text, took = first.cell("print(total())")
        row("the same cell once more", f"{took:.3f} s", text == totals[0])
        server.leaves()
        text, took = second.cell("print(total())")
        row("a cell of the second kernel, away again", f"{took:.3f} s", text == totals[1])
        server.leaves()
        server.post(f"/api/kernels/{second.id}/restart")
        second.connect()
        text, took = second.cell("print(6 * 7)")
        row("the second kernel is restarted while it is away", f"{took:.3f} s", text == "42")
        text, took = first.cell("print(total())")
        row("the first one has its data", f"{took:.3f} s", text == totals[0])
        server.ask("DELETE", f"/api/kernels/{first.id}")
        deadline = time.monotonic() + 30
        while (used := server.job()["memory"]["used"] or 0) > 0 and time.monotonic() < deadline:
            time.sleep(0.2)
        row("its kernel is shut down: memory of the job", f"{used >> 20} MiB", used == 0)
        machine.run("remove", "lab")
    if o.json:
        o.json.write_text(json.dumps(results, indent=1))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

"""The queue end to end, through the daemon's socket and real keepers, for bench.py."""

import json
import os
import pathlib
import statistics
import subprocess
import time

import machine


MANY = "[queue]\nqueued_jobs = 0\n"  # no limit on waiting jobs


class Client:
    """A client with one persistent connection."""

    def __init__(self, m):
        self.connection = machine.UnixConnection(m.env["GPUMAN_SOCKET"], timeout=120)
        self.common = {"directory": str(m.dir), "environment": {"PATH": os.environ["PATH"]}}

    def ask(self, method, path, body=None):
        self.connection.request(method, path, json.dumps(body) if body is not None else None,
                                {"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise SystemExit(f"bench: {method} {path}: {answer.status} {text[:300]}")
        return json.loads(text)

    def submit(self, jobs):
        return self.ask("POST", "/v1/submissions", {"jobs": jobs, **self.common})["jobs"]


def waiting(number, script="true"):
    return {"name": f"w{number}", "command": ["/bin/sh", "-c", script], "gpus": {"count": 1}}


def rate(count, act):
    begin = time.monotonic()
    act()
    return count / (time.monotonic() - begin)


def measure_submissions(tell):
    with machine.Machine(gpus=2) as m:
        client = Client(m)
        client.ask("PATCH", "/v1/queue/settings", {"paused": True})
        body = json.dumps({"jobs": [{"command": ["/bin/sh", "-c", "true"], "gpus": {"count": 1}}], **client.common})
        one = float(subprocess.run([machine.build_dir() / "bench" / "submit_client", m.env["GPUMAN_SOCKET"], "2000", body],
                                   check=True, capture_output=True, text=True).stdout)
        tell("submissions one by one, from one client (submit_client)", f"{2000 / one:.0f} a second, n=2000", "1,000 a second")
        client.submit([waiting(f"b{n}") for n in range(8000)])
        times = []
        for _ in range(10):
            begin = time.monotonic()
            subprocess.run([machine.program("gpuman"), "queue"], env=m.env, stdout=subprocess.DEVNULL, check=True)
            times.append((time.monotonic() - begin) * 1e3)
        tell("gpuman queue, 10,000 waiting jobs", f"median {statistics.median(times):.0f} ms, max {max(times):.0f}", "at most 50 ms")
        m.stop_daemon()  # so that the end of the machine does not remove job by job


def resident_mib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise SystemExit("bench: no VmRSS")


def measure_start(tell):
    with machine.Machine(gpus=2, config=MANY) as m:
        client = Client(m)
        client.ask("PATCH", "/v1/queue/settings", {"paused": True})
        batches = [[waiting(f"b{batch}_{n}") for n in range(1000)] for batch in range(100)]
        texts = rate(100_000, lambda: [client.submit(batch) for batch in batches])
        tell("submissions in batches of 1,000", f"{texts:.0f} a second, n=100,000", "20,000 a second")
        tell("daemon with 100,000 jobs that were submitted", f"{resident_mib(m.daemon.pid):.0f} MiB resident", "150 MB")
        m.stop_daemon()
        begin = time.monotonic()
        m.start_daemon()
        took = time.monotonic() - begin
        tell("daemon start with 100,000 jobs, until it answers", f"{took:.2f} s", "1 s")
        tell("the same, memory", f"{resident_mib(m.daemon.pid):.0f} MiB resident", "150 MB")
        m.stop_daemon()


def measure_throughput(tell, count):
    with machine.Machine(gpus=2) as m:
        client = Client(m)
        begin = time.monotonic()
        jobs = client.submit([waiting(n) for n in range(count)])
        for job in jobs:
            client.ask("GET", f"/v1/jobs/{job['id']}/wait")
        tell("short jobs through two GPUs, submit to end", f"{count / (time.monotonic() - begin):.0f} a second, n={count}", "100 a second")


def measure_gaps(tell, count=100):
    """Measures from the end of a job's command to the start of the next job's command, on one GPU."""
    with machine.Machine(gpus=1) as m:
        client = Client(m)
        jobs = client.submit([waiting(n, "date +%s%N; sleep 0.05; date +%s%N") for n in range(count)])
        times = [list(map(int, pathlib.Path(client.ask("GET", f"/v1/jobs/{job['id']}/wait")["log_path"]).read_text().split()[:2]))
                 for job in jobs]
    gaps = [(after[0] - before[1]) / 1e6 for before, after in zip(sorted(times), sorted(times)[1:])]
    tell("a GPU freed until the next job's command executes", f"median {statistics.median(gaps):.1f} ms, max {max(gaps):.1f}, n={len(gaps)}",
                 "median at most 30 ms")


def measure(tell, jobs=400):
    """Calls tell(what, figure, bar) for each figure."""
    measure_submissions(tell)
    measure_start(tell)
    measure_throughput(tell, jobs)
    measure_gaps(tell)

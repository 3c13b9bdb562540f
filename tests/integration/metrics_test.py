#!/usr/bin/env python3
"""Metrics as Prometheus reads them, over the socket and over TCP. On the simulated driver.

Usage: metrics_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)

promtool checks the text as well, where it is installed (Debian: prometheus) or named by GPUMAN_PROMTOOL.
"""

import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from daemon_case import DaemonTest, PATIENCE, until  # noqa: E402
from machine import ROOT, free_port, program  # noqa: E402

MIB = 1 << 20
PROMTOOL = os.environ.get("GPUMAN_PROMTOOL") or shutil.which("promtool")
NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(,|$)')


def family_of(name, types):
    """The family that a sample's name belongs to."""
    for suffix in ("_bucket", "_sum", "_count"):
        if name.endswith(suffix) and types.get(name.removesuffix(suffix)) == "histogram":
            return name.removesuffix(suffix)
    return name


def parse(text):
    """Parses strictly by the format 0.0.4; returns {family: [(sample's name, labels, value)]}. AssertionError says what
    is wrong."""
    helps, types, families, seen = set(), {}, {}, set()
    current = None
    assert text.endswith("\n"), "the last line does not end"
    for line in text.split("\n")[:-1]:
        if line.startswith("# "):
            _, keyword, name, rest = line.split(" ", 3)
            assert NAME.fullmatch(name), line
            if keyword == "HELP":
                assert name not in helps and rest, line
                helps.add(name)
            else:
                assert keyword == "TYPE" and rest in ("gauge", "counter", "histogram", "untyped"), line
                assert name in helps and name not in types and name not in families, line
                types[name] = rest
            current = name
            continue
        head, _, number = line.rpartition(" ")
        name, brace, rest = head.partition("{")
        assert NAME.fullmatch(name) and number, line
        labels, at = {}, 0
        if brace:
            assert rest.endswith("}"), line
            rest = rest[:-1]
            while at < len(rest):
                label = LABEL.match(rest, at)
                assert label and label[1] not in labels, line
                labels[label[1]] = re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], label[2])
                at = label.end()
        family = family_of(name, types)
        assert family == current, f"{line}: not in its family"
        key = (name, tuple(sorted(labels.items())))
        assert key not in seen, f"{line}: twice"
        seen.add(key)
        families.setdefault(family, []).append((name, labels, float(number)))
    for family, kind in types.items():
        assert family in families, f"{family} has no sample"
        assert (kind == "counter") == family.endswith("_total"), f"{family} is a {kind}"
        if kind == "histogram":
            check_histogram(families[family])
    return families


def check_histogram(samples):
    series = {}
    for name, labels, value in samples:
        rest = tuple(sorted((k, v) for k, v in labels.items() if k != "le"))
        series.setdefault(rest, []).append((name, labels.get("le"), value))
    for rows in series.values():
        buckets = [(float(le), value) for name, le, value in rows if le]
        assert buckets == sorted(buckets) and [b[1] for b in buckets] == sorted(b[1] for b in buckets), rows
        count = next(value for name, _, value in rows if name.endswith("_count"))
        assert buckets[-1] == (float("inf"), count), rows


class MetricsCase(DaemonTest):
    gpus, memory, profile = 2, "4GiB", "h200"
    port = 0

    @classmethod
    def prepare(cls):
        cls.port = free_port()
        with open(cls.m.dir / "gpumand.toml", "a", encoding="utf-8") as file:
            file.write(f'[sampling]\nrest = "20ms"\nslow = "100ms"\nretry = "200ms"\n[health]\nkernel_log = ""\n'
                       f'[metrics]\nlisten = "127.0.0.1:{cls.port}"\n')

    def text(self, query=""):
        answer = self.request("GET", "/metrics" + query)
        self.assertEqual(answer.status, 200, answer.body)
        return answer.body.decode()

    def scrape(self, query=""):
        return parse(self.text(query))

    def values(self, family, **labels):
        """The values of the samples with these labels; samples may have more labels."""
        return [value for _, have, value in self.scrape().get(family, [])
                if all(have.get(name) == str(want) for name, want in labels.items())]

    def value(self, family, **labels):
        values = self.values(family, **labels)
        self.assertLessEqual(len(values), 1, family)
        return values[0] if values else None

    def gpuman(self, *arguments):
        return subprocess.run([program("gpuman"), *arguments], env=self.m.env, capture_output=True, text=True, timeout=PATIENCE)

    def submit(self, **more):
        job = {"command": ["/bin/sh", "-c", "exec sleep 1000"], **more}
        answer = self.request("POST", "/v1/submissions", {"jobs": [job], "directory": str(self.m.dir), "environment": {}})
        self.assertEqual(answer.status, 201, answer.body)
        return answer.json()["jobs"][0]["id"]


class FormatTest(MetricsCase):
    def test_the_text_is_as_the_format_says_with_odd_names_in_it(self):
        project = 'a"b\\c ü'
        self.submit(project=project)
        until("it is told", lambda: self.value("gpuman_project_jobs", project=project))
        until("the details are there", lambda: "DCGM_FI_DEV_SM_CLOCK" in self.scrape())
        self.assertNotIn("DCGM", self.text("?dcgm=0"))

    @unittest.skipUnless(PROMTOOL, "promtool is not installed")
    def test_promtool_finds_nothing_but_names_that_dcgm_exporter_chose(self):
        until("the details are there", lambda: "DCGM_FI_DEV_SM_CLOCK" in self.scrape())
        own = subprocess.run([PROMTOOL, "check", "metrics"], input=self.text("?dcgm=0"), capture_output=True, text=True)
        self.assertEqual((own.returncode, own.stdout + own.stderr), (0, ""))
        whole = subprocess.run([PROMTOOL, "check", "metrics"], input=self.text(), capture_output=True, text=True)
        its_names = (r"label names should be written in 'snake_case' not 'camelCase'$",  # modelName
                     r"metric name should not include type 'counter'$")  # PCIE_REPLAY_COUNTER
        for line in (whole.stdout + whole.stderr).splitlines():
            self.assertRegex(line, rf"^DCGM_FI_DEV_\w+ ({'|'.join(its_names)})")

    @unittest.skipUnless(PROMTOOL, "promtool is not installed")
    def test_promtool_takes_the_alert_rules(self):
        rules = ROOT / "packaging/prometheus/gpuman.rules.yml"
        checked = subprocess.run([PROMTOOL, "check", "rules", rules], capture_output=True, text=True)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)

    def test_the_command_prints_the_same(self):
        printed = self.gpuman("metrics")
        self.assertEqual(printed.returncode, 0, printed.stderr)
        self.assertIn("DCGM_FI_DEV_FB_USED", parse(printed.stdout))
        own = self.gpuman("metrics", "--own", "--json")
        families = parse(json.loads(own.stdout)["text"])
        self.assertIn("gpuman_gpu_memory_used_bytes", families)
        self.assertFalse([name for name in families if name.startswith("DCGM")])


class ContentTest(MetricsCase):
    def tearDown(self):
        self.inject("clear", "--counters")
        super().tearDown()

    def test_gpus_are_as_the_status_has_them(self):
        self.start("holder", self.load("512MiB", "--hold", "1h"), gpus=["0"])
        until("it has its memory", lambda: (self.value("gpuman_job_memory_used_bytes", tag="holder") or 0) >= 512 * MIB)
        def memory_is_the_same(gpu):
            uuid, memory = gpu["uuid"], gpu["memory"]
            return (self.value("gpuman_gpu_memory_total_bytes", uuid=uuid) == memory["total"]
                    and self.value("gpuman_gpu_memory_used_bytes", uuid=uuid) == memory["used"]
                    and self.value("DCGM_FI_DEV_FB_USED", UUID=uuid) == memory["used"] // MIB
                    and self.value("DCGM_FI_DEV_FB_FREE", UUID=uuid) == memory["free"] // MIB)

        def gpus():
            return self.request("GET", "/v1/gpus").json()["gpus"]
        # The job's memory is in the figures of processes a moment before it is in those of the GPU.
        until("metrics and status say the same", lambda: all(map(memory_is_the_same, gpus())),
              lambda: (gpus(), self.scrape()["DCGM_FI_DEV_FB_USED"]))
        for gpu in gpus():
            uuid = gpu["uuid"]
            self.assertEqual(self.value("gpuman_gpu_up", uuid=uuid), 1)
            labels = next(have for _, have, _ in self.scrape()["DCGM_FI_DEV_GPU_TEMP"] if have["UUID"] == uuid)
            self.assertEqual((labels["gpu"], labels["device"], labels["modelName"], labels["Hostname"]),
                             (str(gpu["index"]), f"nvidia{gpu['index']}", gpu["name"], socket.gethostname()))

    def test_a_job_is_there_with_its_limit_from_its_start_to_its_end(self):
        job = self.start("limited", self.load("256MiB", "--hold", "1h"), memory="1GiB", soft="128MiB", gpus=["1"])
        until("it is told", lambda: self.value("gpuman_job_memory_used_bytes", job_id=job))
        self.assertGreaterEqual(self.value("gpuman_job_memory_used_bytes", job_id=job, gpu=1), 256 * MIB)
        self.assertEqual(self.value("gpuman_job_memory_limit_bytes", job_id=job, gpu=1), 1024 * MIB)
        self.assertEqual(self.value("gpuman_job_memory_soft_limit_bytes", job_id=job, gpu=1), 128 * MIB)
        self.assertGreaterEqual(self.value("gpuman_job_memory_peak_bytes", job_id=job), 256 * MIB)
        user = self.job(job)["user"]
        self.assertEqual(self.value("gpuman_user_memory_limit_bytes", user=user), 1024 * MIB)
        self.assertEqual(self.value("gpuman_user_jobs", user=user), 1)
        self.assertEqual(self.value("gpuman_jobs", state="running"), 1)
        until("its soft limit is told", lambda: self.value("gpuman_limit_hits_total", user=user, limit="soft"))
        ended = sum(self.values("gpuman_jobs_ended_total"))
        self.request("DELETE", f"/v1/jobs/{job}")
        until("it is gone", lambda: not self.values("gpuman_job_info", job_id=job))
        self.assertEqual(self.values("gpuman_job_memory_used_bytes", job_id=job), [])
        until("it is counted", lambda: sum(self.values("gpuman_jobs_ended_total")) == ended + 1)
        self.assertGreaterEqual(self.value("gpuman_limit_hits_total", user=user, limit="soft"), 1)

    def test_a_hard_limit_that_ends_a_job_is_counted(self):
        before = sum(self.values("gpuman_limit_hits_total", limit="hard"))
        job = self.start("hog", self.load("512MiB", "--hold", "1h"), memory="256MiB", gpus=["0"], preload=False)
        self.becomes(job, "killed")
        until("it is counted", lambda: sum(self.values("gpuman_limit_hits_total", limit="hard")) == before + 1)
        until("its event too", lambda: self.value("gpuman_events_total", kind="hard_limit") >= before + 1)

    def test_the_queue_tells_how_many_wait_for_what_and_how_long_starts_took(self):
        started = self.value("gpuman_jobs_started_total") or 0
        waits = next(v for n, _, v in self.scrape()["gpuman_queue_wait_seconds"] if n.endswith("_count"))
        jobs = [self.submit(gpus={"count": 2}, project="vision") for _ in range(3)]
        until("the first runs", lambda: self.job(jobs[0])["state"] == "running")
        until("two wait", lambda: self.value("gpuman_jobs", state="queued") == 2)
        self.assertEqual(sum(self.values("gpuman_queue_jobs")), 2)
        self.assertTrue(self.value("gpuman_queue_jobs", reason="resources"))
        self.assertEqual(self.value("gpuman_project_jobs", project="vision"), 1)
        until("it has waited", lambda: self.value("gpuman_queue_oldest_wait_seconds"))
        self.assertGreater(sum(self.values("gpuman_jobs_started_total")), started)
        histogram = self.scrape()["gpuman_queue_wait_seconds"]
        self.assertEqual(next(v for n, _, v in histogram if n.endswith("_count")), waits + 1)
        self.request("POST", f"/v1/jobs/{jobs[2]}/hold")
        until("one is held", lambda: self.value("gpuman_jobs", state="held") == 1)
        for job in reversed(jobs):
            self.request("DELETE", f"/v1/jobs/{job}")

    def test_slow_figures_are_read_while_somebody_scrapes(self):
        until("all of it is there", lambda: {
            "DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_MEM_CLOCK", "DCGM_FI_DEV_MEMORY_TEMP", "DCGM_FI_DEV_ENC_UTIL",
            "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "gpuman_gpu_pcie_transmit_bytes_per_second",
        } <= self.scrape().keys())
        self.inject("ecc", "--count", "7", "--gpu", "0")
        until("it is counted", lambda: self.value("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", gpu=0) == 7)
        self.assertEqual(self.value("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", gpu=1), 0)

    def test_an_xid_is_told_with_what_it_makes_of_the_gpu(self):
        self.assertEqual(self.value("DCGM_FI_DEV_XID_ERRORS", gpu=1), 0)
        self.inject("xid", "74", "--gpu", "1")
        until("it is told", lambda: self.value("DCGM_FI_DEV_XID_ERRORS", gpu=1) == 74)
        until("it is degraded", lambda: self.value("gpuman_gpu_health_state", gpu=1, state="degraded") == 1)
        self.assertEqual(self.value("gpuman_gpu_health_state", gpu=1, state="healthy"), 0)
        self.assertEqual(self.value("gpuman_gpu_fault", gpu=1, fault="xid_74"), 1)
        self.assertEqual(self.value("gpuman_gpu_xid_errors_total", gpu=1, xid=74), 1)
        self.assertEqual(self.request("POST", "/v1/health/acknowledge", {"gpu": "1"}).status, 200)
        self.assertIsNone(self.value("gpuman_gpu_fault", gpu=1, fault="xid_74"))

    def test_a_lost_gpu_has_no_readings_and_comes_back_with_them(self):
        self.inject("lost", "--gpu", "0")
        until("it is lost", lambda: self.value("gpuman_gpu_up", gpu=0) == 0)
        self.assertIsNone(self.value("gpuman_gpu_temperature_celsius", gpu=0))
        self.assertIsNone(self.value("DCGM_FI_DEV_FB_USED", gpu=0))
        self.assertEqual(self.value("gpuman_gpu_up", gpu=1), 1)
        self.inject("clear", "--gpu", "0")
        until("it is back", lambda: self.value("gpuman_gpu_up", gpu=0) == 1)
        until("its readings too", lambda: self.value("gpuman_gpu_temperature_celsius", gpu=0))
        until("it is well", lambda: self.value("gpuman_gpu_health_state", gpu=0, state="healthy") == 1)

    def test_the_daemon_tells_what_it_costs(self):
        first = self.scrape()
        # Where answers cost too much, the last one is given again.
        second = until("a new answer counts it", lambda: (
            now := self.scrape())["gpuman_scrapes_total"][0][2] > first["gpuman_scrapes_total"][0][2] and now)
        self.assertGreater(first["process_cpu_seconds_total"][0][2], 0)
        self.assertGreater(first["process_resident_memory_bytes"][0][2], MIB)
        self.assertGreater(second["gpuman_scrape_render_seconds_total"][0][2], 0)
        rounds = next(v for n, _, v in second["gpuman_sampler_round_seconds"] if n.endswith("_count"))
        self.assertGreater(rounds, 0)


class BareTest(MetricsCase):
    profile, gpus = "rtx4050", 1

    def test_a_device_without_error_correction_says_nothing_of_it(self):
        until("the details are there", lambda: "DCGM_FI_DEV_SM_CLOCK" in self.scrape())
        until("all of them", lambda: "gpuman_gpu_pcie_receive_bytes_per_second" in self.scrape())
        families = self.scrape()
        for name in ("ECC_SBE_VOL_TOTAL", "ECC_DBE_VOL_TOTAL", "ROW_REMAP_FAILURE", "MEMORY_TEMP"):
            self.assertNotIn("DCGM_FI_DEV_" + name, families)
        self.assertIn("DCGM_FI_DEV_GPU_TEMP", families)


class TcpTest(MetricsCase):
    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        with contextlib.closing(connection):
            connection.request(method, path, body)
            answer = connection.getresponse()
            return answer.status, answer.getheader("Content-Type"), answer.read().decode()

    def test_it_serves_metrics_and_nothing_else(self):
        status, kind, text = self.ask("GET", "/metrics")
        self.assertEqual((status, kind), (200, "text/plain; version=0.0.4; charset=utf-8"))
        self.assertIn("gpuman_gpu_memory_used_bytes", parse(text))
        self.assertEqual(self.ask("GET", "/healthz")[::2], (200, "ok\n"))
        for method, path in (("GET", "/v1/status"), ("GET", "/v1/events"), ("POST", "/v1/jobs"), ("DELETE", "/v1/jobs/1"), ("GET", "/")):
            self.assertEqual(self.ask(method, path, "{}" if method == "POST" else None)[0], 404, path)
        self.assertEqual(self.ask("POST", "/metrics", "x")[0], 405)

    def test_scrapers_that_are_silent_or_do_not_read_keep_nobody_out(self):
        with contextlib.ExitStack() as held:
            for i in range(100):
                idle = held.enter_context(contextlib.closing(socket.create_connection(("127.0.0.1", self.port))))
                # Every second client sends requests again and again, and never reads.
                with contextlib.suppress(OSError):
                    if i % 2:
                        idle.settimeout(0.2)
                        idle.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 20)
            self.assertEqual(self.request("GET", "/v1/status").status, 200)
            until("a scraper is served again", self.serves)

    def serves(self):
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.ask("GET", "/metrics")[0] == 200
        return False

    def test_a_daemon_whose_address_is_taken_serves_the_rest(self):
        self.m.stop_daemon()
        with contextlib.closing(socket.socket()) as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind(("127.0.0.1", self.port))
            taken.listen()
            self.m.start_daemon()
            self.assertEqual(self.request("GET", "/v1/version").status, 200)
            self.assertIn("gpuman_build_info", self.scrape())
        self.m.stop_daemon()
        self.m.start_daemon()
        self.assertEqual(self.ask("GET", "/healthz")[0], 200)


if __name__ == "__main__":
    unittest.main(verbosity=2)

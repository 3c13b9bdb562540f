#!/usr/bin/env python3
"""Containers of Kubernetes: the daemon finds them by their cgroups and enforces what the table gives them.

Usage: containers_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import atexit
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from daemon_case import MIB, DaemonTest, until  # noqa: E402
from machine import program  # noqa: E402
from pods import SCOPES, Container, unified_tree  # noqa: E402

GIB = 1024 * MIB
LOGS = tempfile.mkdtemp(prefix="gpuman-logs-")
atexit.register(shutil.rmtree, LOGS, True)


@unittest.skipUnless(unified_tree(), "cgroups can be made by root where there is a tree of version 2")
class ContainersCase(DaemonTest):
    memory = "8GiB"
    config = f'[sampling]\nrest = "20ms"\n[guard]\ngrace = "0ms"\n[jobs]\nstop_grace = "100ms"\n[kubernetes]\nlogs = "{LOGS}"\n'

    def setUp(self):
        self.gpu = self.request("GET", "/v1/gpus").json()["gpus"][0]["uuid"]
        self.files = self.tell()["files"]

    def tell(self, *given):
        answer = self.request("PUT", "/v1/containers", {"containers": list(given)})
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json()

    def container(self, pod, **more):
        container = Container(LOGS, pod, **more)
        self.addCleanup(container.close)
        return container

    def environment(self, shim=True, **more):
        """The environment of a process in a container, with the plugin's mounts or without."""
        environment = {**self.m.env, **more}
        if shim:
            environment["LD_PRELOAD"] = pathlib.Path(self.files["preload"]).read_text().strip()
            environment["GPUMAN_SHIM_SOCKET"] = self.files["socket_directory"] + "/shim.sock"
        return environment

    def load(self, container, size, *more, shim=True, before=(), **environment):
        command = [*before, program("gpuman-load"), "--alloc", str(size), *more]
        return container.start(command, self.environment(shim, **environment))

    def holds(self, container, size, *more, **how):
        """Starts a process that takes this much memory and keeps it."""
        return self.has_memory(self.load(container, size, "--hold", "1h", "--json", *more, **how))

    def has_memory(self, process):
        """Waits until the process has its memory; returns the process."""
        for line in process.stdout:
            if '"alloc"' in line:
                return process
        raise AssertionError(f"it ended with {process.wait()}")

    def jobs(self):
        return [job for job in self.request("GET", "/v1/jobs").json()["jobs"] if job["ended_at"] is None]

    def job_of(self, container):
        place = {"namespace": container.space, "pod": container.pod, "container": container.name}
        return until(f"{place} is a job", lambda: next((job for job in self.jobs() if job["kubernetes"] == place), None))

    def given(self, pod, memory=GIB, **more):
        """Makes a container and gives it this much of the GPU."""
        container = self.container(pod, **more)
        self.tell(container.given(gpus=[self.gpu], memory=memory))
        return container


class ContainersTest(ContainersCase):
    def test_a_container_is_a_job_with_the_limit_that_it_was_given(self):
        container = self.given("train")
        self.holds(container, "256MiB")
        job = self.job_of(container)
        self.assertEqual((job["tag"], job["state"], job["user"]), ("kube:team:train:main", "running", "root"))
        self.assertEqual((job["memory"]["limit"], job["gpus"]), (GIB, [self.gpu]))
        over = self.load(container, "2GiB")
        self.assertEqual(over.wait(), 3, "out of memory, of its own")
        self.assertEqual(job["id"], self.job_of(container)["id"])

    def test_a_process_executed_later_counts_too(self):
        container = self.given("exec")
        self.holds(container, "768MiB")
        self.assertEqual(self.load(container, "512MiB").wait(), 3)
        self.assertEqual(self.load(container, "16MiB").wait(), 0)

    def test_each_container_has_a_limit_of_its_own(self):
        one, two = self.container("pair", name="one"), self.container("pair", name="two")
        self.tell(one.given(gpus=[self.gpu], memory=GIB), two.given(gpus=[self.gpu], memory=2 * GIB))
        self.holds(one, "768MiB")
        self.holds(two, "1536MiB")
        self.assertEqual(self.load(one, "512MiB").wait(), 3)
        self.assertEqual(self.job_of(two)["memory"]["limit"], 2 * GIB)

    def test_container_without_library_is_ended_by_guard_alone(self):
        greedy, modest = self.container("greedy"), self.container("modest")
        self.tell(*(each.given(gpus=[self.gpu], memory=GIB) for each in (greedy, modest)))
        neighbour = self.holds(modest, "256MiB", shim=False)
        self.job_of(modest)
        self.assertEqual(self.load(greedy, "2GiB", "--hold", "1h", shim=False).wait(), -signal.SIGKILL)
        ended = until("its job has ended", lambda: next(
            (job for job in self.request("GET", "/v1/jobs?all=1").json()["jobs"]
             if (job["kubernetes"] or {}).get("pod") == "greedy" and job["state"] == "killed"), None))
        self.assertEqual(ended["reason"], "memory_limit")
        self.assertIsNone(neighbour.poll())
        self.assertTrue(greedy.cgroup.exists(), "it is the runtime's to put away")

    def test_container_stays_one_job_over_restart_of_daemon(self):
        container = self.given("stays")
        self.holds(container, "768MiB")
        job = self.job_of(container)
        self.m.stop_daemon(signal.SIGKILL)
        self.m.start_daemon()
        self.assertEqual(self.job_of(container)["id"], job["id"])
        self.assertEqual(self.load(container, "512MiB").wait(), 3, "though nobody has told the table again")

    def test_a_process_that_comes_before_the_table_waits_for_it(self):
        container = self.container("early")
        self.m.stop_daemon(signal.SIGKILL)
        self.m.start_daemon()
        process = self.load(container, "512MiB", "--hold", "1h", "--json")
        self.tell(container.given(gpus=[self.gpu], memory=GIB))
        self.has_memory(process)
        self.assertEqual(self.job_of(container)["memory"]["limit"], GIB)
        self.assertEqual(self.load(container, "768MiB").wait(), 3)
        self.assertIsNone(process.poll())

    def test_a_container_that_is_no_longer_listed_keeps_its_limit(self):
        container = self.given("old")
        self.holds(container, "256MiB")
        job = self.job_of(container)
        self.tell()
        self.assertEqual(self.load(container, "2GiB").wait(), 3)
        self.assertEqual(self.job_of(container)["id"], job["id"])

    def test_a_container_without_a_grant_runs_on_as_before(self):
        container = self.container("stranger")
        self.tell()
        self.holds(container, "2GiB")
        self.assertEqual([job for job in self.jobs() if job["kubernetes"]], [])

    def test_container_job_ends_when_nothing_runs_in_it(self):
        container = self.given("ends")
        first, second = self.holds(container, "64MiB"), self.holds(container, "64MiB")
        job = self.job_of(container)
        first.kill()
        first.wait()
        self.assertEqual(self.load(container, "2GiB").wait(), 3)
        self.assertEqual(self.job(job["id"])["state"], "running")
        second.kill()
        second.wait()
        ended = self.wait(job["id"])
        self.assertEqual((ended["state"], ended["reason"]), ("finished", "status_unknown"))

    def test_a_container_that_starts_anew_is_another_job(self):
        container = self.given("again")
        process = self.holds(container, "64MiB")
        first = self.job_of(container)
        process.kill()
        process.wait()
        self.wait(first["id"])
        again = self.container("again", uid=container.uid)
        self.holds(again, "64MiB")
        self.assertNotEqual(self.job_of(again)["id"], first["id"])

    def test_a_process_waits_until_kubelet_has_written_down_whose_it_is(self):
        container = self.container("late", named=False)
        beside = self.container("late", name="small", uid=container.uid)
        self.tell(container.given(gpus=[self.gpu], memory=2 * GIB), beside.given(gpus=[self.gpu], memory=GIB))
        process = self.load(container, "1536MiB", "--hold", "1h", "--json")
        container.write_name()
        self.has_memory(process)
        self.assertEqual(self.job_of(container)["memory"]["limit"], 2 * GIB)
        self.assertEqual(self.load(container, "1GiB").wait(), 3)
        self.assertIsNone(process.poll())

    def test_container_without_name_gets_the_least_limit_of_its_pod(self):
        container = self.container("unnamed", named=False)
        given = [container.given(gpus=[self.gpu], memory=2 * GIB), {**container.given(gpus=[self.gpu], memory=GIB), "container": "x"}]
        self.tell(*given)
        self.holds(container, "256MiB", shim=False)
        job = until("it is a job", lambda: next((job for job in self.jobs() if job["kubernetes"]), None))
        self.assertEqual(job["memory"]["limit"], GIB)

    def makes_namespaces(self, command):
        """Skips if that is impossible, even for root: in a chroot the kernel makes no user namespace."""
        done = subprocess.run([*command, "true"], capture_output=True, text=True)
        if done.returncode != 0:
            self.skipTest(f"{' '.join(command)} does not work here: {done.stderr.strip()}")

    def test_limit_holds_in_a_user_namespace(self):
        shell = ["unshare", "--user", "--map-root-user", "--"]
        self.makes_namespaces(shell)
        container = self.given("mapped")
        self.holds(container, "64MiB")
        self.assertEqual(self.load(container, "2GiB", before=shell).wait(), 3)
        self.assertEqual(self.load(container, "256MiB", before=shell).wait(), 0)

    def test_container_is_known_in_a_pid_namespace(self):
        inside = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--"]
        self.makes_namespaces(inside)
        container = self.given("numbered")
        self.holds(container, "256MiB", before=inside)
        self.job_of(container)
        until("its memory is known", lambda: (self.job_of(container)["memory"]["used"] or 0) >= 256 * MIB)
        self.assertEqual(self.load(container, "1GiB", before=inside).wait(), 3)
        self.load(container, "1GiB", "--hold", "1h", shim=False, before=inside)
        until("the guard has ended it", lambda: all(process.poll() is not None for process in container.processes))

    def test_containers_of_every_runtime_are_known_and_others_are_left_alone(self):
        pods = {runtime: self.container(runtime.lower(), runtime=runtime) for runtime in SCOPES}
        self.tell(*(each.given(gpus=[self.gpu], memory=GIB) for each in pods.values()))
        for runtime, container in pods.items():
            self.holds(container, "64MiB")
            over = self.load(container, "1536MiB").wait()
            self.assertEqual(over, 0 if runtime == "Podman" else 3, "Podman's are none of Kubernetes'")
        self.assertEqual(sorted(job["kubernetes"]["pod"] for job in self.jobs()), ["containerd", "cri-o", "docker"])

    def test_restart_and_release_of_container_job_are_refused(self):
        container = self.given("kept")
        self.holds(container, "64MiB")
        job = self.job_of(container)
        self.assertEqual(self.request("POST", f"/v1/jobs/{job['id']}/restart").code(), "not_supported")
        self.assertEqual(self.request("DELETE", f"/v1/jobs/{job['id']}?keep_running=1").code(), "not_supported")

    def test_remove_ends_the_processes_of_the_container(self):
        container = self.given("removed")
        process = self.holds(container, "64MiB")
        job = self.job_of(container)
        self.assertEqual(self.request("DELETE", f"/v1/jobs/{job['id']}").status, 200)
        self.assertEqual(process.wait(), -signal.SIGTERM)
        self.assertEqual(self.request("GET", f"/v1/jobs/{job['id']}").status, 404)

    def test_metrics_name_container_as_dcgm_exporter_does(self):
        container = self.given("seen")
        self.holds(container, "64MiB")
        self.job_of(container)
        metrics = self.request("GET", "/metrics").body.decode()
        lines = [line for line in metrics.splitlines() if line.startswith("gpuman_job_memory_limit_bytes")]
        self.assertTrue(any('namespace="team",pod="seen",container="main"' in line for line in lines), lines)

    def test_the_directory_for_containers_has_the_shims_socket_alone(self):
        directory = pathlib.Path(self.files["socket_directory"])
        self.assertEqual([entry.name for entry in directory.iterdir()], ["shim.sock"])
        self.assertTrue(directory.is_absolute())

    def test_wrong_tables_say_what_is_wrong_and_change_nothing(self):
        container = self.container("wrong")
        self.tell(container.given(gpus=[self.gpu], memory=GIB))
        for wrong in ({}, {"containers": [{"pod": "x"}]}, {"containers": [container.given(gpus="0")]},
                      {"containers": [], "more": 1}, {"containers": [container.given(gpus=[], memory=-1)]}):
            with self.subTest(wrong=shlex.quote(str(wrong))):
                self.assertEqual(self.request("PUT", "/v1/containers", wrong, checked=False).code(), "invalid_argument")
        self.assertEqual(len(self.request("GET", "/v1/containers").json()["containers"]), 1)


class SharedContainersTest(ContainersCase):
    """Sharing may use 222 MiB of the GPU, of which each context takes 106, as in share_test.py."""
    config = ContainersCase.config + '[share]\ncapacity = "222MiB"\nquantum_min = "50ms"\nquantum_max = "200ms"\nidle = "20ms"\n'

    def learn_what_a_context_takes(self):
        first = self.holds(self.given("first"), "4MiB")
        until("what a context takes is known", (self.m.dir / "lib" / "contexts.json").exists)
        first.kill()
        first.wait()

    def test_containers_with_a_turn_each_take_turns_and_keep_their_data(self):
        self.learn_what_a_context_takes()
        turns = [self.container(f"turn-{i}", space=f"team-{i}") for i in range(2)]
        self.tell(*(each.given(gpus=[self.gpu], share=True) for each in turns))
        work = ["--verify", "--kernel-time", "1ms", "--step", "4MiB", "--iterations", "8", "--json"]
        loads = [self.load(each, "8MiB", *work, GPUMAN_SHIM_EVICTABLE="1") for each in turns]
        for load in loads:
            said = load.stdout.read()
            self.assertEqual(load.wait(), 0, said)
            self.assertIn('"wrong_words":0', said.replace(" ", ""))

    def test_memory_of_one_container_is_evicted_for_the_other(self):
        self.learn_what_a_context_takes()
        turns = [self.container(f"long-{i}", space=f"team-{i}") for i in range(2)]
        self.tell(*(each.given(gpus=[self.gpu], share=True) for each in turns))
        for each in turns:
            self.load(each, "8MiB", "--kernel-time", "1ms", "--step", "4MiB", "--hold", "1h", GPUMAN_SHIM_EVICTABLE="1")
        until("they take turns", lambda: any(gpu["hand_overs"] >= 3 for gpu in self.request("GET", "/v1/share").json()["gpus"]))
        self.assertEqual({self.job_of(each)["memory"]["limit"] for each in turns}, {None})


if __name__ == "__main__":
    unittest.main()

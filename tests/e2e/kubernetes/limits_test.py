"""Containers cannot exceed what they were given, whatever they do. kubernetes_test.py runs it."""

import json
import pathlib
import signal

from case import OUT_OF_MEMORY, KubernetesCase, load
from node import GIB, until


# In commands of pods `$$$$` stands for the shell's `$$`.
class LimitsTest(KubernetesCase):
    def test_a_pod_over_its_share_fails_and_its_neighbour_goes_on(self):
        neighbour = self.held("neighbour", 2)
        for name, size, status in (("greedy", "3GiB", OUT_OF_MEMORY), ("modest", "1GiB", 0)):
            self.start(name, 2, *load(size))
            self.assertEqual(self.node.ended(name)[0], status, self.node.said_by(name))
        self.goes_on("neighbour", neighbour)

    def test_a_container_is_told_only_of_what_it_was_given(self):
        self.start("told", 2, *load("1MiB", "--json"))
        status, said = self.node.ended("told")
        context = next(event for event in map(json.loads, said.splitlines()) if event["event"] == "context")
        self.assertEqual((status, context["memory"]), (0, 2 << 30))

    def test_a_container_is_a_job_with_its_pods_name(self):
        self.held("named", 2)
        job = self.job_of("named", lambda job: (job["memory"]["used"] or 0) >= 512 << 20)
        self.assertEqual((job["state"], job["memory"]["limit"]), ("running", 2 << 30))
        pod = self.node.pod("named")["metadata"]["name"]
        shown = self.node.m.run("status").stdout
        self.assertIn(f"kube:lab:{pod}:main", shown)
        self.assertIn(f'namespace="lab",pod="{pod}",container="main"', self.node.m.run("metrics").stdout)
        self.node.remove("named")
        until("its job is over", lambda: self.node.m.api("GET", f"/v1/jobs/{job['id']}")["ended_at"])

    def test_each_container_of_a_pod_has_a_limit_of_its_own(self):
        work = ["sh", "-c", "gpuman-load --alloc 1GiB; echo status $?; exec gpuman-load --alloc 256MiB --hold 1h"]
        self.node.start_together("pair", {"small": (GIB, 1, work), "large": (GIB, 3, work)})
        containers = {name: self.node.running("pair", name) for name in ("small", "large")}
        for name, limit, status in (("small", 1, OUT_OF_MEMORY), ("large", 3, 0)):
            job = self.job_of("pair", lambda job: (job["memory"]["used"] or 0) >= 256 << 20, name)
            self.assertEqual(job["memory"]["limit"], limit << 30)
            self.assertIn(f"status {status}", self.node.said_by("pair", name).splitlines())
            self.goes_on("pair", containers[name])

    def test_a_process_executed_in_a_container_counts_with_it(self):
        container = self.held("both", 2)
        for size, status in (("256MiB", 0), ("1GiB", OUT_OF_MEMORY)):  # both processes have a context of 518 MiB
            self.assertEqual(self.node.execute(container, *load(size)), status)
        self.goes_on("both", container)

    def processes_of(self, job):
        """The pids of the job's processes on GPUs, as the node sees them."""
        gpus = self.node.m.api("GET", "/v1/gpus")["gpus"]
        return [process["pid"] for gpu in gpus for process in gpu["processes"] if process["job"] == job["id"]]

    def test_a_process_is_known_by_its_number_on_the_node(self):
        self.start("numbered", 2, "sh", "-c", "echo $$$$; exec gpuman-load --alloc 512MiB --hold 1h")
        container = self.node.running("numbered")
        job = self.job_of("numbered", lambda job: (job["memory"]["used"] or 0) >= 512 << 20)
        self.assertEqual(self.node.said_by("numbered").splitlines()[0], "1", "in the container it is the first")
        [number] = self.processes_of(job)
        self.assertIn(container["containerID"].removeprefix("containerd://"), pathlib.Path(f"/proc/{number}/cgroup").read_text())
        # A command that is executed there has a pid of its own in the container, and that pid also exists on the node.
        self.assertEqual(self.node.execute(container, *load("64MiB")), 0)
        self.assertEqual(self.processes_of(job), [number])

    def test_a_container_leaves_its_gpu_and_comes_back(self):
        container = self.held("away", 2)
        job = self.job_of("away", lambda job: (job["memory"]["used"] or 0) >= 512 << 20)
        for command, state, there in (("suspend", "suspended", 0), ("resume", "running", 1)):
            self.assertEqual(self.node.m.run(command, str(job["id"])).returncode, 0)
            self.job_of("away", lambda job, state=state: job["state"] == state)
            until(f"it is {state}", lambda there=there: len(self.processes_of(job)) == there)
            self.goes_on("away", container)

    def test_namespaces_that_a_container_makes_change_nothing(self):
        for name, size, status in (("over", "3GiB", OUT_OF_MEMORY), ("within", "1GiB", 0)):
            inside = f"cat /proc/self/uid_map; echo $$$$; gpuman-load --alloc {size}"
            self.start(name, 2, "unshare", "--user", "--map-root-user", "--pid", "--fork", "sh", "-c", inside)
            self.assertEqual(self.node.ended(name)[0], status, self.node.said_by(name))
            users, first = self.node.said_by(name).splitlines()[:2]
            self.assertEqual((users.split(), first), (["0", "0", "1"], "1"), "it has users and processes of its own")

    def test_a_pod_without_the_library_is_ended_at_its_limit(self):
        neighbour = self.held("neighbour", 2)
        greedy = "exec gpuman-load --alloc 3GiB --hold 1h"
        # Every user can mount something over it, in their own namespaces; to unmount it needs rights that a pod must be
        # given.
        covered = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
                   f"touch /tmp/none && mount -o bind /tmp/none /etc/ld.so.preload && {greedy}"]
        unmounted = ["sh", "-c", f"umount /etc/ld.so.preload && {greedy}"]
        for name, command, more in (("covered", covered, {}), ("unmounted", unmounted, {"securityContext": {"privileged": True}})):
            with self.subTest(name):
                self.start(name, 2, *command, **more)
                self.assertEqual(self.node.ended(name)[0], 128 + signal.SIGKILL, self.node.said_by(name))
                job = self.job_of(name, lambda job: job["ended_at"])
                self.assertEqual((job["state"], job["reason"]), ("killed", "memory_limit"))
                self.goes_on("neighbour", neighbour)

    def test_an_environment_of_its_own_changes_nothing(self):
        self.start("misled", 2, "env", "LD_PRELOAD=", "GPUMAN_SHIM_SOCKET=/none", *load("3GiB", "--hold", "1h"))
        self.assertEqual(self.node.ended("misled")[0], OUT_OF_MEMORY, self.node.said_by("misled"))

    def test_without_the_library_by_configuration_the_guard_holds_limits(self):
        config = self.node.config.read_text()
        self.addCleanup(self.node.configure, config)
        self.node.configure(config.replace("[container]", "[container]\npreload = false"))
        neighbour = self.held("neighbour", 2)
        self.start("greedy", 2, *load("3GiB", "--hold", "1h"))
        self.assertEqual(self.node.ended("greedy")[0], 128 + signal.SIGKILL)
        self.goes_on("neighbour", neighbour)

    def test_limits_hold_over_restarts(self):
        container = self.held("pod", 2)
        job = self.job_of("pod")
        for stop, start in self.node.parts().values():
            since = self.node.checkpoint()
            stop()
            start()
            self.node.until_whole(since)
            self.assertEqual(self.node.execute(container, *load("2GiB")), OUT_OF_MEMORY)
            self.goes_on("pod", container)
        self.assertEqual(self.job_of("pod")["id"], job["id"])

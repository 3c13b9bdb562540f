"""The common part of the tests of a node: the node, and helpers to act on it."""

import sys
import unittest

from node import GIB, until

OUT_OF_MEMORY = 3  # gpuman-load's exit status


def load(size, *more):
    return ["gpuman-load", "--alloc", size, *more]


class KubernetesCase(unittest.TestCase):
    node = None  # one for all tests; kubernetes_test.py makes it

    def run(self, result=None):
        bad = len(result.failures) + len(result.errors)
        super().run(result)
        if len(result.failures) + len(result.errors) > bad:
            print(self.node.logs(), file=sys.stderr)

    def tearDown(self):
        self.node.remove_all()

    def start(self, name, count, *command, resource=GIB, **more):
        self.node.start(name, resource, count, *command, **more)

    def held(self, name, count, size="512MiB", resource=GIB):
        """Starts a pod that stays on its GPU; returns its container."""
        self.start(name, count, *load(size, "--hold", "1h"), resource=resource)
        return self.node.running(name)

    def is_refused(self, name, count, free, resource=GIB):
        """Checks that kubelet refuses the pod: too few devices are healthy and free."""
        self.start(name, count, "true", resource=resource)
        self.assertIn(f"requested number of devices unavailable for {resource}. Requested: {count}, Available: {free},",
                      self.node.refused(name))

    def goes_on(self, name, container):
        """Checks that the container is the same and has not restarted."""
        now = self.node.running(name, container["name"])
        self.assertEqual((now["containerID"], now["restartCount"]), (container["containerID"], 0))

    def job_of(self, name, among=lambda job: True, container="main"):
        """The job of a pod's container in gpumand; its figures come with the first sample after that."""
        place = {"namespace": "lab", "pod": self.node.pod(name)["metadata"]["name"], "container": container}
        return until(f"{place} is a job", lambda: next(
            (job for job in self.node.m.jobs() if job["kubernetes"] == place and among(job)), None))

    def inject(self, *arguments):
        self.node.m.inject(*arguments)

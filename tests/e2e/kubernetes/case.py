"""What the tests of a node share: the node, and words for what is done to it."""

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
        """A pod that stays on its GPU; its container."""
        self.start(name, count, *load(size, "--hold", "1h"), resource=resource)
        return self.node.running(name)

    def is_refused(self, name, count, free, resource=GIB):
        """Of the devices there are too few that are healthy and nobody's."""
        self.start(name, count, "true", resource=resource)
        self.assertIn(f"requested number of devices unavailable for {resource}. Requested: {count}, Available: {free},",
                      self.node.refused(name))

    def goes_on(self, name, container):
        """The same container, which has not been started again."""
        now = self.node.running(name, container["name"])
        self.assertEqual((now["containerID"], now["restartCount"]), (container["containerID"], 0))

    def job_of(self, name, among=lambda job: True, container="main"):
        """The job that a pod's container is for gpumand; its numbers come with the first look after it is one."""
        place = {"namespace": "lab", "pod": self.node.pod(name)["metadata"]["name"], "container": container}
        return until(f"{place} is a job", lambda: next(
            (job for job in self.node.m.jobs() if job["kubernetes"] == place and among(job)), None))

    def inject(self, *arguments):
        self.node.m.inject(*arguments)

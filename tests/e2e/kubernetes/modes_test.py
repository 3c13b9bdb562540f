"""GPUs in turns, in slices and as MIG instances. kubernetes_test.py runs it."""

import json

from case import OUT_OF_MEMORY, KubernetesCase, load
from node import GIB_EACH, until

SHARED, SLICE, MIG = "gpuman.io/shared", "gpuman.io/gpu-2gib", "gpuman.io/mig-1g.18gb"
RESOURCES = f"""
[[resource]]
name = "{SHARED}"
kind = "shared"
replicas = 2
gpus = [0]
[[resource]]
name = "{SLICE}"
kind = "slice"
size = "2GiB"
gpus = [1]
[[resource]]
name = "{MIG}"
kind = "mig"
profile = "1g.18gb"
gpus = [2]
"""


class ModesTest(KubernetesCase):
    @classmethod
    def setUpClass(cls):
        before = cls.node.config.read_text(), cls.node.offers
        cls.addClassCleanup(cls.node.configure, *before)
        cls.node.configure(before[0].partition("[[resource]]")[0] + RESOURCES, {SHARED: 2, SLICE: GIB_EACH // 2})

    def told(self, said):
        """The size of the GPU that the driver told the program."""
        return next(event["memory"] for event in map(json.loads, said.splitlines()) if event["event"] == "context")

    # --- turns; of a GPU they may have what two contexts take and 10 MiB (settings.py) ---

    def learn_what_a_context_takes(self):
        self.held("first", 1, "4MiB", SHARED)
        until("what a context takes is known", (self.node.m.dir / "lib" / "contexts.json").exists)
        self.node.remove("first")

    def test_pods_in_turns_each_have_all_of_the_memory_and_keep_their_data(self):
        self.learn_what_a_context_takes()
        work = load("8MiB", "--verify", "--kernel-time", "1ms", "--step", "4MiB", "--iterations", "8", "--json")
        for name in ("one", "two"):
            self.start(name, 1, *work, resource=SHARED)
        for name in ("one", "two"):
            status, said = self.node.ended(name)
            self.assertEqual(status, 0, said)
            self.assertIn('"wrong_words":0', said.replace(" ", ""))
            self.assertGreater(self.told(said), (GIB_EACH - 1) << 30)

    def test_pods_take_turns_and_there_are_no_more_than_replicas(self):
        self.learn_what_a_context_takes()
        pods = {}
        for name in ("one", "two"):
            self.start(name, 1, *load("8MiB", "--kernel-time", "1ms", "--step", "4MiB", "--hold", "1h"), resource=SHARED)
            pods[name] = self.node.running(name)
        self.is_refused("three", 1, 0, SHARED)
        until("they take turns", lambda: any(gpu["hand_overs"] >= 3 for gpu in self.node.m.api("GET", "/v1/share")["gpus"]))
        for name, container in pods.items():
            self.assertEqual(self.job_of(name)["memory"]["limit"], None)
            self.goes_on(name, container)

    # --- slices ---

    def test_a_slice_is_a_limit(self):
        neighbour = self.held("neighbour", 1, resource=SLICE)
        for name, size, status in (("greedy", "3GiB", OUT_OF_MEMORY), ("modest", "1GiB", 0)):
            self.start(name, 1, *load(size, "--json"), resource=SLICE)
            ended, said = self.node.ended(name)
            self.assertEqual((ended, self.told(said)), (status, 2 << 30), said)
        self.goes_on("neighbour", neighbour)
        self.assertEqual(self.job_of("neighbour")["memory"]["limit"], 2 << 30)
        self.is_refused("wide", GIB_EACH // 2, GIB_EACH // 2 - 1, SLICE)

    # --- MIG ---

    def split(self, instances, enabled):
        self.node.m.api("POST", "/v1/mig/apply", {"devices": [{"gpus": ["2"], "enabled": enabled, "instances": instances}],
                                                  "forget": not enabled})

    def test_an_instance_is_a_device_and_holds_its_pod_by_itself(self):
        self.addCleanup(self.split, [], False)
        self.split(["1g.18gb", "1g.18gb"], True)
        until("its instances are devices", lambda: len(self.node.allocatable(MIG)) == 2)
        neighbour = self.held("neighbour", 1, "256MiB", MIG)
        job = self.job_of("neighbour", lambda job: (job["memory"]["used"] or 0) >= 256 << 20)
        self.assertEqual((job["state"], job["memory"]["limit"]), ("running", None))
        # An instance has an eighth of the GPU's memory.
        for name, size, status in (("greedy", "1GiB", OUT_OF_MEMORY), ("modest", "512MiB", 0)):
            self.start(name, 1, "sh", "-c", f"env; exec gpuman-load --alloc {size}", resource=MIG)
            ended, said = self.node.ended(name)
            self.assertEqual(ended, status, said)
            self.assertIn("\nCUDA_VISIBLE_DEVICES=MIG-", "\n" + said)
        self.goes_on("neighbour", neighbour)
        self.is_refused("late", 2, 1, MIG)

"""The settings of containerd, kubelet and gpumand for a node that is a part of a machine (enclosure.py)."""

import image

# Jobs in turns may use what two contexts take (518 MiB each) and 10 MiB.
GPUMAND = """
[sampling]
rest = "20ms"
slow = "100ms"
retry = "200ms"
[health]
kernel_log = ""
[share]
capacity = "1046MiB"
quantum_min = "50ms"
quantum_max = "200ms"
idle = "20ms"
"""

CONTAINERD_CONFIG = """
version = 2
oom_score = 0
# Those that ask for programs which are not there.
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
                    "io.containerd.snapshotter.v1.zfs", "io.containerd.internal.v1.opt"]
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "%s"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
""" % image.NAME


def kubelet_config(directory):
    return {
        "kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "staticPodPath": str(directory / "pods"), "fileCheckFrequency": "1s", "syncFrequency": "2s",
        "address": "127.0.0.1", "readOnlyPort": 10255, "healthzPort": 0,
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs", "oomScoreAdj": 0, "failSwapOn": False, "makeIPTablesUtilChains": False,
        # A full disk of the machine must not affect the test.
        "evictionHard": {"memory.available": "1Mi"}, "imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
    }

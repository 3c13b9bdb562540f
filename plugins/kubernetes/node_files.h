// What the driver and the kernel tell in files about a node's GPUs: numbers of device nodes, NUMA nodes.
//
// `root` is the beginning of /proc, /sys and /dev, for tests another folder. What is not there or not
// understood is left out. Thread-safe.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace gpuman::kubernetes {

struct NodeGpu {
  std::string uuid;
  std::optional<unsigned> minor;   // /dev/nvidiaN
  std::optional<int> memory_node;  // absent: the machine has one, or does not tell
};

std::vector<NodeGpu> ReadNodeGpus(const std::filesystem::path& root);

// The device nodes that every CUDA program needs, as far as they are there: /dev/nvidiactl, /dev/nvidia-uvm,
// …
std::vector<std::string> ReadCommonNodes(const std::filesystem::path& root);

// The numbers of /dev/nvidia-caps/nvidia-capN of a MIG instance; empty when the driver does not name both.
std::vector<unsigned> ReadCapabilities(const std::filesystem::path& root, unsigned gpu_minor,
                                       unsigned gpu_instance, unsigned compute_instance);

}  // namespace gpuman::kubernetes

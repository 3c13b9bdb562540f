// Reads the files of the driver and the kernel about a node's GPUs: numbers of device nodes, NUMA nodes.
//
// `root` holds /proc, /sys and /dev; tests use another folder. Missing or unreadable facts are left out.
// Thread-safe.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace gpuman::kubernetes {

struct NodeGpu {
  std::string uuid;
  std::optional<unsigned> minor;   // /dev/nvidiaN
  std::optional<int> memory_node;  // absent: the machine has only one, or does not report it
};

std::vector<NodeGpu> ReadNodeGpus(const std::filesystem::path& root);

// The device nodes that every CUDA program needs, as far as they exist: /dev/nvidiactl, /dev/nvidia-uvm, …
std::vector<std::string> ReadCommonNodes(const std::filesystem::path& root);

// The numbers of /dev/nvidia-caps/nvidia-capN for a MIG instance; empty if the driver does not name both.
std::vector<unsigned> ReadCapabilities(const std::filesystem::path& root, unsigned gpu_minor,
                                       unsigned gpu_instance, unsigned compute_instance);

}  // namespace gpuman::kubernetes

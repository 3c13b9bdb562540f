#include "plugins/kubernetes/node_files.h"

#include <fmt/format.h>

#include <string_view>

#include "base/file.h"
#include "base/parse_number.h"
#include "base/text.h"

namespace gpuman::kubernetes {
namespace {

// The value of "NAME:  value" in a file of such lines; empty: the name is missing.
std::string_view ValueOf(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const auto line = base::TakeUntil(text, '\n');
    if (!line.starts_with(name) || line.substr(name.size()).substr(0, 1) != ":") continue;
    const auto value = line.substr(name.size() + 1);
    const auto begin = value.find_first_not_of(" \t");
    return begin == std::string_view::npos ? std::string_view{} : value.substr(begin);
  }
  return {};
}

std::optional<int> MemoryNodeOf(const std::filesystem::path& root, const std::string& bus_id) {
  const auto text = base::ReadFile(root / "sys/bus/pci/devices" / base::LowerCase(bus_id) / "numa_node");
  const auto node = text ? base::LeadingNumber<int>(*text) : std::nullopt;
  return node && *node >= 0 ? node : std::nullopt;  // -1 from the kernel: the node does not matter
}

}  // namespace

std::vector<NodeGpu> ReadNodeGpus(const std::filesystem::path& root) {
  std::vector<NodeGpu> gpus;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(root / "proc/driver/nvidia/gpus", error), end;
       !error && entry != end; entry.increment(error)) {
    const auto text = base::ReadFile(entry->path() / "information");
    if (!text) continue;
    const auto uuid = ValueOf(*text, "GPU UUID");
    if (!uuid.starts_with("GPU-")) continue;
    gpus.push_back({std::string(uuid), base::LeadingNumber<unsigned>(ValueOf(*text, "Device Minor")),
                    MemoryNodeOf(root, entry->path().filename().string())});
  }
  return gpus;
}

std::vector<std::string> ReadCommonNodes(const std::filesystem::path& root) {
  std::vector<std::string> nodes;
  for (const char* name : {"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"}) {
    std::error_code ignored;
    if (std::filesystem::exists(root / "dev" / name, ignored))
      nodes.push_back(fmt::format("/dev/{}", name));
    else if (nodes.empty())
      break;
  }
  return nodes;
}

std::vector<unsigned> ReadCapabilities(const std::filesystem::path& root, unsigned gpu_minor,
                                       unsigned gpu_instance, unsigned compute_instance) {
  const auto folder =
      root / fmt::format("proc/driver/nvidia/capabilities/gpu{}/mig/gi{}", gpu_minor, gpu_instance);
  std::vector<unsigned> numbers;
  for (const auto& file : {folder / "access", folder / fmt::format("ci{}", compute_instance) / "access"}) {
    const auto text = base::ReadFile(file);
    const auto number =
        text ? base::LeadingNumber<unsigned>(ValueOf(*text, "DeviceFileMinor")) : std::nullopt;
    if (!number) return {};
    numbers.push_back(*number);
  }
  return numbers;
}

}  // namespace gpuman::kubernetes

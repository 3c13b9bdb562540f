// The GPUs of this machine, and which of them a person means.
//
// Values and pure functions; thread-compatible. A GPU's name for programs is its UUID; the index is NVML's
// order and may change with a reboot.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace gpuman::gpu {

struct Gpu {
  unsigned index = 0;
  std::string uuid;  // "GPU-93f6e897-3b2d-3c8a-a1c7-4a689d9a62b6"
  std::string name;  // "NVIDIA H200"
  std::string pci_bus_id;
  base::Bytes memory;  // total
  friend bool operator==(const Gpu&, const Gpu&) = default;
};

// How well two GPUs are connected: more is better.
enum class Link : std::uint8_t { kUnknown = 0, kSystem, kNode, kHostBridge, kSwitch, kNvLink };

// "nvlink", "switch" (of PCIe), "host_bridge", "node" (of memory), "system", "unknown".
std::string_view ToString(Link link);

struct Inventory {
  std::vector<Gpu> gpus;       // ordered by index
  std::vector<Link> links;     // gpus.size() squared, row by row; empty: not asked
  std::string driver_version;  // "580.159.04"; empty when there is no driver
  std::string problem;         // why there are no GPUs, as a sentence; empty when there are some
  friend bool operator==(const Inventory&, const Inventory&) = default;
};

// The GPU that `what` names: an index ("0"), a UUID, or the beginning of one, with or without "GPU-", in
// either case; a beginning has at least 4 characters, 8 if they are all digits. kNotFound names the GPUs that
// exist; kInvalidArgument says how many a beginning fits.
base::Result<Gpu> Select(std::span<const Gpu> gpus, std::string_view what);

// Each of `what` once, in the order given; the first that names nothing is the error. None given: none.
base::Result<std::vector<Gpu>> SelectAll(std::span<const Gpu> gpus, std::span<const std::string> what);

}  // namespace gpuman::gpu

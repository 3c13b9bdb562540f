// The GPUs of this machine, the instances that they are split into (MIG), and which of them a person means.
//
// Values and pure functions; thread-compatible. A GPU's name for programs is its UUID; the index is NVML's
// order and may change with a reboot. An instance is a device of its own for everything that programs have
// to do with: limits, the queue, memory, processes. What is of hardware (health, settings, temperature) is of
// the GPU that it is a part of.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace gpuman::gpu {

// What makes a device a part of a GPU. NVIDIA's tools call this a MIG device: a compute instance.
struct Instance {
  std::string parent;   // UUID of the GPU
  unsigned number = 0;  // among the MIG devices of the GPU: the 1 of "0:1"
  unsigned gpu_instance = 0, compute_instance = 0;
  std::string profile;  // "1g.18gb"; empty: the driver does not say
  friend bool operator==(const Instance&, const Instance&) = default;
};

struct Gpu {
  unsigned index = 0;  // of an instance: that of its GPU
  std::string uuid;    // "GPU-93f6e897-3b2d-3c8a-a1c7-4a689d9a62b6", "MIG-…"
  std::string name;    // "NVIDIA H200", "NVIDIA H200 MIG 1g.18gb"
  std::string pci_bus_id;
  base::Bytes memory;             // total
  std::optional<Instance> mig{};  // nullopt: a whole GPU
  bool split = false;             // in MIG mode: no program gets it as a whole
  friend bool operator==(const Gpu&, const Gpu&) = default;
};

// The number that people know it by: "0"; "0:1" of an instance, as NVIDIA's container toolkit writes it.
std::string NumberOf(const Gpu& gpu);
// A compute instance that is not all of its GPU instance, "1c.3g.71gb": the memory is others' as well.
bool IsPartOfInstance(std::string_view profile);
bool IsInstance(std::string_view uuid);

// How well two GPUs are connected: more is better.
enum class Link : std::uint8_t { kUnknown = 0, kSystem, kNode, kHostBridge, kSwitch, kNvLink };

// "nvlink", "switch" (of PCIe), "host_bridge", "node" (of memory), "system", "unknown".
std::string_view ToString(Link link);

struct Inventory {
  std::vector<Gpu> gpus;       // ordered by index, each with its instances behind it
  std::vector<Link> links;     // gpus.size() squared, row by row; empty: not asked
  std::string driver_version;  // "580.159.04"; empty when there is no driver
  std::string problem;         // why there are no GPUs, as a sentence; empty when there are some
  friend bool operator==(const Inventory&, const Inventory&) = default;
};

// The same without instances.
std::vector<Gpu> WholeGpus(std::span<const Gpu> gpus);
Inventory WithoutInstances(const Inventory& inventory);

// The devices that a program has that names none: every GPU that is not split; where all are, the first
// instance. A process has one instance at most (CUDA's rule).
std::vector<Gpu> VisibleByDefault(std::span<const Gpu> gpus);

// The device that `what` names: an index ("0"), that of an instance ("0:1"), a UUID, or the beginning of one,
// with or without "GPU-" or "MIG-", in either case; a beginning has at least 4 characters, 8 if they are all
// digits. kNotFound names what exists; kInvalidArgument says how many a beginning fits.
base::Result<Gpu> Select(std::span<const Gpu> gpus, std::string_view what);

// Each of `what` once, in the order given; the first that names nothing is the error. None given: none.
base::Result<std::vector<Gpu>> SelectAll(std::span<const Gpu> gpus, std::span<const std::string> what);

// Whether a program can have all of these at once: kConflict for a GPU that is split, and for an instance
// beside anything else. The instances of a GPU are named from `gpus`.
base::Result<> CanBeHad(std::span<const Gpu> gpus, std::span<const Gpu> wanted);

}  // namespace gpuman::gpu

// The GPUs of this machine, the instances into which they are split (MIG), and the selection of them by name.
//
// Values and pure functions; thread-compatible. Programs name a GPU by its UUID; the index is NVML's order
// and may change with a reboot. An instance is a device of its own for everything that concerns programs:
// limits, the queue, memory, processes. The properties of the hardware (health, settings, temperature) belong
// to the instance's GPU.
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

// The properties that an instance has beyond those of a whole GPU. NVIDIA's tools call this a MIG device: a
// compute instance.
struct Instance {
  std::string parent;   // UUID of the GPU
  unsigned number = 0;  // among the MIG devices of the GPU: the 1 of "0:1"
  unsigned gpu_instance = 0, compute_instance = 0;
  std::string profile;  // "1g.18gb"; empty: the driver does not say
  friend bool operator==(const Instance&, const Instance&) = default;
};

struct Gpu {
  unsigned index = 0;  // for an instance: the index of its GPU
  std::string uuid;    // "GPU-93f6e897-3b2d-3c8a-a1c7-4a689d9a62b6", "MIG-…"
  std::string name;    // "NVIDIA H200", "NVIDIA H200 MIG 1g.18gb"
  std::string pci_bus_id;
  base::Bytes memory;             // total
  std::optional<Instance> mig{};  // nullopt: a whole GPU
  bool split = false;             // in MIG mode: no program can use it as a whole
  friend bool operator==(const Gpu&, const Gpu&) = default;
};

// The number that people use: "0"; for an instance "0:1", as NVIDIA's container toolkit writes it.
std::string NumberOf(const Gpu& gpu);
// Whether a compute instance is only a part of its GPU instance, "1c.3g.71gb", and shares its memory with
// others.
bool IsPartOfInstance(std::string_view profile);
bool IsInstance(std::string_view uuid);

// How well two GPUs are connected: more is better.
enum class Link : std::uint8_t { kUnknown = 0, kSystem, kNode, kHostBridge, kSwitch, kNvLink };

// "nvlink", "switch" (of PCIe), "host_bridge", "node" (of memory), "system", "unknown".
std::string_view ToString(Link link);

struct Inventory {
  std::vector<Gpu> gpus;       // ordered by index; its instances follow each GPU
  std::vector<Link> links;     // gpus.size() squared, row by row; empty: not asked
  std::string driver_version;  // "580.159.04"; empty when there is no driver
  std::string problem;         // why GPUs are missing, as a sentence; empty: none is missing
  std::string cuda_version{};  // the newest that the driver serves: "13.0"; empty: not known
  friend bool operator==(const Inventory&, const Inventory&) = default;
};

// The GPU or instance of this UUID; nullptr: there is none.
const Gpu* FindGpu(const Inventory& inventory, std::string_view uuid);
// "GPU 0", "GPU 0:1"; the UUID in place of the number where the inventory does not have it.
std::string NameOf(const Inventory& inventory, const std::string& uuid);
// The UUID of the GPU; for an instance (MIG), the UUID of its GPU.
const std::string& WholeGpuOf(const Gpu& gpu);

// The same, without the instances.
std::vector<Gpu> WholeGpus(std::span<const Gpu> gpus);
Inventory WithoutInstances(const Inventory& inventory);

// The devices that a program gets if it names none: every GPU that is not split; if all are split, the first
// instance. A process has one instance at most (CUDA's rule).
std::vector<Gpu> VisibleByDefault(std::span<const Gpu> gpus);

// The device that `what` names: by an index ("0"), an instance's number ("0:1"), a UUID, or the beginning of
// one, with or without "GPU-" or "MIG-", in upper or lower case. A beginning has at least 4 characters, or 8
// if all are digits. kNotFound names what exists; kInvalidArgument says how many devices a beginning fits.
base::Result<Gpu> Select(std::span<const Gpu> gpus, std::string_view what);

// Each device of `what` once, in the order given; the first that does not exist is the error. Empty `what`:
// empty.
base::Result<std::vector<Gpu>> SelectAll(std::span<const Gpu> gpus, std::span<const std::string> what);

// Whether one program can use all of these at once. kConflict: one is a split GPU, or an instance stands
// beside anything else. The error names the instances of a GPU from `gpus`.
base::Result<> CanBeHad(std::span<const Gpu> gpus, std::span<const Gpu> wanted);

}  // namespace gpuman::gpu

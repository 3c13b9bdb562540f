#include "gpu/inventory.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "base/parse_number.h"
#include "base/text.h"

namespace gpuman::gpu {
namespace {

using base::ErrorCode;
using base::Fail;

// A shorter prefix fits too many GPUs.
constexpr std::size_t kShortestPrefix = 4;

std::string_view WithoutKind(std::string_view uuid) {
  if (uuid.starts_with("gpu-") || uuid.starts_with("mig-")) uuid.remove_prefix(4);
  return uuid;
}

// "mig-…" cannot name a GPU, and "gpu-…" cannot name an instance.
bool MayBe(const Gpu& gpu, std::string_view wanted) { return !wanted.starts_with(gpu.mig ? "gpu-" : "mig-"); }

std::string Known(std::span<const Gpu> gpus) {
  if (gpus.empty()) return "this machine has no GPU that gpuman can see";
  std::string list = "GPUs here: ";
  for (const auto& gpu : gpus)
    list += fmt::format("{}{} ({})", &gpu == &gpus.front() ? "" : ", ", NumberOf(gpu), gpu.uuid);
  return list;
}

std::string InstancesOf(std::span<const Gpu> gpus, const Gpu& parent) {
  std::string list;
  for (const auto& gpu : gpus)
    if (gpu.mig && gpu.mig->parent == parent.uuid)
      list +=
          fmt::format("{}{} ({}, {})", list.empty() ? "" : ", ", NumberOf(gpu), gpu.mig->profile, gpu.uuid);
  return list;
}

// `what` names an instance only in the form "0:1".
bool IsNumber(const Gpu& gpu, std::string_view what) { return gpu.mig && NumberOf(gpu) == what; }

// A text of digits alone is an index, however long: an 8-digit beginning of a UUID would be ambiguous with an
// index.
std::optional<unsigned long long> ParseIndex(std::string_view what) {
  if (!base::AreDigits(what)) return std::nullopt;
  return base::ParseNumber<unsigned long long>(what).value_or(~0ULL);
}

}  // namespace

std::string_view ToString(Link link) {
  switch (link) {
    case Link::kNvLink:
      return "nvlink";
    case Link::kSwitch:
      return "switch";
    case Link::kHostBridge:
      return "host_bridge";
    case Link::kNode:
      return "node";
    case Link::kSystem:
      return "system";
    case Link::kUnknown:
      break;
  }
  return "unknown";
}

const Gpu* FindGpu(const Inventory& inventory, std::string_view uuid) {
  const auto found = std::find_if(inventory.gpus.begin(), inventory.gpus.end(),
                                  [&](const Gpu& gpu) { return gpu.uuid == uuid; });
  return found == inventory.gpus.end() ? nullptr : &*found;
}

const std::string& WholeGpuOf(const Gpu& gpu) { return gpu.mig ? gpu.mig->parent : gpu.uuid; }

std::string NumberOf(const Gpu& gpu) {
  return gpu.mig ? fmt::format("{}:{}", gpu.index, gpu.mig->number) : std::to_string(gpu.index);
}

std::string NameOf(const Inventory& inventory, const std::string& uuid) {
  const Gpu* const gpu = FindGpu(inventory, uuid);
  return "GPU " + (gpu ? NumberOf(*gpu) : uuid);
}

bool IsPartOfInstance(std::string_view profile) { return profile.find("c.") != std::string_view::npos; }

bool IsInstance(std::string_view uuid) { return uuid.starts_with("MIG-"); }

std::vector<Gpu> WholeGpus(std::span<const Gpu> gpus) {
  std::vector<Gpu> whole;
  std::copy_if(gpus.begin(), gpus.end(), std::back_inserter(whole), [](const Gpu& gpu) { return !gpu.mig; });
  return whole;
}

Inventory WithoutInstances(const Inventory& inventory) {
  Inventory whole{WholeGpus(inventory.gpus), {}, inventory.driver_version, inventory.problem};
  const std::size_t count = inventory.gpus.size();
  if (inventory.links.size() != count * count) return whole;
  for (std::size_t a = 0; a < count; ++a)
    for (std::size_t b = 0; b < count; ++b)
      if (!inventory.gpus[a].mig && !inventory.gpus[b].mig)
        whole.links.push_back(inventory.links[a * count + b]);
  return whole;
}

std::vector<Gpu> VisibleByDefault(std::span<const Gpu> gpus) {
  std::vector<Gpu> visible;
  std::copy_if(gpus.begin(), gpus.end(), std::back_inserter(visible),
               [](const Gpu& gpu) { return !gpu.mig && !gpu.split; });
  if (!visible.empty()) return visible;
  const auto first = std::find_if(gpus.begin(), gpus.end(), [](const Gpu& gpu) { return gpu.mig; });
  if (first != gpus.end()) visible.push_back(*first);
  return visible;
}

base::Result<Gpu> Select(std::span<const Gpu> gpus, std::string_view what) {
  if (what.empty()) return Fail(ErrorCode::kInvalidArgument, "the name of a GPU is empty", Known(gpus));
  if (const auto index = ParseIndex(what)) {
    for (const auto& gpu : gpus)
      if (gpu.index == *index && !gpu.mig) return gpu;
    if (what.size() < 8) return Fail(ErrorCode::kNotFound, fmt::format("no GPU {}", what), Known(gpus));
  }
  const std::string lower = base::LowerCase(what);
  const std::string_view wanted = WithoutKind(lower);
  std::vector<const Gpu*> fitting;
  for (const auto& gpu : gpus) {
    if (IsNumber(gpu, what)) return gpu;
    if (!MayBe(gpu, lower)) continue;
    const std::string uuid = base::LowerCase(gpu.uuid);
    if (WithoutKind(uuid) == wanted) return gpu;
    if (wanted.size() >= kShortestPrefix && WithoutKind(uuid).starts_with(wanted)) fitting.push_back(&gpu);
  }
  if (fitting.size() == 1) return *fitting.front();
  if (fitting.size() > 1)
    return Fail(ErrorCode::kInvalidArgument, fmt::format("'{}' fits {} GPUs", what, fitting.size()),
                Known(gpus));
  const bool names_instance = what.find(':') != std::string_view::npos || lower.starts_with("mig-");
  const bool has_any = std::any_of(gpus.begin(), gpus.end(), [](const Gpu& gpu) { return gpu.mig; });
  return Fail(
      ErrorCode::kNotFound,
      fmt::format("no GPU '{}'{}", what,
                  names_instance && !has_any ? "; none of those that can be named is an instance (MIG)" : ""),
      Known(gpus));
}

base::Result<std::vector<Gpu>> SelectAll(std::span<const Gpu> gpus, std::span<const std::string> what) {
  std::vector<Gpu> selected;
  for (const auto& one : what) {
    GPUMAN_ASSIGN(const Gpu gpu, Select(gpus, one));
    if (std::find(selected.begin(), selected.end(), gpu) == selected.end()) selected.push_back(gpu);
  }
  return selected;
}

base::Result<> CanBeHad(std::span<const Gpu> gpus, std::span<const Gpu> wanted) {
  for (const auto& gpu : wanted) {
    if (!gpu.split) continue;
    const auto instances = InstancesOf(gpus, gpu);
    return Fail(
        ErrorCode::kConflict,
        fmt::format("GPU {} is split into instances (MIG) and is not given to a program as a whole{}",
                    gpu.index, instances.empty() ? "; it has none now" : ": its instances are " + instances),
        fmt::format("name an instance, or make the GPU whole again: gpuman mig clear --gpu {} --disable",
                    gpu.index));
  }
  const auto instance = std::find_if(wanted.begin(), wanted.end(), [](const Gpu& gpu) { return gpu.mig; });
  if (instance == wanted.end() || wanted.size() == 1) return {};
  return Fail(ErrorCode::kConflict,
              fmt::format("{} is an instance (MIG), and {} devices are asked for: CUDA gives a process one "
                          "instance and nothing beside it",
                          NumberOf(*instance), wanted.size()),
              "ask for one instance alone, or for whole GPUs");
}

}  // namespace gpuman::gpu

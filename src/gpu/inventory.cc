#include "gpu/inventory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

namespace gpuman::gpu {
namespace {

using base::ErrorCode;
using base::Fail;

// Shorter ones fit too many GPUs to be meant.
constexpr std::size_t kShortestPrefix = 4;

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

std::string_view WithoutKind(std::string_view uuid) {
  if (uuid.starts_with("gpu-")) uuid.remove_prefix(4);
  return uuid;
}

std::string Known(std::span<const Gpu> gpus) {
  if (gpus.empty()) return "this machine has no GPU that gpuman can see";
  std::string list = "GPUs here: ";
  for (const auto& gpu : gpus)
    list += fmt::format("{}{} ({})", gpu.index == gpus.front().index ? "" : ", ", gpu.index, gpu.uuid);
  return list;
}

// Nothing but digits is an index, however long: an 8-digit beginning of a UUID would be ambiguous with one.
std::optional<unsigned long long> ParseIndex(std::string_view what) {
  if (what.empty() || !std::all_of(what.begin(), what.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return std::nullopt;
  unsigned long long index = ~0ULL;
  std::from_chars(what.data(), what.data() + what.size(), index);
  return index;
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

base::Result<Gpu> Select(std::span<const Gpu> gpus, std::string_view what) {
  if (what.empty()) return Fail(ErrorCode::kInvalidArgument, "the name of a GPU is empty", Known(gpus));
  if (const auto index = ParseIndex(what)) {
    for (const auto& gpu : gpus)
      if (gpu.index == *index) return gpu;
    if (what.size() < 8) return Fail(ErrorCode::kNotFound, fmt::format("no GPU {}", what), Known(gpus));
  }
  const std::string lower = Lower(what);
  const std::string_view wanted = WithoutKind(lower);
  std::vector<const Gpu*> fitting;
  for (const auto& gpu : gpus) {
    const std::string uuid = Lower(gpu.uuid);
    if (WithoutKind(uuid) == wanted) return gpu;
    if (wanted.size() >= kShortestPrefix && WithoutKind(uuid).starts_with(wanted)) fitting.push_back(&gpu);
  }
  if (fitting.size() == 1) return *fitting.front();
  if (fitting.size() > 1)
    return Fail(ErrorCode::kInvalidArgument, fmt::format("'{}' fits {} GPUs", what, fitting.size()),
                Known(gpus));
  return Fail(ErrorCode::kNotFound, fmt::format("no GPU '{}'", what), Known(gpus));
}

base::Result<std::vector<Gpu>> SelectAll(std::span<const Gpu> gpus, std::span<const std::string> what) {
  std::vector<Gpu> selected;
  for (const auto& one : what) {
    GPUMAN_ASSIGN(const Gpu gpu, Select(gpus, one));
    if (std::find(selected.begin(), selected.end(), gpu) == selected.end()) selected.push_back(gpu);
  }
  return selected;
}

}  // namespace gpuman::gpu

#include "suspend/record.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/json.h"

namespace gpuman::suspend {
namespace {

constexpr base::json::JsonFormat kFormat{};

// An entry of SuspensionRecord::held.
struct HeldEntry {
  base::ProcessId process;
  BytesByGpu gpus;
};

template <typename V, base::json::Of<HeldEntry> T>
void Fields(V& v, T& x) {
  Fields(v, x.process);
  v.Required("gpus", x.gpus);
}

}  // namespace

template <typename V, base::json::Of<AutoResume> T>
void Fields(V& v, T& x) {
  v.Required("reason", x.reason);
  v.Required("cause", x.cause);
  v.Required("room_lasts_ms", x.room_lasts);
  v.Check(x.room_lasts.count() >= 0, "room_lasts_ms", "it is negative");
}

template <typename V, base::json::Of<SuspensionRecord> T>
void Fields(V& v, T& x) {
  v.Required("phase", x.phase);
  v.Required("wants_gpu", x.wants_gpu);
  v.Required("reason", x.reason);
  v.Required("detail", x.detail);
  std::vector<HeldEntry> held;
  if constexpr (V::kReads) {
    v.Required("held", held);
    for (auto& entry : held) x.held[entry.process] = std::move(entry.gpus);
  } else {
    for (const auto& [process, gpus] : x.held) held.push_back({process, gpus});
    v.Required("held", held);
  }
  v.Changed("left", x.left);
  v.Changed("called", x.called);
  v.Option("target", x.target);
  v.Option("absence", x.absence);
}

std::string_view ToString(SuspensionPhase phase) { return base::WordOf(WordsOf(phase), phase); }

bool IsSuspended(SuspensionPhase phase) {
  return phase == SuspensionPhase::kSuspended || phase == SuspensionPhase::kResuming ||
         phase == SuspensionPhase::kRetreating;
}

std::string ReturnsTo(const SuspensionRecord& record, const base::ProcessId& process) {
  if (record.target) return *record.target;
  const auto held = record.held.find(process);
  return held == record.held.end() || held->second.size() != 1 ? "" : held->second.begin()->first;
}

BytesByGpu AwayOf(const SuspensionRecord& record) {
  BytesByGpu away;
  for (const auto& [process, gpus] : record.held)
    for (const auto& [gpu, bytes] : gpus) away[gpu] += bytes;
  for (const auto& [gpu, bytes] : record.left)
    if (const auto there = away.find(gpu); there != away.end()) there->second = there->second - bytes;
  return away;
}

std::string SerializeRecord(const SuspensionRecord& record) { return base::json::ToText(record, kFormat); }

base::Result<SuspensionRecord> ParseRecord(std::string_view text) {
  GPUMAN_ASSIGN(auto record,
                base::json::FromText<SuspensionRecord>(text, kFormat, "the record of a suspended job"));
  // The sum of this and a point in time must not overflow.
  if (record.absence)
    record.absence->room_lasts = std::min(record.absence->room_lasts, base::Millis(INT32_MAX));
  return record;
}

}  // namespace gpuman::suspend

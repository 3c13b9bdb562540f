// What is wanted of one GPU, why, and what it goes back to. What is stored of it: one JSON object on one
// line.
//
//   {"base":{"power":"250W"},"before":{"graphics_clocks":"unlocked"},"layers":[{"name":"benchmark",…}],…,"v":1}
//
// Values and pure functions; thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "device/setting.h"

namespace gpuman::device {

// A profile in force. It covers what was asked for setting by setting, and can be taken off.
struct Layer {
  std::string name;
  Values values;
  std::optional<base::WallTime> until{};
  std::optional<std::int64_t> job{};  // whose it is, while it runs alone on the GPU
  friend bool operator==(const Layer&, const Layer&) = default;
};

struct SettingsRecord {
  Values base;                // what administrators asked for, setting by setting
  std::vector<Layer> layers;  // at most one without a job, and one with, which comes last and counts most
  Values before;              // what layers cover and nobody asked for: as it was found, to be gone back to
  Values to_restore;          // to be gone back to now; done when it is done
  // ECC takes effect with a reset: when it was asked for and is awaited; when it was seen to be in effect.
  std::optional<base::WallTime> ecc_asked{}, ecc_since{};
  friend bool operator==(const SettingsRecord&, const SettingsRecord&) = default;

  bool IsEmpty() const { return *this == SettingsRecord{}; }
  const Layer* ProfileLayer() const;
  const Layer* JobLayer() const;
};

// What the GPU is to have now, layers first; without what is to be restored.
Values Wanted(const SettingsRecord& record);
// Why it is wanted: "asked for", "profile benchmark until 2026-…", "job 7 (profile benchmark)"; empty: it is
// not.
std::string ReasonOf(const SettingsRecord& record, Setting setting);

std::string SerializeRecord(const SettingsRecord& record);
// kCorrupt for what SerializeRecord of this version did not write.
base::Result<SettingsRecord> ParseRecord(std::string_view text);

}  // namespace gpuman::device

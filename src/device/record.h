// The settings record of one GPU: the wanted values, the reasons for them, and the values to restore. The
// store has it as one JSON object on one line.
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

// A profile in force. Its values cover the values that administrators asked for, until the layer is removed.
struct ActiveProfile {
  std::string name;
  Values values;
  std::optional<base::WallTime> until{};
  std::optional<std::int64_t> job{};  // the job that it belongs to, while that job runs alone on the GPU
  friend bool operator==(const ActiveProfile&, const ActiveProfile&) = default;
};

struct SettingsRecord {
  Values base;  // the values that administrators asked for
  std::vector<ActiveProfile>
      layers;         // at most one without a job and one with a job; the last one counts most
  Values before;      // as found: values that layers cover and no administrator asked for; restored later
  Values to_restore;  // to be restored now; empty again when that is done
  // A change of ECC takes effect with a reset. `ecc_asked`: when the pending change was asked for;
  // `ecc_since`: when the change was seen in effect.
  std::optional<base::WallTime> ecc_asked{}, ecc_since{};
  friend bool operator==(const SettingsRecord&, const SettingsRecord&) = default;

  bool IsEmpty() const { return *this == SettingsRecord{}; }
  const ActiveProfile* ProfileLayer() const;
  const ActiveProfile* JobLayer() const;
};

// The values that the GPU must have now, without those to be restored. A layer's value counts before the base
// value.
Values Wanted(const SettingsRecord& record);
// Why the setting is wanted: "asked for", "profile benchmark until 2026-…", "job 7 (profile benchmark)";
// empty: it is not wanted.
std::string ReasonOf(const SettingsRecord& record, Setting setting);

std::string SerializeRecord(const SettingsRecord& record);
// kNotSupported: `text` is of another version. kCorrupt: SerializeRecord did not write it.
base::Result<SettingsRecord> ParseRecord(std::string_view text);

}  // namespace gpuman::device

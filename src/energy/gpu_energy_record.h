// The record of a GPU's account on disk, so that its sums survive the daemon. Values and their JSON.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "energy/split.h"

namespace gpuman::energy {

struct GpuEnergyRecord {
  std::string boot;         // the counter and `at` mean something only within it
  Millijoules counter = 0;  // up to which the sums go
  std::int64_t at_ns = 0;   // CLOCK_MONOTONIC, when that was read
  Holders holders;          // from then on
  std::optional<double> rest_watts{};
  Millijoules counted = 0;  // the sum of the parts
  Millijoules idle = 0, others = 0;
  Millijoules ended = 0;                    // of jobs that are over
  std::map<std::string, Millijoules> jobs;  // of their present runs, by id; one that is not known is absent
  friend bool operator==(const GpuEnergyRecord&, const GpuEnergyRecord&) = default;
};

std::string SerializeRecord(const GpuEnergyRecord& record);
base::Result<GpuEnergyRecord> ParseRecord(std::string_view text);

}  // namespace gpuman::energy

// What one run of a job took of the machine: a row of the books that `gpuman stats` adds up, and that fair
// share and quotas of GPU-hours are reckoned from. A plain value.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/units.h"

namespace gpuman::jobs {

struct RunAccount {
  base::JobId job;
  std::string user;
  std::string project;
  std::vector<std::string> gpus;  // UUIDs
  base::Bytes memory;             // of each of them that was its own; 0: not known
  base::WallTime started{};
  base::WallTime ended{};
  base::Millis waited{0};
  base::Millis ran{0};           // without the time it was off the GPU
  std::string outcome;           // the state that the run's end makes of a job
  std::optional<double> energy;  // joules; absent: not measured

  double GpuSeconds() const {
    return static_cast<double>(gpus.size()) * static_cast<double>(ran.count()) / 1000;
  }
  double GpuByteSeconds() const { return GpuSeconds() * static_cast<double>(memory.count); }
  friend bool operator==(const RunAccount&, const RunAccount&) = default;
};

}  // namespace gpuman::jobs

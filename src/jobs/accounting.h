// The account of one run of a job: a row that `gpuman stats` adds up, and from which fair share and quotas of
// GPU-hours are calculated. A plain value.
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
  std::string name;                 // AccountName (lifecycle.h)
  std::vector<std::string> gpus;    // UUIDs
  base::Bytes memory;               // the job's own share on each of them; 0: not known
  std::optional<base::Bytes> peak;  // the most that the job has used of one GPU until then; absent: not known
  base::WallTime started{};
  base::WallTime ended{};
  base::Millis waited{0};
  base::Millis ran{0};           // without the time during which the job was off the GPU
  std::string outcome;           // the job's state after the end of this run
  std::optional<double> energy;  // joules; absent: not measured
  // The memory that the run would have used with the allocation that its limit refused shortly before it
  // failed; absent: it did not fail so.
  std::optional<base::Bytes> needed{};
  // How busy its GPUs were while it was on them, on the mean, in percent; absent: not measured.
  std::optional<double> utilization{};

  double GpuSeconds() const {
    return static_cast<double>(gpus.size()) * static_cast<double>(ran.count()) / 1000;
  }
  // The part of GpuByteSeconds that the run had for itself and never used; absent: not known.
  std::optional<double> UnusedGpuByteSeconds() const {
    if (!peak || memory.count == 0) return std::nullopt;
    return GpuSeconds() * static_cast<double>((memory - *peak).count);
  }
  double GpuByteSeconds() const { return GpuSeconds() * static_cast<double>(memory.count); }
  friend bool operator==(const RunAccount&, const RunAccount&) = default;
};

}  // namespace gpuman::jobs

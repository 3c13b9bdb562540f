// What one read of one GPU returned. A value type; an absent optional is unknown or not supported, never
// zero.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/units.h"
#include "gpu/details.h"
#include "gpu/health_reading.h"

namespace gpuman::gpu {

enum class GpuReachability {
  kOk,
  kLost,          // the driver reports that the GPU is gone, or cannot reach it
  kUnresponsive,  // the driver call has not returned within its time limit
};

enum class ProcessKind { kCompute, kGraphics, kComputeAndGraphics };

struct GpuProcess {
  pid_t pid = 0;
  std::optional<base::Bytes> memory;
  ProcessKind kind = ProcessKind::kCompute;
  friend auto operator<=>(const GpuProcess&, const GpuProcess&) = default;
};

struct GpuMemoryInfo {
  base::Bytes total;
  base::Bytes used;      // by programs; without `reserved`
  base::Bytes free;      // memory that programs can still get
  base::Bytes reserved;  // by driver and firmware; 0 if the driver does not report it
  friend bool operator==(const GpuMemoryInfo&, const GpuMemoryInfo&) = default;
};

// The energy that the GPU has used since the driver was loaded.
struct EnergyReading {
  std::uint64_t millijoules = 0;
  base::MonoTime at{};
  friend bool operator==(const EnergyReading&, const EnergyReading&) = default;
};

// Read about once a second; memory and processes are read every round.
struct SlowReadings {
  std::optional<int> utilization_gpu;     // percent of time
  std::optional<int> utilization_memory;  // percent of time
  std::optional<int> temperature_c;
  std::optional<double> power_w;
  std::optional<EnergyReading> energy;
  friend bool operator==(const SlowReadings&, const SlowReadings&) = default;
};

// If `state` is not kOk, only `uuid`, `taken_at`, `state` and `error` have a meaning.
struct GpuSample {
  std::string uuid;
  base::MonoTime taken_at{};  // before the first read, so the values are not older
  GpuReachability state = GpuReachability::kOk;
  std::string error;  // a sentence

  std::optional<GpuMemoryInfo> memory;
  // Ordered by pid, one entry for each process. nullopt: the driver does not report them.
  std::optional<std::vector<GpuProcess>> processes;
  // Processes that used the GPU since this was last read, with every tenth of the slow readings, and with
  // each of them while several processes are there. nullopt: it was not read now, or the driver does not
  // report it.
  std::optional<std::vector<pid_t>> busy;
  // How much each of these worked, beside each other: percents of the time, added up. Read with `busy`.
  std::map<pid_t, unsigned> work;
  SlowReadings slow;
  HealthReading health;  // from the last slow tick
  Details details;       // from the last slow ticks, while they are wanted
};

}  // namespace gpuman::gpu

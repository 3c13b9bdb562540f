// The utilization of one GPU by each of its processes, from the driver's samples. Pure.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <span>

#include "base/clock.h"
#include "driver/nvml.h"
#include "gpu/gpu_sample.h"

namespace gpuman::gpu {

class ProcessPercents {
 public:
  // The driver's samples since the last call. The first call, and one after a long time, tells nothing yet:
  // its samples may be old.
  void Take(base::MonoTime now, std::span<const driver::NvmlBusyProcess> samples);
  // Of each of these processes, in percent of the time: the newest sample of the last seconds, else 0.
  // nullopt: not known.
  std::optional<std::map<pid_t, unsigned>> Of(std::span<const GpuProcess> processes) const;
  void Forget() { *this = {}; }

 private:
  struct SeenPercent {
    unsigned percent = 0;
    base::MonoTime at{};
  };
  std::map<pid_t, SeenPercent> seen_;
  std::optional<base::MonoTime> taken_at_;
  bool known_ = false;
};

}  // namespace gpuman::gpu

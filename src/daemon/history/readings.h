// What history records of a GPU and of a job at one moment. Pure.
#pragma once

#include <optional>
#include <vector>

#include "base/units.h"
#include "gpu/sample.h"
#include "history/point.h"

namespace gpuman::daemon {

// nullopt: the sample has no figures.
std::optional<history::Reading> ReadingOf(const gpu::Sample& sample);

struct JobMoment {
  std::optional<base::Bytes> memory;  // on the GPU where it uses most
  history::State state = history::State::kRunning;
  std::vector<const gpu::SlowReadings*> gpus;  // on which it has memory
};
// Utilization, power and temperature are those of its GPUs: the mean, the sum and the highest. They are its
// own only while it runs, so they are unknown otherwise; what one of the GPUs does not report is unknown.
history::Reading ReadingOf(const JobMoment& job);

}  // namespace gpuman::daemon

// Writes what was held as a profile that pprof and speedscope open: github.com/google/pprof,
// proto/profile.proto, without the compression that both can do without. Pure.
#pragma once

#include <string>
#include <vector>

#include "trace/frames.h"

namespace gpuman::trace {

// Two values of each stack: bytes at the peak of its GPU, and at the refusal. The label `gpu` is the UUID.
std::string WritePprof(const std::vector<ProcessTrace>& processes, const std::vector<GpuTraceSummary>& gpus,
                       const NameFrame& name);

}  // namespace gpuman::trace

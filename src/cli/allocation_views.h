// Shows who held memory when a job held most, and when an allocation was refused. Pure but for the names of
// functions, which the caller gives.
#pragma once

#include <functional>
#include <string>

#include "api/json.h"
#include "api/types.h"
#include "cli/text.h"
#include "trace/frames.h"

namespace gpuman::cli {

struct JobAllocationTraces {
  std::int64_t id = 0;
  std::string tag;
  trace::JobTraces traces;
  std::vector<trace::GpuTraceSummary> gpus;  // as trace::Replay has them
};

// "GPU 1" for a UUID.
using GpuName = std::function<std::string(const std::string& uuid)>;

// The ten places that held most, with local times. Of several GPUs that with the highest peak is shown, and
// of their refusals the last one.
std::string RenderAllocations(const JobAllocationTraces& job, const trace::NameFrame& name,
                              const GpuName& gpu_name, const TerminalStyle& style);
// Shows the ten largest places of each GPU, each with its ten largest stacks.
api::Json AllocationsJson(const JobAllocationTraces& job, const trace::NameFrame& name);

}  // namespace gpuman::cli

// Which GPUs a job gets that takes turns on them and names none: `gpuman run --share --gpus N` without
// --memory. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "api/queue_types.h"
#include "api/types.h"
#include "base/result.h"

namespace gpuman::cli::queue {

// Returns the UUIDs of `count` GPUs, in the machine's order: those with the fewest sharing jobs; of these,
// those that the same jobs share, since jobs that meet on all of their GPUs wait for fewer others; then those
// with the most free memory. GPUs that a job has which does not share, that are ill, kept back, or split into
// instances are left out. Fails where there are fewer. `jobs`: those of `info`, with whether they share.
base::Result<std::vector<std::string>> ChooseGpusForTurns(const api::QueueInfo& info,
                                                          const std::vector<api::JobView>& jobs,
                                                          std::size_t count);

}  // namespace gpuman::cli::queue

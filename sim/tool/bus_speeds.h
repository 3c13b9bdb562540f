// The speeds of the buses between the host and each GPU, as an option says them.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "sim/state/layout.h"

namespace gpuman::sim {

using BusSpeeds = std::array<std::uint64_t, kMaxGpus>;  // by index of the GPU, bytes a second; 0: unlimited

// Reads "55G", the speed of all, or "0=55G,1=25G": the speeds of some, the others are unlimited. An empty
// text: all are. Refuses an index that is not below `gpus` or comes twice. Pure.
base::Result<BusSpeeds> ParseBusSpeeds(std::string_view text, unsigned gpus);

}  // namespace gpuman::sim

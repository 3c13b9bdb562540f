// Sets of GPUs. Pure; thread-safe.
#pragma once

#include <bitset>
#include <cstddef>

namespace gpuman::queue {

// By their place in Snapshot::gpus. MIG instances count as GPUs.
inline constexpr std::size_t kMaxGpus = 128;
using GpuSet = std::bitset<kMaxGpus>;

// Calls `f` for each member in ascending order, at a cost by the number of members (libstdc++'s own
// functions).
template <typename F>
void ForEach(const GpuSet& set, F&& f) {
  for (std::size_t gpu = set._Find_first(); gpu < kMaxGpus; gpu = set._Find_next(gpu)) f(gpu);
}

}  // namespace gpuman::queue

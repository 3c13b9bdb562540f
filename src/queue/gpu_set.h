// Sets of GPUs. Pure; thread-safe.
#pragma once

#include <bitset>
#include <cstddef>

namespace gpuman::queue {

// The members are places in Snapshot::gpus. MIG instances count as GPUs.
inline constexpr std::size_t kMaxGpus = 128;
using GpuSet = std::bitset<kMaxGpus>;

// Calls `f` for each member in ascending order. The cost grows with the number of members, not with kMaxGpus:
// it uses functions that only libstdc++ has.
template <typename F>
void ForEach(const GpuSet& set, F&& f) {
  for (std::size_t gpu = set._Find_first(); gpu < kMaxGpus; gpu = set._Find_next(gpu)) f(gpu);
}

}  // namespace gpuman::queue

// Sets of GPUs. Pure; thread-safe.
#pragma once

#include <bitset>
#include <cstddef>

namespace gpuman::queue {

// By their place in Snapshot::gpus. MIG instances count as GPUs.
inline constexpr std::size_t kMaxGpus = 128;
using GpuSet = std::bitset<kMaxGpus>;

// Each of them, the first first, at the cost of those that are in it (libstdc++'s own way through a bitset).
template <typename F>
void ForEach(const GpuSet& set, F&& f) {
  for (std::size_t gpu = set._Find_first(); gpu < kMaxGpus; gpu = set._Find_next(gpu)) f(gpu);
}

}  // namespace gpuman::queue

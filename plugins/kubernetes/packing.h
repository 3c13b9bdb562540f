// Chooses the free devices that are best for a container.
//
// All parts come from one GPU: the fullest GPU that still has room for all of them, so that free parts stay
// in large pieces. Whole GPUs come from one NUMA node where possible. Pure; thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plugins/kubernetes/pools.h"

namespace gpuman::kubernetes {

// The index in `free` (free devices of each GPU) of the best GPU for `size` devices; nullopt: no GPU has that
// many.
std::optional<std::size_t> BestFit(std::span<const unsigned> free, unsigned size);

// Chooses `size` of `available`, including `must_include`. Returns fewer devices, or devices of several GPUs,
// where no better choice exists: kubelet treats the answer as a wish, and MakeGrant
// (container_allocate_response.h) refuses an allocation that spreads parts over GPUs.
std::vector<std::string> Prefer(const ResourcePool& pool, std::span<const std::string> available,
                                std::span<const std::string> must_include, std::size_t size);

}  // namespace gpuman::kubernetes

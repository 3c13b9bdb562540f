// Which of the devices that are free a container had best be given.
//
// Parts of a GPU come from one GPU: the fullest that still has room for all of them, so that what stays free
// stays in large pieces. Whole GPUs come from one NUMA node where that is possible. Pure; thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plugins/kubernetes/pools.h"

namespace gpuman::kubernetes {

// The index in `free` (devices that are free on each GPU) of the GPU that `size` devices had best come from;
// nullopt: none has so many.
std::optional<std::size_t> BestFit(std::span<const unsigned> free, unsigned size);

// `size` of `available`, those of `must_include` among them. Fewer or a mixture where nothing better is
// there: kubelet takes it as a wish, and an allocation that spreads parts over GPUs is refused (grant.h).
std::vector<std::string> Prefer(const Pool& pool, std::span<const std::string> available,
                                std::span<const std::string> must_include, std::size_t size);

}  // namespace gpuman::kubernetes

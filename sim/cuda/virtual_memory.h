// The object behind a CUmemGenericAllocationHandle.
#pragma once

#include <memory>
#include <mutex>

#include "sim/cuda/physical.h"

namespace gpuman::sim::cuda {

struct VirtualHandle {
  std::shared_ptr<Physical> physical;
  CUmemAllocationProp properties{};
  std::mutex mutex;  // guards references
  unsigned references = 1;
};

}  // namespace gpuman::sim::cuda

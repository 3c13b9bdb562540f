// Reads through NVML what costs the driver up to a millisecond each, and what it measures for 20 ms before it
// answers. No thread, no clock.
#pragma once

#include <cstddef>

#include "driver/nvml.h"
#include "gpu/details.h"

namespace gpuman::gpu {

enum class DetailsWanted {
  kNone,   // nothing is read, and what was read is forgotten
  kQuick,  // the GPU is watched closely: what takes 20 ms is left out, and unknown
  kAll,
};

// Reads a part with each call, and so all of it in kParts calls: no look at a GPU takes long because of it.
// One thread at a time.
class DetailReader {
 public:
  static constexpr std::size_t kParts = 8;

  const Details& Read(const driver::Nvml& nvml, driver::NvmlDevice device, DetailsWanted wanted);

  // As after the driver was loaded anew.
  void Forget() { *this = {}; }

 private:
  Details details_;
  std::size_t next_ = 0;
};

}  // namespace gpuman::gpu

// Reads through NVML what costs the driver up to a millisecond each. No thread, no clock.
#pragma once

#include <cstddef>

#include "driver/nvml.h"
#include "gpu/details.h"

namespace gpuman::gpu {

// Reads a part with each call, and so all of it in kParts calls: no look at a GPU takes long because of it.
// One thread at a time.
class DetailReader {
 public:
  static constexpr std::size_t kParts = 8;

  // `wanted` false: nothing is read, and what was read is forgotten.
  const Details& Read(const driver::Nvml& nvml, driver::NvmlDevice device, bool wanted);

  // As after the driver was loaded anew.
  void Forget() { *this = {}; }

 private:
  Details details_;
  std::size_t next_ = 0;
};

}  // namespace gpuman::gpu

// Reads values through NVML that cost the driver up to a millisecond each, and values that the driver
// measures for 20 ms before it answers. Has no thread and no clock.
#pragma once

#include <cstddef>

#include "driver/nvml.h"
#include "gpu/details.h"

namespace gpuman::gpu {

enum class DetailsWanted {
  kNone,   // reads nothing, and forgets the values read before
  kQuick,  // for a GPU that is watched closely: values that take 20 ms are left out, and unknown
  kAll,
};

// Reads one part with each call, and so everything in kParts calls. So no read of a GPU takes long because of
// it. One thread at a time.
class DetailReader {
 public:
  static constexpr std::size_t kParts = 10;

  const Details& Read(const driver::Nvml& nvml, driver::NvmlDevice device, DetailsWanted wanted);

  // Call it after the driver was loaded again.
  void Forget() { *this = {}; }

 private:
  Details details_;
  std::size_t next_ = 0;
};

}  // namespace gpuman::gpu

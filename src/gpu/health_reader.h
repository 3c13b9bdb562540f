// Reads the health of a GPU through NVML. Has no thread and no clock.
//
// Values for which the driver must use the bus (240 us each on an H200) are read every ten seconds. The
// others are read each time: about 150 us there. One thread at a time.
#pragma once

#include "base/clock.h"
#include "driver/nvml.h"
#include "gpu/health_reading.h"

namespace gpuman::gpu {

class HealthReader {
 public:
  HealthReading Read(const driver::Nvml& nvml, driver::NvmlDevice device, base::MonoTime now);

  // Call it after the driver was loaded again.
  void Forget() { *this = {}; }

 private:
  void ReadBus(const driver::NvmlCalls& calls, driver::NvmlDevice device);

  base::MonoTime bus_due_{};
  HealthReading bus_;                // the last values that were read over the bus
  std::uint64_t links_seen_up_ = 0;  // bits; a link that was never up has no other end, or is switched off
};

}  // namespace gpuman::gpu

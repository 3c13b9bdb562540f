// Reads what is broken about a GPU through NVML. No thread, no clock.
//
// What costs the driver a walk over the bus (240 us each on an H200) is read every ten seconds, the rest each
// time: about 150 us there. One thread at a time.
#pragma once

#include "base/clock.h"
#include "driver/nvml.h"
#include "gpu/health_reading.h"

namespace gpuman::gpu {

class HealthReader {
 public:
  HealthReading Read(const driver::Nvml& nvml, driver::NvmlDevice device, base::MonoTime now);

  // As after the driver was loaded anew.
  void Forget() { *this = {}; }

 private:
  void ReadBus(const driver::NvmlCalls& calls, driver::NvmlDevice device);

  base::MonoTime bus_due_{};
  HealthReading bus_;                // what was read of the bus last
  std::uint64_t links_seen_up_ = 0;  // bits: a link that never was up leads nowhere, or is switched off
};

}  // namespace gpuman::gpu

// The kinds of GPU and the driver versions that can be simulated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sim/state/layout.h"

namespace gpuman::sim {

// Fills in the index-th GPU of a machine with this kind of GPU; false if there is no such profile.
bool FillProfile(std::string_view profile, unsigned index, GpuStatic& gpu);

// "rtx4050, a100, …", for messages.
std::string ProfileNames();

struct DriverVersion {
  std::uint32_t major = 0, minor = 0, patch = 0;
};

std::optional<DriverVersion> ParseDriverVersion(std::string_view text);

// The CUDA version of this driver version: 13000 for 13.0.
std::uint32_t CudaVersionOf(const DriverVersion& version);

}  // namespace gpuman::sim

// The kinds of GPU that the simulated driver can be, and the driver versions it can be of.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sim/state/layout.h"

namespace gpuman::sim {

// Writes the values of the index-th GPU of a machine with this kind; false when there is no such profile.
bool FillProfile(std::string_view profile, unsigned index, GpuStatic& gpu);

// "rtx4050, a100, …", for messages.
std::string ProfileNames();

struct DriverVersion {
  std::uint32_t major = 0, minor = 0, patch = 0;
};

std::optional<DriverVersion> ParseDriverVersion(std::string_view text);

// The CUDA version that a driver of this version brings, as 13000 for 13.0.
std::uint32_t CudaVersionOf(const DriverVersion& version);

}  // namespace gpuman::sim

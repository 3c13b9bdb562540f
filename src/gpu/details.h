// The values of a GPU that are read only while somebody wants to see them. A value type; an absent optional
// is unknown or not supported, never zero.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>

namespace gpuman::gpu {

struct Details {
  std::optional<unsigned> sm_clock_mhz{}, memory_clock_mhz{};
  std::optional<unsigned> encoder_percent{}, decoder_percent{};
  std::optional<unsigned> memory_temperature_c{};
  std::optional<std::uint64_t> pcie_sent{}, pcie_received{};  // bytes a second, in the driver's last 20 ms
  // Memory errors: since the driver was loaded (volatile), or in the GPU's life (aggregate).
  std::optional<std::uint64_t> corrected_volatile{}, corrected_aggregate{}, uncorrected_aggregate{};
  std::optional<std::uint64_t> correctable_remaps{};
  std::optional<unsigned> fan_percent{};
  std::optional<double> power_limit_w{};
  std::optional<unsigned> performance_state{};  // 0 is the fastest
  // Percent of the time in which each process of the list ran something.
  std::optional<std::map<pid_t, unsigned>> process_percent{};
  friend bool operator==(const Details&, const Details&) = default;
};

}  // namespace gpuman::gpu

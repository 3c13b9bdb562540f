// What is read of a GPU only while somebody wants to see it: it costs the driver up to a millisecond each.
//
// A value; an absent optional is unknown or not supported, never zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "driver/nvml.h"

namespace gpuman::gpu {

struct Details {
  std::optional<unsigned> sm_clock_mhz{}, memory_clock_mhz{};
  std::optional<unsigned> encoder_percent{}, decoder_percent{};
  std::optional<unsigned> memory_temperature_c{};
  std::optional<std::uint64_t> pcie_sent{}, pcie_received{};  // bytes a second, in the driver's last 20 ms
  // Memory errors: since the driver was loaded (volatile), and in the GPU's life (aggregate).
  std::optional<std::uint64_t> corrected_volatile{}, corrected_aggregate{}, uncorrected_aggregate{};
  std::optional<std::uint64_t> correctable_remaps{};
  friend bool operator==(const Details&, const Details&) = default;
};

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

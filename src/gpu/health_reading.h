// What one read of a GPU's health returned. A value type; an absent optional is unknown or not supported,
// never zero.
#pragma once

#include <cstdint>
#include <optional>

namespace gpuman::gpu {

// The action that the driver itself asks for (field 230, GetGpuRecoveryAction).
enum class Recovery { kNone = 0, kReset = 1, kReboot = 2, kDrainPeers = 3, kDrainAndReset = 4 };

struct HealthReading {
  std::optional<Recovery> recovery{};

  // Counters: a reset of the GPU or of the driver sets them back to 0.
  std::optional<std::uint64_t> double_bit_errors{};  // volatile, uncorrected: since the driver was loaded
  std::optional<std::uint64_t> pcie_replays{};
  std::optional<std::uint64_t> nvlink_crc_errors{};  // sum over all its links

  std::optional<bool> remap_failed{}, remap_pending{};
  std::optional<std::uint64_t> uncorrectable_remaps{};
  std::optional<bool> retirement_pending{};
  std::optional<std::uint64_t> retired_pages{};
  std::optional<bool> sram_threshold_exceeded{};

  std::optional<unsigned> pcie_generation{}, pcie_lanes{};  // of the link at this moment
  std::optional<unsigned> nvlinks_down{};  // of those that were up since the daemon and the driver started
  // The hardware lowers the clocks at this moment: power brake, temperature, or both (clocks event reasons
  // 0x8 0x40 0x80).
  std::optional<bool> hardware_slowdown{};

  friend bool operator==(const HealthReading&, const HealthReading&) = default;
};

}  // namespace gpuman::gpu

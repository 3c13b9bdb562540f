// What one look at what is broken about a GPU saw. A value; an absent optional is unknown or not supported,
// never zero.
#pragma once

#include <cstdint>
#include <optional>

namespace gpuman::gpu {

// What the driver itself says it needs (field 230, GetGpuRecoveryAction).
enum class Recovery { kNone = 0, kReset = 1, kReboot = 2, kDrainPeers = 3, kDrainAndReset = 4 };

struct HealthReading {
  std::optional<Recovery> recovery{};

  // Counters: they begin again at 0 with a reset of the GPU or of the driver.
  std::optional<std::uint64_t> double_bit_errors{};  // volatile, uncorrected: since the driver was loaded
  std::optional<std::uint64_t> pcie_replays{};
  std::optional<std::uint64_t> nvlink_crc_errors{};  // of all its links

  std::optional<bool> remap_failed{}, remap_pending{};
  std::optional<std::uint64_t> uncorrectable_remaps{};
  std::optional<bool> retirement_pending{};
  std::optional<std::uint64_t> retired_pages{};
  std::optional<bool> sram_threshold_exceeded{};

  std::optional<unsigned> pcie_generation{}, pcie_lanes{};  // of the link as it is now
  std::optional<unsigned> nvlinks_down{};  // of those that were up since the daemon and the driver began
  // Slowed by hardware at this moment: power brake, temperature, or both (clocks event reasons 0x8 0x40
  // 0x80).
  std::optional<bool> hardware_slowdown{};

  friend bool operator==(const HealthReading&, const HealthReading&) = default;
};

}  // namespace gpuman::gpu

// The settings of a GPU that gpuman keeps, and their values. Values and pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace gpuman::device {

// In the order in which a plan changes them: with persistence on, the driver keeps the settings that follow.
enum class Setting { kPersistence, kComputeMode, kPower, kMemoryClocks, kGraphicsClocks, kEcc };

enum class ComputeMode : std::uint32_t { kDefault = 0, kProhibited = 2, kExclusiveProcess = 3 };  // as NVML's

// on/off: `high` is 1 or 0. Compute mode: `high` is its number. Power: `high` is milliwatts. Clocks: MHz from
// `low` to `high`; 0 and 0: not locked.
struct Value {
  std::uint32_t low = 0, high = 0;
  friend bool operator==(const Value&, const Value&) = default;
};
constexpr Value Switch(bool on) { return {0, on ? 1u : 0u}; }
constexpr Value Mode(ComputeMode mode) { return {0, static_cast<std::uint32_t>(mode)}; }
constexpr Value Milliwatts(std::uint32_t count) { return {0, count}; }
constexpr Value Clocks(std::uint32_t low_mhz, std::uint32_t high_mhz) { return {low_mhz, high_mhz}; }
inline constexpr Value kUnlocked{};

using Values = std::map<Setting, Value>;

std::span<const Setting> AllSettings();
constexpr bool IsClocks(Setting setting) {
  return setting == Setting::kMemoryClocks || setting == Setting::kGraphicsClocks;
}

// ToString: the word in JSON and configuration, "compute_mode". NameOf: the word for people, "compute mode".
std::string_view ToString(Setting setting);
std::string_view NameOf(Setting setting);
std::optional<Setting> SettingFromString(std::string_view word);

// Format: "on", "exclusive-process", "250W" (at most three decimals), "1200,1400" (MHz), "unlocked".
// ParseValue is the reverse.
std::string Format(Setting setting, const Value& value);
base::Result<Value> ParseValue(Setting setting, std::string_view text);

}  // namespace gpuman::device

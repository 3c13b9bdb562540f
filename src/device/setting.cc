#include "device/setting.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "base/parse_number.h"
#include "base/words.h"

namespace gpuman::device {
namespace {

using base::ErrorCode;

constexpr std::array kSettings{Setting::kPersistence,  Setting::kComputeMode,    Setting::kPower,
                               Setting::kMemoryClocks, Setting::kGraphicsClocks, Setting::kEcc};

constexpr base::Words<Setting, 6> kWords{{{Setting::kPersistence, "persistence"},
                                          {Setting::kComputeMode, "compute_mode"},
                                          {Setting::kPower, "power"},
                                          {Setting::kMemoryClocks, "memory_clocks"},
                                          {Setting::kGraphicsClocks, "graphics_clocks"},
                                          {Setting::kEcc, "ecc"}}};

constexpr base::Words<Setting, 6> kNames{{{Setting::kPersistence, "persistence mode"},
                                          {Setting::kComputeMode, "compute mode"},
                                          {Setting::kPower, "power limit"},
                                          {Setting::kMemoryClocks, "memory clocks"},
                                          {Setting::kGraphicsClocks, "graphics clocks"},
                                          {Setting::kEcc, "ECC mode"}}};

constexpr base::Words<ComputeMode, 3> kModes{{{ComputeMode::kDefault, "default"},
                                              {ComputeMode::kProhibited, "prohibited"},
                                              {ComputeMode::kExclusiveProcess, "exclusive-process"}}};

constexpr double kMaxWatts = 100'000;

tl::unexpected<base::Error> Wrong(std::string_view text, std::string_view expected) {
  return base::Fail(ErrorCode::kInvalidArgument, fmt::format("'{}' is {}", text, expected));
}

base::Result<Value> ParseWatts(std::string_view text) {
  std::string_view number = text;
  if (number.ends_with('W') || number.ends_with('w')) number.remove_suffix(1);
  const auto watts = base::ParseNumber<double>(number, std::chars_format::fixed);
  if (!watts || !(*watts > 0) || *watts > kMaxWatts) return Wrong(text, "no power in watts, such as 250W");
  return Milliwatts(static_cast<std::uint32_t>(std::lround(*watts * 1000)));
}

base::Result<Value> ParseClocks(std::string_view text) {
  if (text == "unlocked") return kUnlocked;
  const auto comma = text.find(',');
  const auto low = base::ParseNumber<std::uint32_t>(text.substr(0, comma));
  const auto high =
      comma == std::string_view::npos ? low : base::ParseNumber<std::uint32_t>(text.substr(comma + 1));
  if (!low || !high || *low == 0 || *high == 0)
    return Wrong(text, "no clock in MHz, such as 1200 or 1200,1400");
  if (*low > *high) return Wrong(text, "no range of clocks: the lower one comes first");
  return Clocks(*low, *high);
}

}  // namespace

std::span<const Setting> AllSettings() { return kSettings; }

std::string_view ToString(Setting setting) { return base::WordOf(kWords, setting); }
std::string_view NameOf(Setting setting) { return base::WordOf(kNames, setting); }
std::optional<Setting> SettingFromString(std::string_view word) { return base::ValueOf(kWords, word); }

std::string Format(Setting setting, const Value& value) {
  switch (setting) {
    case Setting::kPersistence:
    case Setting::kEcc:
      return value.high != 0 ? "on" : "off";
    case Setting::kComputeMode: {
      const auto word = base::WordOf(kModes, static_cast<ComputeMode>(value.high));
      return word.empty() ? fmt::format("mode {}", value.high) : std::string(word);
    }
    case Setting::kPower:
      return fmt::format("{}W", value.high / 1000.0);
    case Setting::kMemoryClocks:
    case Setting::kGraphicsClocks:
      break;
  }
  return value == kUnlocked ? "unlocked" : fmt::format("{},{}", value.low, value.high);
}

base::Result<Value> ParseValue(Setting setting, std::string_view text) {
  switch (setting) {
    case Setting::kPersistence:
    case Setting::kEcc:
      if (text != "on" && text != "off") return Wrong(text, "neither on nor off");
      return Switch(text == "on");
    case Setting::kComputeMode: {
      const auto mode = base::ValueOf(kModes, text);
      if (!mode) return Wrong(text, "none of default, exclusive-process, prohibited");
      return Mode(*mode);
    }
    case Setting::kPower:
      return ParseWatts(text);
    case Setting::kMemoryClocks:
    case Setting::kGraphicsClocks:
      break;
  }
  return ParseClocks(text);
}

}  // namespace gpuman::device

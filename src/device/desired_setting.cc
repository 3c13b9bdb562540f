#include "device/desired_setting.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/parse_number.h"

namespace gpuman::device {
namespace {

using base::ErrorCode;
using Kind = SettingAmount::Kind;

tl::unexpected<base::Error> Wrong(std::string message, std::string hint = {}) {
  return base::Fail(ErrorCode::kInvalidArgument, std::move(message), std::move(hint));
}

std::optional<SettingAmount> RelativeAmount(std::string_view text) {
  if (text == "min") return SettingAmount{Kind::kMin};
  if (text == "max") return SettingAmount{Kind::kMax};
  if (!text.ends_with('%')) return std::nullopt;
  const auto number = base::ParseNumber<double>(text.substr(0, text.size() - 1), std::chars_format::fixed);
  if (!number || !(*number > 0) || *number > 100) return std::nullopt;
  return SettingAmount{Kind::kPercent, *number};
}

base::Result<DesiredSetting> ParsePower(DesiredSetting wanted, std::string_view text) {
  if (text == "default") {
    wanted.high = {Kind::kDefault};
  } else if (const auto relative = RelativeAmount(text)) {
    wanted.high = *relative;
  } else {
    const auto value = ParseValue(Setting::kPower, text);
    if (!value) return Wrong(fmt::format("'{}' is no power: write 250W, 60%, min, max or default", text));
    wanted.high = {Kind::kNumber, static_cast<double>(value->high)};
  }
  return wanted;
}

base::Result<DesiredSetting> ParseClocks(DesiredSetting wanted, std::string_view text) {
  if (text == "unlocked") return wanted;
  const auto amount = [&](std::string_view part) -> std::optional<SettingAmount> {
    if (const auto relative = RelativeAmount(part)) return relative;
    const auto value = part.find(',') == std::string_view::npos ? ParseValue(wanted.setting, part)
                                                                : base::Fail(base::Error{});
    return value && value->high != 0 ? std::optional<SettingAmount>({Kind::kNumber, double(value->high)})
                                     : std::nullopt;
  };
  const auto comma = text.find(',');
  const auto low = amount(text.substr(0, comma));
  const auto high = comma == std::string_view::npos ? low : amount(text.substr(comma + 1));
  if (!low || !high)
    return Wrong(
        fmt::format("'{}' is no clock: write MHz such as 1400 or 1200,1400, a share such as 75%, "
                    "min, max, or unlocked",
                    text));
  if (low->kind == high->kind && low->number > high->number)
    return Wrong(fmt::format("'{}': the lower clock comes first", text));
  wanted.low = *low;
  wanted.high = *high;
  return wanted;
}

base::Result<Value> ResolvePower(const SettingAmount& amount, const DeviceReading& reading) {
  if (amount.kind == Kind::kDefault) return DefaultOf(Setting::kPower, reading);
  const auto& range = reading.power;
  if (amount.kind == Kind::kNumber) {
    const auto value = Milliwatts(static_cast<std::uint32_t>(amount.number));
    if (range && (value.high < range->least_mw || value.high > range->most_mw))
      return Wrong(fmt::format("{} is out of range: this GPU takes {} to {}", Format(Setting::kPower, value),
                               Format(Setting::kPower, Milliwatts(range->least_mw)),
                               Format(Setting::kPower, Milliwatts(range->most_mw))));
    return value;
  }
  if (!range)
    return base::Fail(ErrorCode::kNotSupported, "this GPU does not tell its range of power limits",
                      "give it in watts, such as 250W");
  if (amount.kind == Kind::kMin) return Milliwatts(range->least_mw);
  if (amount.kind == Kind::kMax) return Milliwatts(range->most_mw);
  const auto share = static_cast<std::uint32_t>(range->most_mw / 1000.0 * amount.number / 100) * 1000;
  return Milliwatts(std::clamp(share, range->least_mw, range->most_mw));
}

// The clocks, ascending; empty: the device does not report them.
std::vector<std::uint32_t> SupportedClocks(Setting setting, const DeviceReading& reading,
                                           std::optional<std::uint32_t> memory_mhz) {
  if (reading.clocks.empty()) return {};
  if (setting == Setting::kMemoryClocks) {
    std::vector<std::uint32_t> clocks;
    for (const auto& [mhz, graphics] : reading.clocks) clocks.push_back(mhz);
    return clocks;
  }
  const auto with = memory_mhz ? reading.clocks.find(*memory_mhz) : std::prev(reading.clocks.end());
  return with == reading.clocks.end() ? std::vector<std::uint32_t>{} : with->second;
}

std::string Neighbours(const std::vector<std::uint32_t>& clocks, std::uint32_t mhz) {
  const auto above = std::lower_bound(clocks.begin(), clocks.end(), mhz);
  if (above == clocks.begin() || above == clocks.end()) return {};
  return fmt::format("; next to it are {} and {}", *std::prev(above), *above);
}

base::Result<std::uint32_t> ResolveClock(Setting setting, const SettingAmount& amount,
                                         const std::vector<std::uint32_t>& clocks,
                                         std::optional<std::uint32_t> memory_mhz) {
  const auto number = static_cast<std::uint32_t>(amount.number);
  if (clocks.empty()) {
    if (amount.kind == Kind::kNumber) return number;
    return base::Fail(ErrorCode::kNotSupported, fmt::format("this GPU does not tell its {}", NameOf(setting)),
                      "give them in MHz");
  }
  if (amount.kind == Kind::kMin) return clocks.front();
  if (amount.kind == Kind::kMax) return clocks.back();
  if (amount.kind == Kind::kPercent) {
    const auto above =
        std::upper_bound(clocks.begin(), clocks.end(),
                         static_cast<std::uint32_t>(std::floor(clocks.back() * amount.number / 100)));
    return above == clocks.begin() ? clocks.front() : *std::prev(above);
  }
  if (std::binary_search(clocks.begin(), clocks.end(), number)) return number;
  return Wrong(fmt::format(
      "{} MHz is none of this GPU's {}{}, which are {} from {} to {} MHz{}", number, NameOf(setting),
      memory_mhz && setting == Setting::kGraphicsClocks ? fmt::format(" with memory at {} MHz", *memory_mhz)
                                                        : "",
      clocks.size(), clocks.front(), clocks.back(), Neighbours(clocks, number)));
}

base::Result<Value> ResolveClocks(const DesiredSetting& wanted, const DeviceReading& reading,
                                  std::optional<std::uint32_t> memory_mhz) {
  if (wanted.high == SettingAmount{}) return kUnlocked;
  const auto clocks = SupportedClocks(wanted.setting, reading, memory_mhz);
  GPUMAN_ASSIGN(const auto low, ResolveClock(wanted.setting, wanted.low, clocks, memory_mhz));
  GPUMAN_ASSIGN(const auto high, ResolveClock(wanted.setting, wanted.high, clocks, memory_mhz));
  if (low > high) return Wrong(fmt::format("'{}' is {} to {} MHz on this GPU", wanted.text, low, high));
  return Clocks(low, high);
}

}  // namespace

base::Result<DesiredSetting> ParseDesiredSetting(Setting setting, std::string_view text) {
  DesiredSetting wanted{setting, std::string(text), {}, {}};
  if (setting == Setting::kPower) return ParsePower(std::move(wanted), text);
  if (IsClocks(setting)) return ParseClocks(std::move(wanted), text);
  GPUMAN_ASSIGN(const auto value, ParseValue(setting, text));
  wanted.high = {Kind::kNumber, static_cast<double>(value.high)};
  return wanted;
}

base::Result<> CheckSupported(Setting setting, const DeviceReading& reading) {
  const auto* const reported = Find(reading, setting);
  if (reported && reported->supported != false) return {};
  std::string message = fmt::format("the {} cannot be set on this GPU", NameOf(setting));
  if (reported && !reported->why.empty()) message += ": " + reported->why;
  return base::Fail(ErrorCode::kNotSupported, std::move(message));
}

base::Result<Value> Resolve(const DesiredSetting& wanted, const DeviceReading& reading,
                            std::optional<std::uint32_t> memory_mhz) {
  GPUMAN_TRY(CheckSupported(wanted.setting, reading));
  if (wanted.setting == Setting::kPower) return ResolvePower(wanted.high, reading);
  if (IsClocks(wanted.setting)) return ResolveClocks(wanted, reading, memory_mhz);
  return Value{0, static_cast<std::uint32_t>(wanted.high.number)};
}

base::Result<Value> DefaultOf(Setting setting, const DeviceReading& reading) {
  GPUMAN_TRY(CheckSupported(setting, reading));
  const auto& usual = Find(reading, setting)->usual;
  if (usual) return *usual;
  return base::Fail(ErrorCode::kNotSupported,
                    fmt::format("this GPU does not tell its default {}", NameOf(setting)),
                    "say what it is to be instead");
}

}  // namespace gpuman::device

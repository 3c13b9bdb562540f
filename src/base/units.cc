#include "base/units.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "base/parse_number.h"
#include "base/text.h"

namespace gpuman::base {
namespace {

constexpr std::uint64_t kLargest = INT64_MAX;

std::string_view Trim(std::string_view text) { return Trimmed(text, " \t"); }

// Splits "12.5GiB" into its number and its unit. The number is kept exact while it is whole.
struct Number {
  bool whole = true;
  std::uint64_t integer = 0;
  double real = 0;
  std::string_view unit;
};

std::optional<Number> ReadNumber(std::string_view text) {
  Number n;
  auto rest = text;
  const auto integer = TakeNumber<std::uint64_t>(rest);
  if (!integer) return std::nullopt;
  n.integer = *integer;
  n.real = static_cast<double>(n.integer);
  if (rest.starts_with('.')) {
    rest = text;
    const auto real = TakeNumber<double>(rest, std::chars_format::fixed);
    if (!real) return std::nullopt;
    n.whole = false;
    n.real = *real;
  }
  n.unit = Trim(rest);
  return n;
}

std::optional<unsigned> ShiftOf(std::string_view unit) {
  if (unit.empty() || unit == "B" || unit == "b") return 0;
  constexpr std::string_view kLetters = "KMGTP";
  const char letter = static_cast<char>(unit[0] & ~0x20);
  const auto position = kLetters.find(letter);
  if (position == std::string_view::npos) return std::nullopt;
  const auto rest = unit.substr(1);
  if (!rest.empty() && rest != "B" && rest != "b" && rest != "iB" && rest != "ib" && rest != "i")
    return std::nullopt;
  return static_cast<unsigned>(10 * (position + 1));
}

tl::unexpected<Error> BadSize(std::string_view text, std::string_view why) {
  return Fail(ErrorCode::kInvalidArgument, fmt::format("'{}' is not a size: {}", text, why),
              "write bytes or a unit, such as 536870912, 512MiB or 8G");
}

}  // namespace

Bytes SizeSpec::Of(Bytes whole) const {
  if (!IsRelative()) return bytes;
  return {static_cast<std::uint64_t>(static_cast<long double>(whole.count) * percent / 100)};
}

Result<Bytes> ParseBytes(std::string_view text) {
  const auto trimmed = Trim(text);
  if (trimmed.empty()) return BadSize(text, "it is empty");
  if (trimmed.front() == '-') return BadSize(text, "it is negative");
  const auto number = ReadNumber(trimmed);
  if (!number) return BadSize(text, "it does not start with a number that fits 64 bits");
  const auto shift = ShiftOf(number->unit);
  if (!shift) return BadSize(text, fmt::format("'{}' is no unit", number->unit));
  Bytes result;
  if (number->whole) {
    if (number->integer > (kLargest >> *shift)) return BadSize(text, "it is larger than 8 EiB");
    result.count = number->integer << *shift;
  } else {
    const double bytes = std::ldexp(number->real, static_cast<int>(*shift));
    if (!(bytes < 9.2e18)) return BadSize(text, "it is larger than 8 EiB");
    result.count = static_cast<std::uint64_t>(bytes);
  }
  if (result.count == 0) return BadSize(text, "it is zero");
  return result;
}

Result<SizeSpec> ParseSize(std::string_view text) {
  const auto trimmed = Trim(text);
  if (!trimmed.ends_with('%')) {
    GPUMAN_ASSIGN(const Bytes bytes, ParseBytes(text));
    return SizeSpec{bytes, 0};
  }
  const auto number = ReadNumber(trimmed.substr(0, trimmed.size() - 1));
  if (!number || !number->unit.empty()) return BadSize(text, "no number stands before the %");
  if (!(number->real > 0) || number->real > 100)
    return BadSize(text, "a percentage is above 0 and at most 100");
  return SizeSpec{{}, number->real};
}

std::string FormatBytes(Bytes bytes) {
  constexpr std::array<std::string_view, 6> kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  double value = static_cast<double>(bytes.count);
  while (value >= 1023.95 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  if (unit == 0) return fmt::format("{}B", bytes.count);
  const double rounded = std::round(value * 10) / 10;
  return rounded == std::floor(rounded) ? fmt::format("{:.0f}{}", rounded, kUnits[unit])
                                        : fmt::format("{:.1f}{}", rounded, kUnits[unit]);
}

namespace {

tl::unexpected<Error> BadDuration(std::string_view text, std::string_view why) {
  return Fail(ErrorCode::kInvalidArgument, fmt::format("'{}' is not a time: {}", text, why),
              "write 500ms, 30s, 10m, 2h, 1d or H:M:S");
}

// "H:M:S" or "M:S", whole numbers; only the first place may exceed 59.
Result<Millis> ParseClock(std::string_view text) {
  std::uint64_t total = 0;
  int fields = 0;
  std::string_view rest = text;
  for (;;) {
    const auto colon = rest.find(':');
    const auto field = rest.substr(0, colon);
    const auto value = ParseNumber<std::uint64_t>(field);
    if (!value || *value > 1'000'000'000) return BadDuration(text, "H:M:S takes whole numbers");
    if (fields > 0 && *value > 59) return BadDuration(text, "minutes and seconds go up to 59");
    total = total * 60 + *value;
    ++fields;
    if (colon == std::string_view::npos) break;
    rest = rest.substr(colon + 1);
  }
  if (fields > 3) return BadDuration(text, "H:M:S has three fields");
  return Millis(static_cast<std::int64_t>(total * 1000));
}

}  // namespace

Result<Millis> ParseDuration(std::string_view text) {
  const auto trimmed = Trim(text);
  if (trimmed.empty()) return BadDuration(text, "it is empty");
  if (trimmed.front() == '-') return BadDuration(text, "it is negative");
  if (trimmed.find(':') != std::string_view::npos) return ParseClock(trimmed);
  const auto number = ReadNumber(trimmed);
  if (!number) return BadDuration(text, "it does not start with a number");
  double scale = 0;
  const auto unit = number->unit;
  if (unit.empty() || unit == "s")
    scale = 1000;
  else if (unit == "ms")
    scale = 1;
  else if (unit == "m" || unit == "min")
    scale = 60e3;
  else if (unit == "h")
    scale = 3600e3;
  else if (unit == "d")
    scale = 86400e3;
  else
    return BadDuration(text, fmt::format("'{}' is no unit", unit));
  const double millis = number->real * scale;
  if (!(millis < 3.2e13)) return BadDuration(text, "it is longer than a thousand years");
  return Millis(std::llround(millis));
}

std::string FormatDuration(Millis duration) {
  const auto ms = duration.count();
  if (ms < 1000) return fmt::format("{}ms", ms);
  const auto s = ms / 1000;
  if (s < 60)
    return ms % 1000 == 0 || s >= 10 ? fmt::format("{}s", s)
                                     : fmt::format("{:.1f}s", static_cast<double>(ms) / 1e3);
  if (s < 3600) return s % 60 == 0 ? fmt::format("{}m", s / 60) : fmt::format("{}m{:02}s", s / 60, s % 60);
  if (s < 86400) return fmt::format("{}h{:02}m", s / 3600, s % 3600 / 60);
  return fmt::format("{}d{:02}h", s / 86400, s % 86400 / 3600);
}

std::string FormatHours(double hours) { return fmt::format("{:.15g}", hours); }

std::string FormatUsedHours(double hours) {
  if (!(hours > 0)) return "0";
  if (std::isinf(hours)) return "unlimited";
  if (hours < 0.0001) return "<0.0001";
  if (hours < 0.1) return fmt::format("{:.2g}", hours);
  // 4.99 may be stored as 4.9899999.
  constexpr double kTolerance = 1e-9;
  return fmt::format("{:.15g}", std::floor(hours * 100 + kTolerance) / 100);
}

}  // namespace gpuman::base

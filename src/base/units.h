// Sizes and times as people write them, and strong types for values that are easily mixed up.
//
// Sizes: bytes, or a number with K M G T (KB, KiB, …: all mean powers of 1024), or a percentage of a whole.
// Times: `500ms`, `30s`, `10m`, `2h`, `1d`, `H:M:S`, `M:S`. Pure functions; thread-safe.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace gpuman::base {

// A number of bytes. Never negative; arithmetic saturates instead of wrapping.
struct Bytes {
  std::uint64_t count = 0;

  friend constexpr auto operator<=>(Bytes, Bytes) = default;
  friend constexpr Bytes operator+(Bytes a, Bytes b) {
    return {a.count + b.count < a.count ? UINT64_MAX : a.count + b.count};
  }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return {a.count < b.count ? 0 : a.count - b.count}; }
  constexpr Bytes& operator+=(Bytes other) { return *this = *this + other; }
};
constexpr Bytes KiB(std::uint64_t n) { return {n << 10}; }
constexpr Bytes MiB(std::uint64_t n) { return {n << 20}; }
constexpr Bytes GiB(std::uint64_t n) { return {n << 30}; }

// A size that may depend on the device: "8GiB" or "50%".
struct SizeSpec {
  Bytes bytes;         // when percent is 0
  double percent = 0;  // 0 < percent <= 100 when the size is relative

  // The size on a device of `whole` bytes, rounded down.
  Bytes Of(Bytes whole) const;
  bool IsRelative() const { return percent > 0; }
  friend bool operator==(const SizeSpec&, const SizeSpec&) = default;
};

// Both refuse a text that is empty, negative, zero, not a number, or too large for 63 bits, and say which.
Result<Bytes> ParseBytes(std::string_view text);
Result<SizeSpec> ParseSize(std::string_view text);

// "512MiB", "1.5GiB", "17B": binary units, at most one decimal.
std::string FormatBytes(Bytes bytes);

using Millis = std::chrono::milliseconds;

// Accepts 0 ("0", "0s"); refuses negative and overflowing values. A bare number is seconds.
Result<Millis> ParseDuration(std::string_view text);
// "500ms", "30s", "2m30s", "1h05m", "3d04h": two units at most.
std::string FormatDuration(Millis duration);

// Hours as a number. FormatHours: exactly as they were given, "0.01", "1000000". FormatUsedHours: "4.99",
// rounded down, so that what is nearly used up does not look used up; below 0.1 with two digits, "0.0042", so
// that only nothing is "0".
std::string FormatHours(double hours);
std::string FormatUsedHours(double hours);

}  // namespace gpuman::base

// The clocks, which tests replace: a function that decides gets the time as an argument; code that has to
// read the time itself gets a Clock.
//
// Monotonic time decides (limits, grace, periods); wall time is only written down for people. So if the wall
// clock is set back, only printed times change.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/result.h"

namespace gpuman::base {

// CLOCK_MONOTONIC, comparable between processes of one boot.
using MonoTime = std::chrono::steady_clock::time_point;
// CLOCK_REALTIME with millisecond steps: what is stored and shown.
using WallTime = std::chrono::time_point<std::chrono::system_clock, std::chrono::milliseconds>;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual MonoTime Mono() const = 0;
  virtual WallTime Wall() const = 0;
};

// Thread-safe.
class SystemClock final : public Clock {
 public:
  MonoTime Mono() const override { return std::chrono::steady_clock::now(); }
  WallTime Wall() const override;
};

// "2026-11-21T03:28:48.123Z" and back.
std::string FormatIso8601(WallTime time);
Result<WallTime> ParseIso8601(std::string_view text);

}  // namespace gpuman::base

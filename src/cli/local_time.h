// Points in time as the machine's clock on the wall shows them.
#pragma once

#include <chrono>
#include <ctime>

#include "base/clock.h"

namespace gpuman::cli {

// Rounded down to seconds.
inline std::tm LocalTime(base::WallTime time) {
  const std::time_t seconds = std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
  std::tm local{};
  ::localtime_r(&seconds, &local);
  return local;
}

}  // namespace gpuman::cli

// One event, as the store keeps it and `gpuman events` shows it. A plain value.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/clock.h"

namespace gpuman::jobs {

struct Event {
  std::int64_t id = 0;  // ascending; never used again
  base::WallTime at{};
  std::string kind;
  std::optional<std::int64_t> job;
  std::optional<std::string> tag;
  std::optional<std::string> gpu;  // UUID
  std::string message;
  std::map<std::string, std::int64_t> data;  // the numbers of the message
  friend bool operator==(const Event&, const Event&) = default;
};

}  // namespace gpuman::jobs

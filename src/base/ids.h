// Names of gpuman's own things that more than one layer speaks of.
#pragma once

#include <compare>
#include <cstdint>

namespace gpuman::base {

// Grows; never used again, also not after the job was removed.
struct JobId {
  std::int64_t value = 0;
  friend auto operator<=>(const JobId&, const JobId&) = default;
};

}  // namespace gpuman::base

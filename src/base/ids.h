// Names of gpuman's own things that more than one layer uses.
#pragma once

#include <compare>
#include <cstdint>

namespace gpuman::base {

// Ascending; an id is never used again, also not after its job was removed.
struct JobId {
  std::int64_t value = 0;
  friend auto operator<=>(const JobId&, const JobId&) = default;
};

}  // namespace gpuman::base

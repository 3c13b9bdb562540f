// The resources that this process uses, as the kernel reports them. Reading them takes some system calls;
// none of these calls waits.
#pragma once

#include <cstddef>
#include <optional>

#include "base/units.h"

namespace gpuman::metrics {

struct SelfCost {
  double cpu_seconds = 0;
  std::optional<base::Bytes> resident{}, virtual_size{};
  std::optional<std::size_t> open_files{};
  std::optional<double> started_seconds{};  // since 1970
};

// A value that cannot be read is absent.
SelfCost ReadSelfCost();

}  // namespace gpuman::metrics

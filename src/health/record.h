// The stored health of one GPU: one JSON object on one line, with its version.
//
//   {"boot":"6c3f…","faults":[{"acknowledged":false,"action":"reset","code":"xid_119","count":2,…}],"v":1}
//
// Pure functions; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "health/monitor.h"

namespace gpuman::health {

struct HealthRecord {
  std::string boot;  // the kernel's boot id when it was written
  std::vector<HealthFault> faults;
  friend bool operator==(const HealthRecord&, const HealthRecord&) = default;
};

std::string SerializeRecord(const HealthRecord& record);

// kNotSupported: `text` is of another version. kCorrupt: SerializeRecord did not write it.
base::Result<HealthRecord> ParseRecord(std::string_view text);

}  // namespace gpuman::health

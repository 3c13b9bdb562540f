// The stored form of the wanted instances of a GPU: one JSON object on one line, with its version.
//
//   {"enabled":true,"instances":["3g.71gb","2x1g.18gb"],"v":1}
//
// Pure functions; thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "mig/layout.h"

namespace gpuman::mig {

std::string SerializeRecord(const WantedLayout& wanted);

// kNotSupported: `text` is of another version. kCorrupt: SerializeRecord did not write it.
base::Result<WantedLayout> ParseRecord(std::string_view text);

}  // namespace gpuman::mig

// For tests: the symbols of the driver's functions for the per-thread default stream.
#pragma once

#include <string_view>

#include "driver/abi/cuda.h"

namespace gpuman::driver::abi {

// The suffix of the twin's symbol: "", "_ptds" or "_ptsz".
constexpr std::string_view TwinSuffix(PerThreadStreamSuffix twin) {
  switch (twin) {
    case PerThreadStreamSuffix::kPtds:
      return "_ptds";
    case PerThreadStreamSuffix::kPtsz:
      return "_ptsz";
    case PerThreadStreamSuffix::kNone:
      break;
  }
  return "";
}

}  // namespace gpuman::driver::abi

// What a CUDA context takes of each kind of GPU, as it was seen: kept from one daemon to the next, so that a
// limit below it is told at the start of a job also when no job has run yet. It depends on the GPU's name and
// the driver's version, and is learned anew by every daemon.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/units.h"

namespace gpuman::daemon {

// Not thread-safe.
class ContextCosts {
 public:
  struct Cost {
    std::string driver;  // its version
    base::Bytes bytes;
    friend bool operator==(const Cost&, const Cost&) = default;
  };

  // What Text wrote. Anything else counts as nothing: it is learned again.
  static ContextCosts Parse(std::string_view text);
  std::string Text() const;

  std::optional<base::Bytes> Of(const std::string& gpu, const std::string& driver) const;
  // True when that is new. Other versions of the driver are forgotten.
  bool Learn(const std::string& gpu, const std::string& driver, base::Bytes bytes);

 private:
  std::map<std::string, Cost> costs_;  // by the GPU's name
};

}  // namespace gpuman::daemon

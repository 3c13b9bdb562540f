// The memory that a CUDA context takes on each kind of GPU, as seen. The daemon keeps these costs over
// restarts, so that it can warn of a limit below them even before any job has run. A cost depends on the
// GPU's name and the driver's version; every daemon learns it anew.
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
    std::string driver;  // the driver's version
    base::Bytes bytes;
    friend bool operator==(const Cost&, const Cost&) = default;
  };

  // Reads a text that Text wrote. Any other text gives no costs; they are learned again.
  static ContextCosts Parse(std::string_view text);
  std::string Text() const;

  std::optional<base::Bytes> Of(const std::string& gpu, const std::string& driver) const;
  // True: the cost is new. Costs for other versions of the driver are forgotten.
  bool Learn(const std::string& gpu, const std::string& driver, base::Bytes bytes);

 private:
  std::map<std::string, Cost> costs_;  // by the GPU's name
};

}  // namespace gpuman::daemon

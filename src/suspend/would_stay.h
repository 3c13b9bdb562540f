// What would stay on the GPUs of a job that were suspended now. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "suspend/events.h"

namespace gpuman::suspend {

// An estimate for each GPU, by the driver's figures and the shims' counts; no more than is known, so a GPU
// that it does not name may be one of which nothing is known. `checkpoints`: whether the driver can
// checkpoint processes; nullopt: not known, and taken for yes.
BytesByGpu WouldStay(const std::vector<ObservedProcess>& processes, std::optional<bool> checkpoints);

// Takes one estimate after the other. The driver's figures and the shims' counts are not of the same moment,
// so an estimate is too large while memory is taken or leaves: what grows counts only when it has lasted.
// Thread-compatible.
class SteadyResidualEstimator {
 public:
  // `seen`: the estimate at `now`. Returns what counts.
  BytesByGpu Add(const BytesByGpu& seen, base::MonoTime now);

 private:
  static constexpr base::Millis kLasts{500};
  struct Part {
    base::Bytes counts{};
    base::Bytes least{};  // since `grew`
    std::optional<base::MonoTime> grew{};
  };
  std::map<std::string, Part> parts_;  // by GPU
};

}  // namespace gpuman::suspend

// How much GPU memory a job asks for with `--memory auto`: what past runs of the same user and name used,
// with a margin. Pure.
//
// The margin is there for the next run, which may use more than all known ones. It shrinks with the number of
// runs that are known and grows with the difference between them. The peak of a run has the driver's context
// in it, so no size has to be added for that.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/units.h"

namespace gpuman::queue {

// So many runs of one name count, the last ones: a program that changed is soon known as it is now.
inline constexpr std::size_t kPastRuns = 20;

// What a run has shown of the memory that such runs need on one GPU.
struct PastRun {
  base::JobId job{};
  base::WallTime ended{};
  base::Bytes peak;         // the most that it used
  base::Bytes needed{};     // what it would have used with the allocation that its limit refused; 0: none
  bool to_its_end = false;  // false: it failed or was ended early, and might have used more
  friend bool operator==(const PastRun&, const PastRun&) = default;
};

// `name`: as the accounts of runs have it. `runs`: the oldest first. `gpu`: the memory of the largest GPU
// that would do. `at_least`: the size is not below that, as far as the GPU has it (a soft limit); 0: no
// bound.
struct MemoryQuestion {
  std::string_view name;
  const std::vector<PastRun>& runs;
  base::Bytes gpu;
  base::Bytes at_least{};
};

struct MemoryEstimate {
  std::optional<base::Bytes> size;  // at most that of the GPU; absent: too little is known to set a limit
  std::string note;                 // why, as a sentence for the user who submits the job
};

MemoryEstimate EstimateMemory(const MemoryQuestion& question);

// The limit for the next run of a job whose limit `had` refused an allocation, with which the job would have
// used `needed` (0: not known). nullopt: no GPU has more than it had. `gpu`: as above.
std::optional<base::Bytes> NextLargerMemory(base::Bytes had, base::Bytes needed, base::Bytes gpu);

}  // namespace gpuman::queue

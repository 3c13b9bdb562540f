// What the driver shows of a job beyond what its ledger counts: contexts, code, graphs, processes without the
// shim. It takes from the limit, or the job would pass it by that much.
//
// The driver's figure and the ledger's are never of the same moment, and a program allocates and frees in
// between: a difference taken once may be too large (freed meanwhile: the program would be refused what it
// may have) or too small. What contexts and code take changes slowly, so the median of the last samples is
// taken for a process that counts. Pure; not thread-safe.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>

#include "base/process.h"
#include "base/units.h"

namespace gpuman::ledger {

// One process on one GPU at one moment.
struct ProcessSample {
  base::ProcessId process;
  base::Bytes shown;                   // by the driver
  std::optional<base::Bytes> counted;  // in its slot; nullopt: it does not count
};

// Of one job on one GPU.
class UncountedMemory {
 public:
  // All processes of the job there. Returns what takes from the limit.
  base::Bytes Observe(const std::vector<ProcessSample>& samples);

  // What a context seems to cost: the least that a process showed beyond its count, over all processes that
  // were looked at often enough; nullopt: not known yet. Only while contexts are not counted themselves.
  std::optional<base::Bytes> context() const { return context_; }

 private:
  static constexpr std::size_t kSamples = 5;
  std::map<base::ProcessId, std::deque<std::int64_t>> differences_;
  std::optional<base::Bytes> context_;
};

}  // namespace gpuman::ledger

// Memory that the driver shows of a job beyond what its ledger counts: contexts, code, graphs, processes
// without the shim. It takes from the limit; otherwise the job would pass the limit by that much.
//
// The driver's figure and the ledger's are never of the same moment, and a program allocates and frees in
// between: one difference may be too large (memory was freed meanwhile, and the program would be refused what
// it may have) or too small. Contexts and code change slowly, so a process that counts is taken with the
// median of its last samples. While memory of a process moves, the two differ by what has moved so far, so
// the samples from before hold. They hold as well where memory left or came back between two samples: the
// driver's figure may be of before, and the ledger's of afterwards. Pure; not thread-safe.
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
  bool moving = false;                 // memory leaves or comes back, and is counted at the end of that
  std::uint64_t orders = 0;            // another number: memory may have left or come back meanwhile
};

// The uncounted memory of one job on one GPU.
class UncountedMemory {
 public:
  // `samples`: all processes of the job there. Returns the bytes that take from the limit.
  base::Bytes Observe(const std::vector<ProcessSample>& samples);

  // What a context seems to cost: the least that a process showed beyond its count, over all processes with
  // enough samples between which no memory moved; nullopt: not known yet. Of use only while contexts are not
  // counted themselves.
  std::optional<base::Bytes> context() const { return context_; }

 private:
  static constexpr std::size_t kSamples = 5;
  struct Process {
    std::deque<std::int64_t> differences;
    std::optional<std::uint64_t> orders;  // of the last sample
    bool steady = false;                  // no memory moved between the samples
  };
  static void Add(Process& process, const ProcessSample& sample);

  std::map<base::ProcessId, Process> processes_;
  std::optional<base::Bytes> context_;
};

}  // namespace gpuman::ledger

// Memory that the driver shows of a job beyond what its ledger counts: contexts, code, graphs, processes
// without the shim. This memory counts against the limit; otherwise the job would pass the limit by that
// much.
//
// The driver's figure and the ledger's figure are never of the same moment, and a program allocates and frees
// in between: a single difference may be too large (the program freed memory meanwhile, and would be refused
// memory that it may have) or too small (it allocated memory meanwhile). Contexts and code change slowly, so
// for a process that counts, the median of its last differences is used. A program that allocates again and
// again makes all of them too small, and would pass its limit. So the estimate is never below the lower of
// two samples in a row for which the process counted as much as for the sample before: such samples come from
// a process that waits in its first allocation. While memory of a process moves, the two figures differ by
// the bytes that have moved so far, so the earlier samples stay in use. They also stay in use where memory
// left or came back between two samples: the driver's figure may be older than the move, and the ledger's
// newer. Pure; not thread-safe.
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
  std::optional<base::Bytes> counted;  // in its slot; nullopt: the process does not count its memory
  bool moving = false;       // memory is leaving or coming back; the process counts it at the end of that
  std::uint64_t orders = 0;  // a changed number: memory may have left or come back since the last sample
};

// The uncounted memory of one job on one GPU.
class UncountedMemoryEstimator {
 public:
  // `samples`: all processes of the job on the GPU. Returns the bytes that count against the limit.
  base::Bytes Observe(const std::vector<ProcessSample>& samples);

  // The least of the last three results, since a single one may be too large; 0 before there are three.
  base::Bytes lasting() const;

  // What a context seems to cost: the least that a process showed beyond its count, over all processes with
  // enough samples between which no memory moved; nullopt: not known yet. Meaningful only while shims do not
  // count the contexts themselves.
  std::optional<base::Bytes> context() const { return context_; }

 private:
  static constexpr std::size_t kSamples = 5, kLasts = 3;
  struct Process {
    std::deque<std::int64_t> differences;
    std::deque<std::int64_t> quiet;      // the last two differences whose count was that of the sample before
    unsigned since_quiet = 0;            // samples
    std::optional<base::Bytes> counted;  // of the last sample
    std::optional<std::uint64_t> orders;  // of the last sample
    bool steady = false;                  // no memory moved between the samples
  };
  static void Add(Process& process, const ProcessSample& sample);
  static std::int64_t EstimateOf(const Process& process);

  std::map<base::ProcessId, Process> processes_;
  std::optional<base::Bytes> context_;
  std::deque<base::Bytes> results_;  // the last ones
};

}  // namespace gpuman::ledger

// The jobs that words of a command line name, where one word may name several: "5-8", "7,9", and "lr-*",
// which is how `gpuman status` calls the jobs of a sweep.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "api/queue_rows.h"
#include "base/result.h"
#include "cli/command_context.h"
#include "spec/job_spec.h"

namespace gpuman::cli::queue {

// How jobs that were submitted together are called: their tag, or what all tags begin with and a star. Empty:
// the tags have nothing in common.
std::string NameOfSweep(const std::vector<std::string_view>& tags);

enum class SweepScope {
  kOpen,  // its jobs that have not ended; where all have, all of them
  kAll
};

// The ids of the sweep's jobs; of several sweeps of the name, of the one that has not ended, else of the
// newest. `rows`: the jobs of all states. kConflict: several sweeps that have not ended have the name.
// kNotFound: none has.
base::Result<std::vector<std::string>> JobsOfSweep(std::string_view name,
                                                   const std::vector<api::QueueRow>& rows,
                                                   SweepScope which = SweepScope::kOpen);

// The references of jobs that the words name. Asks the daemon only where a word is the name of a sweep.
base::Result<std::vector<std::string>> JobsNamed(CommandContext& session,
                                                 const std::vector<std::string>& words);

// Puts in place of each name of a sweep all of its jobs, also those that have ended: a job that waits for a
// sweep depends on the end of all its jobs. Asks the daemon only where there is such a name, and once for
// each name.
class SweepResolver {
 public:
  explicit SweepResolver(CommandContext& session) : session_(session) {}
  base::Result<> Resolve(spec::NamedDependencies& depends);

 private:
  CommandContext& session_;
  std::map<std::string, std::vector<std::string>> known_;
};

// Calls `act` for each job, continues after an error, and returns the highest exit status; of one job alone
// the error.
template <typename Act>
base::Result<int> ForEachJob(CommandContext& session, const std::vector<std::string>& jobs, Act act) {
  int status = kExitDone;
  for (const auto& job : jobs) {
    base::Result<int> one = act(job);
    if (!one && jobs.size() == 1) return one;
    if (!one) session.PrintError(one.error());
    status = std::max(status, one ? *one : ExitStatusOf(one.error().code));
  }
  return status;
}

}  // namespace gpuman::cli::queue

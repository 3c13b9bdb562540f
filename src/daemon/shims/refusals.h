// Texts and views about refused allocations of a job's programs. Pure.
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "api/types.h"
#include "base/clock.h"
#include "gpu/inventory.h"
#include "jobs/job.h"
#include "ledger/ledgers.h"

namespace gpuman::daemon {

// `mono_now` and `wall_now`: the same moment on both clocks.
jobs::RefusedAllocation RefusalOf(const ledger::FirstAndLastRefusal& seen, base::MonoTime mono_now,
                                  base::WallTime wall_now);

// "256MiB was refused at its limit of 1GiB on GPU 0, …: gpuman update hog --memory SIZE". The advice depends
// on whether the job goes on, and on how the job was started. `name`: how a command names the job; empty: by
// its tag. The same below.
std::string Sentence(const jobs::Job& job, const jobs::RefusedAllocation& refusal,
                     const gpu::Inventory& inventory, const std::string& name = {});

api::RefusedAllocationView ViewOf(const jobs::Job& job, const jobs::RefusedAllocation& refusal,
                                  const gpu::Inventory& inventory, const std::string& name = {});

// Adds the refusal to the reason of a job whose run failed. If the refusal came soon before `ended`, when
// that run ended, its word becomes the job's reason.
void Explain(jobs::Job& job, const gpu::Inventory& inventory, base::WallTime ended,
             const std::string& name = {});

// How many there were; 1 where the first is not known, or the numbers make no sense.
std::uint64_t CountOf(const ledger::FirstAndLastRefusal& seen);

// Decides which refusals become events. A program that is refused in a loop causes one event in kAtMostEvery
// at most. Not thread-safe.
class RefusalEventLimiter {
 public:
  static constexpr base::Millis kAtMostEvery{10LL * 60'000};
  // Returns whether the daemon is to tell a refusal of the job now.
  bool Tells(base::JobId job, base::MonoTime now);
  void Forget(base::JobId job) { reported_.erase(job); }

 private:
  std::map<base::JobId, base::MonoTime> reported_;
};

}  // namespace gpuman::daemon

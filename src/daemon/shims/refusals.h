// What people are told of allocations that a job's programs were refused. Pure.
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

// `now` on both clocks, at one moment.
jobs::RefusedAllocation RefusalOf(const ledger::Refusal& seen, base::MonoTime mono_now,
                                  base::WallTime wall_now);

// "256MiB was refused at its limit of 1GiB on GPU 0, …: gpuman update hog --memory SIZE". What can be done
// depends on whether the job goes on, and on where it came from.
std::string Sentence(const jobs::Job& job, const jobs::RefusedAllocation& refusal,
                     const gpu::Inventory& inventory);

api::RefusalView ViewOf(const jobs::Job& job, const jobs::RefusedAllocation& refusal,
                        const gpu::Inventory& inventory);

// A job that failed says so in its reason, too.
void Explain(jobs::Job& job, const gpu::Inventory& inventory);

// Which refusals are told as events: a program that is refused in a loop is told of once in a while. Not
// thread-safe.
class RefusalTeller {
 public:
  static constexpr base::Millis kAtMostEvery{10LL * 60'000};
  // True: tell it now.
  bool Tells(base::JobId job, base::MonoTime now);
  void Forget(base::JobId job) { told_.erase(job); }

 private:
  std::map<base::JobId, base::MonoTime> told_;
};

}  // namespace gpuman::daemon

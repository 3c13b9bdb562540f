// Jobs that may come into the queue and are not in its snapshot yet: until they are, claims count them among
// the waiting jobs of their users and projects, so that requests that run side by side pass no bound
// together.
//
// Not thread-safe: lives on the event loop.
#pragma once

#include <sys/types.h>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "base/weak_self.h"
#include "jobs/job.h"
#include "queue/dependencies.h"
#include "queue/snapshot_updater.h"

namespace gpuman::jobs {
class JobManager;
}  // namespace gpuman::jobs

namespace gpuman::daemon {

class SubmissionClaims {
 public:
  // Counts until the last copy is destroyed. A default one counts nothing. Do not compare it with nullptr:
  // one that counts is null as well.
  using Claim = std::shared_ptr<void>;
  // Jobs by account, and their text and dependencies by user.
  struct Counts {
    std::map<std::pair<queue::AccountKind, std::string>, int> jobs{};
    std::map<uid_t, std::pair<jobs::JobOwner, base::Bytes>> text{};
    std::map<uid_t, std::pair<std::string, std::size_t>> dependencies{};  // with the user's name
  };

  // All must outlive this object.
  SubmissionClaims(const jobs::JobManager& jobs, queue::SnapshotUpdater& updater,
                   const queue::Dependents& dependents)
      : jobs_(jobs), updater_(updater), dependents_(dependents) {}

  static Counts CountOf(const std::vector<jobs::Job>& prepared);
  // kUnsatisfiable: with these, and with all that is claimed, a bound on waiting jobs, their text or
  // their dependencies is passed.
  base::Result<> MayQueue(const Counts& counts);
  // Counts them from now on, without a check.
  Claim Take(Counts counts);
  // MayQueue and Take for so many jobs of the user with so much text.
  base::Result<Claim> TakeForUser(const jobs::JobOwner& owner, std::size_t jobs, base::Bytes text);
  // The same for a stored job in this form: counts only its new project and dependencies, if it has some,
  // since it counts for its user already.
  base::Result<Claim> TakeForChange(const jobs::Job& changed);

 private:
  const jobs::JobManager& jobs_;
  queue::SnapshotUpdater& updater_;
  const queue::Dependents& dependents_;
  std::map<std::pair<queue::AccountKind, std::string>, int> claimed_;  // no entry is 0
  std::map<uid_t, base::Bytes> claimed_text_;                          // likewise
  std::map<uid_t, std::size_t> claimed_dependencies_;                  // likewise
  base::WeakSelf<SubmissionClaims> self_{this};
};

}  // namespace gpuman::daemon

// Decides which ended jobs are forgotten. Pure.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <vector>

#include "base/clock.h"
#include "jobs/text_account.h"

namespace gpuman::jobs {

struct EndedJob {
  JobId id;
  uid_t user = 0;
  base::WallTime ended_at{};
  TextAccount::Entry text{};
};

struct RetentionBounds {
  std::size_t count = 0;    // for all users together
  base::WallTime oldest{};  // a job that ended before is too old
  base::Bytes text{};       // for each user's ended jobs; 0: no bound
};

// The jobs to forget. First, for each user and the oldest first: jobs that are too old, and jobs whose text
// exceeds the bound. Then jobs of the user who has the most jobs, until no more than `count` remain: so a
// user's jobs never push out the jobs of a user who has fewer. `text`: the accounts of the ended jobs; a user
// without an account has little text.
std::vector<JobId> ToForget(const std::vector<EndedJob>& ended, const RetentionBounds& bounds,
                            std::map<uid_t, TextAccount> text, base::WallTime now);

}  // namespace gpuman::jobs

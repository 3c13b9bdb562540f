// Which ended jobs are forgotten. Pure.
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
  std::size_t count = 0;    // of all users together
  base::WallTime oldest{};  // what ended before is too old
  base::Bytes text{};       // of each user's ended jobs; 0: any
};

// Of each user the oldest first: those that are too old, those whose text is too much, and then of the user
// who has most until there are no more than `count`: nobody's jobs push out those of somebody who has fewer.
// `text`: accounts of the ended jobs; a user who is not in it has little.
std::vector<JobId> ToForget(const std::vector<EndedJob>& ended, const RetentionBounds& bounds,
                            std::map<uid_t, TextAccount> text, base::WallTime now);

}  // namespace gpuman::jobs

// Which job a name means. Pure.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "jobs/job.h"

namespace gpuman::daemon {

struct Meant {
  base::JobId job;                // of an array the array's
  std::vector<base::JobId> also;  // that the name means just as well: all that have not ended, by id
};

// Of the jobs with this name: the user's own before others', those that have not ended before those that have,
// then the newest. nullopt: there is none.
std::optional<Meant> MeantBy(const std::vector<const jobs::Job*>& named, uid_t user);

// "arr_3": the name of an array, and the number of a task; nullopt: it does not end in one.
std::optional<std::pair<std::string, std::int64_t>> SplitTask(const std::string& name);

// kConflict where more than one is meant: whoever ends or changes a job says which.
base::Result<> IsOne(const std::string& name, const Meant& meant);

}  // namespace gpuman::daemon

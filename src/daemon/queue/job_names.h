// Names of jobs that name a task of an array, or several jobs. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace gpuman::daemon {

// "arr_3": the name of an array, and the number of a task; nullopt: the name does not end in a number of a
// task.
std::optional<std::pair<std::string, std::int64_t>> SplitTask(const std::string& name);

// `open`: the jobs with this name that have not ended. kConflict where there are several: a user who ends or
// changes a job has to say which.
base::Result<> IsOne(const std::string& name, std::vector<base::JobId> open);

// For a user who names a job by a name that several have; empty: only one has it. `all`: the jobs with this
// name, by id or not; `most`: there may be more than these, if they are so many.
std::string NoteOnName(const std::string& name, const std::vector<base::JobId>& all, base::JobId taken,
                       std::size_t most);

}  // namespace gpuman::daemon

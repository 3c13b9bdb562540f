// What a job's name says beside the name. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace gpuman::daemon {

// "arr_3": the name of an array, and the number of a task; nullopt: it does not end in one.
std::optional<std::pair<std::string, std::int64_t>> SplitTask(const std::string& name);

// `open`: the jobs with this name that have not ended. kConflict where it is more than one: whoever ends or
// changes a job says which.
base::Result<> IsOne(const std::string& name, std::vector<base::JobId> open);

}  // namespace gpuman::daemon

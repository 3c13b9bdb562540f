// A job as the text that the store keeps of it. Unknown fields are ignored, missing ones take their default,
// so that a field can be added without a new schema. Pure; never throws.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "jobs/job.h"

namespace gpuman::jobs {

std::string SerializeJob(const Job& job);
base::Result<Job> ParseJob(std::string_view text);

}  // namespace gpuman::jobs

// A job as the text that the store keeps of it, and what many jobs have in common as texts of their own. What
// has its default is left out. Unknown fields are ignored, missing ones take their default, so that a field
// can be added without a new schema. Pure; never throws.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "jobs/job.h"

namespace gpuman::jobs {

// Without environment, resource limits and queue spec.
std::string SerializeJob(const Job& job);
// Takes those from `text` where an older gpuman wrote them there; else they are left empty.
base::Result<Job> ParseJob(std::string_view text);

std::string Serialize(const Environment& environment);
std::string Serialize(const ResourceLimits& limits);
std::string Serialize(const QueueSpec& queue_spec);
base::Result<Environment> ParseEnvironment(std::string_view text);
base::Result<ResourceLimits> ParseLimits(std::string_view text);
base::Result<QueueSpec> ParseQueueSpec(std::string_view text);

}  // namespace gpuman::jobs

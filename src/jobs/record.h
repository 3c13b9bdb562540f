// Converts a job to the text that the store keeps, and the parts that many jobs have in common to separate
// texts. A default value is left out, an unknown field is ignored, and a missing field takes its default, so
// that a field can be added without a new schema. Pure; never throws.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "jobs/job.h"

namespace gpuman::jobs {

// Without environment, resource limits and spec.
std::string SerializeJob(const Job& job);
// Takes environment and resource limits from `text` if an older gpuman wrote them there; otherwise leaves
// them empty. Parts of the spec that an older gpuman wrote there replace those of `spec`.
base::Result<Job> ParseJob(std::string_view text, Shared<spec::JobSpec> spec = {});

std::string Serialize(const Environment& environment);
std::string Serialize(const ResourceLimits& limits);
base::Result<Environment> ParseEnvironment(std::string_view text);
base::Result<ResourceLimits> ParseLimits(std::string_view text);
// Reads a spec of this version (spec/json.h) or of an older gpuman.
base::Result<spec::JobSpec> ParseSpec(std::string_view text);

}  // namespace gpuman::jobs

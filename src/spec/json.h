// A job's spec as text: one JSON object on one line, with its version. Fields with their default are left
// out, so most specs are short. Equal specs have equal texts, so many jobs can share one string.
//
//   {"v":1,"time_limit_ms":7200000,"gpus":{"count":2},"depends":{"list":[["afterok",7]]}}
//
// Pure functions; thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "spec/job_spec.h"

namespace gpuman::spec {

// Strings are UTF-8, as they came in JSON; other bytes are replaced.
std::string Serialize(const JobSpec& spec);

// kCorrupt for text that Serialize of this version or an older one did not write: wrong types, values that
// Validate() refuses; kNotSupported for another version. Unknown fields are ignored.
base::Result<JobSpec> ParseJobSpec(std::string_view text);
// The same for parsed JSON, without Validate().
base::Result<JobSpec> JobSpecOf(const base::json::Json& json);

// `now` without the change from `before` to `changed`: each field that the change has set gets its
// value in `before` back, unless `now` has another value than `changed`, because it was set again since.
JobSpec WithoutChange(const JobSpec& now, const JobSpec& before, const JobSpec& changed);

}  // namespace gpuman::spec

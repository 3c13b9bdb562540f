// The JSON of queue_types.h, and the checks of its requests. As in json.h: requests are read strictly,
// answers leniently, errors name the field by its path ("jobs[3].gpus.count: …"). Pure functions;
// thread-safe.
#pragma once

#include <string>
#include <vector>

#include "api/json.h"
#include "api/queue_types.h"

namespace gpuman::api {

// Sets the options that the patch has, and leaves the others as they are; null takes an option away that may
// be absent. kInvalidArgument names the field.
base::Result<> SetOptions(const RunOptionsPatch& patch, spec::RunOptions& options);
base::Result<> SetOptions(const OptionsPatch& patch, spec::JobRequest& options);
base::Result<> SetLimits(const QuotaUpdate& patch, QuotaLimits& limits);
// Puts an option with the value that it has here into an update, at its place there; `name` is its name in
// the API, or that of a part of it that an update may have alone ("notify.mails").
void AddOption(const spec::JobRequest& options, const std::string& name, JobUpdate& update);
// Whether an update may have this option; `name` as above.
bool MayChange(const std::string& name);
// Whether an update may have it also while the job runs.
bool MayChangeWhileRunning(const std::string& name);
// Whether it is an option of each job, and not of those of the queue alone.
bool IsRunOption(const std::string& name);
// The names of the options that are not as usual here.
std::vector<std::string> ChangedOptions(const spec::JobOptions& options);
// Whether a job may be without a value of this option, which an update may have; so may a list be empty.
bool MayBeAbsent(const std::string& name);

// Checks a submission as far as that needs no knowledge of GPUs and jobs; FromJson<SubmitRequest> calls it
// for each job. kInvalidArgument tells the field, its value and what to do.
base::Result<> Check(const Submission& job);

// What is wrong with the name of a job, as the end of a sentence that begins with "name: "; absent: nothing.
// A name has 1 to 64 of letters, digits and . _ - + : @, and no command takes it for an id or a range of ids.
std::optional<std::string> WrongWithName(std::string_view name);

}  // namespace gpuman::api

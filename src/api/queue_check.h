// Internal to the codec: rules for the queue's requests that types cannot express.
//
// Each function reports the first thing that is wrong to the parse state, under the field's path. Pure.
#pragma once

#include <string>

#include "api/queue_types.h"
#include "base/json.h"

namespace gpuman::api {

// `path`: the job's place in its request, with a dot at the end, or empty.
void CheckSubmission(base::json::ParseState& r, const std::string& path, const Submission& job);

void Check(base::json::ParseState& r, const SubmitRequest& request);
void Check(base::json::ParseState& r, const RunOptionsPatch& update);
void Check(base::json::ParseState& r, const JobUpdate& update);
void Check(base::json::ParseState& r, const RedoRequest& request);
void Check(base::json::ParseState& r, const CancelRequest& request);
void Check(base::json::ParseState& r, const QueueSettingsUpdate& update);
void Check(base::json::ParseState& r, const ReservationRequest& request);
void Check(base::json::ParseState& r, const QuotaUpdate& update);
void Check(base::json::ParseState& r, const IgnoreRuleView& rule);

}  // namespace gpuman::api

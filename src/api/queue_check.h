// Internal to the codec: rules for the queue's requests that types cannot express.
//
// Each function reports the first thing that is wrong to a Reading, under the field's path. Pure.
#pragma once

#include <string>

#include "api/json_fields.h"
#include "api/queue_types.h"

namespace gpuman::api {

// `path`: the job's place in its request, with a dot at the end, or empty.
void CheckSubmission(fields::Reading& r, const std::string& path, const Submission& job);

void Check(fields::Reading& r, const SubmitRequest& request);
void Check(fields::Reading& r, const JobUpdate& update);
void Check(fields::Reading& r, const RedoRequest& request);
void Check(fields::Reading& r, const CancelRequest& request);
void Check(fields::Reading& r, const QueueSettingsUpdate& update);
void Check(fields::Reading& r, const ReservationRequest& request);
void Check(fields::Reading& r, const QuotaUpdate& update);
void Check(fields::Reading& r, const IgnoredProcess& rule);

}  // namespace gpuman::api

// The restart policy as JSON; shared by the spec and the update command.
#pragma once

#include "base/result.h"
#include "keeper/json.h"
#include "keeper/restart_policy.h"

namespace gpuman::keeper {

Json PolicyToJson(const RestartPolicy& policy);
// An object under `name`; absent: `policy` keeps its value.
void TakePolicy(Fields& fields, const char* name, RestartPolicy& policy);
// These refuse values that are negative or absurd.
base::Result<> CheckPolicy(const RestartPolicy& policy);
base::Result<> CheckRotations(std::uint32_t rotations);
base::Result<> CheckTime(base::Millis time, std::string_view what);

}  // namespace gpuman::keeper

// Bounds of the values in a spec and in an update of settings: they refuse values that are negative or
// absurd. Pure.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "base/units.h"
#include "keeper/restart_policy.h"

namespace gpuman::keeper {

// kInvalidArgument: the message names `what`.
base::Result<> CheckTime(base::Millis time, std::string_view what);
base::Result<> CheckPolicy(const RestartPolicy& policy);
base::Result<> CheckRotations(std::uint32_t rotations);

}  // namespace gpuman::keeper

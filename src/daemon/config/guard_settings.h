// The guard's settings as the configuration gives them. Pure.
#pragma once

#include "daemon/config/config.h"
#include "gpu/sampler.h"
#include "guard/guard.h"

namespace gpuman::daemon {

guard::GuardSettings GuardSettingsOf(const Config& config);
gpu::SamplerSettings SamplerSettingsOf(const Config& config);

}  // namespace gpuman::daemon

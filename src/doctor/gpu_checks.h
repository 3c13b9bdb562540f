// Internal to the table of checks: the checks of the driver and its GPUs. Pure.
#pragma once

#include "doctor/checks.h"

namespace gpuman::doctor {

Findings CheckDriver(const Facts& facts);
Findings CheckVersions(const Facts& facts);
Findings CheckGpus(const Facts& facts);
Findings CheckHealth(const Facts& facts);
Findings CheckPersistence(const Facts& facts);
Findings CheckEcc(const Facts& facts);
Findings CheckThrottling(const Facts& facts);
Findings CheckThrottledBefore(const Facts& facts);
Findings CheckClocks(const Facts& facts);
Findings CheckPower(const Facts& facts);
Findings CheckSettings(const Facts& facts);
Findings CheckLink(const Facts& facts);
Findings CheckPeerAccess(const Facts& facts);
Findings CheckMig(const Facts& facts);
Findings CheckMps(const Facts& facts);
Findings CheckIdle(const Facts& facts);

}  // namespace gpuman::doctor

// Internal to the table of checks: the checks of gpuman itself and of the host. Pure.
#pragma once

#include "doctor/checks.h"

namespace gpuman::doctor {

Findings CheckDaemon(const Facts& facts);
Findings CheckAccess(const Facts& facts);
Findings CheckConfig(const Facts& facts);
Findings CheckShim(const Facts& facts);
Findings CheckHostMemory(const Facts& facts);
Findings CheckMemlock(const Facts& facts);
Findings CheckShm(const Facts& facts);
Findings CheckHugePages(const Facts& facts);
Findings CheckCgroups(const Facts& facts);
Findings CheckDisk(const Facts& facts);

}  // namespace gpuman::doctor

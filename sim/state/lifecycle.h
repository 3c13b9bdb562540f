// What happens to settings and readings when the driver is loaded, a GPU is reset, or faults are cleared.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/state/layout.h"

namespace gpuman::sim {

// Sets the state after power-on: default settings, no faults, counters zero.
void PowerOn(Shared& shared, unsigned gpu);

// When no process uses the driver, it is unloaded, and loaded again for the next one: GPUs without
// persistence lose their settings. `loads` is the count that the caller saw before it looked for users; of
// several callers with the same count, only one loads the driver.
void LoadDriverIfUnused(Shared& shared, std::uint32_t loads);

// Resets a GPU: pending ECC and MIG modes take effect; volatile counters, settings and the lost state are
// cleared.
void ResetGpu(Shared& shared, unsigned gpu);

// Clears injected readings, slow calls, failing allocations and copies, and the lost state. Counters stay:
// they are history.
void ClearFaults(Shared& shared, unsigned gpu);  // kAllGpus = all, and the slow calls
void ClearCounters(Shared& shared, unsigned gpu);

// The answer of a call that changes a setting, if a fault replaces it; nullopt: no fault does.
std::optional<std::uint32_t> RefusalOf(Shared& shared, const char* function, unsigned gpu);

// Counts down a number of Faults; true if this call must fail.
bool FaultStrikes(Word64& countdown);

// Whether the contexts of this process are lost with this call; true once for each injection.
bool LosesContexts(Faults& faults);

}  // namespace gpuman::sim

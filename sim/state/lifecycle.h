// What happens to settings and readings when the driver is loaded anew, a GPU is reset, or faults are
// cleared.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/state/layout.h"

namespace gpuman::sim {

// Everything as after power-on: default settings, no faults, counters zero.
void PowerOn(Shared& shared, unsigned gpu);

// When no process uses the driver, it is unloaded and loaded anew for the next one: settings of GPUs without
// persistence are lost. `loads` is the count the caller saw before it looked for users; one caller of many
// does it.
void LoadDriverIfUnused(Shared& shared, std::uint32_t loads);

// A GPU reset: pending ECC and MIG modes take effect, volatile counters, settings and the lost state are
// cleared.
void ResetGpu(Shared& shared, unsigned gpu);

// Readings computed again, no slow calls, no failing allocations and copies, no lost GPU. Counters stay: they
// are history.
void ClearFaults(Shared& shared, unsigned gpu);  // kAllGpus = all, and the slow calls
void ClearCounters(Shared& shared, unsigned gpu);

// What a call that changes a setting is to answer instead of doing it; nullopt: no fault strikes.
std::optional<std::uint32_t> RefusalOf(Shared& shared, const char* function, unsigned gpu);

// Counts down one of Faults' numbers of what is to fail; true when this one does.
bool FaultStrikes(Word64& countdown);

}  // namespace gpuman::sim

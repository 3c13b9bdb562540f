// The readings of a GPU's sensors: injected values if there are any, else computed from profile and load.
#pragma once

#include <cstdint>

#include "sim/nvml/call.h"

namespace gpuman::sim {

bool HasContexts(const Gpu& gpu);  // of live processes; sweeps dead processes first
unsigned UtilizationPercent(const Gpu& gpu);
unsigned MemoryUtilizationPercent(const Gpu& gpu);
unsigned ClockMhz(const Gpu& gpu, ClockKind kind);
unsigned PowerMilliwatts(const Gpu& gpu);
int TemperatureCelsius(const Gpu& gpu);
int MemoryTemperatureCelsius(const Gpu& gpu);
std::uint64_t ThrottleReasons(const Gpu& gpu);
std::uint64_t EnergyMillijoules(const Gpu& gpu);
std::uint64_t RealtimeUs();

}  // namespace gpuman::sim

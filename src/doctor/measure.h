// Measures the time of a first CUDA call: on an idle GPU, and beside a process that already uses it.
//
// Each measurement is a child process that initialises CUDA, makes a context and reports the time; the first
// child stays while the second does the same. Nothing is set on the device. Not thread-safe: it forks.
#pragma once

#include "doctor/facts.h"

namespace gpuman::doctor {

// Blocks; a child that takes longer than `limit` is killed, and the result says so.
ColdStart Measure(const GpuFacts& gpu, base::Millis limit = base::Millis(60'000));

}  // namespace gpuman::doctor

// Measures the time of a first CUDA call: on an idle GPU, and beside a process that already uses it.
//
// Each measurement is a child process that initialises CUDA, makes a context and reports the time. The first
// child stays alive while the second child does the same. Measure changes no setting of the device. Not
// thread-safe: it forks.
#pragma once

#include "doctor/facts.h"

namespace gpuman::doctor {

// Blocks. If a child takes longer than `limit`, Measure kills it, and the result says so.
ColdStart Measure(const GpuFacts& gpu, base::Millis limit = base::Millis(60'000));

}  // namespace gpuman::doctor

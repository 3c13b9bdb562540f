// The time that a first CUDA call takes: on a GPU that is at rest, and beside a process that has it already.
//
// Each is a child that initialises CUDA, makes a context and says how long that took; the first stays while
// the second does the same. Nothing is set on the device. Not thread-safe: it forks.
#pragma once

#include "doctor/facts.h"

namespace gpuman::doctor {

// Blocks; a child that takes longer than `limit` is ended, and the result says so.
ColdStart Measure(const GpuFacts& gpu, base::Millis limit = base::Millis(60'000));

}  // namespace gpuman::doctor

// What a job held when it held most, and when an allocation was refused, as its traces tell. Pure.
//
// How much was held is known to the byte; of what it consisted, from the samples that were held then, each
// weighted by how many allocations it stands for. Where samples are few, what was held at one moment tells
// little: then the parts are the average of moments at which the job held nearly as much.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trace/reading.h"

namespace gpuman::trace {

// A stack of one of the processes.
struct StackRef {
  std::size_t process = 0;  // index
  std::uint32_t stack = 0;  // index
  friend auto operator<=>(const StackRef&, const StackRef&) = default;
};

// Estimates.
struct Amount {
  double bytes = 0, allocations = 0;
};

// What was held at one moment.
struct Moment {
  std::size_t process = 0;          // which one made it so
  std::uint64_t at = 0;             // nanoseconds of CLOCK_MONOTONIC
  double bytes = 0;                 // exact
  std::map<StackRef, Amount> held;  // its parts; together `bytes`, or none
  bool averaged = false;            // the parts are those of moments like it
};

struct RefusedAllocation {
  StackRef stack;
  std::uint64_t bytes = 0;
  Moment then;
};

struct GpuTraceSummary {
  std::string gpu;  // UUID
  Moment peak;
  std::optional<RefusedAllocation> refusal;  // the last one
};

// Returns a summary of each GPU on which memory was allocated or refused, the highest peak first. What a
// process held counts until it was freed, or until another process saw that it had ended.
std::vector<GpuTraceSummary> Replay(const std::vector<ProcessTrace>& processes);

}  // namespace gpuman::trace

// The limits of a client of MPS on its GPU. Pure; thread-safe.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "base/units.h"

namespace gpuman::mps {

// An absent value means no limit. The limits apply to each client, not to all clients together.
struct Limits {
  std::optional<double> threads{};      // percent of the GPU's threads, 1 to 100
  std::optional<base::Bytes> memory{};  // on the GPU
  friend bool operator==(const Limits&, const Limits&) = default;
};

// kInvalidArgument names the value and the range. `whole`: the GPU's memory.
base::Result<> Validate(const Limits& limits, base::Bytes whole);
base::Result<> ValidateThreads(double percent);

// Returns the lower value of each limit.
Limits LowerOf(const Limits& a, const Limits& b);

// The limit as the control program reads it: "50", "12.5"; "8192M", in whole mebibytes, rounded down.
std::string ThreadsWord(double percent);
std::string MemoryWord(base::Bytes bytes);

}  // namespace gpuman::mps

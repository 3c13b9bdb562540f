// What a client of MPS may take of its GPU. Pure; thread-safe.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "base/units.h"

namespace gpuman::mps {

// Absent: no limit. Of each client, not of all together.
struct Limits {
  std::optional<double> threads{};      // percent of the GPU's threads, 1 to 100
  std::optional<base::Bytes> memory{};  // on the GPU
  friend bool operator==(const Limits&, const Limits&) = default;
};

// kInvalidArgument names the value and the range. `whole`: the GPU's memory.
base::Result<> Validate(const Limits& limits, base::Bytes whole);
base::Result<> ValidateThreads(double percent);

// As the control program takes them: "50", "12.5"; whole mebibytes, rounded down, "8192M".
std::string ThreadsWord(double percent);
std::string MemoryWord(base::Bytes bytes);

}  // namespace gpuman::mps

#include "mps/limits.h"

#include <fmt/format.h>

#include <algorithm>

namespace gpuman::mps {

using base::ErrorCode;
using base::Fail;

namespace {

// A context alone takes some hundred MiB on most GPUs; below this no client starts.
constexpr base::Bytes kMin = base::MiB(64);

template <typename T>
std::optional<T> Lower(const std::optional<T>& a, const std::optional<T>& b) {
  return a && b ? std::min(*a, *b) : (a ? a : b);
}

}  // namespace

Limits LowerOf(const Limits& a, const Limits& b) {
  return {Lower(a.threads, b.threads), Lower(a.memory, b.memory)};
}

base::Result<> ValidateThreads(double percent) {
  if (percent >= 1 && percent <= 100) return {};
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("threads: {}% is not between 1% and 100% of the GPU", percent));
}

base::Result<> Validate(const Limits& limits, base::Bytes whole) {
  if (limits.threads) GPUMAN_TRY(ValidateThreads(*limits.threads));
  if (!limits.memory || (*limits.memory >= kMin && *limits.memory <= whole)) return {};
  return Fail(
      ErrorCode::kInvalidArgument,
      fmt::format("memory: {} is not between {} and what the GPU has, {}", base::FormatBytes(*limits.memory),
                  base::FormatBytes(kMin), base::FormatBytes(whole)));
}

std::string ThreadsWord(double percent) { return fmt::format("{}", percent); }

std::string MemoryWord(base::Bytes bytes) { return fmt::format("{}M", bytes.count >> 20U); }

}  // namespace gpuman::mps

// The part of its GPUs' time that a job asks for. As text, "30%": at most so much, and as much while others
// want the GPU too; "30%+": it may use what others leave.
//
// A value; thread-compatible.
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/result.h"

namespace gpuman::spec {

inline constexpr int kLowestComputeShare = 1, kHighestComputeShare = 100;  // percent

struct ComputeShare {
  int percent = kHighestComputeShare;
  bool may_exceed = false;
  friend bool operator==(const ComputeShare&, const ComputeShare&) = default;
};
template <typename V, typename T>
requires std::same_as<std::remove_const_t<T>, ComputeShare>
void Fields(V& v, T& x) {
  v.Required("percent", x.percent);
  v.Changed("may_exceed", x.may_exceed);
}

// kInvalidArgument, with what was expected.
base::Result<ComputeShare> ParseComputeShare(std::string_view text);
std::string ToString(const ComputeShare& share);

}  // namespace gpuman::spec

#include "spec/compute_share.h"

#include <fmt/format.h>

#include "base/parse_number.h"

namespace gpuman::spec {

base::Result<ComputeShare> ParseComputeShare(std::string_view text) {
  const std::string_view whole = text;
  ComputeShare share;
  share.may_exceed = text.ends_with('+');
  if (share.may_exceed) text.remove_suffix(1);
  const bool has_sign = text.ends_with('%');
  if (has_sign) text.remove_suffix(1);
  share.percent = base::ParseNumber<int>(text).value_or(0);
  if (has_sign && share.percent >= kLowestComputeShare && share.percent <= kHighestComputeShare) return share;
  return base::Fail(base::ErrorCode::kInvalidArgument,
                    fmt::format("'{}' is no share of a GPU's time", whole.substr(0, 40)),
                    fmt::format("{}% to {}%: 30%, or 30%+ to use what others leave as well",
                                kLowestComputeShare, kHighestComputeShare));
}

std::string ToString(const ComputeShare& share) {
  return fmt::format("{}%{}", share.percent, share.may_exceed ? "+" : "");
}

}  // namespace gpuman::spec

#include "cli/percentage.h"

#include <fmt/format.h>

#include <charconv>

namespace gpuman::cli {

base::Result<double> ParsePercentage(std::string_view text) {
  const auto digits = text.ends_with('%') ? text.substr(0, text.size() - 1) : text;
  double percent = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), percent);
  if (error == std::errc{} && end == digits.data() + digits.size() && percent >= 1 && percent <= 100)
    return percent;
  return base::Fail(base::ErrorCode::kInvalidArgument,
                    fmt::format("'{}' is not a percentage from 1% to 100%", text), "write 25% or 12.5%");
}

}  // namespace gpuman::cli

// ParseParameter of settings.h.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "cli/queue/settings.h"
#include "cli/values.h"

namespace gpuman::cli::queue {
namespace {

using base::ErrorCode;
using base::Result;

// The number of digits behind the decimal point.
std::optional<int> Decimals(std::string_view text) {
  std::size_t at = text.starts_with('-') ? 1 : 0;
  const auto point = text.find('.');
  if (!base::AreDigits(text.substr(at, point == std::string_view::npos ? point : point - at)))
    return std::nullopt;
  if (point == std::string_view::npos) return 0;
  const auto fraction = text.substr(point + 1);
  return base::AreDigits(fraction) && fraction.size() <= 9 ? std::optional(static_cast<int>(fraction.size()))
                                                           : std::nullopt;
}

// Expands "1:10" and "0:1:0.25". Counts in units of the smallest decimal, so that steps have no rounding
// errors; nullopt where the text is not a range.
Result<std::optional<std::vector<std::string>>> Range(std::string_view text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const auto end = std::min(text.find(':', at), text.size());
    parts.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  if (parts.size() < 2 || parts.size() > 3) return std::optional<std::vector<std::string>>();
  if (parts.size() == 2) parts.emplace_back("1");
  int decimals = 0;
  for (const auto& part : parts) {
    const auto own = part.size() <= 18 ? Decimals(part) : std::nullopt;
    if (!own) return std::optional<std::vector<std::string>>();
    decimals = std::max(decimals, *own);
  }
  const auto scaled = [&](const std::string& part) {
    std::string digits = part;
    const auto point = digits.find('.');
    if (point != std::string::npos) digits.erase(point, 1);
    digits.append(static_cast<std::size_t>(decimals - *Decimals(part)), '0');
    return digits.size() <= 18 ? std::optional(std::stoll(digits)) : std::nullopt;
  };
  const auto first = scaled(parts[0]);
  const auto last = scaled(parts[1]);
  const auto step = scaled(parts[2]);
  if (!first || !last || !step) return std::optional<std::vector<std::string>>();
  if (*step > 0 && *last >= *first && (*last - *first) / *step >= api::kMaxArrayTasks)
    return base::Fail(ErrorCode::kInvalidArgument,
                      fmt::format("'{}' is {} values", text, (*last - *first) / *step + 1),
                      fmt::format("write at most {} of them", api::kMaxArrayTasks));
  if (*step <= 0 || *last < *first)
    return base::Fail(ErrorCode::kInvalidArgument, fmt::format("'{}' is a range without a value", text),
                      "write FIRST:LAST or FIRST:LAST:STEP in rising order, such as 1:10 or 0:1:0.25");
  std::vector<std::string> values;
  long long scale = 1;
  for (int i = 0; i < decimals; ++i) scale *= 10;
  for (long long value = *first; value <= *last; value += *step) {
    const long long size = value < 0 ? -value : value;
    std::string number = fmt::format("{}{}", value < 0 ? "-" : "", size / scale);
    if (decimals > 0) number += fmt::format(".{:0{}}", size % scale, decimals);
    values.push_back(std::move(number));
  }
  return std::optional(std::move(values));
}

bool IsName(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

}  // namespace

Result<Parameter> ParseParameter(std::string_view text) {
  const auto equals = text.find('=');
  if (equals == std::string_view::npos || !IsName(text.substr(0, equals)) || equals + 1 == text.size())
    return base::Fail(ErrorCode::kInvalidArgument, fmt::format("'{}' is not NAME=VALUES", text),
                      "write lr=0.1,0.01 or seed=1:10; a name has letters, digits, _ and -");
  Parameter parameter{std::string(text.substr(0, equals)), {}};
  const auto values = text.substr(equals + 1);
  GPUMAN_ASSIGN(auto range, Range(values));
  if (range) {
    parameter.values = std::move(*range);
  } else {
    GPUMAN_ASSIGN(parameter.values, SplitList(values));
  }
  return parameter;
}

}  // namespace gpuman::cli::queue

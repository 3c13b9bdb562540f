// JSON that commands print beside that of the API, by the codec of base/json.h. Pure.
#pragma once

#include <optional>
#include <string>

#include "base/json.h"

namespace gpuman::cli {

// Times and durations as in the API.
inline constexpr base::json::JsonFormat kPrintedFormat{.durations = base::json::DurationForm::kSeconds};

// Null in JSON where the text is empty.
inline std::optional<std::string> NonEmpty(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

// In seconds, always with a fraction: 60.0.
inline std::optional<double> SecondsOf(const std::optional<base::Millis>& time) {
  return time ? std::optional(static_cast<double>(time->count()) / 1000) : std::nullopt;
}

}  // namespace gpuman::cli

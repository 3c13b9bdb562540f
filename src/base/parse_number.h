// Reads numbers from text in every place alike: in no locale, and without blanks or a '+' before them. Pure.
//
//   if (const auto pid = base::ParseNumber<pid_t>(word)) …
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace gpuman::base {

// Takes the number with which `text` begins from its front. nullopt: `text` begins with no number, or with
// one that T cannot hold; it stays as it was. `form` is that of std::from_chars: the base of a whole number
// (10 if it is left out), or the std::chars_format of a floating point number (general, which reads "inf" and
// "nan").
template <typename T, typename... Form>
std::optional<T> TakeNumber(std::string_view& text, Form... form) {
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, form...);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

// The number with which the text begins, whatever is behind it.
template <typename T, typename... Form>
std::optional<T> LeadingNumber(std::string_view text, Form... form) {
  return TakeNumber<T>(text, form...);
}

// The number, if it is the whole text.
template <typename T, typename... Form>
std::optional<T> ParseNumber(std::string_view text, Form... form) {
  const auto number = TakeNumber<T>(text, form...);
  return text.empty() ? number : std::nullopt;
}

}  // namespace gpuman::base

// Reads whole numbers from JSON and checks them. nlohmann's own get<int>() takes any number: it cuts a larger
// one to its low bits, and it converts one with a fraction or an exponent, which is undefined if the type
// cannot hold the result. So no other file of the product calls it for an integer; tools/check_layers.py
// checks this.
//
//   if (const auto pid = base::WholeNumber<pid_t>(json["pid"])) …
#pragma once

#include <concepts>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace gpuman::base {

template <typename T>
concept Whole = std::integral<T> && !std::same_as<T, bool>;

// The number, if it is written as a whole number and T can hold it. `Json` is json or ordered_json.
template <Whole T, typename Json>
std::optional<T> WholeNumber(const Json& json) {
  if (json.is_number_unsigned()) {
    const auto number = json.template get<std::uint64_t>();
    return std::in_range<T>(number) ? std::optional(static_cast<T>(number)) : std::nullopt;
  }
  if (!json.is_number_integer()) return std::nullopt;
  const auto number = json.template get<std::int64_t>();
  return std::in_range<T>(number) ? std::optional(static_cast<T>(number)) : std::nullopt;
}

}  // namespace gpuman::base

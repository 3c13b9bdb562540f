// Converts enums to words and back with one table for each enum, for records and for what people type.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <utility>

namespace gpuman::base {

template <typename Enum, std::size_t kSize>
using Words = std::array<std::pair<Enum, std::string_view>, kSize>;

template <typename Enum, std::size_t kSize>
constexpr std::string_view WordOf(const Words<Enum, kSize>& words, Enum value) {
  for (const auto& [each, word] : words)
    if (each == value) return word;
  return "";
}

template <typename Enum, std::size_t kSize>
constexpr std::optional<Enum> ValueOf(const Words<Enum, kSize>& words, std::string_view word) {
  for (const auto& [value, each] : words)
    if (each == word) return value;
  return std::nullopt;
}

}  // namespace gpuman::base

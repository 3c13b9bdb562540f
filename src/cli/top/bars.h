// Values from 0 to 1 as signs in a row. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace gpuman::cli::top {

// A bar of `width` columns, filled from the left. It is full only where `part` is 1, and empty only where
// `part` is 0.
std::string Bar(double part, std::size_t width, bool unicode);

// One sign for each value: the higher the value, the fuller the sign. An unknown value (nullopt) is a blank;
// a 0 is not.
std::string Strip(std::span<const std::optional<double>> values, bool unicode);

}  // namespace gpuman::cli::top

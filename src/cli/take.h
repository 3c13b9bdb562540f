// Functions that take the values of options (command.h). The targets must live as long as the functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "cli/command.h"
#include "cli/values.h"

namespace gpuman::cli::take {

// Parses the value into `target`; `parse` returns a Result.
template <typename Target, typename Parse>
Take Into(Target& target, Parse parse) {
  return [&target, parse](const std::string& text) -> base::Result<> {
    GPUMAN_ASSIGN(target, parse(text));
    return {};
  };
}

// The same; "none" sets `clear` instead.
template <typename Target, typename Parse>
Take IntoOrNone(Target& target, bool& clear, Parse parse) {
  return [&target, &clear, parse](const std::string& text) -> base::Result<> {
    clear = text == "none";
    target = Target{};
    if (clear) return {};
    GPUMAN_ASSIGN(target, parse(text));
    return {};
  };
}

// `target`: a text, or an optional one.
template <typename Target>
Take Text(Target& target) {
  return [&target](const std::string& text) -> base::Result<> {
    target = text;
    return {};
  };
}

Take Flag(bool& target, bool value = true);

// For "on|off".
template <typename Target>
Take OnOff(Target& target) {
  return [&target](const std::string& text) -> base::Result<> {
    target = text == "on";
    return {};
  };
}

template <typename T>
struct NumberTypeOf {
  using type = T;
};
template <typename T>
struct NumberTypeOf<std::optional<T>> {
  using type = T;
};

// `target`: a number, or an optional one.
template <typename Target>
Take Integer(Target& target, std::int64_t least, std::int64_t most) {
  return [=, &target](const std::string& text) -> base::Result<> {
    GPUMAN_ASSIGN(const auto number, ParseInteger(text, least, most));
    target = static_cast<typename NumberTypeOf<Target>::type>(number);
    return {};
  };
}

// Appends the parts between commas.
Take List(std::vector<std::string>& list);

// base::ParseSize, base::ParseDuration; these functions refuse "none".
Take Size(std::optional<base::SizeSpec>& target);
Take Duration(std::optional<base::Millis>& target);
Take Duration(base::Millis& target);

// For options of other programs that have no effect in gpuman.
Take Nothing();

}  // namespace gpuman::cli::take

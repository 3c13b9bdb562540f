// The text of UUIDs. Pure.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace gpuman::base {

// "00112233-4455-6677-8899-aabbccddeeff".
inline std::string FormatUuid(std::span<const std::uint8_t, 16> bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", bytes[i]);
  }
  return text;
}

}  // namespace gpuman::base

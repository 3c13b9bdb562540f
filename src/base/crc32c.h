// CRC-32C (Castagnoli, reflected polynomial 0x82F63B78), as in iSCSI (RFC 3720, appendix B.4). Pure.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace gpuman::base {

namespace internal {
constexpr std::array<std::uint32_t, 256> MakeCrcTable() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0x82F63B78u : 0u);
    table[i] = value;
  }
  return table;
}
inline constexpr auto kCrcTable = MakeCrcTable();
}  // namespace internal

constexpr std::uint32_t Crc32c(std::string_view data) {
  std::uint32_t crc = 0xFFFFFFFFu;
  for (const char c : data)
    crc = crc >> 8 ^ internal::kCrcTable[(crc ^ static_cast<unsigned char>(c)) & 0xFF];
  return ~crc;
}
static_assert(Crc32c("123456789") == 0xE3069283u);

}  // namespace gpuman::base

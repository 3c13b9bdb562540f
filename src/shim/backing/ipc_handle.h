// What a CUipcMemHandle of the shim's holds: 64 bytes that no driver makes.
#pragma once

#include <cstdint>

#include "driver/abi/cuda.h"

namespace gpuman::shim {

struct SharedHandle {
  static constexpr std::uint64_t kMagic = 0x3143'5049'6d75'7067;  // "gpumIPC1"

  std::uint64_t magic;
  std::uint8_t exporter[16];  // its server's name
  std::uint64_t number;       // of the export there
  std::uint64_t offset;       // of the allocation in it
  std::uint64_t bytes;        // of all of it
  std::uint8_t device[16];    // UUID
};
static_assert(sizeof(SharedHandle) == sizeof(driver::abi::CUipcMemHandle));

}  // namespace gpuman::shim

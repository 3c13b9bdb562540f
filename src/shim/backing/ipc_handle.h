// The contents of a CUipcMemHandle of the shim: 64 bytes that no driver makes.
#pragma once

#include <cstdint>

#include "driver/abi/cuda.h"

namespace gpuman::shim {

struct IpcHandleContents {
  static constexpr std::uint64_t kMagic = 0x3143'5049'6d75'7067;  // "gpumIPC1"

  std::uint64_t magic;
  std::uint8_t exporter[16];  // the name of the exporter's server
  std::uint64_t number;       // of the export there
  std::uint64_t offset;       // of the allocation in the export
  std::uint64_t bytes;        // of the whole export
  std::uint8_t device[16];    // UUID
};
static_assert(sizeof(IpcHandleContents) == sizeof(driver::abi::CUipcMemHandle));

}  // namespace gpuman::shim

#include "mover/compare.h"

#include <algorithm>
#include <cstring>

namespace gpuman::mover {

base::Result<std::size_t> CompareSkipped(CopyStream& stream, driver::abi::CUdeviceptr device, HostCopy& copy,
                                         std::uint8_t* scratch) {
  std::size_t wrong = 0;
  for (const auto& [chunk, part, zero] : SkippedChunks(device, copy)) {
    const Copy out{part.device, scratch, part.bytes};
    GPUMAN_TRY(stream.Add({&out, 1}));
    GPUMAN_TRY(stream.Await());
    auto* const host = static_cast<std::uint8_t*>(part.host);
    const bool same =
        zero ? std::all_of(scratch, scratch + part.bytes, [](std::uint8_t byte) { return byte == 0; })
             : std::memcmp(host, scratch, part.bytes) == 0;
    if (same) continue;
    std::memcpy(host, scratch, part.bytes);
    copy.chunks[chunk] = {};
    ++wrong;
  }
  return wrong;
}

}  // namespace gpuman::mover

// share.unchanged = "compare": what the hash takes for unchanged is copied as well, and each byte is
// compared.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "mover/copy_stream.h"
#include "mover/host_copy.h"

namespace gpuman::mover {

// Compares the chunks of a piece at this address that are not copied, one after the other, by copies into
// `scratch`, which has room for a chunk. Returns how many are not what their host copy has; these are in the
// host copy afterwards, and nothing is known of them. The piece is at rest.
base::Result<std::size_t> CompareSkipped(CopyStream& stream, driver::abi::CUdeviceptr device, HostCopy& copy,
                                         std::uint8_t* scratch);

}  // namespace gpuman::mover

// Moves bytes between host and devices, and fills them, at the speed of the simulated bus.
#pragma once

#include <cstdint>

#include "sim/cuda/call.h"

namespace gpuman::sim::cuda {

// One end of a copy: a box of rows. For one dimension the box is one row.
struct CopySide {
  enum class Location { kDevice, kPinnedHost, kPageableHost };
  std::uint64_t address = 0;
  std::uint64_t pitch = 0;  // bytes from row to row
  std::uint64_t slice = 0;  // bytes from layer to layer
  Location location = Location::kDevice;
};

struct CopyBox {
  std::uint64_t width = 0;  // bytes
  std::uint64_t height = 1;
  std::uint64_t depth = 1;
  bool Empty() const { return width == 0 || height == 0 || depth == 0; }
};

// Finds out where the side lies and whether memory for all of the box exists. `device_only` refuses memory
// that is not the driver's. INVALID_VALUE if the box does not fit.
CUresult ResolveSide(Driver& driver, CopySide& side, const CopyBox& box, bool write, bool device_only);

// Queues the copy. Waits for it when `synchronous`, and whenever pageable memory takes part: the program may
// reuse that memory as soon as the call returns.
CUresult SubmitCopy(const Call& call, const StreamReference& stream, const CopySide& source,
                    const CopySide& destination, const CopyBox& box, bool synchronous);

inline std::uint64_t AddressOf(const void* host) { return reinterpret_cast<std::uint64_t>(host); }

struct Fill {
  std::uint64_t address = 0;
  std::uint64_t pitch = 0;
  std::uint64_t count = 0;  // elements of a row
  std::uint64_t height = 1;
  unsigned element = 1;  // bytes
  std::uint32_t value = 0;
};
CUresult SubmitFill(const Call& call, const StreamReference& stream, const Fill& fill, bool synchronous);

}  // namespace gpuman::sim::cuda

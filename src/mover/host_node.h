// The node of host memory that is near a GPU.
#pragma once

#include <optional>

namespace gpuman::mover {

// `driver`: what the driver says of the GPU; `bus`: what the kernel says of its place on the bus; both may
// say -1 or nothing. nullopt: it does not matter, or nobody knows. Pure.
inline std::optional<int> HostNodeOf(std::optional<int> driver, std::optional<int> bus) {
  if (driver && *driver >= 0) return driver;
  if (bus && *bus >= 0) return bus;
  return std::nullopt;
}

}  // namespace gpuman::mover

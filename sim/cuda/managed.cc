#include "sim/cuda/managed.h"

namespace gpuman::sim::cuda {

void ManagedPages::MoveTo(Device* device, std::uint64_t offset, std::uint64_t size) {
  const std::lock_guard lock(mutex_);
  std::int64_t came = 0;
  for (std::uint64_t page = offset / kPage; page < (offset + size + kPage - 1) / kPage; ++page) {
    Device*& place = places_[page];
    if (place == device) continue;
    if (place != nullptr) place->ManagedMoved(-static_cast<std::int64_t>(kPage));
    if (device != nullptr) came += static_cast<std::int64_t>(kPage);
    place = device;
  }
  if (came != 0) device->ManagedMoved(came);
}

}  // namespace gpuman::sim::cuda

// The location of the pages of managed memory.
//
// Their bytes always lie in host memory; only the accounting moves. A page counts on a device from the time
// that the device first touches it (measured on an H200: an allocation costs nothing), until it is prefetched
// to the host, touched by another device or freed. Pages never keep other memory from being allocated: a full
// device evicts them, as the real one does (state.h, Client::ManagedMoved).
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "sim/cuda/device.h"

namespace gpuman::sim::cuda {

// The pages of one allocation. Thread-safe. Offsets and sizes are bytes from its begin, within the
// allocation.
class ManagedPages {
 public:
  static constexpr std::uint64_t kPage = kDeviceStep;

  explicit ManagedPages(std::uint64_t size) : places_(size / kPage) {}  // `size` is a multiple of kPage
  ~ManagedPages() { MoveTo(nullptr, 0, places_.size() * kPage); }
  ManagedPages(const ManagedPages&) = delete;
  ManagedPages& operator=(const ManagedPages&) = delete;

  // Moves the pages of a range to a device, or to the host (nullptr).
  void MoveTo(Device* device, std::uint64_t offset, std::uint64_t size);

 private:
  std::mutex mutex_;
  std::vector<Device*> places_;  // by page; nullptr = the host
};

}  // namespace gpuman::sim::cuda

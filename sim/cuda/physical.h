// The bytes behind device memory: files without a name, mapped wherever the program puts them. Their content
// stays while a Physical lives, mapped or not.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "sim/cuda/device.h"
#include "sim/cuda/free_list.h"

namespace gpuman::sim::cuda {

// One sparse file for all device memory of the process that nobody else can open by a handle. Thread-safe.
class Heap {
 public:
  Heap();
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  int descriptor() const { return descriptor_; }
  std::uint64_t Take(std::uint64_t size);
  // The content becomes zero.
  void Give(std::uint64_t offset, std::uint64_t size);

 private:
  int descriptor_;
  std::mutex mutex_;
  FreeList free_;
};

class Physical {
 public:
  enum class Sharing { kPrivate, kShareable };

  // nullptr when the device has not so many bytes left. `device` null: host memory, not accounted.
  static std::shared_ptr<Physical> Allocate(Heap& heap, Device* device, std::uint64_t size, Sharing sharing);
  // Another process's memory; takes the descriptor. The device counts it once, and this process has it from
  // now on; not so with legacy IPC (`counted` false).
  static std::shared_ptr<Physical> Import(Device* device, int descriptor, std::uint64_t offset,
                                          std::uint64_t size, bool counted);
  ~Physical();
  Physical(const Physical&) = delete;
  Physical& operator=(const Physical&) = delete;

  Device* device() const { return device_; }
  int descriptor() const { return descriptor_; }
  std::uint64_t offset() const { return offset_; }
  std::uint64_t size() const { return size_; }
  bool shareable() const { return heap_ == nullptr; }
  // The driver refuses to pass on what came from another process (measured).
  bool imported() const { return imported_; }
  // It is another process's as well, or may be.
  void Share();

 private:
  Physical() = default;
  Heap* heap_ = nullptr;  // null: the descriptor is this object's own
  Device* device_ = nullptr;
  bool accounted_ = false, imported_ = false;
  std::atomic<bool> shared_{false};
  int descriptor_ = -1;
  std::uint64_t offset_ = 0, size_ = 0;
};

// The GPU (index in the state) of memory that travels by this descriptor; nullopt: it is none of ours.
std::optional<unsigned> GpuOfSharedFile(int descriptor);

// A range of this process's addresses without anything behind it.
//
// Returns 0 when there are no addresses left. `alignment` is a power of two, at least a page; `hint` is taken
// when it is free.
std::uint64_t ReserveAddresses(std::uint64_t size, std::uint64_t alignment, std::uint64_t hint = 0);
void FreeAddresses(std::uint64_t address, std::uint64_t size);
// Puts bytes of `physical` behind reserved addresses, and takes them away again.
bool MapAt(std::uint64_t address, std::uint64_t size, const Physical& physical, std::uint64_t offset);
void UnmapAt(std::uint64_t address, std::uint64_t size);

}  // namespace gpuman::sim::cuda

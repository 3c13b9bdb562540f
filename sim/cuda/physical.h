// The bytes behind device memory: unnamed files, mapped where the program wants them. Their content stays
// while a Physical exists, mapped or not.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "sim/cuda/device.h"
#include "sim/cuda/free_list.h"

namespace gpuman::sim::cuda {

// One sparse file for all device memory of the process that other processes cannot open by a handle.
// Thread-safe.
class Heap {
 public:
  Heap();
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  int descriptor() const { return descriptor_; }
  std::uint64_t Take(std::uint64_t size);
  // Frees a part; its content becomes zero.
  void Give(std::uint64_t offset, std::uint64_t size);

 private:
  int descriptor_;
  std::mutex mutex_;
  GpuMemoryFreeList free_;
};

class Physical {
 public:
  enum class Sharing { kPrivate, kShareable };

  // nullptr if the device does not have that many bytes left. `device` null: host memory, not accounted.
  static std::shared_ptr<Physical> Allocate(Heap& heap, Device* device, std::uint64_t size, Sharing sharing);
  // Imports another process's memory; takes ownership of the descriptor. The device counts the memory once,
  // and this process holds it from now on; with legacy IPC (`counted` false) this process does not hold it.
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
  // The driver refuses to export memory that came from another process (measured).
  bool imported() const { return imported_; }
  // Marks the memory as shared: another process has it, or may get it.
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

// The GPU (index in the state) of the memory behind this descriptor; nullopt: it is not memory of the driver.
std::optional<unsigned> GpuOfSharedFile(int descriptor);

// Reserves a range of this process's addresses without memory.
//
// Returns 0 when no addresses are left. `alignment` is a power of two, at least a page; `hint` is used if it
// is free.
std::uint64_t ReserveAddresses(std::uint64_t size, std::uint64_t alignment, std::uint64_t hint = 0);
void FreeAddresses(std::uint64_t address, std::uint64_t size);
// Maps bytes of `physical` at reserved addresses, and unmaps them.
bool MapAt(std::uint64_t address, std::uint64_t size, const Physical& physical, std::uint64_t offset);
void UnmapAt(std::uint64_t address, std::uint64_t size);

}  // namespace gpuman::sim::cuda

// Stream-ordered memory: a pool is a range of addresses; only a part of the range has memory. This part grows
// and shrinks in pieces of 32 MiB (measured on an H200).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "sim/cuda/device.h"
#include "sim/cuda/free_list.h"
#include "sim/cuda/stream.h"

namespace gpuman::sim::cuda {

class Context;
class Driver;

inline constexpr std::uint64_t kPoolPiece = 32 * kMiB;

// Thread-safe.
class MemoryPool {
 public:
  enum class Location { kDevice, kHost };  // the host's memory has device addresses, too

  MemoryPool(Driver& driver, Device& device, bool is_default, Location location = Location::kDevice);
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  Device& device() const { return device_; }
  bool is_default() const { return is_default_; }
  bool is_on_host() const { return location_ == Location::kHost; }

  // Waits for queued frees before it takes more memory of the device.
  CUresult Allocate(Context& context, std::uint64_t size, CUdeviceptr& address);
  // Makes the range free; the allocation's record must be gone. The pool's used bytes do not change
  // (measured: cuMemFree of a pool's memory never lowers them).
  void Give(CUdeviceptr address, std::uint64_t size);
  // Adds a free of `size` bytes that calls Give when `mark` is reached; the used bytes drop at once
  // (measured).
  void AddPendingFree(Mark mark, std::uint64_t size);

  // Returns unused pieces to the device until the pool holds at most `keep` bytes.
  void TrimTo(std::uint64_t keep);
  void TrimToThreshold();

  // Once a destroyed pool has no allocation left, it returns all memory.
  void Destroy();

  CUresult GetAttribute(CUmemPool_attribute attribute, void* value);
  CUresult SetAttribute(CUmemPool_attribute attribute, const void* value);

 private:
  bool TakeRange(std::uint64_t size, std::uint64_t& offset);
  bool Grow(std::uint64_t size, std::uint64_t& offset);
  std::vector<Mark> TakePendingFrees();

  Driver& driver_;
  Device& device_;
  const bool is_default_;
  const Location location_;
  std::mutex mutex_;  // guards the members below
  std::uint64_t base_ = 0, span_ = 0;
  std::set<std::uint64_t> pieces_;  // offsets of pieces with memory
  GpuMemoryFreeList free_;          // within the pieces
  GpuMemoryFreeList unbacked_;      // the range without memory
  std::uint64_t live_ = 0, used_ = 0, used_high_ = 0, reserved_ = 0, reserved_high_ = 0, threshold_ = 0;
  std::map<CUmemPool_attribute, int> switches_;
  std::vector<Mark> pending_;
  bool destroyed_ = false;
};

}  // namespace gpuman::sim::cuda

// The addresses in use: the mapped blocks, and the program's allocations.
//
// A block is one piece of physical memory (2 MiB or more, or a piece of host memory); an allocation is what a
// call returned. Small allocations share a block; an allocation from a pool may span several. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <vector>

#include "sim/cuda/device.h"
#include "sim/cuda/physical.h"

namespace gpuman::sim::cuda {

class Context;
class ManagedPages;
class MemoryPool;

enum class MemoryKind { kDevice, kPool, kVirtual, kManaged, kHost, kRegistered, kImported };

// Host memory, which every device can reach.
constexpr bool IsHostKind(MemoryKind kind) {
  return kind == MemoryKind::kHost || kind == MemoryKind::kRegistered;
}

struct Block {
  std::uint64_t begin = 0, end = 0;
  MemoryKind kind = MemoryKind::kDevice;
  Device* device = nullptr;
  std::shared_ptr<Physical> physical{};  // null for registered host memory
  std::uint64_t physical_offset = 0;
  std::uint32_t readers = 0, writers = 0;  // device ordinals as bits; only for kVirtual and kImported
  std::shared_ptr<ManagedPages> pages{};   // only for kManaged
};

struct Allocation {
  std::uint64_t begin = 0, size = 0;
  MemoryKind kind = MemoryKind::kDevice;
  Device* device = nullptr;
  Context* context = nullptr;  // the context of the allocation; never dereferenced
  unsigned flags = 0;          // of cuMemHostAlloc, cuMemHostRegister, cuMemAllocManaged
  MemoryPool* pool = nullptr;
  std::uint64_t id = 0;  // unique in the process
  std::uint64_t end() const { return begin + size; }
};

class AddressSpace {
 public:
  void AddBlock(Block block);
  std::optional<Block> TakeBlock(std::uint64_t begin);
  std::optional<Block> FindBlock(std::uint64_t address) const;

  // Gives the allocation its id.
  void AddAllocation(Allocation allocation);
  std::optional<Allocation> TakeAllocation(std::uint64_t begin);
  std::optional<Allocation> FindAllocation(std::uint64_t address) const;
  // Calls `keep` for each allocation and removes those for which it returns false. `keep` runs under the lock
  // and must not call this object.
  template <typename Keep>
  void Filter(Keep keep) {
    const std::unique_lock lock(mutex_);
    for (auto at = allocations_.begin(); at != allocations_.end();) {
      at = keep(at->second) ? std::next(at) : allocations_.erase(at);
    }
  }

  void AddReservation(std::uint64_t begin, std::uint64_t size);
  bool TakeReservation(std::uint64_t begin,
                       std::uint64_t size);  // false unless the range is one reservation without mappings

  // For kVirtual: whether whole mappings and holes make up [begin, begin + size). `mapped` receives the
  // mappings' begins.
  bool WholeMappings(std::uint64_t begin, std::uint64_t size, std::vector<std::uint64_t>& mapped) const;
  // Sets access of the mappings that fill [begin, begin + size); false if they do not fill it.
  bool SetAccess(std::uint64_t begin, std::uint64_t size, std::uint32_t device_bit, bool read, bool write);

  enum class Lookup {
    kUnknown,  // not memory of the driver: perhaps plain host memory
    kGood,
    kBad  // memory of the driver, but out of bounds, not mapped or without access
  };
  // Whether a copy may read, or write, all of [begin, begin + size).
  Lookup Check(std::uint64_t begin, std::uint64_t size, bool write) const;

 private:
  const Block* BlockAt(std::uint64_t address) const;
  const Allocation* AllocationAt(std::uint64_t address) const;
  bool Reserved(std::uint64_t begin, std::uint64_t size) const;

  mutable std::shared_mutex mutex_;
  std::map<std::uint64_t, Block> blocks_;
  std::map<std::uint64_t, Allocation> allocations_;
  std::map<std::uint64_t, std::uint64_t> reservations_;
  std::uint64_t next_id_ = 1;
};

}  // namespace gpuman::sim::cuda

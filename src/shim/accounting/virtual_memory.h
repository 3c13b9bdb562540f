// What memory of cuMemCreate costs, and until when: the device has it while a handle or a mapping of it
// lives.
//
// Memory of other processes (imported handles) costs nothing: the process that made it counts it. The tables
// here know of such memory all the same. Pure; not thread-safe. An object of zeros is an empty account.
#pragma once

#include <cstdint>

#include "shim/libc/hash_table.h"

namespace gpuman::shim {

// Bytes that a device has back.
struct ReleasedMemory {
  int device;
  std::uint64_t bytes;
  bool imported;  // the memory came from another process
};

// A handle or a mapping that was taken out before the driver was asked to drop it.
struct VirtualHandleOrMapping {
  std::uint64_t name;  // the handle, or the address
  std::uint64_t memory;
  std::uint64_t size;  // of a mapping
};

class VirtualMemory {
 public:
  // Enters a new handle of `bytes` on the device. Returns false when there is no memory for the entry.
  bool Created(std::uint64_t handle, int device, std::uint64_t bytes);
  // Returns the number of the memory that the handle is of; 0: the handle is not known here.
  std::uint64_t MemoryOf(std::uint64_t handle);
  // Enters a handle of another process's memory. Returns false when there is no memory for the entry.
  bool Imported(std::uint64_t handle);
  // Adds a reference to the memory that is mapped at the address, by a handle that may be new.
  void Retained(std::uint64_t handle, std::uint64_t address);
  void Mapped(std::uint64_t address, std::uint64_t size, std::uint64_t handle);

  // The caller takes a handle or mapping out, and then drops it or puts it back, as in Allocations. Returns
  // false when it is not known here.
  bool TakeHandle(std::uint64_t handle, VirtualHandleOrMapping& reference);
  void PutBackHandle(const VirtualHandleOrMapping& reference);
  // Takes out one mapping that lies wholly in the range.
  bool TakeMapping(std::uint64_t address, std::uint64_t size, VirtualHandleOrMapping& reference);
  void PutBackMapping(const VirtualHandleOrMapping& reference);
  ReleasedMemory Dropped(const VirtualHandleOrMapping& reference);

  void Reset() {
    handles_.Reset();
    mappings_.Reset();
    memory_.Reset();
  }

 private:
  struct Handle {
    std::uint64_t memory;
    std::uint64_t references;
  };
  struct Mapping {
    std::uint64_t memory;
    std::uint64_t size;
  };
  struct Memory {
    std::uint64_t bytes;
    std::uint64_t references;  // of handles and mappings
    int device;
    bool imported;
  };
  bool Add(std::uint64_t handle, const Memory& made);

  HashTable<Handle> handles_;
  HashTable<Mapping> mappings_;
  HashTable<Memory> memory_;  // by a number that this class gives
  std::uint64_t last_memory_ = 0;
};

}  // namespace gpuman::shim

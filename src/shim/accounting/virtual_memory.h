// What memory of cuMemCreate costs, and until when: the device has it while a handle or a mapping of it
// lives.
//
// Pure; not thread-safe. All zeros is an empty account. Memory of other processes (imported handles) costs
// nothing: who made it counts it. That it is there is known here.
#pragma once

#include <cstdint>

#include "shim/accounting/table.h"

namespace gpuman::shim {

// Bytes that a device has back.
struct GivenBack {
  int device;
  std::uint64_t bytes;
  bool imported;  // it was memory of another process
};

// A handle or a mapping that was taken out before the driver was asked to drop it.
struct VirtualReference {
  std::uint64_t name;  // the handle, or the address
  std::uint64_t memory;
  std::uint64_t size;  // of a mapping
};

class VirtualMemory {
 public:
  // A new handle of `bytes` on the device. False when there is no memory for the entry.
  bool Created(std::uint64_t handle, int device, std::uint64_t bytes);
  // A handle of another process's memory.
  bool Imported(std::uint64_t handle);
  // One more reference to what is mapped at the address, by a handle that may be new.
  void Retained(std::uint64_t handle, std::uint64_t address);
  void Mapped(std::uint64_t address, std::uint64_t size, std::uint64_t handle);

  // The pairs of taking out and dropping or putting back, as in Allocations. False: not known here.
  bool TakeHandle(std::uint64_t handle, VirtualReference& reference);
  void PutBackHandle(const VirtualReference& reference);
  // One mapping that lies whole in the range.
  bool TakeMapping(std::uint64_t address, std::uint64_t size, VirtualReference& reference);
  void PutBackMapping(const VirtualReference& reference);
  GivenBack Dropped(const VirtualReference& reference);

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

  Table<Handle> handles_;
  Table<Mapping> mappings_;
  Table<Memory> memory_;  // by a number of our own
  std::uint64_t last_memory_ = 0;
};

}  // namespace gpuman::shim

#include "shim/accounting/virtual_memory.h"

#include "shim/accounting/mapping.h"

namespace gpuman::shim {

bool VirtualMemory::Add(std::uint64_t handle, const Memory& made) {
  Handle* const entry = handles_.Insert(handle);
  if (entry == nullptr) return false;
  Memory* const memory = memory_.Insert(last_memory_ + 1);
  if (memory == nullptr) {
    Handle ignored{};
    handles_.Take(handle, ignored);
    return false;
  }
  *memory = made;
  *entry = {++last_memory_, 1};
  return true;
}

bool VirtualMemory::Created(std::uint64_t handle, int device, std::uint64_t bytes) {
  return Add(handle, {bytes, 1, device, false});
}

std::uint64_t VirtualMemory::MemoryOf(std::uint64_t handle) {
  const Handle* const entry = handles_.Find(handle);
  return entry != nullptr ? entry->memory : 0;
}

bool VirtualMemory::Imported(std::uint64_t handle) { return Add(handle, {0, 1, 0, true}); }

void VirtualMemory::Retained(std::uint64_t handle, std::uint64_t address) {
  std::uint64_t number = 0;
  mappings_.ForEach([&](std::uint64_t begin, const Mapping& mapping) {
    if (begin <= address && address - begin < mapping.size) number = mapping.memory;
  });
  Memory* const memory = memory_.Find(number);
  if (memory == nullptr) return;
  Handle* const entry = handles_.Insert(handle);
  if (entry == nullptr) return;
  entry->memory = number;
  ++entry->references;
  ++memory->references;
}

void VirtualMemory::Mapped(std::uint64_t address, std::uint64_t size, std::uint64_t handle) {
  const Handle* const known = handles_.Find(handle);
  Memory* const memory = known != nullptr ? memory_.Find(known->memory) : nullptr;
  if (memory == nullptr) return;
  const std::uint64_t number = known->memory;
  Mapping* const entry = mappings_.Insert(address);
  if (entry == nullptr) return;
  *entry = {number, size};
  ++memory->references;
}

bool VirtualMemory::TakeHandle(std::uint64_t handle, VirtualHandleOrMapping& reference) {
  Handle* const entry = handles_.Find(handle);
  if (entry == nullptr) return false;
  reference = {handle, entry->memory, 0};
  if (--entry->references == 0) {
    Handle gone{};
    handles_.Take(handle, gone);
  }
  return true;
}

void VirtualMemory::PutBackHandle(const VirtualHandleOrMapping& reference) {
  Handle* const entry = handles_.Insert(reference.name);
  if (entry == nullptr) return;
  entry->memory = reference.memory;
  ++entry->references;
}

bool VirtualMemory::TakeMapping(std::uint64_t address, std::uint64_t size,
                                VirtualHandleOrMapping& reference) {
  const std::uint64_t begin = MappingWithin(mappings_, address, size);
  Mapping mapping{};
  if (!mappings_.Take(begin, mapping)) return false;
  reference = {begin, mapping.memory, mapping.size};
  return true;
}

void VirtualMemory::PutBackMapping(const VirtualHandleOrMapping& reference) {
  Mapping* const entry = mappings_.Insert(reference.name);
  if (entry != nullptr) *entry = {reference.memory, reference.size};
}

ReleasedMemory VirtualMemory::Dropped(const VirtualHandleOrMapping& reference) {
  Memory* const memory = memory_.Find(reference.memory);
  if (memory == nullptr || --memory->references != 0) return {0, 0, false};
  Memory gone{};
  memory_.Take(reference.memory, gone);
  return {gone.device, gone.bytes, gone.imported};
}

}  // namespace gpuman::shim

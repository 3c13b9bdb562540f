#include "shim/accounting/made_memory.h"

#include "shim/accounting/mapping.h"

namespace gpuman::shim {

std::uint64_t MadeMemory::Add(const MadeAllocation& made) {
  MadeAllocation* const entry = made_.Insert(kTag | (last_ + 1));
  if (entry == nullptr) return 0;
  *entry = made;
  entry->references = 1;
  return kTag | ++last_;
}

MadeAllocation* MadeMemory::Held(std::uint64_t token) {
  MadeAllocation* const made = made_.Find(token);
  return made != nullptr && made->references != 0 ? made : nullptr;
}

bool MadeMemory::TakeEnded(std::uint64_t token, MadeAllocation& made) {
  const MadeAllocation* const known = made_.Find(token);
  return known != nullptr && known->references == 0 && known->mappings == 0 && made_.Take(token, made);
}

bool MadeMemory::Mapped(const MadeMapping& mapping) {
  MadeAllocation* const made = made_.Find(mapping.token);
  if (made == nullptr) return false;
  Mapping* const entry = mappings_.Insert(mapping.address);
  if (entry != nullptr) *entry = {mapping.token, mapping.size};
  made->stays = made->stays || made->mappings != 0 || entry == nullptr;
  if (made->mappings++ == 0) {
    made->address = mapping.address;
    made->whole = mapping.size == made->bytes;
  }
  return entry != nullptr;
}

bool MadeMemory::TakeMapping(std::uint64_t address, std::uint64_t size, MadeMapping& mapping) {
  const std::uint64_t begin = MappingWithin(mappings_, address, size);
  Mapping taken{};
  if (!mappings_.Take(begin, taken)) return false;
  mapping = {begin, taken.token, taken.size};
  return true;
}

void MadeMemory::PutBack(const MadeMapping& mapping) {
  if (Mapping* const entry = mappings_.Insert(mapping.address)) *entry = {mapping.token, mapping.size};
}

void MadeMemory::Unmapped(const MadeMapping& mapping) {
  MadeAllocation* const made = made_.Find(mapping.token);
  if (made != nullptr && made->mappings != 0) --made->mappings;
}

std::uint64_t MadeMemory::TokenAt(std::uint64_t address) {
  std::uint64_t token = 0;
  mappings_.ForEach([&](std::uint64_t begin, const Mapping& one) {
    if (begin <= address && address - begin < one.size) token = one.token;
  });
  return token;
}

}  // namespace gpuman::shim

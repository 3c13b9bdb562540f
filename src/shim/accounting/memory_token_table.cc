#include "shim/accounting/memory_token_table.h"

#include "shim/accounting/mapping.h"

namespace gpuman::shim {

std::uint64_t MemoryTokenTable::Add(const TokenAllocation& made) {
  TokenAllocation* const entry = made_.Insert(kTag | (last_ + 1));
  if (entry == nullptr) return 0;
  *entry = made;
  entry->references = 1;
  return kTag | ++last_;
}

TokenAllocation* MemoryTokenTable::Held(std::uint64_t token) {
  TokenAllocation* const made = made_.Find(token);
  return made != nullptr && made->references != 0 ? made : nullptr;
}

bool MemoryTokenTable::TakeEnded(std::uint64_t token, TokenAllocation& made) {
  const TokenAllocation* const known = made_.Find(token);
  return known != nullptr && known->references == 0 && known->mappings == 0 && made_.Take(token, made);
}

bool MemoryTokenTable::Mapped(const TokenMapping& mapping) {
  TokenAllocation* const made = made_.Find(mapping.token);
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

bool MemoryTokenTable::TakeMapping(std::uint64_t address, std::uint64_t size, TokenMapping& mapping) {
  const std::uint64_t begin = MappingWithin(mappings_, address, size);
  Mapping taken{};
  if (!mappings_.Take(begin, taken)) return false;
  mapping = {begin, taken.token, taken.size};
  return true;
}

void MemoryTokenTable::PutBack(const TokenMapping& mapping) {
  if (Mapping* const entry = mappings_.Insert(mapping.address)) *entry = {mapping.token, mapping.size};
}

void MemoryTokenTable::Unmapped(const TokenMapping& mapping) {
  TokenAllocation* const made = made_.Find(mapping.token);
  if (made != nullptr && made->mappings != 0) --made->mappings;
}

std::uint64_t MemoryTokenTable::TokenAt(std::uint64_t address) {
  std::uint64_t token = 0;
  mappings_.ForEach([&](std::uint64_t begin, const Mapping& one) {
    if (begin <= address && address - begin < one.size) token = one.token;
  });
  return token;
}

}  // namespace gpuman::shim

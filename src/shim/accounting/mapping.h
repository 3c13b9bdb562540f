// Looks up mappings by address.
#pragma once

#include <cstdint>

#include "shim/libc/hash_table.h"

namespace gpuman::shim {

// Returns the address of a mapping that lies within the range: the one at the begin of the range, else any;
// 0: there is none. A Mapping has a `size`.
template <typename Mapping>
std::uint64_t MappingWithin(HashTable<Mapping>& mappings, std::uint64_t address, std::uint64_t size) {
  if (const Mapping* const first = mappings.Find(address); first != nullptr && first->size <= size)
    return address;
  std::uint64_t begin = 0;
  mappings.ForEach([&](std::uint64_t at, const Mapping& one) {
    if (at >= address && at - address < size && one.size <= size - (at - address)) begin = at;
  });
  return begin;
}

}  // namespace gpuman::shim

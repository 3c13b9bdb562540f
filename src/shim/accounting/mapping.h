// Mappings by their address.
#pragma once

#include <cstdint>

#include "shim/accounting/table.h"

namespace gpuman::shim {

// The address of one that lies within that range: the one at its begin, else any; 0: none does. A Mapping has
// a `size`.
template <typename Mapping>
std::uint64_t MappingWithin(Table<Mapping>& mappings, std::uint64_t address, std::uint64_t size) {
  if (const Mapping* const first = mappings.Find(address); first != nullptr && first->size <= size)
    return address;
  std::uint64_t begin = 0;
  mappings.ForEach([&](std::uint64_t at, const Mapping& one) {
    if (at >= address && at - address < size && one.size <= size - (at - address)) begin = at;
  });
  return begin;
}

}  // namespace gpuman::shim

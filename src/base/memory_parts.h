// What the memory of a job on one GPU is, by kind. A plain value.
#pragma once

#include <optional>
#include <string>

#include "base/json.h"
#include "base/units.h"

namespace gpuman::base {

// The first five are of one process, as it counts them.
struct MemoryParts {
  Bytes allocations;      // cuMemAlloc and its like, managed memory
  Bytes pools;            // stream-ordered memory, also what a pool keeps unused
  Bytes virtual_memory;   // cuMemCreate
  Bytes arrays;           // arrays and mipmapped arrays
  Bytes contexts;         // as far as their cost was known when they were made
  Bytes other_processes;  // what the other processes of the job count
  Bytes uncounted;        // what no process counts: code, graphs, other contexts

  Bytes Sum() const {
    return allocations + pools + virtual_memory + arrays + contexts + other_processes + uncounted;
  }
  friend bool operator==(const MemoryParts&, const MemoryParts&) = default;
};

template <typename V, json::Of<MemoryParts> T>
void Fields(V& v, T& x) {
  v("allocations", x.allocations);
  v("pools", x.pools);
  v("virtual_memory", x.virtual_memory);
  v("arrays", x.arrays);
  v("contexts", x.contexts);
  v("other_processes", x.other_processes);
  v("uncounted", x.uncounted);
}

// "7.1GiB in allocations, 512MiB in pools, 384MiB of them unused": the three largest, in that order, and
// pools with unused memory wherever they stand. "" where there is nothing.
std::string FormatParts(const MemoryParts& parts, std::optional<Bytes> pools_unused = {});

}  // namespace gpuman::base

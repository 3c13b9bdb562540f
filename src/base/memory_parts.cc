#include "base/memory_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace gpuman::base {

std::string FormatParts(const MemoryParts& parts, std::optional<Bytes> pools_unused) {
  constexpr std::size_t kShown = 3;
  const Bytes unused = pools_unused.value_or(Bytes{});
  struct Part {
    Bytes bytes;
    std::string what;
    bool always = false;
  };
  std::vector<Part> list{{parts.allocations, "in allocations"},
                         {parts.pools, "in pools"},
                         {parts.virtual_memory, "in virtual memory"},
                         {parts.arrays, "in arrays"},
                         {parts.contexts + parts.uncounted, "in contexts and code"},
                         {parts.other_processes, "in other processes"}};
  // Whoever was refused memory wants to know of memory that is there for nothing.
  if (unused.count > 0)
    list[1] = {parts.pools, fmt::format("in pools, {} of them unused", FormatBytes(unused)), true};
  std::erase_if(list, [](const Part& part) { return part.bytes.count == 0; });
  std::stable_sort(list.begin(), list.end(), [](const Part& a, const Part& b) { return a.bytes > b.bytes; });
  std::string text;
  for (std::size_t i = 0; i < list.size(); ++i)
    if (i < kShown || list[i].always)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", FormatBytes(list[i].bytes), list[i].what);
  return text;
}

}  // namespace gpuman::base

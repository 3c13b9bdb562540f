#include "base/memory_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace gpuman::base {

std::string FormatParts(const MemoryParts& parts, std::optional<Bytes> pools_unused) {
  constexpr std::size_t kShown = 3;
  const Bytes unused = pools_unused.value_or(Bytes{});
  std::vector<std::pair<Bytes, std::string>> list{
      {parts.allocations, "in allocations"},
      {parts.pools,
       unused.count == 0 ? "in pools" : fmt::format("in pools, {} of them unused", FormatBytes(unused))},
      {parts.virtual_memory, "in virtual memory"},
      {parts.arrays, "in arrays"},
      {parts.contexts + parts.uncounted, "in contexts and code"},
      {parts.other_processes, "in other processes"}};
  std::erase_if(list, [](const auto& part) { return part.first.count == 0; });
  std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  if (list.size() > kShown) list.resize(kShown);
  std::string text;
  for (const auto& [bytes, what] : list)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", FormatBytes(bytes), what);
  return text;
}

}  // namespace gpuman::base

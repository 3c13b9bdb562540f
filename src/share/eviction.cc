#include "share/eviction.h"

#include <algorithm>
#include <numeric>

namespace gpuman::share {
namespace {

using Indices = std::vector<std::size_t>;

// The `count` tenants with the most memory (of `by_size`, largest first) give `bytes` and keep equally much,
// or all that they have where that is less; by index in by_size.
std::vector<base::Bytes> Level(const std::vector<EvictionCandidate>& tenants, const Indices& by_size,
                               std::size_t count, base::Bytes bytes) {
  std::vector<base::Bytes> gives(count);
  // The level sinks from the largest to the next one, and so on, until `bytes` are above it.
  std::size_t levelled = count;
  std::uint64_t above = 0;
  for (std::size_t n = 1; n <= count; ++n) {
    const std::uint64_t next = n < count ? tenants[by_size[n]].resident.count : 0;
    const std::uint64_t step = (tenants[by_size[n - 1]].resident.count - next) * n;
    if (above + step >= bytes.count || n == count) {
      levelled = n;
      break;
    }
    above += step;
  }
  const std::uint64_t lowest = tenants[by_size[levelled - 1]].resident.count;
  const std::uint64_t more = std::min(bytes.count - std::min(bytes.count, above), lowest * levelled);
  for (std::size_t i = 0; i < levelled; ++i) {
    const std::uint64_t equal = more / levelled + (i < more % levelled ? 1 : 0);
    gives[i] = {tenants[by_size[i]].resident.count - lowest + equal};
  }
  return gives;
}

// Divides the room among tenants that are alike; returns whether it could.
bool Divide(const std::vector<EvictionCandidate>& tenants, const Indices& alike, base::Bytes bytes,
            std::vector<base::Bytes>& gives) {
  Indices by_size = alike;
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](std::size_t a, std::size_t b) { return tenants[a].resident > tenants[b].resident; });
  for (std::size_t count = by_size.size(); count > 0; --count) {
    const std::vector<base::Bytes> parts = Level(tenants, by_size, count, bytes);
    if (std::accumulate(parts.begin(), parts.end(), base::Bytes{}) < bytes) return false;
    if (*std::min_element(parts.begin(), parts.end()) < kSmallestPart) continue;
    for (std::size_t i = 0; i < count; ++i) gives[by_size[i]] = parts[i];
    return true;
  }
  return false;
}

}  // namespace

std::vector<base::Bytes> DivideEviction(const std::vector<EvictionCandidate>& tenants, base::Bytes bytes) {
  std::vector<base::Bytes> gives(tenants.size());
  Indices left(tenants.size());
  std::iota(left.begin(), left.end(), std::size_t{0});
  while (bytes.count > 0 && !left.empty()) {
    const std::size_t rarest = *std::max_element(left.begin(), left.end(), [&](std::size_t a, std::size_t b) {
      return tenants[a].between_uses < tenants[b].between_uses;
    });
    const auto others = std::stable_partition(left.begin(), left.end(), [&](std::size_t i) {
      return kAlike * tenants[i].between_uses >= tenants[rarest].between_uses;
    });
    const Indices alike(left.begin(), others);
    left.erase(left.begin(), others);
    if (Divide(tenants, alike, bytes, gives)) break;
    for (const std::size_t i : alike) {
      gives[i] = std::min(bytes, tenants[i].resident);
      bytes = bytes - gives[i];
    }
  }
  return gives;
}

}  // namespace gpuman::share

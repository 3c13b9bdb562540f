#include "mover/segment_plan.h"

#include "mover/layout.h"

namespace gpuman::mover {
namespace {

std::size_t CountOf(const Stock& stock, std::uint64_t size) {
  const auto found = stock.find(size);
  return found == stock.end() ? 0 : found->second;
}

}  // namespace

std::uint64_t BytesOf(const Stock& stock) {
  std::uint64_t sum = 0;
  for (const auto& [size, count] : stock) sum += size * count;
  return sum;
}

Stock SumOf(const Stock& one, const Stock& other) {
  Stock sum = one;
  for (const auto& [size, count] : other) sum[size] += count;
  return sum;
}

Stock StockFor(std::span<const std::uint64_t> processes) {
  Stock stock;
  std::uint64_t small = 0;
  const auto add = [&](std::uint64_t bytes) {
    for (const std::uint64_t size : SegmentSizes(bytes)) ++stock[size];
  };
  for (const std::uint64_t bytes : processes) {
    if (bytes < kSmallSegment)
      small += bytes;
    else
      add(bytes);
  }
  add(small);
  return stock;
}

std::vector<std::uint64_t> Missing(const Stock& there, const Stock& wanted) {
  std::vector<std::uint64_t> sizes;
  const std::uint64_t most = BytesOf(wanted) + kSlack;
  std::uint64_t sum = BytesOf(there);
  for (auto it = wanted.rbegin(); it != wanted.rend(); ++it) {
    const auto& [size, count] = *it;
    for (std::size_t i = CountOf(there, size); i < count && sum + size <= most; ++i, sum += size)
      sizes.push_back(size);
  }
  return sizes;
}

std::optional<std::uint64_t> Surplus(const Stock& free, const Stock& taken, const Stock& wanted) {
  if (BytesOf(free) + BytesOf(taken) <= BytesOf(wanted) + kSlack) return std::nullopt;
  std::optional<std::uint64_t> any;
  for (auto it = free.rbegin(); it != free.rend(); ++it) {
    const auto& [size, count] = *it;
    if (count == 0) continue;
    if (count + CountOf(taken, size) > CountOf(wanted, size)) return size;
    if (!any) any = size;
  }
  return any;
}

}  // namespace gpuman::mover

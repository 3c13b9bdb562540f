// The free parts of a range of numbers; first fit, neighbours merge. Not thread-safe.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <optional>

namespace gpuman::sim::cuda {

constexpr std::uint64_t RoundUp(std::uint64_t value, std::uint64_t step) {
  return (value + step - 1) / step * step;
}

class GpuMemoryFreeList {
 public:
  std::optional<std::uint64_t> Take(std::uint64_t size) {
    for (auto at = free_.begin(); at != free_.end(); ++at) {
      if (at->second < size) continue;
      const std::uint64_t begin = at->first;
      TakeExactly(begin, size);
      return begin;
    }
    return std::nullopt;
  }

  // The part must be free.
  void TakeExactly(std::uint64_t begin, std::uint64_t size) {
    const auto at = std::prev(free_.upper_bound(begin));
    const std::uint64_t free_begin = at->first, free_end = free_begin + at->second;
    free_.erase(at);
    if (free_begin < begin) free_[free_begin] = begin - free_begin;
    if (begin + size < free_end) free_[begin + size] = free_end - begin - size;
  }

  // Also adds a part that the list did not have before.
  void Give(std::uint64_t begin, std::uint64_t size) {
    auto after = free_.lower_bound(begin);
    if (after != free_.end() && begin + size == after->first) {
      size += after->second;
      after = free_.erase(after);
    }
    if (after != free_.begin()) {
      const auto before = std::prev(after);
      if (before->first + before->second == begin) {
        before->second += size;
        return;
      }
    }
    free_[begin] = size;
  }

  bool IsFree(std::uint64_t begin, std::uint64_t size) const {
    const auto after = free_.upper_bound(begin);
    if (after == free_.begin()) return false;
    const auto at = std::prev(after);
    return at->first + at->second >= begin + size;
  }

  // The size of the free part that ends at `end`; 0 if the number before it is taken.
  std::uint64_t TailBefore(std::uint64_t end) const {
    if (free_.empty()) return 0;
    const auto last = std::prev(free_.end());
    return last->first + last->second == end ? last->second : 0;
  }

 private:
  std::map<std::uint64_t, std::uint64_t> free_;
};

}  // namespace gpuman::sim::cuda

// Counts how many values fell into each range, for monitoring. A value type; thread-compatible.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpuman::base {

class Histogram {
 public:
  // `bounds` ascend; a value that equals a bound counts as below it.
  explicit Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}

  void Observe(double value) {
    const auto bound = std::lower_bound(bounds_.begin(), bounds_.end(), value);
    ++counts_[static_cast<std::size_t>(bound - bounds_.begin())];
    ++count_;
    sum_ += value;
  }

  const std::vector<double>& bounds() const { return bounds_; }
  // One count for each bound: the values up to it and above the bound before. The last count: values above
  // all bounds.
  const std::vector<std::uint64_t>& counts() const { return counts_; }
  std::uint64_t count() const { return count_; }
  double sum() const { return sum_; }

 private:
  std::vector<double> bounds_;
  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0;
  double sum_ = 0;
};

}  // namespace gpuman::base

// Which memory that leaves a GPU is hashed, so that only what has changed is copied.
#pragma once

#include <atomic>
#include <cstdint>

namespace gpuman::mover {

// Thread-safe.
class HashingRule {
 public:
  // `from`: how many bytes have to leave a GPU together. `on`: false: nothing is hashed. `compares`: what the
  // hash takes for unchanged is copied and compared.
  void Set(bool on, std::uint64_t from, bool compares) {
    from_ = from;
    compares_ = compares;
    on_ = on;
  }
  bool on() const { return on_; }
  bool compares() const { return compares_; }
  bool Covers(std::uint64_t bytes) const { return on_ && bytes >= from_; }

 private:
  std::atomic<bool> on_{true}, compares_{false};
  std::atomic<std::uint64_t> from_{0};
};

}  // namespace gpuman::mover

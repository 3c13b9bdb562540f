// Which memory that leaves a GPU is hashed, so that only what has changed is copied.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/change_detection.h"

namespace gpuman::mover {

// Thread-safe.
class HashingRule {
 public:
  // `from`: how many bytes have to leave a GPU together.
  void Set(base::ChangeDetection how, std::uint64_t from) {
    from_ = from;
    compares_ = how == base::ChangeDetection::kCompare;
    on_ = how != base::ChangeDetection::kOff;
  }
  bool on() const { return on_; }
  bool compares() const { return compares_; }
  bool Covers(std::uint64_t bytes) const { return on_ && bytes >= from_; }

 private:
  std::atomic<bool> on_{true}, compares_{false};
  std::atomic<std::uint64_t> from_{0};
};

}  // namespace gpuman::mover

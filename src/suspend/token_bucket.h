// Limits how much a sender may send: a fixed amount at once, and a fixed amount a second. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"
#include "base/units.h"

namespace gpuman::suspend {

// Thread-compatible.
class TokenBucket {
 public:
  TokenBucket(std::int64_t at_once, std::int64_t a_second)
      : most_(at_once), rate_(a_second), left_(at_once) {}

  // The sender has sent `amount`. Returns for how long the caller takes nothing more from this sender; 0: the
  // sender may go on.
  base::Millis Spend(std::int64_t amount, base::MonoTime now) {
    const std::int64_t passed = std::clamp<std::int64_t>(
        std::chrono::duration_cast<base::Millis>(now - at_).count(), 0, 1000 * (most_ / rate_ + 1));
    if (passed > 0) {
      left_ = std::min(most_, left_ + passed * rate_ / 1000);
      at_ = now;
    }
    left_ -= amount;
    return base::Millis(left_ >= 0 ? 0 : (-left_ * 1000 + rate_ - 1) / rate_);
  }

 private:
  const std::int64_t most_, rate_;
  std::int64_t left_;
  base::MonoTime at_{};
};

}  // namespace gpuman::suspend

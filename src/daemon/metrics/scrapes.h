// Answers to scrapes. When scrapes come more often than a budget of the event loop's time allows, the answer
// is the last one of its kind. Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "base/clock.h"
#include "base/time_token_bucket.h"
#include "base/units.h"

namespace gpuman::daemon {

class Scrapes {
 public:
  // `clock` must outlive this object.
  explicit Scrapes(const base::Clock& clock) : clock_(clock) {}

  // The answer with or without dcgm-exporter's metrics. `make` makes one; count and seconds() are of all
  // scrapes until then.
  const std::string& Answer(bool with_dcgm, const std::function<std::string()>& make) {
    const auto began = clock_.Mono();
    ++count_;
    if (const auto last = last_.find(with_dcgm); last != last_.end() && !budget_.Allows(began))
      return last->second;
    auto text = make();
    const auto now = clock_.Mono();
    seconds_ += std::chrono::duration<double>(now - began).count();
    budget_.Spend(now, now - began);
    return last_[with_dcgm] = std::move(text);
  }

  std::uint64_t count() const { return count_; }
  // The time that it took to make answers.
  double seconds() const { return seconds_; }

 private:
  const base::Clock& clock_;
  base::TimeTokenBucket budget_{base::Millis(100), 20};
  std::map<bool, std::string> last_;  // by with_dcgm
  std::uint64_t count_ = 0;
  double seconds_ = 0;
};

}  // namespace gpuman::daemon

#include "share/hand_over_cost.h"

#include <algorithm>

#include "share/seconds.h"

namespace gpuman::share {
namespace {

constexpr double kNew = 0.25;         // the weight of the newest value
constexpr double kFirstGuess = 20e9;  // bytes a second: half of what PCIe gen 4 x16 does one way
constexpr double kPaging = 6.7e9;     // measured on an H200: 10.5 GB/s in by faults, 18.8 out
constexpr base::Bytes kMinMeasured = base::MiB(64);  // smaller transfers do not show the speed of the bus

}  // namespace

void HandOverCostEstimator::Add(Span took, Moved moved, Span paging) {
  took = std::max(took, Span{});
  const Span whole = took + paging;
  hand_over_ =
      hand_over_ == Span{} ? whole : FromSeconds(Seconds(hand_over_) * (1 - kNew) + Seconds(whole) * kNew);
  // Where most did not have to be copied, most of the time went into other things than copies.
  const bool shows_speed = moved.copied >= kMinMeasured && moved.copied.count >= moved.bytes.count / 2;
  if (!shows_speed || took == Span{}) return;
  const double rate = static_cast<double>(moved.copied.count) / Seconds(took);
  bytes_per_second_ = bytes_per_second_ == 0 ? rate : bytes_per_second_ * (1 - kNew) + rate * kNew;
}

Span HandOverCostEstimator::TimeFor(base::Bytes bytes) const {
  const double rate = bytes_per_second_ > 0 ? bytes_per_second_ : kFirstGuess;
  return FromSeconds(std::min(static_cast<double>(bytes.count) / rate, 1e6));
}

Span PagingTime(base::Bytes managed) {
  return FromSeconds(std::min(static_cast<double>(managed.count) / kPaging, 1e6));
}

Span QuantumFor(Span hand_over, const SchedulerSettings& settings) {
  const double wished = Seconds(hand_over) / settings.overhead_target;
  return std::clamp(FromSeconds(std::min(wished, 1e8)), Span(settings.quantum_min),
                    std::max(Span(settings.quantum_min), Span(settings.quantum_max)));
}

}  // namespace gpuman::share

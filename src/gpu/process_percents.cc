#include "gpu/process_percents.h"

#include <chrono>
#include <cstdint>

namespace gpuman::gpu {
namespace {

// The driver keeps the samples of some seconds.
constexpr std::chrono::seconds kLongTime{5};
// The driver samples up to once a second, so two calls that are a second apart may find none.
constexpr std::chrono::milliseconds kHolds{2500};
constexpr unsigned kMaxPercent = 100;  // drivers have told more (issue 110 of nvtop): such a sample is wrong

}  // namespace

void ProcessPercents::Take(base::MonoTime now, std::span<const driver::NvmlBusyProcess> samples) {
  known_ = taken_at_ && now - *taken_at_ <= kLongTime;
  taken_at_ = now;
  if (!known_) return seen_.clear();
  std::erase_if(seen_, [&](const auto& one) { return now - one.second.at >= kHolds; });
  std::map<pid_t, std::uint64_t> newest;
  for (const auto& sample : samples) {
    const auto [at, first] = newest.try_emplace(sample.pid, sample.time_us);
    if (sample.work > kMaxPercent || (!first && sample.time_us < at->second)) continue;
    at->second = sample.time_us;
    seen_[sample.pid] = {sample.work, now};
  }
}

std::optional<std::map<pid_t, unsigned>> ProcessPercents::Of(std::span<const GpuProcess> processes) const {
  if (!known_) return std::nullopt;
  std::map<pid_t, unsigned> percents;
  for (const auto& process : processes) {
    const auto seen = seen_.find(process.pid);
    percents[process.pid] = seen == seen_.end() ? 0 : seen->second.percent;
  }
  return percents;
}

}  // namespace gpuman::gpu

#include <time.h>

#include <algorithm>

#include "sim/state/state.h"

namespace gpuman::sim {
namespace {

constexpr std::uint64_t kWindowBuckets = 10;
constexpr std::uint64_t kWindowNs = kWindowBuckets * kBusyBucketNs;
static_assert(kWindowBuckets < kBusyBuckets);

std::uint64_t BusyNs(const ProcessGpu& gpu, std::uint64_t now_ns) {
  std::uint64_t busy = 0;
  const std::uint64_t bucket_now = now_ns / kBusyBucketNs;
  for (const Word64& word : gpu.busy) {
    const std::uint64_t value = word.load(std::memory_order_relaxed);
    const std::uint64_t bucket = value >> 32;
    if (bucket <= bucket_now && bucket + kWindowBuckets > bucket_now) busy += (value & 0xffffffff) * 1000;
  }
  const std::uint64_t since = gpu.busy_since_ns.load(std::memory_order_relaxed);
  if (since != 0 && since < now_ns) busy += now_ns - std::max(since, now_ns - kWindowNs);
  return std::min(busy, kWindowNs);
}

unsigned Percent(std::uint64_t busy_ns) {
  return static_cast<unsigned>(std::min<std::uint64_t>(100, (busy_ns * 100 + kWindowNs / 2) / kWindowNs));
}

}  // namespace

std::uint64_t MonotonicNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

unsigned ProcessUtilization(const ProcessSlot& slot, unsigned gpu, std::uint64_t now_ns) {
  return Percent(BusyNs(slot.gpu[gpu], now_ns));
}

unsigned DeviceUtilization(const Shared& shared, unsigned gpu, std::uint64_t now_ns) {
  std::uint64_t busy = 0;
  const std::uint32_t limit = shared.slot_limit.load();
  for (std::uint32_t i = 0; i < limit; ++i) {
    const ProcessSlot& slot = shared.processes[i];
    if (slot.owner.load() != 0 && slot.published.load() == slot.owner.load())
      busy += BusyNs(slot.gpu[gpu], now_ns);
  }
  return Percent(std::min(busy, kWindowNs));
}

}  // namespace gpuman::sim

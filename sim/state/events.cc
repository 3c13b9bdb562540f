#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>

#include "sim/state/state.h"

namespace gpuman::sim {
namespace {

timespec ToTimespec(std::uint64_t ns) {
  return {static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
}

// Time left until `deadline_ns`, in milliseconds: at least 1 before the deadline, 0 after it.
std::int64_t MsUntil(std::uint64_t deadline_ns) {
  const std::uint64_t now = MonotonicNs();
  return deadline_ns <= now ? 0 : static_cast<std::int64_t>((deadline_ns - now + 999'999) / 1'000'000);
}

bool Matches(const SlowCall& call, const char* function, unsigned gpu) {
  if (call.active.load() == 0) return false;
  const std::uint32_t wanted = call.gpu.load();
  if (wanted != kAllGpus && wanted != gpu) return false;
  return call.function[0] == '\0' || std::strncmp(call.function, function, sizeof call.function) == 0;
}

}  // namespace

bool FutexWait(Word32& word, std::uint32_t expected, std::int64_t timeout_ms) {
  const std::uint64_t deadline =
      timeout_ms < 0 ? 0 : MonotonicNs() + static_cast<std::uint64_t>(timeout_ms) * 1'000'000;
  while (word.load() == expected) {
    timespec left{};
    if (timeout_ms >= 0) {
      const std::uint64_t now = MonotonicNs();
      if (now >= deadline) return false;
      left = ToTimespec(deadline - now);
    }
    syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT, expected,
            timeout_ms < 0 ? nullptr : &left, nullptr, 0);
  }
  return true;
}

void FutexWakeAll(Word32& word) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void PostEvent(Shared& shared, unsigned gpu, std::uint64_t type, std::uint64_t data) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const std::uint64_t number = shared.event_next.fetch_add(1);
  Event& event = shared.events[number % kEventRingSize];
  event.sequence.store(0);
  event.gpu.store(gpu);
  event.type.store(type);
  event.data.store(data);
  event.time_us.store(static_cast<std::uint64_t>(now.tv_sec) * 1'000'000 +
                      static_cast<std::uint64_t>(now.tv_nsec) / 1000);
  event.sequence.store(number + 1);
  shared.event_wake.fetch_add(1);
  FutexWakeAll(shared.event_wake);
}

std::optional<EventRecord> WaitEvent(Shared& shared, const EventFilter& filter, std::uint64_t& next,
                                     std::int64_t timeout_ms) {
  const std::uint64_t deadline =
      timeout_ms < 0 ? 0 : MonotonicNs() + static_cast<std::uint64_t>(timeout_ms) * 1'000'000;
  for (;;) {
    const std::uint32_t wake = shared.event_wake.load();
    const std::uint64_t end = shared.event_next.load();
    if (end > kEventRingSize && next < end - kEventRingSize) next = end - kEventRingSize;
    while (next < end) {
      const Event& event = shared.events[next % kEventRingSize];
      const EventRecord record{static_cast<unsigned>(event.gpu.load()), event.type.load(), event.data.load()};
      const bool complete = event.sequence.load() == next + 1;
      // An incomplete event is being written, and a wake-up will follow, or its writer died: the next event
      // skips it.
      if (!complete && next + 1 == end) break;
      ++next;
      if (complete && record.gpu < kMaxGpus && (filter.types[record.gpu] & record.type) != 0) return record;
    }
    const std::int64_t wait = timeout_ms < 0 ? -1 : MsUntil(deadline);
    if (wait == 0 || !FutexWait(shared.event_wake, wake, wait)) return std::nullopt;
  }
}

void ObeySlowCalls(Shared& shared, const char* function, unsigned gpu) {
  Faults& faults = shared.faults;
  if (faults.slow_calls_active.load(std::memory_order_relaxed) == 0) return;
  for (SlowCall& call : faults.slow_calls) {
    if (!Matches(call, function, gpu)) continue;
    const std::uint64_t until = MonotonicNs() + std::uint64_t{call.delay_ms.load()} * 1'000'000;
    for (;;) {
      const std::uint32_t change = faults.change.load();
      if (!Matches(call, function, gpu)) break;
      const std::int64_t wait = call.hang.load() != 0 ? -1 : MsUntil(until);
      if (wait == 0) break;
      FutexWait(faults.change, change, wait);
    }
  }
}

}  // namespace gpuman::sim

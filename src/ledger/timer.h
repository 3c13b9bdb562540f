// Timers as descriptors, for code that waits for several things behind one descriptor.
#pragma once

#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>

#include "base/fd.h"
#include "base/result.h"

namespace gpuman::ledger {

inline base::Result<base::Fd> MakeTimer() {
  base::Fd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer.ok()) return base::FailSystem(errno, "making a timer");
  return timer;
}

// Fires once, after `time`.
inline bool Start(const base::Fd& timer, std::chrono::nanoseconds time) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
  itimerspec moment{};
  moment.it_value.tv_sec = seconds.count();
  moment.it_value.tv_nsec = (time - seconds).count();
  return ::timerfd_settime(timer.get(), 0, &moment, nullptr) == 0;
}

// Takes the expiration, so that the timer is not readable any more; works for an event descriptor as well.
inline void Take(const base::Fd& timer) {
  std::uint64_t times = 0;
  (void)!::read(timer.get(), &times, sizeof times);
}

}  // namespace gpuman::ledger

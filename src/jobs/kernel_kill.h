// The kernel's end of a process for want of host memory, as the kernel's log tells it. Pure.
//
//   Out of memory: Killed process 1234 (python3) total-vm:9kB, anon-rss:8kB, file-rss:0kB, shmem-rss:4kB, …
//
// Source of the lines: __oom_kill_process in the kernel's mm/oom_kill.c, since Linux 4.18.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "base/units.h"
#include "keeper/journal.h"

namespace gpuman::jobs {

struct KernelKill {
  pid_t pid = 0;                           // in the machine's first namespace of processes
  std::string name{};                      // as the kernel writes it; shows as it is
  std::optional<base::Bytes> memory{};     // that the process had in RAM; nullopt: not known
  bool in_cgroup = false;                  // its cgroup had no more memory, though the machine may have had
  std::chrono::microseconds since_boot{};  // KernelLogLine::since_boot
  friend bool operator==(const KernelKill&, const KernelKill&) = default;
};

// nullopt: the line tells of no such end, or the kernel did not write it.
std::optional<KernelKill> ParseKernelKill(std::string_view line);

// Whether `kill` ended the run of this main process. `ended`: when the run was known to have ended, by
// CLOCK_MONOTONIC of the same boot; `lasted`: the run's time. The clocks of the two drift apart, so ends some
// time before and after the run count: a second, and 1/2000 of the time since boot, at most ten minutes.
bool IsEndOf(const KernelKill& kill, pid_t pid, base::Millis ended, base::Millis lasted);

keeper::Reason ReasonOf(const KernelKill& kill);

}  // namespace gpuman::jobs

// The kernel's end of a process for want of host memory, as the kernel's log tells it. Pure.
//
//   oom-kill:constraint=CONSTRAINT_NONE,…,task_memcg=/gpuman/job-7-1f2e3d4c,task=python3,pid=1234,uid=1000
//   Out of memory: Killed process 1234 (python3) total-vm:9kB, anon-rss:8kB, file-rss:0kB, shmem-rss:4kB, …
//
// Source of the lines: dump_oom_summary (since Linux 5.0) and __oom_kill_process (since 4.18) in the kernel's
// mm/oom_kill.c.
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
  std::optional<base::Bytes> memory{};     // what the process had in RAM; nullopt: not known
  bool in_cgroup = false;                  // its cgroup had no more memory, though the machine may have had
  std::chrono::microseconds since_boot{};  // KernelLogLine::since_boot
  std::string cgroup{};                    // of the process, from the root of the hierarchy; empty: not known
  friend bool operator==(const KernelKill&, const KernelKill&) = default;
};

// nullopt: the line tells of no such end, or the kernel did not write it.
std::optional<KernelKill> ParseKernelKill(std::string_view line);

// The line before the one of the end, of the same process.
struct KernelVictim {
  pid_t pid = 0;
  std::string cgroup;  // as KernelKill::cgroup
  friend bool operator==(const KernelVictim&, const KernelVictim&) = default;
};
std::optional<KernelVictim> ParseKernelVictim(std::string_view line);

// Whether `kill` ended the run of this main process. `ended`: when the run was known to have ended, by
// CLOCK_MONOTONIC of the same boot; `lasted`: the run's time. The clocks of the two drift apart, so ends some
// time before and after the run count: a second, and 1/2000 of the time since boot, at most ten minutes.
bool IsEndOf(const KernelKill& kill, pid_t pid, base::Millis ended, base::Millis lasted);

// Whether `kill` ended a process in the job's own cgroup (`cgroup`: its directory) in the last minute of the
// run: a program whose worker is gone fails soon. Times as above.
bool IsWithinEndOf(const KernelKill& kill, std::string_view cgroup, base::Millis ended, base::Millis lasted);

keeper::EndReason ReasonOf(const KernelKill& kill);

}  // namespace gpuman::jobs

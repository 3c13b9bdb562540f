// Limits of host memory that change while a job runs.
//
// The kernel makes a cgroup fit a lower limit before it lets go of who wrote it: for as long as pages that
// the job has written take to reach the disk. So a limit is set by a thread, one for each job that is about
// to get one. To lift a limit waits for nothing and is done at once: what leaves the GPU comes into memory
// next. What was wanted last holds in the end.
//
// Not thread-safe: lives on the event loop.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "base/result.h"
#include "base/units.h"

namespace gpuman::daemon {

class CgroupLimitWriter {
 public:
  // Called by several threads, of a job by one at a time, except for nullopt: that is written meanwhile too.
  using Write = std::function<void(const std::filesystem::path& cgroup, std::optional<base::Bytes> limit)>;

  explicit CgroupLimitWriter(Write write);
  // Leaves threads alone that still wait.
  ~CgroupLimitWriter();
  CgroupLimitWriter(const CgroupLimitWriter&) = delete;
  CgroupLimitWriter& operator=(const CgroupLimitWriter&) = delete;

  // nullopt: none.
  void Set(const std::filesystem::path& cgroup, std::optional<base::Bytes> limit);
  // Nothing is begun any more. Waits up to `patience`; false: a thread is left in the kernel, and the process
  // should end by _exit.
  bool Stop(base::Millis patience);

 private:
  struct Core;
  std::shared_ptr<Core> core_;  // shared with threads that may stay in the kernel after our end
};

}  // namespace gpuman::daemon

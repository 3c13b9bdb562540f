// Limits of host memory that change while a job runs.
//
// When a thread writes a lower limit, the kernel first makes the cgroup fit it, and the write blocks until
// pages that the job has written have reached the disk. So a separate thread sets each limit, one thread for
// each job. Lifting a limit never blocks and is done at once, because memory from the GPU comes into host
// memory next. In the end the last value that was set holds.
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
  // Several threads call it; for one job only one thread at a time, except that nullopt may be written at the
  // same time.
  using Write = std::function<void(const std::filesystem::path& cgroup, std::optional<base::Bytes> limit)>;

  explicit CgroupLimitWriter(Write write);
  // Does not wait for threads that are still in the kernel.
  ~CgroupLimitWriter();
  CgroupLimitWriter(const CgroupLimitWriter&) = delete;
  CgroupLimitWriter& operator=(const CgroupLimitWriter&) = delete;

  // `limit` nullopt: no limit.
  void Set(const std::filesystem::path& cgroup, std::optional<base::Bytes> limit);
  // After this call no write begins. Waits up to `patience`; false: a thread is still in the kernel, and the
  // process should end by _exit.
  bool Stop(base::Millis patience);

 private:
  struct Core;
  std::shared_ptr<Core> core_;  // shared with threads that may stay in the kernel after this object
};

}  // namespace gpuman::daemon

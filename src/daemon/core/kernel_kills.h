// Finds out whether the kernel ended a job's run, or a process in it, for want of host memory.
//
// The line is in the log before the process has ended: the kernel locks the process from the signal until it
// has written the line, and the process has to take the same lock on its way out. So nobody waits for a line.
//
// Lives on the event loop; not thread-safe.
#pragma once

#include <deque>
#include <filesystem>
#include <optional>

#include "base/kernel_log.h"
#include "jobs/job.h"
#include "jobs/kernel_kill.h"
#include "keeper/journal.h"

namespace gpuman::daemon {

class KernelKills {
 public:
  // `log`: as KernelLog::Open; empty: it is not read. Reads nothing yet.
  explicit KernelKills(std::filesystem::path log) : path_(std::move(log)) {}

  // What ended the run that this record (RunEnded) tells of; nullopt: not the kernel, or nobody knows. Reads
  // what the log has got since the last call: milliseconds at the first, then less.
  std::optional<jobs::KernelKill> Find(const jobs::Job& job, const keeper::JournalRecord& record);

 private:
  void ReadLog();

  const std::filesystem::path path_;
  std::optional<base::KernelLog> log_;
  std::deque<jobs::KernelKill> kills_;        // the last ones, the oldest first
  std::optional<jobs::KernelVictim> victim_;  // of the last such line
};

}  // namespace gpuman::daemon

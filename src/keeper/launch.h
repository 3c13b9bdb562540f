// Starts the main process of one run: fork, set-up as the job's user, the record of the start, execve.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "keeper/journal.h"
#include "keeper/spec.h"

namespace gpuman::keeper {

struct ProcessLaunchRequest {
  const Spec& spec;
  RunNumber run = 0;
  std::vector<std::string> extra_environment;  // replaces variables of the spec
  std::filesystem::path cgroup;                // empty: none
  std::vector<int> processors;                 // the run uses only these; empty: no restriction
  int output_fd = -1;                          // becomes stdout and stderr
  int journal_fd = -1;                         // where the child writes its RunStarted
  std::uint64_t seq = 0;                       // the number of that record
  std::vector<std::string> notes;              // go into that record, before the child's own
};

// A child on its way to execve.
class LaunchingProcess {
 public:
  static base::Result<LaunchingProcess> Start(const ProcessLaunchRequest& request, const base::Clock& clock);

  pid_t pid() const { return pid_; }
  // Readable when Poll has something to read.
  int fd() const { return report_.get(); }

  // True when the launch is over. `started` set and `failed` not: the command was handed to execve. `failed`
  // set: the command was not executed (both: execve refused it). Neither: the child died before.
  bool Poll();
  const std::optional<JournalRecord>& started() const { return started_; }
  const std::optional<StartFailed>& failed() const { return failed_; }

 private:
  LaunchingProcess(pid_t pid, base::Fd report) : pid_(pid), report_(std::move(report)) {}
  void TakeLine(std::string_view line);

  pid_t pid_;
  base::Fd report_;
  std::string buffer_;
  std::optional<JournalRecord> started_;
  std::optional<StartFailed> failed_;
};

}  // namespace gpuman::keeper

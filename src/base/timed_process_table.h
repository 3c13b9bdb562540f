// The process table for who must not be held up by what it looks at: arguments and environment lie in the
// memory of their process, and who reads them waits for it, for as long as its owner keeps it locked (by a
// page that a file system of theirs does not deliver). Here a thread waits, and its caller for a moment.
//
// Where an event loop waits, all waiting is charged to the owner of what is read, in time or not: an owner
// who answers just before the patience ends, again and again, holds nobody up for more than a share of the
// time.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "base/clock.h"
#include "base/process.h"

namespace gpuman::base {

// Thread-safe. What did not come in time is not known yet, and neither is what its owner has no time left
// for: a read is tried again when somebody asks again. As long as one is held up, those of other processes of
// the same user are not tried, root's excepted, and when there are several such nobody's. The rest is as
// ProcFs has it.
class TimedProcessTable final : public ProcessTable {
 public:
  // Of a thread beside the loop nothing is charged: each read may take the patience.
  enum class For { kLoop, kThreads };
  // On the loop each owner may take `patience` at once and a twentieth of the time in the long run: for
  // environments and for arguments apart, since anybody may ask for the arguments of anybody's processes.
  // `clock` must outlive this object.
  explicit TimedProcessTable(std::filesystem::path root = "/proc",
                             std::chrono::milliseconds patience = std::chrono::milliseconds(200),
                             For whom = For::kLoop);
  TimedProcessTable(std::filesystem::path root, std::chrono::milliseconds patience, For whom,
                    const Clock& clock);
  // Threads that wait still end with the process.
  ~TimedProcessTable() override;
  TimedProcessTable(const TimedProcessTable&) = delete;
  TimedProcessTable& operator=(const TimedProcessTable&) = delete;

  std::optional<ProcessInfo> Find(pid_t pid) const override { return proc_.Find(pid); }
  std::vector<ProcessInfo> List() const override { return proc_.List(); }
  std::optional<uid_t> Owner(pid_t pid) const override { return proc_.Owner(pid); }
  // Where they are not known now: as they were known last, or empty.
  std::vector<std::string> CommandLine(pid_t pid) const override;
  std::optional<std::string> Environment(pid_t pid, std::string_view name) const override;
  Result<std::optional<std::string>> ReadEnvironment(pid_t pid, std::string_view name) const override;
  std::optional<std::filesystem::path> Cgroup(pid_t pid) const override { return proc_.Cgroup(pid); }

 private:
  class Readers;
  class KnownCommands;
  enum class What { kArguments, kEnvironment };
  // False: not within the time that its owner has.
  bool Read(What what, pid_t pid, std::function<void()> act) const;

  const ProcFs proc_;
  const std::shared_ptr<Readers> readers_;  // its threads have it as well
  const std::unique_ptr<KnownCommands> commands_;
};

}  // namespace gpuman::base

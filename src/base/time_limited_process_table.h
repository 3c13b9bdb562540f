// The process table for callers that must not be delayed by the processes they look at. Arguments and
// environment lie in the memory of their process. A reader waits for that memory as long as its owner keeps
// it locked (with a page that the owner's file system does not deliver). Here a separate thread waits, and
// the caller waits only for a limited time.
//
// On an event loop the table charges all waiting to the owner of the process that it reads, whether the value
// came in time or not. So an owner whose processes answer just before the patience ends, again and again,
// takes no more than a share of the loop's time.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "base/clock.h"
#include "base/process.h"

namespace gpuman::base {

// Thread-safe. A value that did not come in time is not known yet, and neither is a value whose owner has no
// time left; the table reads again when a caller asks again. While one read is held up, the table reads no
// other process of the same user (except root's). While eight reads are held up, it reads no process.
// Everything else is as in ProcFs.
class TimeLimitedProcessTable final : public ProcessTable {
 public:
  // kThreads, for threads other than the loop: nothing is charged, each read may take the whole patience.
  enum class For { kLoop, kThreads };
  // On the loop each owner may take `patience` at once and a twentieth of the time in the long run.
  // Environments and arguments count separately, since any user may ask for the arguments of all processes.
  // `clock` must outlive this object.
  explicit TimeLimitedProcessTable(std::filesystem::path root = "/proc",
                                   std::chrono::milliseconds patience = std::chrono::milliseconds(200),
                                   For whom = For::kLoop);
  TimeLimitedProcessTable(std::filesystem::path root, std::chrono::milliseconds patience, For whom,
                          const Clock& clock);
  // Threads that wait for a read stay until the read returns.
  ~TimeLimitedProcessTable() override;
  TimeLimitedProcessTable(const TimeLimitedProcessTable&) = delete;
  TimeLimitedProcessTable& operator=(const TimeLimitedProcessTable&) = delete;

  std::optional<ProcessInfo> Find(pid_t pid) const override { return proc_.Find(pid); }
  std::vector<ProcessInfo> List() const override { return proc_.List(); }
  std::optional<uid_t> Owner(pid_t pid) const override { return proc_.Owner(pid); }
  // If the arguments are not known now: the arguments that were last read, or empty.
  std::vector<std::string> CommandLine(pid_t pid) const override;
  std::optional<std::string> Environment(pid_t pid, std::string_view name) const override;
  Result<std::optional<std::string>> ReadEnvironment(pid_t pid, std::string_view name) const override;
  std::optional<std::filesystem::path> Cgroup(pid_t pid) const override { return proc_.Cgroup(pid); }

 private:
  class Readers;
  class KnownCommands;
  enum class What { kArguments, kEnvironment };
  // False: the read did not finish within the time that the owner has.
  bool Read(What what, pid_t pid, std::function<void()> act) const;

  const ProcFs proc_;
  const std::shared_ptr<Readers> readers_;  // shared with its threads
  const std::unique_ptr<KnownCommands> commands_;
};

}  // namespace gpuman::base

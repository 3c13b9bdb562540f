// Processes as the kernel shows them. A pid alone does not identify a process for long. ProcessId adds the
// start time, and every signal is sent through a pidfd after a check of that start time, so it never reaches
// a process that got the pid later.
#pragma once

#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace gpuman::base {

// start_time: clock ticks since boot, field 22 of /proc/PID/stat.
struct ProcessId {
  pid_t pid = 0;
  std::uint64_t start_time = 0;
  friend auto operator<=>(const ProcessId&, const ProcessId&) = default;
};

struct ProcessInfo {
  ProcessId id;
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  char state = '?';  // as in /proc: R S D Z T …
  std::string name;  // comm, at most 15 characters
};

// The process table, which tests replace. Thread-safe.
class ProcessTable {
 public:
  virtual ~ProcessTable() = default;
  virtual std::optional<ProcessInfo> Find(pid_t pid) const = 0;
  // Every process; a process that ends meanwhile may be missing.
  virtual std::vector<ProcessInfo> List() const = 0;
  // Real uid of the process's owner.
  virtual std::optional<uid_t> Owner(pid_t pid) const = 0;
  // The arguments; empty for kernel threads and ended processes.
  virtual std::vector<std::string> CommandLine(pid_t pid) const = 0;
  // The value of a variable in the environment with which the process was started; nullopt: it is not set or
  // may not be read.
  virtual std::optional<std::string> Environment(pid_t pid, std::string_view name) const = 0;
  // The same for callers that must tell "not set" from "not known". kUnavailable: the value is not known yet.
  virtual Result<std::optional<std::string>> ReadEnvironment(pid_t pid, std::string_view name) const {
    return Environment(pid, name);
  }
  // The directory of the process's cgroup v2 in the file system; nullopt: there is no cgroup v2.
  virtual std::optional<std::filesystem::path> Cgroup([[maybe_unused]] pid_t pid) const {
    return std::nullopt;
  }
};

// Reads a /proc tree; tests give the root of an artificial one.
class ProcFs final : public ProcessTable {
 public:
  explicit ProcFs(std::filesystem::path root = "/proc") : root_(std::move(root)) {}
  std::optional<ProcessInfo> Find(pid_t pid) const override;
  std::vector<ProcessInfo> List() const override;
  std::optional<uid_t> Owner(pid_t pid) const override;
  std::vector<std::string> CommandLine(pid_t pid) const override;
  std::optional<std::string> Environment(pid_t pid, std::string_view name) const override;
  std::optional<std::filesystem::path> Cgroup(pid_t pid) const override;

 private:
  std::filesystem::path root_;
};

// Parses the text of /proc/PID/stat; nullopt: it is not such a text. The name may contain any character.
std::optional<ProcessInfo> ParseStat(std::string_view text);

// The identity of a running process, or nullopt. SelfId() is this process.
std::optional<ProcessId> IdentityOf(pid_t pid);
ProcessId SelfId();

// A pidfd to exactly this process. kNotFound: it has ended, or the pid belongs to another process now.
Result<Fd> OpenProcess(ProcessId id);
// Zombies count as ended. True where the kernel does not tell, as it does not to a program that has no
// descriptor left: what belongs to a process must not be given away on a doubt.
bool IsAlive(ProcessId id);

// kNotFound: the process has ended.
Result<> SendSignal(ProcessId id, int signal);

// `root` and all processes below it in `table`, root first. `root` may have ended: its pid still finds its
// children.
std::vector<ProcessInfo> Descendants(const std::vector<ProcessInfo>& table, pid_t root);

}  // namespace gpuman::base

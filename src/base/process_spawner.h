// How gpuman starts its own programs: in a new session, with default signal handling and no signal blocked,
// and with the descriptors that the caller asks for, in that order.
#pragma once

#include <spawn.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace gpuman::base {

// Gives each signal of this process its default handling. Uses only system calls: so a child that shares its
// parent's memory may call it, and it also resets the signals that the C library keeps for itself.
void ResetSignals();

// A descriptor of this process's child that becomes readable when the child has ended. If the kernel gives
// none, the caller could not notice the child's end: then this function kills the child and waits for it.
Result<Fd> WatchChild(pid_t child);

// Waits until a child of this process (-1: any) has ended, and reaps it. Returns its status, as waitpid(2)
// has it; nullopt with errno: there is no such child.
std::optional<int> WaitForChild(pid_t child);

// The status of an ended child as a shell has it: the exit status, or 128 plus the number of the signal.
int ShellStatus(int status);

// Words as execve takes them: pointers into `words`, which must not change meanwhile, and nullptr at the end.
std::vector<char*> PointersTo(std::vector<std::string>& words);

// The variables of this process, "NAME=value". No other thread may change them meanwhile.
std::vector<std::string> OwnEnvironment();

// The start of one program. Not thread-safe; several may start at once.
class ProcessSpawner {
 public:
  ProcessSpawner();
  ~ProcessSpawner();
  ProcessSpawner(const ProcessSpawner&) = delete;
  ProcessSpawner& operator=(const ProcessSpawner&) = delete;

  // The child gets `fd` as `number`.
  void Give(int fd, int number);
  // The child gets /dev/null as `number`, opened with O_RDONLY or O_WRONLY.
  void GiveNull(int number, int flags);
  // The child gets no descriptor from `first` on.
  void CloseFrom(int first);
  // The child's working directory; without it that of this process.
  void InDirectory(const char* path);

  // Returns when the child executes `program` (a path), or returns why it does not. The child's copies of
  // descriptors that strangers have passed to this process are never the last ones (CloserPause).
  Result<pid_t> Start(const char* program, char* const* arguments, char* const* environment) const;

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

}  // namespace gpuman::base

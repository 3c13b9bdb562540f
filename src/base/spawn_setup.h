// How gpuman starts its own programs: a session of their own, all signals as usual and none blocked, and the
// descriptors that are asked for here, in that order.
#pragma once

#include <spawn.h>
#include <sys/types.h>

#include "base/fd.h"
#include "base/result.h"

namespace gpuman::base {

// A descriptor of this process's child, readable when it has ended. Where there is none to be had nobody
// would learn of its end: then the child is ended, and waited for, here.
Result<Fd> WatchChild(pid_t child);

// One program's start. Not thread-safe; several may start at once.
class SpawnSetup {
 public:
  SpawnSetup();
  ~SpawnSetup();
  SpawnSetup(const SpawnSetup&) = delete;
  SpawnSetup& operator=(const SpawnSetup&) = delete;

  // The child has `fd` as `number`.
  void Give(int fd, int number);
  // `number` is /dev/null, opened with O_RDONLY or O_WRONLY.
  void GiveNull(int number, int flags);
  // And nothing from `first` on.
  void CloseFrom(int first);

  // Returns when the child executes `program` (a path), or why it does not. The child's copies of what
  // strangers have passed along to this process are never the last (CloserPause).
  Result<pid_t> Start(const char* program, char* const* arguments, char* const* environment) const;

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

}  // namespace gpuman::base

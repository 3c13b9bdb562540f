// How gpuman starts its own programs: a session of their own, all signals as usual and none blocked, and the
// descriptors that are asked for here, in that order. For posix_spawn(3); not thread-safe.
#pragma once

#include <spawn.h>

namespace gpuman::base {

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

  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

}  // namespace gpuman::base

#include "base/spawn_setup.h"

#include <signal.h>

namespace gpuman::base {

SpawnSetup::SpawnSetup() {
  ::posix_spawn_file_actions_init(&actions_);
  ::posix_spawnattr_init(&attributes_);
  sigset_t signals;
  ::sigemptyset(&signals);
  ::posix_spawnattr_setsigmask(&attributes_, &signals);
  ::sigfillset(&signals);
  ::posix_spawnattr_setsigdefault(&attributes_, &signals);
  ::posix_spawnattr_setflags(&attributes_,
                             POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

SpawnSetup::~SpawnSetup() {
  ::posix_spawn_file_actions_destroy(&actions_);
  ::posix_spawnattr_destroy(&attributes_);
}

void SpawnSetup::Give(int fd, int number) { ::posix_spawn_file_actions_adddup2(&actions_, fd, number); }

void SpawnSetup::GiveNull(int number, int flags) {
  ::posix_spawn_file_actions_addopen(&actions_, number, "/dev/null", flags, 0);
}

void SpawnSetup::CloseFrom(int first) { ::posix_spawn_file_actions_addclosefrom_np(&actions_, first); }

}  // namespace gpuman::base

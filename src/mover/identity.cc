#include "mover/identity.h"

#include <fmt/format.h>
#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>

#include "base/process_spawner.h"

namespace gpuman::mover {

using base::FailSystem;
using base::Result;
using suspend::MoverUser;

void KeepOthersOut() { ::prctl(PR_SET_DUMPABLE, 0); }

void ResetSignals() {
  base::ResetSignals();
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGIO, SIG_IGN);  // whoever opens a segment just as Segment::IsOursAlone asks for it causes one
}

Result<> Become(const MoverUser& user) {
  if (::geteuid() != 0) {
    if (::getuid() == user.uid && ::getgid() == user.gid) return {};
    return FailSystem(EPERM, fmt::format("becoming user {} group {}", user.uid, user.gid));
  }
  if (::setgroups(user.groups.size(), user.groups.data()) != 0) return FailSystem(errno, "taking on groups");
  if (::setresgid(user.gid, user.gid, user.gid) != 0) return FailSystem(errno, "taking on a group");
  if (::setresuid(user.uid, user.uid, user.uid) != 0) return FailSystem(errno, "taking on a user");
  KeepOthersOut();  // the change of user has reset this to the machine's default
  return {};
}

}  // namespace gpuman::mover

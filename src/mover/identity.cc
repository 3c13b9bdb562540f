#include "mover/identity.h"

#include <fmt/format.h>
#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace gpuman::mover {

using base::FailSystem;
using base::Result;
using suspend::MoverUser;

void KeepOthersOut() { ::prctl(PR_SET_DUMPABLE, 0); }

// Uses the system call: the C library keeps two signals to itself, and posix_spawn left those ignored.
void ResetSignals() {
  constexpr std::size_t kKernelSetSize = 8;
  const std::array<unsigned long, 8> defaults{};  // handler SIG_DFL, no flags, empty mask
  for (int signal = 1; signal <= 64; ++signal)
    ::syscall(SYS_rt_sigaction, signal, defaults.data(), nullptr, kKernelSetSize);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

Result<> Become(const MoverUser& user) {
  if (::geteuid() != 0) {
    if (::getuid() == user.uid && ::getgid() == user.gid) return {};
    return FailSystem(EPERM, fmt::format("becoming user {} group {}", user.uid, user.gid));
  }
  if (::setgroups(user.groups.size(), user.groups.data()) != 0) return FailSystem(errno, "taking on groups");
  if (::setresgid(user.gid, user.gid, user.gid) != 0) return FailSystem(errno, "taking on a group");
  if (::setresuid(user.uid, user.uid, user.uid) != 0) return FailSystem(errno, "taking on a user");
  KeepOthersOut();  // after the change of user the kernel sets it by the machine's settings
  return {};
}

}  // namespace gpuman::mover

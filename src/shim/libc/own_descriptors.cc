#include "shim/libc/own_descriptors.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace gpuman::shim {

bool OwnDescriptors(int last) {
  constexpr unsigned kUnshare = 2;  // CLOSE_RANGE_UNSHARE
  const auto above = static_cast<unsigned>(last + 1);
  return ::syscall(SYS_close_range, above, ~0u, kUnshare) == 0 || ::unshare(CLONE_FILES) == 0;
}

void CloseAbove(int last) {
  if (::syscall(SYS_close_range, static_cast<unsigned>(last + 1), ~0u, 0) == 0) return;
  rlimit limit{};  // Linux before 5.9 has no close_range
  const rlim_t most = ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_max : 65536;
  for (int i = last + 1; i < static_cast<int>(most < 65536 ? most : 65536); ++i) ::close(i);
}

}  // namespace gpuman::shim

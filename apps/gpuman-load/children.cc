#include "children.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "base/fd.h"
#include "base/process_spawner.h"
#include "exit_code.h"
#include "workload.h"

namespace gpuman::load {
namespace {

// Runs in the child; a daemonized child writes its exit status to the pipe `say`.
[[noreturn]] void BeChild(const Options& options, Report& report, unsigned number, int say) {
  if (options.daemonize) {
    ::setsid();
    const pid_t daemon = ::fork();
    if (daemon != 0) ::_exit(daemon < 0 ? kLost : kDone);
  }
  const int code = RunWorkload(options, report, number);
  if (options.daemonize) {
    const auto byte = static_cast<unsigned char>(code);
    (void)!::write(say, &byte, 1);
  }
  ::_exit(code);
}

// Reads the exit statuses until the last child has closed the pipe.
int WorstDaemon(int listen, unsigned children) {
  int worst = kDone;
  unsigned char byte = 0;
  for (;;) {
    const auto got = ::read(listen, &byte, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    worst = std::max(worst, static_cast<int>(byte));
    --children;
  }
  return children ? std::max<int>(worst, kLost) : worst;
}

}  // namespace

int RunChildren(const Options& options, Report& report) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return kLost;
  base::Fd listen(ends[0]), say(ends[1]);
  for (unsigned number = 1; number <= options.children; ++number) {
    const pid_t child = ::fork();
    if (child < 0) {
      report.Event("error", {{"message", "a child could not be started"}});
      return kLost;
    }
    if (child == 0) {
      listen.Close();
      BeChild(options, report, number, say.get());
    }
    report.Event("child", {{"number", number}, {"child_pid", child}, {"daemonized", options.daemonize}});
  }
  say.Close();
  if (options.parent_exits) return kDone;
  int worst = kDone;
  while (const auto status = base::WaitForChild(-1)) worst = std::max(worst, base::ShellStatus(*status));
  if (options.daemonize) worst = std::max(worst, WorstDaemon(listen.get(), options.children));
  return worst;
}

}  // namespace gpuman::load

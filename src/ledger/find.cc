#include "ledger/find.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <string>

namespace gpuman::ledger {

std::optional<base::Fd> FindLedger(base::JobId job, std::span<const pid_t> pids,
                                   const std::filesystem::path& proc) {
  const std::string name = fmt::format("/memfd:gpuman-ledger-{} (deleted)", job.value);
  std::error_code error;
  for (const pid_t pid : pids) {
    // It may end, and its directory with it, at any step.
    for (std::filesystem::directory_iterator it(proc / std::to_string(pid) / "fd", error), end;
         !error && it != end; it.increment(error)) {
      std::error_code ignored;
      if (std::filesystem::read_symlink(it->path(), ignored) != name) continue;
      // Held without being opened, so that the process cannot put another file in its place meanwhile.
      const base::Fd held(::open(it->path().c_str(), O_PATH | O_CLOEXEC));
      const auto own = fmt::format("/proc/self/fd/{}", held.get());
      if (!held.ok() || std::filesystem::read_symlink(own, ignored) != name) continue;
      base::Fd file(::open(own.c_str(), O_RDWR | O_CLOEXEC));
      if (file.ok()) return file;
    }
  }
  return std::nullopt;
}

}  // namespace gpuman::ledger

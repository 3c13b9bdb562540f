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
    for (const auto& entry : std::filesystem::directory_iterator(proc / std::to_string(pid) / "fd", error)) {
      if (std::filesystem::read_symlink(entry.path(), error) != name) continue;
      // Held without being opened, so that the process cannot put another file in its place meanwhile.
      const base::Fd held(::open(entry.path().c_str(), O_PATH | O_CLOEXEC));
      const auto own = fmt::format("/proc/self/fd/{}", held.get());
      if (!held.ok() || std::filesystem::read_symlink(own, error) != name) continue;
      base::Fd file(::open(own.c_str(), O_RDWR | O_CLOEXEC));
      if (file.ok()) return file;
    }
  }
  return std::nullopt;
}

}  // namespace gpuman::ledger

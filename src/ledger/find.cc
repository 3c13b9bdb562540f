#include "ledger/find.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <string>

namespace gpuman::ledger {

namespace {

std::optional<base::Fd> FindIn(const std::filesystem::path& folder, const std::string& name) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (std::filesystem::read_symlink(entry.path(), error) != name) continue;
    // Held without being opened, so that the process cannot put another file in its place meanwhile.
    const base::Fd held(::open(entry.path().c_str(), O_PATH | O_CLOEXEC));
    const auto own = fmt::format("/proc/self/fd/{}", held.get());
    if (!held.ok() || std::filesystem::read_symlink(own, error) != name) continue;
    base::Fd file(::open(own.c_str(), O_RDWR | O_CLOEXEC));
    if (file.ok()) return file;
  }
  return std::nullopt;
}

}  // namespace

std::optional<base::Fd> FindLedger(base::JobId job, std::span<const pid_t> pids,
                                   const std::filesystem::path& proc) {
  const std::string name = fmt::format("/memfd:gpuman-ledger-{} (deleted)", job.value);
  // A program may have closed what it did not open: it still has it mapped.
  for (const char* const folder : {"fd", "map_files"}) {
    for (const pid_t pid : pids) {
      if (auto found = FindIn(proc / std::to_string(pid) / folder, name)) return found;
    }
  }
  return std::nullopt;
}

}  // namespace gpuman::ledger

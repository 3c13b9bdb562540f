#include "ledger/find.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <string>

namespace gpuman::ledger {
namespace {

// A name says little: a file of any file system has this one once its mount is gone, and to open it can take
// as long as its file system likes. Asks no file system.
bool IsOnSameDevice(int a, int b) {
  struct statx one {
  }, other{};
  const auto look = [](int fd, struct statx& found) {
    return ::statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &found) == 0;
  };
  return look(a, one) && look(b, other) && one.stx_dev_major == other.stx_dev_major &&
         one.stx_dev_minor == other.stx_dev_minor;
}

}  // namespace

std::optional<base::Fd> FindLedger(base::JobId job, std::span<const pid_t> pids,
                                   const std::filesystem::path& proc) {
  const std::string name = fmt::format("/memfd:gpuman-ledger-{} (deleted)", job.value);
  const base::Fd memory(::memfd_create("gpuman-find", MFD_CLOEXEC));
  std::error_code error;
  for (const pid_t pid : pids) {
    for (const auto& entry : std::filesystem::directory_iterator(proc / std::to_string(pid) / "fd", error)) {
      if (std::filesystem::read_symlink(entry.path(), error) != name) continue;
      // Held without being opened, so that the process cannot put another file in its place meanwhile.
      const base::Fd held(::open(entry.path().c_str(), O_PATH | O_CLOEXEC));
      const auto own = fmt::format("/proc/self/fd/{}", held.get());
      if (!held.ok() || std::filesystem::read_symlink(own, error) != name ||
          !IsOnSameDevice(held.get(), memory.get()))
        continue;
      base::Fd file(::open(own.c_str(), O_RDWR | O_CLOEXEC));
      if (file.ok()) return file;
    }
  }
  return std::nullopt;
}

}  // namespace gpuman::ledger

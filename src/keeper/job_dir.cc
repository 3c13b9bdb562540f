#include "keeper/job_dir.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/file.h"
#include "base/process.h"

namespace gpuman::keeper {
namespace {

constexpr std::size_t kLongestText = 16384;  // a record with the path of a cgroup

struct flock WholeFile() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

bool TryLock(int fd) {
  auto lock = WholeFile();
  return ::fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

std::string HolderText(base::ProcessId id) { return fmt::format("{} {}\n", id.pid, id.start_time); }

// Whether the keeper named in the lock file lives. The child of a killed keeper, on its way to execve, holds
// the lock a little longer than the keeper lives: then the lock file names a dead process.
bool HolderLives(const std::filesystem::path& path) {
  const auto text = base::ReadFile(path, 128);
  if (!text) return true;
  int pid = 0;
  unsigned long long start = 0;
  if (std::sscanf(text->c_str(), "%d %llu", &pid, &start) != 2) return true;  // it is being written
  return base::IsAlive({pid, start});
}

}  // namespace

base::Result<base::Fd> OpenDirectory(const std::filesystem::path& directory) {
  return base::OpenFile(directory, O_RDONLY | O_DIRECTORY);
}

sockaddr_un ControlAddress(int directory_fd) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = fmt::format("/proc/self/fd/{}/{}", directory_fd, kControlSocket);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

base::Result<base::Fd> TakeLock(const std::filesystem::path& job_dir) {
  const auto path = job_dir / kLockFile;
  GPUMAN_ASSIGN(base::Fd fd, base::OpenFile(path, O_RDWR | O_CREAT, 0600));
  for (int attempt = 0; !TryLock(fd.get()); ++attempt) {
    if (errno != EAGAIN && errno != EACCES)
      return base::FailSystem(errno, fmt::format("locking {}", path.string()));
    if (attempt >= 1000 || HolderLives(path))
      return base::Fail(base::ErrorCode::kConflict, "another keeper of this job lives");
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  WriteBehindHolder(fd.get(), ReadBehindHolder(fd.get()));
  return fd;
}

bool LockHeld(const std::filesystem::path& job_dir) {
  const auto fd = base::OpenFile(job_dir / kLockFile, O_RDONLY);
  if (!fd) return false;
  auto lock = WholeFile();
  return ::fcntl(fd->get(), F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

std::string ReadBehindHolder(int lock_fd) {
  std::string text(kLongestText, '\0');
  const ssize_t n = ::pread(lock_fd, text.data(), text.size(), 0);
  text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  const auto newline = text.find('\n');
  return newline == std::string::npos ? "" : text.substr(newline + 1);
}

void WriteBehindHolder(int lock_fd, std::string_view behind) {
  const std::string text = HolderText(base::SelfId()).append(behind);
  if (::pwrite(lock_fd, text.data(), text.size(), 0) < 0 ||
      ::ftruncate(lock_fd, static_cast<off_t>(text.size())) != 0) {
    // The disk is full: the lock itself holds; only the wait in TakeLock may lack the name of the keeper.
  }
}

}  // namespace gpuman::keeper

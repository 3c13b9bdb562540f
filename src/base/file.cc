#include "base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>

namespace gpuman::base {

Result<Fd> OpenFile(const std::filesystem::path& path, int flags, mode_t mode) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) return FailSystem(errno, fmt::format("opening {}", path.string()));
  return Fd(fd);
}

Result<std::string> ReadFile(const std::filesystem::path& path, std::size_t limit) {
  GPUMAN_ASSIGN(const Fd fd, OpenFile(path, O_RDONLY));
  std::string data;
  char buffer[8192];
  for (;;) {
    const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FailSystem(errno, fmt::format("reading {}", path.string()));
    if (n == 0) return data;
    data.append(buffer, static_cast<std::size_t>(n));
    if (data.size() > limit)
      return Fail(ErrorCode::kExhausted, fmt::format("{} is larger than {} bytes", path.string(), limit));
  }
}

Result<> WriteAll(int fd, std::string_view data) {
  while (!data.empty()) {
    const ssize_t n = ::write(fd, data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FailSystem(errno, "writing");
    data.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

namespace {

Result<> SyncDirectory(const std::filesystem::path& directory) {
  GPUMAN_ASSIGN(const Fd fd, OpenFile(directory, O_RDONLY | O_DIRECTORY));
  if (::fsync(fd.get()) != 0) return FailSystem(errno, fmt::format("syncing {}", directory.string()));
  return {};
}

Result<> WriteSynced(const std::filesystem::path& path, std::string_view data, mode_t mode) {
  GPUMAN_ASSIGN(const Fd fd, OpenFile(path, O_WRONLY | O_CREAT | O_TRUNC, mode));
  if (auto written = WriteAll(fd.get(), data); !written)
    return Fail(std::move(written.error()).In(path.string()));
  if (::fsync(fd.get()) != 0) return FailSystem(errno, fmt::format("syncing {}", path.string()));
  return {};
}

}  // namespace

Result<> ReplaceFile(const std::filesystem::path& path, std::string_view data, mode_t mode) {
  const auto temporary = std::filesystem::path(fmt::format("{}.{}.tmp", path.string(), ::getpid()));
  if (auto written = WriteSynced(temporary, data, mode); !written) {
    ::unlink(temporary.c_str());
    return written;
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    const int number = errno;
    ::unlink(temporary.c_str());
    return FailSystem(number, fmt::format("replacing {}", path.string()));
  }
  return SyncDirectory(path.has_parent_path() ? path.parent_path() : ".");
}

Result<> WriteControl(const std::filesystem::path& path, std::string_view data) {
  GPUMAN_ASSIGN(const Fd fd, OpenFile(path, O_WRONLY));
  if (auto written = WriteAll(fd.get(), data); !written)
    return Fail(std::move(written.error()).In(path.string()));
  return {};
}

Result<> MakeDirectories(const std::filesystem::path& path, mode_t mode) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return {};
  if (path.has_parent_path() && path.parent_path() != path)
    GPUMAN_TRY(MakeDirectories(path.parent_path(), mode));
  if (::mkdir(path.c_str(), mode) != 0 && errno != EEXIST)
    return FailSystem(errno, fmt::format("making directory {}", path.string()));
  return {};
}

}  // namespace gpuman::base

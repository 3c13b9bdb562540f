#include "daemon/core/listen.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/parse_number.h"
#include "base/paths.h"

namespace gpuman::daemon {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Fd;
using base::Result;

constexpr int kPassRights = 83;  // SO_PASSRIGHTS, since Linux 6.16
constexpr int kBacklog = 4096;   // the kernel takes net.core.somaxconn at most

sockaddr_un AddressOf(const std::filesystem::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.string().copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

enum class Present { kNothing, kStaleSocket };

// What is at `path`. An error if a process serves it, or if it is no socket.
Result<Present> LookAt(const std::filesystem::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return Present::kNothing;
  if (!S_ISSOCK(status.st_mode))
    return Fail(ErrorCode::kAlreadyExists, fmt::format("{} is there and is no socket", path.string()),
                "move it away or choose another path with --socket");
  const Fd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto address = AddressOf(path);
  const int connected = ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  if (connected == 0 || errno == EAGAIN)
    return Fail(ErrorCode::kAlreadyExists, fmt::format("a daemon already serves {}", path.string()),
                "stop it first, or choose another path with --socket");
  return Present::kStaleSocket;
}

Result<> Remove(const std::filesystem::path& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT)
    return base::FailSystem(errno, "removing the stale socket " + path.string());
  return {};
}

// Where to bind the socket that is to be at `path`. A killed daemon leaves its socket, and clients wait while
// a connection to it is refused; where there is no socket they go on without the daemon. So the new socket
// takes the place of the stale one in one step: it is bound beside it and renamed. A path that has no room
// for the other name is without a socket for a moment.
Result<std::filesystem::path> PlaceToBind(const std::filesystem::path& path) {
  GPUMAN_ASSIGN(const Present present, LookAt(path));
  if (present == Present::kNothing) return path;
  auto beside = path;
  beside += ".new";
  if (!base::CheckSocketPath(beside)) beside = path;
  GPUMAN_TRY(LookAt(beside));
  GPUMAN_TRY(Remove(beside));
  return beside;
}

}  // namespace

Result<Fd> Listen(const ListenOptions& options) {
  GPUMAN_TRY(base::CheckSocketPath(options.path));
  GPUMAN_TRY(base::MakeDirectories(options.path.parent_path(), 0755));
  GPUMAN_ASSIGN(const auto place, PlaceToBind(options.path));
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.ok()) return base::FailSystem(errno, "making a socket");
  // No client of gpuman passes descriptors. A process that closes the last descriptor of a socket with
  // SO_LINGER waits as long as the socket's owner wished, so the daemon refuses descriptors. An older kernel
  // accepts them all the same. Accepted sockets inherit this setting.
  const int none = 0;
  (void)::setsockopt(fd.get(), SOL_SOCKET, kPassRights, &none, sizeof none);
  const auto address = AddressOf(place);
  // No process may connect between bind and chmod.
  const mode_t before = ::umask(0177);
  const int bound = ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  const int number = errno;
  ::umask(before);
  if (bound != 0) return base::FailSystem(number, "binding " + place.string());
  if (options.group && ::chown(place.c_str(), static_cast<uid_t>(-1), *options.group) != 0)
    return base::FailSystem(errno, "giving " + place.string() + " to its group");
  if (::chmod(place.c_str(), options.mode) != 0)
    return base::FailSystem(errno, "setting the permissions of " + place.string());
  if (::listen(fd.get(), kBacklog) != 0) return base::FailSystem(errno, "listening on " + place.string());
  if (place != options.path && ::rename(place.c_str(), options.path.c_str()) != 0)
    return base::FailSystem(errno, "replacing the stale socket " + options.path.string());
  return fd;
}

Result<Fd> Listen(const TcpAddress& address) {
  const auto context = "listening on " + address.text;
  Fd fd(::socket(address.socket.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.ok()) return base::FailSystem(errno, context);
  const int on = 1;
  // A daemon that is started again need not wait for the connections of the previous daemon.
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address.socket), address.size) != 0) {
    if (errno == EADDRINUSE)
      return Fail(ErrorCode::kAlreadyExists, "somebody else listens on " + address.text);
    return base::FailSystem(errno, context);
  }
  if (::listen(fd.get(), kBacklog) != 0) return base::FailSystem(errno, context);
  return fd;
}

namespace {

// False, with errno, if another process holds the lock. If a daemon was killed while it started a keeper, the
// keeper holds the lock until it executes its program. This function waits for such a keeper, but not for a
// daemon that lives.
bool LockSoon(int fd, const std::filesystem::path& path) {
  constexpr int kTries = 200;
  constexpr useconds_t kPause = 10'000;
  for (int i = 0;; ++i) {
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return true;
    const int error = errno;
    const std::string text = base::ReadFile(path, 64).value_or("");
    std::string_view rest = text;
    const pid_t holder = base::TakeNumber<pid_t>(rest).value_or(0);
    const bool gone = holder > 0 && ::kill(holder, 0) != 0 && errno == ESRCH;
    errno = error;
    if (error != EWOULDBLOCK || !gone || i == kTries) return false;
    ::usleep(kPause);
  }
}

}  // namespace

Result<Fd> ClaimDirectory(const std::filesystem::path& directory) {
  const auto path = directory / "lock";
  GPUMAN_ASSIGN(Fd fd, base::OpenFile(path, O_RDWR | O_CREAT, 0600));
  if (!LockSoon(fd.get(), path)) {
    if (errno != EWOULDBLOCK) return base::FailSystem(errno, "locking " + path.string());
    const auto holder = base::ReadFile(path, 64).value_or("");
    return Fail(ErrorCode::kAlreadyExists,
                fmt::format("another gpumand{} uses {}",
                            holder.empty() ? "" : fmt::format(" (pid {})", holder), directory.string()),
                "stop it first, or choose another directory with --state-dir");
  }
  if (::ftruncate(fd.get(), 0) != 0) return base::FailSystem(errno, "writing " + path.string());
  GPUMAN_TRY(base::WriteAll(fd.get(), std::to_string(::getpid())));
  return fd;
}

}  // namespace gpuman::daemon

#include "base/peer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/nsfs.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <sstream>

#include "base/file.h"

namespace gpuman::base {
namespace {

constexpr int kPeerPidFd = 77;  // SO_PEERPIDFD, since Linux 6.5

tl::unexpected<Error> Ended(pid_t pid) {
  return Fail(ErrorCode::kNotFound, fmt::format("process {}, which connected, has ended", pid));
}

bool HasEnded(int descriptor) {
  pollfd entry{descriptor, POLLIN, 0};
  return ::poll(&entry, 1, 0) != 0;
}

}  // namespace

Result<ucred> CredentialsOf(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return FailSystem(errno, "asking who connected");
  return peer;
}

bool Peer::Lives() const { return descriptor_.ok() ? !HasEnded(descriptor_.get()) : IsAlive(process_); }

std::uint64_t TicksNow() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  static const auto ticks = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  return static_cast<std::uint64_t>(now.tv_sec) * ticks +
         static_cast<std::uint64_t>(now.tv_nsec) * ticks / 1'000'000'000;
}

Result<Peer> PeerOf(int connection, std::uint64_t accepted) {
  int number = -1;
  socklen_t size = sizeof number;
  if (::getsockopt(connection, SOL_SOCKET, kPeerPidFd, &number, &size) != 0) {
    if (errno == ENOPROTOOPT) return PeerByPid(connection, accepted);
    if (errno == ESRCH || errno == ENODATA || errno == EINVAL) return Ended(0);
    return FailSystem(errno, "opening the process that connected");
  }
  Fd descriptor(number);
  GPUMAN_ASSIGN(const ucred peer, CredentialsOf(connection));
  // The pid belongs to this process as long as it lives, so whether it lives is checked last.
  const auto process = IdentityOf(peer.pid);
  if (peer.pid == 0 || HasEnded(descriptor.get())) return Ended(peer.pid);
  // The process lives, but it could not be read: for example, no descriptor was left.
  if (!process)
    return Fail(ErrorCode::kUnavailable,
                fmt::format("process {}, which connected, cannot be looked at", peer.pid));
  return Peer(*process, peer.uid, std::move(descriptor));
}

Result<Peer> PeerByPid(int connection, std::uint64_t accepted) {
  GPUMAN_ASSIGN(const ucred peer, CredentialsOf(connection));
  const auto process = IdentityOf(peer.pid);
  if (!process || !MayBePeer(process->start_time, UsersOf(peer.pid), peer.uid, accepted) ||
      !IsAlive(*process))
    return Ended(peer.pid);
  return Peer(*process, peer.uid, Fd());
}

bool MayBePeer(std::uint64_t start_time, std::span<const uid_t> uids, uid_t peer, std::uint64_t accepted) {
  return start_time <= accepted && std::find(uids.begin(), uids.end(), peer) != uids.end();
}

std::vector<uid_t> UsersOf(pid_t pid) {
  std::vector<uid_t> users;
  const auto text = ReadFile(fmt::format("/proc/{}/status", pid)).value_or("");
  const auto at = text.find("\nUid:");
  if (at == std::string::npos) return users;
  std::istringstream words(text.substr(at + 5, text.find('\n', at + 1) - at - 5));
  for (uid_t uid = 0; words >> uid;) users.push_back(uid);
  return users;
}

std::optional<uid_t> OwnerOfNamespace(pid_t pid) {
  const Fd names(::open(fmt::format("/proc/{}/ns/user", pid).c_str(), O_RDONLY | O_CLOEXEC));
  uid_t owner = 0;
  if (!names.ok() || ::ioctl(names.get(), NS_GET_OWNER_UID, &owner) != 0) return std::nullopt;
  return owner;
}

}  // namespace gpuman::base

#include "keeper/control_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "base/passed_files.h"
#include "base/peer.h"
#include "keeper/job_dir.h"

namespace gpuman::keeper {
namespace {

using base::ErrorCode;

// One daemon needs one connection; there is room for an old and a new daemon, and for a client that a person
// uses.
constexpr std::size_t kMaxConnections = 16;

bool Watch(int epoll_fd, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  return ::epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

bool SendPacket(int fd, const KeeperMessage& message) {
  const std::string packet = SerializeMessage(message);
  return ::send(fd, packet.data(), packet.size(), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
}

bool MayCommand(int fd) {
  const auto peer = base::CredentialsOf(fd);
  return peer && (peer->uid == 0 || peer->uid == ::geteuid());
}

}  // namespace

base::Result<ControlServer> ControlServer::Listen(const std::filesystem::path& job_dir, int epoll_fd) {
  GPUMAN_ASSIGN(const base::Fd directory, OpenDirectory(job_dir));
  base::Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.ok()) return base::FailSystem(errno, "making the control socket");
  (void)::unlinkat(directory.get(), kControlSocket, 0);
  const sockaddr_un address = ControlAddress(directory.get());
  const mode_t before = ::umask(0177);
  const int bound = ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  const int error = errno;
  ::umask(before);
  if (bound != 0) return base::FailSystem(error, fmt::format("binding {}/control", job_dir.string()));
  if (::listen(fd.get(), 128) != 0 || !Watch(epoll_fd, fd.get()))
    return base::FailSystem(errno, "listening on the control socket");
  return ControlServer(std::move(fd), epoll_fd);
}

void ControlServer::Drain(const State& state, const Handler& handler) {
  Accept(state);
  std::erase_if(connections_, [&](Connection& connection) { return !ReadFrom(connection, handler); });
}

void ControlServer::SendReplies() {
  for (auto& connection : connections_) {
    for (const auto& reply : std::exchange(connection.replies, {}))
      if (!SendPacket(connection.fd.get(), reply)) ::shutdown(connection.fd.get(), SHUT_RDWR);
  }
}

void ControlServer::Broadcast(const JournalRecord& record) {
  // A handler may call this: a connection that fails is only shut down here, and the next Drain removes it.
  for (const auto& connection : connections_)
    if (!SendPacket(connection.fd.get(), record)) ::shutdown(connection.fd.get(), SHUT_RDWR);
}

void ControlServer::Accept(const State& state) {
  for (;;) {
    base::Fd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.ok()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return;
    }
    if (!MayCommand(fd.get()) || !SendPacket(fd.get(), state()) || !Watch(epoll_fd_, fd.get())) continue;
    if (connections_.size() == kMaxConnections) connections_.erase(connections_.begin());
    connections_.push_back({std::move(fd), false, {}});
  }
}

bool ControlServer::ReadFrom(Connection& connection, const Handler& handler) {
  std::string packet;
  for (;;) {
    // Peeks at the length first, so that an idle keeper holds no buffer and a packet that is too long is
    // noticed.
    const ssize_t length = ::recv(connection.fd.get(), nullptr, 0, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT);
    if (length < 0 && errno == EINTR) continue;
    if (length < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    if (length == 0 || static_cast<std::size_t>(length) > kMaxPacket) return false;
    packet.resize(static_cast<std::size_t>(length));
    std::vector<base::Fd> files;
    if (base::ReceiveWithFiles(connection.fd.get(), packet.data(), packet.size(), files) != length)
      return false;
    base::Fd file = files.empty() ? base::Fd() : std::move(files.front());  // a command has one at most
    if (!Answer(connection, packet, std::move(file), handler)) return false;
  }
}

bool ControlServer::Answer(Connection& connection, std::string_view packet, base::Fd file,
                           const Handler& handler) {
  const int fd = connection.fd.get();
  auto message = ParseClientMessage(packet);
  if (!message) {
    connection.replies.push_back(Reply{MessageId(packet), std::move(message.error())});
    return true;
  }
  if (const auto* hello = std::get_if<ClientHello>(&*message)) {
    connection.agreed = hello->min_version <= kProtocolVersion && hello->max_version >= kProtocolVersion;
    if (connection.agreed) return true;
    (void)SendPacket(
        fd, Reply{0, base::Error{ErrorCode::kNotSupported,
                                 fmt::format("this keeper speaks version {} only", kProtocolVersion)}});
    return false;
  }
  if (!connection.agreed) return false;
  const auto& numbered = std::get<NumberedCommand>(*message);
  Reply reply{numbered.id, std::nullopt};
  if (auto done = handler(numbered.command, std::move(file)); !done) reply.error = std::move(done.error());
  connection.replies.push_back(std::move(reply));
  return true;
}

}  // namespace gpuman::keeper

#include "daemon/http/server.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <list>
#include <map>

#include "daemon/http/session.h"

namespace gpuman::daemon::http {
namespace asio = boost::asio;

namespace {

Protocol ProtocolOf(int listener) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  return {address.ss_family, address.ss_family == AF_UNIX ? 0 : IPPROTO_TCP};
}

std::optional<Peer> PeerOf(Socket& socket) {
  if (ProtocolOf(socket.native_handle()).family() != AF_UNIX) return Peer{kNobody, kNobody, 0};
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(socket.native_handle(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0)
    return std::nullopt;
  return Peer{credentials.uid, credentials.gid, credentials.pid};
}

}  // namespace

class Server::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::io_context& loop, base::Fd listener, Limits limits, Handler handler)
      : acceptor_(loop, ProtocolOf(listener.get()), listener.Release()),
        retry_(loop),
        common_{std::move(limits), std::move(handler)} {}

  void Accept() {
    acceptor_.async_accept([self = shared_from_this()](boost::system::error_code error, Socket socket) {
      if (self->stopped_) return;
      if (!error) self->Begin(std::move(socket));
      // Out of descriptors: make room and come back soon, instead of spinning on the same error.
      if (error && error != asio::error::connection_aborted) return self->RetrySoon();
      self->Accept();
    });
  }

  void Stop() {
    stopped_ = true;
    boost::system::error_code ignored;
    acceptor_.close(ignored);
    retry_.cancel();
    for (const auto& weak : std::list(sessions_)) {
      if (const auto session = weak.lock()) session->Close();
    }
  }

  std::size_t connections() const { return sessions_.size(); }

 private:
  void Begin(Socket socket) {
    const auto peer = PeerOf(socket);
    if (!peer || (sessions_.size() >= common_.limits.connections && !MakeRoomFor(peer->uid)))
      return base::GuestSocket(GuestStream(std::move(socket)).Release(), common_.closer).HangUp();
    const auto place = sessions_.emplace(sessions_.end());
    // The session refers to what is this object's, and so keeps it alive.
    auto session =
        std::make_shared<Session>(std::move(socket), *peer, common_,
                                  [self = shared_from_this(), place] { self->sessions_.erase(place); });
    *place = session;
    session->Start();
  }

  // By user.
  std::map<uid_t, std::size_t> Counts() const {
    std::map<uid_t, std::size_t> counts;
    for (const auto& weak : sessions_)
      if (const auto session = weak.lock()) ++counts[session->user()];
    return counts;
  }

  static uid_t UserWithMost(const std::map<uid_t, std::size_t>& counts) {
    const auto most = std::max_element(counts.begin(), counts.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    return most == counts.end() ? kNobody : most->first;
  }

  // False: nobody has more than who comes would have, and all of theirs are busy.
  bool MakeRoomFor(uid_t who) {
    auto counts = Counts();
    const uid_t most = UserWithMost(counts);
    if (counts[who] == counts[most]) return CloseOldestSilentOf(who);
    return CloseOldestSilentOf(most) || (counts[most] > counts[who] + 1 && CloseNewestOf(most));
  }

  bool CloseOldestSilentOf(uid_t user) {
    for (const auto& weak : sessions_) {
      const auto session = weak.lock();
      if (!session || session->user() != user || !session->Silent()) continue;
      session->Close();
      return true;
    }
    return false;
  }

  bool CloseNewestOf(uid_t user) {
    for (auto it = sessions_.rbegin(); it != sessions_.rend(); ++it) {
      const auto session = it->lock();
      if (!session || session->user() != user) continue;
      session->Close();
      return true;
    }
    return false;
  }

  void RetrySoon() {
    CloseOldestSilentOf(UserWithMost(Counts()));
    retry_.expires_after(std::chrono::milliseconds(50));
    retry_.async_wait([self = shared_from_this()](boost::system::error_code error) {
      if (!error && !self->stopped_) self->Accept();
    });
  }

  asio::basic_socket_acceptor<Protocol> acceptor_;
  asio::steady_timer retry_;
  Common common_;
  std::list<std::weak_ptr<Session>> sessions_;  // in the order they came
  bool stopped_ = false;
};

Server::Server(asio::io_context& loop, base::Fd listener, Limits limits, Handler handler)
    : impl_(std::make_shared<Impl>(loop, std::move(listener), std::move(limits), std::move(handler))) {
  impl_->Accept();
}

Server::~Server() { impl_->Stop(); }

std::size_t Server::connections() const { return impl_->connections(); }

}  // namespace gpuman::daemon::http

#include "daemon/http/server.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <list>
#include <map>

#include "base/peer.h"
#include "daemon/http/party.h"
#include "daemon/http/session.h"

namespace gpuman::daemon::http {
namespace asio = boost::asio;

namespace {

constexpr uid_t kRoot = 0;
// Connections, before other work on the loop has its turn: to accept one costs little, to begin one more.
constexpr int kAcceptedAtOnce = 1024, kBegunAtOnce = 64;

Protocol ProtocolOf(int listener) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  return {address.ss_family, address.ss_family == AF_UNIX ? 0 : IPPROTO_TCP};
}

std::optional<Peer> PeerOf(Socket& socket) {
  if (ProtocolOf(socket.native_handle()).family() != AF_UNIX) return Peer{kNobody, kNobody, 0, true};
  const auto credentials = base::CredentialsOf(socket.native_handle());
  if (!credentials) return std::nullopt;
  return Peer{credentials->uid, credentials->gid, credentials->pid, false};
}

}  // namespace

class Server::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::io_context& loop, base::Fd listener, ServerLimits limits, Handler handler, Headers headers)
      : acceptor_(loop, ProtocolOf(listener.get()), listener.Release()),
        retry_(loop),
        common_{std::move(limits), std::move(handler), std::move(headers),
                [this](Party who, Work work) { Enter(who, std::move(work)); }} {
    acceptor_.non_blocking(true);
  }

  void Accept() {
    // async_accept would leave an accepted socket to the destructor of the loop when the loop ends. So this
    // only waits, and accepts by itself.
    const auto wait = asio::socket_base::wait_read;
    acceptor_.async_wait(wait, [self = shared_from_this()](boost::system::error_code error) {
      if (self->stopped_) return;
      for (int i = 0; i < kAcceptedAtOnce && !error; ++i) self->AcceptNow(error);
      self->BeginSome();
      if (error == asio::error::would_block) error = {};
      // The process is out of descriptors: the server makes room and tries again soon, instead of looping on
      // the same error.
      if (error && error != asio::error::connection_aborted) return self->RetrySoon();
      self->Accept();
    });
  }

  // A client that connects and closes in a loop fills the backlog. Accepting many connections at once empties
  // it faster.
  void AcceptNow(boost::system::error_code& error) {
    Socket socket(acceptor_.get_executor());
    acceptor_.accept(socket, error);
    if (error) return;
    const bool is_local = ProtocolOf(socket.native_handle()).family() == AF_UNIX;
    const auto peer = PeerOf(socket);
    const Party who = !peer ? 0 : is_local ? PartyOf(peer->uid) : PartyOfTcp(socket.native_handle());
    if (!peer) return HangUp(std::move(socket));
    // Connections begin in turns, one of each party, so nobody waits behind a party that connects in a loop.
    Arrival arrival{std::move(socket), *peer, who};
    if (arrivals_.CountOf(who) < common_.limits.connections)
      arrivals_.Enter(who, std::move(arrival));
    else
      HangUp(arrivals_.Exchange(who, std::move(arrival)).socket);
  }

  void Stop() {
    stopped_ = true;
    // Other users' connections wait in the listener's backlog, perhaps with descriptors that they have
    // passed. To close them may take long, so the Closer does it.
    boost::system::error_code ignored;
    if (const int listener = acceptor_.release(ignored); !ignored) common_.closer->Close(base::Fd(listener));
    retry_.cancel();
    for (const auto& weak : std::list(sessions_)) {
      if (const auto session = weak.lock()) session->Close();
    }
    turns_ = {};
    while (!arrivals_.empty()) HangUp(arrivals_.Next().socket);
  }

  std::size_t connections() const { return sessions_.size(); }

 private:
  // A connection that is accepted and waits to begin.
  struct Arrival {
    Socket socket;
    Peer peer;
    Party who;
  };

  // Lets the handler answer one request; then the loop does other work before the next one. Requests whose
  // clients have gone are no such work: there may be very many of them.
  void Enter(Party who, Work work) {
    turns_.Enter(who, std::move(work));
    PostNext();
  }

  void PostNext() {
    if (std::exchange(posted_, true)) return;
    asio::post(acceptor_.get_executor(), [self = shared_from_this()] {
      self->posted_ = false;
      while (!self->turns_.empty() && !self->turns_.Next()()) {
      }
      if (!self->turns_.empty()) self->PostNext();
    });
  }

  void BeginSome() {
    if (arrivals_.empty() || std::exchange(begins_, true)) return;
    asio::post(acceptor_.get_executor(), [self = shared_from_this()] {
      self->begins_ = false;
      for (int i = 0; i < kBegunAtOnce && !self->arrivals_.empty(); ++i) self->Begin(self->arrivals_.Next());
      self->BeginSome();
    });
  }

  void HangUp(Socket socket) {
    base::UntrustedSocket(UntrustedStream(std::move(socket)).Release(), common_.closer).HangUp();
  }

  void Begin(Arrival arrival) {
    const Party who = arrival.who;
    if (!MakeRoomFor(who)) return HangUp(std::move(arrival.socket));
    const auto place = sessions_.emplace(sessions_.end());
    ++counts_[who];
    // The session refers to members of this object, so its callback keeps this object alive.
    auto session = std::make_shared<Session>(std::move(arrival.socket), arrival.peer, who, common_,
                                             [self = shared_from_this(), place, who] {
                                               self->sessions_.erase(place);
                                               if (--self->counts_[who] == 0) self->counts_.erase(who);
                                             });
    *place = session;
    session->Start();
  }

  std::size_t CountOf(Party who) const {
    const auto found = counts_.find(who);
    return found == counts_.end() ? 0 : found->second;
  }

  std::optional<Party> PartyWithMost() const {
    const auto most = std::max_element(counts_.begin(), counts_.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    return most == counts_.end() ? std::nullopt : std::optional(most->first);
  }

  // False: no party has more connections than `who` would have, and none of the connections that may be
  // closed is silent.
  bool MakeRoomFor(Party who) {
    const std::size_t all = common_.limits.connections;
    if (who != PartyOf(kRoot) && CountOf(who) >= all - all / 4) return CloseOldestSilentOf(who);
    if (sessions_.size() < all) return true;
    const Party most = *PartyWithMost();
    if (CountOf(who) == CountOf(most)) return CloseOldestSilentOf(who);
    return CloseOldestSilentOf(most) || (CountOf(most) > CountOf(who) + 1 && CloseNewestOf(most));
  }

  bool CloseOldestSilentOf(Party who) {
    for (const auto& weak : sessions_) {
      const auto session = weak.lock();
      if (!session || session->party() != who || !session->Silent()) continue;
      session->Close();
      return true;
    }
    return false;
  }

  bool CloseNewestOf(Party who) {
    for (auto it = sessions_.rbegin(); it != sessions_.rend(); ++it) {
      const auto session = it->lock();
      if (!session || session->party() != who) continue;
      session->Close();
      return true;
    }
    return false;
  }

  void RetrySoon() {
    if (const auto most = PartyWithMost()) CloseOldestSilentOf(*most);
    retry_.expires_after(std::chrono::milliseconds(50));
    retry_.async_wait([self = shared_from_this()](boost::system::error_code error) {
      if (!error && !self->stopped_) self->Accept();
    });
  }

  asio::basic_socket_acceptor<Protocol> acceptor_;
  asio::steady_timer retry_;
  SessionShared common_;
  base::RoundRobinQueue<Work> turns_;
  bool posted_ = false;  // the next turn is posted
  base::RoundRobinQueue<Arrival> arrivals_;
  bool begins_ = false;                         // some arrivals are about to begin
  std::list<std::weak_ptr<Session>> sessions_;  // in the order in which they came
  std::map<Party, std::size_t> counts_;         // of sessions; no entry is 0
  bool stopped_ = false;
};

Server::Server(asio::io_context& loop, base::Fd listener, ServerLimits limits, Handler handler,
               Headers headers)
    : impl_(std::make_shared<Impl>(loop, std::move(listener), std::move(limits), std::move(handler),
                                   std::move(headers))) {
  impl_->Accept();
}

Server::~Server() { impl_->Stop(); }

std::size_t Server::connections() const { return impl_->connections(); }

}  // namespace gpuman::daemon::http

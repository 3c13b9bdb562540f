#include "web/server.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <exception>
#include <list>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/tcp_user.h"
#include "web/assets.h"
#include "web/relay.h"

namespace gpuman::web {
namespace {

constexpr std::string_view kApi = "/v1/";

RequestSource SenderOf(const Request& request, std::optional<uid_t> user) {
  return {user, request.host, request.origin, request.fetch_site, request.authorization};
}

// The path of a target, without its query.
std::string_view PathOf(std::string_view target) { return target.substr(0, target.find('?')); }

bool AnswerWithFile(const Request& request, Connection& connection) {
  const auto file = AssetFor(request.method, PathOf(request.target));
  if (!file) return Refuse(connection, file.error());
  Headers headers = CommonHeaders();
  headers.emplace_back("Content-Type", file->content_type);
  headers.emplace_back("Content-Encoding", "gzip");
  return connection.Send(200, headers, file->bytes);
}

// False: the connection cannot be used any more.
bool Answer(const ServerOptions& options, const Request& request, std::optional<uid_t> user,
            Connection& connection) {
  const RequestSource sender = SenderOf(request, user);
  const bool is_call = request.target.starts_with(kApi);
  const auto refusal = is_call ? RefusalOfCall(sender, options.owner) : RefusalOf(sender, options.owner);
  if (refusal) return Refuse(connection, *refusal);
  return is_call ? Relay(options.daemon, request, connection) : AnswerWithFile(request, connection);
}

}  // namespace

// A thread that serves one connection.
class Server::Worker {
 public:
  Worker(base::Fd socket, std::optional<uid_t> user, const ServerOptions& options)
      : connection_(std::move(socket), options.limits),
        thread_([this, user, &options] { Run(user, options); }) {}
  ~Worker() {
    connection_.HangUp();
    thread_.join();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  bool over() const { return over_; }
  void HangUp() const { connection_.HangUp(); }

 private:
  void Run(std::optional<uid_t> user, const ServerOptions& options) {
    try {
      while (const auto request = connection_.Read())
        if (!Answer(options, *request, user, connection_) || !connection_.keeps_alive()) break;
    } catch (const std::exception&) {
      // No memory, as a rule: this connection ends, and the others go on.
    }
    connection_.HangUp();
    over_ = true;
  }

  Connection connection_;
  std::atomic<bool> over_{false};
  std::thread thread_;  // the last member: it uses the others
};

namespace {

constexpr int kPauseWithoutDescriptors = 100;  // ms

}  // namespace

Server::Server(ServerOptions options, LoopbackListeners listeners)
    : options_(std::move(options)), listeners_(std::move(listeners)) {}

base::Result<Server> Server::Open(ServerOptions options) {
  GPUMAN_ASSIGN(LoopbackListeners listeners, ListenOnLoopback(options.port));
  return Server(std::move(options), std::move(listeners));
}

void Server::Serve(int stop) {
  std::list<Worker> workers;
  for (;;) {
    std::array<pollfd, 3> fds{
        {{stop, POLLIN, 0}, {listeners_.ipv4.get(), POLLIN, 0}, {listeners_.ipv6.get(), POLLIN, 0}}};
    if (::poll(fds.data(), fds.size(), -1) < 0 && errno != EINTR) break;
    if (fds[0].revents != 0) break;
    workers.remove_if([](const Worker& worker) { return worker.over(); });
    for (std::size_t i = 1; i < fds.size(); ++i) {
      if (fds[i].revents == 0) continue;
      base::Fd socket(::accept4(fds[i].fd, nullptr, nullptr, SOCK_CLOEXEC));
      if (socket.ok())
        Admit(std::move(socket), workers);
      else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
        ::poll(fds.data(), 1, kPauseWithoutDescriptors);
    }
  }
  for (const Worker& worker : workers) worker.HangUp();
}

// Nobody else can take up the owner's connections. Above their number a new one is closed at once.
void Server::Admit(base::Fd socket, std::list<Worker>& workers) const {
  using State = base::TcpSocketOwner::State;
  const base::TcpSocketOwner other = base::UserAtOtherEnd(socket.get());
  if (other.state == State::kNone || workers.size() >= options_.connections) return;
  const auto user = other.state == State::kKnown ? std::optional(other.user) : std::nullopt;
  if (IsStranger(user, options_.owner)) return;
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  try {
    workers.emplace_back(std::move(socket), user, options_);
  } catch (const std::system_error&) {
    // No thread more: the browser tries again.
  }
}

}  // namespace gpuman::web

#include "web/server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <list>
#include <memory>
#include <thread>
#include <utility>

#include "base/tcp_user.h"
#include "web/assets.h"
#include "web/relay.h"

namespace gpuman::web {
namespace {

constexpr std::string_view kApi = "/v1/";

Sender SenderOf(const Request& request, std::optional<uid_t> user) {
  return {user, request.host, request.origin, request.fetch_site, request.authorization};
}

// The path of a target, without its query.
std::string_view PathOf(std::string_view target) { return target.substr(0, target.find('?')); }

bool AnswerWithFile(const Request& request, Connection& connection) {
  if (request.method != "GET") return SendError(connection, 405, "files of the page are only read", {});
  const auto file = FindAsset(PathOf(request.target));
  if (!file) return SendError(connection, 404, "this server has no such file", "open its first page: /");
  Headers headers = CommonHeaders();
  headers.emplace_back("Content-Type", file->content_type);
  headers.emplace_back("Content-Encoding", "gzip");
  return connection.Send(200, headers, file->bytes);
}

// False: the connection cannot be used any more.
bool Answer(const ServerOptions& options, const Request& request, std::optional<uid_t> user,
            Connection& connection) {
  const Sender sender = SenderOf(request, user);
  const bool is_call = request.target.starts_with(kApi);
  const auto refusal = is_call ? RefusalOfCall(sender, options.owner) : RefusalOf(sender, options.owner);
  if (refusal) return SendError(connection, refusal->status, refusal->message, refusal->hint);
  return is_call ? Relay(options.daemon, request, connection) : AnswerWithFile(request, connection);
}

// A thread that serves one connection.
class Worker {
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

 private:
  void Run(std::optional<uid_t> user, const ServerOptions& options) {
    while (const auto request = connection_.Read())
      if (!Answer(options, *request, user, connection_) || !connection_.keeps_alive()) break;
    connection_.HangUp();
    over_ = true;
  }

  Connection connection_;
  std::atomic<bool> over_{false};
  std::thread thread_;  // the last member: it uses the others
};

}  // namespace

Server::Server(ServerOptions options, base::Fd listener, std::uint16_t port)
    : options_(std::move(options)), listener_(std::move(listener)), port_(port) {}

base::Result<Server> Server::Open(ServerOptions options) {
  base::Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!listener.ok()) return base::FailSystem(errno, "making a socket");
  const int on = 1;
  ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(options.port);
  socklen_t size = sizeof address;
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener.get(), plain, size) != 0 || ::listen(listener.get(), SOMAXCONN) != 0) {
    if (errno == EADDRINUSE)
      return base::Fail(base::ErrorCode::kConflict, fmt::format("port {} is in use", options.port),
                        "give another port, or none for one that is free");
    return base::FailSystem(errno, fmt::format("listening on port {}", options.port));
  }
  if (::getsockname(listener.get(), plain, &size) != 0) return base::FailSystem(errno, "reading the port");
  return Server(std::move(options), std::move(listener), ntohs(address.sin_port));
}

void Server::Serve(int stop) {
  std::list<Worker> workers;
  for (;;) {
    std::array<pollfd, 2> fds{{{listener_.get(), POLLIN, 0}, {stop, POLLIN, 0}}};
    if (::poll(fds.data(), fds.size(), -1) < 0 && errno != EINTR) return;
    if (fds[1].revents != 0) return;
    if (fds[0].revents == 0) continue;
    workers.remove_if([](const Worker& worker) { return worker.over(); });
    base::Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket.ok()) continue;
    // Nobody else can take up the owner's connections. Above their number a new one is closed at once.
    const auto user = base::UserAtOtherEnd(socket.get());
    if (IsStranger(user, options_.owner) || workers.size() >= options_.connections) continue;
    const int on = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    workers.emplace_back(std::move(socket), user, options_);
  }
}

base::Result<std::string> NewSecret() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return base::FailSystem(errno, "getting random numbers");
  std::string secret;
  for (const unsigned char byte : bytes) secret += fmt::format("{:02x}", byte);
  return secret;
}

}  // namespace gpuman::web

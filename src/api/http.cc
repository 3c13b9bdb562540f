#include "api/http.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#include <array>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "api/types.h"
#include "base/paths.h"
#include "base/peer.h"

namespace gpuman::api {
namespace {

namespace http = boost::beast::http;
using boost::system::error_code;

constexpr std::size_t kLargestBody = 512u << 20;  // the queue may have some 100,000 jobs

// A connected socket as Beast's SyncReadStream and SyncWriteStream. Reading waits in poll, so that silence
// has a limit and another descriptor can end it.
class Stream {
 public:
  Stream(base::Fd fd, const HttpOptions& options) : fd_(std::move(fd)), options_(options) {}

  template <typename Buffers>
  std::size_t read_some(const Buffers& buffers, error_code& ec) {
    ec = {};
    if (boost::asio::buffer_size(buffers) == 0) return 0;
    if (!WaitReadable(ec)) return 0;
    const boost::asio::mutable_buffer buffer = *boost::asio::buffer_sequence_begin(buffers);
    ssize_t n = -1;
    do {
      n = ::recv(fd_.get(), buffer.data(), buffer.size(), 0);
    } while (n < 0 && errno == EINTR);
    if (n < 0) ec = error_code(errno, boost::system::system_category());
    if (n == 0) ec = boost::asio::error::make_error_code(boost::asio::error::eof);
    return n > 0 ? static_cast<std::size_t>(n) : 0;
  }
  template <typename Buffers>
  std::size_t read_some(const Buffers& buffers) {
    error_code ec;
    const auto n = read_some(buffers, ec);
    if (ec) throw boost::system::system_error(ec);
    return n;
  }
  // Writes all pieces in one call: each call would wake the daemon.
  template <typename Buffers>
  std::size_t write_some(const Buffers& buffers, error_code& ec) {
    ec = {};
    std::array<iovec, 16> pieces;
    std::size_t count = 0;
    for (auto it = boost::asio::buffer_sequence_begin(buffers);
         it != boost::asio::buffer_sequence_end(buffers) && count < pieces.size(); ++it) {
      const boost::asio::const_buffer buffer = *it;
      if (buffer.size() > 0) pieces[count++] = {const_cast<void*>(buffer.data()), buffer.size()};
    }
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = count;
    ssize_t n = 0;
    do {
      n = count > 0 ? ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL) : 0;
    } while (n < 0 && errno == EINTR);
    if (n < 0) ec = error_code(errno, boost::system::system_category());
    return n > 0 ? static_cast<std::size_t>(n) : 0;
  }
  template <typename Buffers>
  std::size_t write_some(const Buffers& buffers) {
    error_code ec;
    const auto n = write_some(buffers, ec);
    if (ec) throw boost::system::system_error(ec);
    return n;
  }

  bool interrupted() const { return interrupted_; }
  bool silent() const { return silent_; }

 private:
  bool WaitReadable(error_code& ec) {
    using Clock = std::chrono::steady_clock;
    const auto deadline = Clock::now() + options_.patience.value_or(base::Millis(0));
    for (;;) {
      int timeout = -1;
      if (options_.patience) {
        const auto left = std::chrono::ceil<base::Millis>(deadline - Clock::now()).count();
        timeout = static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30));
      }
      std::array<pollfd, 2> fds{{{fd_.get(), POLLIN, 0}, {options_.wake_fd, POLLIN, 0}}};
      const int ready = ::poll(fds.data(), fds.size(), timeout);  // poll ignores a negative descriptor
      if (ready < 0 && errno == EINTR) continue;
      if (ready == 0) {
        silent_ = true;
        ec = error_code(ETIMEDOUT, boost::system::system_category());
        return false;
      }
      if (fds[1].revents != 0 && !(options_.on_wake && options_.on_wake())) {
        interrupted_ = true;
        ec = error_code(ECANCELED, boost::system::system_category());
        return false;
      }
      if (fds[0].revents != 0) return true;
    }
  }

  base::Fd fd_;
  const HttpOptions& options_;
  bool interrupted_ = false;
  bool silent_ = false;
};

tl::unexpected<base::Error> Broken(const Stream& stream, const error_code& ec) {
  using enum base::ErrorCode;
  if (stream.interrupted()) return base::Fail(kConflict, "interrupted");
  if (stream.silent()) return base::Fail(kTimeout, "the daemon accepted the connection but does not answer");
  if (ec == http::error::end_of_stream || ec == http::error::partial_message ||
      ec == boost::asio::error::eof || ec == boost::asio::error::connection_reset ||
      ec == boost::asio::error::broken_pipe)
    return base::Fail(kUnavailable, "the daemon closed the connection before its answer was complete");
  if (ec == http::error::body_limit)
    return base::Fail(kInternal, "the daemon's answer is larger than 512 MiB");
  if (ec.category() == boost::system::system_category())
    return base::Fail(base::SystemError(ec.value(), "talking to the daemon"));
  return base::Fail(kInternal, fmt::format("the daemon's answer is not HTTP: {}", ec.message()));
}

base::Result<> Send(Stream& stream, const HttpRequest& request) {
  http::request<http::string_body> message;
  message.method_string(boost::beast::string_view(request.method.data(), request.method.size()));
  message.target(boost::beast::string_view(request.target.data(), request.target.size()));
  message.version(11);
  message.set(http::field::host, "localhost");
  message.set(http::field::connection, "close");
  if (!request.body.empty()) message.set(http::field::content_type, "application/json");
  message.body() = request.body;
  message.prepare_payload();
  error_code ec;
  http::write(stream, message, ec);
  // A daemon that refuses a body closes early, after it has sent its answer: the client then reads that.
  if (ec && ec.value() != EPIPE && ec.value() != ECONNRESET) return Broken(stream, ec);
  return {};
}

using Parser = http::response_parser<http::buffer_body>;

// Passes the body on in pieces until it ends or `take` returns false.
base::Result<> ReadBody(Stream& stream, boost::beast::flat_buffer& buffer, Parser& parser,
                        const BodySink& take) {
  std::array<char, 16384> piece;
  while (!parser.is_done()) {
    auto& body = parser.get().body();
    body.data = piece.data();
    body.size = piece.size();
    body.more = true;
    error_code ec;
    http::read_some(stream, buffer, parser, ec);
    const std::size_t got = piece.size() - body.size;
    if (got > 0 && !take(std::string_view(piece.data(), got))) return {};
    if (ec == http::error::need_buffer) continue;
    if (ec) return Broken(stream, ec);
  }
  return {};
}

}  // namespace

base::Result<base::Fd> ConnectTo(const std::filesystem::path& socket) {
  GPUMAN_TRY(base::CheckSocketPath(socket));
  base::Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.ok()) return base::FailSystem(errno, "making a socket");
  // On a unix socket the send timeout also limits connect(), which waits while the backlog is full.
  const timeval patience{10, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket.c_str(), socket.native().size() + 1);
  int result = 0;
  do {
    result = ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  } while (result != 0 && errno == EINTR);
  if (result == 0) return fd;
  switch (errno) {
    case ENOENT:
    case ENOTDIR:
      return base::Fail(base::ErrorCode::kUnavailable,
                        fmt::format("no daemon serves {}: there is no such socket", socket.string()));
    case ECONNREFUSED:
      return base::Fail(base::ErrorCode::kUnavailable,
                        fmt::format("no daemon serves {}: nothing listens there", socket.string()));
    case EAGAIN:
      return base::Fail(
          base::ErrorCode::kUnavailable,
          fmt::format("the daemon at {} accepts no connections: it is overloaded", socket.string()));
    default:
      return base::FailSystem(errno, fmt::format("connecting to {}", socket.string()));
  }
}

std::optional<uid_t> PeerUser(int fd) {
  const auto peer = base::CredentialsOf(fd);
  return peer ? std::optional(peer->uid) : std::nullopt;
}

base::Result<HttpAnswer> Exchange(const std::filesystem::path& socket, const HttpRequest& request,
                                  const HttpOptions& options) {
  GPUMAN_ASSIGN(base::Fd fd, ConnectTo(socket));
  return Exchange(std::move(fd), request, options);
}

base::Result<HttpAnswer> Exchange(base::Fd connection, const HttpRequest& request,
                                  const HttpOptions& options) {
  Stream stream(std::move(connection), options);
  GPUMAN_TRY(Send(stream, request));

  boost::beast::flat_buffer buffer;
  Parser parser;
  // Not boost::none: Boost 1.74 then refuses every body of known length.
  parser.body_limit(options.sink ? UINT64_MAX : std::uint64_t{kLargestBody});
  error_code ec;
  http::read_header(stream, buffer, parser, ec);
  if (ec) return Broken(stream, ec);

  HttpAnswer answer;
  answer.status = static_cast<int>(parser.get().result_int());
  const bool success = answer.status >= 200 && answer.status < 300;
  if (success && options.take_note) {
    const auto [first, last] = parser.get().equal_range(kNoteHeader);
    for (auto note = first; note != last; ++note)
      options.take_note({note->value().data(), note->value().size()});
  }
  if (const auto line = parser.get().find(options.header); success && line != parser.get().end())
    options.take_header({line->value().data(), line->value().size()});
  const BodySink collect = [&](std::string_view piece) {
    answer.body += piece;
    return answer.body.size() <= kLargestBody;
  };
  GPUMAN_TRY(ReadBody(stream, buffer, parser, success && options.sink ? options.sink : collect));
  return answer;
}

std::string PercentEncode(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~';
    if (plain)
      out += c;
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

}  // namespace gpuman::api

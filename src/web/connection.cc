#include "web/connection.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <cerrno>

namespace gpuman::web {
namespace {

namespace http = boost::beast::http;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using Parser = http::request_parser<http::string_body>;

constexpr std::size_t kPiece = 16u << 10;  // bytes that are read at a time

std::string_view View(boost::beast::string_view text) { return {text.data(), text.size()}; }

template <typename Fields, typename Name>
std::string OnlyHeader(const Fields& fields, Name name) {
  if (fields.count(name) != 1) return {};
  return std::string(View(fields[name]));
}

std::string Head(int status, const Headers& headers) {
  const auto reason = http::obsolete_reason(static_cast<http::status>(status));
  std::string head = fmt::format("HTTP/1.1 {} {}\r\n", status, View(reason));
  for (const auto& [name, value] : headers) head += fmt::format("{}: {}\r\n", name, value);
  return head;
}

}  // namespace

struct Connection::State {
  boost::beast::flat_buffer buffer;  // received and not parsed yet
  bool keeps_alive = false;
};

Connection::Connection(base::Fd socket, const ConnectionLimits& limits)
    : socket_(std::move(socket)), limits_(limits), state_(std::make_unique<State>()) {}
Connection::~Connection() = default;

bool Connection::keeps_alive() const { return state_->keeps_alive; }
void Connection::HangUp() const { ::shutdown(socket_.get(), SHUT_RDWR); }

std::optional<Request> Connection::Read() {
  Parser parser;
  parser.header_limit(static_cast<std::uint32_t>(limits_.header_bytes));
  parser.body_limit(limits_.body_bytes);
  parser.eager(true);
  state_->keeps_alive = false;
  auto& buffer = state_->buffer;
  auto deadline = Clock::now() + (buffer.size() > 0 ? limits_.request : limits_.idle);
  bool begun = buffer.size() > 0;
  while (!parser.is_done()) {
    error_code error = http::error::need_more;
    if (buffer.size() > 0) buffer.consume(parser.put(buffer.data(), error));
    if (error && error != http::error::need_more) {
      Refuse(error == http::error::body_limit     ? 413
             : error == http::error::header_limit ? 431
                                                  : 400,
             fmt::format("this is no request that this server takes: {}", error.message()));
      return std::nullopt;
    }
    if (parser.is_done()) break;
    // The parser keeps what it cannot take yet, and sets no limit to what a chunk's head may have.
    if (buffer.size() > limits_.header_bytes) {
      Refuse(431, "a line of this request is too long");
      return std::nullopt;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0 || !WaitFor(POLLIN, left)) return std::nullopt;
    const auto space = buffer.prepare(kPiece);
    const ssize_t got = ::recv(socket_.get(), space.data(), space.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return std::nullopt;
    buffer.commit(static_cast<std::size_t>(got));
    if (!std::exchange(begun, true)) deadline = Clock::now() + limits_.request;
  }
  auto message = parser.release();
  state_->keeps_alive = message.keep_alive();
  return Request{std::string(View(message.method_string())),
                 std::string(View(message.target())),
                 OnlyHeader(message, http::field::host),
                 OnlyHeader(message, http::field::origin),
                 OnlyHeader(message, "Sec-Fetch-Site"),
                 OnlyHeader(message, http::field::authorization),
                 std::move(message.body())};
}

bool Connection::Send(int status, const Headers& headers, std::string_view body) {
  return SendAll(fmt::format("{}Content-Length: {}\r\nConnection: {}\r\n\r\n", Head(status, headers),
                             body.size(), keeps_alive() ? "keep-alive" : "close")
                     .append(body));
}

bool Connection::BeginStream(int status, const Headers& headers) {
  return SendAll(fmt::format("{}Transfer-Encoding: chunked\r\nConnection: {}\r\n\r\n", Head(status, headers),
                             keeps_alive() ? "keep-alive" : "close"));
}

bool Connection::Write(std::string_view piece) {
  if (piece.empty()) return true;  // an empty chunk is the end
  return SendAll(fmt::format("{:x}\r\n{}\r\n", piece.size(), piece));
}

bool Connection::EndStream() { return SendAll("0\r\n\r\n"); }

bool Connection::SendAll(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN || !WaitFor(POLLOUT, limits_.send)) return false;
  }
  return true;
}

bool Connection::WaitFor(short events, std::chrono::milliseconds time) const {
  pollfd one{socket_.get(), events, 0};
  int ready = 0;
  do {
    ready = ::poll(&one, 1, static_cast<int>(time.count()));
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

void Connection::Refuse(int status, std::string_view message) {
  Send(status, {{"Content-Type", "text/plain; charset=utf-8"}}, fmt::format("{}\n", message));
}

}  // namespace gpuman::web

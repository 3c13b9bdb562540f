#include "daemon/http/session.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/write.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>
#include <utility>
#include <vector>

#include "api/types.h"
#include "base/await_ready.h"

namespace gpuman::daemon::http {
namespace beast = boost::beast;

namespace {
constexpr std::size_t kDiscard = 64u << 10;
constexpr std::size_t kSmallBody = 64u << 10;    // all connections may send a body of this size at a time
constexpr std::size_t kSmallAnswer = 64u << 10;  // all connections may have an unread answer of this size

template <typename Fields, typename Name>
std::string OnlyHeader(const Fields& fields, Name name) {
  if (fields.count(name) != 1) return {};
  const auto value = fields[name];
  return {value.data(), value.size()};
}

}  // namespace

// Keeps the session alive while the handler holds the answer. If the handler drops it without an answer, it
// closes the connection.
class Session::Answer final : public Exchange {
 public:
  Answer(std::shared_ptr<Session> session, Request request, std::unique_ptr<BodyClaim> claim)
      : session_(std::move(session)), claim_(std::move(claim)), request_(std::move(request)) {}
  ~Answer() override {
    if (!complete_) session_->Abandon();
  }
  const Request& request() const override { return request_; }
  base::Result<base::Peer> Process() const override {
    return base::PeerOf(session_->stream_.socket().native_handle(), session_->accepted_);
  }
  // Clients take heads of some KiB, and one request may name thousands of jobs.
  void Note(std::string_view text) override {
    constexpr std::size_t kMaxNotes = 8, kLongest = 500;
    std::string note(text.substr(0, kLongest));
    std::replace_if(
        note.begin(), note.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
    if (notes_.size() < kMaxNotes && std::find(notes_.begin(), notes_.end(), note) == notes_.end())
      notes_.push_back(std::move(note));
  }
  void Send(Response response) override {
    if (std::exchange(complete_, true)) return;
    LetGoOfBody();
    session_->SendWhole(std::move(response), notes_, session_->keep_alive_);
  }
  void BeginStream(std::string_view content_type, std::string_view header) override {
    session_->BeginStream(content_type, header, notes_);
  }
  void Write(std::string data) override {
    if (!complete_ && !data.empty()) session_->Queue(fmt::format("{:x}\r\n", data.size()) + data + "\r\n");
  }
  void EndStream() override {
    if (std::exchange(complete_, true)) return;
    LetGoOfBody();
    session_->EndStream();
  }
  std::size_t Unsent() const override { return session_->unsent_bytes_; }
  void WhenSent(std::function<void()> sent) override {
    if (!complete_) session_->WhenSent(std::move(sent));
  }
  void OnGone(std::function<void()> gone) override {
    if (complete_) return;
    if (session_->closed_) return gone();
    session_->gone_ = std::move(gone);
  }
  bool Gone() const override { return session_->closed_; }

 private:
  void LetGoOfBody() {
    request_.body = std::string();  // frees the memory; `= {}` would keep it
    claim_.reset();
  }

  std::shared_ptr<Session> session_;
  std::unique_ptr<BodyClaim> claim_;  // destroyed after the body
  Request request_;
  std::vector<std::string> notes_;
  bool complete_ = false;
};

Session::Session(Socket socket, Peer peer, Party party, SessionShared& common,
                 std::function<void()> on_closed)
    : stream_(std::move(socket)),
      deadline_(stream_.get_executor()),
      peer_(peer),
      party_(party),
      common_(common),
      limits_(common.limits),
      on_closed_(std::move(on_closed)) {}

void Session::Close() {
  if (std::exchange(closed_, true)) return;
  waiting_.reset();
  claim_.reset();
  deadline_.cancel();
  RemoveUnsent(unsent_bytes_);
  const auto dropped = std::exchange(sent_, nullptr);
  base::UntrustedSocket(stream_.Release(), common_.closer).HangUp();
  if (auto gone = std::exchange(gone_, nullptr)) gone();
  if (auto on_closed = std::exchange(on_closed_, nullptr)) on_closed();
}

void Session::Abandon() {
  gone_ = nullptr;
  Close();
}

void Session::CloseUnlessWithin(std::chrono::milliseconds time) {
  deadline_.expires_after(time);
  deadline_.async_wait([weak = weak_from_this()](beast::error_code error) {
    const auto self = weak.lock();
    if (error || !self || self->deadline_.expiry() > std::chrono::steady_clock::now()) return;
    self->Close();
  });
}

void Session::CloseNever() { deadline_.expires_at(boost::asio::steady_timer::time_point::max()); }

void Session::Read(std::chrono::milliseconds patience) {
  if (closed_) return;
  answering_ = false;
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(limits_.header_bytes));
  parser_->body_limit(std::max(limits_.body_bytes, limits_.large_body_bytes));
  CloseUnlessWithin(patience);
  beast::http::async_read_header(
      stream_, buffer_, *parser_,
      [self = shared_from_this()](beast::error_code error, std::size_t) { self->OnHeader(error); });
}

void Session::OnHeader(beast::error_code header_error) {
  if (closed_ || header_error) return OnRead(header_error);
  if (!Admit()) return;
  if (parser_->is_done()) return Dispatch();
  CloseUnlessWithin(limits_.request);
  beast::http::async_read(
      stream_, buffer_, *parser_,
      [self = shared_from_this()](beast::error_code error, std::size_t) { self->OnRead(error); });
}

// Whether the client may send the body, as far as the header tells. If not, this function sends the refusal.
bool Session::Admit() {
  const auto length = parser_->content_length();
  if (length && *length > limits_.body_bytes) return AdmitLarge();
  parser_->body_limit(limits_.body_bytes);
  // A chunked request does not say how long its body is, so it counts with the largest size.
  const std::size_t most =
      parser_->chunked() ? limits_.body_bytes : static_cast<std::size_t>(length.value_or(0));
  if (most <= kSmallBody) return true;
  claim_ = BodyClaim::Take(common_.bodies, peer_.uid, most);
  if (!claim_)
    Refuse(503,
           {base::ErrorCode::kUnavailable,
            fmt::format("other requests are being read or answered, and with the {} bytes of this one they "
                        "would have more than you may have at a time",
                        most),
            "try again in a moment"});
  return claim_ != nullptr;
}

bool Session::AdmitLarge() {
  const auto target = parser_->get().target();
  const std::string_view path(target.data(), target.size());
  if (path.substr(0, path.find('?')) != limits_.large_path) {
    RefuseSize(limits_.body_bytes);
    return false;
  }
  const bool goes_first = peer_.uid == 0 || (limits_.goes_first && limits_.goes_first(peer_));
  claim_ = BodyClaim::TakeLarge(common_.bodies, peer_.uid, goes_first);
  if (!claim_)
    Refuse(503, {base::ErrorCode::kUnavailable, "another request of this size is being read or answered",
                 "try again in a moment"});
  return claim_ != nullptr;
}

void Session::RefuseSize(std::size_t limit) {
  Refuse(413, {base::ErrorCode::kInvalidArgument,
               fmt::format("the request's body is larger than {} bytes", limit),
               {}});
}

void Session::OnRead(beast::error_code error) {
  namespace http = beast::http;
  using base::ErrorCode;
  if (closed_) return;
  if (!error) return Dispatch();
  if (error == http::error::body_limit) {
    // If the parser found this in the header, the body is larger than any path allows.
    const bool whole = parser_->is_header_done();
    return RefuseSize(whole ? limits_.body_bytes : std::max(limits_.body_bytes, limits_.large_body_bytes));
  }
  if (error == http::error::header_limit)
    return Refuse(431, {ErrorCode::kInvalidArgument,
                        fmt::format("the request's header is larger than {} bytes", limits_.header_bytes),
                        {}});
  if (error.category() == http::make_error_code(http::error::bad_method).category() &&
      error != http::error::end_of_stream)
    return Refuse(400, {ErrorCode::kInvalidArgument, "this is no HTTP request: " + error.message(), {}});
  Close();  // gone, silent for too long, or closed by us
}

void Session::Refuse(unsigned status, const base::Error& error) {
  auto response = ErrorResponse(error);
  response.status = status;
  refused_ = true;
  SendWhole(std::move(response), {}, /*keep_alive=*/false);
}

void Session::Dispatch() {
  auto message = parser_->release();
  answering_ = true;
  keep_alive_ = message.keep_alive();
  Request request;
  request.peer = peer_;
  request.party = party_;
  request.method = std::string(message.method_string());
  const std::string_view target(message.target().data(), message.target().size());
  const auto question = target.find('?');
  request.path = std::string(target.substr(0, question));
  if (question != std::string_view::npos) request.query = ParseQuery(target.substr(question + 1));
  request.body = std::move(message.body());
  request.host = OnlyHeader(message, beast::http::field::host);
  request.origin = OnlyHeader(message, beast::http::field::origin);
  request.fetch_site = OnlyHeader(message, "Sec-Fetch-Site");
  request.authorization = OnlyHeader(message, beast::http::field::authorization);
  if (!request.path.starts_with('/'))
    return Refuse(400, {base::ErrorCode::kInvalidArgument, "the request's target is not a path", {}});
  CloseNever();
  WatchForGone();
  waiting_ = std::move(request);
  // A session that is closed before its turn is destroyed at once: the wait of WatchForGone owns it.
  common_.enter(party_, [weak = weak_from_this()] {
    const auto self = weak.lock();
    return self && self->Handle();
  });
}

bool Session::Handle() {
  if (closed_) return false;
  auto request = *std::exchange(waiting_, std::nullopt);
  common_.handler(std::make_shared<Answer>(shared_from_this(), std::move(request), std::move(claim_)));
  return true;
}

// While a request is being answered the session reads nothing, so it notices only here that the client has
// gone.
void Session::WatchForGone() {
  if (watching_) return;
  watching_ = true;
  stream_.socket().async_wait(Socket::wait_read, [self = shared_from_this()](beast::error_code error) {
    self->watching_ = false;
    if (error || !self->answering_) return;
    char byte = 0;
    const ssize_t n = ::recv(self->stream_.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN)) return self->Close();
    // If the next request has arrived, the socket stays readable until the session reads it, so the session
    // watches for a hang-up instead.
    n > 0 ? self->WatchForHangUp() : self->WatchForGone();
  });
}

// Out-of-band data also end this wait, and then the connection. No client of gpuman sends any.
void Session::WatchForHangUp() {
  if (std::exchange(watching_hang_up_, true)) return;
  base::AwaitReady(stream_.socket(), Socket::wait_error, POLLPRI, [self = shared_from_this()] {
    self->watching_hang_up_ = false;
    if (self->answering_) self->Close();
  });
}

void Session::SendWhole(Response response, const std::vector<std::string>& notes, bool keep_alive) {
  namespace http = beast::http;
  if (closed_) return;
  // If no other answer to the party is unread, the answer is sent, however long it is.
  const auto others = common_.unsent.find(party_);
  if (others != common_.unsent.end() && response.body.size() > kSmallAnswer &&
      others->second + response.body.size() > limits_.unsent_of_party)
    response =
        ErrorResponse({base::ErrorCode::kUnavailable,
                       fmt::format("this answer has {} bytes, and {} bytes of other answers to you are not "
                                   "read yet; what the request changed stays changed",
                                   response.body.size(), others->second),
                       "read the other answers, then ask again"});
  auto message =
      std::make_shared<http::response<http::string_body>>(http::int_to_status(response.status), 11);
  message->set(http::field::server, "gpumand");
  message->set(http::field::content_type, response.content_type);
  for (const auto& headers : {common_.headers, response.headers})
    for (const auto& [name, value] : headers) message->set(name, value);
  for (const auto& note : notes) message->insert(api::kNoteHeader, note);
  message->keep_alive(keep_alive);
  message->body() = std::move(response.body);
  message->prepare_payload();
  CloseUnlessWithin(limits_.send);
  AddUnsent(message->body().size());
  http::async_write(stream_.socket(), *message,
                    [self = shared_from_this(), message, keep_alive](beast::error_code error, std::size_t) {
                      if (error || self->closed_) return self->Close();
                      self->RemoveUnsent(message->body().size());
                      self->Finish(keep_alive);
                    });
}

void Session::BeginStream(std::string_view content_type, std::string_view header,
                          const std::vector<std::string>& notes) {
  streaming_ = true;
  ending_ = false;
  std::string lines(header);
  if (!lines.empty()) lines += "\r\n";
  for (const auto& note : notes) lines += fmt::format("{}: {}\r\n", api::kNoteHeader, note);
  for (const auto& [name, value] : common_.headers) lines += fmt::format("{}: {}\r\n", name, value);
  Queue(
      fmt::format("HTTP/1.1 200 OK\r\nServer: gpumand\r\nContent-Type: {}\r\nCache-Control: no-cache\r\n"
                  "Transfer-Encoding: chunked\r\n{}\r\n",
                  content_type, lines));
}

void Session::Queue(std::string data) {
  if (closed_) return;
  AddUnsent(data.size());
  unsent_.push_back(std::move(data));
  if (unsent_bytes_ > limits_.unsent_bytes || common_.unsent[party_] > limits_.unsent_of_party)
    return Close();
  Flush();
}

void Session::AddUnsent(std::size_t bytes) {
  if (bytes == 0) return;
  unsent_bytes_ += bytes;
  common_.unsent[party_] += bytes;
}

void Session::RemoveUnsent(std::size_t bytes) {
  if (bytes == 0) return;
  unsent_bytes_ -= bytes;
  const auto all = common_.unsent.find(party_);
  all->second -= bytes;
  if (all->second == 0) common_.unsent.erase(all);
}

void Session::WhenSent(std::function<void()> sent) {
  if (closed_) return;
  if (unsent_bytes_ == 0) return sent();
  sent_ = std::move(sent);
}

void Session::EndStream() {
  ending_ = true;
  Queue("0\r\n\r\n");
}

void Session::Flush() {
  if (sending_ || unsent_.empty()) return;
  sending_ = true;
  CloseUnlessWithin(limits_.send);
  boost::asio::async_write(stream_.socket(), boost::asio::buffer(unsent_.front()),
                           [self = shared_from_this()](beast::error_code error, std::size_t) {
                             self->sending_ = false;
                             if (error) return self->Close();
                             self->CloseNever();
                             if (self->closed_) return;
                             self->RemoveUnsent(self->unsent_.front().size());
                             self->unsent_.pop_front();
                             if (!self->unsent_.empty()) return self->Flush();
                             if (self->streaming_ && self->ending_) return self->Finish(self->keep_alive_);
                             if (const auto sent = std::exchange(self->sent_, nullptr)) sent();
                           });
}

void Session::Finish(bool keep_alive) {
  streaming_ = false;
  gone_ = nullptr;
  if (keep_alive && stream_.socket().is_open()) return Read(limits_.idle);
  beast::error_code ignored;
  stream_.socket().shutdown(Socket::shutdown_send, ignored);
  if (!refused_) return Close();
  CloseUnlessWithin(limits_.request);
  Linger();
}

// Reads and discards the rest of a refused request. Else a client that sends its whole request before it
// reads the answer would get a broken pipe instead of the reason of the refusal. Ends when the client closes
// the connection, or after the time for a request.
void Session::Linger() {
  buffer_.clear();
  stream_.async_read_some(buffer_.prepare(kDiscard),
                          [self = shared_from_this()](beast::error_code error, std::size_t) {
                            error ? self->Close() : self->Linger();
                          });
}

}  // namespace gpuman::daemon::http

#include "plugins/kubernetes/rpc_client.h"

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <optional>

#include "base/parse_number.h"
#include "plugins/kubernetes/http2.h"

namespace gpuman::kubernetes {
namespace {

class ClientConnection : public Http2Connection {
 public:
  ClientConnection(Socket socket, const std::string& message, CallDone done)
      : Http2Connection(std::move(socket), Side::kClient), out_(Frame(message)), done_(std::move(done)) {}

  void Ask(const std::string& method, boost::asio::steady_timer timer, std::chrono::milliseconds patience) {
    timer_.emplace(std::move(timer));
    timer_->expires_after(patience);
    const auto self = shared_from_this();
    timer_->async_wait([this, self](boost::system::error_code error) {
      if (error) return;
      Answer(base::Fail(base::ErrorCode::kTimeout, "no answer"));
      Close();
    });
    const nghttp2_nv headers[] = {Header(":method", "POST"),
                                  Header(":scheme", "http"),
                                  Header(":path", method),
                                  Header(":authority", "localhost"),
                                  Header("content-type", "application/grpc"),
                                  Header("te", "trailers")};
    const nghttp2_data_provider provider{{.ptr = this}, &Provide};
    nghttp2_submit_request(session(), nullptr, headers, std::size(headers), &provider, nullptr);
    Begin();
  }

 private:
  static ssize_t Provide(nghttp2_session*, std::int32_t, std::uint8_t* buffer, std::size_t room,
                         std::uint32_t* flags, nghttp2_data_source* source, void*) {
    auto& out = static_cast<ClientConnection*>(source->ptr)->out_;
    const auto size = std::min(room, out.size());
    std::copy_n(out.data(), size, buffer);
    out.erase(0, size);
    if (out.empty()) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return static_cast<ssize_t>(size);
  }

  void OnHeader(std::int32_t, std::string_view name, std::string_view value) override {
    if (name == "grpc-message") status_.message = DecodeStatusMessage(value);
    if (name == ":status" && value != "200") http_ = value;
    if (name != "grpc-status") return;
    status_.code = static_cast<RpcCode>(base::TakeNumber<int>(value).value_or(0));
    answered_ = true;
  }
  void OnData(std::int32_t, std::string_view bytes) override {
    if (refused_) return;
    refused_ = in_.Feed(bytes);
    for (auto& message : in_.Take()) answer_ = std::move(message);
  }
  void OnEnd(std::int32_t) override {}
  void OnClosed(std::int32_t) override {
    if (refused_)
      Answer(RpcAnswer{*refused_, {}});
    else if (answered_)
      Answer(RpcAnswer{status_, status_.code == RpcCode::kOk ? std::move(answer_) : std::string()});
    else
      Answer(base::Fail(base::ErrorCode::kUnavailable,
                        http_.empty() ? "the call was cut off" : "the answer is HTTP status " + http_));
    nghttp2_session_terminate_session(session(), NGHTTP2_NO_ERROR);
  }
  void OnGone() override { Answer(base::Fail(base::ErrorCode::kUnavailable, "the connection was closed")); }

  void Answer(base::Result<RpcAnswer> result) {
    if (timer_) timer_->cancel();
    if (auto done = std::exchange(done_, nullptr)) done(std::move(result));
  }

  std::string out_, http_, answer_;
  RpcMessageReader in_;
  std::optional<RpcStatus> refused_;  // the bytes are not a message
  CallDone done_;
  std::optional<boost::asio::steady_timer> timer_;
  RpcStatus status_;
  bool answered_ = false;
};

}  // namespace

void Call(boost::asio::io_context& loop, const std::filesystem::path& socket, const std::string& method,
          const std::string& message, std::chrono::milliseconds patience, CallDone done) {
  // A connect to a unix socket does not wait: it succeeds, or is refused, or the queue is full.
  Http2Connection::Socket connection(loop);
  boost::system::error_code error;
  connection.open(boost::asio::local::stream_protocol(), error);
  if (!error) connection.non_blocking(true, error);
  if (!error) connection.connect(boost::asio::local::stream_protocol::endpoint(socket.native()), error);
  if (error) return done(base::FailSystem(error.value(), "connecting to " + socket.string()));
  std::make_shared<ClientConnection>(std::move(connection), message, std::move(done))
      ->Ask(method, boost::asio::steady_timer(loop), patience);
}

}  // namespace gpuman::kubernetes

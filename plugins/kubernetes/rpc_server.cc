#include "plugins/kubernetes/rpc_server.h"

#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <map>

#include "plugins/kubernetes/http2.h"

namespace gpuman::kubernetes {
namespace {

using Protocol = boost::asio::local::stream_protocol;

std::uint64_t InodeOf(const std::filesystem::path& path) {
  struct stat found {};
  return ::lstat(path.c_str(), &found) == 0 ? found.st_ino : 0;
}

}  // namespace

class ServerConnection : public Http2Connection {
 public:
  ServerConnection(Socket socket, CallHandler handle)
      : Http2Connection(std::move(socket), Side::kServer), handle_(std::move(handle)) {}

  void Send(std::int32_t id, std::string_view message) {
    if (Stream* stream = Open(id)) {
      stream->out += Frame(message);
      Resume(id, *stream);
    }
  }
  void Finish(std::int32_t id, const RpcStatus& status) {
    if (Stream* stream = Open(id)) {
      stream->status = status;
      Resume(id, *stream);
    }
  }
  bool IsOpen(std::int32_t id) { return Open(id) != nullptr; }

 private:
  struct Stream {
    std::string method;
    RpcMessageReader in;
    std::string out;
    std::optional<RpcStatus> status;
    bool answered = false;  // the headers of the answer are submitted
  };

  // nullptr: the stream is closed, or finished.
  Stream* Open(std::int32_t id) {
    const auto found = streams_.find(id);
    return found == streams_.end() || found->second.status ? nullptr : &found->second;
  }

  void OnHeader(std::int32_t id, std::string_view name, std::string_view value) override {
    auto& stream = streams_[id];
    if (name == ":path") stream.method = value;
  }
  void OnData(std::int32_t id, std::string_view bytes) override {
    if (Stream* stream = Open(id))
      if (const auto refused = stream->in.Feed(bytes)) Finish(id, *refused);
  }
  void OnEnd(std::int32_t id) override {
    Stream* stream = Open(id);
    if (!stream) return;
    auto messages = stream->in.Take();
    if (messages.size() != 1 || stream->in.in_the_middle())
      return Finish(id, {RpcCode::kInternal, "a call has one message, whole"});
    const auto self = std::static_pointer_cast<ServerConnection>(shared_from_this());
    handle_(std::make_shared<ServerCall>(self, id, stream->method, std::move(messages.front())));
  }
  void OnClosed(std::int32_t id) override { streams_.erase(id); }
  void OnGone() override { streams_.clear(); }

  void Resume(std::int32_t id, Stream& stream) {
    if (!std::exchange(stream.answered, true)) {
      const nghttp2_nv headers[] = {Header(":status", "200"), Header("content-type", "application/grpc")};
      const nghttp2_data_provider provider{{.ptr = this}, &Provide};
      nghttp2_submit_response(session(), id, headers, std::size(headers), &provider);
    } else {
      nghttp2_session_resume_data(session(), id);
    }
    Flush();
  }

  static ssize_t Provide(nghttp2_session* session, std::int32_t id, std::uint8_t* buffer, std::size_t room,
                         std::uint32_t* flags, nghttp2_data_source* source, void*) {
    auto& streams = static_cast<ServerConnection*>(source->ptr)->streams_;
    const auto found = streams.find(id);
    if (found == streams.end()) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    auto& stream = found->second;
    const auto size = std::min(room, stream.out.size());
    std::copy_n(stream.out.data(), size, buffer);
    stream.out.erase(0, size);
    if (!stream.out.empty()) return static_cast<ssize_t>(size);
    if (!stream.status) return size > 0 ? static_cast<ssize_t>(size) : ssize_t{NGHTTP2_ERR_DEFERRED};
    *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    const auto code = std::to_string(static_cast<int>(stream.status->code));
    const auto message = EncodeStatusMessage(stream.status->message);
    const nghttp2_nv trailers[] = {Header("grpc-status", code), Header("grpc-message", message)};
    nghttp2_submit_trailer(session, id, trailers, std::size(trailers));
    return static_cast<ssize_t>(size);
  }

  const CallHandler handle_;
  std::map<std::int32_t, Stream> streams_;
};

void ServerCall::Send(std::string_view message) {
  if (const auto connection = connection_.lock()) connection->Send(stream_, message);
}

void ServerCall::Finish(const RpcStatus& status) {
  if (const auto connection = connection_.lock()) connection->Finish(stream_, status);
}

bool ServerCall::over() const {
  const auto connection = connection_.lock();
  return !connection || !connection->IsOpen(stream_);
}

base::Result<std::unique_ptr<RpcServer>> RpcServer::Listen(boost::asio::io_context& loop,
                                                           const std::filesystem::path& socket,
                                                           CallHandler handle) {
  if (socket.native().size() >= sizeof(sockaddr_un::sun_path))
    return base::Fail(base::ErrorCode::kInvalidArgument,
                      "the path of a socket may not be so long: " + socket.string());
  std::unique_ptr<RpcServer> server(new RpcServer(loop, socket, std::move(handle)));
  boost::system::error_code error;
  const auto failed = [&] { return base::FailSystem(error.value(), "listening at " + socket.string()); };
  std::error_code ignored;
  std::filesystem::remove(socket, ignored);
  const Protocol::endpoint endpoint(socket.native());
  if (server->acceptor_.open(endpoint.protocol(), error); error) return failed();
  if (server->acceptor_.bind(endpoint, error); error) return failed();
  server->inode_ = InodeOf(socket);
  if (server->acceptor_.listen(boost::asio::socket_base::max_listen_connections, error); error)
    return failed();
  server->Accept();
  return server;
}

RpcServer::~RpcServer() {
  for (const auto& known : connections_)
    if (const auto connection = known.lock()) connection->Close();
  std::error_code ignored;
  if (IsThere()) std::filesystem::remove(socket_, ignored);
}

bool RpcServer::IsThere() const { return inode_ != 0 && InodeOf(socket_) == inode_; }

void RpcServer::Accept() {
  acceptor_.async_accept([this](boost::system::error_code error, Protocol::socket socket) {
    if (error == boost::asio::error::operation_aborted) return;  // this server is gone
    if (!error) {
      std::erase_if(connections_, [](const auto& known) { return known.expired(); });
      const auto connection = std::make_shared<ServerConnection>(std::move(socket), handle_);
      connections_.push_back(connection);
      connection->Begin();
    }
    Accept();
  });
}

}  // namespace gpuman::kubernetes

// Serves gRPC calls on a unix socket, on the event loop. Not thread-safe.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "plugins/kubernetes/rpc.h"

namespace gpuman::kubernetes {

class ServerConnection;

// One call of a client. The holder of a call may answer at any time; after the client has gone, an answer
// does nothing.
class ServerCall {
 public:
  ServerCall(std::weak_ptr<ServerConnection> connection, std::int32_t stream, std::string method,
             std::string request)
      : connection_(std::move(connection)),
        stream_(stream),
        method_(std::move(method)),
        request_(std::move(request)) {}

  const std::string& method() const { return method_; }    // "/v1beta1.DevicePlugin/Allocate"
  const std::string& request() const { return request_; }  // the single message
  void Send(std::string_view message);
  void Finish(const RpcStatus& status);
  // The call is finished, or the client has hung up.
  bool over() const;

 private:
  const std::weak_ptr<ServerConnection> connection_;
  const std::int32_t stream_;
  const std::string method_, request_;
};

using CallHandler = std::function<void(std::shared_ptr<ServerCall>)>;

class RpcServer {
 public:
  // Replaces an existing socket. Calls `handle` for each call whose message is complete.
  static base::Result<std::unique_ptr<RpcServer>> Listen(boost::asio::io_context& loop,
                                                         const std::filesystem::path& socket,
                                                         CallHandler handle);
  // Hangs up, and removes the socket's file if it is still this server's.
  ~RpcServer();
  RpcServer(const RpcServer&) = delete;
  RpcServer& operator=(const RpcServer&) = delete;

  // Whether the socket's file is still this server's.
  bool IsThere() const;

 private:
  RpcServer(boost::asio::io_context& loop, std::filesystem::path socket, CallHandler handle)
      : acceptor_(loop), socket_(std::move(socket)), handle_(std::move(handle)) {}
  void Accept();

  boost::asio::local::stream_protocol::acceptor acceptor_;
  const std::filesystem::path socket_;
  std::uint64_t inode_ = 0;
  const CallHandler handle_;
  std::vector<std::weak_ptr<ServerConnection>> connections_;
};

}  // namespace gpuman::kubernetes

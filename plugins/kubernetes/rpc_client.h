// One gRPC call with one message each way, over a unix socket, on the event loop.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

#include "base/result.h"
#include "plugins/kubernetes/rpc.h"

namespace gpuman::kubernetes {

struct RpcAnswer {
  RpcStatus status;
  std::string message;  // the answer; empty where the status is not kOk
};
// The answer, or kUnavailable or kTimeout where none came.
using CallDone = std::function<void(base::Result<RpcAnswer>)>;

// Calls `done` once, from the loop, after at most `patience`.
void Call(boost::asio::io_context& loop, const std::filesystem::path& socket, const std::string& method,
          const std::string& message, std::chrono::milliseconds patience, CallDone done);

}  // namespace gpuman::kubernetes

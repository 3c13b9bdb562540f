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

// What came of it: the other side's status, or kUnavailable or kTimeout where there was none.
using CallDone = std::function<void(base::Result<RpcStatus>)>;

// `done` is called once, from the loop, after at most `patience`.
void Call(boost::asio::io_context& loop, const std::filesystem::path& socket, const std::string& method,
          const std::string& message, std::chrono::milliseconds patience, CallDone done);

}  // namespace gpuman::kubernetes

// An address to listen on, as users write it: "127.0.0.1:9835", "[::1]:9835". Values; pure.
#pragma once

#include <sys/socket.h>

#include <string>
#include <string_view>

#include "base/result.h"

namespace gpuman::daemon {

struct TcpAddress {
  sockaddr_storage socket{};
  socklen_t size = 0;
  std::string text{};  // as it was written
};

// An IPv4 or IPv6 address and a port from 1 to 65535; names are not looked up. kInvalidArgument says what is
// wrong.
base::Result<TcpAddress> ParseTcpAddress(std::string_view text);

// Whether it is 127.0.0.1 or [::1], which only this machine can reach.
bool IsLoopback(const TcpAddress& address);

}  // namespace gpuman::daemon

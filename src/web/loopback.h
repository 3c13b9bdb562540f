// Sockets that listen on the loopback device: on 127.0.0.1 and, at the same port, on [::1]. Thread-safe.
#pragma once

#include <cstdint>

#include "base/fd.h"
#include "base/result.h"

namespace gpuman::web {

// Accepting from them does not block.
struct LoopbackListeners {
  base::Fd ipv4;
  base::Fd ipv6;  // absent where the machine has no IPv6
  std::uint16_t port = 0;
};

// `port` 0: one that is free. kConflict: somebody has it, on either address.
base::Result<LoopbackListeners> ListenOnLoopback(std::uint16_t port);

}  // namespace gpuman::web

// One message with descriptors, on a seqpacket socket.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"

namespace gpuman::mover {

struct Packet {
  std::string text;
  std::vector<base::Fd> files;
};

// Waits without limit. nullopt: the other side has closed.
std::optional<Packet> ReceivePacket(int socket);
bool SendPacket(int socket, std::string_view text, std::span<const int> files = {});

}  // namespace gpuman::mover

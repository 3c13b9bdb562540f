#include "mover/packet.h"

#include "ledger/wire/transfer.h"
#include "suspend/request.h"

namespace gpuman::mover {

namespace wire = ledger::wire;

std::optional<Packet> ReceivePacket(int socket) {
  Packet packet;
  packet.text.resize(suspend::kMaxLine);
  int files[wire::kMaxParts];
  unsigned count = 0;
  const ssize_t got = wire::ReceiveWith(socket, packet.text.data(), packet.text.size(), files, count, -1);
  for (unsigned i = 0; i < count; ++i) packet.files.emplace_back(files[i]);
  if (got <= 0) return std::nullopt;
  packet.text.resize(static_cast<std::size_t>(got));
  return packet;
}

bool SendPacket(int socket, std::string_view text, std::span<const int> files) {
  return wire::SendWith(socket, text.data(), text.size(), files.data(), static_cast<unsigned>(files.size()),
                        -1);
}

}  // namespace gpuman::mover

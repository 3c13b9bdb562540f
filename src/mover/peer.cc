#include "mover/peer.h"

#include <fmt/format.h>
#include <unistd.h>

#include "ledger/wire/transfer.h"

namespace gpuman::mover {

using base::ErrorCode;
using base::Fail;
using base::Result;
namespace wire = ledger::wire;

tl::unexpected<base::Error> WentBack() {
  return Fail(ErrorCode::kUnavailable, "the process went back on it, or ended");
}

Result<PartsMessage> ReceiveParts(int connection) {
  PartsMessage message;
  wire::TransferParts& parts = message.parts;
  int numbers[wire::kMaxParts];
  unsigned count = 0;
  const ssize_t got = wire::ReceiveWith(connection, &parts, sizeof parts, numbers, count, kPeerMs);
  for (unsigned i = 0; i < count; ++i) message.files.emplace_back(numbers[i]);
  if (got != sizeof parts || parts.magic != wire::kPartsMagic || parts.count != count) return WentBack();
  // Otherwise a process could keep the mover receiving for ever.
  if (count == 0 && parts.last == 0) return WentBack();
  return message;
}

void Refuse(int connection, wire::OrderError error) {
  constexpr std::uint32_t kOutOfMemory = 2;  // CUDA_ERROR_OUT_OF_MEMORY
  const std::uint32_t driver = error == wire::OrderError::kNoRoom ? kOutOfMemory : 0;
  const wire::TransferReply reply{wire::kReplyMagic, 0, 1, wire::PackError(error, driver)};
  (void)wire::SendWith(connection, &reply, sizeof reply, nullptr, 0, 0);
}

Result<ReceiptKind> AwaitReceipt(int connection, const base::ProcessId& process) {
  constexpr int kPollIntervalMs = 500;
  wire::TransferReply reply{};
  int files[wire::kMaxParts];
  unsigned count = 0;
  ssize_t got = -1;
  do {
    got = wire::ReceiveWith(connection, &reply, sizeof reply, files, count, kPollIntervalMs);
    for (unsigned i = 0; i < count; ++i) ::close(files[i]);
  } while (got < 0 && base::IsAlive(process));
  if (got != sizeof reply || reply.magic != wire::kReplyMagic) return WentBack();
  if (reply.error != 0)
    return Fail(ErrorCode::kInternal, fmt::format("the process could not: error {}, CUDA error {}",
                                                  static_cast<unsigned>(wire::OrderErrorOf(reply.error)),
                                                  wire::DriverErrorOf(reply.error)));
  return reply.last == 0 ? ReceiptKind::kOwn : ReceiptKind::kDone;
}

Result<> SayDone(int connection) {
  const wire::TransferReply reply{wire::kReplyMagic, 0, 1, 0};
  if (wire::SendWith(connection, &reply, sizeof reply, nullptr, 0, kPeerMs)) return {};
  return WentBack();
}

}  // namespace gpuman::mover

// Messages to and from a process whose memory the mover takes or gives back (ledger/wire/transfer.h).
#pragma once

#include <vector>

#include "base/fd.h"
#include "base/process.h"
#include "base/result.h"
#include "ledger/wire/orders.h"
#include "ledger/wire/transfer.h"

namespace gpuman::mover {

inline constexpr int kPeerMs = 60'000;  // how long the process may take to send its messages

tl::unexpected<base::Error> WentBack();

// One message of memory that a process hands out, with a descriptor for each part. kUnavailable: the process
// gave up, or sent anything else.
struct PartsMessage {
  ledger::wire::TransferParts parts{};
  std::vector<base::Fd> files{};
};
base::Result<PartsMessage> ReceiveParts(int connection);

// Tells the process that nothing was done.
void Refuse(int connection, ledger::wire::OrderError error);
// Tells the process that the mover has done its part.
base::Result<> SayDone(int connection);

// kOwn: the process cannot import, and makes its own memory for the mover to fill. AwaitReceipt waits as long
// as the process lives, even if it is stopped: only the process can tell whether it has given its memory
// away, or has it. kUnavailable: the process gave up, or ended.
enum class ReceiptKind { kDone, kOwn };
base::Result<ReceiptKind> AwaitReceipt(int connection, const base::ProcessId& process);

}  // namespace gpuman::mover

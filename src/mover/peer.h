// What the mover says to a process whose memory it has or gives, and hears of it (ledger/wire/transfer.h).
#pragma once

#include "base/process.h"
#include "base/result.h"
#include "ledger/wire/orders.h"

namespace gpuman::mover {

inline constexpr int kPeerMs = 60'000;  // for the process to say what it has to

tl::unexpected<base::Error> WentBack();

// Nothing was done.
void Refuse(int connection, ledger::wire::Trouble trouble);
// The mover has done its part.
base::Result<> SayDone(int connection);

// kOwn: it cannot import, and makes memory of its own for the mover to fill. Waits as long as the process
// lives, also stopped: whether it has given up its memory, or has it, is for it to say. kUnavailable: it went
// back on it, or ended.
enum class Receipt { kDone, kOwn };
base::Result<Receipt> AwaitReceipt(int connection, const base::ProcessId& process);

}  // namespace gpuman::mover

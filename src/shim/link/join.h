// The connection to the daemon: to ask for the job's ledger, to call the daemon, and to notify it.
#pragma once

#include <cstdint>

#include "ledger/wire/layout.h"

namespace gpuman::shim {

enum class JoinOutcome {
  kJoined,
  kNoJob,    // a daemon answered, but none has this process in a job (or speaks our version)
  kNoDaemon  // no daemon answered, or the one that the environment names did not
};

struct JoinedLedger {
  ledger::wire::Ledger* ledger;
  unsigned slot;
  int file;
};

// How long the shim waits for daemons, for all of them together.
struct Patience {
  int connect_ms;  // until a daemon takes the connection
  int answer_ms;   // then until the daemon answers
};

// Connects to the socket at which this process joined (the daemon may have been started again since), and
// sends a ShimHello with `magic` (transfer.h). Returns the connection; -1: there is no daemon, or it does not
// take the connection within `patience_ms`.
int CallDaemon(std::uint32_t magic, int patience_ms);

// Tells the daemon that the slot of this process has something new to say. The shim does not wait for the
// daemon, so the notification may be lost. It keeps errno.
void NotifyDaemon();

// Asks each daemon that there may be for the job's ledger. Where the process joins, one descriptor stays open
// (`joined.file`).
JoinOutcome AskForLedger(JoinedLedger& joined, Patience patience);

}  // namespace gpuman::shim

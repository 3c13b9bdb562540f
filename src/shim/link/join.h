// The connection to the daemon: asking for the job's ledger, calling the daemon, notifying it.
#pragma once

#include <cstdint>

#include "ledger/wire/layout.h"

namespace gpuman::shim {

enum class Reply {
  kJoined,
  kNoJob,    // a daemon answered, and none of them has this process in a job (or speaks our version)
  kNoDaemon  // nobody answered
};

struct JoinedLedger {
  ledger::wire::Ledger* ledger;
  unsigned slot;
  int file;
};

// How long the shim waits for daemons, for all of them together.
struct Patience {
  int connect_ms;  // until one takes the connection
  int answer_ms;   // then until it answers
};

// Connects to the daemon that this process joined by, or to the one that is there now, and says `magic`
// (transfer.h). It returns the connection; -1: there is no daemon, or it does not take the connection within
// so many milliseconds.
int CallDaemon(std::uint32_t magic, int patience_ms);

// Tells the daemon that the slot of this process has something new to say. It does not wait for the daemon,
// so the daemon may miss it. It keeps errno.
void NotifyDaemon();

// Asks each daemon that there may be. It leaves one descriptor open, in `joined`.
Reply AskForLedger(JoinedLedger& joined, Patience patience);

}  // namespace gpuman::shim

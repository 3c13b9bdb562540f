// Asking the daemon for the job's ledger.
#pragma once

#include <cstdint>

#include "ledger/wire/layout.h"

namespace gpuman::shim {

enum class Reply {
  kJoined,
  kNoJob,    // a daemon answered, and none of them has this process in a job (or speaks our version)
  kNoDaemon  // nobody answered
};

struct Place {
  ledger::wire::Ledger* ledger;
  unsigned slot;
  int file;
};

// Asks each daemon there may be, for `milliseconds` at most in all. Leaves one descriptor open, in `place`.
Reply AskForLedger(Place& place, int milliseconds);

}  // namespace gpuman::shim

// Getting into the job's ledger: asking the daemon, and counting there what was counted before.
#pragma once

#include "shim/accounting/accounting_state.h"

namespace gpuman::shim {

// Asks the daemon, unless it was asked just now. True: the process has joined by this call, and what the slot
// says beside the counts is to be told. Thread-safe.
bool JoinWhenDue(AccountingState& state);

}  // namespace gpuman::shim

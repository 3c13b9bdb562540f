// Joins the job's ledger: asks the daemon, and counts in the ledger what the shim counted before.
#pragma once

#include "shim/accounting/accounting_state.h"

namespace gpuman::shim {

// Asks the daemon, unless the shim has asked it a moment ago. Returns true when this call has joined the
// process: the caller then has to write what the slot says beside the counts. Thread-safe.
bool JoinWhenDue(AccountingState& state);

}  // namespace gpuman::shim

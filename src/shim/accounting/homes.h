// The homes of the process: the devices whose memory can leave them.
//
// Where the process sees several devices, the first on which it asks for memory is its first home: what the
// process tells of it stands in the slot. A further home needs an entry of the ledger (ledger/wire/homes.h).
// Thread-safe.
#pragma once

#include "shim/accounting/accounting_state.h"

namespace gpuman::shim {

// Makes the device a home, where it is none. Returns false where it cannot be one: the daemon knows of no
// further homes, or the ledger has no entry left. The caller does not hold state.meter.
bool TakeHome(AccountingState& state, int device);

// Returns 1 + the index of the home's entry in the ledger; 0: what concerns the device stands in the slot.
std::uint32_t HomeEntryOf(const AccountingState& state, int device);

}  // namespace gpuman::shim

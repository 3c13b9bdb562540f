// The words for what a shim answers.
#pragma once

#include <string>

#include "ledger/ledgers.h"

namespace gpuman::daemon {

// Why the shim refused its last order, as a sentence without a subject: "its host memory is at the budget".
// Empty: it refused none.
std::string TextOf(const ledger::SlotStatus& slot);

}  // namespace gpuman::daemon

// How far the processes of a job are on their way to rest, from the words in their slots. Pure.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ledger/ledgers.h"
#include "share/cut.h"

namespace gpuman::daemon {

// The grants of steps that have no known end yet, by process: a process has one at a time.
struct OpenGrant {
  share::UnitId unit;
  unsigned number = 0;  // as Ledgers::Step returned it
};
using OpenGrants = std::map<base::ProcessId, OpenGrant>;

// The gate of a process whose shim does not tell how it comes to rest is one unit, which works until it is
// held. Grants that have ended leave `grants` and are in the view's `ended`.
share::CutView CutViewOf(const std::vector<ledger::SlotStatus>& slots, OpenGrants& grants);

// Why the attempt ends without rest: "process 812 works on GPU 1; process 811 waits for room". Names at most
// four processes. `name_of` gives a GPU's name for people by its index in the ledger.
std::string WhyNotAtRest(const std::vector<ledger::SlotStatus>& slots,
                         const std::function<std::string(unsigned)>& name_of);

// A thread of the job waits for room, and other processes of the job do not come to rest: they may wait for
// that thread.
bool KeepsWorkForRoom(const std::vector<ledger::SlotStatus>& slots);

}  // namespace gpuman::daemon

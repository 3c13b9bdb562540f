// How far the processes of a job are on their way to rest, from the words in their slots. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ledger/ledgers.h"
#include "share/quiesce_planner.h"

namespace gpuman::daemon {

// What an attempt to bring a job to rest knows of its processes beside their slots.
struct QuiesceAttemptState {
  struct OpenGrant {
    share::ProcessGpuId unit;
    unsigned number = 0;  // as Ledgers::GrantCalls returned it
  };
  // The call grants that have no known end yet: a process has one at a time.
  std::map<base::ProcessId, OpenGrant> grants;
  // The GPUs of each process on which it worked or for which it waited: a bit each, by index in the ledger.
  std::map<base::ProcessId, std::uint16_t> used;
};

// A process with a context is one unit for each GPU that it has used in this attempt, or one unit for any
// GPU. The gate of a process whose shim does not tell how it comes to rest is one unit, which works until it
// is held. Adds to `state` what is seen; grants that have ended leave it and are in the view's `ended`.
share::QuiesceView QuiesceViewOf(const std::vector<ledger::SlotStatus>& slots, QuiesceAttemptState& state);

// How many units (a process on one of its GPUs) a job has, and how many of them are at rest. A process with
// an open gate or a call that has not returned rests on none of its GPUs.
struct QuiesceCount {
  unsigned units = 0, at_rest = 0;
  friend bool operator==(const QuiesceCount&, const QuiesceCount&) = default;
};
QuiesceCount CountAtRest(const std::vector<ledger::SlotStatus>& slots);

// Why the job is not at rest: "process 812 works on GPU 1; process 811 makes no call". Names at most four
// processes. `name_of` gives a GPU's name for people by its index in the ledger.
std::string WhyNotAtRest(const std::vector<ledger::SlotStatus>& slots,
                         const std::function<std::string(unsigned)>& name_of);

// A thread of the job waits for room, and other processes of the job, or other GPUs of its process, do not
// come to rest: they may wait for that thread.
bool KeepsWorkForRoom(const std::vector<ledger::SlotStatus>& slots);

}  // namespace gpuman::daemon

// What the slot of a process says about it, for those who bring jobs to rest and move their memory.
// Pure.
#pragma once

#include <string>
#include <vector>

#include "ledger/ledgers.h"

namespace gpuman::daemon {

// It has a context: there is something to hold.
inline bool HasContext(const ledger::SlotStatus& one) {
  return one.residency != ledger::wire::MemoryResidency::kNone &&
         one.residency != ledger::wire::MemoryResidency::kFailed;
}

// It is at rest behind its closed gate, as its last order said.
inline bool IsHeld(const ledger::SlotStatus& one) {
  return one.residency == ledger::wire::MemoryResidency::kHeld && one.answered;
}

// The process's context is gone. The process ends within a moment, and its memory goes with it.
bool IsAtItsEnd(const ledger::SlotStatus& one);

// The homes of the process, each with its GPU. A process that sees only one GPU, or has nothing yet, does not
// say which its first home is: it is the one where the process has most, or else the first of `gpus`, which
// are the job's. Without either that home is left out.
std::vector<ledger::EvictableGpu> HomesOf(const ledger::SlotStatus& one,
                                          const std::vector<std::string>& gpus);

// Its answer will come without a notification.
inline bool AnswersSilently(const ledger::SlotStatus& one) {
  return !one.answered && !one.notifies && one.residency != ledger::wire::MemoryResidency::kNone;
}

}  // namespace gpuman::daemon

// What the slot of a process says about it, for those who bring jobs to rest. Pure.
#pragma once

#include "ledger/ledgers.h"

namespace gpuman::daemon {

// It has a context: there is something to hold.
inline bool HasContext(const ledger::SlotStatus& one) {
  return one.stage != ledger::wire::MemoryStage::kNone && one.stage != ledger::wire::MemoryStage::kFailed;
}

// It is at rest behind its closed gate, as its last order said.
inline bool IsHeld(const ledger::SlotStatus& one) {
  return one.stage == ledger::wire::MemoryStage::kHeld && one.answered;
}

// Its answer will come without a notification.
inline bool AnswersSilently(const ledger::SlotStatus& one) {
  return !one.answered && !one.notifies && one.stage != ledger::wire::MemoryStage::kNone;
}

}  // namespace gpuman::daemon

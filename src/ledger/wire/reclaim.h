// Gives back what ended processes of a job still count in its ledger.
#pragma once

#include "ledger/wire/slot_balance.h"
#include "ledger/wire/slot_lock.h"

namespace gpuman::ledger::wire {

// Clears each slot whose process has ended: the lock of the slot ended with the process. Skips the slot
// `own`: the caller's process locks it through another open file than `descriptor`. kSlots: it has no slot.
// Returns the number of ended processes. Several processes may call it at the same time.
inline unsigned ReclaimSlots(Ledger& ledger, int descriptor, unsigned own) {
  unsigned ended = 0;
  for (unsigned slot = 0; slot < kSlots; ++slot) {
    if (slot == own || __atomic_load_n(&ledger.slot[slot].pid, __ATOMIC_ACQUIRE) == 0) continue;
    if (!LockSlot(descriptor, slot)) continue;
    Clear(ledger, slot);
    UnlockSlot(descriptor, slot);
    ++ended;
  }
  return ended;
}

}  // namespace gpuman::ledger::wire

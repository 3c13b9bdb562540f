// What the shims of a job's processes have answered to the order to hold. Pure.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/process.h"
#include "ledger/ledgers.h"

namespace gpuman::daemon {

struct HoldAnswers {
  bool all_held = true;
  std::vector<base::ProcessId> again{};  // processes whose shims only took too long: they are asked again
  // Why not all processes will be held, where that is certain before the attempt is over; empty: they may be.
  // It goes on where a sentence has said "the job did not come to rest: ".
  std::string why{};
};

// `began`: when the order was given. A process without a context has nothing to hold. A process that is
// stopped behind its gate stays there, so it is held; one that was stopped before would never answer.
// `is_stopped` is asked only for processes that are not held.
HoldAnswers ReadHoldAnswers(const std::vector<ledger::SlotStatus>& slots,
                            const std::function<bool(const base::ProcessId&)>& is_stopped,
                            base::MonoTime began, base::MonoTime now);

// Whether a process has not taken up its order to run yet. An order to hold would replace that order: the
// process would stay behind its gate, without its memory, while others of the job run already and may wait
// for it on their GPUs. A process that is stopped does not count.
bool AreOpening(const std::vector<ledger::SlotStatus>& slots,
                const std::function<bool(const base::ProcessId&)>& is_stopped);

}  // namespace gpuman::daemon

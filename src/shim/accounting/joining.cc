#include "shim/accounting/joining.h"

#include <unistd.h>

#include "shim/accounting/meter.h"
#include "shim/libc/clock.h"
#include "shim/libc/threads.h"
#include "shim/link/join.h"
#include "shim/symbols/evictable.h"

namespace gpuman::shim {
namespace {

// A running daemon takes a connection at once, but may have to answer a thousand processes before this one.
constexpr Patience kPatience{.connect_ms = 500, .answer_ms = 60'000};
constexpr std::uint64_t kFirstPause = 1'000'000'000;
// For a process that may have to leave the GPU: the turns of other jobs depend on the memory that it has.
constexpr std::uint64_t kPauseOfShared = 250'000'000;
constexpr unsigned kMaxDoublings = 6;  // at most a minute between two tries

// A child of a fork inherits its parent's descriptor of the ledger, but the state that names it is wiped. The
// child finds it here and closes it.
KeptFile left_file{-1, 0, 0};

void CloseLeftFile() {
  if (IsStill(left_file)) ::close(left_file.descriptor);
  left_file.descriptor = -1;
}

// Asks the daemon. Returns true when the process has joined.
bool Try(AccountingState& state) {
  CloseLeftFile();
  JoinedLedger joined{nullptr, 0, -1};
  const JoinOutcome reply = AskForLedger(joined, kPatience);
  if (reply == JoinOutcome::kJoined) {
    left_file = Keep(joined.file);
    Join(state, joined);
    state.join_state.store(JoinState::kJoined, std::memory_order_release);
    return true;
  }
  if (reply == JoinOutcome::kNoJob) {
    state.join_state.store(JoinState::kNever, std::memory_order_release);
    return false;
  }
  const unsigned doublings = state.tries < kMaxDoublings ? state.tries : kMaxDoublings;
  ++state.tries;
  const std::uint64_t pause = MayBeEvicted() ? kPauseOfShared : kFirstPause << doublings;
  __atomic_store_n(&state.next_try, NowNs() + pause, __ATOMIC_RELEASE);
  return false;
}

}  // namespace

// The first thread that comes asks. At the first try the other threads wait for it, since what they allocate
// has to count.
bool JoinWhenDue(AccountingState& state) {
  const std::uint64_t due = __atomic_load_n(&state.next_try, __ATOMIC_ACQUIRE);
  if (due != 0 && NowNs() < due) return false;
  const NoCancellation whole;
  if (due != 0) {
    if (::pthread_mutex_trylock(&state.join) != 0) return false;
  } else {
    ::pthread_mutex_lock(&state.join);
  }
  const bool joined = state.join_state == JoinState::kAlone && state.next_try == due && Try(state);
  ::pthread_mutex_unlock(&state.join);
  return joined;
}

}  // namespace gpuman::shim

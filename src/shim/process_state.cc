#include "shim/process_state.h"

#include <unistd.h>

#include "ledger/wire/books.h"
#include "shim/backing.h"
#include "shim/evictable.h"
#include "shim/join.h"
#include "shim/meter.h"
#include "shim/paging.h"
#include "shim/threads.h"
#include "shim/wiped_memory.h"

namespace gpuman::shim {
namespace {

// A daemon that is there takes a connection at once, and may have a thousand processes to answer before.
constexpr Patience kPatience{.connect_ms = 500, .answer_ms = 10'000};
constexpr std::uint64_t kFirstPause = 1'000'000'000;
// Where the others' turns hang on what it has.
constexpr std::uint64_t kPauseOfShared = 250'000'000;
constexpr unsigned kMaxDoublings = 6;  // at most a minute between two tries

ProcessState* memory;
// The descriptor that a process leaves to a child of its fork, which does not know of it.
KeptFile left_file{-1, 0, 0};

void CloseLeftFile() {
  if (IsStill(left_file)) ::close(left_file.descriptor);
  left_file.descriptor = -1;
}

void Try(ProcessState& state) {
  CloseLeftFile();
  JoinedLedger joined{nullptr, 0, -1};
  const Reply reply = AskForLedger(joined, kPatience);
  if (reply == Reply::kJoined) {
    left_file = Keep(joined.file);
    Join(state, joined);
    state.join_state.store(JoinState::kJoined, std::memory_order_release);
    TellImported(state);
    TellManaged(state);
    return;
  }
  if (reply == Reply::kNoJob) return state.join_state.store(JoinState::kNever, std::memory_order_release);
  const unsigned doublings = state.tries < kMaxDoublings ? state.tries : kMaxDoublings;
  ++state.tries;
  const std::uint64_t pause = MayBeEvicted() ? kPauseOfShared : kFirstPause << doublings;
  __atomic_store_n(&state.next_try, NowNs() + pause, __ATOMIC_RELEASE);
}

// Whoever comes first asks. At the very first time the others wait for it: what they allocate has to count.
void TryWhenDue(ProcessState& state) {
  const std::uint64_t due = __atomic_load_n(&state.next_try, __ATOMIC_ACQUIRE);
  if (due != 0 && NowNs() < due) return;
  const NoCancellation whole;
  if (due != 0) {
    if (::pthread_mutex_trylock(&state.join) != 0) return;
  } else {
    ::pthread_mutex_lock(&state.join);
  }
  if (state.join_state == JoinState::kAlone && state.next_try == due) Try(state);
  ::pthread_mutex_unlock(&state.join);
}

}  // namespace

void JoinWhenDue(ProcessState& state) { TryWhenDue(state); }

ProcessState* UnjoinedState() {
  ProcessState* known = __atomic_load_n(&memory, __ATOMIC_ACQUIRE);
  if (known != nullptr) return known;
  auto* const state = static_cast<ProcessState*>(MapWiped(sizeof(ProcessState)));
  if (state == nullptr ||
      __atomic_compare_exchange_n(&memory, &known, state, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
    return state;
  UnmapWiped(state, sizeof(ProcessState));
  return known;
}

ProcessState* JoinedState() {
  ProcessState* const state = UnjoinedState();
  if (state == nullptr) return nullptr;
  JoinState join_state = state->join_state.load(std::memory_order_acquire);
  // Once there is a service thread it asks, and the program's threads never wait for that.
  if (__builtin_expect(join_state == JoinState::kAlone, 0) &&
      __atomic_load_n(&state->service_thread.started, __ATOMIC_ACQUIRE) == 0) {
    TryWhenDue(*state);
    join_state = state->join_state.load(std::memory_order_acquire);
  }
  return join_state == JoinState::kNever ? nullptr : state;
}

}  // namespace gpuman::shim

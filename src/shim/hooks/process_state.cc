#include "shim/hooks/process_state.h"

#include "shim/accounting/joining.h"
#include "shim/backing/backing.h"
#include "shim/libc/wiped_memory.h"

namespace gpuman::shim {
namespace {

ProcessState* memory;

}  // namespace

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
  // Once there is a service thread, that thread asks, and the program's threads never wait for the answer.
  if (__builtin_expect(join_state == JoinState::kAlone, 0) &&
      __atomic_load_n(&state->service_thread.started, __ATOMIC_ACQUIRE) == 0) {
    if (JoinWhenDue(*state)) TellAfterJoining(*state);
    join_state = state->join_state.load(std::memory_order_acquire);
  }
  return join_state == JoinState::kNever ? nullptr : state;
}

}  // namespace gpuman::shim

#include "shim/gate/gate.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

#include "ledger/wire/orders.h"
#include "shim/gate/gate_state.h"
#include "shim/libc/lock.h"
#include "shim/libc/wiped_memory.h"
#include "shim/link/watch.h"
#include "shim/symbols/evictable.h"

namespace gpuman::shim {

__thread ThreadSlot* thread_slot = nullptr;

struct ThreadSlotChunk {
  static constexpr unsigned kRoom = 255;
  ThreadSlotChunk* next;
  ThreadSlot thread_slot[kRoom];
};

namespace {

constexpr std::uint64_t kFirstPause = 20'000, kLongestPause = 1'000'000;

std::uint32_t Load(const std::uint32_t& word) { return __atomic_load_n(&word, __ATOMIC_SEQ_CST); }
void Store(std::uint32_t& word, std::uint32_t value) { __atomic_store_n(&word, value, __ATOMIC_SEQ_CST); }

bool Membarrier(int command) { return ::syscall(SYS_membarrier, command, 0, 0) == 0; }

// The caller holds `registry`.
template <typename Function>
void ForEachPassenger(Gate& gate, Function function) {
  for (ThreadSlotChunk* chunk = gate.chunks; chunk != nullptr; chunk = chunk->next) {
    for (ThreadSlot& one : chunk->thread_slot) {
      if (one.used != 0) function(one);
    }
  }
}

// Returns a free thread slot; null: there is no memory. The caller holds `registry`.
ThreadSlot* FindFree(Gate& gate) {
  for (ThreadSlotChunk* chunk = gate.chunks; chunk != nullptr; chunk = chunk->next) {
    for (ThreadSlot& one : chunk->thread_slot) {
      if (one.used == 0) return &one;
    }
  }
  auto* const chunk = static_cast<ThreadSlotChunk*>(MapWiped(sizeof(ThreadSlotChunk)));
  if (chunk == nullptr) return nullptr;
  chunk->next = gate.chunks;
  gate.chunks = chunk;
  return &chunk->thread_slot[0];
}

pthread_key_t at_thread_end;
bool has_key = false;
// Set together with the key. A child of a fork finds its own state at the same address.
GateState* state_at_thread_end = nullptr;

// Runs when a thread ends, also in the middle of a call.
void Leave(void* word) {
  thread_slot = nullptr;
  const Locked lock(state_at_thread_end->gate.registry);
  auto* const own = static_cast<ThreadSlot*>(word);
  Store(own->in_flight, own->in_flight & ~kDepthMask);
  own->open = 0;
  own->used = 0;
}

// Gives this thread a thread slot, which says at once that the thread is in a call.
ThreadSlot* Register(GateState& state) {
  Gate& gate = state.gate;
  const Locked lock(gate.registry);
  if (!gate.probed) {
    gate.expedited = Membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
    gate.probed = true;
  }
  if (!has_key) {
    state_at_thread_end = &state;
    has_key = ::pthread_key_create(&at_thread_end, Leave) == 0;
  }
  ThreadSlot* const own = has_key ? FindFree(gate) : nullptr;
  if (own == nullptr || ::pthread_setspecific(at_thread_end, own) != 0) return nullptr;
  own->used = 1;
  Store(own->in_flight, (own->in_flight & ~kDepthMask) + 1);
  own->open = gate.expedited && gate.closed == 0 ? 1 : 0;
  thread_slot = own;
  return own;
}

void WaitWhileClosed(GateState& state) {
  const AtGate waiting(state);
  while (Load(state.gate.closed) != 0)
    ::syscall(SYS_futex, &state.gate.closed, FUTEX_WAIT_PRIVATE, 1, nullptr, nullptr, 0);
}

// Marks the thread as in one call, once the gate is open. `own`: its thread slot, which may say that the
// thread is in a call already; null: it has none.
void Pass(GateState& state, ThreadSlot* own) {
  const std::uint32_t outside = own != nullptr ? own->in_flight & ~kDepthMask : 0;
  for (;;) {
    if (own != nullptr) Store(own->in_flight, outside + 1);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (Load(state.gate.closed) == 0) return;
    if (own != nullptr) Store(own->in_flight, outside);
    WaitWhileClosed(state);
  }
}

bool AnyInFlight(Gate& gate) {
  bool any = false;
  const Locked lock(gate.registry);
  ForEachPassenger(gate,
                   [&](const ThreadSlot& one) { any = any || (Load(one.in_flight) & kDepthMask) != 0; });
  return any || gate.unsafe;
}

}  // namespace

bool RestLimit::IsWithdrawn() const {
  return ledger::wire::OrderKindOf(Load(order_)) == ledger::wire::OrderKind::kRun;
}

ThreadSlot* EnterSlowPath(FindState* find) {
  if (!MayBeEvicted()) return nullptr;
  const int before = errno;
  GateState* const state = find();
  ThreadSlot* own = thread_slot;
  if (state == nullptr) return nullptr;  // without its state, this process never joins a ledger
  if (own != nullptr && own->used != 0 && (own->in_flight & kDepthMask) > 1)
    return own;  // a call within a call
  if (own == nullptr || own->used == 0) own = Register(*state);
  if (own == nullptr) state->gate.unsafe = true;
  Pass(*state, own);
  errno = before;
  return own;
}

bool MayExitGate() {
  const ThreadSlot* const own = thread_slot;
  return own == nullptr || (own->in_flight & kDepthMask) == 1;
}

GateExit::GateExit(GateState& state) : state_(state) {
  if (ThreadSlot* const own = thread_slot) Store(own->in_flight, own->in_flight & ~kDepthMask);
}

GateExit::~GateExit() {
  if (thread_slot != nullptr) Pass(state_, thread_slot);
}

std::uint64_t CallsSince(Gate& gate, bool& in_flight) {
  constexpr std::uint32_t kMaxCalls = UINT32_MAX / kOneCall;
  std::uint64_t calls = 0;
  in_flight = false;
  const Locked lock(gate.registry);
  ForEachPassenger(gate, [&](ThreadSlot& one) {
    const std::uint32_t word = Load(one.in_flight);
    in_flight = in_flight || (word & kDepthMask) != 0;
    calls += (word / kOneCall - one.seen) & kMaxCalls;
    one.seen = word / kOneCall;
  });
  return calls;
}

bool CloseGate(GateState& state, const RestLimit& limit) {
  Gate& gate = state.gate;
  {
    const Locked lock(gate.registry);
    Store(gate.closed, 1);
    ForEachPassenger(gate, [](ThreadSlot& one) { Store(one.open, 0); });
  }
  if (gate.expedited && !Membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) gate.unsafe = true;
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  for (std::uint64_t pause = kFirstPause; AnyInFlight(gate);
       pause = pause < kLongestPause ? 2 * pause : pause) {
    if (limit.IsOver()) {
      OpenGate(state);
      return false;
    }
    const timespec time{0, static_cast<long>(pause)};
    ::nanosleep(&time, nullptr);
  }
  return true;
}

void OpenGate(GateState& state) {
  Gate& gate = state.gate;
  {
    const Locked lock(gate.registry);
    Store(gate.closed, 0);
    ForEachPassenger(gate, [&](ThreadSlot& one) { Store(one.open, gate.expedited ? 1 : 0); });
  }
  ::syscall(SYS_futex, &gate.closed, FUTEX_WAKE_PRIVATE, 0x7fffffff, nullptr, nullptr, 0);
}

}  // namespace gpuman::shim

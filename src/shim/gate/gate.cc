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
#include "shim/symbols/driver.h"
#include "shim/symbols/evictable.h"

namespace gpuman::shim {

__thread ThreadSlot* thread_slot = nullptr;

struct ThreadSlotChunk {
  static constexpr unsigned kRoom = 255;
  ThreadSlotChunk* next;
  ThreadSlot thread_slot[kRoom];
};

namespace {

std::uint32_t Load(const std::uint32_t& word) { return __atomic_load_n(&word, __ATOMIC_SEQ_CST); }
void Store(std::uint32_t& word, std::uint32_t value) { __atomic_store_n(&word, value, __ATOMIC_SEQ_CST); }

void Wake(std::uint32_t& word, int threads) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, threads, nullptr, nullptr, 0);
}
// With no `time` it waits without end.
void Wait(std::uint32_t& word, std::uint32_t value, const timespec* time) {
  ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, time, nullptr, 0);
}
constexpr int kAll = 0x7fffffff;

bool Membarrier(int command) { return ::syscall(SYS_membarrier, command, 0, 0) == 0; }

// The caller holds `registry`.
template <typename Function>
void ForEachThreadSlot(Gate& gate, Function function) {
  for (ThreadSlotChunk* chunk = gate.chunks; chunk != nullptr; chunk = chunk->next) {
    for (ThreadSlot& one : chunk->thread_slot) {
      if (one.used != 0) function(one);
    }
  }
}

// The calls of all threads, of those that have ended too: else a thread that ends could hide calls of others.
// The caller holds `registry`.
std::uint32_t CallsOf(const Gate& gate) {
  std::uint32_t calls = 0;
  for (const ThreadSlotChunk* chunk = gate.chunks; chunk != nullptr; chunk = chunk->next)
    for (const ThreadSlot& one : chunk->thread_slot) calls += Load(one.in_flight) / kOneCall;
  return calls;
}

// Calls that have returned and that CallsSince has not counted.
std::uint32_t UnseenOf(const ThreadSlot& one, std::uint32_t word) {
  constexpr std::uint32_t kMaxCalls = UINT32_MAX / kOneCall;
  return (word / kOneCall - one.seen) & kMaxCalls;
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
  Store(own->in_flight, own->in_flight & ~kInCallMask);
  Store(own->waits, 0);
  Store(own->permit, 0);
  own->open = 0;
  own->used = 0;
}

// What the thread slots say while the gate is open.
std::uint32_t OpenWord(const Gate& gate) {
  return gate.expedited && Load(gate.slow) == 0 && Load(gate.alerts) == 0 ? 1 : 0;
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
  Store(own->waits, 0);
  Store(own->permit, 0);
  Store(own->in_flight, (own->in_flight & ~kInCallMask) + 1);
  own->open = gate.closed == 0 ? OpenWord(gate) : 0;
  thread_slot = own;
  return own;
}

// Returns 1 + the device of the calling thread's context; 0: it has none, or the process has only one device.
// It counts for orders that come later, too: between two of them the gate may be open for so short a time
// that the thread stays in its place.
std::uint32_t DeviceOfCaller(const GateState& state) {
  if (Load(state.drain.started) < 2) return 0;
  auto* const ask = GPUMAN_REAL(cuCtxGetDevice);
  driver::abi::CUdevice device = 0;
  const bool known = ask != nullptr && ask(&device) == driver::abi::CUDA_SUCCESS && device >= 0;
  return known ? static_cast<std::uint32_t>(device) + 1 : 0;
}

std::uint32_t NextArrival(Gate& gate) {
  const std::uint32_t number = __atomic_add_fetch(&gate.arrivals, 1, __ATOMIC_SEQ_CST);
  return number != 0 ? number : NextArrival(gate);
}

void TellArrival(GateState& state) {
  WakeServiceThread(state.gate);
  if (Load(state.gate.phase) == static_cast<std::uint32_t>(RestPhase::kHeld) && IsJoined(state))
    ledger::wire::WakeAll(state.ledger->slot[state.slot].order);
}

// The calling thread waits at the gate while an object lives. `own`: its thread slot; null: it has none.
class Waiting {
 public:
  Waiting(GateState& state, ThreadSlot* own, CallKind kind) : at_gate_(state), gate_(state.gate), own_(own) {
    if (own_ == nullptr) return;
    Store(own_->kind, static_cast<std::uint32_t>(kind));
    Store(own_->device, DeviceOfCaller(state));
    Store(own_->waits, NextArrival(gate_));
    TellArrival(state);
  }
  ~Waiting() {
    if (own_ != nullptr) Store(own_->waits, 0);
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  // Returns when the gate is open or the thread has a permit, and perhaps for no reason.
  void Sleep() {
    if (own_ != nullptr)
      Wait(own_->permit, 0, nullptr);
    else
      Wait(gate_.closed, 1, nullptr);
  }

 private:
  const GateWaitScope at_gate_;
  Gate& gate_;
  ThreadSlot* const own_;
};

// Returns true where the thread is in a call now: the gate is open, or the thread had a permit.
bool Enters(Gate& gate, ThreadSlot* own, std::uint32_t outside, CallKind kind) {
  if (own != nullptr) Store(own->in_flight, InFlightWord(outside, kind));
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  if (Load(gate.closed) == 0) return true;
  if (own == nullptr) return false;
  // The service thread sees the call in flight before it sees that the permit is taken.
  if (__atomic_exchange_n(&own->permit, 0, __ATOMIC_SEQ_CST) == 1) return true;
  Store(own->in_flight, outside);
  return false;
}

// Marks the thread as in one call, once it may pass. `own`: its thread slot, which may say that the thread is
// in a call already; null: it has none.
void Pass(GateState& state, ThreadSlot* own, CallKind kind) {
  const std::uint32_t outside = own != nullptr ? own->in_flight & ~kInCallMask : 0;
  if (Enters(state.gate, own, outside, kind)) return;
  Waiting waiting(state, own, kind);
  while (!Enters(state.gate, own, outside, kind)) waiting.Sleep();
}

// The caller's call is the first since AlertOnCall, or none is awaited.
void AnswerAlert(GateState& state) {
  Gate& gate = state.gate;
  if (Load(gate.alerts) == 0 || __atomic_exchange_n(&gate.alerts, 0, __ATOMIC_SEQ_CST) == 0) return;
  {
    const Locked lock(gate.registry);
    if (Load(gate.closed) == 0)
      ForEachThreadSlot(gate, [&](ThreadSlot& one) { Store(one.open, OpenWord(gate)); });
  }
  TellWorksAgain(state);
}

// The caller holds `registry`.
void Shut(Gate& gate) {
  gate.for_captures = false;
  Store(gate.closed, 1);
  ForEachThreadSlot(gate, [](ThreadSlot& one) {
    Store(one.open, 0);
    Store(one.permit, 0);
  });
}

// From now on ReadGate sees each call that passed before.
void SeeEachCall(Gate& gate) {
  if (gate.expedited && !Membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) gate.unsafe = true;
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void SetSlow(Gate& gate, std::uint32_t slow) {
  const Locked lock(gate.registry);
  Store(gate.slow, slow);
  if (Load(gate.closed) == 0)
    ForEachThreadSlot(gate, [&](ThreadSlot& one) { Store(one.open, OpenWord(gate)); });
}

void Open(Gate& gate, bool for_captures) {
  {
    const Locked lock(gate.registry);
    gate.for_captures = for_captures;
    Store(gate.closed, 0);
    ForEachThreadSlot(gate, [&](ThreadSlot& one) {
      Store(one.open, OpenWord(gate));
      if (Load(one.waits) == 0) return;
      Store(one.permit, 1);
      Wake(one.permit, 1);
    });
  }
  Wake(gate.closed, kAll);
}

}  // namespace

bool RestLimit::IsWithdrawn() const {
  const std::uint32_t order = Load(order_);
  return order != running_ && ledger::wire::OrderKindOf(order) == ledger::wire::OrderKind::kRun;
}

ThreadSlot* EnterSlowPath(FindState* find, CallKind kind) {
  if (!MayBeEvicted()) return nullptr;
  const int before = errno;
  GateState* const state = find();
  ThreadSlot* own = thread_slot;
  if (state == nullptr) return nullptr;  // without its state, this process never joins a ledger
  if (own != nullptr && own->used != 0 && (own->in_flight & kDepthMask) > 1)
    return own;  // a call within a call
  if (own == nullptr || own->used == 0) own = Register(*state);
  if (own == nullptr) state->gate.unsafe = true;
  Pass(*state, own, kind);
  AnswerAlert(*state);
  errno = before;
  return own;
}

namespace {

// The job is suspended, and the driver may checkpoint this process. The driver may not where the process
// shares memory with others: then it stays, and its calls may be what others of its job wait for.
bool MayBeCheckpointed(const GateState& state) {
  if (!IsJoined(state)) return false;
  const ledger::wire::Slot& slot = state.ledger->slot[state.slot];
  return Load(state.ledger->suspends) != 0 && (Load(slot.flags) & ledger::wire::kShares) == 0;
}

}  // namespace

ThreadSlot* EnterAside(FindState* find) {
  if (!MayBeEvicted()) return nullptr;
  const int before = errno;
  GateState* const state = find();
  ThreadSlot* own = thread_slot;
  if (state == nullptr) return nullptr;
  // A call within a call passes.
  if (own != nullptr && own->used != 0 && (own->in_flight & kDepthMask) > 0) return nullptr;
  if (own == nullptr || own->used == 0) own = Register(*state);
  if (own != nullptr) {
    const std::uint32_t outside = own->in_flight & ~kInCallMask;
    if (!Enters(state->gate, own, outside, CallKind::kPlain)) {
      if (MayBeCheckpointed(*state)) {
        Waiting waiting(*state, own, CallKind::kPlain);
        while (!Enters(state->gate, own, outside, CallKind::kPlain)) waiting.Sleep();
      } else {
        own = nullptr;
      }
    }
  }
  errno = before;
  return own;
}

bool MayExitGate() {
  const ThreadSlot* const own = thread_slot;
  return own == nullptr || (own->in_flight & kDepthMask) == 1;
}

GateExit::GateExit(GateState& state) : state_(state) {
  if (ThreadSlot* const own = thread_slot) Store(own->in_flight, own->in_flight & ~kInCallMask);
}

GateExit::~GateExit() {
  if (thread_slot != nullptr) Pass(state_, thread_slot, CallKind::kPlain);
}

std::uint64_t CallsSince(Gate& gate, bool& in_flight) {
  std::uint64_t calls = 0;
  in_flight = false;
  const Locked lock(gate.registry);
  ForEachThreadSlot(gate, [&](ThreadSlot& one) {
    const std::uint32_t word = Load(one.in_flight);
    in_flight = in_flight || (word & kDepthMask) != 0;
    calls += UnseenOf(one, word);
    one.seen = word / kOneCall;
  });
  return calls;
}

void ShutGate(GateState& state) {
  Gate& gate = state.gate;
  {
    const Locked lock(gate.registry);
    Shut(gate);
  }
  SeeEachCall(gate);
}

void OpenGate(GateState& state) { Open(state.gate, false); }

void OpenGateForCaptures(GateState& state) { Open(state.gate, true); }

void ShutAfterCaptures(GateState& state) {
  Gate& gate = state.gate;
  {
    const Locked lock(gate.registry);
    if (!gate.for_captures) return;
    Shut(gate);
  }
  SeeEachCall(gate);
  WakeServiceThread(gate);
}

void AlertOnCall(GateState& state) {
  Gate& gate = state.gate;
  const Locked lock(gate.registry);
  if (gate.closed != 0) return;
  Store(gate.alerts, 1);
  ForEachThreadSlot(gate, [](ThreadSlot& one) { Store(one.open, 0); });
}

GateReading ReadGate(Gate& gate) {
  GateReading reading;
  const Locked lock(gate.registry);
  reading.in_flight = gate.unsafe;
  reading.calls = CallsOf(gate);
  ForEachThreadSlot(gate, [&](const ThreadSlot& one) {
    const std::uint32_t word = Load(one.in_flight);
    reading.in_flight = reading.in_flight || (word & kDepthMask) != 0;
    reading.delicate = reading.delicate || (word & kDelicate) != 0;
    reading.unseen += UnseenOf(one, word);
    if (Load(one.waits) == 0) return;
    reading.waits = true;
    const std::uint32_t device = Load(one.device);
    if (device == 0 || device > 64)
      reading.elsewhere = true;
    else
      reading.devices |= std::uint64_t{1} << (device - 1);
  });
  return reading;
}

ThreadSlot* LongestWaiting(Gate& gate, int device) {
  ThreadSlot* longest = nullptr;
  std::uint32_t longest_for = 0;
  const Locked lock(gate.registry);
  const std::uint32_t now = Load(gate.arrivals);
  ForEachThreadSlot(gate, [&](ThreadSlot& one) {
    const std::uint32_t waits = Load(one.waits), its = Load(one.device);
    const bool right = device < 0 || its == 0 || its == static_cast<std::uint32_t>(device) + 1;
    // The numbers of arrivals may begin anew.
    if (waits == 0 || !right || (longest != nullptr && now - waits <= longest_for)) return;
    longest = &one;
    longest_for = now - waits;
  });
  return longest;
}

void GivePermit(ThreadSlot& thread) {
  Store(thread.waits, 0);
  Store(thread.permit, 1);
  Wake(thread.permit, 1);
}

bool TakePermitBack(ThreadSlot& thread, std::uint32_t waits) {
  if (__atomic_exchange_n(&thread.permit, 0, __ATOMIC_SEQ_CST) == 0) return false;
  Store(thread.waits, waits);
  return true;
}

GatePermitState WhatBecameOf(const ThreadSlot& thread) {
  if (Load(thread.used) == 0) return GatePermitState::kReturned;  // the thread has ended
  if (Load(thread.permit) != 0) return GatePermitState::kNotTaken;
  return (Load(thread.in_flight) & kDepthMask) != 0 ? GatePermitState::kInFlight : GatePermitState::kReturned;
}

void WakeServiceThread(Gate& gate) {
  __atomic_fetch_add(&gate.wake_ups, 1, __ATOMIC_SEQ_CST);
  Wake(gate.wake_ups, 1);
}

void TakeSlowPath(Gate& gate) { SetSlow(gate, 1); }

void LeaveSlowPath(Gate& gate) { SetSlow(gate, 0); }

void AwaitWakeUp(Gate& gate, std::uint32_t seen, std::uint64_t nanoseconds) {
  const timespec time{0, static_cast<long>(nanoseconds)};
  Wait(gate.wake_ups, seen, &time);
}

}  // namespace gpuman::shim

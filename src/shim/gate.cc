#include "shim/gate.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "ledger/wire/messages.h"
#include "ledger/wire/orders.h"
#include "shim/guest.h"

namespace gpuman::shim {

__thread Passenger* passenger = nullptr;

struct PassengerChunk {
  static constexpr unsigned kRoom = 255;
  PassengerChunk* next;
  Passenger passenger[kRoom];
};

namespace {

constexpr std::uint64_t kFirstPause = 20'000, kLongestPause = 1'000'000;

std::uint32_t Load(const std::uint32_t& word) { return __atomic_load_n(&word, __ATOMIC_SEQ_CST); }
void Store(std::uint32_t& word, std::uint32_t value) { __atomic_store_n(&word, value, __ATOMIC_SEQ_CST); }

bool Membarrier(int command) { return ::syscall(SYS_membarrier, command, 0, 0) == 0; }

// For who holds the registry.
template <typename Visit>
void ForEachPassenger(Gate& gate, Visit visit) {
  for (PassengerChunk* chunk = gate.chunks; chunk != nullptr; chunk = chunk->next) {
    for (Passenger& one : chunk->passenger) {
      if (one.used != 0) visit(one);
    }
  }
}

// For who holds the registry. Null: no memory.
Passenger* FindFree(Gate& gate) {
  for (PassengerChunk* chunk = gate.chunks; chunk != nullptr; chunk = chunk->next) {
    for (Passenger& one : chunk->passenger) {
      if (one.used == 0) return &one;
    }
  }
  void* const fresh =
      ::mmap(nullptr, sizeof(PassengerChunk), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (fresh == MAP_FAILED) return nullptr;
  if (::madvise(fresh, sizeof(PassengerChunk), MADV_WIPEONFORK) != 0) {
    ::munmap(fresh, sizeof(PassengerChunk));
    return nullptr;
  }
  auto* const chunk = static_cast<PassengerChunk*>(fresh);
  chunk->next = gate.chunks;
  gate.chunks = chunk;
  return &chunk->passenger[0];
}

pthread_key_t at_thread_end;
bool has_key = false;

// A thread ends, also in the middle of a call.
void Leave(void* word) {
  passenger = nullptr;
  Guest* const guest = GuestMemory();
  if (guest == nullptr) return;
  const Locked lock(guest->gate.registry);
  auto* const own = static_cast<Passenger*>(word);
  Store(own->in_flight, own->in_flight & ~kDepthMask);
  own->open = 0;
  own->used = 0;
}

// Gives this thread its word, in flight already.
Passenger* Register(Guest& guest) {
  Gate& gate = guest.gate;
  const Locked lock(gate.registry);
  if (!gate.probed) {
    gate.expedited = Membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
    gate.probed = true;
  }
  if (!has_key) has_key = ::pthread_key_create(&at_thread_end, Leave) == 0;
  Passenger* const own = has_key ? FindFree(gate) : nullptr;
  if (own == nullptr || ::pthread_setspecific(at_thread_end, own) != 0) return nullptr;
  own->used = 1;
  Store(own->in_flight, (own->in_flight & ~kDepthMask) + 1);
  own->open = gate.expedited && gate.closed == 0 ? 1 : 0;
  passenger = own;
  return own;
}

void WaitWhileClosed(Guest& guest) {
  const AtGate waiting(guest);
  while (Load(guest.gate.closed) != 0)
    ::syscall(SYS_futex, &guest.gate.closed, FUTEX_WAIT_PRIVATE, 1, nullptr, nullptr, 0);
}

// With its word as it is where nobody is in a call; null: it has none.
void Pass(Guest& guest, Passenger* own) {
  const std::uint32_t outside = own != nullptr ? own->in_flight & ~kDepthMask : 0;
  for (;;) {
    if (own != nullptr) Store(own->in_flight, outside + 1);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (Load(guest.gate.closed) == 0) return;
    if (own != nullptr) Store(own->in_flight, outside);
    WaitWhileClosed(guest);
  }
}

bool AnyInFlight(Gate& gate) {
  bool any = false;
  const Locked lock(gate.registry);
  ForEachPassenger(gate, [&](const Passenger& one) { any = any || (Load(one.in_flight) & kDepthMask) != 0; });
  return any || gate.unsafe;
}

}  // namespace

std::uint64_t NowNs() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

bool RestLimit::IsWithdrawn() const { return ledger::wire::WhatOf(Load(order_)) == ledger::wire::What::kRun; }

bool MayBeEvicted() {
  enum : int { kUnknown, kYes, kNo };
  static int known = kUnknown;
  int answer = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (answer == kUnknown) {
    const char* const says = std::getenv(ledger::wire::kEvictableVariable);
    answer = says != nullptr && std::strcmp(says, "1") == 0 ? kYes : kNo;
    __atomic_store_n(&known, answer, __ATOMIC_RELAXED);
  }
  return answer == kYes;
}

Passenger* EnterSlowly() {
  if (!MayBeEvicted()) return nullptr;
  const int before = errno;
  Guest* const guest = GuestMemory();
  Passenger* own = passenger;
  if (guest == nullptr) return nullptr;  // nothing of it can ever join a ledger either
  if (own != nullptr && own->used != 0 && (own->in_flight & kDepthMask) > 1)
    return own;  // a call within a call
  if (own == nullptr || own->used == 0) own = Register(*guest);
  if (own == nullptr) guest->gate.unsafe = true;
  Pass(*guest, own);
  errno = before;
  return own;
}

bool MayStepAside() {
  const Passenger* const own = passenger;
  return own == nullptr || (own->in_flight & kDepthMask) == 1;
}

StepAside::StepAside() {
  if (Passenger* const own = passenger) Store(own->in_flight, own->in_flight & ~kDepthMask);
}

StepAside::~StepAside() {
  Guest* const guest = GuestMemory();
  if (passenger != nullptr && guest != nullptr) Pass(*guest, passenger);
}

std::uint64_t CallsSince(Gate& gate, bool& in_flight) {
  constexpr std::uint32_t kMostCalls = UINT32_MAX / kOneCall;
  std::uint64_t calls = 0;
  in_flight = false;
  const Locked lock(gate.registry);
  ForEachPassenger(gate, [&](Passenger& one) {
    const std::uint32_t word = Load(one.in_flight);
    in_flight = in_flight || (word & kDepthMask) != 0;
    calls += (word / kOneCall - one.seen) & kMostCalls;
    one.seen = word / kOneCall;
  });
  return calls;
}

bool CloseGate(Guest& guest, const RestLimit& limit) {
  Gate& gate = guest.gate;
  {
    const Locked lock(gate.registry);
    Store(gate.closed, 1);
    ForEachPassenger(gate, [](Passenger& one) { Store(one.open, 0); });
  }
  if (gate.expedited && !Membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) gate.unsafe = true;
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  for (std::uint64_t pause = kFirstPause; AnyInFlight(gate);
       pause = pause < kLongestPause ? 2 * pause : pause) {
    if (limit.IsOver()) {
      OpenGate(guest);
      return false;
    }
    const timespec time{0, static_cast<long>(pause)};
    ::nanosleep(&time, nullptr);
  }
  return true;
}

void OpenGate(Guest& guest) {
  Gate& gate = guest.gate;
  {
    const Locked lock(gate.registry);
    Store(gate.closed, 0);
    ForEachPassenger(gate, [&](Passenger& one) { Store(one.open, gate.expedited ? 1 : 0); });
  }
  ::syscall(SYS_futex, &gate.closed, FUTEX_WAKE_PRIVATE, 0x7fffffff, nullptr, nullptr, 0);
}

}  // namespace gpuman::shim

#include "shim/attendant.h"

#include <time.h>

#include <cstdlib>

#include "ledger/wire/books.h"
#include "ledger/wire/orders.h"
#include "shim/backing.h"
#include "shim/drain.h"
#include "shim/driver.h"
#include "shim/eviction.h"
#include "shim/guest.h"
#include "shim/threads.h"

namespace gpuman::shim {
namespace {

namespace wire = ledger::wire;
using wire::Stage;
using wire::Trouble;

constexpr std::uint64_t kEndingNs = 2'000'000'000;  // how long the program's end waits for the attendant
constexpr std::uint64_t kLivesOnNs = 5'000'000'000;

// For as long as it lives, the program's end waits.
class Working {
 public:
  explicit Working(Attendant& attendant) : attendant_(attendant) { wire::Store(attendant_.working, 1); }
  ~Working() {
    wire::Store(attendant_.working, 0);
    if (wire::Load(attendant_.ending) != 0) wire::WakeAll(attendant_.working);
  }
  Working(const Working&) = delete;
  Working& operator=(const Working&) = delete;

 private:
  Attendant& attendant_;
};

class Attending {
 public:
  explicit Attending(Guest& guest) : guest_(guest), slot_(guest.ledger->slot[guest.slot]) {}

  [[noreturn]] void Run() {
    OpenVault(guest_);
    TellEvictable(guest_);
    Tell(Stage::kOnGpu);
    std::uint32_t done = wire::Load(slot_.answered);
    for (;;) {
      const std::uint32_t order = wire::Load(slot_.order);
      if (order == done) {
        wire::WaitOn(slot_.order, order, Look());
        continue;
      }
      const Working working(guest_.attendant);
      Obey(order);
      done = order;
      wire::Store(slot_.answered, order);
      wire::WakeAll(slot_.answered);
    }
  }

 private:
  void Tell(Stage stage) { wire::Store(slot_.stage, static_cast<std::uint32_t>(stage)); }
  void Tell(const Ended& ended) {
    wire::Store(slot_.error, wire::PackError(ended.trouble, static_cast<std::uint32_t>(ended.driver)));
  }
  // The program allocates and frees where the gate is open.
  void TellMemory() {
    __atomic_store_n(&slot_.evicted, BytesAway(guest_), __ATOMIC_SEQ_CST);
    TellEvictable(guest_);
  }
  RestLimit LimitOfProgram() const {
    const std::uint32_t patience = wire::Load(guest_.ledger->patience_ms);
    return {NowNs() + std::uint64_t{patience != 0 ? patience : wire::kPatienceMs} * 1'000'000, slot_.order};
  }

  // What the program does; how long to sleep then, ms.
  int Look() {
    constexpr int kLookForWatchersMs = 30'000;  // whose word comes with a wake-up, which may be missed
    if (guest_.attendant.shut) return -1;
    const Working working(guest_.attendant);
    if (IsEnding(guest_)) return -1;
    const int next = LookAtActivity(guest_);
    return next < 0 ? kLookForWatchersMs : next;
  }

  void Obey(std::uint32_t order) {
    Tell(Ended{});
    const wire::What what = wire::WhatOf(order);
    if (what == wire::What::kRun)
      Run(guest_.attendant.shut);
    else
      Hold(what, guest_.attendant.shut);
  }

  bool IsWatched() const { return wire::Load(guest_.ledger->watched_ms) != 0; }

  void Run(bool& shut) {
    Ended ended{};
    if (shut) {
      Tell(Stage::kRestoring);
      ended = FetchBack(guest_);
      shut = !ended.ok() && !ended.failed;
      TellMemory();
      if (!shut) {
        // Before its threads go on: they would tell that it had been idle ever since the gate was shut.
        TellActivity(guest_, IsWatched() ? wire::Activity::kBusy : wire::Activity::kUnknown, NowNs());
        OpenGate(guest_);
      }
    }
    Tell(ended);
    Tell(ended.failed ? Stage::kFailed : shut ? away_ : Stage::kOnGpu);  // the page may have been overwritten
  }

  void Hold(wire::What what, bool& shut) {
    const bool was_shut = shut;
    Ended ended{};
    if (!shut) {
      Tell(Stage::kEvicting);
      ended = IsEnding(guest_) ? Ended{Trouble::kBusy} : Shut(guest_, LimitOfProgram());
      shut = ended.ok();
    }
    const std::uint64_t away = BytesAway(guest_), wanted = wire::Load(slot_.order_bytes);
    const std::uint64_t bytes = what == wire::What::kLeave                   ? kEverything
                                : what == wire::What::kTake && wanted > away ? wanted - away
                                                                             : 0;
    if (ended.ok() && bytes != 0) {
      Tell(Stage::kEvicting);
      ended = HandOut(guest_, bytes);
    }
    if (ended.ok()) away_ = what == wire::What::kLeave ? Stage::kEvicted : Stage::kHeld;
    if (!ended.ok() && shut && !was_shut) {
      shut = false;
      OpenGate(guest_);
    }
    if (shut && !was_shut) TellActivity(guest_, wire::Activity::kIdle, NowNs());
    TellMemory();
    Tell(ended);
    Tell(shut ? away_ : Stage::kOnGpu);
  }

  Guest& guest_;
  wire::Slot& slot_;
  Stage away_ = Stage::kHeld;  // what it is while the gate is shut
};

bool Joined(const Guest& guest) { return guest.phase.load(std::memory_order_acquire) == Phase::kJoined; }

bool IsEvictable(const Guest& guest) {
  return wire::Load(guest.ledger->backing) == static_cast<std::uint32_t>(wire::Backing::kEvictable);
}

// A daemon that was away when the program began: it may not allocate again.
void AwaitDaemon(Guest& guest) {
  while (guest.phase.load(std::memory_order_acquire) == Phase::kAlone) {
    const std::uint64_t due = __atomic_load_n(&guest.next_try, __ATOMIC_ACQUIRE), now = NowNs();
    if (now < due) {
      const timespec time{static_cast<time_t>((due - now) / 1'000'000'000),
                          static_cast<long>((due - now) % 1'000'000'000)};
      ::nanosleep(&time, nullptr);
    }
    JoinWhenDue(guest);
  }
}

void* Attend(void* word) {
  Guest& guest = *static_cast<Guest*>(word);
  AwaitDaemon(guest);
  if (!Joined(guest) || !IsEvictable(guest)) return nullptr;
  {
    const Working working(guest.attendant);
    if (IsEnding(guest)) return nullptr;
    LearnAll();
    MeetDriver();
    StartDrain(guest);
  }
  Attending(guest).Run();
}

// Runs at exit, before the driver's own handlers, which were there earlier: none of the attendant's calls may
// be in flight in those, with the gate shut as little as with it open.
void AtEnd() {
  Guest* const guest = GuestMemory();
  if (guest == nullptr || wire::Load(guest->attendant.started) == 0) return;
  Attendant& attendant = guest->attendant;
  attendant.ends = NowNs();
  wire::Store(attendant.ending, 1);
  const std::uint64_t deadline = attendant.ends + kEndingNs;
  while (wire::Load(attendant.working) != 0) {
    const std::uint64_t now = NowNs();
    if (now >= deadline) return;
    wire::WaitOn(attendant.working, 1, static_cast<int>((deadline - now) / 1'000'000) + 1);
  }
}

}  // namespace

Resting::Resting(Attendant& attendant) : attendant_(attendant) {
  wire::Store(attendant_.working, 0);
  if (wire::Load(attendant_.ending) != 0) wire::WakeAll(attendant_.working);
}
Resting::~Resting() { wire::Store(attendant_.working, 1); }

bool IsEnding(const Guest& guest) { return wire::Load(guest.attendant.ending) != 0; }

void AwaitNeed(Guest& guest) {
  const timespec pause{0, 5'000'000};
  while (IsEnding(guest) && !AnyAtGate(guest) && NowNs() < guest.attendant.ends + kLivesOnNs) {
    const Resting resting(guest.attendant);
    ::nanosleep(&pause, nullptr);
  }
}

void StartAttendant(Guest& guest) {
  if (wire::Load(guest.attendant.started) != 0 || !MayBeEvicted() || (Joined(guest) && !IsEvictable(guest)))
    return;
  std::uint32_t expected = 0;
  if (!__atomic_compare_exchange_n(&guest.attendant.started, &expected, 1, false, __ATOMIC_SEQ_CST,
                                   __ATOMIC_SEQ_CST))
    return;
  if (!StartThread(Attend, &guest)) {
    wire::Store(guest.attendant.started, 0);
    return;
  }
  static bool at_end = false;  // a child of a fork has the handler already
  if (!at_end) at_end = std::atexit(AtEnd) == 0;
}

}  // namespace gpuman::shim

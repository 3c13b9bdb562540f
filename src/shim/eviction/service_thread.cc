#include "shim/eviction/service_thread.h"

#include <time.h>

#include <cstdlib>

#include "ledger/wire/orders.h"
#include "ledger/wire/slot_balance.h"
#include "shim/accounting/joining.h"
#include "shim/backing/backing.h"
#include "shim/eviction/eviction.h"
#include "shim/eviction/eviction_state.h"
#include "shim/gate/activity.h"
#include "shim/gate/drain.h"
#include "shim/gate/rest.h"
#include "shim/gate/stream_gates.h"
#include "shim/libc/clock.h"
#include "shim/libc/threads.h"
#include "shim/link/join.h"
#include "shim/symbols/driver.h"
#include "shim/symbols/driver_calls.h"
#include "shim/symbols/evictable.h"

namespace gpuman::shim {
namespace {

namespace wire = ledger::wire;
using wire::MemoryResidency;
using wire::OrderError;

constexpr std::uint64_t kEndingNs = 2'000'000'000;  // how long the program's end waits for the service thread
constexpr std::uint64_t kWorkedOn = 5'000'000;      // the daemon is notified of a refusal that took so long
constexpr std::uint64_t kLivesOnNs = 5'000'000'000;
constexpr std::uint64_t kAwayNs = 5'000'000'000;    // a daemon that shows no life for so long is away
constexpr std::int64_t kPacedInterval = 4'000'000;  // between two looks at the program's launches, ns
// How long a program waits for its service thread to begin, and then to be held. The service thread may not
// be able to begin meanwhile: for example it needs the loader, which the program's thread may have.
constexpr std::uint64_t kBeginsNs = 2'000'000'000;

// The program's end waits for the service thread while an object lives.
class Working {
 public:
  explicit Working(ServiceThreadState& service_thread) : service_thread_(service_thread) {
    wire::Store(service_thread_.working, 1);
  }
  ~Working() {
    wire::Store(service_thread_.working, 0);
    if (wire::Load(service_thread_.ending) != 0) wire::WakeAll(service_thread_.working);
  }
  Working(const Working&) = delete;
  Working& operator=(const Working&) = delete;

 private:
  ServiceThreadState& service_thread_;
};

class ServiceLoop {
 public:
  explicit ServiceLoop(EvictionState& state) : state_(state), slot_(state.ledger->slot[state.slot]) {}

  [[noreturn]] void Run() {
    OpenDescriptorStore(state_.descriptor_store);
    TellEvictable(state_);
    Tell(MemoryResidency::kOnGpu);
    std::uint32_t done = wire::Load(slot_.answered);
    for (;;) {
      const std::uint32_t order = wire::Load(slot_.order);
      if (order == done) {
        if (!AnswersOrder(order)) Sleep(order);
        continue;
      }
      const Working working(state_.service_thread);
      const std::uint64_t began = NowNs();
      const bool obeyed = Obey(order);
      done = order;
      wire::Store(slot_.answered, order);
      wire::WakeAll(slot_.answered);
      // The daemon looks for the answer soon after its order in any case. A process may refuse a repeated
      // order at once each time; the daemon would be kept busy if it were notified of each refusal.
      if (obeyed || NowNs() - began >= kWorkedOn) NotifyDaemon();
    }
  }

 private:
  void Tell(MemoryResidency residency) {
    wire::Store(slot_.residency, static_cast<std::uint32_t>(residency));
  }
  void Tell(const EvictionResult& ended) {
    wire::Store(slot_.error, wire::PackError(ended.error, static_cast<std::uint32_t>(ended.driver)));
  }
  // The program allocates and frees while the gate is open.
  void TellMemory() {
    TellEvicted(state_);
    TellEvictable(state_);
  }
  RestLimit LimitOfProgram() const {
    if (expires_ != 0) return {expires_, slot_.order};
    const std::uint32_t patience = wire::Load(state_.ledger->patience_ms);
    return {NowNs() + std::uint64_t{patience != 0 ? patience : wire::kPatienceMs} * 1'000'000, slot_.order};
  }
  // Returns when the hold that is ordered ends by itself; CLOCK_MONOTONIC, ns; 0: it does not.
  std::uint64_t ExpiryOf(wire::OrderKind what) const {
    constexpr std::uint64_t kMaxMs = 3'600'000;  // a program may overwrite its slot
    const std::uint64_t patience = what == wire::OrderKind::kHold ? wire::Load(slot_.order_bytes) : 0;
    return patience != 0 ? NowNs() + (patience < kMaxMs ? patience : kMaxMs) * 1'000'000 : 0;
  }
  bool IsWhole() const { return BytesAway(state_) == 0; }

  // There is no order to carry out. Returns true where it has done something else: served or refused a grant
  // of steps, ended a hold, or has held the process again. `done`: the order that was carried out or refused
  // last.
  bool AnswersOrder(std::uint32_t done) {
    if (HasGrant(state_)) {
      if (state_.service_thread.shut && away_ == MemoryResidency::kHeld && what_ == wire::OrderKind::kHold &&
          IsWhole())
        ServeGrant();
      else
        RefuseGrant(state_);
      return true;
    }
    if (lapsed_) return !IsDaemonAway() && HoldAgain(done);
    if (MayLapse() && IsDaemonAway()) {
      EndHold(EvictionResult{OrderError::kNoMover});
      lapsed_ = true;
      return true;
    }
    if (!IsForNow()) return false;
    if (NowNs() < expires_) {
      TellWaits(state_, /*for_now=*/true);
      return false;
    }
    TellNoRest(state_);
    EndHold(EvictionResult{OrderError::kBusy});
    return true;
  }
  // Whether a provisional hold holds the process, and all its memory is on the GPU.
  bool IsForNow() const { return state_.service_thread.shut && expires_ != 0 && IsWhole(); }

  // Whether the process is held for others' turns alone: nothing of its job is in host memory, and the job is
  // not on its way off the GPU.
  bool MayLapse() const {
    const wire::Ledger& ledger = *state_.ledger;
    return state_.service_thread.shut && what_ == wire::OrderKind::kHold && expires_ == 0 && IsWhole() &&
           wire::Total{wire::Load(ledger.host_total)}.units() == 0 && wire::Load(ledger.suspends) == 0;
  }
  // Whether the daemon, which alone can open the gate, shows no life.
  bool IsDaemonAway() {
    const std::uint32_t life = wire::Load(state_.ledger->life);
    const std::uint64_t now = NowNs();
    if (life != life_) life_seen_ = now;
    life_ = life;
    return life != 0 && now - life_seen_ > kAwayNs;
  }
  // The daemon is back, and has not withdrawn its order. Returns false where the process cannot be held now.
  bool HoldAgain(std::uint32_t order) {
    const Working working(state_.service_thread);
    if (IsEnding(state_)) return false;
    const bool held = Obey(order);
    lapsed_ = !held;
    if (held) NotifyDaemon();
    return held;
  }

  void ServeGrant() {
    const Working working(state_.service_thread);
    if (IsEnding(state_)) return RefuseGrant(state_);
    Tell(MemoryResidency::kEvicting);
    const EvictionResult ended = Shut(state_, LimitOfProgram(), /*was_at_rest=*/true);
    if (!ended.ok()) return EndHold(ended);
    TellWaits(state_, expires_ != 0);
    Tell(MemoryResidency::kHeld);
    NotifyDaemon();
  }
  // The process runs again, although the daemon has not withdrawn the order.
  void EndHold(const EvictionResult& ended) {
    TellActivity(state_, IsWatched() ? wire::Activity::kBusy : wire::Activity::kUnknown, NowNs());
    state_.service_thread.shut = false;
    Open();
    expires_ = 0;
    Tell(ended);
    Tell(MemoryResidency::kOnGpu);
    NotifyDaemon();
  }

  // Sleeps until there may be something to do.
  void Sleep(std::uint32_t order) {
    std::int64_t next = CheckProgram();
    if (!state_.service_thread.shut && KeepShort() && (next < 0 || next > kPacedInterval))
      next = kPacedInterval;
    wire::WaitOnFor(slot_.order, order, next);
  }
  // The gate is open. Returns whether the program's launches get marks from now on.
  bool KeepShort() {
    const Working working(state_.service_thread);
    const bool paced = IsPaced(state_) && !IsEnding(state_);
    if (paced)
      UseStreamGates(state_);
    else
      EndStreamGates(state_);
    return paced;
  }
  // Whether a hold may leave the program's work in its streams: it is for others' work alone.
  bool MayHoldInStreams(wire::OrderKind what) const {
    return what == wire::OrderKind::kHold && IsPaced(state_) && wire::Load(state_.stream_gates.in_use) != 0 &&
           wire::Load(state_.ledger->suspends) == 0;
  }
  void Open() {
    OpenStreams(state_);
    OpenGate(state_);
  }

  // Looks at what the program does. Returns how long to sleep then, in ns; below 0: without end.
  std::int64_t CheckProgram() {
    // The daemon wakes this thread when it begins to watch the job. The thread may miss that, so it looks by
    // itself.
    constexpr std::int64_t kWatchersInterval = 30'000'000'000;
    // A provisional hold is short: during it the daemon waits to learn which threads come to the gate.
    constexpr std::int64_t kProvisionalInterval = 2'000'000;
    // The thread may also miss that a grant wakes it, and nothing wakes it for the daemon's signs of life.
    constexpr std::int64_t kGrantInterval = 1'000'000'000;
    if (state_.service_thread.shut)
      return IsForNow() ? kProvisionalInterval : what_ == wire::OrderKind::kHold ? kGrantInterval : -1;
    const Working working(state_.service_thread);
    if (IsEnding(state_)) return -1;
    const std::int64_t next = CheckActivity(state_);
    if (lapsed_ && (next < 0 || next > kGrantInterval)) return kGrantInterval;
    return next < 0 ? kWatchersInterval : next;
  }

  // Returns false where the order is refused.
  bool Obey(std::uint32_t order) {
    Tell(EvictionResult{});
    const wire::OrderKind what = wire::OrderKindOf(order);
    bool& shut = state_.service_thread.shut;
    what_ = what;
    expires_ = ExpiryOf(what);
    life_ = wire::Load(state_.ledger->life);
    life_seen_ = NowNs();
    lapsed_ = false;
    return what == wire::OrderKind::kRun ? Run(order, shut) : Hold(what, shut);
  }

  bool IsWatched() const { return wire::Load(state_.ledger->watched_ms) != 0; }

  bool Run(std::uint32_t order, bool& shut) {
    // The word may be the next order's already. Then that order decides what becomes of the gate.
    const bool stays_held =
        wire::Load(slot_.order_bytes) == wire::kStayHeld || wire::Load(slot_.order) != order;
    EvictionResult ended{};
    TellNoRest(state_);
    if (shut) {
      Tell(MemoryResidency::kRestoring);
      ended = FetchBack(state_);
      if (ended.ok()) away_ = MemoryResidency::kHeld;
      shut = ended.ok() ? stays_held : !ended.failed;
      TellMemory();
      if (!shut) {
        // This comes before the program's threads go on: they would tell that the program has been idle since
        // the gate was closed.
        TellActivity(state_, IsWatched() ? wire::Activity::kBusy : wire::Activity::kUnknown, NowNs());
        Open();
      }
    }
    Tell(ended);
    // The residency is told also where it has not changed: the program may have overwritten the slot.
    Tell(ended.failed ? MemoryResidency::kFailed : shut ? away_ : MemoryResidency::kOnGpu);
    return ended.ok();
  }

  // Finds out how much is to leave each home by the order. Returns false where the order leaves all memory
  // where it is.
  bool FindLeaving(wire::OrderKind what, BytesToEvict& leaving) {
    bool any = what == wire::OrderKind::kLeave;
    ForEachHome(state_, [&](int device) {
      const std::uint32_t entry = HomeEntryOf(state_, device);
      const std::uint64_t away = BytesAwayFrom(state_, device);
      const std::uint64_t wanted =
          wire::Load(entry != 0 ? state_.ledger->home[entry - 1].order_bytes : slot_.order_bytes);
      if (what == wire::OrderKind::kLeave) leaving.bytes[device] = kEverything;
      if (what == wire::OrderKind::kTake && wanted > away) leaving.bytes[device] = wanted - away;
      any = any || leaving.bytes[device] != 0;
    });
    return any;
  }

  bool Hold(wire::OrderKind what, bool& shut) {
    const bool was_shut = shut;
    BytesToEvict leaving{};
    const bool any = FindLeaving(what, leaving);
    EvictionResult ended{};
    if (!shut || (AreStreamsClosed(state_.stream_gates) && (any || !MayHoldInStreams(what)))) {
      Tell(MemoryResidency::kEvicting);
      ended = IsEnding(state_)                 ? EvictionResult{OrderError::kBusy}
              : !any && MayHoldInStreams(what) ? ShutStreams(state_, LimitOfProgram())
                                               : Shut(state_, LimitOfProgram());
      shut = ended.ok();
    }
    if (ended.ok() && any) {
      TellNoRest(state_);
      Tell(MemoryResidency::kEvicting);
      ended = HandOut(state_, leaving);
    } else if (ended.ok() && IsWhole()) {
      TellWaits(state_, expires_ != 0);
    }
    if (ended.ok())
      away_ = what == wire::OrderKind::kLeave ? MemoryResidency::kEvicted : MemoryResidency::kHeld;
    if (!ended.ok() && !was_shut) shut = false;
    if (!shut) Open();
    if (shut != was_shut) {
      const wire::Activity open = IsWatched() ? wire::Activity::kBusy : wire::Activity::kUnknown;
      TellActivity(state_, shut ? wire::Activity::kIdle : open, NowNs());
    }
    TellMemory();
    Tell(ended);
    Tell(shut ? away_ : MemoryResidency::kOnGpu);
    return ended.ok();
  }

  EvictionState& state_;
  wire::Slot& slot_;
  MemoryResidency away_ = MemoryResidency::kHeld;  // the residency while the gate is closed
  wire::OrderKind what_ = wire::OrderKind::kRun;   // the order that was carried out or refused last
  std::uint64_t expires_ = 0;    // when a provisional hold ends; CLOCK_MONOTONIC, ns; 0: the hold has no end
  std::uint32_t life_ = 0;       // Ledger::life as it was seen last
  std::uint64_t life_seen_ = 0;  // when it was seen to have grown; CLOCK_MONOTONIC, ns
  bool lapsed_ = false;          // the process runs although it is to be held: the daemon was away
};

// From kOnGpu on the daemon counts on the process, also before its service thread has begun.
void TellBegins(const EvictionState& state, MemoryResidency residency) {
  if (IsJoined(state))
    wire::Store(state.ledger->slot[state.slot].residency, static_cast<std::uint32_t>(residency));
}

bool IsEvictable(const EvictionState& state) {
  return wire::Load(state.ledger->backing) == static_cast<std::uint32_t>(wire::AllocationMode::kEvictable);
}

// The daemon was not there when the program began. The thread asks for it, since the program may not allocate
// again.
void AwaitDaemon(EvictionState& state) {
  while (state.join_state.load(std::memory_order_acquire) == JoinState::kAlone) {
    const std::uint64_t due = __atomic_load_n(&state.next_try, __ATOMIC_ACQUIRE), now = NowNs();
    if (now < due) {
      const timespec time{static_cast<time_t>((due - now) / 1'000'000'000),
                          static_cast<long>((due - now) % 1'000'000'000)};
      ::nanosleep(&time, nullptr);
    }
    if (JoinWhenDue(state)) TellAfterJoining(state);
  }
}

// Returns false where the program ends already.
bool Begin(EvictionState& state) {
  const Working working(state.service_thread);
  if (IsEnding(state)) {
    TellBegins(state, MemoryResidency::kNone);
    return false;
  }
  LearnAll();
  MeetDriver();
  StartDrain(state);
  return true;
}

void* RunServiceThread(void* word) {
  EvictionState& state = *static_cast<EvictionState*>(word);
  AwaitDaemon(state);
  const bool works = IsJoined(state) && IsEvictable(state) && Begin(state);
  wire::Store(state.service_thread.ready, 1);
  wire::WakeAll(state.service_thread.ready);
  if (!works) return nullptr;
  ServiceLoop(state).Run();
}

// Waits until the word is 1. Returns false where it is not by then.
bool AwaitSet(std::uint32_t& word, std::uint64_t end) {
  while (wire::Load(word) == 0) {
    const std::uint64_t now = NowNs();
    if (now >= end) return false;
    wire::WaitOnFor(word, 0, static_cast<std::int64_t>(end - now));
  }
  return true;
}

// It is waited for in vain only once.
void AwaitReady(EvictionState& state, int device) {
  ServiceThreadState& service_thread = state.service_thread;
  if (wire::Load(service_thread.late) != 0) return;
  const std::uint64_t end = NowNs() + kBeginsNs;
  DrainThread* const drain = device >= 0 && device < kMaxDevices ? &state.drain.thread[device] : nullptr;
  if (!AwaitSet(service_thread.ready, end) ||
      (drain != nullptr && IsStarted(*drain) && !AwaitSet(drain->met, end)))
    wire::Store(service_thread.late, 1);
}

void AwaitPresentHold(EvictionState& state) {
  constexpr timespec kPause{0, 1'000'000};
  const wire::Slot& slot = state.ledger->slot[state.slot];
  const auto stands = [&] {
    const std::uint32_t order = wire::Load(slot.order);
    return order != wire::Load(slot.answered) && wire::OrderKindOf(order) != wire::OrderKind::kRun;
  };
  const std::uint64_t end = NowNs() + kBeginsNs;
  const NoCancellation whole;
  while (stands() && wire::Load(state.gate.closed) == 0 && !IsEnding(state) && NowNs() < end)
    ::nanosleep(&kPause, nullptr);
}

// Set once the handler below is registered. A child of a fork has the handler already, and finds its own
// state at the same address.
EvictionState* at_end = nullptr;

// Runs at exit, before the driver's own handlers, which were registered earlier. While those run, no call of
// the service thread or of a drain thread may be in flight, whether the gate is closed or open.
void AtEnd() {
  if (wire::Load(at_end->service_thread.started) == 0) return;
  ServiceThreadState& service_thread = at_end->service_thread;
  service_thread.ends = NowNs();
  wire::Store(service_thread.ending, 1);
  const std::uint64_t deadline = service_thread.ends + kEndingNs;
  while (wire::Load(service_thread.working) != 0) {
    const std::uint64_t now = NowNs();
    if (now >= deadline) break;
    wire::WaitOn(service_thread.working, 1, static_cast<int>((deadline - now) / 1'000'000) + 1);
  }
  OpenStreams(*at_end);  // the driver may wait for the work
  const std::uint64_t now = NowNs();
  AwaitDrains(*at_end, kEveryDevice, now < deadline ? deadline - now : 0);
}

}  // namespace

ServiceThreadIdleScope::ServiceThreadIdleScope(ServiceThreadState& service_thread)
    : service_thread_(service_thread) {
  wire::Store(service_thread_.working, 0);
  if (wire::Load(service_thread_.ending) != 0) wire::WakeAll(service_thread_.working);
}
ServiceThreadIdleScope::~ServiceThreadIdleScope() { wire::Store(service_thread_.working, 1); }

bool IsEnding(const EvictionState& state) { return wire::Load(state.service_thread.ending) != 0; }

void AwaitNeed(EvictionState& state) {
  const timespec pause{0, 5'000'000};
  while (IsEnding(state) && !AnyAtGate(state) && NowNs() < state.service_thread.ends + kLivesOnNs) {
    const ServiceThreadIdleScope attempt(state.service_thread);
    ::nanosleep(&pause, nullptr);
  }
}

void StartServiceThread(EvictionState& state) {
  if (wire::Load(state.service_thread.started) != 0 || !MayBeEvicted() ||
      (IsJoined(state) && !IsEvictable(state)))
    return;
  std::uint32_t expected = 0;
  if (!__atomic_compare_exchange_n(&state.service_thread.started, &expected, 1, false, __ATOMIC_SEQ_CST,
                                   __ATOMIC_SEQ_CST))
    return;
  TellBegins(state, MemoryResidency::kOnGpu);
  if (!StartThread(RunServiceThread, &state)) {
    TellBegins(state, MemoryResidency::kNone);
    wire::Store(state.service_thread.started, 0);
    return;
  }
  if (at_end != nullptr) return;
  at_end = &state;
  if (std::atexit(AtEnd) != 0) at_end = nullptr;
}

void AwaitServiceThread(EvictionState& state, int device) {
  if (!IsJoined(state) || wire::Load(state.service_thread.started) == 0) return;
  AwaitReady(state, device);
  AwaitPresentHold(state);
}

}  // namespace gpuman::shim

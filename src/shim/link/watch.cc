#include "shim/link/watch.h"

#include "ledger/wire/slot_balance.h"
#include "shim/libc/clock.h"
#include "shim/libc/lock.h"
#include "shim/link/join.h"
#include "shim/link/link_state.h"

namespace gpuman::shim {
namespace {

namespace wire = ledger::wire;
using wire::Activity;

// Writes into the ledger what allocations wait for. Returns whether it is more than before.
bool TellWants(LinkState& state, std::uint32_t entry) {
  const std::uint64_t wants = state.watch.wants[entry], before = WantsOf(state, entry);
  if (entry == 0)
    wire::Store(state.ledger->slot[state.slot].wants, wants);
  else
    wire::Store(state.ledger->home[entry - 1].wants, static_cast<std::uint32_t>(wire::UnitsOf(wants)));
  return wants > before;
}

// Changes the watch, and tells the daemon in the slot what the program does now. `entry`: where allocations
// may wait for more or less by the change. `of_gate`: a thread comes to the gate or leaves it.
template <typename Change>
void Tell(LinkState& state, Change change, std::uint32_t entry = 0, bool of_gate = false) {
  ActivityWatchState& watch = state.watch;
  bool notifies = false;
  {
    const Locked lock(watch.mutex);
    change(watch);
    if (!IsJoined(state)) return;
    wire::Slot& slot = state.ledger->slot[state.slot];
    const Activity now = watch.for_room != 0  ? Activity::kForRoom
                         : watch.at_gate != 0 ? Activity::kAtGate
                                              : watch.own;
    const bool wants_more = TellWants(state, entry);
    if (wire::Load(slot.activity) != static_cast<std::uint32_t>(now)) {
      wire::Store(slot.activity_since, now == watch.own ? watch.own_since : NowNs());
      wire::Store(slot.activity, static_cast<std::uint32_t>(now));
      notifies = wire::Load(state.ledger->watched_ms) != 0 && !(of_gate && watch.quiet);
    }
    notifies = notifies || wants_more;
  }
  if (notifies) NotifyDaemon();
}

}  // namespace

GateWaitScope::GateWaitScope(LinkState& state) : state_(state) {
  Tell(
      state_, [](ActivityWatchState& watch) { ++watch.at_gate; }, 0, /*of_gate=*/true);
}
GateWaitScope::~GateWaitScope() {
  Tell(
      state_, [](ActivityWatchState& watch) { --watch.at_gate; }, 0, /*of_gate=*/true);
}

RoomWaitScope::RoomWaitScope(LinkState& state, std::uint32_t entry, std::uint64_t bytes)
    : state_(state), entry_(entry), bytes_(bytes) {
  Tell(
      state_,
      [&](ActivityWatchState& watch) {
        ++watch.for_room;
        watch.wants[entry_] += bytes_;
      },
      entry_);
}
RoomWaitScope::~RoomWaitScope() {
  Tell(
      state_,
      [&](ActivityWatchState& watch) {
        --watch.for_room;
        watch.wants[entry_] -= bytes_;
      },
      entry_);
}

std::uint64_t WantsOf(const LinkState& state, std::uint32_t entry) {
  return entry == 0 ? wire::Load(state.ledger->slot[state.slot].wants)
                    : wire::Load(state.ledger->home[entry - 1].wants) * wire::kUnit;
}

bool AnyAtGate(LinkState& state) {
  const Locked lock(state.watch.mutex);
  return state.watch.at_gate != 0;
}

bool AnyForRoom(LinkState& state) {
  const Locked lock(state.watch.mutex);
  return state.watch.for_room != 0;
}

void BeginQuietGate(LinkState& state) {
  const Locked lock(state.watch.mutex);
  state.watch.quiet = true;
}

void EndQuietGate(LinkState& state) {
  const Locked lock(state.watch.mutex);
  state.watch.quiet = false;
}

bool AnyWaits(LinkState& state) {
  const Locked lock(state.watch.mutex);
  return state.watch.at_gate != 0 || state.watch.for_room != 0;
}

void TellWorksAgain(LinkState& state) {
  Tell(state, [](ActivityWatchState& watch) {
    if (watch.own != Activity::kIdle) return;
    watch.own = Activity::kBusy;
    watch.own_since = NowNs();
  });
}

Activity OwnActivity(LinkState& state) {
  const Locked lock(state.watch.mutex);
  return state.watch.own;
}

void TellActivity(LinkState& state, Activity own, std::uint64_t since) {
  state.watch.last_call = since;
  Tell(state, [&](ActivityWatchState& watch) {
    watch.own = own;
    watch.own_since = since;
  });
}

}  // namespace gpuman::shim

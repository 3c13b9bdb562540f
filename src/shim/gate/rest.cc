#include "shim/gate/rest.h"

#include "ledger/wire/orders.h"
#include "ledger/wire/rest.h"
#include "shim/accounting/meter.h"
#include "shim/gate/gate_state.h"
#include "shim/libc/clock.h"
#include "shim/libc/lock.h"
#include "shim/link/join.h"
#include "shim/link/watch.h"

namespace gpuman::shim {
namespace {

namespace wire = ledger::wire;
using namespace driver::abi;  // NOLINT(google-build-using-namespace): the vendor's names
using wire::StepEnd;
using wire::StepGrant;

constexpr std::uint64_t kMicrosecond = 1'000, kMillisecond = 1'000'000;
constexpr std::uint64_t kLookEvery = kMillisecond;
constexpr std::uint64_t kLookAtCall = 50 * kMicrosecond;
// A call that takes longer has blocked, and a GPU that takes longer after a call is at work.
constexpr std::uint64_t kAtOnce = kMillisecond;
// A GPU that rests before this had nothing to do that others could wait for.
constexpr std::uint64_t kShortWork = kMillisecond;
constexpr std::uint64_t kComesToGate = 5 * kMillisecond;  // how long a grant waits for a thread
constexpr std::uint64_t kCareful = 100 * kMicrosecond;

constexpr int kAnyDevice = -1;

wire::Slot& SlotOf(const GateState& state) { return state.ledger->slot[state.slot]; }

// Writes the words that differ from what the slot told before. What works is written first: a reader that
// finds that a call has returned finds the work of that call as well.
void Publish(GateState& state, std::uint32_t rest, std::uint32_t bits) {
  RestWords& told = state.rest;
  if (told.rest == rest && told.state == bits) return;
  told.rest = rest;
  told.state = bits;
  ++told.changes;
  wire::Store(SlotOf(state).rest, rest);
  wire::Store(SlotOf(state).rest_state, std::uint32_t{told.changes} << 16 | bits);
}

// Devices as GPUs of the ledger. `all` becomes false where the ledger lacks one.
std::uint16_t GpusOf(GateState& state, std::uint64_t devices, bool& all) {
  std::uint32_t gpus = 0;
  for (int device = 0; device < kMaxDevices; ++device) {
    if ((devices >> device & 1) == 0) continue;
    const int gpu = LedgerGpuOf(state, device);
    if (gpu >= 0 && gpu < static_cast<int>(wire::kMaxGpus))
      gpus |= 1u << gpu;
    else
      all = false;
  }
  return static_cast<std::uint16_t>(gpus);
}

// The devices for which threads wait. With one lane, nobody has asked the threads for their device.
std::uint64_t DevicesWaitedFor(const GateState& state, const GateLook& look, bool& elsewhere) {
  elsewhere = look.elsewhere;
  if (!look.waits || wire::Load(state.drain.lanes) != 1) return look.devices;
  elsewhere = false;
  for (int device = 0; device < kMaxDevices; ++device)
    if (state.drain.lane[device].started) return std::uint64_t{1} << device;
  return look.devices;
}

void SetPhase(GateState& state, RestPhase phase) {
  wire::Store(state.gate.phase, static_cast<std::uint32_t>(phase));
}

void Sleep(std::uint64_t nanoseconds) {
  const timespec time{0, static_cast<long>(nanoseconds)};
  ::nanosleep(&time, nullptr);
}

class Resting {
 public:
  Resting(GateState& state, const RestLimit& limit) : state_(state), gate_(state.gate), limit_(limit) {
    NotifyOfGate(state_, false);
    SetPhase(state_, RestPhase::kComing);
  }
  ~Resting() {
    NotifyOfGate(state_, true);
    SetPhase(state_, RestPhase::kNone);
  }
  Resting(const Resting&) = delete;
  Resting& operator=(const Resting&) = delete;

  Rested Run(bool was_at_rest, CUresult& result);

 private:
  // --- how it stands
  void Look();
  void LookAtLanes();
  void LookAtLane(int device);
  bool MayAsk() const;
  void Tell();
  bool Rests(int device) const;
  bool CloseOutsideCaptures();
  Rested GiveUp(Rested why);

  // --- grants
  void Serve();
  StepEnd Step(const StepGrant& grant, int device, unsigned& calls);
  bool RestsAtOnce(int device);
  StepEnd AwaitRest(int device, unsigned calls);
  void TellGrant(StepEnd ended, unsigned calls);
  ThreadSlot* AwaitThread(int device);
  bool LetPass(ThreadSlot& thread);
  bool IsVoid() const;
  std::uint32_t RestsOfOthers() const { return wire::Load(state_.ledger->rests) - state_.rest.own; }
  int DeviceOf(unsigned gpu) const;

  GateState& state_;
  Gate& gate_;
  const RestLimit& limit_;

  GateLook look_{};
  std::uint32_t heard_ = 0;  // the bell, before the last look
  std::uint64_t works_ = 0;  // the devices that work, or may work; one bit each
  CUresult failed_ = CUDA_SUCCESS;
  bool shut_ = false;
  std::uint32_t number_ = 0;            // of the grant that it serves
  const ThreadSlot* passed_ = nullptr;  // the thread that passed last by that grant
};

// --- how it stands

// Looks at calls and lanes, asks lanes what they do not know, and tells it all.
void Resting::Look() {
  heard_ = wire::Load(gate_.bell);
  look_ = LookAtGate(gate_);
  {
    // Its holder may be in the driver: in a call that is in flight.
    const TryLocked lock(state_.contexts);
    if (lock)
      LookAtLanes();
    else
      look_.in_flight = true;
  }
  Tell();
}

void Resting::LookAtLanes() {
  bool all = true;
  const std::uint64_t devices = DevicesToDrain(state_, all);
  if (!all) failed_ = CUDA_ERROR_OPERATING_SYSTEM;
  works_ &= devices;
  for (int device = 0; device < kMaxDevices; ++device)
    if ((devices >> device & 1) != 0 && state_.drain.lane[device].started) LookAtLane(device);
}

// A wait for a context tells nothing of work that a call in flight submits later. While the only device of
// the process has a call in flight, the device may work in any case, and the shim keeps out of the call's
// way.
bool Resting::MayAsk() const {
  const bool alone = wire::Load(state_.drain.lanes) < 2;
  return shut_ && !look_.delicate && wire::Load(state_.captures) == 0 && !(alone && look_.in_flight);
}

void Resting::LookAtLane(int device) {
  DrainLane& lane = state_.drain.lane[device];
  CUresult result = CUDA_SUCCESS;
  const bool done = IsLaneDone(lane, result);
  const bool fresh = lane.fresh && lane.calls == look_.calls && (!lane.asked_in_flight || look_.in_flight);
  if (done && lane.fresh && result != CUDA_SUCCESS) failed_ = result;
  const bool works = !done || !fresh;
  if (done && !fresh && MayAsk()) {
    lane.fresh = AskLane(state_, device);
    lane.calls = look_.calls;
    lane.asked_in_flight = look_.in_flight;
  }
  const std::uint64_t bit = std::uint64_t{1} << device;
  works_ = works ? works_ | bit : works_ & ~bit;
  if (works == lane.works) return;
  lane.works = works;
  if (works) {
    lane.works_since = NowNs();
  } else if (NowNs() - lane.works_since >= kShortWork) {
    __atomic_fetch_add(&state_.ledger->rests, 1, __ATOMIC_SEQ_CST);
    ++state_.rest.own;
  }
}

void Resting::Tell() {
  bool known = true, elsewhere = false;
  const std::uint64_t waited_for = DevicesWaitedFor(state_, look_, elsewhere);
  const std::uint16_t waits = GpusOf(state_, waited_for, known);
  elsewhere = elsewhere || !known;
  known = true;
  const std::uint16_t works = GpusOf(state_, works_, known);
  const bool in_flight = look_.in_flight || !known;
  const bool captures = wire::Load(state_.captures) != 0;
  Publish(state_, wire::PackRest(works, waits),
          (shut_ ? wire::kRestShut : 0) | (in_flight ? wire::kRestInFlight : 0) |
              (captures ? wire::kRestCapturing : 0) | (elsewhere ? wire::kRestAnywhere : 0) |
              (AnyForRoom(state_) ? wire::kRestForRoom : 0));
}

// Returns whether the device is at rest; with kAnyDevice: the process. Calls in flight belong to no device:
// of a process with several, only the call that the grant let pass last counts.
bool Resting::Rests(int device) const {
  if (device == kAnyDevice || wire::Load(state_.drain.lanes) < 2) return works_ == 0 && !look_.in_flight;
  return (works_ >> device & 1) == 0 &&
         (passed_ == nullptr || WhatBecameOf(*passed_) == Permitted::kReturned);
}

// Closes the gate when no stream is captured. Returns false where the limit is over before; then the gate is
// open.
bool Resting::CloseOutsideCaptures() {
  for (;;) {
    if (wire::Load(state_.captures) == 0) {
      ShutGate(state_);
      shut_ = true;
      // A call in flight may begin a capture yet. Look finds it.
      return true;
    }
    if (shut_) OpenGate(state_);
    shut_ = false;
    const std::uint32_t heard = wire::Load(gate_.bell);
    look_ = LookAtGate(gate_);
    Tell();
    if (limit_.IsOver()) return false;
    if (wire::Load(state_.captures) != 0) AwaitBell(gate_, heard, kLookEvery);
  }
}

Rested Resting::GiveUp(Rested why) {
  shut_ = false;
  Tell();
  OpenGate(state_);
  return why;
}

Rested Resting::Run(bool was_at_rest, CUresult& result) {
  if (!was_at_rest)
    for (DrainLane& lane : state_.drain.lane) lane.fresh = false;
  if (!CloseOutsideCaptures()) return GiveUp(Rested::kCapturing);
  for (;;) {
    Look();
    if (failed_ != CUDA_SUCCESS) {
      result = failed_;
      return GiveUp(Rested::kFailed);
    }
    if (!shut_ || wire::Load(state_.captures) != 0) {
      if (!CloseOutsideCaptures()) return GiveUp(Rested::kCapturing);
      continue;
    }
    if (HasGrant(state_)) {
      Serve();
      Look();
      if (!Rests(kAnyDevice)) NotifyDaemon();  // else the caller does
      continue;
    }
    if (Rests(kAnyDevice)) return Rested::kYes;
    if (limit_.IsOver()) return GiveUp(Rested::kBusy);
    AwaitBell(gate_, heard_, kLookEvery);
  }
}

// --- grants

// Returns whether the grant that it serves has ended by itself: the daemon has withdrawn it, or nothing holds
// the process any more.
bool Resting::IsVoid() const {
  const std::uint32_t step = wire::Load(SlotOf(state_).step);
  return wire::StepNumberOf(step) != number_ || wire::GrantOf(step).calls == 0 || failed_ != CUDA_SUCCESS ||
         limit_.IsOver();
}

// Returns the device that is this GPU of the ledger; kMaxDevices: there is none.
int Resting::DeviceOf(unsigned gpu) const {
  if (gpu >= wire::kMaxGpus) return kAnyDevice;
  for (int device = 0; device < kMaxDevices; ++device)
    if (state_.drain.lane[device].started && LedgerGpuOf(state_, device) == static_cast<int>(gpu))
      return device;
  return kMaxDevices;
}

void Resting::Serve() {
  const std::uint32_t step = wire::Load(SlotOf(state_).step);
  const StepGrant grant = wire::GrantOf(step);
  number_ = wire::StepNumberOf(step);
  state_.rest.grant = number_;
  passed_ = nullptr;
  unsigned calls = 0;
  TellGrant(StepEnd::kNotYet, 0);
  const int device = DeviceOf(grant.gpu);
  const StepEnd ended = grant.calls == 0        ? StepEnd::kWithdrawn
                        : device == kMaxDevices ? StepEnd::kNobodyWaited
                                                : Step(grant, device, calls);
  Look();  // what the calls have submitted is told before the end of the grant
  TellGrant(ended, calls);
}

void Resting::TellGrant(StepEnd ended, unsigned calls) {
  wire::Store(SlotOf(state_).stepped, wire::PackStepped({number_, ended, calls}));
}

StepEnd Resting::Step(const StepGrant& grant, int device, unsigned& calls) {
  const std::uint32_t rests = RestsOfOthers();
  const unsigned stride = 1u << grant.stride;
  for (;;) {
    if (IsVoid()) return StepEnd::kWithdrawn;
    const bool looks = !grant.behind && (calls % stride == 0 || calls == grant.calls);
    if (looks && !RestsAtOnce(device)) return AwaitRest(device, calls);
    if (calls == grant.calls) return StepEnd::kUsedUp;
    if (grant.careful && calls != 0) Sleep(kCareful);
    if (RestsOfOthers() != rests) return StepEnd::kOthersChanged;
    ThreadSlot* const thread = AwaitThread(device);
    if (thread == nullptr) return IsVoid() ? StepEnd::kWithdrawn : StepEnd::kNobodyWaited;
    const bool plain = wire::Load(thread->passage) == static_cast<std::uint32_t>(Passage::kCall);
    if (!plain && !RestsAtOnce(kAnyDevice)) return AwaitRest(kAnyDevice, calls);
    if (!LetPass(*thread)) return StepEnd::kWithdrawn;
    ++calls;
    // A capture that has begun is one call, until it ends.
    if (wire::Load(state_.captures) != 0 && !CloseOutsideCaptures()) return StepEnd::kWithdrawn;
  }
}

bool Resting::RestsAtOnce(int device) {
  for (const std::uint64_t end = NowNs() + kAtOnce;;) {
    Look();
    if (Rests(device)) return true;
    if (NowNs() >= end || failed_ != CUDA_SUCCESS) return false;
    AwaitBell(gate_, heard_, kLookAtCall);
  }
}

// A call has not come to rest at once. The grant lets no more pass, and ends when the device rests.
StepEnd Resting::AwaitRest(int device, unsigned calls) {
  TellGrant(StepEnd::kNotYet, calls);
  for (;;) {
    Look();
    if (Rests(device)) return StepEnd::kAtWork;
    if (IsVoid()) return StepEnd::kWithdrawn;
    AwaitBell(gate_, heard_, kLookEvery);
  }
}

// Returns the thread that waits longest for the device; null: none comes.
ThreadSlot* Resting::AwaitThread(int device) {
  const bool alone = wire::Load(state_.drain.lanes) < 2;
  for (const std::uint64_t end = NowNs() + kComesToGate;;) {
    const std::uint32_t heard = wire::Load(gate_.bell);
    if (ThreadSlot* const thread = LongestWaiting(gate_, alone ? kAnyDevice : device)) return thread;
    if (NowNs() >= end || IsVoid()) return nullptr;
    Look();
    AwaitBell(gate_, heard, kLookEvery);
  }
}

// Lets the thread's call pass, and waits until the call has returned or has blocked. Returns false where the
// grant ends before the thread goes on.
bool Resting::LetPass(ThreadSlot& thread) {
  const std::uint32_t waits = wire::Load(thread.waits);
  passed_ = &thread;
  GivePermit(thread);
  for (std::uint64_t taken = 0;;) {
    const std::uint32_t heard = wire::Load(gate_.bell);
    const Permitted now = WhatBecameOf(thread);
    if (now == Permitted::kReturned) return true;
    if (now == Permitted::kNotTaken) {
      if (IsVoid() && TakePermitBack(thread, waits)) return false;
    } else if (taken == 0) {
      taken = NowNs();
    } else if (NowNs() - taken >= kAtOnce) {
      return true;
    }
    AwaitBell(gate_, heard, kLookAtCall);
  }
}

}  // namespace

Rested ComeToRest(GateState& state, const RestLimit& limit, bool was_at_rest, CUresult& result) {
  return Resting(state, limit).Run(was_at_rest, result);
}

void TellWaits(GateState& state, bool for_now) {
  SetPhase(state, for_now ? RestPhase::kHeld : RestPhase::kNone);
  bool known = true, elsewhere = false;
  const std::uint64_t devices = DevicesWaitedFor(state, LookAtGate(state.gate), elsewhere);
  const std::uint16_t waits = GpusOf(state, devices, known);
  Publish(state, wire::PackRest(0, waits),
          wire::kRestShut | (elsewhere || !known ? wire::kRestAnywhere : 0) |
              (AnyForRoom(state) ? wire::kRestForRoom : 0));
}

void TellNoRest(GateState& state) {
  SetPhase(state, RestPhase::kNone);
  Publish(state, 0, 0);
}

bool HasGrant(const GateState& state) {
  const std::uint32_t number = wire::StepNumberOf(wire::Load(SlotOf(state).step));
  return number != 0 && number != state.rest.grant;
}

void RefuseGrant(GateState& state) {
  const std::uint32_t step = wire::Load(SlotOf(state).step);
  state.rest.grant = wire::StepNumberOf(step);
  const StepEnd ended = wire::GrantOf(step).calls == 0 ? StepEnd::kWithdrawn : StepEnd::kRefused;
  wire::Store(SlotOf(state).stepped, wire::PackStepped({state.rest.grant, ended, 0}));
}

}  // namespace gpuman::shim

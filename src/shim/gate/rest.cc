#include "shim/gate/rest.h"

#include <utility>

#include "ledger/wire/orders.h"
#include "ledger/wire/rest.h"
#include "shim/accounting/meter.h"
#include "shim/gate/quiesce_attempt.h"
#include "shim/libc/clock.h"
#include "shim/libc/lock.h"
#include "shim/link/join.h"
#include "shim/link/watch.h"

namespace gpuman::shim {
namespace {

namespace wire = ledger::wire;
using namespace driver::abi;  // NOLINT(google-build-using-namespace): the vendor's names

// A GPU that rests before this had nothing to do that others could wait for.
constexpr std::uint64_t kShortWork = kMillisecond;
constexpr std::uint64_t kStreamsInterval = 50 * kMicrosecond;
// Where some streams stand and the others have not come further for so long, they wait for those that stand,
// or work on something long that nothing can cut.
constexpr std::uint64_t kOthersWait = 5 * kMillisecond;
// Where there are marks to come and no stream stands for so long, the driver is asked: it may have failed.
// The shim does not ask earlier: the driver answers only after all queued work, and the asking thread waits
// there, however soon a stream stands.
constexpr std::uint64_t kLongWork = 1'000 * kMillisecond;

// Writes the words that differ from what the slot told before. The GPUs that work are written first: so a
// reader that sees that a call has returned sees the work of that call as well.
void Publish(GateState& state, std::uint32_t rest, std::uint32_t bits) {
  PublishedRest& told = state.rest;
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

// The devices for which threads wait. With one drain thread, nobody has asked the threads for their device.
std::uint64_t DevicesWaitedFor(const GateState& state, const GateReading& look, bool& elsewhere) {
  elsewhere = look.elsewhere;
  if (!look.waits || wire::Load(state.drain.started) != 1) return look.devices;
  elsewhere = false;
  for (int device = 0; device < kMaxDevices; ++device)
    if (IsStarted(state.drain.thread[device])) return std::uint64_t{1} << device;
  return look.devices;
}

void SetPhase(GateState& state, RestPhase phase) {
  wire::Store(state.gate.phase, static_cast<std::uint32_t>(phase));
}

}  // namespace

QuiesceAttempt::QuiesceAttempt(GateState& state, const RestLimit& limit) : state_(state), limit_(limit) {
  BeginQuietGate(state_);
  SetPhase(state_, RestPhase::kComing);
}

QuiesceAttempt::~QuiesceAttempt() {
  EndQuietGate(state_);
  SetPhase(state_, RestPhase::kNone);
}

void QuiesceAttempt::Observe() {
  seen_ = wire::Load(state_.gate.wake_ups);
  reading_ = ReadGate(state_.gate);
  // From this count the daemon sees how far each process is in its program.
  wire::Store(SlotOf(state_).completed, state_.watch.completed + reading_.unseen);
  {
    // Its holder may be in the driver: in a call that is in flight.
    const TryLocked lock(state_.contexts);
    if (lock)
      CheckDrains();
    else
      reading_.in_flight = true;
  }
  Tell();
}

void QuiesceAttempt::CheckDrains() {
  bool all = true;
  const std::uint64_t devices = DevicesToDrain(state_, all);
  if (!all) failed_ = CUDA_ERROR_OPERATING_SYSTEM;
  works_ &= devices;
  for (int device = 0; device < kMaxDevices; ++device)
    if ((devices >> device & 1) != 0 && IsStarted(state_.drain.thread[device])) CheckDrain(device);
}

// A wait for a context tells nothing of work that a call in flight submits later. While the only device of
// the process has a call in flight, the device may work in any case, and the shim keeps out of the call's
// way.
bool QuiesceAttempt::MayAsk() const {
  const bool alone = wire::Load(state_.drain.started) < 2;
  return shut_ && !reading_.delicate && wire::Load(state_.captures) == 0 && !(alone && reading_.in_flight);
}

void QuiesceAttempt::CheckDrain(int device) {
  DrainThread& thread = state_.drain.thread[device];
  CUresult result = CUDA_SUCCESS;
  const bool done = IsDrainDone(thread, result);
  const bool counts = thread.fresh && !WasCalledOff(thread);
  const bool fresh =
      counts && thread.calls == reading_.calls && (!thread.asked_in_flight || reading_.in_flight);
  if (done && counts && result != CUDA_SUCCESS) failed_ = result;
  const bool works = !done || !fresh;
  if (done && !fresh && MayAsk()) {
    thread.fresh = AskDrainThread(state_, device);
    thread.calls = reading_.calls;
    thread.asked_in_flight = reading_.in_flight;
  }
  const std::uint64_t bit = std::uint64_t{1} << device;
  works_ = works ? works_ | bit : works_ & ~bit;
  if (works == thread.works) return;
  thread.works = works;
  if (works) {
    thread.works_since = NowNs();
  } else if (NowNs() - thread.works_since >= kShortWork) {
    __atomic_fetch_add(&state_.ledger->rests, 1, __ATOMIC_SEQ_CST);
    ++state_.rest.own;
  }
}

void QuiesceAttempt::Tell() {
  bool known = true, elsewhere = false;
  const std::uint64_t waited_for = DevicesWaitedFor(state_, reading_, elsewhere);
  const std::uint16_t waits = GpusOf(state_, waited_for, known);
  elsewhere = elsewhere || !known;
  known = true;
  const std::uint16_t works = GpusOf(state_, works_, known);
  const bool in_flight = reading_.in_flight || !known;
  const bool captures = wire::Load(state_.captures) != 0;
  Publish(state_, wire::PackRest(works, waits),
          (shut_ ? wire::kRestShut : 0) | (in_flight ? wire::kRestInFlight : 0) |
              (captures ? wire::kRestCapturing : 0) | (elsewhere ? wire::kRestAnywhere : 0) |
              (AnyForRoom(state_) ? wire::kRestForRoom : 0));
}

// Calls in flight belong to no device: of a process with several, only the call of `passed` counts.
bool QuiesceAttempt::Rests(int device, const ThreadSlot* passed) const {
  if (device == kAnyDevice || wire::Load(state_.drain.started) < 2) return works_ == 0 && !reading_.in_flight;
  return (works_ >> device & 1) == 0 &&
         (passed == nullptr || WhatBecameOf(*passed) == GatePermitState::kReturned);
}

// The gate is shut and no call is in flight, so no work is submitted meanwhile.
bool QuiesceAttempt::RestsAsAWhole() {
  if (!Rests(kAnyDevice)) return false;
  ForgetUnmarkedWork(state_);
  return true;
}

bool QuiesceAttempt::CloseOutsideCaptures() {
  for (;;) {
    const std::uint32_t seen = wire::Load(state_.gate.wake_ups);
    if (wire::Load(state_.captures) == 0) {
      ShutGate(state_);
      shut_ = true;
      // A call in flight may begin a capture yet. Observe finds it.
      return true;
    }
    // Again where the gate was shut after one capture, and another has begun.
    OpenGateForCaptures(state_);
    shut_ = false;
    reading_ = ReadGate(state_.gate);
    Tell();
    if (limit_.IsOver()) return false;
    AwaitWakeUp(state_.gate, seen, kPollInterval);
  }
}

QuiesceResult QuiesceAttempt::GiveUp(QuiesceResult why) {
  shut_ = false;
  Tell();
  OpenStreams(state_);
  OpenGate(state_);
  return why;
}

// Marks do not tell of which device they are: the process works on all of its devices.
void QuiesceAttempt::TellWorks() {
  reading_ = ReadGate(state_.gate);
  if (const TryLocked lock(state_.contexts); lock) {
    bool all = true;
    works_ = DevicesToDrain(state_, all);
  }
  Tell();
}

void QuiesceAttempt::ForgetDrains() {
  for (DrainThread& thread : state_.drain.thread) thread.fresh = false;
}

QuiesceResult QuiesceAttempt::Run(bool was_at_rest, CUresult& result) {
  if (!was_at_rest) ForgetDrains();
  if (!CloseOutsideCaptures()) return GiveUp(QuiesceResult::kCapturing);
  for (;;) {
    Observe();
    if (failed_ != CUDA_SUCCESS) {
      result = failed_;
      return GiveUp(QuiesceResult::kFailed);
    }
    if (!shut_ || wire::Load(state_.captures) != 0) {
      if (!CloseOutsideCaptures()) return GiveUp(QuiesceResult::kCapturing);
      continue;
    }
    if (HasGrant(state_)) {
      ServeGrant(*this);
      Observe();
      if (!Rests(kAnyDevice)) NotifyDaemon();  // else the caller does
      continue;
    }
    if (RestsAsAWhole()) return QuiesceResult::kYes;
    if (limit_.IsOver()) return GiveUp(QuiesceResult::kBusy);
    Await(kPollInterval);
  }
}

QuiesceResult QuiesceAttempt::RunInStreams(CUresult& result) {
  ForgetDrains();
  if (!CloseOutsideCaptures()) return GiveUp(QuiesceResult::kCapturing);
  CloseStreams(state_);
  std::uint64_t moves = 0, last_moves = 0, moved = NowNs();
  bool stood = false;
  for (;;) {
    seen_ = wire::Load(state_.gate.wake_ups);
    if (wire::Load(state_.captures) != 0) {
      OpenStreams(state_);
      if (!CloseOutsideCaptures()) return GiveUp(QuiesceResult::kCapturing);
      CloseStreams(state_);
      continue;
    }
    const StreamsAtRest streams = AreStreamsAtRest(state_, moves);
    if (HasGrant(state_) || streams == StreamsAtRest::kFailed || HasUnmarkedWork(state_.stream_gates)) {
      // Others wait for calls of this process, and perhaps for what stands in its streams; or marks tell
      // nothing, or not all. The driver tells nothing either while a stream stands.
      OpenStreams(state_);
      return Run(/*was_at_rest=*/false, result);
    }
    const std::uint64_t now = NowNs();
    if (moves != last_moves) moved = now;
    last_moves = moves;
    // A mark may have been on its way through the gate when that was closed.
    if (streams == StreamsAtRest::kYes && std::exchange(stood, true)) return QuiesceResult::kYes;
    if (streams == StreamsAtRest::kPartly && now - moved >= kOthersWait) return QuiesceResult::kYes;
    const bool asks = streams == StreamsAtRest::kNoMarks || now - moved >= kLongWork;
    if (asks) {
      Observe();
      // A call in flight may have put a mark meanwhile, and the driver waits for what is behind it.
      if (RestsAsAWhole()) return QuiesceResult::kYes;
    } else {
      TellWorks();
    }
    if (failed_ != CUDA_SUCCESS) {
      result = failed_;
      return GiveUp(QuiesceResult::kFailed);
    }
    if (limit_.IsOver()) return GiveUp(QuiesceResult::kBusy);
    Await(kStreamsInterval);
  }
}

QuiesceResult ComeToRest(GateState& state, const RestLimit& limit, bool was_at_rest, CUresult& result) {
  if (AreStreamsClosed(state.stream_gates)) {
    OpenStreams(state);
    was_at_rest = false;
  }
  return QuiesceAttempt(state, limit).Run(was_at_rest, result);
}

QuiesceResult ComeToRestInStreams(GateState& state, const RestLimit& limit, CUresult& result) {
  return QuiesceAttempt(state, limit).RunInStreams(result);
}

void TellWaits(GateState& state, bool for_now) {
  SetPhase(state, for_now ? RestPhase::kHeld : RestPhase::kNone);
  bool known = true, elsewhere = false;
  const std::uint64_t devices = DevicesWaitedFor(state, ReadGate(state.gate), elsewhere);
  const std::uint16_t waits = GpusOf(state, devices, known);
  Publish(state, wire::PackRest(0, waits),
          wire::kRestShut | (elsewhere || !known ? wire::kRestAnywhere : 0) |
              (AnyForRoom(state) ? wire::kRestForRoom : 0));
}

void TellNoRest(GateState& state) {
  SetPhase(state, RestPhase::kNone);
  Publish(state, 0, 0);
}

}  // namespace gpuman::shim

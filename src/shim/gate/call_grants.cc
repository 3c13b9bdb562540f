// Lets the calls pass that the daemon grants to a process that stands at its closed gate.
#include <time.h>

#include "ledger/wire/orders.h"
#include "ledger/wire/rest.h"
#include "shim/accounting/meter.h"
#include "shim/gate/quiesce_attempt.h"
#include "shim/libc/clock.h"

namespace gpuman::shim {
namespace {

namespace wire = ledger::wire;
using wire::CallGrant;
using wire::CallGrantEndReason;

constexpr std::uint64_t kCallPollInterval = 50 * kMicrosecond;
// A call that takes longer has blocked, and a GPU that takes longer after a call is at work.
constexpr std::uint64_t kAtOnce = kMillisecond;
constexpr std::uint64_t kComesToGate = 5 * kMillisecond;  // how long a grant waits for a thread
constexpr std::uint64_t kCareful = 100 * kMicrosecond;

void Sleep(std::uint64_t nanoseconds) {
  const timespec time{0, static_cast<long>(nanoseconds)};
  ::nanosleep(&time, nullptr);
}

// Serves one grant.
class GrantedCalls {
 public:
  GrantedCalls(QuiesceAttempt& attempt, std::uint32_t word)
      : attempt_(attempt),
        state_(attempt.state()),
        grant_(wire::CallGrantOf(word)),
        number_(wire::GrantNumberOf(word)),
        device_(DeviceOf(grant_.gpu)) {}

  void Serve();

 private:
  CallGrantEndReason LetCallsPass();
  bool RestsAtOnce(int device);
  CallGrantEndReason AwaitRest(int device);
  ThreadSlot* AwaitThread();
  bool LetPass(ThreadSlot& thread);
  bool IsVoid() const;
  void Tell(CallGrantEndReason ended);
  std::uint32_t RestsOfOthers() const { return wire::Load(state_.ledger->rests) - state_.rest.own; }
  int DeviceOf(unsigned gpu) const;

  QuiesceAttempt& attempt_;
  GateState& state_;
  const CallGrant grant_;
  const std::uint32_t number_;
  const int device_;
  unsigned calls_ = 0;                  // that have passed
  const ThreadSlot* passed_ = nullptr;  // the thread that passed last
};

// Returns whether the grant that it serves has ended by itself: the daemon has withdrawn it, or nothing holds
// the process any more.
bool GrantedCalls::IsVoid() const {
  const std::uint32_t word = wire::Load(SlotOf(state_).call_grant);
  return wire::GrantNumberOf(word) != number_ || wire::CallGrantOf(word).calls == 0 || attempt_.IsOver();
}

// Returns the device that is this GPU of the ledger; kMaxDevices: there is none.
int GrantedCalls::DeviceOf(unsigned gpu) const {
  if (gpu >= wire::kMaxGpus) return kAnyDevice;
  for (int device = 0; device < kMaxDevices; ++device)
    if (IsStarted(state_.drain.thread[device]) && LedgerGpuOf(state_, device) == static_cast<int>(gpu))
      return device;
  return kMaxDevices;
}

void GrantedCalls::Serve() {
  state_.rest.grant = number_;
  Tell(CallGrantEndReason::kNotYet);
  const CallGrantEndReason ended = grant_.calls == 0        ? CallGrantEndReason::kWithdrawn
                                   : device_ == kMaxDevices ? CallGrantEndReason::kNobodyWaited
                                                            : LetCallsPass();
  attempt_.Observe();  // what the calls have submitted is told before the end of the grant
  Tell(ended);
}

void GrantedCalls::Tell(CallGrantEndReason ended) {
  wire::Store(SlotOf(state_).grant_report, wire::PackCallGrantReport({number_, ended, calls_}));
}

CallGrantEndReason GrantedCalls::LetCallsPass() {
  const std::uint32_t rests = RestsOfOthers();
  const unsigned stride = 1u << grant_.stride;
  for (;;) {
    if (IsVoid()) return CallGrantEndReason::kWithdrawn;
    const bool looks = !grant_.behind && (calls_ % stride == 0 || calls_ == grant_.calls);
    if (looks && !RestsAtOnce(device_)) return AwaitRest(device_);
    if (calls_ == grant_.calls) return CallGrantEndReason::kUsedUp;
    if (grant_.careful && calls_ != 0) Sleep(kCareful);
    // Calls behind work bring the process to where the others are, whatever they do meanwhile.
    if ((!grant_.behind || calls_ == 0) && RestsOfOthers() != rests)
      return CallGrantEndReason::kOthersChanged;
    ThreadSlot* const thread = AwaitThread();
    if (thread == nullptr)
      return IsVoid() ? CallGrantEndReason::kWithdrawn : CallGrantEndReason::kNobodyWaited;
    const bool plain = wire::Load(thread->kind) == static_cast<std::uint32_t>(CallKind::kPlain);
    if (!plain && !RestsAtOnce(kAnyDevice)) return AwaitRest(kAnyDevice);
    if (!LetPass(*thread)) return CallGrantEndReason::kWithdrawn;
    ++calls_;
    // A capture that has begun is one call, until it ends.
    if (wire::Load(state_.captures) != 0 && !attempt_.CloseOutsideCaptures())
      return CallGrantEndReason::kWithdrawn;
  }
}

bool GrantedCalls::RestsAtOnce(int device) {
  for (const std::uint64_t end = NowNs() + kAtOnce;;) {
    attempt_.Observe();
    if (attempt_.Rests(device, passed_)) return true;
    if (NowNs() >= end) return false;
    attempt_.Await(kCallPollInterval);
  }
}

// A call has not come to rest at once. The grant lets no more pass, and ends when the device rests.
CallGrantEndReason GrantedCalls::AwaitRest(int device) {
  Tell(CallGrantEndReason::kNotYet);
  for (;;) {
    attempt_.Observe();
    if (attempt_.Rests(device, passed_)) return CallGrantEndReason::kAtWork;
    if (IsVoid()) return CallGrantEndReason::kWithdrawn;
    attempt_.Await(kPollInterval);
  }
}

// Returns the thread that waits longest for the device; null: none comes.
ThreadSlot* GrantedCalls::AwaitThread() {
  const bool alone = wire::Load(state_.drain.started) < 2;
  for (const std::uint64_t end = NowNs() + kComesToGate;;) {
    const std::uint32_t seen = wire::Load(state_.gate.wake_ups);
    if (ThreadSlot* const thread = LongestWaiting(state_.gate, alone ? kAnyDevice : device_)) return thread;
    if (NowNs() >= end || IsVoid()) return nullptr;
    attempt_.Observe();
    AwaitWakeUp(state_.gate, seen, kPollInterval);
  }
}

// Lets the thread's call pass, and waits until the call has returned or has blocked. Returns false where the
// grant ends before the thread goes on.
bool GrantedCalls::LetPass(ThreadSlot& thread) {
  const std::uint32_t waits = wire::Load(thread.waits);
  passed_ = &thread;
  GivePermit(thread);
  for (std::uint64_t taken = 0;;) {
    const std::uint32_t seen = wire::Load(state_.gate.wake_ups);
    const GatePermitState now = WhatBecameOf(thread);
    if (now == GatePermitState::kReturned) return true;
    if (now == GatePermitState::kNotTaken) {
      if (IsVoid() && TakePermitBack(thread, waits)) return false;
    } else if (taken == 0) {
      taken = NowNs();
    } else if (NowNs() - taken >= kAtOnce) {
      return true;
    }
    AwaitWakeUp(state_.gate, seen, kCallPollInterval);
  }
}

}  // namespace

void ServeGrant(QuiesceAttempt& attempt) {
  GrantedCalls(attempt, wire::Load(SlotOf(attempt.state()).call_grant)).Serve();
}

bool HasGrant(const GateState& state) {
  const std::uint32_t number = wire::GrantNumberOf(wire::Load(SlotOf(state).call_grant));
  return number != 0 && number != state.rest.grant;
}

void RefuseGrant(GateState& state) {
  const std::uint32_t word = wire::Load(SlotOf(state).call_grant);
  state.rest.grant = wire::GrantNumberOf(word);
  const CallGrantEndReason ended =
      wire::CallGrantOf(word).calls == 0 ? CallGrantEndReason::kWithdrawn : CallGrantEndReason::kRefused;
  wire::Store(SlotOf(state).grant_report, wire::PackCallGrantReport({state.rest.grant, ended, 0}));
}

}  // namespace gpuman::shim

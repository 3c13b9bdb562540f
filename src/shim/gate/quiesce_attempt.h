// How the process comes to rest under one order (rest.h). Only rest.cc and call_grants.cc use this.
#pragma once

#include <cstdint>

#include "ledger/wire/layout.h"
#include "shim/gate/gate_state.h"
#include "shim/gate/rest.h"

namespace gpuman::shim {

inline constexpr int kAnyDevice = -1;
inline constexpr std::uint64_t kMicrosecond = 1'000, kMillisecond = 1'000'000;
inline constexpr std::uint64_t kPollInterval = kMillisecond;  // nanoseconds, as all times here

inline ledger::wire::Slot& SlotOf(const GateState& state) { return state.ledger->slot[state.slot]; }

class QuiesceAttempt {
 public:
  QuiesceAttempt(GateState& state, const RestLimit& limit);
  ~QuiesceAttempt();
  QuiesceAttempt(const QuiesceAttempt&) = delete;
  QuiesceAttempt& operator=(const QuiesceAttempt&) = delete;

  // ComeToRest.
  QuiesceResult Run(bool was_at_rest, driver::abi::CUresult& result);
  // ComeToRestInStreams.
  QuiesceResult RunInStreams(driver::abi::CUresult& result);

  // Reads calls and drain threads, asks those threads what is not known, and writes it all to the slot.
  void Observe();
  // As the last look saw it: whether the device is at rest; with kAnyDevice: the process. `passed`: the
  // thread whose call was let pass last; null: none.
  bool Rests(int device, const ThreadSlot* passed = nullptr) const;
  // Sleeps until something may have changed since the last look, for at most `nanoseconds`.
  void Await(std::uint64_t nanoseconds) { AwaitWakeUp(state_.gate, seen_, nanoseconds); }
  // Closes the gate when no stream is captured. Returns false where the limit is over before; then the gate
  // is open.
  bool CloseOutsideCaptures();
  // Whether nothing more is to be done: the limit is over, or the driver has failed.
  bool IsOver() const { return failed_ != driver::abi::CUDA_SUCCESS || limit_.IsOver(); }
  GateState& state() const { return state_; }

 private:
  void CheckDrains();
  void CheckDrain(int device);
  bool MayAsk() const;
  void Tell();
  void TellWorks();
  void ForgetDrains();
  bool RestsAsAWhole();
  QuiesceResult GiveUp(QuiesceResult why);

  GateState& state_;
  const RestLimit& limit_;
  GateReading reading_{};
  std::uint32_t seen_ = 0;   // the wake-ups before the last reading
  std::uint64_t works_ = 0;  // the devices that work, or may work; one bit each
  driver::abi::CUresult failed_ = driver::abi::CUDA_SUCCESS;
  bool shut_ = false;
};

// Serves the grant that the slot has (HasGrant), until it ends.
void ServeGrant(QuiesceAttempt& attempt);

}  // namespace gpuman::shim

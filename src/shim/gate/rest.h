// Brings the process to rest: the gate is closed, no call is in flight, and no work of a context is left; or
// what is left stands in its streams (ComeToRestInStreams).
// Tells meanwhile, in the slot, what does not rest and where threads wait, and lets the calls pass that the
// daemon grants (ledger/wire/rest.h).
//
// Only the service thread calls these functions, in a process that has joined.
#pragma once

#include <cstdint>

#include "driver/abi/cuda.h"

namespace gpuman::shim {

struct GateState;
class RestLimit;

// The words in the slot, as the service thread has published them last.
struct PublishedRest {
  std::uint32_t rest, state;  // Slot::rest, and the lower half of Slot::rest_state
  std::uint16_t changes;
  std::uint32_t grant;  // the number of the last grant that it has seen
  std::uint32_t own;    // how often it has let Ledger::rests grow
};

enum class QuiesceResult { kYes, kBusy, kCapturing, kFailed };

// Closes the gate and waits until the process is at rest and no grant is open, within the limit. While a
// stream is captured the gate is open: a thread that captures has to pass the gate to end the capture. Where
// the process does not come to rest, the gate is open again, and the slot still tells what works and who
// waits. With kFailed, `result` is the driver's error. `was_at_rest`: the gate is closed already, and the
// process has rested since.
QuiesceResult ComeToRest(GateState& state, const RestLimit& limit, bool was_at_rest,
                         driver::abi::CUresult& result);

// As ComeToRest, for a process whose launches get marks (stream_gates.h) and whose memory is not to leave:
// what is queued behind the marks stays in the streams, and calls of the program may be in flight that wait
// for it. Where no mark waits, the driver says when the work has ended. The streams are closed then;
// ComeToRest opens them.
QuiesceResult ComeToRestInStreams(GateState& state, const RestLimit& limit, driver::abi::CUresult& result);

// The process is held at rest: reports which threads wait at the gate by now. `for_now`: the hold is
// provisional, so a thread that arrives wakes the service thread to tell that.
void TellWaits(GateState& state, bool for_now);
// The process is not held any more, or its memory leaves: the slot reports nothing.
void TellNoRest(GateState& state);

// Returns whether there is a grant that the process has not seen. ComeToRest serves it.
bool HasGrant(const GateState& state);
// Answers a grant that cannot be served.
void RefuseGrant(GateState& state);

}  // namespace gpuman::shim

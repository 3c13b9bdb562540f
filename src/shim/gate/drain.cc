#include "shim/gate/drain.h"

#include "ledger/wire/orders.h"
#include "shim/gate/gate_state.h"
#include "shim/libc/lock.h"
#include "shim/libc/threads.h"
#include "shim/symbols/driver_calls.h"

namespace gpuman::shim {
namespace {

namespace wire = ledger::wire;
using namespace driver::abi;  // NOLINT(google-build-using-namespace): the vendor's names

void* Work(void* word) {
  Drain& drain = *static_cast<Drain*>(word);
  MeetDriver();
  for (;;) {
    const std::uint32_t asked = wire::Load(drain.asked);
    if (asked == wire::Load(drain.done)) {
      wire::WaitOn(drain.asked, asked, -1);
      continue;
    }
    CUresult result = CUDA_SUCCESS;
    for (unsigned i = 0; i < drain.contexts && result == CUDA_SUCCESS; ++i)
      result = SynchronizeContext(drain.context[i]);
    wire::Store(drain.result, static_cast<std::uint32_t>(result));
    wire::Store(drain.done, asked);
    wire::WakeAll(drain.done);
  }
}

bool Start(Drain& drain) {
  if (!drain.started) drain.started = StartThread(Work, &drain);
  return drain.started;
}

void Ask(Drain& drain) {
  wire::Store(drain.asked, drain.asked + 1);
  wire::WakeAll(drain.asked);
}

// Waits until the thread has nothing to do; without a limit, for as long as that takes. Returns false when
// the limit is over.
bool WaitUntilDone(Drain& drain, const RestLimit* limit) {
  constexpr int kLookAtOrderMs = 20;
  for (;;) {
    const std::uint32_t done = wire::Load(drain.done);
    if (done == wire::Load(drain.asked)) return true;
    if (limit == nullptr) {
      wire::WaitOn(drain.done, done, -1);
      continue;
    }
    if (limit->IsOver()) return false;
    wire::WaitOn(drain.done, done, kLookAtOrderMs);
  }
}

}  // namespace

void StartDrain(GateState& state) {
  if (!Start(state.drain)) return;  // DrainContexts tries again
  Ask(state.drain);
  WaitUntilDone(state.drain, nullptr);
}

Drained DrainContexts(GateState& state, const RestLimit& limit, CUresult& result) {
  Drain& drain = state.drain;
  if (!WaitUntilDone(drain, &limit)) return Drained::kTooLong;
  if (!Start(drain)) {
    result = CUDA_ERROR_OPERATING_SYSTEM;
    return Drained::kFailed;
  }
  drain.contexts = 0;
  bool all = true;
  {
    const Locked lock(state.contexts);
    state.context.ForEach([&](std::uint64_t context, const Context&) {
      if (drain.contexts < Drain::kMaxContexts)
        drain.context[drain.contexts++] = context;
      else
        all = false;
    });
  }
  if (!all) return Drained::kTooLong;
  Ask(drain);
  if (!WaitUntilDone(drain, &limit)) return Drained::kTooLong;
  result = static_cast<CUresult>(wire::Load(drain.result));
  return result == CUDA_SUCCESS ? Drained::kYes : Drained::kFailed;
}

}  // namespace gpuman::shim

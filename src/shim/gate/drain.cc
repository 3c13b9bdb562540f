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
  DrainLane& lane = *static_cast<DrainLane*>(word);
  MeetDriver();
  wire::Store(lane.met, 1);
  wire::WakeAll(lane.met);
  for (;;) {
    const std::uint32_t asked = wire::Load(lane.asked);
    if (asked == wire::Load(lane.done)) {
      wire::WaitOn(lane.asked, asked, -1);
      continue;
    }
    CUresult result = CUDA_SUCCESS;
    for (unsigned i = 0; i < lane.contexts && result == CUDA_SUCCESS; ++i)
      result = SynchronizeContext(lane.context[i]);
    wire::Store(lane.result, static_cast<std::uint32_t>(result));
    wire::Store(lane.done, asked);
    RingBell(lane.state->gate);
  }
}

// The caller holds state.contexts.
bool Start(GateState& state, int device) {
  DrainLane& lane = state.drain.lane[device];
  if (IsStarted(lane)) return true;
  lane.state = &state;
  if (!StartThread(Work, &lane)) return false;
  wire::Store(lane.started, 1);
  __atomic_fetch_add(&state.drain.lanes, 1, __ATOMIC_SEQ_CST);
  return true;
}

}  // namespace

void StartDrain(GateState& state) {
  {
    const Locked lock(state.contexts);
    state.drain.attended = true;
    bool all = true;
    DevicesToDrain(state, all);  // what fails is tried again with the first order
  }
  for (DrainLane& lane : state.drain.lane)
    while (IsStarted(lane) && wire::Load(lane.met) == 0) wire::WaitOn(lane.met, 0, -1);
}

bool IsStarted(const DrainLane& lane) { return wire::Load(lane.started) != 0; }

void DrainDevice(GateState& state, int device) {
  if (state.drain.attended && device >= 0 && device < kMaxDevices) Start(state, device);
}

std::uint64_t DevicesToDrain(GateState& state, bool& all) {
  std::uint64_t devices = 0;
  state.context.ForEach([&](std::uint64_t, const Context& context) {
    if (context.device >= 0 && context.device < kMaxDevices) devices |= std::uint64_t{1} << context.device;
  });
  for (int device = 0; device < kMaxDevices; ++device)
    if ((devices >> device & 1) != 0 && !Start(state, device)) all = false;
  return devices;
}

bool AskLane(GateState& state, int device) {
  DrainLane& lane = state.drain.lane[device];
  lane.contexts = 0;
  bool all = true;
  state.context.ForEach([&](std::uint64_t number, const Context& context) {
    if (context.device != device) return;
    if (lane.contexts < DrainLane::kMaxContexts)
      lane.context[lane.contexts++] = number;
    else
      all = false;
  });
  if (!all) return false;
  wire::Store(lane.asked, lane.asked + 1);
  wire::WakeAll(lane.asked);
  return true;
}

bool IsLaneDone(const DrainLane& lane, CUresult& result) {
  if (wire::Load(lane.done) != wire::Load(lane.asked)) return false;
  result = static_cast<CUresult>(wire::Load(lane.result));
  return true;
}

}  // namespace gpuman::shim

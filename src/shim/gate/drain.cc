#include "shim/gate/drain.h"

#include <time.h>

#include <cerrno>

#include "ledger/wire/orders.h"
#include "shim/gate/gate_state.h"
#include "shim/libc/clock.h"
#include "shim/libc/lock.h"
#include "shim/libc/threads.h"
#include "shim/symbols/driver_calls.h"

namespace gpuman::shim {
namespace {

namespace wire = ledger::wire;
using namespace driver::abi;  // NOLINT(google-build-using-namespace): the vendor's names

void* Work(void* word) {
  DrainThread& thread = *static_cast<DrainThread*>(word);
  MeetDriver();
  wire::Store(thread.met, 1);
  wire::WakeAll(thread.met);
  for (;;) {
    const std::uint32_t asked = wire::Load(thread.asked);
    if (asked == wire::Load(thread.done)) {
      wire::WaitOn(thread.asked, asked, -1);
      continue;
    }
    CUresult result = CUDA_SUCCESS;
    for (unsigned i = 0; i < thread.contexts && result == CUDA_SUCCESS && !WasCalledOff(thread); ++i)
      result = SynchronizeContext(thread.context[i]);
    wire::Store(thread.result, static_cast<std::uint32_t>(result));
    wire::Store(thread.done, asked);
    if (WasCalledOff(thread)) wire::WakeAll(thread.done);
    WakeServiceThread(thread.state->gate);
  }
}

// Waits until the thread has done what it was asked. It is waited for in vain only once.
void AwaitDrain(DrainThread& thread, std::uint64_t end) {
  const std::uint32_t asked = wire::Load(thread.asked);
  if (wire::Load(thread.done) == asked) return;
  wire::Store(thread.called_off, asked);
  for (;;) {
    const std::uint32_t done = wire::Load(thread.done);
    if (done == asked || wire::Load(thread.outlasted) == asked) return;
    const std::uint64_t now = NowNs();
    if (now >= end) return wire::Store(thread.outlasted, asked);
    wire::WaitOnFor(thread.done, done, static_cast<std::int64_t>(end - now));
  }
}

// The caller holds state.contexts.
bool Start(GateState& state, int device) {
  DrainThread& thread = state.drain.thread[device];
  if (IsStarted(thread)) return true;
  thread.state = &state;
  if (!StartThread(Work, &thread)) return false;
  wire::Store(thread.started, 1);
  __atomic_fetch_add(&state.drain.started, 1, __ATOMIC_SEQ_CST);
  return true;
}

}  // namespace

void StartDrain(GateState& state) {
  __atomic_store_n(&state.drain.attended, true, __ATOMIC_SEQ_CST);
  // The thread that makes the first context holds the lock for a moment. Another holder may be in the driver,
  // for as long as the program's work takes.
  constexpr std::uint64_t kPatience = 100'000'000;
  constexpr timespec kPause{0, 200'000};
  const std::uint64_t end = NowNs() + kPatience;
  for (bool tried = false; !tried && NowNs() < end;) {
    if (const TryLocked lock(state.contexts); lock) {
      bool all = true;
      DevicesToDrain(state, all);  // what fails is tried again with the first order
      tried = true;
    }
    if (!tried) ::nanosleep(&kPause, nullptr);
  }
  for (DrainThread& thread : state.drain.thread)
    while (IsStarted(thread) && wire::Load(thread.met) == 0) wire::WaitOn(thread.met, 0, -1);
}

bool IsStarted(const DrainThread& thread) { return wire::Load(thread.started) != 0; }

void DrainDevice(GateState& state, int device) {
  if (__atomic_load_n(&state.drain.attended, __ATOMIC_SEQ_CST) && device >= 0 && device < kMaxDevices)
    Start(state, device);
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

bool AskDrainThread(GateState& state, int device) {
  DrainThread& thread = state.drain.thread[device];
  thread.contexts = 0;
  bool all = true;
  state.context.ForEach([&](std::uint64_t number, const Context& context) {
    if (context.device != device) return;
    if (thread.contexts < DrainThread::kMaxContexts)
      thread.context[thread.contexts++] = number;
    else
      all = false;
  });
  if (!all) return false;
  wire::Store(thread.asked, thread.asked + 1);
  wire::WakeAll(thread.asked);
  return true;
}

bool IsDrainDone(const DrainThread& thread, CUresult& result) {
  if (wire::Load(thread.done) != wire::Load(thread.asked)) return false;
  result = static_cast<CUresult>(wire::Load(thread.result));
  return true;
}

bool WasCalledOff(const DrainThread& thread) {
  return wire::Load(thread.called_off) == wire::Load(thread.asked);
}

void AwaitDrains(GateState& state, int device, std::uint64_t nanoseconds) {
  const int before = errno;
  const std::uint64_t end = NowNs() + nanoseconds;
  for (int each = 0; each < kMaxDevices; ++each) {
    DrainThread& thread = state.drain.thread[each];
    if ((device == kEveryDevice || device == each) && IsStarted(thread)) AwaitDrain(thread, end);
  }
  errno = before;
}

}  // namespace gpuman::shim

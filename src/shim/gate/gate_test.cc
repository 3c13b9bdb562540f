// Tests the gate alone, with threads of the test. Stand-ins below replace what the gate uses of other rooms:
// no notification is sent, and the driver has one call.
#include "shim/gate/gate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "shim/gate/gate_state.h"
#include "shim/libc/wiped_memory.h"
#include "shim/symbols/driver.h"
#include "shim/symbols/evictable.h"

namespace gpuman::shim {
namespace {

// In memory that a fork wipes, as that of a process; a thread of the test ends in it.
GateState* StateOfTest() {
  static auto* const state = static_cast<GateState*>(MapWiped(sizeof(GateState)));
  return state;
}

void MakeCalls(int calls) {
  for (int i = 0; i < calls; ++i) const GateGuard call(StateOfTest);
}

std::uint32_t Calls() { return ReadGate(StateOfTest()->gate).calls; }

constexpr driver::abi::CUdevice kDeviceOfTest = 3;

driver::abi::CUresult GetDevice(driver::abi::CUdevice* device) {
  *device = kDeviceOfTest;
  return driver::abi::CUDA_SUCCESS;
}

// Runs each in a thread of its own, which has ended afterwards.
void InThread(const std::function<void()>& body) { std::thread(body).join(); }

TEST(Gate, SeesTheCallsOfEachThread) {
  const std::uint32_t before = Calls();
  MakeCalls(2);
  EXPECT_EQ(Calls(), before + 2);
  InThread([] { MakeCalls(3); });
  EXPECT_EQ(Calls(), before + 5);
}

TEST(Gate, ThreadThatEndsDoesNotHideTheCallsOfAnother) {
  MakeCalls(1);  // this thread has its place, and takes none that is left free
  std::uint32_t before = 0;
  InThread([&] {
    MakeCalls(3);
    before = Calls();
  });
  MakeCalls(3);  // as many as have gone
  EXPECT_NE(Calls(), before);
  InThread([] { MakeCalls(3); });  // in the place that has become free
  EXPECT_EQ(Calls(), before + 6);
}

TEST(Gate, CallInFlightIsSeenUntilItReturns) {
  {
    const GateGuard call(StateOfTest);
    EXPECT_TRUE(ReadGate(StateOfTest()->gate).in_flight);
  }
  EXPECT_FALSE(ReadGate(StateOfTest()->gate).in_flight);
}

// No order asks for it at that time.
TEST(Gate, ThreadThatWaitsTellsItsDeviceWhereThereAreSeveral) {
  GateState& state = *StateOfTest();
  state.drain.started = 2;
  ShutGate(state);
  std::thread waiting([] { MakeCalls(1); });
  GateReading look;
  while (!look.waits) {
    look = ReadGate(state.gate);
    std::this_thread::yield();
  }
  OpenGate(state);
  waiting.join();
  state.drain.started = 0;
  EXPECT_FALSE(look.elsewhere);
  EXPECT_EQ(look.devices, std::uint64_t{1} << kDeviceOfTest);
}

// A process of a job that is held for a turn, or suspended.
class QueryGuardTest : public testing::Test {
 protected:
  QueryGuardTest() : ledger_(std::make_unique<ledger::wire::Ledger>()), state_(*StateOfTest()) {
    state_.ledger = ledger_.get();
    state_.slot = 0;
    state_.join_state.store(JoinState::kJoined);
    ShutGate(state_);
  }
  ~QueryGuardTest() override {
    OpenGate(state_);
    state_.join_state.store(JoinState::kAlone);
    state_.ledger = nullptr;
  }
  std::unique_ptr<ledger::wire::Ledger> ledger_;
  GateState& state_;
};

TEST_F(QueryGuardTest, QueryPassesGateOfProcessThatWaitsForItsTurn) {
  const std::uint32_t before = Calls();
  InThread([] { const QueryGuard call(StateOfTest); });
  EXPECT_EQ(Calls(), before) << "that is no call of the program";
  EXPECT_FALSE(ReadGate(state_.gate).in_flight);
}

TEST_F(QueryGuardTest, QueryWaitsWhileJobIsSuspended) {
  ledger_->suspends = 1;
  std::atomic<bool> passed = false;
  std::thread asking([&] {
    const QueryGuard call(StateOfTest);
    passed = true;
  });
  while (!ReadGate(state_.gate).waits) std::this_thread::yield();
  EXPECT_FALSE(passed);
  OpenGate(state_);
  asking.join();
  EXPECT_TRUE(passed);
}

TEST_F(QueryGuardTest, QueryPassesInSuspendedProcessThatSharesMemory) {
  ledger_->suspends = 1;
  ledger_->slot[0].flags = ledger::wire::kShares;
  InThread([] { const QueryGuard call(StateOfTest); });
}

int works_again = 0;

TEST(GateAlert, NextCallNotifiesOnceAndPasses) {
  GateState& state = *StateOfTest();
  MakeCalls(1);
  works_again = 0;
  AlertOnCall(state);
  InThread([] { const QueryGuard call(StateOfTest); });
  EXPECT_EQ(works_again, 0) << "that only asked";
  const std::uint32_t before = Calls();
  MakeCalls(3);
  EXPECT_EQ(Calls(), before + 3);
  EXPECT_EQ(works_again, 1);
  InThread([] { MakeCalls(1); });
  EXPECT_EQ(works_again, 1);
  AlertOnCall(state);
  InThread([] { MakeCalls(1); });
  EXPECT_EQ(works_again, 2) << "a thread that is new tells too";
}

TEST(GateAlert, CallAtClosedGateNotifiesWhenItPasses) {
  GateState& state = *StateOfTest();
  works_again = 0;
  AlertOnCall(state);
  ShutGate(state);
  std::thread waiting([] { MakeCalls(1); });
  while (!ReadGate(state.gate).waits) std::this_thread::yield();
  EXPECT_EQ(works_again, 0);
  OpenGate(state);
  waiting.join();
  EXPECT_EQ(works_again, 1);
  ShutGate(state);
  AlertOnCall(state);  // nothing is awaited behind a closed gate
  OpenGate(state);
  MakeCalls(1);
  EXPECT_EQ(works_again, 1);
}

TEST(Gate, QueryInFlightIsSeenAtOpenGate) {
  const QueryGuard call(StateOfTest);
  EXPECT_TRUE(ReadGate(StateOfTest()->gate).in_flight);
}

}  // namespace

bool MayBeEvicted() { return true; }
GateWaitScope::GateWaitScope(LinkState& state) : state_(state) { ++state_.watch.at_gate; }
GateWaitScope::~GateWaitScope() { --state_.watch.at_gate; }
void TellWorksAgain(LinkState&) { ++works_again; }
void* learned[kDriverFunctions];
void* FindReal(DriverFunctionId entry) {
  return entry == DriverFunctionId::cuCtxGetDevice ? reinterpret_cast<void*>(GetDevice) : nullptr;
}

}  // namespace gpuman::shim

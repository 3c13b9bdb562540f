#include "daemon/shims/hold_answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace gpuman::daemon {
namespace {

using ledger::wire::MemoryResidency;
using ledger::wire::OrderError;
using std::chrono::seconds;

class HoldAnswersTest : public testing::Test {
 protected:
  ledger::SlotStatus& Process(pid_t pid, MemoryResidency residency, bool answered) {
    ledger::SlotStatus slot;
    slot.process = {pid, 1};
    slot.residency = residency;
    slot.answered = answered;
    slots_.push_back(slot);
    return slots_.back();
  }
  HoldAnswers After(std::chrono::milliseconds time) {
    return ReadHoldAnswers(
        slots_, [this](const base::ProcessId& process) { return process.pid == stopped_; }, began_,
        began_ + time);
  }
  std::vector<ledger::SlotStatus> slots_;
  pid_t stopped_ = 0;
  base::MonoTime began_{std::chrono::hours(1)};
};

TEST_F(HoldAnswersTest, AllHeldOnceEachProcessWithContextHasAnswered) {
  Process(11, MemoryResidency::kHeld, true);
  Process(12, MemoryResidency::kNone, false);
  Process(13, MemoryResidency::kFailed, true);
  EXPECT_TRUE(After(seconds(0)).all_held);
  Process(14, MemoryResidency::kHeld, false);
  EXPECT_FALSE(After(seconds(0)).all_held) << "its answer is to an earlier order";
  EXPECT_EQ(After(seconds(0)).why, "");
}

TEST_F(HoldAnswersTest, BusyProcessIsOrderedAgain) {
  Process(11, MemoryResidency::kOnGpu, true).error = OrderError::kBusy;
  EXPECT_THAT(After(seconds(100)).again, testing::ElementsAre(base::ProcessId{11, 1}));
  EXPECT_FALSE(After(seconds(100)).all_held);
  EXPECT_EQ(After(seconds(100)).why, "");
}

TEST_F(HoldAnswersTest, EvictingProcessCountsAsNotHeld) {
  Process(11, MemoryResidency::kEvicting, true);
  EXPECT_FALSE(After(seconds(1)).all_held);
  EXPECT_EQ(After(seconds(1)).why, "");
}

TEST_F(HoldAnswersTest, DriverErrorEndsTheAttempt) {
  Process(11, MemoryResidency::kHeld, true);
  Process(12, MemoryResidency::kOnGpu, true).error = OrderError::kDriver;
  EXPECT_THAT(After(seconds(0)).why, testing::StartsWith("process 12: the driver failed"));
}

TEST_F(HoldAnswersTest, ProcessThatTakesUpNoOrderFailsAfterFiveSeconds) {
  auto& one = Process(11, MemoryResidency::kEvicting, false);
  EXPECT_EQ(After(seconds(100)).why, "");
  one.residency = MemoryResidency::kOnGpu;
  EXPECT_EQ(After(std::chrono::milliseconds(4'999)).why, "");
  EXPECT_EQ(After(seconds(5)).why, "process 11: libgpuman.so in it does not answer");
}

TEST_F(HoldAnswersTest, HeldProcessIsNotCheckedForStop) {
  Process(11, MemoryResidency::kHeld, true);
  const auto never = [](const base::ProcessId&) -> bool { throw std::logic_error("asked"); };
  EXPECT_TRUE(ReadHoldAnswers(slots_, never, began_, began_).all_held);
}

TEST_F(HoldAnswersTest, StoppedProcessEndsTheAttemptUnlessHeld) {
  stopped_ = 11;
  auto& one = Process(11, MemoryResidency::kHeld, false);
  EXPECT_TRUE(After(seconds(0)).all_held);
  one.residency = MemoryResidency::kOnGpu;
  EXPECT_THAT(After(seconds(0)).why, testing::StartsWith("process 11: it is stopped"));
}

TEST_F(HoldAnswersTest, ProcessWithUnansweredRunOrderIsOpening) {
  const auto opening = [&] {
    return AreOpening(slots_, [this](const base::ProcessId& process) { return process.pid == stopped_; });
  };
  Process(11, MemoryResidency::kOnGpu, true);
  Process(12, MemoryResidency::kNone, false);
  Process(13, MemoryResidency::kHeld, false).ordered = ledger::wire::OrderKind::kHold;
  EXPECT_FALSE(opening());
  Process(14, MemoryResidency::kHeld, false);
  EXPECT_TRUE(opening());
  slots_.back().residency = MemoryResidency::kRestoring;
  EXPECT_TRUE(opening());
  stopped_ = 14;
  EXPECT_FALSE(opening());
}

}  // namespace
}  // namespace gpuman::daemon

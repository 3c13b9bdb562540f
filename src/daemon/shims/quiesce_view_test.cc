#include "daemon/shims/quiesce_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuman::daemon {
namespace {

using ledger::wire::CallGrantEndReason;
using ledger::wire::MemoryResidency;
using testing::IsEmpty;

class QuiesceViewTest : public testing::Test {
 protected:
  ledger::SlotStatus& Process(pid_t pid, ledger::QuiesceReport rest,
                              MemoryResidency residency = MemoryResidency::kEvicting) {
    ledger::SlotStatus slot;
    slot.process = {pid, 1};
    slot.residency = residency;
    slot.answered = residency == MemoryResidency::kHeld;
    slot.takes_grants = true;
    slot.rest = rest;
    slots_.push_back(slot);
    return slots_.back();
  }
  share::QuiesceView View() { return QuiesceViewOf(slots_, progress_); }
  std::string WhyNot() {
    return WhyNotAtRest(slots_, [](unsigned gpu) { return "GPU " + std::to_string(gpu); });
  }

  std::vector<ledger::SlotStatus> slots_;
  QuiesceAttemptState progress_;
};

TEST_F(QuiesceViewTest, EachGpuOnWhichAProcessWorksOrForWhichItWaitsIsAUnit) {
  Process(11, {.shut = true, .works = 1});
  Process(12, {.shut = true, .waits = 2});
  const auto view = View();
  ASSERT_EQ(view.units.size(), 2u);
  EXPECT_EQ(view.units[0].id, (share::ProcessGpuId{{11, 1}, 0}));
  EXPECT_TRUE(view.units[0].works && !view.units[0].waits && view.units[0].takes_grants);
  EXPECT_EQ(view.units[1].id, (share::ProcessGpuId{{12, 1}, 1}));
  EXPECT_TRUE(!view.units[1].works && view.units[1].waits && view.units[1].takes_grants);
  EXPECT_TRUE(view.all_shut);
}

TEST_F(QuiesceViewTest, ACallThatHasNotReturnedCountsForWhatWorksOrElseForEveryGpuOfItsProcess) {
  Process(11, {.shut = true, .in_flight = true, .waits = 3});
  for (const auto& unit : View().units) EXPECT_TRUE(unit.works);
  slots_[0].rest.works = 1;
  const auto view = View();
  EXPECT_TRUE(view.units.at(0).works);
  EXPECT_FALSE(view.units.at(1).works) << "so a thread that waits for this GPU may make a call";
  slots_.clear();
  Process(12, {.in_flight = true});
  EXPECT_EQ(View().units.at(0).id.gpu, ledger::wire::CallGrant::kAnyGpu);
  EXPECT_TRUE(View().units.at(0).works);
  EXPECT_FALSE(View().all_shut);
}

TEST_F(QuiesceViewTest, ACallThatHasNotReturnedWaitsForTheGpuThatWorks) {
  Process(11, {.shut = true, .in_flight = true, .works = 1, .waits = 2});
  const auto view = View();
  ASSERT_EQ(view.units.size(), 2u);
  EXPECT_TRUE(view.units[0].works && !view.units[0].waits);
  EXPECT_TRUE(!view.units[1].works && view.units[1].waits && view.units[1].takes_grants);
}

TEST_F(QuiesceViewTest, ProcessWithEvictedMemoryTakesNoGrants) {
  Process(11, {.shut = true, .waits = 1}).evicted = {4096};
  EXPECT_FALSE(View().units.at(0).takes_grants);
}

TEST_F(QuiesceViewTest, ProcessAtOpenGateCountsAsWorking) {
  Process(11, {.waits = 1});
  EXPECT_TRUE(View().units.at(0).works);
  EXPECT_FALSE(View().all_shut);
}

TEST_F(QuiesceViewTest, AUnitForAnyGpuStaysWhileItsGrantIsOpen) {
  Process(11, {.shut = true, .waits = 1}, MemoryResidency::kHeld);
  progress_.grants[{11, 1}] = {{{11, 1}, ledger::wire::CallGrant::kAnyGpu}, 3};
  const auto view = View();
  ASSERT_EQ(view.units.size(), 2u);
  EXPECT_EQ(view.units[1].id.gpu, ledger::wire::CallGrant::kAnyGpu);
  EXPECT_FALSE(view.units[1].works);
}

TEST_F(QuiesceViewTest, AUnitThatRestsAndWaitsForNothingStays) {
  auto& one = Process(11, {.shut = true, .works = 2});
  EXPECT_TRUE(View().units.at(0).works);
  one.residency = MemoryResidency::kHeld;
  one.answered = true;
  one.rest.works = 0;
  const auto view = View();
  ASSERT_EQ(view.units.size(), 1u);
  EXPECT_EQ(view.units[0].id.gpu, 1u);
  EXPECT_TRUE(!view.units[0].works && !view.units[0].waits);
}

TEST_F(QuiesceViewTest, AHeldProcessThatHasDoneNothingIsOneUnitAndOneWithoutAContextIsNone) {
  Process(11, {.shut = true}, MemoryResidency::kHeld);
  Process(12, {}, MemoryResidency::kNone);
  const auto view = View();
  ASSERT_EQ(view.units.size(), 1u);
  EXPECT_EQ(view.units[0].id, (share::ProcessGpuId{{11, 1}, ledger::wire::CallGrant::kAnyGpu}));
  EXPECT_FALSE(view.units[0].works);
  EXPECT_TRUE(view.all_shut);
}

TEST_F(QuiesceViewTest, AnOlderShimWorksUntilItIsHeld) {
  Process(11, {}).takes_grants = false;
  EXPECT_TRUE(View().units.at(0).works);
  EXPECT_FALSE(View().units.at(0).takes_grants);
  EXPECT_FALSE(View().all_shut);
  slots_[0].residency = MemoryResidency::kHeld;
  slots_[0].answered = true;
  EXPECT_FALSE(View().units.at(0).works);
  EXPECT_TRUE(View().all_shut);
}

TEST_F(QuiesceViewTest, AGrantEndsOnceAndWithItsProcess) {
  const share::ProcessGpuId unit{{11, 1}, 0};
  progress_.grants[unit.process] = {unit, 7};
  auto& one = Process(11, {.shut = true, .waits = 1});
  one.grant_report = {6, CallGrantEndReason::kUsedUp, 5};  // of an earlier grant
  EXPECT_THAT(View().ended, IsEmpty());
  one.grant_report = {7, CallGrantEndReason::kNotYet, 5};
  EXPECT_THAT(View().ended, IsEmpty());
  one.grant_report = {7, CallGrantEndReason::kAtWork, 5};
  const auto ended = View().ended;
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].unit, unit);
  EXPECT_EQ(ended[0].calls, 5u);
  EXPECT_THAT(View().ended, IsEmpty());
  progress_.grants[unit.process] = {unit, 8};
  slots_.clear();
  (void)View();
  EXPECT_THAT(progress_.grants, IsEmpty());
}

TEST_F(QuiesceViewTest, EachProcessCountsOnceForEachOfItsGpus) {
  Process(11, {.shut = true, .works = 1, .waits = 2});              // works on one of two
  Process(12, {.shut = true}).held = {{"a", {1}}, {"b", {1}}};      // has memory on two
  Process(13, {.shut = true, .works = 1}, MemoryResidency::kHeld);  // what it published before it was held
  Process(14, {.shut = true, .in_flight = true, .waits = 1});
  Process(15, {.waits = 1});  // its gate is open
  Process(16, {}, MemoryResidency::kNone);
  Process(17, {.shut = true}).takes_grants = false;
  EXPECT_EQ(CountAtRest(slots_), (QuiesceCount{8, 4}));
}

TEST_F(QuiesceViewTest, ProcessesThatDidNotComeToRestAreNamed) {
  Process(11, {.works = 3});
  Process(12, {.capturing = true});
  Process(13, {.shut = true}, MemoryResidency::kHeld);
  Process(14, {.for_room = true});
  Process(15, {.in_flight = true});
  Process(16, {.shut = true, .works = 1});
  EXPECT_EQ(
      WhyNot(),
      "process 11 works on GPU 0 and GPU 1; process 12 records a CUDA graph; process 14 waits for room; "
      "process 15 is in a call; and 2 more");
}

TEST_F(QuiesceViewTest, AProcessWithoutCallsIsNamedBesideItsWaiters) {
  Process(11, {.shut = true, .works = 1});
  Process(12, {.shut = true}, MemoryResidency::kHeld);
  Process(13, {.shut = true, .waits = 1}, MemoryResidency::kHeld);
  Process(14, {}, MemoryResidency::kOnGpu);
  EXPECT_EQ(WhyNot(),
            "process 11 works on GPU 0; process 14 has not taken up the order; process 12 makes no call");
}

TEST_F(QuiesceViewTest, HeldProcessThatWaitsForRoomIsAUnitAndNamed) {
  Process(11, {.shut = true, .works = 1});
  Process(12, {.shut = true, .for_room = true}, MemoryResidency::kHeld);
  ASSERT_EQ(View().units.size(), 2u);
  EXPECT_FALSE(View().units[0].for_room);
  EXPECT_TRUE(View().units[1].for_room && !View().units[1].works);
  EXPECT_EQ(WhyNot(), "process 11 works on GPU 0; process 12 waits for room");
}

TEST_F(QuiesceViewTest, AProcessThatWaitsForRoomMayKeepTheOthersAtWork) {
  Process(11, {.for_room = true}, MemoryResidency::kHeld);
  EXPECT_FALSE(KeepsWorkForRoom(slots_)) << "alone it comes to rest";
  Process(12, {.shut = true}, MemoryResidency::kHeld);
  EXPECT_FALSE(KeepsWorkForRoom(slots_)) << "nobody works";
  Process(13, {.shut = true, .works = 1});
  EXPECT_TRUE(KeepsWorkForRoom(slots_));
  slots_.erase(slots_.begin());
  EXPECT_FALSE(KeepsWorkForRoom(slots_)) << "nobody waits for room";
}

TEST_F(QuiesceViewTest, AThreadThatWaitsForRoomMayKeepAnotherGpuOfItsProcessAtWork) {
  auto& one = Process(11, {.shut = true, .for_room = true, .works = 1});
  EXPECT_FALSE(KeepsWorkForRoom(slots_)) << "on its only GPU the work ends by itself";
  one.held = {{"a", {1}}, {"b", {1}}};
  EXPECT_TRUE(KeepsWorkForRoom(slots_));
  EXPECT_EQ(WhyNot(), "process 11 works on GPU 0, and a thread waits for room");
  one.rest.works = 0;
  EXPECT_FALSE(KeepsWorkForRoom(slots_)) << "nothing works";
}

}  // namespace
}  // namespace gpuman::daemon

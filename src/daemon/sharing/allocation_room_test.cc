#include "daemon/sharing/allocation_room.h"

#include <gtest/gtest.h>

namespace gpuman::daemon {
namespace {

using base::MiB;
using base::Millis;
using Demands = share::MemoryDemands;

// A job that counts 100 MiB on the GPU "a", where one of its allocations waits for 10 MiB.
class AllocationRoomTest : public ::testing::Test {
 protected:
  std::set<std::string> Check(Demands demand) {
    auto taken = room_.Check(
        demand, before_, [this](const std::string&) { return counted_; }, open_, now_);
    room_.OnDemand(demand, before_, taken);
    before_ = demand;
    return taken;
  }
  static Demands Wants(base::Bytes bytes) {
    share::MemoryDemand demand;
    demand.wants = bytes;
    return {{"a", demand}};
  }
  void Promise() { room_.Promise("a", MiB(10), counted_, MiB(10)); }

  AllocationRoom room_;
  Demands before_ = Wants(MiB(10));
  base::Bytes counted_ = MiB(100);
  bool open_ = true;
  base::MonoTime now_{Millis(1'000)};
};

TEST_F(AllocationRoomTest, IsOfferedOnceWhenItIsPromised) {
  EXPECT_FALSE(room_.TakeOffer(now_));
  Promise();
  EXPECT_EQ(room_.PromisedOn("a"), MiB(10));
  EXPECT_EQ(room_.PromisedOn("b"), MiB(0));
  EXPECT_TRUE(room_.TakeOffer(now_));
  EXPECT_FALSE(room_.TakeOffer(now_));
}

TEST_F(AllocationRoomTest, IsOfferedAgainWhileTheAllocationWaits) {
  Promise();
  EXPECT_TRUE(room_.TakeOffer(now_));
  now_ += Millis(19);
  EXPECT_TRUE(Check(Wants(MiB(10))).empty());
  EXPECT_FALSE(room_.TakeOffer(now_));
  now_ += Millis(1);
  Check(Wants(MiB(10)));
  EXPECT_TRUE(room_.TakeOffer(now_));
}

TEST_F(AllocationRoomTest, IsNotOfferedBehindAClosedGate) {
  Promise();
  EXPECT_TRUE(room_.TakeOffer(now_));
  open_ = false;
  now_ += Millis(100);
  Check(Wants(MiB(10)));
  EXPECT_FALSE(room_.TakeOffer(now_));
}

TEST_F(AllocationRoomTest, WaitsAMomentForAnAllocationThatIsAboutToTakeIt) {
  Promise();
  Check(Wants(MiB(0)));
  EXPECT_EQ(before_.at("a").wants, MiB(10)) << "the allocation stopped waiting just before it takes the room";
  EXPECT_EQ(room_.PromisedOn("a"), MiB(10));
  now_ += Millis(19);
  Check(Wants(MiB(0)));
  EXPECT_EQ(before_.at("a").wants, MiB(10));
  now_ += Millis(1);
  Check(Wants(MiB(0)));
  EXPECT_EQ(before_.at("a").wants, MiB(0)) << "nobody takes it any more";
  EXPECT_EQ(room_.PromisedOn("a"), MiB(0));
}

TEST_F(AllocationRoomTest, IsOverWhenItWasTakenAndNothingWaits) {
  Promise();
  counted_ += MiB(10);
  EXPECT_TRUE(Check(Wants(MiB(0))).empty());
  EXPECT_EQ(before_.at("a").wants, MiB(0));
  EXPECT_EQ(room_.PromisedOn("a"), MiB(0));
  EXPECT_FALSE(room_.IsBeingTaken());
}

TEST_F(AllocationRoomTest, WasTakenWhereTheNextAllocationOfThatSizeWaits) {
  Promise();
  counted_ += MiB(10);
  EXPECT_EQ(Check(Wants(MiB(10))), std::set<std::string>{"a"});
  EXPECT_EQ(room_.PromisedOn("a"), MiB(0));
}

TEST_F(AllocationRoomTest, IsVoidOnceAnotherAllocationWaits) {
  Promise();
  Check(Wants(MiB(30)));
  EXPECT_EQ(room_.PromisedOn("a"), MiB(0));
}

TEST_F(AllocationRoomTest, IsVoidOnceTheGateIsClosed) {
  Promise();
  room_.OnGateClosed();
  EXPECT_EQ(room_.PromisedOn("a"), MiB(0));
}

TEST_F(AllocationRoomTest, ADenialComesOnceAtItsTime) {
  Promise();
  room_.DenyAt("a", now_ + Millis(300));
  EXPECT_EQ(room_.PromisedOn("a"), MiB(0));
  EXPECT_FALSE(room_.TakeDueDenial(now_ + Millis(299)));
  EXPECT_TRUE(room_.TakeDueDenial(now_ + Millis(300)));
  EXPECT_FALSE(room_.TakeDueDenial(now_ + Millis(301)));
}

TEST_F(AllocationRoomTest, ADenialDoesNotComeWhereNothingWaitsOrThereIsRoom) {
  room_.DenyAt("a", now_);
  Check(Wants(MiB(0)));
  EXPECT_FALSE(room_.TakeDueDenial(now_));
  room_.DenyAt("a", now_);
  Promise();
  EXPECT_FALSE(room_.TakeDueDenial(now_));
}

TEST_F(AllocationRoomTest, ADenialIsForTheAllocationsThatWaitNow) {
  room_.Deny(MiB(10));
  EXPECT_TRUE(room_.MustTellShims());
  room_.OnSettingsChanged();
  EXPECT_TRUE(room_.TakeOffer(now_)) << "an allocation that waits learns of it";
  Check(Wants(MiB(10)));
  EXPECT_EQ(room_.denied(), MiB(10));
  Check(Wants(MiB(4)));
  EXPECT_EQ(room_.denied(), MiB(0));
}

TEST_F(AllocationRoomTest, AllocationIsDeniedAfterManyUnusedPromises) {
  Promise();  // the job grew until now
  for (int i = 0; i < 20; ++i) Promise();
  EXPECT_EQ(room_.denied(), MiB(0));
  Promise();
  EXPECT_EQ(room_.denied(), MiB(10));
}

TEST_F(AllocationRoomTest, PromisesToGrowingJobDoNotCountTowardsDenial) {
  for (int i = 0; i < 50; ++i) {
    counted_ += MiB(1);
    Promise();
    Promise();
  }
  EXPECT_EQ(room_.denied(), MiB(0));
  for (int i = 0; i < 19; ++i) Promise();
  room_.OnGateOpened();
  for (int i = 0; i < 20; ++i) Promise();
  EXPECT_EQ(room_.denied(), MiB(0)) << "a turn begins anew";
}

TEST_F(AllocationRoomTest, NothingIsLeftAfterClear) {
  Promise();
  room_.DenyAt("b", now_);
  room_.Clear();
  EXPECT_FALSE(room_.IsBeingTaken());
  EXPECT_FALSE(room_.TakeDueDenial(now_));
}

}  // namespace
}  // namespace gpuman::daemon

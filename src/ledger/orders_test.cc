// Orders to processes, and what their slots say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "ledger/test_ledger.h"
#include "ledger/wire/peaks.h"
#include "ledger/wire/slot_balance.h"
#include "ledger/wire/slot_lock.h"

namespace gpuman::ledger {
namespace {

EvictionSettings Possible() { return {true, base::Bytes{1 << 20}, base::Millis{1500}}; }

wire::Slot& SlotOf(const Mapped& mapped, const JoinedSlot& joined) { return (*mapped).slot[joined.slot]; }

// A job with one process, whose memory can leave.
class LedgerOrdersTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(created_ && joined_); }

  Ledgers ledgers_;
  const bool created_ = ledgers_.Create(kOwnedJob, std::vector{Limit(kFirst, 8192)}, Possible()).has_value();
  base::Result<JoinedSlot> joined_ = ledgers_.Join(kOwnedJob, base::SelfId());
  const Mapped mapped_{joined_->owner};
  wire::Slot& slot_ = SlotOf(mapped_, *joined_);
};

TEST_F(LedgerOrdersTest, OrderAProcessOffItsGpuAndBack) {
  EXPECT_EQ((*mapped_).backing, static_cast<std::uint32_t>(wire::AllocationMode::kEvictable));
  EXPECT_EQ((*mapped_).host_budget, 1u << 20);
  EXPECT_EQ((*mapped_).patience_ms, 1500u);
  EXPECT_EQ(slot_.order, 0u);
  ASSERT_TRUE(ledgers_.Order(kOwnedJob, base::SelfId(), {wire::OrderKind::kLeave}));
  EXPECT_EQ(slot_.order, 5u);
  EXPECT_FALSE(ledgers_.SlotStatusesOf(kOwnedJob).at(0).answered);
  ASSERT_TRUE(
      ledgers_.Order(kOwnedJob, base::SelfId(), {wire::OrderKind::kLeave}));  // it is being carried out
  EXPECT_EQ(slot_.order, 5u);
  slot_.residency = static_cast<std::uint32_t>(wire::MemoryResidency::kEvicted);
  slot_.evicted = 4096;
  slot_.answered = 5;
  const SlotStatus out = ledgers_.SlotStatusesOf(kOwnedJob).at(0);
  EXPECT_EQ(out.process, base::SelfId());
  EXPECT_TRUE(out.answered && out.ordered == wire::OrderKind::kLeave);
  EXPECT_EQ(out.residency, wire::MemoryResidency::kEvicted);
  EXPECT_EQ(out.evicted.count, 4096u);
  ASSERT_TRUE(ledgers_.Order(kOwnedJob, base::SelfId(), {wire::OrderKind::kLeave}));  // it was carried out
  EXPECT_EQ(slot_.order, 5u);
  ASSERT_TRUE(ledgers_.Order(kOwnedJob, base::SelfId(), {wire::OrderKind::kRun}));
  EXPECT_EQ(slot_.order, 8u);
}

TEST_F(LedgerOrdersTest, SayWhetherAShimTellsThatItHasAnswered) {
  EXPECT_FALSE(ledgers_.SlotStatusesOf(kOwnedJob).at(0).notifies);  // an older shim writes nothing there
  slot_.flags = wire::kHoldsImported;
  EXPECT_FALSE(ledgers_.SlotStatusesOf(kOwnedJob).at(0).notifies);
  slot_.flags = wire::kNotifiesAnswers;
  EXPECT_TRUE(ledgers_.SlotStatusesOf(kOwnedJob).at(0).notifies);
  EXPECT_FALSE(ledgers_.SlotStatusesOf(kOwnedJob).at(0).holds_imported);
}

TEST_F(LedgerOrdersTest, AnOrderThatWasRefusedIsGivenAnew) {
  ASSERT_TRUE(ledgers_.Order(kOwnedJob, base::SelfId(), {wire::OrderKind::kLeave}));
  slot_.error = wire::PackError(wire::OrderError::kDriver, 700);
  slot_.answered = 5;
  EXPECT_EQ(ledgers_.SlotStatusesOf(kOwnedJob).at(0).error, wire::OrderError::kDriver);
  EXPECT_EQ(ledgers_.SlotStatusesOf(kOwnedJob).at(0).driver_error, 700u);
  ASSERT_TRUE(ledgers_.Order(kOwnedJob, base::SelfId(), {wire::OrderKind::kLeave}));
  EXPECT_EQ(slot_.order, 9u);
  ASSERT_TRUE(ledgers_.Order(kOwnedJob, base::SelfId(), {wire::OrderKind::kRun}));
  EXPECT_EQ(slot_.order, 12u);
}

TEST(Ledgers, AProcessThatJoinsAnEvictedJobIsOrderedToLeaveToo) {
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 8192)}, Possible()));
  EXPECT_EQ(ledgers.OrderAll(kOwnedJob, {wire::OrderKind::kLeave}).value(), 0u);
  auto joined = ledgers.Join(kOwnedJob, base::SelfId());
  const Mapped mapped(joined->owner);
  EXPECT_EQ(SlotOf(mapped, *joined).order, 1u);
  EXPECT_EQ(ledgers.OrderAll(kOwnedJob, {wire::OrderKind::kRun}).value(), 1u);
  EXPECT_EQ(SlotOf(mapped, *joined).order, 4u);
}

TEST_F(LedgerOrdersTest, TakePartOfAProcessesMemoryAndHoldWhoJoinsMeanwhile) {
  ASSERT_TRUE(ledgers_.Order(kOwnedJob, base::SelfId(), ProcessOrder{wire::OrderKind::kHold, {}}));
  EXPECT_EQ(wire::OrderKindOf(slot_.order), wire::OrderKind::kHold);
  ASSERT_TRUE(ledgers_.OrderAll(kOwnedJob, ProcessOrder{wire::OrderKind::kTake, {{kFirst, {4096}}}}));
  const std::uint32_t order = slot_.order;
  EXPECT_EQ(wire::OrderKindOf(order), wire::OrderKind::kTake);
  EXPECT_EQ(slot_.order_bytes, 4096u);
  ASSERT_TRUE(ledgers_.OrderAll(kOwnedJob, ProcessOrder{wire::OrderKind::kTake, {{kFirst, {4096}}}}));
  EXPECT_EQ(slot_.order, order) << "it stands";
  ASSERT_TRUE(ledgers_.OrderAll(kOwnedJob, ProcessOrder{wire::OrderKind::kTake, {{kFirst, {8192}}}}));
  EXPECT_NE(slot_.order, order) << "more is another order";
  EXPECT_EQ(slot_.order_bytes, 8192u);
  auto late = ledgers_.Join(kOwnedJob, base::SelfId());
  EXPECT_EQ(wire::OrderKindOf(SlotOf(mapped_, *late).order), wire::OrderKind::kHold);
}

TEST_F(LedgerOrdersTest, AHoldMayHaveAPatienceOfItsOwnAlsoForWhoJoinsMeanwhile) {
  const ProcessOrder provisional{wire::OrderKind::kHold, {}, base::Millis{1500}};
  ASSERT_TRUE(ledgers_.OrderAll(kOwnedJob, provisional));
  const std::uint32_t order = slot_.order;
  EXPECT_EQ(slot_.order_bytes, 1500u);
  ASSERT_TRUE(ledgers_.OrderAll(kOwnedJob, provisional));
  EXPECT_EQ(slot_.order, order) << "it stands";
  auto late = ledgers_.Join(kOwnedJob, base::SelfId());
  EXPECT_EQ(wire::OrderKindOf(SlotOf(mapped_, *late).order), wire::OrderKind::kHold);
  EXPECT_EQ(SlotOf(mapped_, *late).order_bytes, 1500u);
  ASSERT_TRUE(ledgers_.OrderAll(kOwnedJob, ProcessOrder{wire::OrderKind::kHold}));
  EXPECT_NE(slot_.order, order) << "to hold without end is another order";
  EXPECT_EQ(slot_.order_bytes, 0u);
  const ProcessOrder run{wire::OrderKind::kRun, {{kFirst, {4096}}}, base::Millis{5}};
  ASSERT_TRUE(ledgers_.OrderAll(kOwnedJob, run));
  EXPECT_EQ(slot_.order_bytes, 0u) << "only a hold has a patience, and only a take an amount";
  const std::uint32_t open = slot_.order;
  ASSERT_TRUE(ledgers_.OrderAll(kOwnedJob, ProcessOrder{.what = wire::OrderKind::kRun, .stay_held = true}));
  EXPECT_EQ(slot_.order_bytes, wire::kStayHeld);
  EXPECT_NE(slot_.order, open) << "to stay held is another order";
}

TEST(Ledgers, GrantsAreNumberedUntilTheNextOrder) {
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 8192)}, Possible()));
  EXPECT_EQ(ledgers.GrantCalls(kOwnedJob, base::SelfId(), {0, 1}).error().code, base::ErrorCode::kNotFound);
  EXPECT_EQ(ledgers.GrantCalls({8}, base::SelfId(), {0, 1}).error().code, base::ErrorCode::kNotFound);
  auto joined = ledgers.Join(kOwnedJob, base::SelfId());
  const Mapped mapped(joined->owner);
  wire::Slot& slot = SlotOf(mapped, *joined);
  ASSERT_TRUE(ledgers.Order(kOwnedJob, base::SelfId(), ProcessOrder{wire::OrderKind::kHold}));
  EXPECT_EQ(slot.call_grant, 0u);
  const CallGrant grant{0, 64, 3, true, false};
  EXPECT_EQ(ledgers.GrantCalls(kOwnedJob, base::SelfId(), grant).value(), 1u);
  EXPECT_EQ(wire::CallGrantOf(slot.call_grant), grant);
  EXPECT_EQ(wire::GrantNumberOf(slot.call_grant), 1u);
  EXPECT_EQ(ledgers.GrantCalls(kOwnedJob, base::SelfId(), grant).value(), 2u) << "each grant is another one";
  EXPECT_EQ(ledgers.GrantCalls(kOwnedJob, base::SelfId(), {}).value(), 2u) << "withdrawn";
  EXPECT_EQ(wire::CallGrantOf(slot.call_grant).calls, 0u);
  EXPECT_EQ(wire::GrantNumberOf(slot.call_grant), 2u);
  ASSERT_TRUE(ledgers.GrantCalls(kOwnedJob, base::SelfId(), grant));
  ASSERT_TRUE(ledgers.Order(kOwnedJob, base::SelfId(), ProcessOrder{wire::OrderKind::kHold}));
  EXPECT_EQ(wire::CallGrantOf(slot.call_grant), grant) << "the order stands, and so does the grant";
  ASSERT_TRUE(ledgers.Order(kOwnedJob, base::SelfId(), {wire::OrderKind::kRun}));
  EXPECT_EQ(wire::CallGrantOf(slot.call_grant).calls, 0u);
}

TEST(Ledgers, ReadHowAProcessComesToRest) {
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 8192), Limit(kSecond, 8192)}, Possible()));
  EXPECT_EQ(ledgers.GpusOf(kOwnedJob), (std::vector{kFirst, kSecond}));
  EXPECT_TRUE(ledgers.GpusOf({8}).empty());
  auto joined = ledgers.Join(kOwnedJob, base::SelfId());
  const Mapped mapped(joined->owner);
  wire::Slot& slot = SlotOf(mapped, *joined);
  const SlotStatus older = ledgers.SlotStatusesOf(kOwnedJob).at(0);
  EXPECT_FALSE(older.takes_grants || older.shares || older.fetches);
  EXPECT_EQ(older.rest, QuiesceReport{});
  EXPECT_EQ(older.grant_report, CallGrantReport{});
  slot.flags = wire::kTakesCallGrants | wire::kShares | wire::kFetches;
  slot.rest = wire::PackRest(0x2, 0x5);  // there is no third GPU
  slot.rest_state = 7u << 16 | wire::kRestShut | wire::kRestForRoom;
  slot.grant_report = wire::PackCallGrantReport({9, wire::CallGrantEndReason::kAtWork, 12});
  const SlotStatus one = ledgers.SlotStatusesOf(kOwnedJob).at(0);
  EXPECT_TRUE(one.takes_grants && one.shares && one.fetches);
  EXPECT_EQ(one.rest, (QuiesceReport{.shut = true, .for_room = true, .works = 2, .waits = 1, .changes = 7}));
  EXPECT_EQ(one.grant_report, (CallGrantReport{9, wire::CallGrantEndReason::kAtWork, 12}));
  slot.rest_state = wire::kRestInFlight | wire::kRestCapturing | wire::kRestAnywhere;
  EXPECT_EQ(ledgers.SlotStatusesOf(kOwnedJob).at(0).rest,
            (QuiesceReport{.in_flight = true, .capturing = true, .anywhere = true, .works = 2, .waits = 1}));
}

TEST(Ledgers, TellWhatSharesAProcessHasAndWaitsFor) {
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 1 << 20)}, Possible()));
  auto joined = ledgers.Join(kOwnedJob, base::SelfId());
  const Mapped mapped(joined->owner);
  wire::Slot& slot = SlotOf(mapped, *joined);
  wire::Reserve(*mapped, 0, joined->slot, 65536);
  slot.activity = static_cast<std::uint32_t>(wire::Activity::kForRoom);
  slot.activity_since = 77;
  slot.wants = 4096;
  slot.completed = 9;
  const SlotStatus one = ledgers.SlotStatusesOf(kOwnedJob).at(0);
  EXPECT_EQ(one.held.at(0).used.count, 65536u);
  EXPECT_EQ(one.activity, wire::Activity::kForRoom);
  EXPECT_EQ(one.activity_since, 77u);
  EXPECT_EQ(one.wants.count, 4096u);
  EXPECT_EQ(one.completed, 9u);
  EXPECT_TRUE(wire::HasRoom(*mapped, 0));
  ledgers.SetRoom(kOwnedJob, kFirst, base::Bytes{65535});
  EXPECT_FALSE(wire::HasRoom(*mapped, 0));
  ledgers.SetRoom(kOwnedJob, kFirst, std::nullopt);
  EXPECT_TRUE(wire::HasRoom(*mapped, 0));
  ledgers.SetSharing(kOwnedJob, {base::Millis{50}, base::Millis{2000}, base::Bytes{8192},
                                 std::chrono::microseconds{400}, std::chrono::microseconds{300}});
  EXPECT_EQ((*mapped).watched_ms, 50u);
  EXPECT_EQ((*mapped).room_patience_ms, 2000u);
  EXPECT_EQ((*mapped).denied, 8192u);
  EXPECT_EQ((*mapped).pace_us, 400u);
  EXPECT_EQ((*mapped).alert_us, 300u);
  ledgers.OfferRoom(kOwnedJob);
  EXPECT_EQ((*mapped).offers, 1u);
  ledgers.ShowLife(kOwnedJob);
  EXPECT_EQ((*mapped).life, 1u);
  wire::Store((*mapped).life, UINT32_MAX);
  ledgers.ShowLife(kOwnedJob);
  EXPECT_EQ((*mapped).life, 1u) << "0 would be a daemon that shows none";
  ledgers.SetIdleWatch(kOwnedJob, base::Millis{1000});
  EXPECT_EQ((*mapped).watched_ms, 50u) << "the shorter of both";
  ledgers.SetSharing(kOwnedJob, {});
  EXPECT_EQ((*mapped).watched_ms, 1000u);
  EXPECT_EQ((*mapped).pace_us, 0u);
  EXPECT_EQ((*mapped).alert_us, 0u);
  ledgers.SetIdleWatch(kOwnedJob, base::Millis{0});
  EXPECT_EQ((*mapped).watched_ms, 0u);
  ledgers.SetSuspends(kOwnedJob, true);
  EXPECT_EQ((*mapped).suspends, 1u);
  ledgers.SetSharing(kOwnedJob, {});
  EXPECT_EQ((*mapped).suspends, 1u);
  ledgers.SetSuspends(kOwnedJob, false);
  EXPECT_EQ((*mapped).suspends, 0u);
}

// A process that is held may stand in its streams. For a suspension it has to come to rest outside of them.
TEST_F(LedgerOrdersTest, AHoldForASuspensionIsAnOrderOfItsOwn) {
  const ProcessOrder hold{wire::OrderKind::kHold};
  ASSERT_TRUE(ledgers_.Order(kOwnedJob, base::SelfId(), hold));
  const std::uint32_t first = slot_.order;
  ASSERT_TRUE(ledgers_.Order(kOwnedJob, base::SelfId(), hold));
  EXPECT_EQ(slot_.order, first);
  ledgers_.SetSuspends(kOwnedJob, true);
  ASSERT_TRUE(ledgers_.Order(kOwnedJob, base::SelfId(), hold));
  EXPECT_NE(slot_.order, first);
  EXPECT_EQ(wire::OrderKindOf(slot_.order), wire::OrderKind::kHold);
}

TEST(Ledgers, OrdersGoToProcessesOfEvictableJobsAlone) {
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 8192)}));
  auto joined = ledgers.Join(kOwnedJob, base::SelfId());
  EXPECT_EQ(ledgers.Order(kOwnedJob, base::SelfId(), {wire::OrderKind::kLeave}).error().code,
            base::ErrorCode::kNotSupported);
  EXPECT_EQ(ledgers.OrderAll(kOwnedJob, {wire::OrderKind::kLeave}).error().code,
            base::ErrorCode::kNotSupported);
  EXPECT_EQ(ledgers.Order({8}, base::SelfId(), {wire::OrderKind::kLeave}).error().code,
            base::ErrorCode::kNotFound);
  ASSERT_TRUE(ledgers.Create({9}, std::vector{Limit(kFirst, 8192)}, Possible()));
  EXPECT_EQ(ledgers.Order({9}, base::SelfId(), {wire::OrderKind::kLeave}).error().code,
            base::ErrorCode::kNotFound);
}

class LedgersOfTwoGpus : public testing::Test {
 protected:
  base::Result<JoinedSlot> Join() {
    EXPECT_TRUE(
        ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 1 << 20), Limit(kSecond, 1 << 20)}, Possible()));
    return ledgers.Join(kOwnedJob, base::SelfId());
  }
  Ledgers ledgers;
  base::Result<JoinedSlot> joined = Join();  // of this process
  const Mapped mapped{joined->owner};
  wire::Slot& slot = SlotOf(mapped, *joined);
};

TEST_F(LedgersOfTwoGpus, AProcessThatSeesSeveralGpusSaysOnWhichItsMemoryCanLeave) {
  for (const unsigned gpu : {0u, 1u}) wire::Reserve(*mapped, gpu, joined->slot, 65536);
  slot.evicted = 4096;
  const auto first_home = [&] { return ledgers.SlotStatusesOf(kOwnedJob).at(0).homes.at(0).uuid; };
  EXPECT_EQ(first_home(), "");
  slot.home = 2;
  EXPECT_EQ(first_home(), kSecond);
  EXPECT_EQ(ledgers.OnGpuOf(kOwnedJob, base::SelfId(), kFirst)->count, 65536u);
  EXPECT_EQ(ledgers.OnGpuOf(kOwnedJob, base::SelfId(), kSecond)->count, 65536u - 4096);
  slot.home = 17;
  EXPECT_EQ(first_home(), "");
  EXPECT_FALSE(ledgers.IsMoving(kOwnedJob, base::SelfId(), kSecond));
  slot.residency = static_cast<std::uint32_t>(wire::MemoryResidency::kRestoring);
  EXPECT_TRUE(ledgers.IsMoving(kOwnedJob, base::SelfId(), kSecond));
}

TEST_F(LedgersOfTwoGpus, TimeThatAProcessWroteLeavesRoomToCountOn) {
  slot.activity_since = ~std::uint64_t{0};
  const std::chrono::nanoseconds since(ledgers.SlotStatusesOf(kOwnedJob).at(0).activity_since);
  EXPECT_GT(since + std::chrono::hours(24 * 365), since);
}

TEST_F(LedgersOfTwoGpus, AProcessTellsOfEachGpuThatItsMemoryCanLeave) {
  EXPECT_EQ((*mapped).features, wire::kFeatureHomes | wire::kFeaturePeaks);
  for (const unsigned gpu : {0u, 1u}) wire::Reserve(*mapped, gpu, joined->slot, 65536);
  slot.home = 2;
  slot.evictable = 8192;
  slot.wants = 1;
  (*mapped).home[0].owner = wire::PackOwner(joined->slot + 1, 0);  // another process
  const int entry = wire::ClaimHome(*mapped, joined->slot, 0);
  ASSERT_EQ(entry, 1);
  EXPECT_EQ(wire::ClaimHome(*mapped, joined->slot, 0), entry) << "it has one already";
  (*mapped).home[1].evictable = 4096;
  (*mapped).home[1].evicted = 12288;
  (*mapped).home[1].wants = 2;
  (*mapped).home[2].owner = wire::PackOwner(joined->slot, 0);  // a program may write anything
  (*mapped).home[3].owner = wire::PackOwner(joined->slot, 9);
  const SlotStatus status = ledgers.SlotStatusesOf(kOwnedJob).at(0);
  const EvictableGpu first{kSecond, {8192}, {0}, {1}}, second{kFirst, {4096}, {12288}, {8192}};
  EXPECT_EQ(status.homes, (std::vector{first, second}));
  EXPECT_EQ(status.evictable.count, 12288u);
  EXPECT_EQ(status.evicted.count, 12288u);
  EXPECT_EQ(status.wants.count, 8193u);
  EXPECT_EQ(ledgers.OnGpuOf(kOwnedJob, base::SelfId(), kFirst)->count, 65536u - 12288);
  EXPECT_EQ(ledgers.OnGpuOf(kOwnedJob, base::SelfId(), kSecond)->count, 65536u);
}

TEST_F(LedgersOfTwoGpus, TakeBytesOfEachGpu) {
  slot.home = 1;
  wire::EvictableGpuEntry& further = (*mapped).home[wire::ClaimHome(*mapped, joined->slot, 1)];
  const auto take = [&](std::map<std::string, base::Bytes> away) {
    const ProcessOrder command{wire::OrderKind::kTake, std::move(away)};
    EXPECT_TRUE(ledgers.Order(kOwnedJob, base::SelfId(), command));
    return std::tuple(slot.order_bytes, further.order_bytes);
  };
  EXPECT_EQ(take({{kFirst, {4096}}, {kSecond, {8192}}}), std::tuple(4096u, 8192u));
  const std::uint32_t order = slot.order;
  take({{kFirst, {4096}}, {kSecond, {8192}}});
  EXPECT_EQ(slot.order, order) << "it stands";
  EXPECT_EQ(take({{kFirst, {4096}}, {kSecond, {12288}}}), std::tuple(4096u, 12288u));
  EXPECT_NE(slot.order, order) << "more of one GPU is another order";
  EXPECT_EQ(take({{kFirst, {4096}}}), std::tuple(4096u, 0u));
  further.owner = 0;
  EXPECT_EQ(take({{kFirst, {1}}, {kSecond, {2}}}), std::tuple(3u, 0u)) << "of an older shim: it has one home";
  ASSERT_TRUE(ledgers.Order(kOwnedJob, base::SelfId(), {wire::OrderKind::kLeave}));
  EXPECT_EQ(slot.order_bytes, 0u);
}

TEST(Ledgers, ASlotWithArbitraryBytesIsReadSafely) {
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 8192)}, Possible()));
  auto joined = ledgers.Join(kOwnedJob, base::SelfId());
  const Mapped mapped(joined->owner);
  EXPECT_TRUE(ledgers.Intact(kOwnedJob));
  std::memset(static_cast<void*>(&SlotOf(mapped, *joined)), 0xff, sizeof(wire::Slot));
  std::memset(static_cast<void*>(&(*mapped).home), 0xff, sizeof(wire::Ledger::home));
  const SlotStatus slot = ledgers.SlotStatusesOf(kOwnedJob).at(0);
  EXPECT_EQ(slot.process, base::SelfId());
  EXPECT_EQ(slot.residency, wire::MemoryResidency::kNone);
  EXPECT_LE(slot.evicted.count, std::uint64_t{1} << 44);
  EXPECT_FALSE(ledgers.Intact(kOwnedJob));
  ASSERT_TRUE(ledgers.Order(kOwnedJob, base::SelfId(), {wire::OrderKind::kRun}));  // repairs the order
  EXPECT_EQ(SlotOf(mapped, *joined).order, 0u);
  (*mapped).host_budget = 1;
  EXPECT_FALSE(ledgers.Intact(kOwnedJob));
}

TEST(Ledgers, TakesWhatEvictionMayTakeAnewWhileProcessesCount) {
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 8192)}, Possible()));
  auto joined = ledgers.Join(kOwnedJob, base::SelfId());
  const Mapped mapped(joined->owner);
  ledgers.SetEviction(kOwnedJob, {false, base::Bytes{1 << 21}, base::Millis{500}});
  EXPECT_EQ((*mapped).host_budget, 1u << 21);
  EXPECT_EQ((*mapped).patience_ms, 500u);
  EXPECT_EQ((*mapped).backing, static_cast<std::uint32_t>(wire::AllocationMode::kEvictable))
      << "as it was made";
  EXPECT_TRUE(ledgers.Intact(kOwnedJob));
  ledgers.SetEviction({99}, {});
}

TEST(Ledgers, ANewDaemonTakesOverProcessesAndOrders) {
  auto before = std::make_unique<Ledgers>();
  ASSERT_TRUE(before->Create(kOwnedJob, std::vector{Limit(kFirst, 8192)}, Possible()));
  auto joined = before->Join(kOwnedJob, base::SelfId());
  const Mapped mapped(joined->owner);
  ASSERT_TRUE(before->Order(kOwnedJob, base::SelfId(), {wire::OrderKind::kLeave}));
  ASSERT_TRUE(before->GrantCalls(kOwnedJob, base::SelfId(), {0, 5}));
  wire::Reserve(*mapped, wire::kHost, joined->slot, 8192);
  before.reset();
  Ledgers ledgers;
  ASSERT_TRUE(
      ledgers.Adopt(kOwnedJob, std::move(joined->file), std::vector{Limit(kFirst, 8192)}, Possible()));
  EXPECT_TRUE(ledgers.Registered(kOwnedJob, base::SelfId()));
  EXPECT_TRUE(ledgers.SlotStatusesOf(kOwnedJob).at(0).ordered == wire::OrderKind::kLeave);
  EXPECT_EQ(ledgers.HostMemoryOf(kOwnedJob).count, 8192u);
  EXPECT_EQ(ledgers.GrantCalls(kOwnedJob, base::SelfId(), {}).value(), 1u) << "of the daemon before";
  EXPECT_EQ(ledgers.GrantCalls(kOwnedJob, base::SelfId(), {0, 5}).value(), 2u);
  ASSERT_TRUE(ledgers.Order(kOwnedJob, base::SelfId(), {wire::OrderKind::kRun}));
  EXPECT_EQ(SlotOf(mapped, *joined).order, 8u);
}

}  // namespace
}  // namespace gpuman::ledger

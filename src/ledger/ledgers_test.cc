#include "ledger/ledgers.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include "ledger/test_reclaim.h"
#include "ledger/wire/peaks.h"
#include "ledger/wire/slot_balance.h"
#include "ledger/wire/slot_lock.h"

namespace gpuman::ledger {
namespace {

constexpr base::JobId kOwnedJob{7};
const std::string kFirst = "GPU-00112233-4455-6677-8899-aabbccddeeff";
const std::string kSecond = "GPU-ffffffff-4455-6677-8899-aabbccddeeff";

GpuLimit Limit(const std::string& uuid, std::uint64_t hard) { return {uuid, base::Bytes{hard}, {}, {}}; }

// A process's view, as the shim maps it.
class Mapped {
 public:
  explicit Mapped(base::Fd& owner)
      : at_(::mmap(nullptr, sizeof(wire::Ledger), PROT_READ | PROT_WRITE, MAP_SHARED, owner.get(), 0)) {
    owner.Close();
  }
  ~Mapped() { ::munmap(at_, sizeof(wire::Ledger)); }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  wire::Ledger& operator*() const { return *static_cast<wire::Ledger*>(at_); }

 private:
  void* at_;
};

TEST(ParseUuid, ReadsThirtyTwoDigitsAndNothingElse) {
  ASSERT_TRUE(ParseUuid(kFirst));
  EXPECT_EQ((*ParseUuid(kFirst))[1], 0x11);
  EXPECT_EQ((*ParseUuid(kFirst))[15], 0xff);
  EXPECT_TRUE(ParseUuid("MIG-00112233-4455-6677-8899-AABBCCDDEEFF"));
  for (const char* bad :
       {"", "GPU-", "GPU-00112233-4455-6677-8899-aabbccddeef", "0", "GPU-zz112233445566778899aabbccddeeff",
        "GPU-00112233-4455-6677-8899-aabbccddeeff0"})
    EXPECT_FALSE(ParseUuid(bad)) << bad;
}

TEST(Ledgers, RefuseLimitsThatMakeNoSense) {
  Ledgers ledgers;
  EXPECT_FALSE(ledgers.Create(kOwnedJob, std::vector{Limit("0", 1)}));
  EXPECT_FALSE(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 1), Limit(kFirst, 2)}));
  EXPECT_FALSE(ledgers.Create(kOwnedJob, std::vector<GpuLimit>(17, Limit(kFirst, 1))));
  ASSERT_TRUE(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 1)}));
  EXPECT_EQ(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 1)}).error().code,
            base::ErrorCode::kAlreadyExists);
  EXPECT_EQ(ledgers.SetLimits({8}, {}).error().code, base::ErrorCode::kNotFound);
  EXPECT_EQ(ledgers.Join({8}, base::SelfId()).error().code, base::ErrorCode::kNotFound);
}

TEST(Ledgers, AProcessReadsWhenItsGpuWasSampledWhereverTheGpuCameIntoTheLedger) {
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 1)}));
  auto joined = ledgers.Join(kOwnedJob, base::SelfId());
  ASSERT_TRUE(joined);
  const Mapped mapped(joined->owner);
  EXPECT_EQ(wire::Load((*mapped).gpu[0].sampled_at), 0u) << "never sampled";
  ledgers.SetSampled(kFirst, base::MonoTime(std::chrono::nanoseconds(5)));
  ledgers.SetSampled(kSecond, base::MonoTime(std::chrono::nanoseconds(6)));
  ledgers.SetSampled("no UUID", base::MonoTime(std::chrono::nanoseconds(7)));
  EXPECT_EQ(wire::Load((*mapped).gpu[0].sampled_at), 5u);
  ASSERT_TRUE(ledgers.SetLimits(kOwnedJob, std::vector{Limit(kFirst, 1), Limit(kSecond, 1)}));
  EXPECT_EQ(wire::Load((*mapped).gpu[1].sampled_at), 6u);
}

TEST(Ledgers, TellTheMostThatAJobHadOnEachGpu) {
  Ledgers ledgers;
  EXPECT_TRUE(ledgers.PeaksOf(kOwnedJob).empty());
  ASSERT_TRUE(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 1), Limit(kSecond, 1)}));
  auto joined = ledgers.Join(kOwnedJob, base::SelfId());
  ASSERT_TRUE(joined);
  const Mapped mapped(joined->owner);
  wire::RaisePeak(*mapped, 1, 8192);
  wire::RaisePeak(*mapped, 1, 4096);
  const auto peaks = ledgers.PeaksOf(kOwnedJob);
  ASSERT_EQ(peaks.size(), 2u);
  EXPECT_EQ(peaks[0].used.count, 0u);
  EXPECT_EQ(peaks[1].used.count, 8192u);
  wire::RaisePeak(*mapped, 0, UINT64_MAX);
  EXPECT_EQ(ledgers.PeaksOf(kOwnedJob).at(0).used.count, 0u) << "no job can have had that";
}

TEST(Ledgers, AProcessHoldsItsSlotByItsMappingAlone) {
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 1 << 20)}));
  auto joined = ledgers.Join(kOwnedJob, base::SelfId());
  ASSERT_TRUE(joined);
  {
    const Mapped mapped(joined->owner);
    EXPECT_EQ(wire::Reserve(*mapped, 0, joined->slot, 4096), wire::Outcome::kDone);
    EXPECT_TRUE(ledgers.Registered(kOwnedJob, base::SelfId()));
    EXPECT_EQ(ReclaimEnded(kOwnedJob), 0u);
    EXPECT_EQ(ledgers.UsageOf(kOwnedJob).at(0).used.count, 4096u);
    auto other = ledgers.Join(kOwnedJob, base::SelfId());
    ASSERT_TRUE(other);
    EXPECT_NE(other->slot, joined->slot);
  }
  EXPECT_FALSE(ledgers.Registered(kOwnedJob, base::SelfId()));
  EXPECT_EQ(ReclaimEnded(kOwnedJob), 2u);
  EXPECT_EQ(ledgers.UsageOf(kOwnedJob).at(0).used.count, 0u);
}

TEST(Ledgers, TakeAsMuchMemoryAsTheyHaveProcesses) {
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 1 << 20)}));
  const auto joined = ledgers.Join(kOwnedJob, base::SelfId());
  ASSERT_TRUE(joined);
  EXPECT_EQ(ledgers.SlotStatusesOf(kOwnedJob).size(), 1u);
  struct stat status {};
  ASSERT_EQ(::fstat(joined->file.get(), &status), 0);
  EXPECT_LE(status.st_blocks * 512, 4 * 4096) << "the limits, and a process";
}

TEST(Ledgers, ASlotThatComesToAnotherProcessIsEmpty) {
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 1 << 20)}));
  auto first = ledgers.Join(kOwnedJob, base::SelfId());
  const unsigned slot = first->slot;
  {
    const Mapped mapped(first->owner);
    wire::Reserve(*mapped, 0, slot, 4096);
  }
  auto second = ledgers.Join(kOwnedJob, base::SelfId());
  ASSERT_TRUE(second);
  EXPECT_EQ(second->slot, slot);
  EXPECT_EQ(ledgers.UsageOf(kOwnedJob).at(0).used.count, 0u);
}

TEST(Ledgers, HaveRoomForAThousandProcessesAndSayWhenItIsGone) {
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 1 << 20)}));
  std::vector<std::unique_ptr<Mapped>> processes;
  for (unsigned i = 0; i < wire::kProcessSlots; ++i) {
    auto joined = ledgers.Join(kOwnedJob, base::SelfId());
    ASSERT_TRUE(joined) << i;
    processes.push_back(std::make_unique<Mapped>(joined->owner));
  }
  EXPECT_EQ(ledgers.Join(kOwnedJob, base::SelfId()).error().code, base::ErrorCode::kExhausted);
  processes.pop_back();
  EXPECT_TRUE(ledgers.Join(kOwnedJob, base::SelfId()));
}

TEST(Ledgers, LimitsChangeWhileProcessesRun) {
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 8192)}));
  auto joined = ledgers.Join(kOwnedJob, base::SelfId());
  const Mapped mapped(joined->owner);
  EXPECT_EQ(wire::Reserve(*mapped, 0, joined->slot, 16384), wire::Outcome::kRefused);
  const auto changes = (*mapped).changes;
  ASSERT_TRUE(ledgers.SetLimits(kOwnedJob, std::vector{Limit(kFirst, 16384), Limit(kSecond, 4096)}));
  EXPECT_NE((*mapped).changes, changes);
  EXPECT_EQ(wire::Reserve(*mapped, 0, joined->slot, 16384), wire::Outcome::kDone);
  EXPECT_EQ((*mapped).gpu[1].limit, 4096u);
  ASSERT_TRUE(ledgers.SetLimits(kOwnedJob, std::vector{Limit(kSecond, 4096)}));
  EXPECT_EQ((*mapped).gpu[0].limit, wire::kNoLimit);
}

TEST(Ledgers, NoticeThatAProgramHasOverwrittenTheLedger) {
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 8192)}));
  auto joined = ledgers.Join(kOwnedJob, base::SelfId());
  const Mapped mapped(joined->owner);
  EXPECT_TRUE(ledgers.Intact(kOwnedJob));
  (*mapped).gpu[0].limit = 1 << 30;
  EXPECT_FALSE(ledgers.Intact(kOwnedJob));
  ASSERT_TRUE(ledgers.SetLimits(kOwnedJob, std::vector{Limit(kFirst, 8192)}));
  EXPECT_TRUE(ledgers.Intact(kOwnedJob));
  (*mapped).gpus = 4000;
  EXPECT_FALSE(ledgers.Intact(kOwnedJob));
  EXPECT_EQ(ledgers.UsageOf(kOwnedJob).size(), 1u);
}

TEST(Ledgers, NobodyCanChangeTheSizeOfTheFile) {
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 8192)}));
  auto joined = ledgers.Join(kOwnedJob, base::SelfId());
  EXPECT_NE(::ftruncate(joined->file.get(), 0), 0);
  EXPECT_NE(::fcntl(joined->file.get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
}

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
  ASSERT_TRUE(ledgers_.Order(kOwnedJob, base::SelfId(), true));
  EXPECT_EQ(slot_.order, 5u);
  EXPECT_FALSE(ledgers_.SlotStatusesOf(kOwnedJob).at(0).answered);
  ASSERT_TRUE(ledgers_.Order(kOwnedJob, base::SelfId(), true));  // it is being carried out
  EXPECT_EQ(slot_.order, 5u);
  slot_.stage = static_cast<std::uint32_t>(wire::MemoryResidency::kEvicted);
  slot_.evicted = 4096;
  slot_.answered = 5;
  const SlotStatus out = ledgers_.SlotStatusesOf(kOwnedJob).at(0);
  EXPECT_EQ(out.process, base::SelfId());
  EXPECT_TRUE(out.answered && out.ordered == wire::OrderKind::kLeave);
  EXPECT_EQ(out.stage, wire::MemoryResidency::kEvicted);
  EXPECT_EQ(out.evicted.count, 4096u);
  ASSERT_TRUE(ledgers_.Order(kOwnedJob, base::SelfId(), true));  // it was carried out
  EXPECT_EQ(slot_.order, 5u);
  ASSERT_TRUE(ledgers_.Order(kOwnedJob, base::SelfId(), false));
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
  ASSERT_TRUE(ledgers_.Order(kOwnedJob, base::SelfId(), true));
  slot_.error = wire::PackError(wire::OrderError::kDriver, 700);
  slot_.answered = 5;
  EXPECT_EQ(ledgers_.SlotStatusesOf(kOwnedJob).at(0).trouble, wire::OrderError::kDriver);
  EXPECT_EQ(ledgers_.SlotStatusesOf(kOwnedJob).at(0).driver_error, 700u);
  ASSERT_TRUE(ledgers_.Order(kOwnedJob, base::SelfId(), true));
  EXPECT_EQ(slot_.order, 9u);
  ASSERT_TRUE(ledgers_.Order(kOwnedJob, base::SelfId(), false));
  EXPECT_EQ(slot_.order, 12u);
}

TEST(Ledgers, AProcessThatJoinsAnEvictedJobIsOrderedToLeaveToo) {
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 8192)}, Possible()));
  EXPECT_EQ(ledgers.OrderAll(kOwnedJob, true).value(), 0u);
  auto joined = ledgers.Join(kOwnedJob, base::SelfId());
  const Mapped mapped(joined->owner);
  EXPECT_EQ(SlotOf(mapped, *joined).order, 1u);
  EXPECT_EQ(ledgers.OrderAll(kOwnedJob, false).value(), 1u);
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

TEST(Ledgers, GrantStepsByNumberUntilTheNextOrder) {
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 8192)}, Possible()));
  EXPECT_EQ(ledgers.Step(kOwnedJob, base::SelfId(), {0, 1}).error().code, base::ErrorCode::kNotFound);
  EXPECT_EQ(ledgers.Step({8}, base::SelfId(), {0, 1}).error().code, base::ErrorCode::kNotFound);
  auto joined = ledgers.Join(kOwnedJob, base::SelfId());
  const Mapped mapped(joined->owner);
  wire::Slot& slot = SlotOf(mapped, *joined);
  ASSERT_TRUE(ledgers.Order(kOwnedJob, base::SelfId(), ProcessOrder{wire::OrderKind::kHold}));
  EXPECT_EQ(slot.step, 0u);
  const CallGrant grant{0, 64, 3, true, false};
  EXPECT_EQ(ledgers.Step(kOwnedJob, base::SelfId(), grant).value(), 1u);
  EXPECT_EQ(wire::GrantOf(slot.step), grant);
  EXPECT_EQ(wire::StepNumberOf(slot.step), 1u);
  EXPECT_EQ(ledgers.Step(kOwnedJob, base::SelfId(), grant).value(), 2u) << "each grant is another one";
  EXPECT_EQ(ledgers.Step(kOwnedJob, base::SelfId(), {}).value(), 2u) << "withdrawn";
  EXPECT_EQ(wire::GrantOf(slot.step).calls, 0u);
  EXPECT_EQ(wire::StepNumberOf(slot.step), 2u);
  ASSERT_TRUE(ledgers.Step(kOwnedJob, base::SelfId(), grant));
  ASSERT_TRUE(ledgers.Order(kOwnedJob, base::SelfId(), ProcessOrder{wire::OrderKind::kHold}));
  EXPECT_EQ(wire::GrantOf(slot.step), grant) << "the order stands, and so does the grant";
  ASSERT_TRUE(ledgers.Order(kOwnedJob, base::SelfId(), false));
  EXPECT_EQ(wire::GrantOf(slot.step).calls, 0u);
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
  EXPECT_FALSE(older.steps || older.shares || older.fetches);
  EXPECT_EQ(older.rest, QuiesceReport{});
  EXPECT_EQ(older.stepped, CallGrantReport{});
  slot.flags = wire::kSteps | wire::kShares | wire::kFetches;
  slot.rest = wire::PackRest(0x2, 0x5);  // there is no third GPU
  slot.rest_state = 7u << 16 | wire::kRestShut | wire::kRestForRoom;
  slot.stepped = wire::PackStepReport({9, wire::CallGrantEndReason::kAtWork, 12});
  const SlotStatus one = ledgers.SlotStatusesOf(kOwnedJob).at(0);
  EXPECT_TRUE(one.steps && one.shares && one.fetches);
  EXPECT_EQ(one.rest, (QuiesceReport{.shut = true, .for_room = true, .works = 2, .waits = 1, .changes = 7}));
  EXPECT_EQ(one.stepped, (CallGrantReport{9, wire::CallGrantEndReason::kAtWork, 12}));
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
  EXPECT_EQ(ledgers.Order(kOwnedJob, base::SelfId(), true).error().code, base::ErrorCode::kNotSupported);
  EXPECT_EQ(ledgers.OrderAll(kOwnedJob, true).error().code, base::ErrorCode::kNotSupported);
  EXPECT_EQ(ledgers.Order({8}, base::SelfId(), true).error().code, base::ErrorCode::kNotFound);
  ASSERT_TRUE(ledgers.Create({9}, std::vector{Limit(kFirst, 8192)}, Possible()));
  EXPECT_EQ(ledgers.Order({9}, base::SelfId(), true).error().code, base::ErrorCode::kNotFound);
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
  slot.stage = static_cast<std::uint32_t>(wire::MemoryResidency::kRestoring);
  EXPECT_TRUE(ledgers.IsMoving(kOwnedJob, base::SelfId(), kSecond));
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
  ASSERT_TRUE(ledgers.Order(kOwnedJob, base::SelfId(), true));
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
  EXPECT_EQ(slot.stage, wire::MemoryResidency::kNone);
  EXPECT_LE(slot.evicted.count, std::uint64_t{1} << 44);
  EXPECT_FALSE(ledgers.Intact(kOwnedJob));
  ASSERT_TRUE(ledgers.Order(kOwnedJob, base::SelfId(), false));  // repairs the order
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
  ASSERT_TRUE(before->Order(kOwnedJob, base::SelfId(), true));
  ASSERT_TRUE(before->Step(kOwnedJob, base::SelfId(), {0, 5}));
  wire::Reserve(*mapped, wire::kHost, joined->slot, 8192);
  before.reset();
  Ledgers ledgers;
  ASSERT_TRUE(
      ledgers.Adopt(kOwnedJob, std::move(joined->file), std::vector{Limit(kFirst, 8192)}, Possible()));
  EXPECT_TRUE(ledgers.Registered(kOwnedJob, base::SelfId()));
  EXPECT_TRUE(ledgers.SlotStatusesOf(kOwnedJob).at(0).ordered == wire::OrderKind::kLeave);
  EXPECT_EQ(ledgers.HostMemoryOf(kOwnedJob).count, 8192u);
  EXPECT_EQ(ledgers.Step(kOwnedJob, base::SelfId(), {}).value(), 1u) << "of the daemon before";
  EXPECT_EQ(ledgers.Step(kOwnedJob, base::SelfId(), {0, 5}).value(), 2u);
  ASSERT_TRUE(ledgers.Order(kOwnedJob, base::SelfId(), false));
  EXPECT_EQ(SlotOf(mapped, *joined).order, 8u);
}

TEST(Ledgers, ANewDaemonThatKnowsNoGpusYetLeavesTheLimitsAsTheyStand) {
  auto before = std::make_unique<Ledgers>();
  ASSERT_TRUE(before->Create(kOwnedJob, std::vector{Limit(kFirst, 8192)}));
  auto joined = before->Join(kOwnedJob, base::SelfId());
  const Mapped mapped(joined->owner);
  before.reset();
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Adopt(kOwnedJob, std::move(joined->file), {}));
  EXPECT_EQ((*mapped).gpu[0].limit, 8192u);
  EXPECT_TRUE(ledgers.Intact(kOwnedJob));
}

TEST(Ledgers, ANewDaemonTakesOverTheLedgerThatProcessesUse) {
  auto before = std::make_unique<Ledgers>();
  ASSERT_TRUE(before->Create(kOwnedJob, std::vector{Limit(kFirst, 8192)}));
  auto joined = before->Join(kOwnedJob, base::SelfId());
  const Mapped mapped(joined->owner);
  wire::Reserve(*mapped, 0, joined->slot, 4096);
  before.reset();
  Ledgers ledgers;
  EXPECT_FALSE(ledgers.Adopt({8}, base::Fd(::fcntl(joined->file.get(), F_DUPFD_CLOEXEC, 0)), {}));
  EXPECT_FALSE(ledgers.Adopt(kOwnedJob, base::Fd(::open("/dev/null", O_RDWR)), {}));
  EXPECT_FALSE(ledgers.Adopt(kOwnedJob, base::Fd(::memfd_create("x", 0)), {}));
  ASSERT_TRUE(ledgers.Adopt(kOwnedJob, std::move(joined->file), std::vector{Limit(kFirst, 4096)}));
  EXPECT_EQ(ledgers.UsageOf(kOwnedJob).at(0).used.count, 4096u);
  EXPECT_EQ(ledgers.HeldBy(kOwnedJob, base::SelfId(), kFirst), base::Bytes{4096})
      << "who sits there is known again";
  EXPECT_EQ(ReclaimEnded(kOwnedJob), 0u);
  EXPECT_EQ(wire::Reserve(*mapped, 0, joined->slot, 4096), wire::Outcome::kRefused);
}

TEST(Ledgers, OneWhoseProcessesHaveEndedIsMadeAgainFromItsBytes) {
  auto before = std::make_unique<Ledgers>();
  ASSERT_TRUE(before->Create(kOwnedJob, std::vector{Limit(kFirst, 8192)}));
  auto joined = before->Join(kOwnedJob, base::SelfId());
  const Mapped mapped(joined->owner);
  wire::Reserve(*mapped, 0, joined->slot, 4096);
  const auto file = before->FileOf(kOwnedJob);
  ASSERT_TRUE(file);
  std::string bytes(sizeof(wire::Ledger), '\0');
  ASSERT_EQ(::pread(file->get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  EXPECT_EQ(before->FileOf({8}).error().code, base::ErrorCode::kNotFound);
  before.reset();
  Ledgers ledgers;
  EXPECT_FALSE(ledgers.Restore({8}, bytes, {})) << "it is another job's";
  EXPECT_FALSE(ledgers.Restore(kOwnedJob, std::string_view(bytes).substr(1), {}));
  EXPECT_FALSE(ledgers.Restore(kOwnedJob, "", {}));
  EXPECT_FALSE(ledgers.Has(kOwnedJob));
  ASSERT_TRUE(ledgers.Restore(kOwnedJob, bytes, std::vector{Limit(kFirst, 8192)}));
  EXPECT_EQ(ledgers.UsageOf(kOwnedJob).at(0).used.count, 4096u);
  EXPECT_TRUE(ledgers.Intact(kOwnedJob));
}

void Tell(wire::AtRefusal& at, std::uint64_t number, std::uint64_t sum) {
  at = {number, 100, wire::kUnknownBytes, {{1000, 200, 30, 4, 5}, 61, sum}};
}

TEST(Ledgers, ARefusalSaysWhatTheMemoryWasWhereThatIsKnown) {
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 8192)}));
  auto joined = ledgers.Join(kOwnedJob, base::SelfId());
  const Mapped mapped(joined->owner);
  const auto by = static_cast<std::uint32_t>(wire::RefusedBy::kLimit);
  wire::GpuPeakAndRefusals& detail = *wire::DetailOf(*mapped, 0);
  (*mapped).gpu[0].refusal = {5, 4096, 1400, 8192, 77, by, 0};
  detail.first = {3, 512, 1300, 8192, 70, by, 0};
  Tell(detail.at_last, 5, 1300);
  Tell(detail.at_first, 3, 1300);
  auto told = ledgers.RefusalsOf(kOwnedJob).at(0);
  EXPECT_EQ(told.last.parts, (base::MemoryParts{{1000}, {200}, {30}, {4}, {5}, {61}, {100}}));
  EXPECT_EQ(told.last.pools_unused, base::Bytes{100});
  EXPECT_EQ(told.last.device_free, std::nullopt);
  ASSERT_TRUE(told.first);
  EXPECT_EQ(told.first->asked, base::Bytes{512});
  EXPECT_EQ(told.first->parts->uncounted, base::Bytes{0});
  EXPECT_EQ(told.first->pools_unused, base::Bytes{100});
  EXPECT_EQ(told.first->device_free, std::nullopt);

  Tell(detail.at_last, 4, 1300);
  EXPECT_EQ(ledgers.RefusalsOf(kOwnedJob).at(0).last.parts, std::nullopt) << "it is of another refusal";
  EXPECT_EQ(ledgers.RefusalsOf(kOwnedJob).at(0).last.pools_unused, std::nullopt);
  Tell(detail.at_last, 5, 1299);
  EXPECT_EQ(ledgers.RefusalsOf(kOwnedJob).at(0).last.parts, std::nullopt) << "two have written it";
  (*mapped).gpu[0].refusal.used = 1299;
  Tell(detail.at_last, 5, 1300);
  EXPECT_EQ(ledgers.RefusalsOf(kOwnedJob).at(0).last.parts, std::nullopt) << "more than all";

  ledgers.ForgetFirstRefusals(kOwnedJob, 70);
  EXPECT_TRUE(ledgers.RefusalsOf(kOwnedJob).at(0).first) << "the daemon has come back";
  ledgers.ForgetFirstRefusals(kOwnedJob, 71);
  EXPECT_FALSE(ledgers.RefusalsOf(kOwnedJob).at(0).first) << "of an earlier run";
  Tell(detail.at_first, 9, 1300);
  EXPECT_FALSE(ledgers.RefusalsOf(kOwnedJob).at(0).first) << "not written yet";
  detail.pid = 1;
  EXPECT_FALSE(ledgers.RefusalsOf(kOwnedJob).at(0).last.parts) << "a process of an older ledger has the slot";
}

TEST(Ledgers, APeakSaysWhatItWas) {
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 8192)}));
  auto joined = ledgers.Join(kOwnedJob, base::SelfId());
  const Mapped mapped(joined->owner);
  EXPECT_EQ(ledgers.PartsOfPeak(kOwnedJob, kFirst), std::nullopt);
  wire::Write(wire::DetailOf(*mapped, 0)->peak, {{1000, 200, 30, 4, 5}, 61, 1300});
  EXPECT_EQ(ledgers.PartsOfPeak(kOwnedJob, kFirst), std::nullopt) << "of an earlier peak";
  (*mapped).gpu[0].peak = 1300;
  EXPECT_EQ(ledgers.PartsOfPeak(kOwnedJob, kFirst),
            (base::MemoryParts{{1000}, {200}, {30}, {4}, {5}, {61}, {}}));
  EXPECT_EQ(ledgers.PartsOfPeak(kOwnedJob, kSecond), std::nullopt);
  EXPECT_EQ(ledgers.PartsOfPeak({99}, kFirst), std::nullopt);
}

// What the shim of the process tells in its slot.
wire::ProcessPeak* Claim(const Mapped& mapped, unsigned slot, unsigned gpu = 0) {
  std::uint64_t name[2] = {};
  std::memcpy(name, "python3\n", 8);
  return wire::ClaimPeak(*mapped, slot, gpu, name);
}

TEST(Ledgers, TheMostThatAProcessHadOutlivesIt) {
  constexpr std::uint64_t kUnit = wire::kUnit;
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 8192), Limit(kSecond, 8192)}));
  EXPECT_TRUE(ledgers.ProcessPeaksOf(kOwnedJob).empty());
  EXPECT_TRUE(ledgers.ProcessPeaksOf({99}).empty());
  {
    auto joined = ledgers.Join(kOwnedJob, base::SelfId());
    const Mapped mapped(joined->owner);
    wire::ProcessPeak* const first = Claim(mapped, joined->slot);
    ASSERT_TRUE(first);
    EXPECT_TRUE(ledgers.ProcessPeaksOf(kOwnedJob).empty()) << "nothing was told yet";
    wire::WritePeak(*first, {kUnit, 0, 0, 0, 1});
    wire::WritePeak(*first, {3 * kUnit, 0, 0, 0, kUnit});
    wire::WritePeak(*Claim(mapped, joined->slot, 1), {5 * kUnit, 0, 0, 0, 0});
  }
  auto joined = ledgers.Join(kOwnedJob, base::SelfId());  // has its slot now
  const Mapped mapped(joined->owner);
  const auto peaks = ledgers.ProcessPeaksOf(kOwnedJob);
  ASSERT_EQ(peaks.size(), 2u);
  EXPECT_EQ(peaks[0].uuid, kSecond) << "the larger one first";
  EXPECT_EQ(peaks[1].uuid, kFirst);
  EXPECT_EQ(peaks[1].pid, base::SelfId().pid);
  EXPECT_EQ(peaks[1].program, "python3") << "a control character is left out";
  EXPECT_EQ(peaks[1].parts, (base::MemoryParts{{3 * kUnit}, {}, {}, {}, {kUnit}, {}, {}}));

  auto& written = *reinterpret_cast<wire::ProcessPeakArray*>(&(*mapped).slot[wire::kProcessSlots]);
  written.peak[0].parts[1].sum = 0;  // it was killed while it wrote the last one
  EXPECT_EQ(ledgers.ProcessPeaksOf(kOwnedJob).at(1).parts.Sum(), base::Bytes{2 * kUnit})
      << "the one before it";
  written.peak[0].owner = UINT64_MAX;
  EXPECT_EQ(ledgers.ProcessPeaksOf(kOwnedJob).size(), 1u) << "a program has written it";
  written.pid = 1;
  EXPECT_TRUE(ledgers.ProcessPeaksOf(kOwnedJob).empty()) << "a process of an older ledger has the slot";
}

TEST(Ledgers, OfMoreProcessesThanHaveRoomThePeaksOfTheLargestStay) {
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 8192)}));
  auto lasting = ledgers.Join(kOwnedJob, base::SelfId());
  const Mapped its(lasting->owner);
  wire::WritePeak(*Claim(its, lasting->slot), {1, 0, 0, 0, 0});
  for (unsigned i = 1; i <= 10 * wire::kPeaks; ++i) {
    auto joined = ledgers.Join(kOwnedJob, base::SelfId());
    const Mapped mapped(joined->owner);
    wire::ProcessPeak* const peak = Claim(mapped, joined->slot);
    ASSERT_TRUE(peak) << i;
    wire::WritePeak(*peak, {((i * 7919) % 10'007 + 2) * wire::kUnit, 0, 0, 0, 0});
  }
  const auto peaks = ledgers.ProcessPeaksOf(kOwnedJob);
  std::vector<std::uint64_t> largest;
  for (unsigned i = 1; i <= 10 * wire::kPeaks; ++i) largest.push_back((i * 7919) % 10'007 + 2);
  std::ranges::sort(largest, std::greater{});
  for (unsigned i = 0; i < wire::kPeaks / 4; ++i)
    EXPECT_EQ(peaks.at(i).parts.Sum().count, largest[i] * wire::kUnit) << i;
  EXPECT_EQ(peaks.back().parts.Sum().count, wire::kUnit) << "it lives";
}

TEST(Ledgers, AShimTellsAnOlderDaemonNoPeak) {
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 8192)}));
  auto joined = ledgers.Join(kOwnedJob, base::SelfId());
  const Mapped mapped(joined->owner);
  (*mapped).features = wire::kFeatureHomes;
  EXPECT_EQ(Claim(mapped, joined->slot), nullptr);
}

TEST(Ledgers, WhatAJobCountsMovesWithItToAnotherGpu) {
  constexpr std::uint64_t kUnit = wire::kUnit;
  Ledgers ledgers;
  const std::vector limits{Limit(kFirst, 8 * kUnit), Limit(kSecond, 16 * kUnit)};
  ASSERT_TRUE(ledgers.Create(kOwnedJob, limits));
  auto joined = ledgers.Join(kOwnedJob, base::SelfId());
  const base::Fd file = std::move(joined->file);  // the slot is this process's while it has that
  const Mapped mapped(joined->owner);
  EXPECT_FALSE(ledgers.FollowMove(kOwnedJob, kSecond)) << "it counts nothing";
  ASSERT_EQ(wire::Reserve(*mapped, 0, joined->slot, 3 * kUnit), wire::Outcome::kDone);
  wire::RaisePeak(*mapped, 0, 3 * kUnit);
  ledgers.SetUncounted(kOwnedJob, kFirst, base::Bytes{kUnit});
  ledgers.SetUncounted(kOwnedJob, kSecond, base::Bytes{2 * kUnit});
  ledgers.SetRoom(kOwnedJob, kFirst, base::Bytes{5 * kUnit});
  const auto changes = wire::Load((*mapped).changes);

  EXPECT_FALSE(ledgers.FollowMove(kOwnedJob, kFirst)) << "it is there";
  EXPECT_FALSE(ledgers.FollowMove(kOwnedJob, "GPU-0f112233-4455-6677-8899-aabbccddeeff"))
      << "not in the ledger";
  EXPECT_FALSE(ledgers.FollowMove({99}, kSecond)) << "no such job";
  EXPECT_EQ(ledgers.FollowMove(kOwnedJob, kSecond), kFirst);
  EXPECT_EQ(ledgers.HeldBy(kOwnedJob, base::SelfId(), kSecond), base::Bytes{3 * kUnit});
  EXPECT_EQ(ledgers.HeldBy(kOwnedJob, base::SelfId(), kFirst), base::Bytes{});
  EXPECT_EQ(ledgers.PeaksOf(kOwnedJob).at(1).used, base::Bytes{3 * kUnit});
  EXPECT_EQ((*mapped).gpu[0].limit, 16 * kUnit) << "the other GPU's";
  EXPECT_EQ((*mapped).gpu[0].outside, 2 * kUnit);
  EXPECT_EQ((*mapped).gpu[0].room, wire::kNoLimit);
  EXPECT_EQ((*mapped).gpu[1].limit, 8 * kUnit);
  EXPECT_EQ((*mapped).gpu[1].outside, kUnit);
  EXPECT_EQ((*mapped).gpu[1].room, 5 * kUnit);
  EXPECT_NE(wire::Load((*mapped).changes), changes) << "processes look again";
  EXPECT_TRUE(ledgers.Intact(kOwnedJob));
  EXPECT_FALSE(ledgers.FollowMove(kOwnedJob, kSecond)) << "once is enough";

  ASSERT_EQ(wire::Reserve(*mapped, 1, joined->slot, kUnit), wire::Outcome::kDone);
  EXPECT_FALSE(ledgers.FollowMove(kOwnedJob, kFirst)) << "it counts on both";
  wire::GiveBack(*mapped, 1, joined->slot, kUnit);
  EXPECT_EQ(ledgers.FollowMove(kOwnedJob, kFirst), kSecond) << "and back";
  EXPECT_EQ(ledgers.HeldBy(kOwnedJob, base::SelfId(), kFirst), base::Bytes{3 * kUnit});
}

TEST(Ledgers, TheLastRefusalOnEachGpuIsRead) {
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 8192), Limit(kSecond, 8192)}));
  EXPECT_TRUE(ledgers.RefusalsOf(kOwnedJob).empty()) << "there was none, or its shim is an older one";
  EXPECT_TRUE(ledgers.RefusalsOf({99}).empty());
  auto joined = ledgers.Join(kOwnedJob, base::SelfId());
  const Mapped mapped(joined->owner);
  const auto by = static_cast<std::uint32_t>(wire::RefusedBy::kSharing);
  (*mapped).gpu[1].refusal = {3, 4096, 1024, wire::kNoLimit, 77, by, 0};
  const auto refusals = ledgers.RefusalsOf(kOwnedJob);
  ASSERT_EQ(refusals.size(), 1u);
  EXPECT_EQ(refusals[0].last.uuid, kSecond);
  EXPECT_EQ(refusals[0].last.number, 3u);
  EXPECT_EQ(refusals[0].last.asked, base::Bytes{4096});
  EXPECT_EQ(refusals[0].last.used, base::Bytes{1024});
  EXPECT_EQ(refusals[0].last.limit, std::nullopt);
  EXPECT_EQ(refusals[0].last.at, 77u);
  EXPECT_TRUE(refusals[0].last.by == wire::RefusedBy::kSharing);
  (*mapped).gpu[1].refusal.by = 99;
  EXPECT_TRUE(ledgers.RefusalsOf(kOwnedJob).empty()) << "a program has written that";
  EXPECT_TRUE(ledgers.Intact(kOwnedJob)) << "it is the shims' to write";
}

}  // namespace
}  // namespace gpuman::ledger

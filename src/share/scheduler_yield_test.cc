// Tests tenants that do not yield, event by event like scheduler_test.cc.
#include "share/test_scheduler.h"

namespace gpuman::share {
namespace {

using testing::HasSubstr;

class JobThatDoesNotYieldTest : public ShareScheduler {
 protected:
  // A runs, B waits for it, and A was asked to yield.
  void Ask(const std::string& user_of_b = "") {
    Join(kA, GiB(10));
    Tell(event::Joined{kB, {}, GatePosition::kClosed, user_of_b});
    Tell(event::ActivityChanged{kB, TenantActivity::kIdle, now_});
    Has(kB, {}, GiB(10));
    Pass(60s);
    Is(kB, TenantActivity::kWaiting);
    restore_ = One<action::Restore>().order;
    Said<action::MemoryGrant>();
  }
  // B's restore stops, and waits.
  void StopB() {
    EXPECT_EQ(One<action::CancelRestore>().tenant, kB);
    Tell(event::RestoreDone{kB, restore_, "stopped"});
    Has(kB, {}, GiB(10));
  }
  TenantStatus Of(TenantId tenant) {
    const auto view = scheduler_.View(now_);
    for (const auto& each : view.gpus.at(0).tenants)
      if (each.tenant == tenant) return each;
    return {};
  }
  OrderId restore_ = 0;
};

TEST_F(JobThatDoesNotYieldTest, RunsOnAndTheOtherWaitsWithTheReason) {
  Ask();
  const auto close = One<action::Close>();
  Tick();
  EXPECT_EQ(now_, close.deadline + 1s);
  EXPECT_EQ(One<action::Open>().tenant, kA);
  const auto report = One<action::EventReport>();
  EXPECT_EQ(report.kind, "share_not_yielded");
  EXPECT_THAT(report.message, HasSubstr("did not come to rest within 5s"));
  EXPECT_TRUE(Said<action::Escalate>().empty()) << "on_no_yield is wait";
  StopB();
  EXPECT_TRUE(Silent());
  EXPECT_EQ(Of(kA).gate, GatePosition::kOpen);
  EXPECT_EQ(Of(kA).waits_for, "");
  EXPECT_EQ(Of(kA).obstacle, kA);
  EXPECT_EQ(Of(kB).waits_for, "yield");
  EXPECT_EQ(Of(kB).obstacle, kA);
  EXPECT_THAT(Of(kB).why, HasSubstr("did not come to rest within 5s"));
  Tell(event::GateClosed{kA, close.order});
  EXPECT_TRUE(Silent()) << "too late: it runs again";
}

TEST_F(JobThatDoesNotYieldTest, FailedEvictionIsNamedToWaitingJobs) {
  Ask();
  Tell(event::GateClosed{kA, One<action::Close>().order});
  const auto evict = One<action::Evict>();
  EXPECT_EQ(evict.tenant, kA);
  EXPECT_EQ(Of(kB).obstacle, std::nullopt) << "it is on its way";
  Pass(40s);
  Tell(event::Tick{});
  const auto report = One<action::EventReport>();
  EXPECT_EQ(report.kind, "share_not_yielded");
  EXPECT_EQ(report.message, kMemoryStays);
  EXPECT_EQ(Of(kA).obstacle, kA);
  EXPECT_EQ(Of(kB).obstacle, kA);
  EXPECT_EQ(Of(kB).why, kMemoryStays);
  EXPECT_FALSE(scheduler_.ObstacleOf(kA)->runs);
  Tell(event::MovedOut{kA, evict.gpu, evict.bytes});
  EXPECT_EQ(Of(kB).obstacle, std::nullopt);
}

TEST_F(JobThatDoesNotYieldTest, TimeOfFailedAttemptBecomesLongestUnitOfWork) {
  Ask();
  EXPECT_FALSE(Of(kA).longest_unit);
  for (const Span given : {5s, 10s, 20s, 20s}) {
    Tick();
    EXPECT_EQ(Of(kA).longest_unit, given) << "not the second in which its answer could have come";
    StopB();
    Tick();
    restore_ = One<action::Restore>().order;
  }
  Said<action::MemoryGrant>();
  Said<action::Open>();
  Tell(event::GateClosed{kA, Said<action::Close>().back().order});
  EXPECT_EQ(Of(kA).longest_unit, 20s) << "of the last times";
}

TEST_F(JobThatDoesNotYieldTest, WaitForRoomOrRefusalDoesNotChangeLongestUnitOfWork) {
  Ask();
  const auto refused = One<action::Close>();
  Tell(event::GateNotClosed{kA, refused.order, "process 1 records a graph"});
  EXPECT_FALSE(Of(kA).longest_unit);
  StopB();
  Tick();
  const auto close = One<action::Close>();
  Pass(4s);
  Tell(event::GateNotClosed{kA, close.order, "process 1 waits for room", true, true});
  EXPECT_FALSE(Of(kA).longest_unit);
}

TEST_F(JobThatDoesNotYieldTest, AnswerShortlyAfterDeadlineStillGivesTheReason) {
  Ask();
  const auto close = One<action::Close>();
  now_ = close.deadline + 300ms;
  Tell(event::ActivityChanged{kB, TenantActivity::kWaiting});
  EXPECT_TRUE(Said<action::Open>().empty());
  Tell(event::GateNotClosed{kA, close.order, "process 1 works on GPU 0", true});
  EXPECT_EQ(One<action::Open>().tenant, kA);
  EXPECT_THAT(One<action::EventReport>().message,
              HasSubstr("did not come to rest within 5s: process 1 works on GPU 0"));
}

TEST_F(JobThatDoesNotYieldTest, IsAskedAgainAtGrowingIntervalsAndReportedOnce) {
  Ask();
  Span asked{}, ran{};
  Span last_pause{};
  for (int attempt = 0; attempt < 6; ++attempt) {
    const auto close = One<action::Close>();
    asked += close.deadline - now_;
    Tick();
    EXPECT_EQ(One<action::Open>().tenant, kA);
    EXPECT_EQ(Said<action::EventReport>().size(), attempt == 0 ? 1u : 0u);
    StopB();
    const base::MonoTime since = now_;
    Tick();
    const Span pause = now_ - since;
    EXPECT_GE(pause, last_pause);
    ran += last_pause = pause;
    restore_ = One<action::Restore>().order;
    Said<action::MemoryGrant>();
  }
  EXPECT_LT(100 * asked, 2 * ran) << "it costs it a hundredth of its time, or two";
}

TEST_F(JobThatDoesNotYieldTest, ObstacleEndsWhenNextAttemptComesToRest) {
  Ask();
  Said<action::Close>();
  Tick();
  StopB();
  Said<action::Open>();
  Said<action::EventReport>();
  Tick();
  CloseNow(kA);
  EXPECT_EQ(One<action::Evict>().tenant, kA);
  EXPECT_EQ(One<action::Restore>().tenant, kB);
  EXPECT_NE(Of(kB).waits_for, "yield");
  EXPECT_FALSE(Of(kA).obstacle);
}

TEST_F(JobThatDoesNotYieldTest, RefusalOpensTheGateAtOnce) {
  Ask();
  Tell(event::GateNotClosed{kA, One<action::Close>().order, "it was recording a CUDA graph all the time"});
  EXPECT_EQ(One<action::Open>().tenant, kA);
  EXPECT_THAT(One<action::EventReport>().message, HasSubstr("CUDA graph"));
}

TEST_F(JobThatDoesNotYieldTest, ReportHasFiguresOfTheAttempt) {
  Ask();
  Tell(event::GateNotClosed{kA,
                            One<action::Close>().order,
                            "process 7 works",
                            true,
                            false,
                            {{"milliseconds", 4980}, {"working", 1}}});
  const auto data = One<action::EventReport>().data;
  EXPECT_EQ(data.at("milliseconds"), 4980);
  EXPECT_EQ(data.at("working"), 1);
  EXPECT_GT(data.at("asked_again_milliseconds"), 0);
}

TEST_F(JobThatDoesNotYieldTest, ImmediateRefusalIsRetriedSoon) {
  Ask();
  const auto close = One<action::Close>();
  Pass(60ms);
  Tell(event::GateNotClosed{kA, close.order, "process 11 waits for room"});
  EXPECT_THAT(One<action::EventReport>().message, HasSubstr("waits for room"));
  StopB();
  const auto refused = now_;
  while (Said<action::Close>().empty()) Tick();
  EXPECT_EQ(now_ - refused, 600ms);
}

TEST_F(JobThatDoesNotYieldTest, TwoOfThemRunTogetherWhenBothHaveTheirMemory) {
  Join(kA, GiB(8));
  Join(kB, GiB(8));
  Tell(event::CapacityChanged{"gpu", GiB(12)});
  for (int i = 0; i < 2; ++i) {
    const TenantId asked = One<action::Close>().tenant;
    Tick();
    EXPECT_EQ(One<action::Open>().tenant, asked);
  }
  EXPECT_EQ(Of(kA).gate, GatePosition::kOpen);
  EXPECT_EQ(Of(kB).gate, GatePosition::kOpen);
  EXPECT_TRUE(Said<action::Close>().empty()) << "both have been asked";
}

TEST_F(JobThatDoesNotYieldTest, AJobThatFitsBesideItRuns) {
  Ask();
  Tick();
  StopB();
  Said<action::Close>();
  Said<action::Open>();
  Join(kC, GiB(4));
  EXPECT_EQ(Of(kC).gate, GatePosition::kOpen);
  EXPECT_EQ(Of(kC).waits_for, "");
}

TEST_F(JobThatDoesNotYieldTest, NoTimerRunsWithoutWaitingJob) {
  Ask();
  Tick();
  StopB();
  EXPECT_TRUE(scheduler_.Deadline());
  Tell(event::Left{kB});
  EXPECT_FALSE(scheduler_.Deadline());
}

TEST_F(JobThatDoesNotYieldTest, ChangedSettingAppliesAtOnce) {
  Ask();
  Tick();
  StopB();
  Said<action::Close>();
  Tell(event::SettingsChanged{{.on_no_yield = OnNoYield::kEnd}});
  const auto escalate = One<action::Escalate>();
  EXPECT_EQ(std::pair(escalate.tenant, escalate.how), std::pair(kA, OnNoYield::kEnd));
}

TEST_F(JobThatDoesNotYieldTest, IsNotAskedAtOnceAfterFailedSuspension) {
  Ask();
  Tick();
  StopB();
  Said<action::Close>();
  Tell(event::Suspended{kA});
  Said<action::Restore>();
  Said<action::MemoryGrant>();
  Tell(event::Unsuspended{kA, GatePosition::kOpen});
  Has(kA, GiB(10));
  Pass(6s);
  Tell(event::Tick{});
  EXPECT_TRUE(Said<action::Close>().empty());
  EXPECT_EQ(Of(kA).gate, GatePosition::kOpen);
}

TEST_F(JobThatDoesNotYieldTest, RunsOnWhenItCannotBeClosedOnReturn) {
  Join(kA, GiB(10));
  Tell(event::Suspended{kA});
  Tell(event::Unsuspended{kA, GatePosition::kOpen, "its GPU work did not come to an end in time"});
  EXPECT_THAT(One<action::EventReport>().message, HasSubstr("did not come to an end"));
  EXPECT_EQ(Of(kA).gate, GatePosition::kOpen);
}

// One of its processes came after the others were held, and its work waits for theirs.
TEST_F(JobThatDoesNotYieldTest, ProcessThatCannotBeHeldAloneOpensTheGateAndIsRetried) {
  Ask();
  CloseNow(kA);
  const auto evict = One<action::Evict>();
  Tell(event::EvictDone{kA, "gpu", evict.order, "process 7 works", true});
  EXPECT_EQ(One<action::Open>().tenant, kA);
  EXPECT_THAT(One<action::EventReport>().message, HasSubstr("process 7 works"));
  StopB();
  Has(kA, GiB(10));
  EXPECT_EQ(Of(kA).gate, GatePosition::kOpen);
  EXPECT_EQ(Of(kB).obstacle, kA);
  ASSERT_NO_FATAL_FAILURE(Tick());
  EXPECT_EQ(One<action::Close>().tenant, kA);
}

TEST_F(JobThatDoesNotYieldTest, StaysClosedWithEvictedMemoryWhenProcessCannotBeHeldAlone) {
  Ask();
  CloseNow(kA);
  const auto evict = One<action::Evict>();
  Tell(event::MovedOut{kA, "gpu", GiB(1)});
  Tell(event::EvictDone{kA, "gpu", evict.order, "process 7 works", true});
  EXPECT_TRUE(Said<action::Open>().empty());
  EXPECT_EQ(Of(kA).gate, GatePosition::kClosed);
}

class JobThatDoesNotAnswerTest : public JobThatDoesNotYieldTest {
 protected:
  void Stops(TenantId tenant) { Tell(event::ResponsivenessChanged{tenant, false, "process 7 is stopped"}); }
};

TEST_F(JobThatDoesNotAnswerTest, IsReportedWithThisReasonEachTime) {
  Ask();
  for (int i = 0; i < 2; ++i) {
    Stops(kA);
    ASSERT_NO_FATAL_FAILURE(Tick());
    EXPECT_EQ(One<action::EventReport>().message, "process 7 is stopped");
    EXPECT_EQ(Of(kB).why, "process 7 is stopped");
    EXPECT_EQ(One<action::Open>().tenant, kA);
    StopB();
    Said<action::Close>();
    Tell(event::ResponsivenessChanged{kA, true});
    EXPECT_EQ(One<action::Close>().tenant, kA) << "it is asked at once";
    restore_ = One<action::Restore>().order;
    Said<action::MemoryGrant>();
  }
}

TEST_F(JobThatDoesNotAnswerTest, JobOfSameUserFollowsTheSettingOfThatUser) {
  Ask();
  Stops(kA);
  Tick();
  Pass(1h);
  Tell(event::Tick{});
  EXPECT_TRUE(Said<action::Escalate>().empty()) << "on_no_yield is wait";
}

TEST_F(JobThatDoesNotAnswerTest, IsTakenOffByForceWhenItBlocksAnotherUser) {
  Ask("somebody else");
  Stops(kA);
  const auto since = now_;
  Tick();
  EXPECT_TRUE(Said<action::Escalate>().empty()) << "only for a moment, so far";
  StopB();
  Tick();
  EXPECT_EQ(now_, since + SchedulerSettings{}.answer_limit);
  EXPECT_EQ(One<action::Escalate>(),
            (action::Escalate{kA, OnNoYield::kSuspend, true, "process 7 is stopped"}));
  Said<action::Close>();
  Pass(1h);
  Tell(event::Tick{});
  EXPECT_TRUE(Said<action::Escalate>().empty()) << "once";
}

TEST_F(JobThatDoesNotAnswerTest, IsKeptWhenItAnswersInTime) {
  Ask("somebody else");
  Stops(kA);
  Pass(20s);
  Tell(event::ResponsivenessChanged{kA, true});
  Said<action::Close>();
  Pass(1h);
  Tell(event::Tick{});
  EXPECT_TRUE(Said<action::Escalate>().empty());
}

TEST_F(JobThatDoesNotAnswerTest, ChangedSettingBetweenUsersAppliesAtOnce) {
  Tell(event::SettingsChanged{{.on_no_answer = OnNoYield::kWait}});
  Ask("somebody else");
  Stops(kA);
  Pass(1h);
  Tell(event::Tick{});
  EXPECT_TRUE(Said<action::Escalate>().empty());
  Tell(event::SettingsChanged{{.on_no_answer = OnNoYield::kEnd}});
  const auto escalate = One<action::Escalate>();
  EXPECT_EQ(std::pair(escalate.how, escalate.forced), std::pair(OnNoYield::kEnd, true));
}

TEST_F(JobThatDoesNotAnswerTest, GetsNoTurnsAndItsMemoryIsNotWaitedForWhenClosed) {
  Ask("somebody else");
  CloseNow(kA);
  Is(kA, TenantActivity::kWaiting);
  const auto evict = One<action::Evict>();
  Stops(kA);
  Tell(event::EvictDone{kA, "gpu", evict.order, "process 7 is stopped"});
  EXPECT_EQ(One<action::EventReport>().kind, "share_not_yielded");
  EXPECT_EQ(One<action::CancelRestore>().tenant, kB);
  EXPECT_TRUE(Said<action::Open>().empty()) << "it would not run";
  Pass(SchedulerSettings{}.answer_limit);
  Tell(event::Tick{});
  EXPECT_TRUE(One<action::Escalate>().forced);
}

TEST_F(JobThatDoesNotAnswerTest, IsNotTakenOffAgainForEarlierSilenceAfterReturn) {
  Ask("somebody else");
  Stops(kA);
  Tick();
  StopB();
  Tick();
  EXPECT_TRUE(One<action::Escalate>().forced);
  Tell(event::Suspended{kA});
  Pass(1h);
  Tell(event::Unsuspended{kA, GatePosition::kClosed});
  Has(kA, {}, GiB(10));
  Pass(1h);
  Tell(event::Tick{});
  EXPECT_TRUE(Said<action::Escalate>().empty());
}

TEST_F(JobThatDoesNotAnswerTest, BlocksNobodyWithoutEvictableMemory) {
  Ask("somebody else");
  Has(kA, {}, {});
  Stops(kA);
  Pass(1h);
  Tell(event::Tick{});
  EXPECT_TRUE(Said<action::Escalate>().empty());
}

}  // namespace
}  // namespace gpuman::share

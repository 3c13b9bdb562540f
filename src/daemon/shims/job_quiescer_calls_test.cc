// Tests single calls of processes for which others wait on a GPU.
#include <gmock/gmock.h>

#include "daemon/shims/test_job_quiescer.h"
#include "ledger/wire/words.h"

namespace gpuman::daemon {
namespace {

namespace wire = ledger::wire;
using ledger::wire::CallGrantEndReason;
using ledger::wire::OrderError;
using ledger::wire::OrderKind;
using testing::HasSubstr;
using testing::Not;

// --- single calls

TEST_F(JobQuiescerTest, ProcessThatOthersWaitForGetsSingleCalls) {
  FakeShim &waits = Process(), &ahead = Process();
  const auto attempt = Begin();
  ahead.Closes(kFirstGpu, 0);  // its work waits for a call of the other
  waits.IsHeld(kSecondGpu);
  Look();
  EXPECT_FALSE(waits.grant()) << "the view has not settled";
  clock_.Advance(base::Millis(10));
  ASSERT_TRUE(Until([&] { return waits.grant().has_value(); }));
  EXPECT_EQ(waits.grant()->gpu, 1u);
  EXPECT_FALSE(waits.grant()->behind);
  EXPECT_FALSE(ahead.grant());
  EXPECT_EQ(quiescer_->ProgressOf(kJob)->calls, 0u);
  waits.EndsGrant(CallGrantEndReason::kOthersChanged, 3);
  ahead.IsHeld();
  AreHeldForGood({&waits, &ahead}, kSecondGpu);
  const auto result = ResultOf(attempt);
  EXPECT_TRUE(result.rested);
  EXPECT_EQ(result.calls, 3u);
  EXPECT_EQ(OfSeveral().calls, 3u);
}

TEST_F(JobQuiescerTest, ProcessBehindGetsCallsUntilTheOthersRest) {
  FakeShim &waits = Process(), &ahead = Process();
  const auto attempt = Begin();
  ahead.Closes(kFirstGpu, 0);
  waits.IsHeld(kSecondGpu);
  for (unsigned round = 1; round <= 3; ++round) {
    Look();
    clock_.Advance(base::Millis(20));
    ASSERT_TRUE(Until([&] { return waits.grant().has_value(); })) << round;
    waits.EndsGrant(CallGrantEndReason::kUsedUp, 2);
    ASSERT_TRUE(Until([&] { return quiescer_->ProgressOf(kJob)->calls == 2 * round; }));
  }
  ahead.IsHeld();
  AreHeldForGood({&waits, &ahead});
  EXPECT_EQ(ResultOf(attempt).calls, 6u);
}

TEST_F(JobQuiescerTest, ProcessFarBehindGetsManyCallsAtOnce) {
  FakeShim &waits = Process(), &ahead = Process();
  Begin();
  ahead.Closes(kFirstGpu, 0);
  waits.IsHeld(kSecondGpu);
  Look();
  clock_.Advance(base::Millis(10));
  ASSERT_TRUE(Until([&] { return waits.grant().has_value(); }));
  const wire::CallGrant first = *waits.grant();
  EXPECT_EQ(first, (wire::CallGrant{1, 64, 0, false, false}));
  waits.EndsGrant(CallGrantEndReason::kUsedUp, first.calls);
  ASSERT_TRUE(Until([&] { return quiescer_->ProgressOf(kJob)->calls == first.calls; }));
  clock_.Advance(base::Millis(10));
  ASSERT_TRUE(Until([&] { return waits.grant().has_value(); }));
  EXPECT_EQ(*waits.grant(), (wire::CallGrant{1, 512, 3, false, false}));
}

TEST_F(JobQuiescerTest, ProcessThatOvershotTwiceGetsCarefulGrant) {
  FakeShim &a = Process(), &b = Process();
  constexpr base::Millis kLong{4'000};
  Begin(kJob, kLong);
  b.Closes(kSecondGpu, 0);
  a.IsHeld(kFirstGpu);
  for (unsigned round = 0; round < 3; ++round) {
    FakeShim &waits = round % 2 == 0 ? a : b, &works = round % 2 == 0 ? b : a;
    Look();
    clock_.Advance(base::Millis(200));
    ASSERT_TRUE(Until([&] { return waits.grant().has_value(); })) << round;
    EXPECT_EQ(waits.grant()->careful, round == 2) << round;
    waits.Closes(waits.grant()->gpu == 0 ? kFirstGpu : kSecondGpu, 0);
    waits.EndsGrant(CallGrantEndReason::kAtWork, 1);
    works.IsHeld(&works == &a ? kFirstGpu : kSecondGpu);
  }
}

TEST_F(JobQuiescerTest, WorkingProcessesEachGetACallBehindTheirWork) {
  FakeShim &a = Process(), &b = Process();
  Begin();
  a.Closes(kFirstGpu, kFirstGpu);
  b.Closes(kSecondGpu, kSecondGpu);
  Look();
  clock_.Advance(base::Millis(249));
  Look();
  EXPECT_FALSE(a.grant() || b.grant());
  clock_.Advance(base::Millis(1));
  ASSERT_TRUE(Until([&] { return a.grant().has_value() && b.grant().has_value(); }));
  EXPECT_EQ(*a.grant(), (wire::CallGrant{0, 1, 0, false, true}));
  EXPECT_EQ(*b.grant(), (wire::CallGrant{1, 1, 0, false, true}));
}

TEST_F(JobQuiescerTest, NoCallIsGrantedWithCallGrantsOffAndAnswerSaysSo) {
  quiescer_->SetCallGrants(false);
  FakeShim &waits = Process(), &ahead = Process();
  const auto attempt = Begin();
  ahead.Closes(kFirstGpu, 0);
  waits.IsHeld(kSecondGpu);
  Look();
  clock_.Advance(kLimit / 2);
  Look();
  EXPECT_FALSE(waits.grant() || ahead.grant());
  clock_.Advance(kLimit / 2);
  const auto result = ResultOf(attempt);
  EXPECT_TRUE(result.late);
  EXPECT_EQ(result.why,
            Says(ahead, "works on GPU 0; share.step is off, so its processes may wait for each other"));
}

TEST_F(JobQuiescerTest, FailureOfSingleProcessNamesNoOther) {
  quiescer_->SetCallGrants(false);
  FakeShim& only = Process();
  const auto attempt = Begin();
  only.Closes(kFirstGpu, 0);
  Look();
  clock_.Advance(kLimit);
  EXPECT_EQ(ResultOf(attempt).why, Says(only, "works on GPU 0"));
}

// The quiescer learns how long the work of a job takes that needs no calls.
class JobQuiescerLearningTest : public JobQuiescerTest {
 protected:
  void SetUp() override {
    JobQuiescerTest::SetUp();
    ahead_ = &Process();
    waits_ = &Process();
  }
  void RestsAfter(base::Millis span) {
    const auto attempt = Begin();
    ahead_->Closes(kFirstGpu, 0);
    waits_->Closes(kSecondGpu, 0);
    Look();
    clock_.Advance(span);
    ahead_->IsHeld();
    waits_->IsHeld();
    AreHeldForGood({waits_, ahead_});
    ASSERT_TRUE(ResultOf(attempt).rested);
    Run();
  }
  // Begins an attempt in which the first call is made `span` after the order.
  void MakesACallAfter(base::Millis span) {
    const auto attempt = Begin();
    ahead_->Closes(kFirstGpu, 0);
    waits_->IsHeld(kSecondGpu);
    Look();
    clock_.Advance(span - base::Millis(1));
    Look();
    EXPECT_FALSE(waits_->grant());
    clock_.Advance(base::Millis(1));
    EXPECT_TRUE(Until([&] { return waits_->grant().has_value(); }));
    quiescer_->Cancel(kJob, attempt->id);
    Run();
  }
  void Run() {
    ASSERT_TRUE(channel_->OrderAll(kJob, {OrderKind::kRun}));
    ahead_->Runs();
    waits_->Runs();
  }

  static constexpr base::Millis kSettled{3}, kUsual{40}, kUsuallyOver{50};
  FakeShim *ahead_ = nullptr, *waits_ = nullptr;
};

TEST_F(JobQuiescerLearningTest, UsualWorkTimeOfJobDelaysTheFirstGrant) {
  MakesACallAfter(kSettled);
  RestsAfter(kUsual);
  MakesACallAfter(kUsuallyOver);
}

TEST_F(JobQuiescerLearningTest, CancelledAttemptTeachesNothing) {
  RestsAfter(kUsual);
  MakesACallAfter(kUsuallyOver);
  MakesACallAfter(kUsuallyOver);
}

TEST_F(JobQuiescerLearningTest, PartialAttemptTeachesNothing) {
  RestsAfter(kUsual);
  wire::Store(waits_->slot().rest_state, wire::kRestForRoom);
  const auto of_one = Begin(kJob, kLimit, /*in_part=*/true);
  waits_->IsHeld();
  ASSERT_TRUE(ResultOf(of_one).rested);
  Run();
  MakesACallAfter(kUsuallyOver);
}

TEST_F(JobQuiescerLearningTest, EarlierJobOfSameNumberTeachesNothing) {
  RestsAfter(kUsual);
  shims_.clear();
  channel_->RemoveJob(kJob);
  ResultOf(Begin(kOther));
  SetJob(kJob);
  ahead_ = &Process();
  waits_ = &Process();
  MakesACallAfter(kSettled);
}

TEST_F(JobQuiescerLearningTest, SingleRemainingProcessTeachesNothing) {
  RestsAfter(kUsual);
  waits_->End();
  const auto of_one = Begin();
  ahead_->IsHeld();
  ASSERT_TRUE(ResultOf(of_one).rested);
  waits_ = &Process();
  Run();
  MakesACallAfter(kSettled);
}

// --- all rest, and then one works again

TEST_F(JobQuiescerTest, ProcessThatWorksAgainIsBroughtToRestAgain) {
  FakeShim &a = Process(), &b = Process();
  const auto attempt = Begin();
  a.IsHeld();
  b.IsHeld();
  ASSERT_TRUE(Until([&] { return IsTold(a, kForGood) && IsTold(b, kForGood); }));
  a.IsHeld();
  b.Closes(kSecondGpu, 0);  // it takes the final hold with work left
  Look();
  EXPECT_FALSE(a.HasOrder());
  clock_.Advance(base::Millis(50));
  ASSERT_TRUE(Until([&] { return IsTold(a, kForNow) && IsTold(b, kForNow); }));
  a.IsHeld();
  b.IsHeld();
  AreHeldForGood({&a, &b});
  EXPECT_TRUE(ResultOf(attempt).rested);
  EXPECT_EQ(OfSeveral().rested.count(), 1u);
}

TEST_F(JobQuiescerTest, CallsOfFailedCutAreCounted) {
  FakeShim &waits = Process(), &ahead = Process();
  const auto attempt = Begin();
  const auto makes_a_call = [&](unsigned calls) {
    ahead.Closes(kFirstGpu, 0);
    waits.IsHeld(kSecondGpu);
    Look();
    clock_.Advance(base::Millis(100));
    ASSERT_TRUE(Until([&] { return waits.grant().has_value(); }));
    waits.EndsGrant(CallGrantEndReason::kOthersChanged, calls);
    ahead.IsHeld();
    ASSERT_TRUE(Until([&] { return IsTold(waits, kForGood); }));
  };
  makes_a_call(3);
  ahead.Closes(kFirstGpu, 0);
  clock_.Advance(base::Millis(50));
  ASSERT_TRUE(Until([&] { return IsTold(waits, kForNow); }));
  EXPECT_EQ(quiescer_->ProgressOf(kJob)->calls, 3u);
  makes_a_call(4);
  AreHeldForGood({&waits, &ahead});
  EXPECT_EQ(ResultOf(attempt).calls, 7u);
}

TEST_F(JobQuiescerTest, AttemptIsLateWhenTimeEndsDuringFinalHold) {
  FakeShim &a = Process(), &b = Process();
  constexpr base::Millis kShort{30};
  const auto attempt = Begin(kJob, kShort);
  a.IsHeld();
  b.IsHeld();
  ASSERT_TRUE(Until([&] { return IsTold(a, kForGood); }));
  a.IsHeld();
  clock_.Advance(kShort);
  const auto result = ResultOf(attempt);
  EXPECT_TRUE(result.late);
  EXPECT_THAT(result.why, HasSubstr(std::to_string(b.process().pid)));
  EXPECT_THAT(result.why, Not(HasSubstr(Says(a, "has"))));
}

TEST_F(JobQuiescerTest, RefusalDuringFinalHoldEndsTheAttempt) {
  FakeShim &a = Process(), &b = Process();
  const auto attempt = Begin();
  a.IsHeld();
  b.IsHeld();
  ASSERT_TRUE(Until([&] { return IsTold(a, kForGood); }));
  a.IsHeld();
  b.Refuses(OrderError::kDriver);
  const auto result = ResultOf(attempt);
  EXPECT_FALSE(result.rested || result.late);
  EXPECT_THAT(result.why, HasSubstr(fmt::format("process {}: ", b.process().pid)));
}

}  // namespace
}  // namespace gpuman::daemon

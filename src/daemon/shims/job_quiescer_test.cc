// Tests how a job comes to rest, whole or in part, and how an attempt is cancelled.
#include "daemon/shims/test_job_quiescer.h"
#include "ledger/wire/words.h"

namespace gpuman::daemon {
namespace {

namespace wire = ledger::wire;
using ledger::wire::CallGrantEndReason;
using ledger::wire::OrderError;
using ledger::wire::OrderKind;

// --- it rests

TEST_F(JobQuiescerTest, AnOnlyProcessIsHeldForGoodAtOnce) {
  FakeShim& only = Process();
  const auto attempt = Begin();
  EXPECT_TRUE(IsTold(only, kForGood));
  clock_.Advance(base::Millis(30));
  only.IsHeld();
  const auto result = ResultOf(attempt);
  EXPECT_TRUE(result.rested);
  EXPECT_FALSE(result.late);
  EXPECT_EQ(result.why, "");
  EXPECT_EQ(result.took, base::Millis(30));
  EXPECT_EQ(result.count, (QuiesceCount{1, 1}));
  EXPECT_EQ(OfOne().rested.count(), 1u);
  EXPECT_DOUBLE_EQ(OfOne().rested.sum(), 0.03);
  EXPECT_EQ(OfSeveral().rested.count(), 0u);
  EXPECT_FALSE(only.HasOrder()) << "nothing else is ordered";
}

TEST_F(JobQuiescerTest, AJobRestsNotBeforeItsShimSaysSo) {
  FakeShim& only = Process();
  const auto attempt = Begin();
  only.Closes(0, 0);  // no work is left, and the order is not answered
  Look();
  clock_.Advance(base::Millis(60));
  Look();
  EXPECT_EQ(attempt->answers, 0);
  EXPECT_EQ(only.patience(), kForGood);
  only.IsHeld();
  EXPECT_TRUE(ResultOf(attempt).rested);
}

TEST_F(JobQuiescerTest, AJobWithoutAProcessRests) {
  const auto result = ResultOf(Begin());
  EXPECT_TRUE(result.rested);
  EXPECT_EQ(result.count, QuiesceCount{});
}

TEST_F(JobQuiescerTest, AProcessWithoutAContextHasNothingToHold) {
  FakeShim& works = Process();
  Joins();
  const auto attempt = Begin();
  works.IsHeld();
  EXPECT_TRUE(ResultOf(attempt).rested);
}

TEST_F(JobQuiescerTest, SeveralProcessesAreHeldForNowAndForGoodWhenAllRest) {
  FakeShim &a = Process(), &b = Process();
  const auto attempt = Begin();
  EXPECT_TRUE(IsTold(a, kForNow) && IsTold(b, kForNow));
  a.IsHeld();
  Look();
  EXPECT_FALSE(a.HasOrder()) << "not all rest";
  b.IsHeld();
  AreHeldForGood({&a});
  Look();
  EXPECT_EQ(attempt->answers, 0) << "a daemon that dies now leaves no process behind its gate";
  AreHeldForGood({&b});
  const auto result = ResultOf(attempt);
  EXPECT_TRUE(result.rested);
  EXPECT_EQ(result.calls, 0u);
  EXPECT_EQ(result.count, (QuiesceCount{2, 2}));
  EXPECT_EQ(OfSeveral().rested.count(), 1u);
  EXPECT_EQ(OfOne().rested.count(), 0u);
}

TEST_F(JobQuiescerTest, AProcessOnTwoGpusIsSeveral) {
  FakeShim& both = Process();
  const auto attempt = Begin();
  EXPECT_TRUE(IsTold(both, kForGood));
  both.Closes(kBothGpus, 0);
  ASSERT_TRUE(Until([&] { return IsTold(both, kForNow); })) << "its GPUs may wait for each other";
  both.IsHeld();
  AreHeldForGood({&both});
  EXPECT_TRUE(ResultOf(attempt).rested);
  EXPECT_EQ(OfSeveral().rested.count(), 1u);
}

TEST_F(JobQuiescerTest, SlowerProcessIsWaitedForAndShownInProgress) {
  FakeShim &a = Process(), &b = Process();
  const auto attempt = Begin();
  a.IsHeld(kFirstGpu);
  b.Closes(kSecondGpu, kSecondGpu);
  clock_.Advance(base::Millis(1));
  Look();
  const auto progress = quiescer_->ProgressOf(kJob);
  ASSERT_TRUE(progress);
  EXPECT_EQ(progress->count, (QuiesceCount{2, 1}));
  EXPECT_EQ(progress->took, base::Millis(1));
  EXPECT_EQ(progress->why, Says(b, "works on GPU 1"));
  EXPECT_FALSE(a.grant()) << "work that ends by itself is waited for";
  b.IsHeld();
  AreHeldForGood({&a, &b});
  const auto result = ResultOf(attempt);
  EXPECT_TRUE(result.rested);
  EXPECT_EQ(result.calls, 0u);
}

// Nothing but a notification, or nothing but a timer, makes the quiescer look.
TEST_F(JobQuiescerTest, NotificationWithoutTimerEndsTheAttempt) {
  clock_.Use(SetClock::Timers::kNever);
  FakeShim &a = Process(), &b = Process();
  const auto attempt = Begin();
  a.IsHeld();
  b.IsHeld();
  Look();
  EXPECT_FALSE(a.HasOrder()) << "nobody has looked";
  b.Notify();
  AreHeldForGood({&a, &b});
  a.Notify();
  EXPECT_TRUE(ResultOf(attempt).rested);
}

TEST_F(JobQuiescerTest, TimerWithoutNotificationEndsTheAttempt) {
  clock_.Use(SetClock::Timers::kAsSet);
  constexpr base::Millis kLong{3'600'000};
  FakeShim &a = Process(), &b = Process();
  const auto attempt = Begin(kJob, kLong);
  a.IsHeld();
  b.IsHeld();
  AreHeldForGood({&a, &b});
  EXPECT_TRUE(ResultOf(attempt).rested);
  EXPECT_EQ(notified_, 0);
}

TEST_F(JobQuiescerTest, TimerWithoutNotificationEndsAttemptOfSingleProcess) {
  clock_.Use(SetClock::Timers::kAsSet);
  FakeShim& only = Process();
  const auto attempt = Begin(kJob, base::Millis(3'600'000));
  only.IsHeld();
  EXPECT_TRUE(ResultOf(attempt).rested);
}

TEST_F(JobQuiescerTest, QuiescerSleepsBetweenLooks) {
  clock_.Use(SetClock::Timers::kAsSet);
  Process();
  Begin(kJob, base::Millis(3'600'000));
  constexpr int kLooks = 5;
  for (int i = 0; i < kLooks; ++i) loop_.run_one();
  EXPECT_TRUE(Sleeps());
}

TEST_F(JobQuiescerTest, QuiescerSleepsAgainAfterNotification) {
  clock_.Use(SetClock::Timers::kNever);
  Process();
  Begin();
  quiescer_->OnNotify(kJob);
  EXPECT_TRUE(Sleeps());
}

// --- in part

TEST_F(JobQuiescerTest, PartialAttemptHoldsOnlyProcessesThatWaitForRoom) {
  FakeShim &waits = Process(), &runs = Process();
  wire::Store(waits.slot().rest_state, wire::kRestForRoom);
  const auto attempt = Begin(kJob, kLimit, /*in_part=*/true);
  EXPECT_TRUE(IsTold(waits, kForGood));
  EXPECT_FALSE(runs.HasOrder());
  FakeShim& fresh = Process();
  EXPECT_EQ(fresh.ordered(), OrderKind::kRun);
  EXPECT_EQ(quiescer_->ProgressOf(kJob)->count, (QuiesceCount{1, 0}));
  waits.Refuses(OrderError::kBusy);
  ASSERT_TRUE(Until([&] { return IsTold(waits, kForGood); }));
  waits.IsHeld();
  const auto result = ResultOf(attempt);
  EXPECT_TRUE(result.rested);
  EXPECT_EQ(result.count, (QuiesceCount{1, 1}));
  EXPECT_FALSE(runs.HasOrder() || fresh.HasOrder());
}

TEST_F(JobQuiescerTest, AnActivityTellsWhoWaitsForRoomToo) {
  FakeShim &waits = Process(), &runs = Process();
  wire::Store(waits.slot().activity, static_cast<std::uint32_t>(wire::Activity::kForRoom));
  Begin(kJob, kLimit, /*in_part=*/true);
  EXPECT_TRUE(waits.HasOrder());
  EXPECT_FALSE(runs.HasOrder());
}

TEST_F(JobQuiescerTest, InPartAllAreHeldWhereNobodyWaitsForRoom) {
  FakeShim &a = Process(), &b = Process();
  Begin(kJob, kLimit, /*in_part=*/true);
  EXPECT_TRUE(IsTold(a, kForNow) && IsTold(b, kForNow));
}

// --- called off

TEST_F(JobQuiescerTest, AnAttemptThatIsCalledOffHasNoAnswer) {
  FakeShim &waits = Process(), &ahead = Process();
  const auto attempt = Begin();
  ahead.Closes(kFirstGpu, 0);
  waits.IsHeld(kSecondGpu);
  Look();
  clock_.Advance(base::Millis(10));
  ASSERT_TRUE(Until([&] { return waits.grant().has_value(); }));
  waits.EndsGrant(CallGrantEndReason::kUsedUp, 5);
  ASSERT_TRUE(Until([&] { return quiescer_->ProgressOf(kJob)->calls == 5; }));
  quiescer_->Cancel(kJob, attempt->id);
  EXPECT_FALSE(quiescer_->ProgressOf(kJob));
  EXPECT_EQ(OfSeveral().cancelled, 1u);
  EXPECT_EQ(OfSeveral().calls, 5u);
  ahead.IsHeld();
  waits.IsHeld();
  waits.Notify();
  ASSERT_TRUE(Until([&] { return notified_ > 0; }));
  clock_.Advance(kLimit);
  Look();
  EXPECT_EQ(attempt->answers, 0);
  EXPECT_FALSE(waits.HasOrder() || ahead.HasOrder()) << "the caller orders what follows";
  EXPECT_EQ(OfSeveral().rested.count() + OfSeveral().late + OfSeveral().failed, 0u);
}

TEST_F(JobQuiescerTest, CancellingEarlierAttemptKeepsTheNewOne) {
  FakeShim& only = Process();
  const auto earlier = Begin(), newer = Begin();
  EXPECT_NE(earlier->id, newer->id);
  EXPECT_EQ(OfOne().cancelled, 1u) << "an attempt makes the one before it void";
  quiescer_->Cancel(kJob, earlier->id);
  quiescer_->Cancel(kOther, newer->id);
  only.IsHeld();
  EXPECT_TRUE(ResultOf(newer).rested);
  EXPECT_EQ(earlier->answers, 0);
  EXPECT_EQ(OfOne().cancelled, 1u);
}

TEST_F(JobQuiescerTest, AnAnswerThatIsOnItsWayCanBeCalledOff) {
  FakeShim& only = Process();
  const auto attempt = Begin();
  only.IsHeld();
  quiescer_->OnNotify(kJob);
  EXPECT_EQ(OfOne().rested.count(), 1u) << "it is over";
  quiescer_->OnNotify(kJob);
  EXPECT_EQ(OfOne().rested.count(), 1u);
  quiescer_->Cancel(kJob, attempt->id);
  Look();
  EXPECT_EQ(attempt->answers, 0);
  EXPECT_EQ(OfOne().cancelled, 0u) << "it had ended otherwise";
}

TEST_F(JobQuiescerTest, AnswerOfEarlierAttemptDoesNotEndTheNext) {
  FakeShim& only = Process();
  const auto earlier = Begin();
  only.IsHeld();
  quiescer_->OnNotify(kJob);
  const auto newer = Begin();
  only.Closes(kFirstGpu, 0);
  Look();
  EXPECT_EQ(earlier->answers + newer->answers, 0);
  only.IsHeld();
  EXPECT_TRUE(ResultOf(newer).rested);
}

TEST_F(JobQuiescerTest, DestroyedQuiescerAnswersNothing) {
  SetJob(kOther);
  FakeShim &rests = Process(), &works = Process(kOther);
  const auto over = Begin(), under_way = Begin(kOther);
  rests.IsHeld();
  works.Closes(kFirstGpu, 0);
  quiescer_->OnNotify(kJob);
  quiescer_.reset();
  Look();
  EXPECT_EQ(over->answers + under_way->answers, 0);
}

TEST_F(JobQuiescerTest, ATimerThatWasDueFindsNoQuiescer) {
  SetJob(kOther);
  Process();
  Process(kOther);
  const auto first = Begin(), second = Begin(kOther);
  loop_.poll_one();  // the loop has both timers, and calls one
  quiescer_.reset();
  Look();
  EXPECT_EQ(first->answers + second->answers, 0);
}

// --- several jobs

TEST_F(JobQuiescerTest, TwoJobsComeToRestEachForItself) {
  SetJob(kOther);
  FakeShim &a = Process(), &b = Process(kOther);
  const auto first = Begin(), second = Begin(kOther, 2 * kLimit);
  EXPECT_TRUE(IsTold(a, kForGood) && IsTold(b, kForGood)) << "each job has one process";
  a.Closes(kFirstGpu, 0);
  b.Closes(kFirstGpu, 0);
  Look();
  EXPECT_EQ(quiescer_->ProgressOf(kOther)->why, Says(b, "works on GPU 0"));
  clock_.Advance(kLimit);
  EXPECT_EQ(ResultOf(first).why, Says(a, "works on GPU 0"));
  EXPECT_EQ(second->answers, 0);
  b.IsHeld();
  ASSERT_TRUE(Until([&] { return second->answers == 1; }));
  EXPECT_TRUE(second->result.rested);
  EXPECT_EQ(OfOne().late, 1u);
  EXPECT_EQ(OfOne().rested.count(), 1u);
}

TEST_F(JobQuiescerTest, OneJobCalledOffLeavesTheOther) {
  SetJob(kOther);
  FakeShim &a = Process(), &b = Process(kOther);
  const auto first = Begin(), second = Begin(kOther);
  quiescer_->Cancel(kJob, first->id);
  a.IsHeld();
  b.IsHeld();
  ASSERT_TRUE(Until([&] { return second->answers == 1; }));
  EXPECT_TRUE(second->result.rested);
  EXPECT_EQ(first->answers, 0);
}

}  // namespace
}  // namespace gpuman::daemon

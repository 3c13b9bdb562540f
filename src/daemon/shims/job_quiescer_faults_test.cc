// Tests processes that do not rest, end, start late, stop, open their gates, or write invalid values.
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "daemon/shims/test_job_quiescer.h"
#include "ledger/wire/words.h"

namespace gpuman::daemon {
namespace {

namespace wire = ledger::wire;
using ledger::wire::CallGrantEndReason;
using ledger::wire::OrderError;
using ledger::wire::OrderKind;
using testing::HasSubstr;

// --- it does not rest

TEST_F(JobQuiescerTest, ProcessesRunAgainWhenNoneRestsInTime) {
  FakeShim &a = Process(), &b = Process(), &c = Process();
  const auto attempt = Begin();
  a.Closes(kFirstGpu, 0);
  b.Closes(kSecondGpu, 0);
  Look();
  clock_.Advance(kLimit - base::Millis(1));
  Look();
  EXPECT_EQ(attempt->answers, 0);
  clock_.Advance(base::Millis(1));
  const auto result = ResultOf(attempt);
  EXPECT_FALSE(result.rested);
  EXPECT_TRUE(result.late);
  EXPECT_EQ(result.why, Says(a, "works on GPU 0; ") + Says(b, "works on GPU 1; ") +
                            Says(c, "has not taken up the order"));
  EXPECT_EQ(result.took, kLimit);
  EXPECT_EQ(result.count, (QuiesceCount{3, 0}));
  EXPECT_EQ(OfSeveral().late, 1u);
  EXPECT_EQ(OfSeveral().failed, 0u);
  // The hold was for now, so that the gates open by themselves; and the caller orders all to run.
  for (const FakeShim* const shim : {&a, &b, &c}) EXPECT_EQ(shim->patience(), kForNow);
  EXPECT_EQ(channel_->OrderAll(kJob, {OrderKind::kRun}).value(), 3u);
  for (const FakeShim* const shim : {&a, &b, &c}) EXPECT_EQ(shim->ordered(), OrderKind::kRun);
}

TEST_F(JobQuiescerTest, AGrantEndsWithTheOrderToRun) {
  FakeShim &waits = Process(), &ahead = Process();
  const auto attempt = Begin();
  ahead.Closes(kFirstGpu, 0);
  waits.IsHeld(kSecondGpu);
  Look();
  clock_.Advance(base::Millis(10));
  ASSERT_TRUE(Until([&] { return waits.grant().has_value(); }));
  clock_.Advance(kLimit);
  EXPECT_TRUE(ResultOf(attempt).late);
  ASSERT_TRUE(channel_->OrderAll(kJob, {OrderKind::kRun}));
  EXPECT_FALSE(waits.grant());
}

TEST_F(JobQuiescerTest, AShimThatTookTooLongIsAskedAgain) {
  FakeShim& only = Process();
  const auto attempt = Begin();
  only.Refuses(OrderError::kBusy);
  ASSERT_TRUE(Until([&] { return IsTold(only, kForGood); }));
  only.Refuses(OrderError::kBusy);
  Look();
  EXPECT_FALSE(only.HasOrder()) << "it was asked just now";
  clock_.Advance(base::Millis(20));
  ASSERT_TRUE(Until([&] { return IsTold(only, kForGood); }));
  only.IsHeld();
  EXPECT_TRUE(ResultOf(attempt).rested);
}

TEST_F(JobQuiescerTest, AShimThatRefusesEndsTheAttempt) {
  FakeShim& only = Process();
  const auto attempt = Begin();
  only.Refuses(OrderError::kDriver);
  const auto result = ResultOf(attempt);
  EXPECT_FALSE(result.rested || result.late);
  EXPECT_THAT(result.why, HasSubstr(fmt::format("process {}: ", only.process().pid)));
  EXPECT_EQ(OfOne().failed, 1u);
  EXPECT_EQ(OfOne().late, 0u);
}

TEST_F(JobQuiescerTest, BusyProcessIsNotOrderedAgainAfterTheAttempt) {
  FakeShim &slow = Process(), &refuses = Process();
  const auto attempt = Begin();
  slow.Refuses(OrderError::kBusy);
  refuses.Refuses(OrderError::kDriver);
  EXPECT_FALSE(ResultOf(attempt).rested);
  EXPECT_FALSE(slow.HasOrder());
}

TEST_F(JobQuiescerTest, AStoppedProcessEndsTheAttempt) {
  FakeShim& only = Process();
  only.Stop();
  const auto attempt = Begin();
  const auto result = ResultOf(attempt);
  EXPECT_FALSE(result.late);
  EXPECT_THAT(result.why, HasSubstr("it is stopped"));
}

TEST_F(JobQuiescerTest, AProcessThatIsStoppedMeanwhileIsFound) {
  FakeShim& only = Process();
  const auto attempt = Begin();
  only.Closes(kFirstGpu, 0);
  Look();
  only.Stop();
  Look();
  EXPECT_EQ(attempt->answers, 0) << "/proc was read just now";
  clock_.Advance(base::Millis(50));
  EXPECT_THAT(ResultOf(attempt).why, HasSubstr("it is stopped"));
}

// The thread gets no room before the attempt is over, and the work may wait for it.
TEST_F(JobQuiescerTest, WorkBehindThreadThatWaitsForRoomEndsAttemptEarly) {
  FakeShim& only = Process();
  const auto attempt = Begin();
  only.Closes(kFirstGpu, 0, wire::kRestForRoom);
  Look();
  clock_.Advance(base::Millis(50));
  const auto result = ResultOf(attempt);
  EXPECT_FALSE(result.rested || result.late);
  EXPECT_EQ(result.why, Says(only, "works on GPU 0, and a thread waits for room"));
  EXPECT_EQ(OfOne().failed, 1u);
}

TEST_F(JobQuiescerTest, AJobWithoutALedgerHasAnAnswer) {
  const auto result = ResultOf(Begin(kOther));
  EXPECT_FALSE(result.rested || result.late);
  EXPECT_EQ(result.why, "job 8 has no ledger");
  EXPECT_EQ(OfOne().failed, 1u);
}

TEST_F(JobQuiescerTest, AGpuThatTheLimitsDoNotNameAnyMoreHasNoName) {
  FakeShim& only = Process();
  ASSERT_TRUE(channel_->SetJob(kJob, tree_, {{kGpus[0], base::Bytes{1}, {}, {}}}, {true, {}, {}}));
  const auto attempt = Begin();
  only.Closes(kSecondGpu, 0);
  Look();
  clock_.Advance(kLimit);
  EXPECT_EQ(ResultOf(attempt).why, Says(only, "works on a GPU"));
}

// --- processes come and go

TEST_F(JobQuiescerTest, AProcessThatEndsIsNotWaitedFor) {
  FakeShim &a = Process(), &b = Process();
  const auto attempt = Begin();
  a.IsHeld();
  b.Closes(kSecondGpu, 0);
  Look();
  EXPECT_FALSE(a.HasOrder());
  b.End();
  AreHeldForGood({&a});
  const auto result = ResultOf(attempt);
  EXPECT_TRUE(result.rested);
  EXPECT_EQ(result.count, (QuiesceCount{1, 1}));
}

TEST_F(JobQuiescerTest, AProcessThatEndsWithItsGrantLeavesTheTurnToOthers) {
  FakeShim &ahead = Process(), &first = Process();
  const auto attempt = Begin();
  ahead.Closes(kFirstGpu, 0);
  first.IsHeld(kSecondGpu);
  Look();
  clock_.Advance(base::Millis(10));
  ASSERT_TRUE(Until([&] { return first.grant().has_value(); }));
  first.End();
  FakeShim& second = Process();
  second.IsHeld(kSecondGpu);
  Look();
  clock_.Advance(base::Millis(60));
  ASSERT_TRUE(Until([&] { return second.grant().has_value(); }));
  second.EndsGrant(CallGrantEndReason::kUsedUp, 1);
  ahead.IsHeld();
  AreHeldForGood({&ahead, &second});
  EXPECT_EQ(ResultOf(attempt).calls, 1u);
}

TEST_F(JobQuiescerTest, WhenAllHaveEndedTheJobRests) {
  FakeShim &a = Process(), &b = Process();
  const auto attempt = Begin();
  a.Closes(kFirstGpu, 0);
  Look();
  a.End();
  b.End();
  EXPECT_TRUE(ResultOf(attempt).rested);
}

TEST_F(JobQuiescerTest, ANewProcessIsHeldAsWell) {
  FakeShim& a = Process();
  const auto attempt = Begin();
  EXPECT_TRUE(IsTold(a, kForGood));
  a.Closes(kFirstGpu, 0);
  Look();
  FakeShim& fresh = Joins();
  EXPECT_TRUE(IsTold(fresh, kForGood)) << "before it does anything";
  Look();
  fresh.MakesContext();
  ASSERT_TRUE(Until([&] { return IsTold(a, kForNow) && IsTold(fresh, kForNow); })) << "there are several now";
  a.IsHeld();
  Look();
  EXPECT_FALSE(a.HasOrder()) << "the new one is awaited";
  fresh.IsHeld();
  AreHeldForGood({&a, &fresh});
  EXPECT_TRUE(ResultOf(attempt).rested);
  EXPECT_EQ(OfSeveral().rested.count(), 1u);
}

TEST_F(JobQuiescerTest, AProcessThatComesWhileTheHoldIsMadeToLastIsBroughtToRestToo) {
  FakeShim &a = Process(), &b = Process();
  const auto attempt = Begin();
  a.IsHeld();
  b.IsHeld();
  ASSERT_TRUE(Until([&] { return IsTold(a, kForGood) && IsTold(b, kForGood); }));
  FakeShim& fresh = Process();
  EXPECT_TRUE(IsTold(fresh, kForGood));
  a.IsHeld();
  b.IsHeld();
  Look();
  EXPECT_EQ(attempt->answers, 0);
  clock_.Advance(base::Millis(50));
  ASSERT_TRUE(Until([&] { return IsTold(fresh, kForNow); }));
  for (FakeShim* const shim : {&a, &b, &fresh}) shim->IsHeld();
  AreHeldForGood({&a, &b, &fresh});
  EXPECT_EQ(ResultOf(attempt).count, (QuiesceCount{3, 3}));
}

// --- processes that open their gates

TEST_F(JobQuiescerTest, AnOrderToRunIsTakenUpBeforeTheHold) {
  FakeShim& only = Process();
  IsToRunAgain(only);
  const auto attempt = Begin();
  Look();
  EXPECT_EQ(only.ordered(), OrderKind::kRun);
  only.Runs();
  ASSERT_TRUE(Until([&] { return IsTold(only, kForGood); }));
  only.IsHeld();
  EXPECT_TRUE(ResultOf(attempt).rested);
}

TEST_F(JobQuiescerTest, ProcessWithUnansweredRunOrderIsHeldAfterHalfTheTime) {
  FakeShim& only = Process();
  constexpr base::Millis kLong{12'000};
  IsToRunAgain(only);
  only.MakesContext();
  const auto attempt = Begin(kJob, kLong);
  clock_.Advance(kLong / 2 - base::Millis(1));
  Look();
  EXPECT_EQ(only.ordered(), OrderKind::kRun);
  clock_.Advance(base::Millis(1));
  ASSERT_TRUE(Until([&] { return IsTold(only, kForGood); }));
  Look();
  EXPECT_EQ(attempt->answers, 0) << "it has the usual time to take up this order";
  only.IsHeld();
  EXPECT_TRUE(ResultOf(attempt).rested);
}

TEST_F(JobQuiescerTest, AStoppedProcessIsNotWaitedForBeforeTheHold) {
  FakeShim& only = Process();
  IsToRunAgain(only);
  only.Stop();
  const auto attempt = Begin();
  EXPECT_TRUE(IsTold(only, kForGood));
  EXPECT_TRUE(ResultOf(attempt).rested) << "it stays behind its gate";
}

TEST_F(JobQuiescerTest, AProcessThatIsStoppedMeanwhileIsNotWaitedForBeforeTheHold) {
  FakeShim& only = Process();
  IsToRunAgain(only);
  const auto attempt = Begin();
  Look();
  EXPECT_EQ(only.ordered(), OrderKind::kRun);
  only.Stop();
  EXPECT_TRUE(Until([&] { return IsTold(only, kForGood); }));
  EXPECT_TRUE(ResultOf(attempt).rested);
}

// --- shims that do not answer, or write invalid values

TEST_F(JobQuiescerTest, AShimThatDoesNotAnswerIsNamed) {
  FakeShim &silent = Process(), &rests = Process();
  constexpr base::Millis kLong{20'000};
  const auto attempt = Begin(kJob, kLong);
  rests.IsHeld();
  Look();
  clock_.Advance(base::Millis(4'999));
  Look();
  EXPECT_EQ(attempt->answers, 0);
  clock_.Advance(base::Millis(1));
  const auto result = ResultOf(attempt);
  EXPECT_FALSE(result.rested || result.late);
  EXPECT_EQ(result.why, fmt::format("process {}: libgpuman.so in it does not answer", silent.process().pid));
}

TEST_F(JobQuiescerTest, OldShimIsPolledUntilHeld) {
  FakeShim& old = Joins();
  old.MakesContext(0);
  const auto attempt = Begin();
  Look();
  EXPECT_EQ(attempt->answers, 0);
  old.IsHeld();
  EXPECT_TRUE(ResultOf(attempt).rested);
}

TEST_F(JobQuiescerTest, InvalidSlotValuesAreNotRest) {
  const auto works = [](FakeShim& shim) { shim.Closes(kFirstGpu, 0); };
  const std::vector<std::pair<const char*, std::function<void(FakeShim&)>>> rubbish{
      {"answers another order",
       [](FakeShim& shim) {
         shim.IsHeld();
         wire::Store(shim.slot().answered, 0xffffffffu);
         wire::Store(shim.slot().rest_state, 0);
       }},
      {"works everywhere", [](FakeShim& shim) { shim.Closes(0xffff, 0xffff, 0xffffffffu); }},
      {"ends a grant that it never had",
       [&](FakeShim& shim) {
         works(shim);
         wire::Store(shim.slot().grant_report, 0xffffffffu);
       }},
      {"grants itself calls", [&](FakeShim& shim) {
         works(shim);
         wire::Store(shim.slot().call_grant, 0xffffffffu);
       }}};
  for (const auto& [what, tell] : rubbish) {
    FakeShim& shim = Process();
    const auto attempt = Begin();
    tell(shim);
    Look();
    EXPECT_EQ(attempt->answers, 0) << what;
    clock_.Advance(kLimit);
    const auto result = ResultOf(attempt);
    EXPECT_TRUE(!result.rested && result.late) << what;
    EXPECT_THAT(result.why, HasSubstr(Says(shim, ""))) << what;
    EXPECT_EQ(result.calls, 0u) << what;
    shim.End();
  }
}

TEST_F(JobQuiescerTest, AGrantEndsByItsOwnNumberAlone) {
  FakeShim &waits = Process(), &ahead = Process();
  const auto attempt = Begin();
  ahead.Closes(kFirstGpu, 0);
  waits.IsHeld(kSecondGpu);
  Look();
  clock_.Advance(base::Millis(10));
  ASSERT_TRUE(Until([&] { return waits.grant().has_value(); }));
  wire::Store(waits.slot().grant_report, wire::PackCallGrantReport({77, CallGrantEndReason::kUsedUp, 9}));
  Look();
  EXPECT_EQ(quiescer_->ProgressOf(kJob)->calls, 0u);
  waits.EndsGrant(CallGrantEndReason::kUsedUp, 1);
  ASSERT_TRUE(Until([&] { return quiescer_->ProgressOf(kJob)->calls == 1; }));
  ahead.IsHeld();
  AreHeldForGood({&waits, &ahead});
  EXPECT_TRUE(ResultOf(attempt).rested);
}

// Any program can connect to the socket.
TEST_F(JobQuiescerTest, InvalidSocketMessagesDoNotDelayTheAttempt) {
  FakeShim& only = Process();
  const auto attempt = Begin();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socket_.native().copy(address.sun_path, sizeof address.sun_path - 1);
  wire::ShimHello of_a_stranger{};
  of_a_stranger.magic = 0x59504d47;
  of_a_stranger.version = wire::kVersion;
  of_a_stranger.job = static_cast<std::uint64_t>(kJob.value);
  std::vector<base::Fd> strangers;
  for (const std::size_t size : {std::size_t{0}, std::size_t{5}, sizeof of_a_stranger}) {
    strangers.emplace_back(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    const int stranger = strangers.back().get();
    ASSERT_EQ(::connect(stranger, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    if (size > 0) {
      ASSERT_EQ(::send(stranger, &of_a_stranger, size, 0), static_cast<ssize_t>(size));
    }
  }
  Look();
  EXPECT_EQ(attempt->answers, 0);
  only.IsHeld();
  only.Notify();
  EXPECT_TRUE(ResultOf(attempt).rested);
  EXPECT_TRUE(Until([&] { return notified_ == 1; })) << "the strangers notify of nothing";
}

}  // namespace
}  // namespace gpuman::daemon

#include "daemon/shims/job_quiescer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <memory>
#include <string>
#include <vector>

#include "base/test_temp_dir.h"
#include "daemon/shims/test_fake_shim.h"
#include "ledger/wire/words.h"

namespace gpuman::daemon {
namespace {

namespace wire = ledger::wire;
using testing::HasSubstr;
using testing::Not;
using wire::CallGrantEndReason;
using wire::OrderError;
using wire::OrderKind;

constexpr base::JobId kJob{7}, kOther{8};
constexpr base::Millis kLimit{400};
constexpr std::uint64_t kForNow = 1400;  // patience of the hold in an attempt of kLimit: a second longer
constexpr std::uint64_t kForGood = 0;
constexpr std::uint16_t kFirstGpu = 1, kSecondGpu = 2, kBothGpus = 3;
const std::vector<std::string> kGpus{"GPU-00112233-4455-6677-8899-aabbccddeeff",
                                     "GPU-11112233-4455-6677-8899-aabbccddeeff"};

// The time of the attempts, which the test sets. The machine's own time drives their timers: those of a time
// that is over fire at once, so that the quiescer looks all the time, and those of a time to come never do.
class SetClock final : public base::Clock {
 public:
  enum class Timers { kAlways, kNever, kAsSet };
  void Use(Timers timers) {
    follows_ = timers == Timers::kAsSet;
    now_ = timers == Timers::kNever ? std::chrono::steady_clock::now() + std::chrono::hours(1) : kPast;
  }
  void Advance(base::Millis span) { now_ += span; }
  base::MonoTime Mono() const override { return follows_ ? std::chrono::steady_clock::now() : now_; }
  base::WallTime Wall() const override { return {}; }

 private:
  static constexpr base::MonoTime kPast{std::chrono::milliseconds(1)};
  bool follows_ = false;
  base::MonoTime now_ = kPast;
};

// What has come of an attempt.
struct Attempt {
  JobQuiescer::AttemptId id = 0;
  int answers = 0;
  JobQuiescer::Result result{};
};

class JobQuiescerTest : public testing::Test {
 protected:
  void SetUp() override {
    auto channel = ShimChannel::Open(
        loop_, socket_, 0600, table_,
        [](const ledger::LedgerRequest& caller) {
          return ledger::JobAttribution{ledger::AttributionOutcome::kJob, caller.claimed_job.value()};
        },
        [](base::JobId, const ledger::LedgerRequest&, std::uint32_t) {});
    ASSERT_TRUE(channel);
    channel_ = std::move(*channel);
    quiescer_.emplace(loop_, clock_, *channel_, [](const std::string& uuid) {
      return fmt::format("GPU {}", uuid == kGpus[0] ? 0 : 1);
    });
    channel_->on_notify.Connect([this](base::JobId job) {
      ++notified_;
      if (quiescer_) quiescer_->OnNotify(job);
    });
    SetJob(kJob);
  }

  void SetJob(base::JobId job) {
    std::vector<ledger::GpuLimit> limits;
    limits.reserve(kGpus.size());
    for (const auto& uuid : kGpus) limits.push_back({uuid, base::Bytes{1 << 30}, {}, {}});
    ASSERT_TRUE(channel_->SetJob(job, tree_, limits, {true, {}, {}}));
  }

  // A process without a context yet.
  FakeShim& Joins(base::JobId job = kJob) {
    shims_.push_back(std::make_unique<FakeShim>(socket_, job, [this] { loop_.run_one_for(kMoment); }));
    EXPECT_TRUE(shims_.back()->joined());
    return *shims_.back();
  }
  // A process that runs.
  FakeShim& Process(base::JobId job = kJob) {
    FakeShim& shim = Joins(job);
    shim.MakesContext();
    return shim;
  }

  std::shared_ptr<Attempt> Begin(base::JobId job = kJob, base::Millis limit = kLimit, bool in_part = false) {
    auto attempt = std::make_shared<Attempt>();
    const auto done = [attempt](const JobQuiescer::Result& result) {
      ++attempt->answers;
      attempt->result = result;
    };
    attempt->id = in_part ? quiescer_->BeginInPart(job, limit, done) : quiescer_->Begin(job, limit, done);
    EXPECT_EQ(attempt->answers, 0) << "the answer comes later";
    return attempt;
  }

  // Lets the quiescer look many times; nothing that it waits for comes meanwhile.
  void Look() {
    for (int i = 0; i < 100; ++i) {
      loop_.restart();
      loop_.poll_one();
    }
  }
  // Whether there comes a moment with nothing to do.
  bool Sleeps() {
    for (int i = 0; i < 1000; ++i)
      if (loop_.poll_one() == 0) return true;
    return false;
  }
  // False: it has not come true for half a minute.
  template <typename Condition>
  bool Until(const Condition& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!condition() && std::chrono::steady_clock::now() < end) {
      loop_.restart();
      loop_.run_one_for(kMoment);
    }
    return condition();
  }
  JobQuiescer::Result ResultOf(const std::shared_ptr<Attempt>& attempt) {
    EXPECT_TRUE(Until([&] { return attempt->answers > 0; })) << "it has no end";
    Look();
    EXPECT_EQ(attempt->answers, 1);
    EXPECT_FALSE(quiescer_->ProgressOf(kJob));
    return attempt->result;
  }
  // All are at rest, and are told to stay so.
  void AreHeldForGood(const std::vector<FakeShim*>& shims, std::uint16_t waits = 0) {
    for (FakeShim* const shim : shims) {
      EXPECT_TRUE(Until([&] { return shim->HasOrder() && shim->patience() == kForGood; }));
      EXPECT_EQ(shim->ordered(), OrderKind::kHold);
    }
    for (FakeShim* const shim : shims) shim->IsHeld(waits);
  }
  bool IsTold(const FakeShim& shim, std::uint64_t patience) {
    return shim.HasOrder() && shim.ordered() == OrderKind::kHold && shim.patience() == patience;
  }
  std::string Says(const FakeShim& shim, const std::string& what) {
    return fmt::format("process {} {}", shim.process().pid, what);
  }
  const JobQuiescer::Totals& OfOne() { return quiescer_->TotalsOf(false); }
  const JobQuiescer::Totals& OfSeveral() { return quiescer_->TotalsOf(true); }

  static constexpr base::Millis kMoment{10};
  boost::asio::io_context loop_;
  SetClock clock_;
  base::ProcFs table_;
  const keeper::ProcessTree tree_{{1, UINT64_MAX}, {}};  // no earlier daemon has known the keeper
  base::TempDir dir_;
  std::filesystem::path socket_ = dir_.path() / "shim.sock";
  std::unique_ptr<ShimChannel> channel_;
  std::optional<JobQuiescer> quiescer_;
  std::vector<std::unique_ptr<FakeShim>> shims_;
  int notified_ = 0;
};

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
  EXPECT_EQ(result.count, (RestCount{1, 1}));
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
  EXPECT_EQ(result.count, RestCount{});
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
  EXPECT_EQ(result.steps, 0u);
  EXPECT_EQ(result.count, (RestCount{2, 2}));
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

TEST_F(JobQuiescerTest, WhoRestsLaterIsWaitedForAndSeen) {
  FakeShim &a = Process(), &b = Process();
  const auto attempt = Begin();
  a.IsHeld(kFirstGpu);
  b.Closes(kSecondGpu, kSecondGpu);
  clock_.Advance(base::Millis(1));
  Look();
  const auto progress = quiescer_->ProgressOf(kJob);
  ASSERT_TRUE(progress);
  EXPECT_EQ(progress->count, (RestCount{2, 1}));
  EXPECT_EQ(progress->took, base::Millis(1));
  EXPECT_EQ(progress->why, Says(b, "works on GPU 1"));
  EXPECT_FALSE(a.grant()) << "work that ends by itself is waited for";
  b.IsHeld();
  AreHeldForGood({&a, &b});
  const auto result = ResultOf(attempt);
  EXPECT_TRUE(result.rested);
  EXPECT_EQ(result.steps, 0u);
}

// Nothing but a notification, or nothing but a timer, makes the quiescer look.
TEST_F(JobQuiescerTest, ANotificationIsEnough) {
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

TEST_F(JobQuiescerTest, WithoutANotificationItLooksAtTimes) {
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

TEST_F(JobQuiescerTest, WithoutANotificationItLooksAtAnOnlyProcessToo) {
  clock_.Use(SetClock::Timers::kAsSet);
  FakeShim& only = Process();
  const auto attempt = Begin(kJob, base::Millis(3'600'000));
  only.IsHeld();
  EXPECT_TRUE(ResultOf(attempt).rested);
}

TEST_F(JobQuiescerTest, BetweenTwoLooksItSleeps) {
  clock_.Use(SetClock::Timers::kAsSet);
  Process();
  Begin(kJob, base::Millis(3'600'000));
  constexpr int kLooks = 5;
  for (int i = 0; i < kLooks; ++i) loop_.run_one();
  EXPECT_TRUE(Sleeps());
}

TEST_F(JobQuiescerTest, AfterANotificationItSleepsAgain) {
  clock_.Use(SetClock::Timers::kNever);
  Process();
  Begin();
  quiescer_->OnNotify(kJob);
  EXPECT_TRUE(Sleeps());
}

// --- single calls

TEST_F(JobQuiescerTest, WhoOthersWaitForMakesSingleCalls) {
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
  EXPECT_EQ(quiescer_->ProgressOf(kJob)->steps, 0u);
  waits.EndsGrant(CallGrantEndReason::kOthersChanged, 3);
  ahead.IsHeld();
  AreHeldForGood({&waits, &ahead}, kSecondGpu);
  const auto result = ResultOf(attempt);
  EXPECT_TRUE(result.rested);
  EXPECT_EQ(result.steps, 3u);
  EXPECT_EQ(OfSeveral().steps, 3u);
}

TEST_F(JobQuiescerTest, ALaggardMakesCallsUntilTheOthersRest) {
  FakeShim &waits = Process(), &ahead = Process();
  const auto attempt = Begin();
  ahead.Closes(kFirstGpu, 0);
  waits.IsHeld(kSecondGpu);
  for (unsigned round = 1; round <= 3; ++round) {
    Look();
    clock_.Advance(base::Millis(20));
    ASSERT_TRUE(Until([&] { return waits.grant().has_value(); })) << round;
    waits.EndsGrant(CallGrantEndReason::kUsedUp, 2);
    ASSERT_TRUE(Until([&] { return quiescer_->ProgressOf(kJob)->steps == 2 * round; }));
  }
  ahead.IsHeld();
  AreHeldForGood({&waits, &ahead});
  EXPECT_EQ(ResultOf(attempt).steps, 6u);
}

TEST_F(JobQuiescerTest, WhoIsFarBehindMakesManyCallsWithoutALook) {
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
  ASSERT_TRUE(Until([&] { return quiescer_->ProgressOf(kJob)->steps == first.calls; }));
  clock_.Advance(base::Millis(10));
  ASSERT_TRUE(Until([&] { return waits.grant().has_value(); }));
  EXPECT_EQ(*waits.grant(), (wire::CallGrant{1, 512, 3, false, false}));
}

TEST_F(JobQuiescerTest, WhoWentPastTheOthersTwiceIsCareful) {
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

TEST_F(JobQuiescerTest, WhereAllWorkEachMakesACallBehindItsWork) {
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

TEST_F(JobQuiescerTest, WithoutStepsNobodyMakesACallAndTheAnswerSaysThat) {
  quiescer_->SetSteps(false);
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

TEST_F(JobQuiescerTest, AnOnlyProcessWaitsForNobody) {
  quiescer_->SetSteps(false);
  FakeShim& only = Process();
  const auto attempt = Begin();
  only.Closes(kFirstGpu, 0);
  Look();
  clock_.Advance(kLimit);
  EXPECT_EQ(ResultOf(attempt).why, Says(only, "works on GPU 0"));
}

// What is learned of a job: how long its work takes, where it needs no calls.
class JobQuiescerLearns : public JobQuiescerTest {
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
  // The first call is made so long after the order.
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

TEST_F(JobQuiescerLearns, HowLongTheWorkOfTheJobTakes) {
  MakesACallAfter(kSettled);
  RestsAfter(kUsual);
  MakesACallAfter(kUsuallyOver);
}

TEST_F(JobQuiescerLearns, NothingOfAnAttemptThatWasCalledOff) {
  RestsAfter(kUsual);
  MakesACallAfter(kUsuallyOver);
  MakesACallAfter(kUsuallyOver);
}

TEST_F(JobQuiescerLearns, NothingOfAnAttemptInPart) {
  RestsAfter(kUsual);
  wire::Store(waits_->slot().rest_state, wire::kRestForRoom);
  const auto of_one = Begin(kJob, kLimit, /*in_part=*/true);
  waits_->IsHeld();
  ASSERT_TRUE(ResultOf(of_one).rested);
  Run();
  MakesACallAfter(kUsuallyOver);
}

TEST_F(JobQuiescerLearns, NothingOfAnEarlierJobOfTheSameNumber) {
  RestsAfter(kUsual);
  shims_.clear();
  channel_->RemoveJob(kJob);
  ResultOf(Begin(kOther));
  SetJob(kJob);
  ahead_ = &Process();
  waits_ = &Process();
  MakesACallAfter(kSettled);
}

TEST_F(JobQuiescerLearns, NothingThatHoldsWhenAnOnlyProcessIsLeft) {
  RestsAfter(kUsual);
  waits_->End();
  const auto of_one = Begin();
  ahead_->IsHeld();
  ASSERT_TRUE(ResultOf(of_one).rested);
  waits_ = &Process();
  Run();
  MakesACallAfter(kSettled);
}

// --- it does not rest

TEST_F(JobQuiescerTest, NobodyRestsInTimeAndAllRunAgain) {
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
  EXPECT_EQ(result.count, (RestCount{3, 0}));
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

TEST_F(JobQuiescerTest, NobodyIsAskedAgainWhenTheAttemptIsOver) {
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
TEST_F(JobQuiescerTest, WhoKeepsWorkForAThreadThatWaitsForRoomEndsTheAttemptBeforeItsTime) {
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

// --- all rest, and not for long

TEST_F(JobQuiescerTest, WhoWorksAgainIsBroughtToRestAnew) {
  FakeShim &a = Process(), &b = Process();
  const auto attempt = Begin();
  a.IsHeld();
  b.IsHeld();
  ASSERT_TRUE(Until([&] { return IsTold(a, kForGood) && IsTold(b, kForGood); }));
  a.IsHeld();
  b.Closes(kSecondGpu, 0);  // for the order that lasts, and something was left
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

TEST_F(JobQuiescerTest, CallsOfACutThatDidNotHoldCountAsWell) {
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
  EXPECT_EQ(quiescer_->ProgressOf(kJob)->steps, 3u);
  makes_a_call(4);
  AreHeldForGood({&waits, &ahead});
  EXPECT_EQ(ResultOf(attempt).steps, 7u);
}

TEST_F(JobQuiescerTest, TheTimeMayBeOverWhileTheHoldIsMadeToLast) {
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

TEST_F(JobQuiescerTest, WhoRefusesWhileTheHoldIsMadeToLastEndsTheAttempt) {
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
  EXPECT_EQ(result.count, (RestCount{1, 1}));
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
  EXPECT_EQ(ResultOf(attempt).steps, 1u);
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
  EXPECT_EQ(ResultOf(attempt).count, (RestCount{3, 3}));
}

// --- processes that open their gates

TEST_F(JobQuiescerTest, AnOrderToRunIsTakenUpBeforeTheHold) {
  FakeShim& only = Process();
  ASSERT_TRUE(channel_->OrderAll(kJob, {OrderKind::kHold}));
  only.IsHeld();
  ASSERT_TRUE(channel_->OrderAll(kJob, {OrderKind::kRun}));
  const auto attempt = Begin();
  Look();
  EXPECT_EQ(only.ordered(), OrderKind::kRun);
  only.Runs();
  ASSERT_TRUE(Until([&] { return IsTold(only, kForGood); }));
  only.IsHeld();
  EXPECT_TRUE(ResultOf(attempt).rested);
}

TEST_F(JobQuiescerTest, WhoTakesUpNoOrderToRunIsHeldAfterHalfTheTime) {
  FakeShim& only = Process();
  constexpr base::Millis kLong{12'000};
  ASSERT_TRUE(channel_->OrderAll(kJob, {OrderKind::kHold}));
  only.IsHeld();
  ASSERT_TRUE(channel_->OrderAll(kJob, {OrderKind::kRun}));
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
  ASSERT_TRUE(channel_->OrderAll(kJob, {OrderKind::kHold}));
  only.IsHeld();
  ASSERT_TRUE(channel_->OrderAll(kJob, {OrderKind::kRun}));
  only.Stop();
  const auto attempt = Begin();
  EXPECT_TRUE(IsTold(only, kForGood));
  EXPECT_TRUE(ResultOf(attempt).rested) << "it stays behind its gate";
}

TEST_F(JobQuiescerTest, AProcessThatIsStoppedMeanwhileIsNotWaitedForBeforeTheHold) {
  FakeShim& only = Process();
  ASSERT_TRUE(channel_->OrderAll(kJob, {OrderKind::kHold}));
  only.IsHeld();
  ASSERT_TRUE(channel_->OrderAll(kJob, {OrderKind::kRun}));
  const auto attempt = Begin();
  Look();
  EXPECT_EQ(only.ordered(), OrderKind::kRun);
  only.Stop();
  EXPECT_TRUE(Until([&] { return IsTold(only, kForGood); }));
  EXPECT_TRUE(ResultOf(attempt).rested);
}

// --- in part

TEST_F(JobQuiescerTest, InPartOnlyThoseThatWaitForRoomAreHeld) {
  FakeShim &waits = Process(), &runs = Process();
  wire::Store(waits.slot().rest_state, wire::kRestForRoom);
  const auto attempt = Begin(kJob, kLimit, /*in_part=*/true);
  EXPECT_TRUE(IsTold(waits, kForGood));
  EXPECT_FALSE(runs.HasOrder());
  FakeShim& fresh = Process();
  EXPECT_EQ(fresh.ordered(), OrderKind::kRun);
  EXPECT_EQ(quiescer_->ProgressOf(kJob)->count, (RestCount{1, 0}));
  waits.Refuses(OrderError::kBusy);
  ASSERT_TRUE(Until([&] { return IsTold(waits, kForGood); }));
  waits.IsHeld();
  const auto result = ResultOf(attempt);
  EXPECT_TRUE(result.rested);
  EXPECT_EQ(result.count, (RestCount{1, 1}));
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
  ASSERT_TRUE(Until([&] { return quiescer_->ProgressOf(kJob)->steps == 5; }));
  quiescer_->Cancel(kJob, attempt->id);
  EXPECT_FALSE(quiescer_->ProgressOf(kJob));
  EXPECT_EQ(OfSeveral().cancelled, 1u);
  EXPECT_EQ(OfSeveral().steps, 5u);
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

TEST_F(JobQuiescerTest, WhoCallsOffAnEarlierAttemptLeavesTheNewOne) {
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

TEST_F(JobQuiescerTest, AnAnswerThatIsOnItsWayIsNotTheNextAttempts) {
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

TEST_F(JobQuiescerTest, NothingComesAfterTheQuiescersEnd) {
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

// --- shims that say nothing, or anything

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

TEST_F(JobQuiescerTest, AnOldShimIsLookedAt) {
  FakeShim& old = Joins();
  old.MakesContext(0);
  const auto attempt = Begin();
  Look();
  EXPECT_EQ(attempt->answers, 0);
  old.IsHeld();
  EXPECT_TRUE(ResultOf(attempt).rested);
}

TEST_F(JobQuiescerTest, RubbishInASlotIsNoRest) {
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
         wire::Store(shim.slot().stepped, 0xffffffffu);
       }},
      {"grants itself calls", [&](FakeShim& shim) {
         works(shim);
         wire::Store(shim.slot().step, 0xffffffffu);
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
    EXPECT_EQ(result.steps, 0u) << what;
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
  wire::Store(waits.slot().stepped, wire::PackStepReport({77, CallGrantEndReason::kUsedUp, 9}));
  Look();
  EXPECT_EQ(quiescer_->ProgressOf(kJob)->steps, 0u);
  waits.EndsGrant(CallGrantEndReason::kUsedUp, 1);
  ASSERT_TRUE(Until([&] { return quiescer_->ProgressOf(kJob)->steps == 1; }));
  ahead.IsHeld();
  AreHeldForGood({&waits, &ahead});
  EXPECT_TRUE(ResultOf(attempt).rested);
}

// As any program can connect to the socket.
TEST_F(JobQuiescerTest, RubbishOnTheSocketHoldsUpNobody) {
  FakeShim& only = Process();
  const auto attempt = Begin();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socket_.native().copy(address.sun_path, sizeof address.sun_path - 1);
  wire::Hello of_a_stranger{};
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

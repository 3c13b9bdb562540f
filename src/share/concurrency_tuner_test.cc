#include "share/concurrency_tuner.h"

#include <gtest/gtest.h>

namespace gpuman::share {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)

constexpr TenantId kA{1}, kB{2}, kC{3};

class ConcurrencyTunerTest : public testing::Test {
 protected:
  ConcurrencyTunerTest() { settings_.compute = ConcurrencyMode::kAuto; }
  void Update() { choice_.Update(working_, settings_, now_); }
  // A trial in which the tenants complete so much.
  void Try(std::uint64_t a, std::uint64_t b) {
    choice_.Add(kA, a);
    choice_.Add(kB, b);
    now_ += settings_.compute_trial;
    Update();
  }

  SchedulerSettings settings_;
  std::set<TenantId> working_{kA, kB};
  base::MonoTime now_{1h};
  ConcurrencyTuner choice_;
};

TEST_F(ConcurrencyTunerTest, AConfiguredModeNeedsNoTrial) {
  for (const auto set : {ConcurrencyMode::kConcurrent, ConcurrencyMode::kExclusive}) {
    settings_.compute = set;
    Update();
    EXPECT_EQ(choice_.IsExclusive(), set == ConcurrencyMode::kExclusive);
    EXPECT_FALSE(choice_.Deadline());
  }
}

TEST_F(ConcurrencyTunerTest, SingleJobNeedsNoTrial) {
  working_ = {kA};
  Update();
  EXPECT_FALSE(choice_.IsExclusive());
  EXPECT_FALSE(choice_.Deadline());
}

TEST_F(ConcurrencyTunerTest, SideBySideIsTriedFirstThenTurns) {
  Update();
  EXPECT_FALSE(choice_.IsExclusive());
  EXPECT_EQ(choice_.Deadline(), now_ + settings_.compute_trial);
  Try(100, 100);
  EXPECT_TRUE(choice_.IsExclusive());
}

TEST_F(ConcurrencyTunerTest, TurnsAreKeptWhereTheyCompleteMore) {
  Update();
  Try(100, 1000);
  Try(120, 1100);
  EXPECT_TRUE(choice_.IsExclusive());
  EXPECT_EQ(choice_.Deadline(), now_ + settings_.compute_again);
}

TEST_F(ConcurrencyTunerTest, SideBySideIsKeptWhereTurnsGainNothing) {
  Update();
  Try(100, 1000);
  Try(120, 800);
  EXPECT_FALSE(choice_.IsExclusive()) << "1.2 and 0.8: each is compared with itself";
}

TEST_F(ConcurrencyTunerTest, WithoutAnythingCompletedNothingIsTakenFromAnybody) {
  Update();
  Try(0, 0);
  Try(50, 50);
  EXPECT_FALSE(choice_.IsExclusive());
}

TEST_F(ConcurrencyTunerTest, TrialIsRepeatedAfterAWhileAndWhenJobsChange) {
  Update();
  Try(100, 100);
  Try(150, 150);
  ASSERT_TRUE(choice_.IsExclusive());
  now_ += settings_.compute_again;
  Update();
  EXPECT_FALSE(choice_.IsExclusive()) << "side by side, for a trial";
  Try(100, 100);
  Try(150, 150);
  ASSERT_TRUE(choice_.IsExclusive());
  working_ = {kA, kB, kC};
  Update();
  EXPECT_FALSE(choice_.IsExclusive());
  EXPECT_EQ(choice_.Deadline(), now_ + settings_.compute_trial);
}

TEST_F(ConcurrencyTunerTest, AResultHoldsWhileOneJobIsAloneForAMoment) {
  Update();
  Try(100, 100);
  Try(150, 150);
  const auto both = working_;
  working_ = {kA};
  Update();
  EXPECT_FALSE(choice_.Deadline());
  working_ = both;
  now_ += 1s;
  Update();
  EXPECT_TRUE(choice_.IsExclusive());
}

}  // namespace
}  // namespace gpuman::share

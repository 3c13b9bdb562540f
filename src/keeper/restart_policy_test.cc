#include "keeper/restart_policy.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace gpuman::keeper {
namespace {

using base::Millis;

constexpr RunOutcome kShortFailure{false, Millis{10}};
constexpr RunOutcome kShortSuccess{true, Millis{10}};

RestartPolicy Policy(RestartMode mode) {
  return {.mode = mode, .initial_delay = Millis{100}, .max_delay = Millis{1000}, .reset_after = Millis{5000}};
}

TEST(RestartPolicy, RestartsAsItsModeSays) {
  struct Case {
    RestartMode mode;
    RunOutcome outcome;
    RestartVerdict verdict;
  };
  const Case cases[] = {
      {RestartMode::kNo, kShortFailure, RestartVerdict::kNotWanted},
      {RestartMode::kNo, kShortSuccess, RestartVerdict::kNotWanted},
      {RestartMode::kOnFailure, kShortFailure, RestartVerdict::kRestart},
      {RestartMode::kOnFailure, kShortSuccess, RestartVerdict::kNotWanted},
      {RestartMode::kAlways, kShortFailure, RestartVerdict::kRestart},
      {RestartMode::kAlways, kShortSuccess, RestartVerdict::kRestart},
  };
  for (const auto& c : cases)
    EXPECT_EQ(DecideRestart(Policy(c.mode), 0, c.outcome).verdict, c.verdict)
        << ToString(c.mode) << " success " << c.outcome.success;
}

TEST(RestartPolicy, DoublesTheDelayUpToItsCap) {
  const auto policy = Policy(RestartMode::kAlways);
  std::vector<std::int64_t> delays;
  std::uint32_t in_a_row = 0;
  for (int i = 0; i < 6; ++i) {
    const auto decision = DecideRestart(policy, in_a_row, kShortFailure);
    delays.push_back(decision.delay.count());
    in_a_row = decision.in_a_row;
  }
  EXPECT_EQ(delays, (std::vector<std::int64_t>{100, 200, 400, 800, 1000, 1000}));
}

TEST(RestartPolicy, DoesNotSpinWhenTheDelayIsZero) {
  RestartPolicy policy{.mode = RestartMode::kAlways, .initial_delay = Millis{0}, .max_delay = Millis{0}};
  EXPECT_EQ(DecideRestart(policy, 0, kShortFailure).delay, Millis{0});
  EXPECT_EQ(DecideRestart(policy, 5, kShortFailure).delay, Millis{100});
}

TEST(RestartPolicy, StartsAnewAfterALongRun) {
  const auto decision = DecideRestart(Policy(RestartMode::kAlways), 7, {false, Millis{5000}});
  EXPECT_EQ(decision, (RestartDecision{RestartVerdict::kRestart, Millis{100}, 1}));
}

TEST(RestartPolicy, GivesUpAfterTheMostRestartsInARow) {
  auto policy = Policy(RestartMode::kOnFailure);
  policy.max_restarts = 2;
  EXPECT_EQ(DecideRestart(policy, 1, kShortFailure).verdict, RestartVerdict::kRestart);
  EXPECT_EQ(DecideRestart(policy, 2, kShortFailure).verdict, RestartVerdict::kExhausted);
  EXPECT_EQ(DecideRestart(policy, 2, {false, Millis{6000}}).verdict, RestartVerdict::kRestart);
  policy.max_restarts = 0;
  EXPECT_EQ(DecideRestart(policy, 0, kShortFailure).verdict, RestartVerdict::kExhausted);
}

RC_GTEST_PROP(RestartPolicy, DelayNeverPassesItsCap, (std::uint32_t in_a_row)) {
  RestartPolicy policy{.mode = RestartMode::kAlways};
  policy.initial_delay = Millis{*rc::gen::inRange<std::int64_t>(0, 100'000'000)};
  policy.max_delay = Millis{*rc::gen::inRange<std::int64_t>(0, 100'000'000)};
  const auto decision = DecideRestart(policy, in_a_row, kShortFailure);
  RC_ASSERT(decision.delay >= Millis{0});
  RC_ASSERT(decision.delay <= std::max(policy.max_delay, Millis{100}));
}

}  // namespace
}  // namespace gpuman::keeper

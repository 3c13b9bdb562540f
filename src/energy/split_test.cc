#include "energy/split.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <set>

#include "energy/job_power_estimator.h"

namespace gpuman::energy {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr base::JobId kA{1}, kB{2};

double Alike(const EnergyHolder&) { return 100; }

TEST(Split, SingleHolderGetsAllEnergyAboveRest) {
  const auto parts = Split(400'000, {{seconds(1), {{kA}}}}, 75, Alike);
  EXPECT_EQ(parts.idle, 75'000);
  EXPECT_EQ(parts.of, (std::map<base::JobId, Millijoules>{{kA, 325'000}}));
}

TEST(Split, EnergyIsSplitByTimeAtEqualPower) {
  const auto parts = Split(400, {{seconds(3), {{kA}}}, {seconds(1), {{kB}}}}, 0, Alike);
  EXPECT_EQ(parts.of, (std::map<base::JobId, Millijoules>{{kA, 300}, {kB, 100}}));
}

TEST(Split, EnergyIsSplitByTimeAndPowerAlone) {
  const auto parts = Split(1000, {{seconds(1), {{kA}}}, {seconds(1), {{kB}}}}, 0,
                           [](const EnergyHolder& holder) { return holder.job == kA ? 300.0 : 100.0; });
  EXPECT_EQ(parts.of, (std::map<base::JobId, Millijoules>{{kA, 750}, {kB, 250}}));
}

TEST(Split, EnergyOfConcurrentJobsIsSplitByWork) {
  const auto parts = Split(1000, {{seconds(1), {{kA, 1.5}, {kB, 0.5}}}}, 0, Alike);
  EXPECT_EQ(parts.of, (std::map<base::JobId, Millijoules>{{kA, 750}, {kB, 250}}));
}

TEST(Split, EnergyWithoutHolderIsIdle) {
  const auto parts = Split(1000, {{seconds(1), {}}}, 0.1, Alike);
  EXPECT_EQ(parts.idle, 1000);
  EXPECT_TRUE(parts.of.empty());
}

TEST(Split, EnergyBelowRestPowerIsIdle) {
  const auto parts = Split(50'000, {{seconds(1), {{kA}}}}, 75, Alike);
  EXPECT_EQ(parts.idle, 50'000);
  EXPECT_EQ(parts.of.at(kA), 0);
}

RC_GTEST_PROP(Split, PartsAreAlwaysTheWholeAndOnlyOfThoseThatWereThere, ()) {
  const auto used = *rc::gen::inRange<Millijoules>(0, 2'000'000'000);
  const double rest = *rc::gen::inRange(0, 900);
  const auto watts = *rc::gen::container<std::vector<int>>(5, rc::gen::inRange(-50, 700));
  std::vector<Stretch> stretches;
  std::set<base::JobId> there;
  for (int i = *rc::gen::inRange(1, 8); i > 0; --i) {
    Stretch stretch{milliseconds(*rc::gen::inRange(0, 3000)), {}};
    for (std::int64_t job = 0; job < 5; ++job) {
      if (*rc::gen::inRange(0, 3) > 0) continue;
      stretch.holders.push_back({{job}, *rc::gen::inRange(1, 1000) / 100.0, *rc::gen::arbitrary<bool>()});
      there.insert({job});
    }
    stretches.push_back(stretch);
  }
  const auto parts = Split(used, stretches, rest, [&](const EnergyHolder& holder) {
    return static_cast<double>(watts[static_cast<std::size_t>(holder.job.value)]);
  });
  Millijoules sum = parts.idle;
  for (const auto& [job, part] : parts.of) {
    RC_ASSERT(there.contains(job));
    RC_ASSERT(part <= used);
    sum += part;
  }
  RC_ASSERT(sum == used);
}

TEST(JobPowerEstimator, PowersAreLearntFromSharedTimes) {
  JobPowerEstimator powers;
  // 300 W and 100 W, in turns that are too short to be seen by themselves.
  for (int i = 0; i < 60; ++i) {
    const milliseconds a(50 + 10 * (i % 5)), b(90 - 10 * (i % 5));
    const auto above = static_cast<Millijoules>(300 * a.count() + 100 * b.count());
    powers.Adjust({{a, {{kA}}}, {b, {{kB}}}}, above);
  }
  EXPECT_NEAR(powers.Of({kA}), 300, 45);
  EXPECT_NEAR(powers.Of({kB}), 100, 45);
  powers.Adjust({{seconds(0), {{kA}}}}, 5);
  EXPECT_GT(powers.Of({kA}), 200) << "no time tells nothing";
}

TEST(JobPowerEstimator, OldPowerOfJobIsForgotten) {
  JobPowerEstimator powers;
  EXPECT_FALSE(powers.Knows({kA}));
  powers.Learn({kA}, 300'000, seconds(1));
  EXPECT_DOUBLE_EQ(powers.Of({kA}), 300);
  EXPECT_DOUBLE_EQ(powers.Of({kB}), 300) << "of a job that was never alone, the mean";
  for (int i = 0; i < 100; ++i) powers.Learn({kA}, 100'000, seconds(1));
  EXPECT_NEAR(powers.Of({kA}), 100, 2);
  EXPECT_LT(powers.Of({kA, 1, true}), 100) << "copies are not the job's work";
}

}  // namespace
}  // namespace gpuman::energy

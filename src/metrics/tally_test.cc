#include "metrics/tally.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuman::metrics {
namespace {

using ::testing::Pair;
using ::testing::UnorderedElementsAre;

const Owner kAnn{"ann", "vision"};
const Owner kBob{"bob", ""};

TEST(Tally, CountsEveryEventByItsKind) {
  Tally tally;
  for (const char* kind : {"gpu_lost", "gpu_back", "gpu_lost"}) tally.On({kind});
  EXPECT_THAT(tally.events(), UnorderedElementsAre(Pair("gpu_lost", 2), Pair("gpu_back", 1)));
}

TEST(Tally, TellsSoftFromHardHitsAndWhoseTheyAre) {
  Tally tally;
  tally.On({"soft_limit", kAnn});
  tally.On({"hard_limit", kAnn});
  tally.On({"hard_limit", kAnn});
  tally.On({"hard_limit", kBob});
  EXPECT_THAT(tally.limit_hits(),
              UnorderedElementsAre(Pair(Pair(kAnn, "soft"), 1), Pair(Pair(kAnn, "hard"), 2),
                                   Pair(Pair(kBob, "hard"), 1)));
}

TEST(Tally, CountsRunsAndTheStatesThatJobsEndedIn) {
  Tally tally;
  tally.On({"job_started", kAnn, {}, 12.0});
  tally.On({"job_restarted", kAnn});
  for (const char* state : {"finished", "failed", "cancelled", "timeout", "killed"})
    tally.On({std::string("job_") + state, kBob});
  tally.On({"job_held", kBob});
  EXPECT_THAT(tally.started(), UnorderedElementsAre(Pair(kAnn, 2)));
  EXPECT_EQ(tally.ended().size(), 5u);
  EXPECT_EQ(tally.ended().at({kBob, "timeout"}), 1u);
  EXPECT_EQ(tally.waits().count(), 1u);
  EXPECT_DOUBLE_EQ(tally.waits().sum(), 12);
}

TEST(Tally, AddsUpWhatSuspensionsTookOffTheGpus) {
  Tally tally;
  tally.On({"job_suspended", kAnn, {{"evicted", 100}, {"checkpointed", 20}, {"left", 7}}});
  tally.On({"job_suspended", kAnn, {{"evicted", -1}}});
  tally.On({"job_resumed", kAnn, {{"evicted", 100}}});
  tally.On({"job_moved", kAnn});
  EXPECT_EQ(tally.suspended_bytes(), 120u);
  EXPECT_THAT(tally.suspensions(), UnorderedElementsAre(Pair("out", 2), Pair("back", 1), Pair("moved", 1)));
}

TEST(Tally, CountsUsersBeyondABoundTogether) {
  Tally tally;
  for (std::size_t i = 0; i < Tally::kMaxOwners + 5; ++i)
    tally.On({"job_started", Owner{"user" + std::to_string(i), ""}});
  tally.On({"job_started", Owner{"user0", ""}});
  EXPECT_EQ(tally.started().size(), Tally::kMaxOwners + 1);
  EXPECT_EQ(tally.started().at({"other", "other"}), 5u);
  EXPECT_EQ(tally.started().at({"user0", ""}), 2u);
}

TEST(Tally, KnowsTheLastXidOfAGpuAndHowOftenEachCame) {
  Tally tally;
  EXPECT_EQ(tally.XidsOf("GPU-a"), nullptr);
  for (const unsigned xid : {31u, 74u, 31u}) tally.OnXid("GPU-a", xid);
  ASSERT_NE(tally.XidsOf("GPU-a"), nullptr);
  EXPECT_EQ(tally.XidsOf("GPU-a")->last, 31u);
  EXPECT_THAT(tally.XidsOf("GPU-a")->by_number, UnorderedElementsAre(Pair(31, 2), Pair(74, 1)));
  EXPECT_EQ(tally.XidsOf("GPU-b"), nullptr);
}

}  // namespace
}  // namespace gpuman::metrics

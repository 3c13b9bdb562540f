#include "metrics/event_counters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuman::metrics {
namespace {

using ::testing::Pair;
using ::testing::UnorderedElementsAre;

const CountedOwner kAnn{"ann", "vision"};
const CountedOwner kBob{"bob", ""};

TEST(EventCounters, CountsEveryEventByItsKind) {
  EventCounters counters;
  for (const char* kind : {"gpu_lost", "gpu_back", "gpu_lost"}) counters.On({kind});
  EXPECT_THAT(counters.events(), UnorderedElementsAre(Pair("gpu_lost", 2), Pair("gpu_back", 1)));
}

TEST(EventCounters, TellsSoftFromHardHitsAndWhoseTheyAre) {
  EventCounters counters;
  counters.On({"soft_limit", kAnn});
  counters.On({"hard_limit", kAnn});
  counters.On({"hard_limit", kAnn});
  counters.On({"hard_limit", kBob});
  EXPECT_THAT(counters.limit_hits(),
              UnorderedElementsAre(Pair(Pair(kAnn, "soft"), 1), Pair(Pair(kAnn, "hard"), 2),
                                   Pair(Pair(kBob, "hard"), 1)));
}

TEST(EventCounters, CountsRunsAndTheStatesThatJobsEndedIn) {
  EventCounters counters;
  counters.On({"job_started", kAnn, {}, 12.0});
  counters.On({"job_restarted", kAnn});
  for (const char* state : {"finished", "failed", "cancelled", "timeout", "killed"})
    counters.On({std::string("job_") + state, kBob});
  counters.On({"job_held", kBob});
  EXPECT_THAT(counters.started(), UnorderedElementsAre(Pair(kAnn, 2)));
  EXPECT_EQ(counters.ended().size(), 5u);
  EXPECT_EQ(counters.ended().at({kBob, "timeout"}), 1u);
  EXPECT_EQ(counters.waits().count(), 1u);
  EXPECT_DOUBLE_EQ(counters.waits().sum(), 12);
}

TEST(EventCounters, AddsUpWhatSuspensionsTookOffTheGpus) {
  EventCounters counters;
  counters.On({"job_suspended", kAnn, {{"evicted", 100}, {"checkpointed", 20}, {"left", 7}}});
  counters.On({"job_suspended", kAnn, {{"evicted", -1}}});
  counters.On({"job_resumed", kAnn, {{"evicted", 100}}});
  counters.On({"job_moved", kAnn});
  EXPECT_EQ(counters.suspended_bytes(), 120u);
  EXPECT_THAT(counters.suspensions(),
              UnorderedElementsAre(Pair("out", 2), Pair("back", 1), Pair("moved", 1)));
}

TEST(EventCounters, CountsUsersBeyondABoundTogether) {
  EventCounters counters;
  for (std::size_t i = 0; i < EventCounters::kMaxOwners + 5; ++i)
    counters.On({"job_started", CountedOwner{"user" + std::to_string(i), ""}});
  counters.On({"job_started", CountedOwner{"user0", ""}});
  EXPECT_EQ(counters.started().size(), EventCounters::kMaxOwners + 1);
  EXPECT_EQ(counters.started().at({"other", "other"}), 5u);
  EXPECT_EQ(counters.started().at({"user0", ""}), 2u);
}

TEST(EventCounters, KnowsTheLastXidOfAGpuAndHowOftenEachCame) {
  EventCounters counters;
  EXPECT_EQ(counters.XidsOf("GPU-a"), nullptr);
  for (const unsigned xid : {31u, 74u, 31u}) counters.OnXid("GPU-a", xid);
  ASSERT_NE(counters.XidsOf("GPU-a"), nullptr);
  EXPECT_EQ(counters.XidsOf("GPU-a")->last, 31u);
  EXPECT_THAT(counters.XidsOf("GPU-a")->by_number, UnorderedElementsAre(Pair(31, 2), Pair(74, 1)));
  EXPECT_EQ(counters.XidsOf("GPU-b"), nullptr);
}

}  // namespace
}  // namespace gpuman::metrics

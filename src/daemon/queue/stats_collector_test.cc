#include "daemon/queue/stats_collector.h"

#include <gtest/gtest.h>

namespace gpuman::daemon {
namespace {

// A millisecond goes by with each look at it.
class CountingClock final : public base::Clock {
 public:
  base::MonoTime Mono() const override { return base::MonoTime(base::Millis(++looks_)); }
  base::WallTime Wall() const override { return {}; }

 private:
  mutable int looks_ = 0;
};

jobs::Job JobOf(std::int64_t id, spec::JobState state) {
  jobs::Job job;
  job.id = {id};
  job.owner = jobs::JobOwner{.user = "ann"};
  job.state = state;
  return job;
}

TEST(StatsCollector, AddsJobsOnlyUntilTheSliceIsOver) {
  jobs::JobIndex index;
  for (int id = 1; id <= 100; ++id)
    index.Add(JobOf(id, id % 2 == 0 ? spec::JobState::kHeld : spec::JobState::kFinished));
  StatsCollector collector(Stats(StatsBy::kUser), {}, base::WallTime::max());
  int slices = 1;
  std::int64_t added = 0;
  const auto add = [&] {
    const CountingClock clock;
    const bool more = collector.AddJobs(index, base::TimeSlice(clock, base::MonoTime(base::Millis(11))));
    const auto queued = collector.View().total.queued;
    EXPECT_LE(queued - added, 5) << "ten jobs in ten looks, of which half have ended";
    added = queued;
    return more;
  };
  while (add()) ++slices;
  EXPECT_EQ(slices, 11);
  EXPECT_EQ(added, 50) << "each job counts once";
}

TEST(StatsCollector, LeavesAJobOutThatIsForgottenBetweenTwoSlices) {
  jobs::JobIndex index;
  for (int id = 1; id <= 3; ++id) index.Add(JobOf(id, spec::JobState::kHeld));
  StatsCollector collector(Stats(StatsBy::kUser), {}, base::WallTime::max());
  const CountingClock clock;
  EXPECT_TRUE(collector.AddJobs(index, base::TimeSlice(clock, base::MonoTime(base::Millis(3)))));
  index.Erase({2});
  index.Erase({3});
  EXPECT_FALSE(collector.AddJobs(index, base::TimeSlice(clock, base::MonoTime(base::Millis(100)))));
  EXPECT_EQ(collector.View().total.queued, 2);
}

}  // namespace
}  // namespace gpuman::daemon

#include "gpu/process_list_schedule.h"

#include <gtest/gtest.h>

#include <utility>

#include "base/units.h"

namespace gpuman::gpu {
namespace {

using base::Millis;

class ProcessListScheduleTest : public ::testing::Test {
 protected:
  // One round of a reader: observes, and lists what is due.
  void Round(Millis after, bool changed = false, bool wanted = false) {
    now_ += after;
    listing_.Observe(now_, changed, wanted);
    compute_ = listing_.compute_due();
    graphics_ = listing_.graphics_due();
    if (compute_) listing_.TookCompute(now_);
    if (graphics_) listing_.TookGraphics(now_, has_graphics_);
  }
  // How often each list is asked for in `rounds` rounds of 100 ms in which nothing changes.
  std::pair<int, int> Rest(int rounds) {
    std::pair<int, int> lists{0, 0};
    for (int i = 0; i < rounds; ++i) {
      Round(Millis(100));
      lists.first += compute_;
      lists.second += graphics_;
    }
    return lists;
  }

  ProcessListSchedule listing_;
  base::MonoTime now_{std::chrono::hours(1)};
  bool has_graphics_ = false;
  bool compute_ = false, graphics_ = false;
};

TEST_F(ProcessListScheduleTest, ListsEverythingAtFirst) {
  Round(Millis(0));
  EXPECT_TRUE(compute_);
  EXPECT_TRUE(graphics_);
}

TEST_F(ProcessListScheduleTest, ListsSeldomWhileNothingChanges) {
  Round(Millis(0));
  EXPECT_EQ(Rest(200), std::pair(10, 2));
}

TEST_F(ProcessListScheduleTest, ListsTheRoundOfAChangeAndThreeMore) {
  Round(Millis(0));
  Rest(5);
  Round(Millis(5), true);
  EXPECT_TRUE(compute_);
  for (const bool due : {true, true, true, false}) {
    Round(Millis(5));
    EXPECT_EQ(compute_, due);
  }
}

TEST_F(ProcessListScheduleTest, ListsWhatIsWanted) {
  Round(Millis(0));
  Round(Millis(5), false, true);
  EXPECT_TRUE(compute_);
  Round(Millis(5));
  EXPECT_FALSE(compute_);
}

TEST_F(ProcessListScheduleTest, WhileMemoryChangesGraphicsAreAskedForOnceASecond) {
  Round(Millis(0));
  int lists = 0;
  for (int i = 0; i < 1000; ++i) {
    Round(Millis(5), true);
    lists += graphics_;
  }
  EXPECT_EQ(lists, 5);
}

TEST_F(ProcessListScheduleTest, AChangeIsFollowedByAListOfGraphicsAlsoWhenItCameTooSoon) {
  Round(Millis(0));
  Round(Millis(100), true);
  EXPECT_FALSE(graphics_);
  EXPECT_EQ(Rest(30).second, 1);
}

TEST_F(ProcessListScheduleTest, AGpuWithADisplayIsListedWhole) {
  has_graphics_ = true;
  Round(Millis(0));
  Round(Millis(5), true);
  EXPECT_TRUE(graphics_);
}

TEST_F(ProcessListScheduleTest, StartsOverWithANewDriver) {
  Round(Millis(0));
  listing_.Forget();
  Round(Millis(5));
  EXPECT_TRUE(compute_);
  EXPECT_TRUE(graphics_);
}

}  // namespace
}  // namespace gpuman::gpu

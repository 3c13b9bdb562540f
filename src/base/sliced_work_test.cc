#include "base/sliced_work.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

namespace gpuman::base {
namespace {

class SteppedClock final : public Clock {
 public:
  MonoTime Mono() const override { return now; }
  WallTime Wall() const override { return {}; }
  MonoTime now{};
};

class SlicedWorkTest : public testing::Test {
 protected:
  void Run() {
    while (!posted.empty()) {
      const auto next = std::move(posted.front());
      posted.pop_front();
      next();
    }
  }
  // Work of `slices` slices, each of which writes its name.
  SlicedWork::Slice Named(const std::string& name, int slices) {
    return [this, name, left = slices](const TimeSlice&) mutable {
      done += name;
      return --left > 0;
    };
  }

  std::deque<std::function<void()>> posted;
  SteppedClock clock;
  SlicedWork work{[this](std::function<void()> act) { posted.push_back(std::move(act)); }, clock};
  std::string done;
};

TEST_F(SlicedWorkTest, UsersAreDoneInTurnHoweverMuchOneOfThemHas) {
  for (int i = 0; i < 3; ++i) work.Add(1001, Named("a", 2));
  work.Add(1002, Named("b", 2));
  Run();
  EXPECT_EQ(done, "ababaaaa");
}

TEST_F(SlicedWorkTest, AnAddressTakesTurnsWithTheUserOfTheSameNumber) {
  work.Add(7, Named("a", 3));
  work.Add(Party{1} << 32 | 7, Named("b", 2));
  Run();
  EXPECT_EQ(done, "ababa");
}

TEST_F(SlicedWorkTest, OneSliceIsDoneBetweenTwoLooksAtTheLoop) {
  work.Add(1001, Named("a", 3));
  work.Add(1002, Named("b", 3));
  EXPECT_EQ(done, "") << "nothing is done within the call";
  while (!posted.empty()) {
    ASSERT_EQ(posted.size(), 1u);
    const auto before = done.size();
    const auto next = std::move(posted.front());
    posted.pop_front();
    next();
    EXPECT_EQ(done.size(), before + 1);
  }
  EXPECT_EQ(done.size(), 6u);
}

TEST_F(SlicedWorkTest, ATurnIsOverByTheClock) {
  bool before = true, after = false;
  work.Add(0, [&](const TimeSlice& turn) {
    before = turn.IsOver();
    clock.now += SlicedWork::kTurn;
    after = turn.IsOver();
    return false;
  });
  Run();
  EXPECT_FALSE(before);
  EXPECT_TRUE(after);
}

TEST_F(SlicedWorkTest, ManyThingsAreDoneInSlicesAndFewAtOnce) {
  std::vector<std::size_t> acted;
  const auto act = [&](std::size_t i) {
    acted.push_back(i);
    clock.now += SlicedWork::kTurn / 2;
  };
  bool over = false;
  work.ForEach(1001, SlicedWork::kMaxAtOnce, act, [&] { over = true; });
  EXPECT_TRUE(over);
  EXPECT_EQ(acted.size(), SlicedWork::kMaxAtOnce);

  acted.clear();
  over = false;
  constexpr std::size_t kMany = SlicedWork::kMaxAtOnce + 1;
  work.ForEach(1001, kMany, act, [&] { over = true; });
  EXPECT_TRUE(acted.empty());
  for (std::size_t turns = 1; !posted.empty(); ++turns) {
    const auto next = std::move(posted.front());
    posted.pop_front();
    next();
    EXPECT_EQ(acted.size(), std::min(kMany, 2 * turns));
    EXPECT_EQ(over, posted.empty());
  }
  ASSERT_EQ(acted.size(), kMany);
  for (std::size_t i = 0; i < kMany; ++i) EXPECT_EQ(acted[i], i);
}

TEST_F(SlicedWorkTest, ASliceMayAddWork) {
  work.Add(0, [&](const TimeSlice&) {
    work.Add(0, Named("b", 1));
    done += "a";
    return false;
  });
  Run();
  EXPECT_EQ(done, "ab");
}

TEST(SlicedWork, TheEndDropsWaitingWork) {
  SteppedClock clock;
  std::function<void()> posted;
  const auto kept = std::make_shared<int>(0);
  {
    SlicedWork work([&](std::function<void()> act) { posted = std::move(act); }, clock);
    work.Add(0, [kept](const TimeSlice&) { return ++*kept > 0; });
  }
  posted();
  EXPECT_EQ(*kept, 0);
  EXPECT_EQ(kept.use_count(), 1);
}

}  // namespace
}  // namespace gpuman::base

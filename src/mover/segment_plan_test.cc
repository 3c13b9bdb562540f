#include "mover/segment_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "mover/layout.h"

namespace gpuman::mover {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint64_t kBig = kSegment, kSmall = kSmallSegment, kGiB = std::uint64_t{1} << 30;

Stock For(std::vector<std::uint64_t> processes) { return StockFor(processes); }

// One segment's rest for each, not one for all: each process takes segments of its own.
TEST(SegmentPlan, EachProcessHasARestOfItsOwn) {
  EXPECT_EQ(For({8 * kGiB + 3 * kSmall, 8 * kGiB + 3 * kSmall}), (Stock{{kBig, 16}, {kSmall, 6}}));
  EXPECT_EQ(For({16 * kGiB + 6 * kSmall}), (Stock{{kBig, 16}, {kSmall, 6}}));
  EXPECT_EQ(For({kGiB - 1, kGiB - 1}), (Stock{{kSmall, 32}}));
  EXPECT_EQ(For({}), Stock());
}

TEST(SegmentPlan, ManySmallProcessesTakeLittle) {
  EXPECT_EQ(For(std::vector<std::uint64_t>(64, std::uint64_t{1} << 20)), (Stock{{kSmall, 1}}));
}

TEST(SegmentPlan, MissingSegmentsComeLargestFirst) {
  EXPECT_THAT(Missing({}, {{kBig, 1}, {kSmall, 2}}), ElementsAre(kBig, kSmall, kSmall));
  EXPECT_THAT(Missing({{kBig, 1}, {kSmall, 1}}, {{kBig, 1}, {kSmall, 2}}), ElementsAre(kSmall));
  EXPECT_THAT(Missing({{kBig, 1}}, {{kBig, 1}}), IsEmpty());
}

// The segments that are there have other sizes than those that are wanted.
TEST(SegmentPlan, SegmentsOfOtherSizesCountUpToTheSlack) {
  EXPECT_THAT(Missing({{kSmall, 160}}, {{kBig, 10}}), ElementsAre(kBig, kBig));
  EXPECT_THAT(Missing({{kSmall, 192}}, {{kBig, 10}}), IsEmpty());
  EXPECT_EQ(Surplus({{kSmall, 160}, {kBig, 2}}, {}, {{kBig, 10}}), std::nullopt);
}

TEST(SegmentPlan, TheSizeThatNobodyWantsGoesFirst) {
  EXPECT_EQ(Surplus({{kSmall, 64}, {kBig, 3}}, {}, {{kBig, 3}}), kSmall);
  EXPECT_EQ(Surplus({{kBig, 6}}, {}, {{kBig, 3}}), kBig);
  EXPECT_EQ(Surplus({{kBig, 5}}, {}, {{kBig, 3}}), std::nullopt);
  EXPECT_EQ(Surplus({}, {{kBig, 50}}, {{kBig, 3}}), std::nullopt) << "what holds data stays";
  EXPECT_EQ(Surplus({{kBig, 3}}, {{kSmall, 100}}, {{kBig, 3}}), kBig);
}

// Segments are not freed as soon as they are made, and their number is bounded.
TEST(SegmentPlan, SettlesWithinTheSlack) {
  EXPECT_TRUE(rc::check([] {
    const auto stock = [] {
      return Stock{{kBig, *rc::gen::inRange<std::size_t>(0, 40)},
                   {kSmall, *rc::gen::inRange<std::size_t>(0, 100)}};
    };
    Stock free = stock();
    const Stock taken = stock(), wanted = stock();
    const std::uint64_t most = std::max(BytesOf(free) + BytesOf(taken), BytesOf(wanted) + kSlack);
    bool settled = false;
    for (int step = 0; step < 1000 && !settled; ++step) {
      const auto missing = Missing(SumOf(free, taken), wanted);
      for (const std::uint64_t size : missing) ++free[size];
      RC_ASSERT(BytesOf(free) + BytesOf(taken) <= most);
      const auto surplus = Surplus(free, taken, wanted);
      if (surplus) --free.at(*surplus);
      settled = missing.empty() && !surplus;
    }
    RC_ASSERT(settled);
  }));
}

}  // namespace
}  // namespace gpuman::mover

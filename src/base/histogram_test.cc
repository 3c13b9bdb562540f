#include "base/histogram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuman::base {
namespace {

using ::testing::ElementsAre;

TEST(Histogram, CountsAValueThatIsABoundBelowIt) {
  Histogram histogram({1, 10});
  for (const double value : {0.5, 1.0, 1.5, 10.0, 11.0}) histogram.Observe(value);
  EXPECT_THAT(histogram.counts(), ElementsAre(2, 2, 1));
  EXPECT_EQ(histogram.count(), 5u);
  EXPECT_DOUBLE_EQ(histogram.sum(), 24);
}

TEST(Histogram, WithoutBoundsHasOneCount) {
  Histogram histogram({});
  histogram.Observe(3);
  EXPECT_THAT(histogram.counts(), ElementsAre(1));
}

}  // namespace
}  // namespace gpuman::base

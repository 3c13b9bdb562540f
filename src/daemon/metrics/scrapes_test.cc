#include "daemon/metrics/scrapes.h"

#include <gtest/gtest.h>

namespace gpuman::daemon {
namespace {

class ScrapeClock final : public base::Clock {
 public:
  base::MonoTime Mono() const override { return now; }
  base::WallTime Wall() const override { return {}; }
  base::MonoTime now{std::chrono::hours(1)};
};

class ScrapesTest : public ::testing::Test {
 protected:
  // An answer that takes `took` to make.
  std::string Ask(base::Millis took, bool with_dcgm = false) {
    return scrapes.Answer(with_dcgm, [&] {
      clock.now += took;
      return "answer " + std::to_string(++made);
    });
  }
  ScrapeClock clock;
  Scrapes scrapes{clock};
  int made = 0;
};

TEST_F(ScrapesTest, AnswerIsMadeAnewWithinBudget) {
  EXPECT_EQ(Ask(base::Millis(60)), "answer 1");
  EXPECT_EQ(Ask(base::Millis(60)), "answer 2");
}

TEST_F(ScrapesTest, LastAnswerIsRepeatedBeyondBudget) {
  Ask(base::Millis(110));
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(Ask(base::Millis(110)), "answer 1");
  EXPECT_EQ(made, 1);
  EXPECT_EQ(scrapes.count(), 1001U);
  EXPECT_NEAR(scrapes.seconds(), 0.110, 1e-9);
}

TEST_F(ScrapesTest, BudgetRefillsByATwentiethOfTheTime) {
  Ask(base::Millis(110));
  clock.now += base::Millis(199);
  EXPECT_EQ(Ask(base::Millis(110)), "answer 1");
  clock.now += base::Millis(2);
  EXPECT_EQ(Ask(base::Millis(110)), "answer 2");
}

TEST_F(ScrapesTest, EachNameFormatHasItsOwnLastAnswer) {
  Ask(base::Millis(110));
  EXPECT_EQ(Ask(base::Millis(1), true), "answer 2") << "there is none of this kind yet";
  EXPECT_EQ(Ask(base::Millis(1), true), "answer 2");
  EXPECT_EQ(Ask(base::Millis(1), false), "answer 1");
}

}  // namespace
}  // namespace gpuman::daemon

#include "queue/past_runs.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuman::queue {
namespace {

using testing::SizeIs;

PastRun At(std::int64_t at, base::Bytes peak = base::GiB(1)) {
  return {{at}, base::WallTime(base::Millis(at)), peak, {}, true};
}

TEST(PastRunsTest, KeepsTheLastRunsOfEachUserAndName) {
  PastRuns past;
  for (int i = 1; i <= 30; ++i) past.Add("ann", "train", At(i));
  past.Add("bob", "train", At(40));
  const auto& runs = past.Of("ann", "train");
  ASSERT_THAT(runs, SizeIs(kPastRuns));
  EXPECT_EQ(runs.front(), At(11));
  EXPECT_EQ(runs.back(), At(30));
  EXPECT_THAT(past.Of("bob", "train"), SizeIs(1));
  EXPECT_THAT(past.Of("ann", "eval"), SizeIs(0));
  EXPECT_THAT(past.Of("cat", "train"), SizeIs(0));
}

TEST(PastRunsTest, RunsMayComeInAnyOrderAndTwice) {
  PastRuns past;
  for (const int i : {5, 3, 4, 5, 1, 3}) past.Add("ann", "train", At(i));
  const auto& runs = past.Of("ann", "train");
  EXPECT_THAT(runs, testing::ElementsAre(At(1), At(3), At(4), At(5)));
}

TEST(PastRunsTest, AUserWithManyNamesPushesOutNoNameOfOthers) {
  PastRuns past;
  past.Add("ann", "train", At(1));
  const int names = 4 * static_cast<int>(PastRuns::kNamesOfUser);
  for (int i = 0; i < names; ++i) past.Add("mallory", fmt::format("name{}", i), At(2 + i));
  EXPECT_THAT(past.Of("ann", "train"), SizeIs(1));
  EXPECT_EQ(past.names(), 1 + PastRuns::kNamesOfUser);
  EXPECT_THAT(past.Of("mallory", fmt::format("name{}", names - 1)), SizeIs(1)) << "the newest stay";
  EXPECT_THAT(past.Of("mallory", "name0"), SizeIs(0));
}

TEST(PastRunsTest, ManyUsersWithManyNamesPushOutNoNameOfWhoHasFew) {
  PastRuns past;
  past.Add("ann", "train", At(1));
  std::int64_t at = 2;
  for (int user = 0; user < 30; ++user)
    for (std::size_t i = 0; i < PastRuns::kNamesOfUser; ++i)
      past.Add(fmt::format("user{}", user), fmt::format("name{}", i), At(at++));
  EXPECT_EQ(past.names(), PastRuns::kNames);
  EXPECT_THAT(past.Of("ann", "train"), SizeIs(1));
  EXPECT_THAT(past.Of("user29", "name499"), SizeIs(1));
}

TEST(PastRunsTest, ANameThatIsTooLongIsNotKept) {
  PastRuns past;
  past.Add("ann", std::string(PastRuns::kLongestName + 1, 'x'), At(1));
  past.Add("ann", "", At(1));
  EXPECT_EQ(past.names(), 0U);
}

}  // namespace
}  // namespace gpuman::queue

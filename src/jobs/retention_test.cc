#include "jobs/retention.h"

#include <gtest/gtest.h>

namespace gpuman::jobs {
namespace {

using base::WallTime;

WallTime Second(int second) { return WallTime(base::Millis(1000 * second)); }

constexpr uid_t kAnn = 1001, kBob = 1002, kEve = 1003;

std::vector<std::int64_t> Forgotten(const std::vector<EndedJob>& ended, const RetentionBounds& bounds,
                                    std::map<uid_t, TextAccount> text = {}) {
  std::vector<std::int64_t> numbers;
  for (const JobId id : ToForget(ended, bounds, std::move(text), Second(1000))) numbers.push_back(id.value);
  return numbers;
}

TEST(ToForget, OldestJobsOfSingleUserAreForgotten) {
  const std::vector<EndedJob> ended{
      {{1}, kAnn, Second(30)}, {{2}, kAnn, Second(10)}, {{3}, kAnn, Second(20)}};
  EXPECT_EQ(Forgotten(ended, {.count = 3}), (std::vector<std::int64_t>{}));
  EXPECT_EQ(Forgotten(ended, {.count = 1}), (std::vector<std::int64_t>{2, 3}));
}

TEST(ToForget, JobsOfUserWithMostEndedJobsAreForgottenFirst) {
  std::vector<EndedJob> ended{{{1}, kAnn, Second(1)}, {{2}, kAnn, Second(2)}, {{3}, kBob, Second(3)}};
  for (int i = 0; i < 10; ++i) ended.push_back({{10 + i}, kEve, Second(10 + i)});
  EXPECT_EQ(Forgotten(ended, {.count = 8}), (std::vector<std::int64_t>{10, 11, 12, 13, 14}));
}

TEST(ToForget, OlderJobsAreForgottenAmongUsersWithEquallyMany) {
  const std::vector<EndedJob> ended{
      {{1}, kAnn, Second(4)}, {{2}, kAnn, Second(5)}, {{3}, kBob, Second(3)}, {{4}, kBob, Second(6)}};
  EXPECT_EQ(Forgotten(ended, {.count = 3}), (std::vector<std::int64_t>{3}));
  EXPECT_EQ(Forgotten(ended, {.count = 2}), (std::vector<std::int64_t>{3, 1}));
}

TEST(ToForget, AJobThatIsTooOldIsForgottenWhoeverOwnsIt) {
  const std::vector<EndedJob> ended{{{1}, kAnn, Second(1)}, {{2}, kBob, Second(20)}, {{3}, kEve, Second(21)}};
  EXPECT_EQ(Forgotten(ended, {.count = 10, .oldest = Second(20)}), (std::vector<std::int64_t>{1}));
}

TEST(ToForget, JobThatEndedInTheFutureIsForgottenFirst) {
  const std::vector<EndedJob> ended{{{1}, kAnn, Second(10)}, {{2}, kAnn, Second(5000)}};
  EXPECT_EQ(Forgotten(ended, {.count = 1}), (std::vector<std::int64_t>{2}));
  EXPECT_EQ(Forgotten(ended, {.count = 2, .oldest = Second(5)}), (std::vector<std::int64_t>{}))
      << "it is not too old";
}

TEST(ToForget, OldestJobsOfUserAreForgottenUntilTextFits) {
  std::vector<Job> jobs(3);
  std::vector<EndedJob> ended{{{9}, kAnn, Second(1)}};
  TextAccount account;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    jobs[i].command = {std::string(1'000'000, 'x')};
    ended.push_back({{static_cast<std::int64_t>(i)}, kEve, Second(10), TextAccount::EntryOf(jobs[i])});
    account.Add(ended.back().text);
  }
  EXPECT_EQ(Forgotten(ended, {.count = 10, .text = base::Bytes{1'500'000}}, {{kEve, account}}),
            (std::vector<std::int64_t>{0, 1}));
}

}  // namespace
}  // namespace gpuman::jobs

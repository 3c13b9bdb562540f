#include "jobs/user_usage_tracker.h"

#include <gtest/gtest.h>

#include <string>

namespace gpuman::jobs {
namespace {

class UserUsageTrackerTest : public ::testing::Test {
 protected:
  static constexpr uid_t kAnn = 1001, kBob = 1002;

  static Job Of(uid_t user, std::size_t text, JobState state) {
    Job job;
    job.owner = JobOwner{user, user, {}, user == kAnn ? "ann" : "bob"};
    job.command = {std::string(text, 'x')};
    job.state = state;
    return job;
  }
  UserUsageTracker accounts_;
};

TEST_F(UserUsageTrackerTest, CountWhatRunsOfEachUser) {
  const UserBounds bounds{1, {}};
  const Job running = Of(kAnn, 1, JobState::kRunning);
  accounts_.Count(std::nullopt, UserUsageTracker::EntryOf(running));
  const auto may = accounts_.MayBegin(Of(kAnn, 1, JobState::kStarting), bounds);
  ASSERT_FALSE(may);
  EXPECT_EQ(may.error().message, "user ann has 1 running jobs; with 1 more that passes the bound of 1");
  EXPECT_TRUE(accounts_.MayBegin(Of(kBob, 1, JobState::kStarting), bounds));
  Job queued = Of(kAnn, 1, JobState::kQueued);
  queued.queued = true;
  EXPECT_TRUE(accounts_.MayBegin(queued, bounds)) << "the queue says when it starts";
  const Job ended = Of(kAnn, 1, JobState::kFinished);
  accounts_.Count(UserUsageTracker::EntryOf(running), UserUsageTracker::EntryOf(ended));
  EXPECT_TRUE(accounts_.MayBegin(Of(kAnn, 1, JobState::kStarting), bounds));
}

TEST_F(UserUsageTrackerTest, AJobThatSomebodyElseStartedIsNoRunningOne) {
  Job attached = Of(kAnn, 1, JobState::kRunning);
  attached.attached = true;
  EXPECT_FALSE(UserUsageTracker::EntryOf(attached).running);
  EXPECT_TRUE(UserUsageTracker::EntryOf(Of(kAnn, 1, JobState::kStopping)).running);
  EXPECT_FALSE(UserUsageTracker::EntryOf(Of(kAnn, 1, JobState::kHeld)).running);
}

TEST_F(UserUsageTrackerTest, CountTextThatIsOnItsWay) {
  const UserBounds bounds{0, base::KiB(100)};
  const Job job = Of(kAnn, 60'000, JobState::kQueued);
  accounts_.Count(std::nullopt, UserUsageTracker::EntryOf(job));
  EXPECT_TRUE(accounts_.MayAddText(*job.owner, {}, base::KiB(30), bounds));
  EXPECT_FALSE(accounts_.MayAddText(*job.owner, base::KiB(20), base::KiB(30), bounds));
  EXPECT_TRUE(accounts_.MayAddText({0, 0, {}, "root"}, {}, base::MiB(90), bounds)) << "root has no bound";
  EXPECT_TRUE(accounts_.MayAddText(*job.owner, {}, base::MiB(90), {})) << "there is no bound";
  accounts_.Count(UserUsageTracker::EntryOf(job), std::nullopt);
  EXPECT_TRUE(accounts_.MayAddText(*job.owner, {}, base::KiB(90), bounds)) << "the job is gone";
}

TEST_F(UserUsageTrackerTest, AChangeMayAlwaysTakeLess) {
  const Job job = Of(kAnn, 60'000, JobState::kQueued);
  const auto counted = UserUsageTracker::EntryOf(job);
  accounts_.Count(std::nullopt, counted);
  const UserBounds bounds{0, base::KiB(10)};  // lowered since the job came
  EXPECT_TRUE(accounts_.MayChangeText(counted, Of(kAnn, 50'000, JobState::kQueued), bounds));
  EXPECT_FALSE(accounts_.MayChangeText(counted, Of(kAnn, 70'000, JobState::kQueued), bounds));
  EXPECT_TRUE(accounts_.MayChangeText(counted, Of(kAnn, 70'000, JobState::kQueued), {0, base::KiB(100)}));
}

TEST_F(UserUsageTrackerTest, TellWhoseEndedJobsAreTooMuch) {
  const UserBounds bounds{0, base::KiB(100)};
  const Job small = Of(kBob, 60'000, JobState::kFinished), large = Of(kAnn, 120'000, JobState::kFinished);
  accounts_.Count(std::nullopt, UserUsageTracker::EntryOf(small));
  accounts_.Count(std::nullopt, UserUsageTracker::EntryOf(large));
  EXPECT_TRUE(accounts_.HasTooManyEnded(kAnn, bounds));
  EXPECT_FALSE(accounts_.HasTooManyEnded(kBob, bounds));
  const auto too_many = accounts_.TooManyEnded(bounds);
  ASSERT_EQ(too_many.size(), 1U);
  EXPECT_GE(too_many.at(kAnn).bytes(), base::Bytes{120'000});
  EXPECT_TRUE(accounts_.TooManyEnded({}).empty());
}

}  // namespace
}  // namespace gpuman::jobs

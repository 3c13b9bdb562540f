#include "jobs/job_index.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "jobs/test_job_index.h"

namespace gpuman::jobs {
namespace {

using Ids = std::vector<JobId>;
using Which = JobIndex::Which;

Ids IdsOf(const std::vector<const Job*>& jobs) {
  Ids ids;
  for (const Job* const job : jobs) ids.push_back(job->id);
  return ids;
}

class JobIndexTest : public ::testing::Test {
 protected:
  static constexpr uid_t kAnn = 1001, kBob = 1002;

  static Job Of(uid_t user, std::int64_t id, const std::string& tag, JobState state = JobState::kQueued) {
    Job job;
    job.id = {id};
    job.tag = tag;
    job.owner = JobOwner{user, user, {}, user == kAnn ? "ann" : "bob"};
    job.state = state;
    return job;
  }
  void Add(uid_t user, std::int64_t id, const std::string& tag, JobState state = JobState::kQueued) {
    index_.Add(Of(user, id, tag, state));
  }
  void AddTasks(std::int64_t array, const std::vector<std::int64_t>& tasks) {
    std::int64_t id = array;
    for (const auto task : tasks) {
      Job job = Of(kAnn, id++, "sweep");
      job.array = {{array}, task, 0};
      index_.Add(std::move(job));
    }
  }
  void Become(std::int64_t id, JobState state) {
    index_.Change({id}, [&](Job& job) { job.state = state; });
  }
  JobIndex index_;
};

TEST_F(JobIndexTest, GivesEachIdOnce) {
  index_.SetLastId(7);
  EXPECT_EQ(index_.NextId(), JobId{8});
  EXPECT_EQ(index_.Reserve(3), JobId{8});
  EXPECT_EQ(index_.Reserve(), JobId{11});
}

TEST_F(JobIndexTest, ListsJobsByTheirState) {
  Add(kAnn, 1, "a");
  Add(kAnn, 2, "b", JobState::kRunning);
  Add(kAnn, 3, "c", JobState::kFinished);
  EXPECT_EQ(index_.WaitingCount(), 1U);
  EXPECT_EQ(IdsOf(index_.Active()), (Ids{{2}}));
  EXPECT_EQ(index_.Ended(), (Ids{{3}}));
  EXPECT_EQ(IdsOf(AllJobs(index_)), (Ids{{1}, {2}, {3}}));
  Become(1, JobState::kStarting);
  Become(2, JobState::kFailed);
  EXPECT_EQ(index_.WaitingCount(), 0U);
  EXPECT_EQ(IdsOf(index_.Active()), (Ids{{1}}));
  EXPECT_EQ(index_.Ended(), (Ids{{2}, {3}}));
  index_.Erase({2});
  EXPECT_EQ(index_.Ended(), (Ids{{3}}));
  EXPECT_EQ(index_.Find({2}), nullptr);
}

TEST_F(JobIndexTest, GoesThroughJobsWhateverTheOrderInWhichTheyCame) {
  for (const std::int64_t id : {5, 2, 9}) Add(kAnn, id, "a");
  EXPECT_EQ(index_.After({0})->id, JobId{2});
  EXPECT_EQ(index_.After({2})->id, JobId{5});
  EXPECT_EQ(index_.After({9}), nullptr);
  EXPECT_EQ(index_.Before({INT64_MAX})->id, JobId{9});
  EXPECT_EQ(index_.Before({2}), nullptr);
}

TEST_F(JobIndexTest, ATagIsTheJobThatHasNotEndedElseTheNewest) {
  Add(kAnn, 1, "t", JobState::kFinished);
  Add(kAnn, 2, "t", JobState::kFinished);
  EXPECT_EQ(*index_.Resolve("t"), JobId{2});
  Become(1, JobState::kRunning);
  EXPECT_EQ(*index_.Resolve("t"), JobId{1});
  EXPECT_EQ(*index_.Resolve("2"), JobId{2});
  EXPECT_EQ(index_.Resolve("3").error().code, base::ErrorCode::kNotFound);
  EXPECT_EQ(index_.Resolve("u").error().message, "there is no job u");
}

TEST_F(JobIndexTest, ATagIsAUsersOwnJobFirst) {
  Add(kAnn, 1, "t", JobState::kFinished);
  Add(kBob, 2, "t", JobState::kRunning);
  EXPECT_EQ(*index_.Resolve("t", kAnn), JobId{1});
  EXPECT_EQ(*index_.Resolve("t", kAnn + 100), JobId{2}) << "who has none means anybody's";
  EXPECT_EQ(*index_.Resolve("t"), JobId{2});
}

TEST_F(JobIndexTest, FindsAJobByItsTagAfterTheTagChanged) {
  Add(kAnn, 1, "before");
  index_.Change({1}, [](Job& job) { job.tag = "after"; });
  EXPECT_FALSE(index_.Resolve("before"));
  EXPECT_EQ(*index_.Resolve("after"), JobId{1});
}

TEST_F(JobIndexTest, ATagIsFreeOnceItsJobHasEnded) {
  Add(kAnn, 1, "t", JobState::kRunning);
  const auto taken = index_.TagIsFree("t");
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, base::ErrorCode::kAlreadyExists);
  EXPECT_EQ(taken.error().message, "the tag t is taken by job 1, which is running");
  EXPECT_TRUE(index_.TagIsFree("t", {1})) << "but for itself";
  Become(1, JobState::kFinished);
  EXPECT_TRUE(index_.TagIsFree("t"));
}

TEST_F(JobIndexTest, NamesAnArrayOnce) {
  Add(kAnn, 1, "sweep");
  Add(kAnn, 2, "other");
  AddTasks(10, {0, 1, 2});
  EXPECT_EQ(index_.Named("sweep", std::nullopt, Which::kOpen), (Ids{{10}, {1}}));
  EXPECT_EQ(index_.Named("sweep", kBob, Which::kOpen), Ids{});
  EXPECT_EQ(index_.NameOf(index_.At({1})), "1");
  EXPECT_EQ(index_.NameOf(index_.At({2})), "other");
  Become(1, JobState::kCancelled);
  EXPECT_EQ(index_.Named("sweep", kAnn, Which::kOpen), (Ids{{10}}));
  EXPECT_EQ(index_.Named("sweep", kAnn, Which::kAll), (Ids{{10}, {1}}));
}

TEST_F(JobIndexTest, NamesAtMostSoManyJobs) {
  for (std::int64_t id = 1; id <= 20; ++id) Add(kAnn, id, "t");
  const auto named = index_.Named("t", kAnn, Which::kOpen);
  EXPECT_EQ(named.size(), JobIndex::kMaxNamed);
  EXPECT_EQ(named.front(), JobId{20});
}

TEST_F(JobIndexTest, FindsTheTasksThatAreLeftOfAnArray) {
  AddTasks(10, {0, 2, 4, 6});
  Add(kAnn, 14, "other");
  EXPECT_EQ(index_.TasksOf({10}), (Ids{{10}, {11}, {12}, {13}}));
  EXPECT_EQ(index_.TasksOf({11}), (Ids{{11}})) << "a task";
  EXPECT_EQ(index_.TasksOf({14}), (Ids{{14}}));
  index_.Erase({10});
  index_.Erase({12});
  EXPECT_EQ(index_.TasksOf({10}), (Ids{{11}, {13}}));
  EXPECT_EQ(index_.TaskOf({10}, 2), JobId{11});
  EXPECT_EQ(index_.TaskOf({10}, 6), JobId{13});
  for (const std::int64_t gone : {0, 1, 4, 7, -1}) EXPECT_EQ(index_.TaskOf({10}, gone), std::nullopt) << gone;
}

TEST_F(JobIndexTest, AJobThatIsLeavingIsFoundButNotKept) {
  Add(kAnn, 1, "t", JobState::kRunning);
  index_.SetLeaving({1});
  EXPECT_TRUE(index_.IsLeaving({1}));
  EXPECT_TRUE(index_.Existing({1}));
  EXPECT_EQ(index_.Kept({1}).error().code, base::ErrorCode::kNotFound);
  EXPECT_EQ(IdsOf(index_.Active()), (Ids{{1}})) << "it runs on";
  index_.Keep({1});
  EXPECT_TRUE(index_.Kept({1}));
  EXPECT_FALSE(index_.IsLeaving({2})) << "there is no such job";
}

TEST_F(JobIndexTest, AnEndedJobThatIsLeavingIsNotListedUntilItIsKept) {
  const UserBounds bounds{0, base::Bytes{100}};
  Job job = Of(kAnn, 1, "t", JobState::kFinished);
  job.command = {std::string(1000, 'x')};
  index_.Add(std::move(job));
  EXPECT_EQ(index_.EndedJobs().size(), 1U);
  EXPECT_TRUE(index_.accounts().HasTooManyEnded(kAnn, bounds));
  index_.Unlist({1});
  EXPECT_TRUE(index_.Ended().empty());
  EXPECT_FALSE(index_.accounts().HasTooManyEnded(kAnn, bounds));
  index_.Change({1}, [](Job& leaving) { leaving.remove_when_ended = true; });
  EXPECT_TRUE(index_.EndedJobs().empty()) << "a change does not list it";
  index_.Keep({1});
  EXPECT_EQ(index_.Ended(), (Ids{{1}}));
  EXPECT_TRUE(index_.accounts().HasTooManyEnded(kAnn, bounds));
}

TEST_F(JobIndexTest, ReplacingAJobGivesItAsItWas) {
  Add(kAnn, 1, "t");
  const Job before = index_.Replace(Of(kAnn, 1, "t", JobState::kRunning));
  EXPECT_EQ(before.state, JobState::kQueued);
  EXPECT_EQ(IdsOf(index_.Active()), (Ids{{1}}));
}

TEST_F(JobIndexTest, ChecksTheTextOfAChangeAgainstWhatTheUserHas) {
  const UserBounds bounds{0, base::KiB(10)};
  Add(kAnn, 1, "t");
  Job changed = index_.At({1});
  changed.command = {std::string(20'000, 'x')};
  EXPECT_EQ(index_.MayChangeText({1}, changed, bounds).error().code, base::ErrorCode::kUnsatisfiable);
  EXPECT_TRUE(index_.MayChangeText({2}, changed, bounds)) << "it is gone";
  Become(1, JobState::kCancelled);
  EXPECT_TRUE(index_.MayChangeText({1}, changed, bounds)) << "it has ended";
}

}  // namespace
}  // namespace gpuman::jobs

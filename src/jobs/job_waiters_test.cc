#include "jobs/job_waiters.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gpuman::jobs {
namespace {

class JobWaitersTest : public ::testing::Test {
 protected:
  JobWaitersTest() {
    waiters_ = std::make_unique<JobWaiters>(
        [this](std::function<void()> act) { posted_.push_back(std::move(act)); });
  }
  static Job In(JobState state, int runs = 0) {
    Job job;
    job.id = {1};
    job.state = state;
    job.runs = runs;
    return job;
  }
  std::function<void(const Job&)> Ended(const std::string& who) {
    return [this, who](const Job& job) { heard_.push_back(who + ": " + std::string(ToString(job.state))); };
  }
  JobWaiters::Done Done(const std::string& who) {
    return [this, who](const base::Result<Job>& job) {
      heard_.push_back(who + ": " + (job ? std::string(ToString(job->state)) : job.error().message));
    };
  }
  void RunPosted() {
    for (const auto& act : std::exchange(posted_, {})) act();
  }
  using Heard = std::vector<std::string>;

  std::unique_ptr<JobWaiters> waiters_;
  std::vector<std::function<void()>> posted_;
  Heard heard_;
};

TEST_F(JobWaitersTest, TellTheEndOnceToAllWhoWaitForThisJob) {
  EXPECT_NE(waiters_->WaitForEnd(In(JobState::kRunning), Ended("a")), 0U);
  EXPECT_NE(waiters_->WaitForEnd(In(JobState::kRunning), Ended("b")), 0U);
  Job other = In(JobState::kRunning);
  other.id = {2};
  EXPECT_NE(waiters_->WaitForEnd(other, Ended("other")), 0U);
  waiters_->EndIsKnown(In(JobState::kFinished));
  waiters_->EndIsKnown(In(JobState::kFinished));
  EXPECT_EQ(heard_, (Heard{"a: finished", "b: finished"}));
}

TEST_F(JobWaitersTest, TellAnEndThatWasBeforeAtOnce) {
  EXPECT_EQ(waiters_->WaitForEnd(In(JobState::kFailed), Ended("a")), 0U);
  EXPECT_EQ(heard_, (Heard{"a: failed"}));
}

TEST_F(JobWaitersTest, TellNoEndThatIsNotWritten) {
  waiters_->EndIsUnwritten({1});
  EXPECT_NE(waiters_->WaitForEnd(In(JobState::kFailed), Ended("a")), 0U);
  EXPECT_EQ(heard_, Heard{});
  waiters_->EndIsKnown(In(JobState::kFailed));
  EXPECT_EQ(heard_, (Heard{"a: failed"}));
  EXPECT_EQ(waiters_->WaitForEnd(In(JobState::kFailed), Ended("b")), 0U);
}

TEST_F(JobWaitersTest, AreSilentToWhoDoesNotWaitAnyMore) {
  const auto handle = waiters_->WaitForEnd(In(JobState::kRunning), Ended("a"));
  waiters_->CancelWait(handle);
  waiters_->EndIsKnown(In(JobState::kFinished));
  EXPECT_EQ(heard_, Heard{});
}

TEST_F(JobWaitersTest, ANewRunIsTheRunAfterTheOnesBefore) {
  waiters_->WaitForRun({1}, 1, Done("a"));
  const Job same = In(JobState::kRunning, 1), starting = In(JobState::kStarting, 1);
  waiters_->AnswerRuns({1}, &same);
  waiters_->AnswerRuns({1}, &starting);
  EXPECT_EQ(heard_, Heard{});
  const Job next = In(JobState::kRunning, 2);
  waiters_->AnswerRuns({1}, &next);
  EXPECT_EQ(heard_, (Heard{"a: running"}));
}

TEST_F(JobWaitersTest, ARunThatWillNotBeginIsAnsweredWithTheJobAsItIs) {
  waiters_->WaitForRun({1}, 1, Done("a"));
  const Job ended = In(JobState::kCancelled, 1);
  waiters_->AnswerRuns({1}, &ended);
  waiters_->WaitForRun({1}, 1, Done("b"));
  waiters_->AnswerRuns({1}, nullptr);
  EXPECT_EQ(heard_, (Heard{"a: cancelled", "b: there is no job 1"}));
}

TEST_F(JobWaitersTest, ARemovalIsAnsweredOnce) {
  waiters_->WaitForRemoval({1}, Done("a"));
  waiters_->WaitForRemoval({1}, Done("b"));
  waiters_->AnswerRemovals({2}, In(JobState::kFinished));
  EXPECT_EQ(heard_, Heard{});
  waiters_->AnswerRemovals({1}, base::Fail(base::ErrorCode::kExhausted, "the disk is full"));
  waiters_->AnswerRemovals({1}, In(JobState::kFinished));
  EXPECT_EQ(heard_, (Heard{"a: the disk is full", "b: the disk is full"}));
}

TEST_F(JobWaitersTest, WhatWaitsForAStartIsDoneLaterAndInItsOrder) {
  waiters_->WaitForStart({1}, [this] { heard_.emplace_back("first"); });
  waiters_->WaitForStart({1}, [this] { heard_.emplace_back("second"); });
  EXPECT_TRUE(waiters_->IsStartAwaited({1}));
  EXPECT_FALSE(waiters_->IsStartAwaited({2}));
  waiters_->StartIsOver({1});
  EXPECT_EQ(heard_, Heard{}) << "the caller is in the middle of a change";
  EXPECT_FALSE(waiters_->IsStartAwaited({1}));
  RunPosted();
  EXPECT_EQ(heard_, (Heard{"first", "second"}));
}

TEST_F(JobWaitersTest, DestroyedWaitersRunNoAction) {
  waiters_->WaitForStart({1}, [this] { heard_.emplace_back("act"); });
  waiters_->StartIsOver({1});
  waiters_.reset();
  RunPosted();
  EXPECT_EQ(heard_, Heard{});
}

}  // namespace
}  // namespace gpuman::jobs

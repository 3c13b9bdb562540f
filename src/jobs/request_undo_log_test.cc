#include "jobs/request_undo_log.h"

#include <gtest/gtest.h>

namespace gpuman::jobs {
namespace {

class RequestUndoLogTest : public ::testing::Test {
 protected:
  RequestUndoLogTest() {
    job_.id = {1};
    job_.tag = "first";
  }
  template <typename F>
  RequestUndoLog::Handle Change(F&& change) {
    const Job before = job_;
    change(job_);
    return changes_.Begin(before, job_);
  }
  Job job_;
  RequestUndoLog changes_;
};

void Prioritize(Job& job) {
  job.spec.Change([](spec::JobSpec& spec) { spec.priority = 7; });
}
void Share(Job& job) {
  job.spec.Change([](spec::JobSpec& spec) { spec.share = true; });
}

TEST_F(RequestUndoLogTest, ARefusedChangeIsUndone) {
  const auto change = Change([](Job& job) {
    job.tag = "second";
    job.command = {"true"};
    Prioritize(job);
  });
  changes_.Refused({1}, change, &job_);
  EXPECT_EQ(job_.tag, "first");
  EXPECT_TRUE(job_.command.empty());
  EXPECT_EQ(job_.spec->priority, spec::JobSpec{}.priority);
}

TEST_F(RequestUndoLogTest, TheStateThatTheJobHasReachedStays) {
  const auto change = Change(Prioritize);
  job_.state = JobState::kRunning;
  job_.runs = 1;
  changes_.Refused({1}, change, &job_);
  EXPECT_EQ(job_.state, JobState::kRunning);
  EXPECT_EQ(job_.runs, 1);
  EXPECT_EQ(job_.spec->priority, spec::JobSpec{}.priority);
}

TEST_F(RequestUndoLogTest, WhatWasChangedAgainSinceStays) {
  const auto first = Change([](Job& job) { job.tag = "second"; });
  const auto second = Change([](Job& job) {
    job.tag = "third";
    Share(job);
  });
  changes_.Refused({1}, first, &job_);
  EXPECT_EQ(job_.tag, "third");
  changes_.Stored({1}, second);
  EXPECT_TRUE(job_.spec->share);
}

TEST_F(RequestUndoLogTest, WhenAllAreRefusedTheRequestIsTheFirstOneAgain) {
  const auto first = Change([](Job& job) { job.tag = "second"; });
  const auto second = Change([](Job& job) {
    job.tag = "third";
    Share(job);
  });
  const auto third = Change(Prioritize);
  changes_.Refused({1}, first, &job_);
  changes_.Refused({1}, second, &job_);
  changes_.Refused({1}, third, &job_);
  EXPECT_EQ(job_.tag, "first");
  EXPECT_EQ(*job_.spec, spec::JobSpec{});
}

TEST_F(RequestUndoLogTest, ALaterChangeIsUndoneToWhatIsStored) {
  const auto first = Change([](Job& job) { job.tag = "second"; });
  const auto second = Change([](Job& job) { job.tag = "third"; });
  changes_.Stored({1}, first);
  changes_.Refused({1}, second, &job_);
  EXPECT_EQ(job_.tag, "second");
}

TEST_F(RequestUndoLogTest, OfAJobThatIsGoneNothingIsUndone) {
  const auto change = Change(Prioritize);
  changes_.Refused({1}, change, nullptr);
  EXPECT_EQ(job_.spec->priority, 7);
}

}  // namespace
}  // namespace gpuman::jobs

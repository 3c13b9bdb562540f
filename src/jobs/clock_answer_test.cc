#include "jobs/clock_answer.h"

#include <gtest/gtest.h>

namespace gpuman::jobs {
namespace {

using base::ErrorCode;
using spec::JobState;

std::optional<std::string> After(bool off, ErrorCode code, JobState state) {
  return ClockErrorText(off, base::Fail(code, "no run is under way"), state);
}

TEST(ClockAnswer, WhatAKeeperRefusesWhileTheJobRunsIsReported) {
  EXPECT_EQ(After(true, ErrorCode::kConflict, JobState::kRunning),
            "its keeper does not stop the clock of its time limit: no run is under way");
  EXPECT_EQ(After(false, ErrorCode::kNotSupported, JobState::kRunning),
            "its keeper does not start the clock of its time limit: no run is under way");
  EXPECT_TRUE(After(true, ErrorCode::kNotSupported, JobState::kFinished))
      << "only a run that is over explains kConflict";
}

TEST(ClockAnswer, ARunThatIsOverAndAnAnswerThatDoesNotComeAreNoError) {
  EXPECT_FALSE(ClockErrorText(true, {}, JobState::kRunning));
  EXPECT_FALSE(After(true, ErrorCode::kUnavailable, JobState::kRunning));
  EXPECT_FALSE(After(true, ErrorCode::kConflict, JobState::kFinished));
  EXPECT_FALSE(After(true, ErrorCode::kConflict, JobState::kStopping));
}

}  // namespace
}  // namespace gpuman::jobs

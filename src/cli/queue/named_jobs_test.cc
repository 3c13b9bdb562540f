#include "cli/queue/named_jobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuman::cli::queue {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

base::WallTime At(int seconds) { return base::WallTime(base::Millis(seconds * 1000)); }

api::QueueRow Row(std::int64_t id, const std::string& tag, int submitted, spec::JobState state) {
  api::QueueRow row;
  row.id = id;
  row.tag = tag;
  row.user = "ann";
  row.submitted_at = At(submitted);
  row.state = state;
  return row;
}
using RowState = spec::JobState;

TEST(NameOfSweep, IsWhatItsTagsHaveInCommon) {
  EXPECT_EQ(NameOfSweep({"lr-1", "lr-2"}), "lr-*");
  EXPECT_EQ(NameOfSweep({"arr", "arr"}), "arr");
  EXPECT_EQ(NameOfSweep({"a", "b"}), "");
  EXPECT_EQ(NameOfSweep({"a", "a1"}), "a*");
  EXPECT_EQ(NameOfSweep({}), "");
}

TEST(JobsOfSweep, AreThoseOfOneSubmissionThatHaveNotEnded) {
  std::vector<api::QueueRow> rows{
      Row(1, "lr-1", 5, RowState::kFinished), Row(2, "lr-2", 5, RowState::kRunning),
      Row(3, "lr-3", 5, RowState::kQueued),   Row(4, "lr-x", 6, RowState::kQueued),
      Row(5, "other", 5, RowState::kQueued),  Row(6, "lr-1", 2, RowState::kFinished),
      Row(7, "lr-2", 2, RowState::kFinished)};
  EXPECT_THAT(JobsOfSweep("lr-*", rows).value(), ElementsAre("2", "3"))
      << "neither one that was submitted alone, nor one of a sweep that has ended";
  EXPECT_THAT(JobsOfSweep("lr-*", rows, SweepScope::kAll).value(), ElementsAre("1", "2", "3"));
  rows[1].state = rows[2].state = RowState::kFinished;
  EXPECT_THAT(JobsOfSweep("lr-*", rows).value(), ElementsAre("6", "7")) << "the newest by its ids";
}

TEST(JobsOfSweep, SeveralSweepsOfTheNameAreRefusedWithTheirIds) {
  const auto jobs =
      JobsOfSweep("lr-*", {Row(1, "lr-1", 5, RowState::kQueued), Row(2, "lr-2", 5, RowState::kQueued),
                           Row(3, "lr-1", 6, RowState::kQueued), Row(5, "lr-2", 6, RowState::kQueued)});
  ASSERT_FALSE(jobs);
  EXPECT_EQ(jobs.error().code, base::ErrorCode::kConflict);
  EXPECT_THAT(jobs.error().message, HasSubstr("2 submissions have jobs named 'lr-*': 1-2; 3,5"));
}

TEST(JobsOfSweep, ANameOfNothingOrOfEverythingIsRefused) {
  const std::vector<api::QueueRow> rows{Row(1, "lr-1", 5, RowState::kQueued),
                                        Row(2, "lr-2", 5, RowState::kQueued)};
  EXPECT_EQ(JobsOfSweep("lx*", rows).error().code, base::ErrorCode::kNotFound);
  EXPECT_EQ(JobsOfSweep("*", rows).error().code, base::ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace gpuman::cli::queue

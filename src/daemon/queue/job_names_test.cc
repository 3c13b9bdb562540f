#include "daemon/queue/job_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuman::daemon {
namespace {

using testing::HasSubstr;

TEST(JobNames, OneJobOrNoneIsClear) {
  EXPECT_TRUE(IsOne("t", {}));
  EXPECT_TRUE(IsOne("t", {{7}}));
}

TEST(JobNames, SeveralJobsOfANameAreListed) {
  const auto two = IsOne("t", {{12}, {7}});
  ASSERT_FALSE(two);
  EXPECT_EQ(two.error().code, base::ErrorCode::kConflict);
  EXPECT_THAT(two.error().message, HasSubstr("2 jobs that have not ended are named 't': 7, 12"));
  const auto many = IsOne("t", std::vector<base::JobId>(9, base::JobId{1}));
  ASSERT_FALSE(many);
  EXPECT_THAT(many.error().message, HasSubstr("more than 8 jobs"));
}

TEST(JobNames, SplitTaskTakesANameAndANumberApart) {
  EXPECT_EQ(SplitTask("arr_3"), std::pair(std::string("arr"), std::int64_t{3}));
  EXPECT_EQ(SplitTask("a_b_0"), std::pair(std::string("a_b"), std::int64_t{0}));
  for (const char* text : {"arr", "arr_", "_3", "arr_x", "arr_3x", "arr_-1", "arr_99999999999999999999", ""})
    EXPECT_FALSE(SplitTask(text)) << text;
}

TEST(JobNames, ANameThatSeveralHaveIsNotedWithTheOneThatIsTaken) {
  EXPECT_EQ(NoteOnName("t", {}, {7}, 9), "");
  EXPECT_EQ(NoteOnName("t", {{7}}, {7}, 9), "");
  EXPECT_EQ(NoteOnName("t", {{3}, {7}}, {7}, 9),
            "2 jobs are called 't'; this is the newest, job 7; give the id for another");
  EXPECT_THAT(NoteOnName("t", {{3}, {7}}, {3}, 9), HasSubstr("the newest that has not ended, job 3;"));
  EXPECT_THAT(NoteOnName("t", {{3}, {7}}, {7}, 2), HasSubstr("at least 2 jobs"));
}

}  // namespace
}  // namespace gpuman::daemon

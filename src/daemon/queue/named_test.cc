#include "daemon/queue/named.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

namespace gpuman::daemon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr uid_t kAnn = 1001, kBob = 1002;

class Named : public testing::Test {
 protected:
  void Job(std::int64_t id, uid_t owner, jobs::JobState state, std::int64_t array = 0) {
    jobs::Job job;
    job.id = {id};
    job.owner = jobs::Owner{.uid = owner};
    job.state = state;
    job.array.array = {array};
    jobs_.push_back(std::move(job));
    named_.push_back(&jobs_.back());
  }

  std::deque<jobs::Job> jobs_;
  std::vector<const jobs::Job*> named_;
};

TEST_F(Named, NobodysNameMeansNothing) { EXPECT_FALSE(MeantBy(named_, kAnn)); }

TEST_F(Named, TheOneThatHasNotEndedIsMeantThenTheNewest) {
  Job(1, kAnn, jobs::JobState::kRunning);
  Job(2, kAnn, jobs::JobState::kFailed);
  EXPECT_EQ(MeantBy(named_, kAnn)->job.value, 1);
  EXPECT_THAT(MeantBy(named_, kAnn)->also, IsEmpty());
  jobs_[0].state = jobs::JobState::kFinished;
  EXPECT_EQ(MeantBy(named_, kAnn)->job.value, 2);
  EXPECT_TRUE(IsOne("t", *MeantBy(named_, kAnn))) << "of those that have ended the newest is meant";
}

TEST_F(Named, TheUsersOwnIsMeantBeforeANewerOneOfAnother) {
  Job(1, kAnn, jobs::JobState::kQueued);
  Job(2, kBob, jobs::JobState::kRunning);
  EXPECT_EQ(MeantBy(named_, kAnn)->job.value, 1);
  EXPECT_EQ(MeantBy(named_, kBob)->job.value, 2);
  EXPECT_TRUE(IsOne("t", *MeantBy(named_, kAnn)));
}

TEST_F(Named, SeveralThatHaveNotEndedAreNotOne) {
  Job(1, kAnn, jobs::JobState::kQueued);
  Job(2, kAnn, jobs::JobState::kRunning);
  Job(3, kAnn, jobs::JobState::kFailed);
  const auto meant = MeantBy(named_, 0);
  EXPECT_EQ(meant->job.value, 2) << "who only looks sees the newest";
  EXPECT_THAT(meant->also, ElementsAre(base::JobId{1}));
  const auto one = IsOne("t", *meant);
  ASSERT_FALSE(one);
  EXPECT_EQ(one.error().code, base::ErrorCode::kConflict);
  EXPECT_THAT(one.error().message, HasSubstr("2 jobs that have not ended are named 't': 1, 2"));
}

TEST_F(Named, TheTasksOfAnArrayAreOne) {
  Job(4, kAnn, jobs::JobState::kFinished, 4);
  Job(5, kAnn, jobs::JobState::kQueued, 4);
  Job(6, kAnn, jobs::JobState::kQueued, 4);
  EXPECT_EQ(MeantBy(named_, kAnn)->job.value, 4);
  EXPECT_TRUE(IsOne("t", *MeantBy(named_, kAnn)));
}

TEST(SplitTask, TakesANameAndANumberApart) {
  EXPECT_EQ(SplitTask("arr_3"), std::pair(std::string("arr"), std::int64_t{3}));
  EXPECT_EQ(SplitTask("a_b_0"), std::pair(std::string("a_b"), std::int64_t{0}));
  for (const char* text : {"arr", "arr_", "_3", "arr_x", "arr_3x", "arr_-1", "arr_99999999999999999999", ""})
    EXPECT_FALSE(SplitTask(text)) << text;
}

}  // namespace
}  // namespace gpuman::daemon

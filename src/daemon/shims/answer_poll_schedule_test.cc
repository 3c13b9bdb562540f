#include "daemon/shims/answer_poll_schedule.h"

#include <gtest/gtest.h>

#include <vector>

namespace gpuman::daemon {
namespace {

using base::Millis;
using base::MonoTime;

constexpr MonoTime kStart{std::chrono::hours{1}};

// The times of the polls up to `end`, counted from the order.
std::vector<int> PollsAfterAnOrder(AnswerPollSchedule poll, Millis end, bool silent) {
  std::vector<int> polls;
  poll.Ordered(kStart);
  while (poll.due() <= kStart + end) {
    polls.push_back(static_cast<int>(std::chrono::duration_cast<Millis>(poll.due() - kStart).count()));
    poll.Checked(poll.due(), silent);
  }
  return polls;
}

TEST(AnswerPollScheduleTest, PollsSoonAfterAnOrderAndThenLessAndLessOften) {
  EXPECT_EQ(PollsAfterAnOrder(AnswerPollSchedule(Millis{2}), Millis{110}, false),
            (std::vector<int>{2, 6, 14, 30, 55, 80, 105}));
}

TEST(AnswerPollScheduleTest, PollsAsOftenAsAtFirstWhereNobodyNotifies) {
  EXPECT_EQ(PollsAfterAnOrder(AnswerPollSchedule(Millis{3}), Millis{15}, true),
            (std::vector<int>{3, 6, 9, 12, 15}));
}

TEST(AnswerPollScheduleTest, AnotherOrderIsPolledSoonToo) {
  AnswerPollSchedule poll(Millis{2});
  poll.Ordered(kStart);
  for (int i = 0; i < 10; ++i) poll.Checked(poll.due(), false);
  const MonoTime later = poll.due() - Millis{10};
  poll.Ordered(later);
  EXPECT_EQ(poll.due(), later + Millis{2});
  poll.Checked(poll.due(), false);
  EXPECT_EQ(poll.due(), later + Millis{6});
}

TEST(AnswerPollScheduleTest, APollThatIsDueIsNotPutOffByAnOrder) {
  AnswerPollSchedule poll(Millis{2});
  poll.Ordered(kStart);
  poll.Ordered(kStart + Millis{1});
  EXPECT_EQ(poll.due(), kStart + Millis{2});
}

}  // namespace
}  // namespace gpuman::daemon

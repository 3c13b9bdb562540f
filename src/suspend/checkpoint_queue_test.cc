#include "suspend/checkpoint_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <vector>

namespace gpuman::suspend {
namespace {

using base::Millis;
using base::MonoTime;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const MoverLimitGroup kAda{1000, {}}, kBob{1001, {}}, kCid{1002, {}};

class CheckpointQueueTest : public ::testing::Test {
 protected:
  MonoTime At(int milliseconds) const { return start + Millis(milliseconds); }

  const MonoTime start = MonoTime{} + std::chrono::hours(1);
  CheckpointQueue turns{{Millis(500), Millis(10'000)}};
};

TEST_F(CheckpointQueueTest, CallsRunOneAtATime) {
  turns.Ask(kAda, 1);
  turns.Ask(kBob, 2);
  EXPECT_THAT(turns.Begin(At(0)), ElementsAre(1));
  EXPECT_THAT(turns.Begin(At(10)), IsEmpty());
  turns.End(1, At(20));
  EXPECT_THAT(turns.Begin(At(20)), ElementsAre(2));
}

TEST_F(CheckpointQueueTest, AThousandWaitingCallsDelayOtherUsersByOne) {
  for (std::uint64_t id = 1; id <= 1000; ++id) turns.Ask(kAda, id);
  EXPECT_THAT(turns.Begin(At(0)), ElementsAre(1));
  turns.Ask(kBob, 2001);
  turns.End(1, At(1));
  EXPECT_THAT(turns.Begin(At(1)), ElementsAre(2001));
  turns.Ask(kBob, 2002);
  turns.End(2001, At(2));
  EXPECT_THAT(turns.Begin(At(2)), ElementsAre(2)) << "and neither is the other kept out";
}

TEST_F(CheckpointQueueTest, RestoresOfAUserGoBeforeTheirOtherCalls) {
  for (std::uint64_t id = 1; id <= 4; ++id) turns.Ask(kAda, id);
  EXPECT_THAT(turns.Begin(At(0)), ElementsAre(1));
  for (std::uint64_t id = 11; id <= 13; ++id) turns.Ask(kAda, id, CheckpointQueue::Call::kRestores);
  turns.End(12, At(1));  // withdrawn
  turns.End(1, At(1));
  for (const std::uint64_t id : {11U, 13U, 2U, 3U}) {
    EXPECT_THAT(turns.Begin(At(1)), ElementsAre(id));
    turns.End(id, At(1));
  }
  turns.Ask(kBob, 21);
  turns.Ask(kAda, 14, CheckpointQueue::Call::kRestores);
  EXPECT_THAT(turns.Begin(At(2)), ElementsAre(21)) << "users take turns as ever";
  turns.End(21, At(3));
  EXPECT_THAT(turns.Begin(At(3)), ElementsAre(14));
}

TEST_F(CheckpointQueueTest, ACallThatTakesLongIsWaitedForOnceAndNotEnded) {
  turns.Ask(kAda, 1);
  EXPECT_THAT(turns.Begin(At(0)), ElementsAre(1));
  EXPECT_EQ(turns.Deadline(), std::nullopt) << "nobody waits";
  turns.Ask(kBob, 2);
  EXPECT_EQ(turns.Deadline(), At(500));
  EXPECT_THAT(turns.Begin(At(499)), IsEmpty());
  EXPECT_THAT(turns.Begin(At(500)), ElementsAre(2));
  turns.End(2, At(501));
  turns.Ask(kBob, 3);
  EXPECT_THAT(turns.Begin(At(502)), ElementsAre(3)) << "nobody waits for it any more";
}

TEST_F(CheckpointQueueTest, AUserWithALongCallIsNotWaitedForNextTime) {
  turns.Ask(kAda, 1);
  turns.Begin(At(0));
  turns.End(1, At(900));
  turns.Ask(kAda, 2);
  EXPECT_THAT(turns.Begin(At(1000)), ElementsAre(2));
  turns.Ask(kBob, 3);
  EXPECT_THAT(turns.Begin(At(1000)), ElementsAre(3)) << "at once";
  EXPECT_EQ(turns.Deadline(), std::nullopt);
}

TEST_F(CheckpointQueueTest, AUserWithALongCallWaitsAndHasOneCallAtATime) {
  turns.Ask(kAda, 1);
  turns.Begin(At(0));
  turns.End(1, At(900));
  turns.Ask(kBob, 2);
  EXPECT_THAT(turns.Begin(At(1000)), ElementsAre(2));
  turns.Ask(kAda, 3);
  turns.Ask(kAda, 4);
  EXPECT_THAT(turns.Begin(At(1001)), IsEmpty());
  turns.End(2, At(1002));
  EXPECT_THAT(turns.Begin(At(1002)), ElementsAre(3));
  turns.End(3, At(1003));
  EXPECT_THAT(turns.Begin(At(1003)), ElementsAre(4));
}

TEST_F(CheckpointQueueTest, LongCallIsForgottenAfterATimeOfQuickCalls) {
  turns.Ask(kAda, 1);
  turns.Begin(At(0));
  turns.End(1, At(600));
  turns.Ask(kAda, 2);
  turns.Ask(kBob, 3);
  EXPECT_THAT(turns.Begin(At(10'600)), ElementsAre(3));
  turns.End(3, At(10'601));
  EXPECT_THAT(turns.Begin(At(10'601)), ElementsAre(2));
  turns.Ask(kBob, 4);
  EXPECT_THAT(turns.Begin(At(10'602)), IsEmpty());
}

TEST_F(CheckpointQueueTest, ManyWhoStandStillAreOvertaken) {
  constexpr int kUsers = 50;
  for (unsigned i = 0; i < kUsers; ++i) turns.Ask({2000 + i, {}}, i);
  for (int i = 0; i < kUsers; ++i) EXPECT_EQ(turns.Begin(At(500 * i)).size(), 1u) << i;
  turns.Ask(kAda, 100);
  EXPECT_THAT(turns.Begin(At(500 * kUsers)), ElementsAre(100));
}

TEST_F(CheckpointQueueTest, AWithdrawnCallIsNotBegun) {
  turns.Ask(kAda, 1);
  turns.Ask(kAda, 2);
  turns.Ask(kBob, 3);
  turns.End(2, At(0));
  EXPECT_THAT(turns.Begin(At(0)), ElementsAre(1));
  turns.End(1, At(1));
  EXPECT_THAT(turns.Begin(At(1)), ElementsAre(3));
  turns.End(3, At(2));
  turns.End(99, At(2));
  EXPECT_THAT(turns.Begin(At(2)), IsEmpty());
}

TEST_F(CheckpointQueueTest, ContainersOfOneNamespaceAreAPartyOfTheirOwn) {
  turns.Ask({0, "a"}, 1);
  turns.Ask({0, "b"}, 2);
  EXPECT_THAT(turns.Begin(At(0)), ElementsAre(1));
  EXPECT_THAT(turns.Begin(At(500)), ElementsAre(2));
}

// Whatever some users do in their turns, others whose calls end at once wait for a bounded time.
TEST_F(CheckpointQueueTest, UserWaitsAtMostOneTurnOfEachOtherUser) {
  // Ada stays in every call for a minute, Cid for just less than a turn; Bob is quick.
  std::uint64_t next = 1;
  std::map<std::uint64_t, int> ends;  // ends of calls in progress, by their id
  std::map<std::uint64_t, MoverLimitGroup> whose;
  const auto ask = [&](const MoverLimitGroup& party) {
    whose[next] = party;
    turns.Ask(party, next++);
  };
  ask(kAda);
  ask(kCid);
  ask(kBob);
  int waiting_since = 0, longest = 0;
  for (int now = 0; now < 60'000; ++now) {
    std::vector<std::uint64_t> over;
    for (const auto& [id, end] : ends)
      if (end <= now) over.push_back(id);
    for (const auto id : over) {
      ends.erase(id);
      turns.End(id, At(now));
      ask(whose.at(id));
      if (whose.at(id) == kBob) waiting_since = now;
    }
    for (const auto id : turns.Begin(At(now))) {
      const MoverLimitGroup& party = whose.at(id);
      if (party == kBob) longest = std::max(longest, now - waiting_since);
      ends[id] = now + (party == kAda ? 60'000 : party == kCid ? 499 : 1);
    }
  }
  EXPECT_LE(longest, 2 * 500);
}

TEST(RestartDelay, GrowsWithMoversThatDidNothingUpToABound) {
  EXPECT_EQ(RestartDelay(0), Millis(0));
  EXPECT_EQ(RestartDelay(3), Millis(0));
  EXPECT_EQ(RestartDelay(4), Millis(250));
  EXPECT_EQ(RestartDelay(5), Millis(500));
  EXPECT_EQ(RestartDelay(9), Millis(8'000));
  EXPECT_EQ(RestartDelay(1'000'000), Millis(8'000));
}

}  // namespace
}  // namespace gpuman::suspend

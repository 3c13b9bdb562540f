#include "base/round_robin_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace gpuman::base {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> All(RoundRobinQueue<std::string>& turns) {
  std::vector<std::string> all;
  while (!turns.empty()) all.push_back(turns.Next());
  return all;
}

TEST(RoundRobinQueue, APartyWithManyCallsWaitsBehindTheOthers) {
  RoundRobinQueue<std::function<void()>> turns;
  std::string done;
  const auto enter = [&](Party who, char name) { turns.Enter(who, [&done, name] { done += name; }); };
  for (const char name : {'a', 'b', 'c', 'd'}) enter(1, name);
  enter(2, 'X');
  enter(3, 'Y');
  turns.Next()();
  enter(2, 'Z');
  while (!turns.empty()) turns.Next()();
  EXPECT_EQ(done, "aXYbZcd");
}

TEST(RoundRobinQueue, WorkThatBringsWorkWaitsItsTurn) {
  RoundRobinQueue<std::function<void()>> turns;
  std::string done;
  turns.Enter(1, [&] {
    done += 'a';
    turns.Enter(1, [&] { done += 'b'; });
  });
  turns.Enter(2, [&] { done += 'X'; });
  while (!turns.empty()) turns.Next()();
  EXPECT_EQ(done, "aXb");
}

TEST(RoundRobinQueue, CountsTheWorkOfEachParty) {
  RoundRobinQueue<std::string> turns;
  turns.Enter(1, "a");
  turns.Enter(1, "b");
  turns.Enter(2, "c");
  EXPECT_EQ(turns.CountOf(1), 2u);
  EXPECT_EQ(turns.CountOf(2), 1u);
  EXPECT_EQ(turns.CountOf(3), 0u);
  turns.Next();
  EXPECT_EQ(turns.CountOf(1), 1u);
}

TEST(RoundRobinQueue, AnExchangeReturnsTheOldestAndKeepsThePartysTurn) {
  RoundRobinQueue<std::string> turns;
  turns.Enter(1, "oldest");
  turns.Enter(1, "middle");
  turns.Enter(2, "other");
  EXPECT_EQ(turns.Exchange(1, "newest"), "oldest");
  EXPECT_EQ(turns.CountOf(1), 2u);
  EXPECT_THAT(All(turns), ElementsAre("middle", "other", "newest"));
}

TEST(RoundRobinQueue, AnExchangeOfTheOnlyWorkKeepsTheTurn) {
  RoundRobinQueue<std::string> turns;
  turns.Enter(1, "old");
  turns.Enter(2, "other");
  EXPECT_EQ(turns.Exchange(1, "new"), "old");
  EXPECT_THAT(All(turns), ElementsAre("new", "other"));
}

}  // namespace
}  // namespace gpuman::base

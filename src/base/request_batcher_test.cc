#include "base/request_batcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace gpuman::base {
namespace {

using ::testing::ElementsAre;

struct Named {
  std::string name;
  std::function<bool()> is_cancelled{};
};

std::string NamesOf(const std::vector<Named>& requests) {
  std::string names;
  for (const auto& request : requests) names += request.name;
  return names;
}

class RequestBatcherTest : public testing::Test {
 protected:
  void EndRound() { std::exchange(done, nullptr)(); }

  std::vector<std::string> rounds;
  std::function<void()> done;  // of the round under way
  RequestBatcher<Named> batcher{[this](const std::vector<Named>& batch, std::function<void()> then) {
    rounds.push_back(NamesOf(batch));
    done = std::move(then);
  }};
};

TEST_F(RequestBatcherTest, ManyRequestsTakeTwoRounds) {
  batcher.Add({"a"});
  for (int i = 0; i < 700; ++i) batcher.Add({"b"});
  EXPECT_THAT(rounds, ElementsAre("a"));
  EndRound();
  EXPECT_THAT(rounds, ElementsAre("a", std::string(700, 'b')));
  EndRound();
  EXPECT_EQ(rounds.size(), 2u);
}

TEST_F(RequestBatcherTest, ARequestSharesNoRoundThatBeganBeforeIt) {
  batcher.Add({"a"});
  batcher.Add({"b"});
  EndRound();
  batcher.Add({"c"});
  EndRound();
  EXPECT_THAT(rounds, ElementsAre("a", "b", "c"));
  EndRound();
  batcher.Add({"d"});
  EXPECT_EQ(rounds.back(), "d") << "at rest it begins at once";
}

TEST_F(RequestBatcherTest, RequestsWhoseClientsHaveGoneCauseNoRound) {
  bool gone = false;
  const auto is_gone = [&gone] { return gone; };
  batcher.Add({"a"});
  batcher.Add({"b", is_gone});
  gone = true;
  EndRound();
  EXPECT_THAT(rounds, ElementsAre("a"));
  batcher.Add({"c", is_gone});
  batcher.Add({"d"});
  EXPECT_THAT(rounds, ElementsAre("a", "d"));
}

TEST(RequestBatcher, ARoundMayEndAtOnceOrAfterTheBatcher) {
  std::vector<std::string> rounds;
  std::function<void()> kept;
  {
    RequestBatcher<Named> batcher([&](const std::vector<Named>& batch, std::function<void()> done) {
      rounds.push_back(NamesOf(batch));
      if (rounds.size() == 3) {
        kept = std::move(done);
        return;
      }
      done();
    });
    for (const char* name : {"a", "b", "c", "d"}) batcher.Add({name});
  }
  kept();
  EXPECT_THAT(rounds, ElementsAre("a", "b", "c"));
}

TEST(WaitingRequests, ThoseOfClientsThatHaveGoneTakeNoMemory) {
  const auto kept = std::make_shared<int>(0);
  WaitingRequests<Named> waiting;
  waiting.Add({"stays"});
  for (int i = 0; i < 100'000; ++i) {
    waiting.Add({"gone", [kept] { return true; }});
    ASSERT_LT(kept.use_count(), 1000);
  }
  for (int i = 0; i < 1000; ++i) waiting.Add({"s"});
  const auto all = waiting.TakeAll();
  EXPECT_EQ(NamesOf(all), "stays" + std::string(1000, 's'));
  EXPECT_TRUE(waiting.empty());
}

}  // namespace
}  // namespace gpuman::base

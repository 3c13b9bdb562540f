#include "base/post_queue.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace gpuman::base {
namespace {

class FakeClock final : public Clock {
 public:
  MonoTime Mono() const override { return now; }
  WallTime Wall() const override { return {}; }
  MonoTime now{};
};

class PostQueueTest : public testing::Test {
 protected:
  // A call that takes `time` and writes its name.
  PostQueue::Call Named(const std::string& name, std::chrono::microseconds time) {
    return [this, name, time] {
      done += name;
      clock->now += time;
    };
  }
  bool RunOne() {
    if (posted.empty()) return false;
    const auto next = std::move(posted.front());
    posted.pop_front();
    next();
    return true;
  }

  std::deque<PostQueue::Call> posted;
  std::shared_ptr<FakeClock> clock = std::make_shared<FakeClock>();
  PostQueue queue{[this](PostQueue::Call call) { posted.push_back(std::move(call)); }, clock};
  std::string done;
};

TEST_F(PostQueueTest, OtherWorkOfTheLoopRunsBetweenLongCalls) {
  for (const char* name : {"a", "b", "c", "d"}) queue.Add(Named(name, PostQueue::kTurn / 2));
  posted.push_back(Named("X", {}));
  EXPECT_EQ(done, "") << "nothing is called within Add";
  while (RunOne()) {
  }
  EXPECT_EQ(done, "abXcd");
}

TEST_F(PostQueueTest, ShortCallsRunTogetherInTheirOrder) {
  for (const char* name : {"a", "b", "c", "d"}) queue.Add(Named(name, {}));
  EXPECT_TRUE(RunOne());
  EXPECT_EQ(done, "abcd");
  EXPECT_FALSE(RunOne());
}

TEST_F(PostQueueTest, ACallAddedByACallRunsAfterTheQueuedOnes) {
  queue.Add([this] { queue.Add(Named("c", {})); });
  queue.Add(Named("b", {}));
  while (RunOne()) {
  }
  EXPECT_EQ(done, "bc");
}

TEST_F(PostQueueTest, QueuedCallsOutliveTheQueue) {
  {
    PostQueue shorter([this](PostQueue::Call call) { posted.push_back(std::move(call)); }, clock);
    shorter.Add(Named("a", PostQueue::kTurn));
    shorter.Add(Named("b", {}));
  }
  while (RunOne()) {
  }
  EXPECT_EQ(done, "ab");
}

TEST(PostQueue, CallsAddedByManyThreadsRunOnOneInOrder) {
  std::mutex mutex;
  std::deque<PostQueue::Call> posted;
  PostQueue queue([&](PostQueue::Call call) {
    const std::lock_guard lock(mutex);
    posted.push_back(std::move(call));
  });
  constexpr int kThreads = 4, kEach = 5000;
  std::vector<int> last(kThreads, -1);
  int wrong = 0, called = 0;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int who = 0; who < kThreads; ++who) {
    threads.emplace_back([&, who] {
      for (int i = 0; i < kEach; ++i)
        queue.Add([&, who, i] {
          wrong += last[static_cast<std::size_t>(who)] + 1 != i;
          last[static_cast<std::size_t>(who)] = i;
          ++called;
        });
    });
  }
  while (called < kThreads * kEach) {
    PostQueue::Call next;
    {
      const std::lock_guard lock(mutex);
      if (posted.empty()) continue;
      next = std::move(posted.front());
      posted.pop_front();
    }
    next();
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace gpuman::base

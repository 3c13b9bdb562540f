#include "base/fair_task_executor.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <utility>

namespace gpuman::base {
namespace {

// The threads and the loop are lists; the test runs one function after the other.
class FairTaskExecutorTest : public testing::Test {
 protected:
  using Posted = std::deque<std::function<void()>>;
  static Executor To(Posted& list) {
    return [&list](std::function<void()> act) { list.push_back(std::move(act)); };
  }
  static void Next(Posted& list) {
    const auto act = std::move(list.front());
    list.pop_front();
    act();
  }
  void Run() {
    while (!threads.empty() || !loop.empty()) Next(threads.empty() ? loop : threads);
  }
  FairTaskExecutor::Task Named(char name) {
    return {[this, name] { worked += name; }, [this, name] { told += name; }};
  }
  void Add(FairTaskExecutor& queue, Party user, const std::string& names) {
    for (const char name : names) queue.Add(user, Named(name));
  }

  Posted threads, loop;
  std::string worked, told;
};

TEST_F(FairTaskExecutorTest, UsersTakeTurnsHoweverManyTasksOneOfThemHas) {
  FairTaskExecutor queue(To(threads), To(loop), {.of_all = 1});
  Add(queue, 1, "abcdef");
  Add(queue, 2, "XY");
  Add(queue, 3, "Z");
  Run();
  EXPECT_EQ(worked, "aXZbYcdef");
  EXPECT_EQ(told, worked);
}

TEST_F(FairTaskExecutorTest, AnAddressTakesTurnsWithTheUserOfTheSameNumber) {
  FairTaskExecutor queue(To(threads), To(loop), {.of_all = 1});
  Add(queue, 7, "abc");
  Add(queue, Party{1} << 32 | 7, "X");
  Run();
  EXPECT_EQ(worked, "aXbc");
}

TEST_F(FairTaskExecutorTest, AUserHasOneTaskUnderWayThoughThreadsAreFree) {
  FairTaskExecutor queue(To(threads), To(loop), {.of_all = 3});
  Add(queue, 1, "abc");
  EXPECT_EQ(threads.size(), 1u);
  Add(queue, 2, "X");
  EXPECT_EQ(threads.size(), 2u) << "the first of user 1 is not done, and keeps nobody back";
  Next(threads);
  EXPECT_EQ(threads.size(), 1u) << "the loop has not heard yet that it is done";
  Next(loop);
  EXPECT_EQ(threads.size(), 2u);
  Run();
  EXPECT_EQ(worked, "aXbc");
}

TEST_F(FairTaskExecutorTest, OneUserMayHaveAllThreadsWhereThatIsTheBound) {
  FairTaskExecutor queue(To(threads), To(loop), {.of_all = 2, .of_user = 2});
  Add(queue, 1, "abcd");
  Add(queue, 2, "X");
  EXPECT_EQ(threads.size(), 2u);
  Run();
  EXPECT_EQ(worked, "abXcd");
}

TEST_F(FairTaskExecutorTest, ATaskBeginsOnTheLoopWhenItsTurnHasCome) {
  FairTaskExecutor queue(To(threads), To(loop), {.of_all = 1});
  int copies = 0;
  for (int i = 0; i < 3; ++i) queue.Add(1, {[this] { worked += 'w'; }, {}, [&] { ++copies; }});
  EXPECT_EQ(copies, 1) << "those that wait take nothing";
  Next(threads);
  EXPECT_EQ(copies, 1);
  Next(loop);
  EXPECT_EQ(copies, 2);
  Run();
  EXPECT_EQ(copies, 3);
  EXPECT_EQ(worked, "www");
}

TEST_F(FairTaskExecutorTest, ATaskIsDestroyedOnTheLoop) {
  FairTaskExecutor queue(To(threads), To(loop), {});
  auto kept = std::make_shared<int>(0);
  queue.Add(1, {[kept] { ++*kept; }});
  Next(threads);
  EXPECT_EQ(kept.use_count(), 2);
  Next(loop);
  EXPECT_EQ(kept.use_count(), 1);
}

TEST_F(FairTaskExecutorTest, ATaskThatIsDoneMayAddAnother) {
  FairTaskExecutor queue(To(threads), To(loop), {});
  queue.Add(1, {[this] { worked += 'a'; }, [&] { Add(queue, 1, "b"); }});
  Run();
  EXPECT_EQ(worked, "ab");
}

TEST_F(FairTaskExecutorTest, TheWaitingTasksOfAUserHaveABoundThatBindsNoOtherUser) {
  FairTaskExecutor queue(To(threads), To(loop), {.of_all = 1, .waiting_of_user = 2});
  EXPECT_TRUE(queue.AddIfRoom(1, Named('a'))) << "under way";
  EXPECT_TRUE(queue.AddIfRoom(1, Named('b')));
  EXPECT_TRUE(queue.AddIfRoom(1, Named('c')));
  EXPECT_FALSE(queue.AddIfRoom(1, Named('d')));
  EXPECT_TRUE(queue.AddIfRoom(2, Named('X')));
  queue.Add(1, Named('!'));  // has to be done
  Run();
  EXPECT_EQ(worked, "aXbc!");
  EXPECT_TRUE(queue.AddIfRoom(1, Named('e')));
  Run();
  EXPECT_EQ(worked, "aXbc!e");
}

TEST_F(FairTaskExecutorTest, ATaskThatIsCancelledBeforeItsTurnIsDroppedWithoutItsWork) {
  FairTaskExecutor queue(To(threads), To(loop), {.of_all = 1});
  bool gone = false;
  const auto kept = std::make_shared<int>(0);
  const auto cancellable = [&](char name) {
    auto task = Named(name);
    task.begin = [kept] { ++*kept; };
    task.is_cancelled = [&gone, kept] { return gone; };
    return task;
  };
  queue.Add(1, cancellable('a'));
  for (const char name : {'b', 'c'}) queue.Add(1, cancellable(name));
  queue.Add(1, Named('d'));
  queue.Add(2, cancellable('X'));
  queue.Add(2, Named('Y'));
  queue.Add(3, cancellable('Z'));  // its user has no other
  gone = true;
  Run();
  EXPECT_EQ(worked, "aYd") << "what is under way goes on";
  EXPECT_EQ(told, worked);
  EXPECT_EQ(*kept, 1);
  EXPECT_EQ(kept.use_count(), 1);
  queue.Add(3, Named('e'));
  Run();
  EXPECT_EQ(worked, "aYde");
}

TEST_F(FairTaskExecutorTest, TasksThatAreCancelledTakeNoMemoryThoughTheirTurnDoesNotCome) {
  FairTaskExecutor queue(To(threads), To(loop), {.of_all = 1, .waiting_of_user = 100});
  queue.Add(1, Named('a'));
  const auto kept = std::make_shared<int>(0);
  for (const bool has_to_be_done : {false, true}) {
    for (int i = 0; i < 10'000; ++i) {
      FairTaskExecutor::Task task{.work = [kept] { ++*kept; }, .is_cancelled = [] { return true; }};
      if (has_to_be_done)
        queue.Add(1, std::move(task));
      else
        ASSERT_TRUE(queue.AddIfRoom(1, std::move(task)));
      ASSERT_LT(kept.use_count(), 110);
    }
  }
  Run();
  EXPECT_EQ(worked, "a");
  EXPECT_EQ(*kept, 0);
}

// The task that is dropped is the only one of its user, who is forgotten with it.
TEST_F(FairTaskExecutorTest, ADroppedTaskMayAddAnotherWhenItIsDestroyed) {
  FairTaskExecutor queue(To(threads), To(loop), {.of_all = 1});
  bool cancelled = false;
  queue.Add(1, Named('a'));
  {
    std::shared_ptr<void> adds_another(nullptr, [&](void*) { queue.Add(2, Named('X')); });
    auto dropped = Named('b');
    dropped.begin = [owned = std::move(adds_another)] {};
    dropped.is_cancelled = [&] { return cancelled; };
    queue.Add(2, std::move(dropped));
  }
  cancelled = true;
  Run();
  EXPECT_EQ(worked, "aX");
}

TEST_F(FairTaskExecutorTest, TheEndDropsWaitingTasksAndSilencesRunningOnes) {
  {
    FairTaskExecutor queue(To(threads), To(loop), {.of_all = 1});
    Add(queue, 1, "ab");
  }
  Run();
  EXPECT_EQ(worked, "a");
  EXPECT_EQ(told, "");
}

}  // namespace
}  // namespace gpuman::base

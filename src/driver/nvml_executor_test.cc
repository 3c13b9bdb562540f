#include "driver/nvml_executor.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <future>
#include <iterator>
#include <mutex>
#include <thread>
#include <vector>

namespace gpuman::driver {
namespace {

constexpr base::Millis kDeadline{60'000};  // only ends a test that has failed

// Threads that call the driver are on their own: the last may end after its test. The look for leaks at the
// end of the program would find what such a thread is about to free.
class AwaitThreads : public testing::Environment {
 public:
  void TearDown() override {
    const std::filesystem::path threads("/proc/self/task");
    while (std::distance(std::filesystem::directory_iterator(threads), {}) > 1)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
};
[[maybe_unused]] const testing::Environment* const kAwaitThreads =
    testing::AddGlobalTestEnvironment(new AwaitThreads);

// The queue of a loop.
class Loop {
 public:
  base::Executor Executor() {
    return [this](std::function<void()> act) {
      const std::lock_guard lock(mutex_);
      posted_.push_back(std::move(act));
      changed_.notify_all();
    };
  }
  bool Await(std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kDeadline, [&] { return posted_.size() >= count; });
  }
  void Run() {
    for (const auto& act : posted_) act();
  }
  std::size_t count() {
    const std::lock_guard lock(mutex_);
    return posted_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::function<void()>> posted_;
};

TEST(NvmlExecutor, WorkIsDoneOnAThreadOfItsOwnAndItsEndIsPosted) {
  Loop loop;
  NvmlExecutor executor(NvmlExecutor::Order::kAtOnce, loop.Executor());
  std::thread::id where;
  bool ended = false;
  executor.Run([&](const LoadedNvml&) { where = std::this_thread::get_id(); }, [&] { ended = true; });
  ASSERT_TRUE(loop.Await(1));
  EXPECT_FALSE(ended) << "the loop has not run";
  loop.Run();
  EXPECT_TRUE(ended);
  EXPECT_NE(where, std::this_thread::get_id());
  EXPECT_TRUE(executor.Stop(kDeadline));
}

TEST(NvmlExecutor, WorkKnowsTheDriverOrWhyThereIsNone) {
  Loop loop;
  NvmlExecutor executor(NvmlExecutor::Order::kAtOnce, loop.Executor());
  bool one_of_both = false;
  executor.Run([&](const LoadedNvml& nvml) { one_of_both = !nvml || *nvml; }, [] {});
  ASSERT_TRUE(loop.Await(1));
  EXPECT_TRUE(one_of_both);
}

TEST(NvmlExecutor, AHungCallBlocksNoOtherAndReportsNothingAfterStop) {
  Loop loop;
  NvmlExecutor executor(NvmlExecutor::Order::kAtOnce, loop.Executor());
  std::promise<void> release;
  executor.Run([released = release.get_future().share()](const LoadedNvml&) { released.wait(); }, [] {});
  executor.Run([](const LoadedNvml&) {}, [] {});
  ASSERT_TRUE(loop.Await(1));
  EXPECT_FALSE(executor.Stop(base::Millis(0)));
  release.set_value();
  EXPECT_TRUE(executor.Stop(kDeadline));
  EXPECT_EQ(loop.count(), 1U);
  executor.Run([](const LoadedNvml&) { ADD_FAILURE() << "it was stopped"; }, [] {});
  EXPECT_TRUE(executor.Stop(kDeadline));
}

TEST(NvmlExecutor, WorkInOrderWaitsForTheWorkBeforeIt) {
  Loop loop;
  NvmlExecutor executor(NvmlExecutor::Order::kInOrder, loop.Executor());
  std::promise<void> release;
  std::vector<int> done;  // written by the one thread
  executor.Run(
      [&](const LoadedNvml&) {
        release.get_future().wait();
        done.push_back(0);
      },
      [] {});
  for (int i = 1; i < 20; ++i) executor.Run([&, i](const LoadedNvml&) { done.push_back(i); }, [] {});
  release.set_value();
  ASSERT_TRUE(loop.Await(20));
  ASSERT_TRUE(executor.Stop(kDeadline));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(done.at(static_cast<std::size_t>(i)), i);
}

TEST(NvmlExecutor, WorkThatHasNotBegunIsDroppedAtTheEnd) {
  Loop loop;
  NvmlExecutor executor(NvmlExecutor::Order::kInOrder, loop.Executor());
  std::promise<void> begun, release;
  executor.Run(
      [&](const LoadedNvml&) {
        begun.set_value();
        release.get_future().wait();
      },
      [] {});
  executor.Run([](const LoadedNvml&) { ADD_FAILURE() << "it was stopped"; }, [] {});
  begun.get_future().wait();
  EXPECT_FALSE(executor.Stop(base::Millis(0)));
  release.set_value();
  EXPECT_TRUE(executor.Stop(kDeadline));
  EXPECT_EQ(loop.count(), 0U);
}

}  // namespace
}  // namespace gpuman::driver

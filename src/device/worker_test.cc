#include "device/worker.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

namespace gpuman::device {
namespace {

constexpr base::Millis kDeadline{60'000};  // only ends a test that has failed

// The queue of a loop.
class Loop {
 public:
  Worker::Post Post() {
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

TEST(DeviceWorker, WorkIsDoneOnAThreadOfItsOwnAndItsEndIsPosted) {
  Loop loop;
  Worker worker(loop.Post());
  std::thread::id where;
  bool ended = false;
  worker.Do([&](const driver::Nvml*, const base::Error*) { where = std::this_thread::get_id(); },
            [&] { ended = true; });
  ASSERT_TRUE(loop.Await(1));
  EXPECT_FALSE(ended) << "the loop has not run";
  loop.Run();
  EXPECT_TRUE(ended);
  EXPECT_NE(where, std::this_thread::get_id());
  EXPECT_TRUE(worker.Stop(kDeadline));
}

TEST(DeviceWorker, WorkKnowsTheDriverOrWhyThereIsNone) {
  Loop loop;
  Worker worker(loop.Post());
  bool one_of_both = false;
  worker.Do([&](const driver::Nvml* nvml,
                const base::Error* error) { one_of_both = (nvml == nullptr) != (error == nullptr); },
            [] {});
  ASSERT_TRUE(loop.Await(1));
  EXPECT_TRUE(one_of_both);
}

TEST(DeviceWorker, WhatHangsHoldsUpNothingElseAndReachesNobodyAfterTheEnd) {
  Loop loop;
  Worker worker(loop.Post());
  std::promise<void> release;
  worker.Do(
      [released = release.get_future().share()](const driver::Nvml*, const base::Error*) { released.wait(); },
      [] {});
  worker.Do([](const driver::Nvml*, const base::Error*) {}, [] {});
  ASSERT_TRUE(loop.Await(1));
  EXPECT_FALSE(worker.Stop(base::Millis(0)));
  release.set_value();
  EXPECT_TRUE(worker.Stop(kDeadline));
  EXPECT_EQ(loop.count(), 1U);
  worker.Do([](const driver::Nvml*, const base::Error*) { ADD_FAILURE() << "it was stopped"; }, [] {});
  EXPECT_TRUE(worker.Stop(kDeadline));
}

}  // namespace
}  // namespace gpuman::device

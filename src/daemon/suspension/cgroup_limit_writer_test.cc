#include "daemon/suspension/cgroup_limit_writer.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace gpuman::daemon {
namespace {

using base::MiB;

// A simulated kernel: setting a limit takes as long as the test wants, and lifting one takes no time.
class MemoryLimitsTest : public ::testing::Test {
 protected:
  // Threads may outlive the test, so they share the ownership of what they use.
  struct Kernel {
    void Write(const std::filesystem::path& cgroup, std::optional<base::Bytes> limit) {
      std::unique_lock lock(mutex);
      began.push_back(Line(cgroup, limit));
      if (limit && std::this_thread::get_id() == loop) on_loop = true;
      change.notify_all();
      if (limit) change.wait(lock, [&] { return !slow; });
      done.push_back(Line(cgroup, limit));
      change.notify_all();
    }
    static std::string Line(const std::filesystem::path& cgroup, std::optional<base::Bytes> limit) {
      return cgroup.string() + (limit ? " " + std::to_string(limit->count >> 20) : " max");
    }
    std::mutex mutex;
    std::condition_variable change;
    std::vector<std::string> began, done;
    bool slow = true;
    bool on_loop = false;
    const std::thread::id loop = std::this_thread::get_id();
  };

  ~MemoryLimitsTest() override { Finish(); }
  void AwaitBegan(std::size_t writes) {
    std::unique_lock lock(kernel_->mutex);
    kernel_->change.wait(lock, [&] { return kernel_->began.size() >= writes; });
  }
  std::vector<std::string> AwaitDone(std::size_t writes) {
    std::unique_lock lock(kernel_->mutex);
    kernel_->change.wait(lock, [&] { return kernel_->done.size() >= writes; });
    return kernel_->done;
  }
  void Finish() {
    const std::lock_guard lock(kernel_->mutex);
    kernel_->slow = false;
    kernel_->change.notify_all();
  }

  const std::shared_ptr<Kernel> kernel_ = std::make_shared<Kernel>();
  CgroupLimitWriter limits_{
      [kernel = kernel_](const auto& cgroup, auto limit) { kernel->Write(cgroup, limit); }};
};

using Lines = std::vector<std::string>;

TEST_F(MemoryLimitsTest, ALimitIsSetByAThreadAndHoldsUpNeitherTheCallerNorAnotherJob) {
  limits_.Set("a", MiB(100));
  limits_.Set("b", MiB(200));
  AwaitBegan(2);
  EXPECT_TRUE(kernel_->done.empty());
  EXPECT_FALSE(kernel_->on_loop);
  Finish();
  EXPECT_TRUE(limits_.Stop(base::Millis{60'000}));
}

TEST_F(MemoryLimitsTest, ALimitIsLiftedAtOnce) {
  limits_.Set("a", std::nullopt);
  EXPECT_EQ(kernel_->done, Lines{"a max"});
}

TEST_F(MemoryLimitsTest, LastLimitIsWrittenAfterTheOneUnderWay) {
  limits_.Set("a", MiB(100));
  AwaitBegan(1);
  limits_.Set("a", std::nullopt);
  EXPECT_EQ(kernel_->done, Lines{"a max"}) << "while the other is under way";
  Finish();
  EXPECT_EQ(AwaitDone(3), (Lines{"a max", "a 100", "a max"}));
  EXPECT_TRUE(limits_.Stop(base::Millis{60'000}));
}

TEST_F(MemoryLimitsTest, OnlyLastOfSeveralPendingLimitsIsWritten) {
  limits_.Set("a", MiB(100));
  AwaitBegan(1);
  for (const std::uint64_t size : {101u, 102u, 103u}) limits_.Set("a", MiB(size));
  Finish();
  EXPECT_EQ(AwaitDone(2), (Lines{"a 100", "a 103"}));
  EXPECT_TRUE(limits_.Stop(base::Millis{60'000}));
  EXPECT_EQ(kernel_->done.size(), 2u);
}

TEST_F(MemoryLimitsTest, TheEndDoesNotWaitForTheKernel) {
  limits_.Set("a", MiB(100));
  AwaitBegan(1);
  EXPECT_FALSE(limits_.Stop(base::Millis{0}));
  limits_.Set("a", MiB(200));
  limits_.Set("b", MiB(200));
  EXPECT_EQ(kernel_->began, Lines{"a 100"}) << "nothing is begun any more";
}

}  // namespace
}  // namespace gpuman::daemon

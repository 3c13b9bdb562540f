#include "mover/thread_group.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>

namespace gpuman::mover {
namespace {

using namespace std::chrono_literals;

TEST(ThreadGroup, DestructorWaitsForThreadsAndTheirFunctions) {
  std::atomic<int> ran = 0, gone = 0;
  struct Slow {
    std::atomic<int>& gone;
    ~Slow() {
      std::this_thread::sleep_for(100ms);
      ++gone;
    }
  };
  ThreadGroup workers;
  for (int i = 0; i < 4; ++i) workers.Run([&ran, held = std::shared_ptr<Slow>(new Slow{gone})] { ++ran; });
  workers.Wait();
  EXPECT_EQ(ran, 4);
  EXPECT_EQ(gone, 4);
}

TEST(ThreadGroup, ThreadMayStartMoreThreads) {
  std::atomic<int> ran = 0;
  {
    ThreadGroup workers;
    workers.Run([&] { workers.Run([&] { ++ran; }); });
  }
  EXPECT_EQ(ran, 1);
}

}  // namespace
}  // namespace gpuman::mover

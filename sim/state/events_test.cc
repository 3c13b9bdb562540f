#include <thread>

#include "sim/state/state.h"
#include "sim/state/test_state.h"

namespace gpuman::sim {
namespace {

constexpr std::uint64_t kXid = 8;

EventFilter All(std::uint64_t types) {
  EventFilter filter;
  for (std::uint64_t& type : filter.types) type = types;
  return filter;
}

TEST(Events, WakeAWaiterInAnotherThread) {
  TestState test({.gpus = 2});
  std::uint64_t next = 0;
  std::optional<EventRecord> seen;
  std::thread waiter([&] { seen = WaitEvent(test.shared(), All(kXid), next, -1); });
  PostEvent(test.shared(), 1, kXid, 79);
  waiter.join();
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->gpu, 1u);
  EXPECT_EQ(seen->data, 79u);
}

TEST(Events, PassTheFilterOfGpuAndType) {
  TestState test({.gpus = 2});
  EventFilter filter;
  filter.types[1] = kXid;
  std::uint64_t next = 0;
  PostEvent(test.shared(), 0, kXid, 1);
  PostEvent(test.shared(), 1, 1, 2);
  PostEvent(test.shared(), 1, kXid, 3);
  const auto event = WaitEvent(test.shared(), filter, next, 0);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->data, 3u);
  EXPECT_FALSE(WaitEvent(test.shared(), filter, next, 0));
}

TEST(Events, AreSkippedWhenTheRingHasOverrunAReader) {
  TestState test;
  for (std::uint64_t i = 0; i < 3 * kEventRingSize; ++i) PostEvent(test.shared(), 0, kXid, i);
  std::uint64_t next = 0;
  const auto event = WaitEvent(test.shared(), All(kXid), next, 0);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->data, 2 * kEventRingSize);
}

TEST(SlowCalls, AHangEndsWhenTheFaultIsCleared) {
  TestState test;
  SlowCall& call = test.shared().faults.slow_calls[0];
  call.gpu.store(kAllGpus);
  call.hang.store(1);
  call.active.store(1);
  test.shared().faults.slow_calls_active.store(1);
  std::atomic<bool> returned = false;
  std::thread caller([&] {
    ObeySlowCalls(test.shared(), "nvmlDeviceGetTemperature", 0);
    returned = true;
  });
  std::this_thread::yield();
  EXPECT_FALSE(returned);
  call.active.store(0);
  test.shared().faults.change.fetch_add(1);
  FutexWakeAll(test.shared().faults.change);
  caller.join();
  EXPECT_TRUE(returned);
}

}  // namespace
}  // namespace gpuman::sim

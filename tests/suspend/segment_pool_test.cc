// Host memory ahead of need, on the simulated driver with GPUs of two nodes.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/test_numa.h"
#include "gpus_fixture.h"
#include "mover/layout.h"
#include "mover/segments.h"

namespace gpuman::mover {
namespace {

constexpr std::uint64_t kSmall = kSmallSegment;
constexpr int kNear = 0, kFar = 7;  // GPUs of the first node and of the last

class SegmentPoolTest : public GpusTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(GpusTest::SetUp());
    ASSERT_NE(gpus->HostNode(kNear), gpus->HostNode(kFar));
    pool.emplace(*gpus);
  }
  // Until so many bytes are ready.
  void AwaitReady(std::uint64_t bytes) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (pool->free_bytes() != bytes && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_EQ(pool->free_bytes(), bytes);
  }
  std::vector<Segment> Take(int gpu, std::size_t count) {
    auto taken = pool->Take(gpu, std::vector<std::uint64_t>(count, kSmall));
    EXPECT_TRUE(taken);
    return taken ? std::move(*taken) : std::vector<Segment>();
  }

  std::optional<SegmentPool> pool;
};

TEST_F(SegmentPoolTest, AGpusMemoryIsOfItsNode) {
  for (const int gpu : {kNear, kFar}) {
    const auto segments = Take(gpu, 1);
    ASSERT_EQ(segments.size(), 1u);
    EXPECT_EQ(segments[0].node(), gpus->HostNode(gpu));
    // This machine may have fewer nodes than the simulated one.
    const auto node = base::PreferredNode(segments[0].at());
    EXPECT_EQ(node.value_or(*gpus->HostNode(gpu)), gpus->HostNode(gpu));
  }
}

TEST_F(SegmentPoolTest, MemoryLiesWhereItCanHaveHugePages) {
  constexpr std::uint64_t kHugePage = std::uint64_t{2} << 20;
  for (const Segment& segment : Take(kNear, 3))
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(segment.at()) % kHugePage, 0u);
}

TEST_F(SegmentPoolTest, ReadySegmentsAreTakenNearTheGpuThenElsewhere) {
  pool->Want({{kNear, {kSmall}}, {kFar, {kSmall}}});
  ASSERT_NO_FATAL_FAILURE(AwaitReady(2 * kSmall));
  auto segments = Take(kFar, 2);
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_EQ(segments[0].node(), gpus->HostNode(kFar));
  EXPECT_EQ(segments[1].node(), gpus->HostNode(kNear));
  EXPECT_EQ(pool->free_bytes(), 0u);
  pool->Give(std::move(segments));
  EXPECT_EQ(pool->free_bytes(), 2 * kSmall);
  EXPECT_EQ(Take(kNear, 1)[0].node(), gpus->HostNode(kNear)) << "each went back to its node";
}

// A gang: each process takes segments of its own.
TEST_F(SegmentPoolTest, EachProcessFindsItsOwnRestReady) {
  pool->Want({{kNear, {3 * kSmall, 5 * kSmall}}, {kFar, {2 * kSmall}}});
  ASSERT_NO_FATAL_FAILURE(AwaitReady(10 * kSmall));
  const auto one = Take(kNear, 3), other = Take(kFar, 2), last = Take(kNear, 5);
  EXPECT_EQ(pool->free_bytes(), 0u);
}

TEST_F(SegmentPoolTest, TheDesiredSizeIsTheBound) {
  pool->Want({{kNear, {4 * kSmall}}});
  ASSERT_NO_FATAL_FAILURE(AwaitReady(4 * kSmall));
  auto taken = Take(kNear, 3);
  pool->Want({{kNear, {5 * kSmall}}});
  ASSERT_NO_FATAL_FAILURE(AwaitReady(2 * kSmall)) << "what holds data counts";
  pool->Give(std::move(taken));
  EXPECT_LE(pool->free_bytes(), 5 * kSmall + kSlack);
}

// On a machine that has room for five small segments.
TEST_F(SegmentPoolTest, WhereThereIsNoRoomFreeSegmentsOfOtherSizesGiveWay) {
  std::atomic<std::uint64_t> taken = 0;
  pool.emplace(*gpus, [&](std::uint64_t bytes) { return taken + pool->free_bytes() + bytes <= 5 * kSmall; });
  pool->Want({{kNear, {4 * kSmall}}});
  ASSERT_NO_FATAL_FAILURE(AwaitReady(4 * kSmall));
  auto large = pool->Take(kNear, {4 * kSmall});
  ASSERT_TRUE(large) << large.error().message;
  taken = 4 * kSmall;
  EXPECT_EQ(pool->free_bytes(), kSmall) << "no more than was needed";
  const auto refused = pool->Take(kNear, {2 * kSmall});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, base::ErrorCode::kExhausted);
  pool->Give(std::move(*large));
  taken = 0;
  EXPECT_TRUE(pool->Take(kFar, {2 * kSmall})) << "of the other node's memory";
}

TEST_F(SegmentPoolTest, AGpuGetsItsContextBeforeItIsNeeded) {
  pool->Want({{kFar, {kSmall}}});
  ASSERT_NO_FATAL_FAILURE(AwaitReady(kSmall));
  unsigned flags = 0;
  int active = 0;
  ASSERT_EQ(cuda->calls().cuDevicePrimaryCtxGetState(kFar, &flags, &active), driver::abi::CUDA_SUCCESS);
  EXPECT_EQ(active, 1);
}

}  // namespace
}  // namespace gpuman::mover

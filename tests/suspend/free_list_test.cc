// Device memory that one process has given up and the next one gets, on the simulated driver.
#include <gtest/gtest.h>

#include "gpus_fixture.h"
#include "mover/gpu_memory_free_list.h"

namespace gpuman::mover {
namespace {

namespace abi = driver::abi;

constexpr std::uint64_t kBytes = std::uint64_t{4} << 20;

class FreeListTest : public GpusTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(GpusTest::SetUp());
    free_at_first = Free();
  }
  std::uint64_t Free() {
    std::size_t free = 0, total = 0;
    EXPECT_EQ(cuda->calls().cuMemGetInfo_v2(&free, &total), abi::CUDA_SUCCESS);
    return free;
  }
  std::uint64_t Taken() { return free_at_first - Free(); }
  // As a process hands it out: the process itself keeps nothing of it.
  GpuMemoryFreeList::Block HandedOut(std::uint64_t bytes = kBytes) {
    auto made = gpus->Create(0, bytes);
    EXPECT_TRUE(made);
    auto file = gpus->Export(*made);
    EXPECT_TRUE(file);
    auto imported = gpus->Import(file->get(), bytes);
    EXPECT_TRUE(imported);
    return {std::move(*imported), std::move(*file)};
  }
  void Leave(GpuMemoryFreeList::Block block) {
    free_list.Leave(std::move(block.memory), std::move(block.file));
  }

  GpuMemoryFreeList free_list;
  std::uint64_t free_at_first = 0;
};

TEST_F(FreeListTest, MemoryThatNobodyExpectsGoes) {
  Leave(HandedOut());
  EXPECT_EQ(Taken(), 0u);
  EXPECT_FALSE(free_list.Take(0, kBytes));
}

TEST_F(FreeListTest, ExpectedMemoryIsHandedOverAsItIs) {
  free_list.Expect(0, kBytes);
  GpuMemoryFreeList::Block left = HandedOut();
  const auto address = left.memory.address();
  Leave(std::move(left));
  EXPECT_EQ(Taken(), kBytes);
  const auto got = free_list.Take(0, kBytes);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->memory.address(), address);
  EXPECT_TRUE(gpus->Import(got->file.get(), kBytes)) << "it can be passed on";
}

TEST_F(FreeListTest, NoMoreIsKeptThanIsExpected) {
  free_list.Expect(0, kBytes);
  for (int i = 0; i < 3; ++i) Leave(HandedOut());
  EXPECT_EQ(Taken(), kBytes);
}

TEST_F(FreeListTest, MemoryOfAnotherSizeServesNobody) {
  free_list.Expect(0, 2 * kBytes);
  Leave(HandedOut());
  EXPECT_EQ(Taken(), 0u);
  EXPECT_FALSE(free_list.Take(0, 2 * kBytes));
}

TEST_F(FreeListTest, MemoryThatIsNoLongerExpectedIsFreed) {
  for (int i = 0; i < 2; ++i) free_list.Expect(0, kBytes);
  for (int i = 0; i < 2; ++i) Leave(HandedOut());
  free_list.Cancel(0, kBytes);
  EXPECT_EQ(Taken(), kBytes);
  free_list.Cancel(0, kBytes);
  EXPECT_EQ(Taken(), 0u);
}

TEST_F(FreeListTest, WhereTheGpuHasNoRoomAllGoes) {
  free_list.Expect(0, kBytes);
  Leave(HandedOut());
  EXPECT_TRUE(free_list.Empty());
  EXPECT_EQ(Taken(), 0u);
  EXPECT_FALSE(free_list.Empty());
  EXPECT_FALSE(free_list.Take(0, kBytes));
}

}  // namespace
}  // namespace gpuman::mover

#include "shim/accounting/virtual_memory.h"
#include "shim/accounting/test_units.h"

#include <gtest/gtest.h>

namespace gpuman::shim {
namespace {

class VirtualMemoryTest : public testing::Test {
 protected:
  ~VirtualMemoryTest() override { account_.Reset(); }
  std::uint64_t Release(std::uint64_t handle) {
    VirtualHandleOrMapping reference{};
    return account_.TakeHandle(handle, reference) ? account_.Dropped(reference).bytes : 0;
  }
  std::uint64_t Unmap(std::uint64_t address, std::uint64_t size) {
    std::uint64_t bytes = 0;
    for (VirtualHandleOrMapping reference{}; account_.TakeMapping(address, size, reference);)
      bytes += account_.Dropped(reference).bytes;
    return bytes;
  }
  VirtualMemory account_{};
};

TEST_F(VirtualMemoryTest, GoesWithItsHandleWhereNothingIsMapped) {
  ASSERT_TRUE(account_.Created(7, 3, 8 * kMiB));
  VirtualHandleOrMapping reference{};
  ASSERT_TRUE(account_.TakeHandle(7, reference));
  const auto back = account_.Dropped(reference);
  EXPECT_EQ(back.device, 3);
  EXPECT_EQ(back.bytes, 8 * kMiB);
  EXPECT_FALSE(account_.TakeHandle(7, reference));
}

TEST_F(VirtualMemoryTest, LivesWhileAHandleOrAMappingDoes) {
  account_.Created(7, 0, 8 * kMiB);
  account_.Mapped(kAt, 8 * kMiB, 7);
  account_.Mapped(2 * kAt, 8 * kMiB, 7);
  EXPECT_EQ(Release(7), 0u);
  EXPECT_EQ(Unmap(kAt, 8 * kMiB), 0u);
  account_.Retained(9, 2 * kAt + kMiB);
  EXPECT_EQ(Unmap(2 * kAt, 8 * kMiB), 0u);
  EXPECT_EQ(Release(9), 8 * kMiB);
}

TEST_F(VirtualMemoryTest, OneUnmapTakesAllMappingsThatLieInItsRange) {
  for (std::uint64_t i = 1; i <= 4; ++i) {
    account_.Created(i, 0, 2 * kMiB);
    account_.Mapped(kAt + i * 2 * kMiB, 2 * kMiB, i);
    EXPECT_EQ(Release(i), 0u);
  }
  EXPECT_EQ(Unmap(kAt, 6 * kMiB), 4 * kMiB);
  EXPECT_EQ(Unmap(kAt, 100 * kMiB), 4 * kMiB);
}

TEST_F(VirtualMemoryTest, MemoryThatTheDriverRefusesToReleaseStays) {
  account_.Created(7, 0, 8 * kMiB);
  account_.Mapped(kAt, 8 * kMiB, 7);
  VirtualHandleOrMapping reference{};
  ASSERT_TRUE(account_.TakeHandle(7, reference));
  account_.PutBackHandle(reference);
  ASSERT_TRUE(account_.TakeMapping(kAt, 8 * kMiB, reference));
  account_.PutBackMapping(reference);
  EXPECT_EQ(Release(7), 0u);
  EXPECT_EQ(Unmap(kAt, 8 * kMiB), 8 * kMiB);
}

TEST_F(VirtualMemoryTest, MemoryOfOthersIsNotKnown) {
  account_.Mapped(kAt, 8 * kMiB, 99);
  account_.Retained(98, kAt);
  EXPECT_EQ(Release(99), 0u);
  EXPECT_EQ(Release(98), 0u);
  EXPECT_EQ(Unmap(kAt, 8 * kMiB), 0u);
}

}  // namespace
}  // namespace gpuman::shim

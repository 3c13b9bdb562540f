#include "shim/accounting/regions.h"
#include "shim/accounting/test_units.h"

#include <gtest/gtest.h>

namespace gpuman::shim {
namespace {

constexpr std::uint64_t kBase = std::uint64_t{1} << 40;

Region At(std::uint64_t offset, std::uint64_t size, std::uint64_t context = 1) {
  return {kBase + offset, size, (size + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB), context, 0};
}

class RegionsTest : public testing::Test {
 protected:
  ~RegionsTest() override { regions_.Reset(); }
  Regions regions_;
};

TEST_F(RegionsTest, AreFoundByAnyAddressThatTheProgramWasGiven) {
  ASSERT_TRUE(regions_.Add(At(100 * kMiB, 3 * kMiB)));
  ASSERT_TRUE(regions_.Add(At(0, 2 * kMiB)));
  EXPECT_EQ(regions_.Find(kBase - 1), nullptr);
  EXPECT_EQ(regions_.Find(kBase)->address, kBase);
  EXPECT_EQ(regions_.Find(kBase + 2 * kMiB - 1)->address, kBase);
  EXPECT_EQ(regions_.Find(kBase + 2 * kMiB), nullptr);
  EXPECT_EQ(regions_.Find(kBase + 103 * kMiB - 1)->address, kBase + 100 * kMiB);
  EXPECT_EQ(regions_.Find(kBase + 103 * kMiB), nullptr);  // mapped, but not given to the program
  EXPECT_EQ(regions_.BytesOn(0), 6 * kMiB);
}

TEST_F(RegionsTest, AreTakenOutByWhereTheyBeginAndByTheirContext) {
  for (unsigned i = 0; i < 1000; ++i) ASSERT_TRUE(regions_.Add(At(i * 4 * kMiB, 2 * kMiB, 1 + i % 2)));
  Region region{};
  EXPECT_FALSE(regions_.Take(kBase + kMiB, region));
  EXPECT_TRUE(regions_.Take(kBase + 4 * kMiB, region));
  EXPECT_FALSE(regions_.Take(kBase + 4 * kMiB, region));
  unsigned taken = 0;
  while (regions_.TakeOneOf(1, region)) ++taken;
  EXPECT_EQ(taken, 500u);
  EXPECT_EQ(regions_.size(), 499u);
  EXPECT_EQ(regions_.BytesOn(0), 499 * 2 * kMiB);
}

TEST_F(RegionsTest, DoNotOverlap) {
  ASSERT_TRUE(regions_.Add(At(10 * kMiB, 4 * kMiB)));
  EXPECT_FALSE(regions_.Add(At(12 * kMiB, 2 * kMiB)));
  EXPECT_FALSE(regions_.Add(At(8 * kMiB, 4 * kMiB)));
  EXPECT_FALSE(regions_.Add(At(10 * kMiB, 4 * kMiB)));
  EXPECT_FALSE(regions_.Add(At(0, 0)));
  EXPECT_TRUE(regions_.Add(At(14 * kMiB, 2 * kMiB)));
  EXPECT_TRUE(regions_.Add(At(8 * kMiB, 2 * kMiB)));
}

TEST_F(RegionsTest, KeepWhoMayDoWhatWithThem) {
  ASSERT_TRUE(regions_.Add(At(0, 2 * kMiB)));
  regions_.SetAccess(kBase, DeviceBit(0) | DeviceBit(63), DeviceBit(0));
  regions_.SetAccess(kBase + kMiB, 0, 0);  // no region begins there
  EXPECT_EQ(regions_.Find(kBase)->readers, DeviceBit(0) | DeviceBit(63));
  EXPECT_EQ(regions_.Find(kBase)->writers, DeviceBit(0));
}

TEST_F(RegionsTest, ComeInPiecesThatOneHandleEachBacks) {
  const Region region = At(0, 2 * kPieceBytes + 3 * kMiB);
  ASSERT_EQ(PiecesOf(region), 3u);
  EXPECT_EQ(PieceOf(region, 1).address, kBase + kPieceBytes);
  EXPECT_EQ(PieceOf(region, 1).bytes, kPieceBytes);
  EXPECT_EQ(PieceOf(region, 2).bytes, 4 * kMiB);
}

}  // namespace
}  // namespace gpuman::shim

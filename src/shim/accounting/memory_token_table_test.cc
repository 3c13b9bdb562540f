#include "shim/accounting/memory_token_table.h"

#include <gtest/gtest.h>

#include "shim/accounting/regions.h"
#include "shim/accounting/test_units.h"

namespace gpuman::shim {
namespace {

class MemoryTokenTableTest : public testing::Test {
 protected:
  ~MemoryTokenTableTest() override { made_.Reset(); }
  std::uint64_t Make(std::uint64_t bytes = 2 * kMiB) {
    TokenAllocation made{};
    made.handle = 77;
    made.bytes = bytes;
    return made_.Add(made);
  }
  unsigned Unmap(std::uint64_t address, std::uint64_t size) {
    unsigned taken = 0;
    for (TokenMapping mapping{}; made_.TakeMapping(address, size, mapping); ++taken) made_.Unmapped(mapping);
    return taken;
  }
  MemoryTokenTable made_{};
};

TEST_F(MemoryTokenTableTest, IsKnownByATokenThatIsNoAddressAndNoOtherOnes) {
  const auto first = Make(), second = Make();
  EXPECT_NE(first, second);
  EXPECT_TRUE(MemoryTokenTable::IsToken(first) && MemoryTokenTable::IsToken(second));
  for (const std::uint64_t handle : {std::uint64_t{0}, std::uint64_t{1}, kAt, ~std::uint64_t{0}})
    EXPECT_FALSE(MemoryTokenTable::IsToken(handle));
  EXPECT_EQ(made_.Held(first)->handle, 77u);
  EXPECT_EQ(made_.Held(second + 1), nullptr);
}

TEST_F(MemoryTokenTableTest, EndsWithItsLastHandleAndItsLastMapping) {
  const auto token = Make();
  made_.Mapped({kAt, token, 2 * kMiB});
  TokenAllocation made{};
  EXPECT_FALSE(made_.TakeEnded(token, made));
  --made_.Held(token)->references;
  EXPECT_EQ(made_.Held(token), nullptr) << "the program has no handle of it";
  EXPECT_NE(made_.Find(token), nullptr);
  EXPECT_FALSE(made_.TakeEnded(token, made));
  EXPECT_EQ(made_.TokenAt(kAt + kMiB), token);
  EXPECT_EQ(Unmap(kAt, 2 * kMiB), 1u);
  EXPECT_EQ(made_.TokenAt(kAt + kMiB), 0u);
  ASSERT_TRUE(made_.TakeEnded(token, made));
  EXPECT_EQ(made.handle, 77u);
  EXPECT_EQ(made_.Find(token), nullptr);
}

TEST_F(MemoryTokenTableTest, ThatIsMappedASecondTimeStaysAndThatIsMappedElsewhereDoesNot) {
  const auto once = Make(), twice = Make();
  made_.Mapped({kAt, once, 2 * kMiB});
  Unmap(kAt, 2 * kMiB);
  made_.Mapped({2 * kAt, once, 2 * kMiB});
  EXPECT_FALSE(made_.Find(once)->stays);
  EXPECT_EQ(made_.Find(once)->address, 2 * kAt);
  made_.Mapped({3 * kAt, twice, 2 * kMiB});
  made_.Mapped({4 * kAt, twice, 2 * kMiB});
  EXPECT_EQ(made_.Find(twice)->address, 3 * kAt) << "where what stood for it is";
  Unmap(4 * kAt, 2 * kMiB);
  EXPECT_TRUE(made_.Find(twice)->stays);
  EXPECT_EQ(made_.Find(twice)->mappings, 1u);
}

TEST_F(MemoryTokenTableTest, IsWholeWhereAllOfItIsMapped) {
  const auto token = Make(8 * kMiB);
  made_.Mapped({kAt, token, 2 * kMiB});
  EXPECT_FALSE(made_.Find(token)->whole);
  Unmap(kAt, 2 * kMiB);
  made_.Mapped({kAt, token, 8 * kMiB});
  EXPECT_TRUE(made_.Find(token)->whole);
}

TEST_F(MemoryTokenTableTest, IsUnmappedByRangesOfWholeMappings) {
  for (std::uint64_t i = 0; i < 1000; ++i) ASSERT_TRUE(made_.Mapped({kAt + i * 2 * kMiB, Make(), 2 * kMiB}));
  EXPECT_EQ(Unmap(kAt + kMiB, 2 * kMiB), 0u);
  EXPECT_EQ(Unmap(kAt + 2 * kMiB, 20 * kMiB), 10u);
  EXPECT_EQ(Unmap(kAt, 2000 * kMiB), 990u);
}

TEST_F(MemoryTokenTableTest, AMappingThatTheDriverRefusesToUnmapStays) {
  const auto token = Make();
  made_.Mapped({kAt, token, 2 * kMiB});
  TokenMapping mapping{};
  ASSERT_TRUE(made_.TakeMapping(kAt, 2 * kMiB, mapping));
  EXPECT_EQ(made_.Find(token)->mappings, 1u);
  made_.PutBack(mapping);
  EXPECT_EQ(Unmap(kAt, 2 * kMiB), 1u);
  EXPECT_EQ(made_.Find(token)->mappings, 0u);
}

TEST_F(MemoryTokenTableTest, OfOthersIsNotKnown) {
  EXPECT_FALSE(made_.Mapped({kAt, 99, 2 * kMiB}));
  EXPECT_EQ(Unmap(kAt, 2 * kMiB), 0u);
}

TEST(RegionOfTheProgram, IsOnePieceWhateverItsSize) {
  Region region{kAt, 3 * kPieceBytes, 3 * kPieceBytes, 0, 0};
  EXPECT_EQ(PiecesOf(region), 3u);
  region.token = MemoryTokenTable::kTag | 1;
  ASSERT_EQ(PiecesOf(region), 1u);
  EXPECT_EQ(PieceOf(region, 0).bytes, 3 * kPieceBytes);
}

}  // namespace
}  // namespace gpuman::shim

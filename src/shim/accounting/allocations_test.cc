#include "shim/accounting/allocations.h"
#include "shim/accounting/test_units.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>
#include <vector>

namespace gpuman::shim {
namespace {

class AllocationsTest : public testing::Test {
 protected:
  ~AllocationsTest() override { account_.Reset(); }
  std::uint64_t Add(std::uint64_t address, std::uint64_t size, std::uint64_t context = 1) {
    std::uint64_t cost = 0;
    EXPECT_TRUE(account_.Add({address, size, context, kGranule, 0}, cost));
    return cost;
  }
  std::uint64_t Free(std::uint64_t address) {
    Allocation allocation{};
    EXPECT_TRUE(account_.Take(address, allocation));
    return account_.Freed(allocation);
  }
  Allocations account_{};
};

TEST(RoundUp, StopsAtTheLastMultiple) {
  EXPECT_EQ(RoundUp(1, kGranule), kGranule);
  EXPECT_EQ(RoundUp(kGranule, kGranule), kGranule);
  EXPECT_EQ(RoundUp(UINT64_MAX, kGranule), UINT64_MAX / kGranule * kGranule);
}

TEST_F(AllocationsTest, CostTheGranulesTheyTouch) {
  EXPECT_EQ(Add(10 * kGranule, kGranule), kGranule);
  EXPECT_EQ(Add(20 * kGranule, kGranule + 1), 2 * kGranule);
  EXPECT_EQ(Add(30 * kGranule, 40 * kGranule), 40 * kGranule);
  EXPECT_EQ(Free(20 * kGranule), 2 * kGranule);
  EXPECT_EQ(Free(30 * kGranule), 40 * kGranule);
  EXPECT_EQ(Free(10 * kGranule), kGranule);
}

TEST_F(AllocationsTest, ShareAGranuleThatCountsWhileAnyOfThemLives) {
  EXPECT_EQ(Add(10 * kGranule, 1000), kGranule);
  EXPECT_EQ(Add(10 * kGranule + 1024, 1000), 0u);
  EXPECT_EQ(Free(10 * kGranule), 0u);
  EXPECT_EQ(Free(10 * kGranule + 1024), kGranule);
}

TEST_F(AllocationsTest, TellWhatIsManagedInGranulesOfItsOwn) {
  std::uint64_t cost = 0;
  EXPECT_TRUE(account_.Add({10 * kGranule, kGranule + 1, 1, kGranule, 0, true}, cost));
  EXPECT_TRUE(account_.Add({20 * kGranule, 1000, 1, kGranule, 0, true}, cost));
  Add(30 * kGranule, kGranule);
  EXPECT_EQ(account_.managed(), 2 * kGranule + 1000);
  Free(30 * kGranule);
  Free(10 * kGranule);
  EXPECT_EQ(account_.managed(), 1000u);
  Allocation allocation{};
  EXPECT_TRUE(account_.Take(20 * kGranule, allocation));
  EXPECT_TRUE(account_.PutBack(allocation));
  EXPECT_EQ(account_.managed(), 1000u) << "the driver refused to free it";
  Free(20 * kGranule);
  EXPECT_EQ(account_.managed(), 0u);
}

TEST_F(AllocationsTest, AreTakenOutOnce) {
  Add(10 * kGranule, 1000);
  Free(10 * kGranule);
  Allocation allocation{};
  EXPECT_FALSE(account_.Take(10 * kGranule, allocation));
  EXPECT_FALSE(account_.Take(4096, allocation));
}

TEST_F(AllocationsTest, CountOnWhenTheDriverRefusesToFree) {
  Add(10 * kGranule, kGranule);
  Allocation allocation{};
  ASSERT_TRUE(account_.Take(10 * kGranule, allocation));
  EXPECT_TRUE(account_.PutBack(allocation));
  EXPECT_EQ(Free(10 * kGranule), kGranule);
}

TEST_F(AllocationsTest, GoWithTheirContext) {
  for (std::uint64_t i = 0; i < 10; ++i) Add((10 + i) * kGranule, kGranule, i % 2 + 1);
  Allocation taken[3];
  unsigned all = 0;
  for (unsigned count = 3; count == 3;) {
    count = account_.TakeOf(2, taken, 3);
    for (unsigned i = 0; i < count; ++i) EXPECT_EQ(taken[i].context, 2u);
    all += count;
  }
  EXPECT_EQ(all, 5u);
  EXPECT_EQ(account_.size(), 5u);
}

TEST_F(AllocationsTest, RefuseWhatNoDriverGives) {
  std::uint64_t cost = 0;
  EXPECT_FALSE(account_.Add({kGranule, 0, 1, kGranule, 0}, cost));
  EXPECT_FALSE(account_.Add({kGranule, UINT64_MAX, 1, kGranule, 0}, cost));
}

RC_GTEST_PROP(AllocationsProperty, WhatWasTakenComesBackToTheByteInAnyOrder, ()) {
  Allocations account{};
  std::map<std::uint64_t, std::uint64_t> live;
  std::uint64_t counted = 0;
  const auto steps = *rc::gen::container<std::vector<std::pair<unsigned, unsigned>>>(
      rc::gen::pair(rc::gen::inRange(1u, 64u), rc::gen::inRange(0u, 40u)));
  for (const auto& [place, quarters] : steps) {
    const std::uint64_t address = 100 * kGranule + place * kGranule / 4;
    Allocation allocation{};
    if (quarters == 0 || live.contains(address)) {
      if (account.Take(address, allocation)) counted -= account.Freed(allocation);
      live.erase(address);
    } else {
      std::uint64_t cost = 0;
      RC_ASSERT(account.Add({address, quarters * kGranule / 4, 1, kGranule, 0}, cost));
      live[address] = quarters * kGranule / 4;
      counted += cost;
    }
  }
  for (const auto& [address, size] : live) {
    Allocation allocation{};
    RC_ASSERT(account.Take(address, allocation));
    counted -= account.Freed(allocation);
  }
  RC_ASSERT(counted == 0u);
  account.Reset();
}

}  // namespace
}  // namespace gpuman::shim

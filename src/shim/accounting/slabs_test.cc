#include "shim/accounting/slabs.h"
#include "shim/accounting/test_units.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace gpuman::shim {
namespace {

constexpr std::uint64_t kOwner = 5;

class SlabsTest : public testing::Test {
 protected:
  ~SlabsTest() override { slabs_.Reset(); }
  static std::uint64_t SlabOf(std::uint64_t address) { return address - address % Slabs::kBytes; }
  Slabs slabs_{};
};

TEST_F(SlabsTest, GiveMultiplesOfTheStepAndTellWhatWasAsked) {
  SlabAllocation first{}, second{}, found{};
  EXPECT_FALSE(slabs_.Allocate(kOwner, 0, 1000, first));
  ASSERT_TRUE(slabs_.Add(kAt, kOwner, 0));
  ASSERT_TRUE(slabs_.Allocate(kOwner, 0, 1000, first));
  ASSERT_TRUE(slabs_.Allocate(kOwner, 0, 1, second));
  EXPECT_EQ(first.address, kAt);
  EXPECT_EQ(second.address, kAt + 1024);
  EXPECT_NE(first.number, second.number);
  ASSERT_TRUE(slabs_.Find(kAt, kAt + 999, found));
  EXPECT_EQ(found.address, kAt);
  EXPECT_EQ(found.size, 1000u);
  EXPECT_FALSE(slabs_.Find(kAt, kAt + 1000, found)) << "beyond what was asked for";
  EXPECT_FALSE(slabs_.Find(kAt, kAt + 2048, found)) << "free";
}

TEST_F(SlabsTest, AreOfOneContextAndDeviceEach) {
  SlabAllocation small{};
  slabs_.Add(kAt, kOwner, 0);
  EXPECT_FALSE(slabs_.Allocate(kOwner + 1, 0, 512, small));
  EXPECT_FALSE(slabs_.Allocate(kOwner, 1, 512, small));
  EXPECT_TRUE(slabs_.Allocate(kOwner, 0, Slabs::kBytes, small));
  EXPECT_FALSE(slabs_.Allocate(kOwner, 0, 1, small));
}

TEST_F(SlabsTest, SayWhenTheyAreEmptyAndFreeNothingTwice) {
  SlabAllocation first{}, second{}, again{};
  slabs_.Add(kAt, kOwner, 0);
  slabs_.Allocate(kOwner, 0, 100, first);
  slabs_.Allocate(kOwner, 0, 100, second);
  EXPECT_EQ(slabs_.Free(kAt, first), Slabs::Freed::kSome);
  EXPECT_EQ(slabs_.Free(kAt, first), Slabs::Freed::kNone);
  slabs_.Allocate(kOwner, 0, 100, again);
  EXPECT_EQ(again.address, first.address);
  EXPECT_EQ(slabs_.Free(kAt, first), Slabs::Freed::kNone) << "what is there now is another's";
  EXPECT_EQ(slabs_.Free(kAt, again), Slabs::Freed::kSome);
  EXPECT_EQ(slabs_.Free(kAt, second), Slabs::Freed::kLast);
  slabs_.Drop(kAt);
  EXPECT_FALSE(slabs_.Has(kAt));
  EXPECT_FALSE(slabs_.Allocate(kOwner, 0, 1, first));
}

TEST_F(SlabsTest, NeverGiveOutTheSameBytesTwice) {
  std::mt19937 chance(11);
  std::map<std::uint64_t, SlabAllocation> held;
  unsigned slabs = 0;
  for (int i = 0; i < 20'000; ++i) {
    if (held.empty() || chance() % 5 < 3) {
      SlabAllocation small{};
      const std::uint64_t size = 1 + (chance() % 4 == 0 ? chance() % Slabs::kBytes : chance() % 5000);
      if (!slabs_.Allocate(kOwner, 0, size, small)) {
        if (slabs == 8) continue;
        ASSERT_TRUE(slabs_.Add(kAt + slabs++ * Slabs::kBytes, kOwner, 0));
        ASSERT_TRUE(slabs_.Allocate(kOwner, 0, size, small));
      }
      ASSERT_EQ(small.size, size);
      ASSERT_EQ(small.address % Slabs::kStep, 0u);
      ASSERT_EQ(SlabOf(small.address), SlabOf(small.address + size - 1));
      const auto after = held.lower_bound(small.address);
      ASSERT_TRUE(after == held.end() || small.address + size <= after->first);
      if (after != held.begin()) {
        const SlabAllocation& before = std::prev(after)->second;
        ASSERT_LE(before.address + before.size, small.address);
      }
      held.emplace(small.address, small);
      continue;
    }
    const auto one = std::next(held.begin(), static_cast<long>(chance() % held.size()));
    SlabAllocation found{};
    ASSERT_TRUE(slabs_.Find(SlabOf(one->first), one->first + one->second.size - 1, found));
    ASSERT_EQ(found.number, one->second.number);
    slabs_.Free(SlabOf(one->first), found);
    held.erase(one);
  }
}

}  // namespace
}  // namespace gpuman::shim

#include "shim/accounting/arrays.h"
#include "shim/accounting/test_units.h"

#include <gtest/gtest.h>

namespace gpuman::shim {
namespace {

using namespace driver::abi;  // NOLINT(google-build-using-namespace)

CUDA_ARRAY3D_DESCRIPTOR Shape(std::size_t width, std::size_t height, std::size_t depth, unsigned flags = 0) {
  return {width, height, depth, CU_AD_FORMAT_UNSIGNED_INT32, 4, flags};
}

TEST(ArrayBytes, PadsRows) {
  EXPECT_EQ(ArrayBytes(Shape(1000, 0, 0), 1), 16'000u);
  EXPECT_EQ(ArrayBytes(Shape(1000, 10, 0), 1), 16'384u * 10);
  EXPECT_EQ(ArrayBytes(Shape(32, 4, 5), 1), 512u * 20);
}

TEST(ArrayBytes, AddsLevelsAndKeepsLayers) {
  EXPECT_EQ(ArrayBytes(Shape(32, 32, 0), 2), 512u * 32 + 512u * 16);
  EXPECT_EQ(ArrayBytes(Shape(32, 32, 6, CUDA_ARRAY3D_LAYERED), 2), 6u * (512u * 32 + 512u * 16));
}

TEST(ArrayBytes, DoesNotWrap) { EXPECT_EQ(ArrayBytes(Shape(UINT64_MAX, UINT64_MAX, 8), 32), UINT64_MAX); }

TEST(Arrays, SmallOnesShareGranules) {
  Arrays arrays{};
  std::uint64_t cost = 0;
  const ArrayEntry small{kMiB, 1, kGranule, 0};
  ASSERT_TRUE(arrays.Add(1, small, cost));
  EXPECT_EQ(cost, kGranule);
  ASSERT_TRUE(arrays.Add(2, small, cost));
  EXPECT_EQ(cost, 0u);
  ASSERT_TRUE(arrays.Add(3, small, cost));
  EXPECT_EQ(cost, kGranule);
  ArrayEntry entry{};
  ASSERT_TRUE(arrays.Take(1, entry));
  EXPECT_EQ(arrays.Freed(entry), kGranule);
  EXPECT_FALSE(arrays.Take(1, entry));
  arrays.Reset();
}

TEST(Arrays, GoWithTheirContext) {
  Arrays arrays{};
  std::uint64_t cost = 0;
  ASSERT_TRUE(arrays.Add(1, {5 * kMiB, 8, kGranule, 0}, cost));
  ASSERT_TRUE(arrays.Add(2, {5 * kMiB, 9, kGranule, 0}, cost));
  EXPECT_EQ(cost, 6 * kMiB);
  ArrayEntry entry{};
  ASSERT_TRUE(arrays.TakeOneOf(9, entry));
  EXPECT_EQ(arrays.Freed(entry), 6 * kMiB);
  EXPECT_FALSE(arrays.TakeOneOf(9, entry));
  arrays.Reset();
}

}  // namespace
}  // namespace gpuman::shim

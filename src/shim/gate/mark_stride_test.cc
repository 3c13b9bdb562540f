#include "shim/gate/mark_stride.h"

#include <gtest/gtest.h>

namespace gpuman::shim {
namespace {

constexpr std::uint64_t kPace = 320'000, kSample = 2'000'000;

// The stride after many samples of work of which each launch takes `launch` ns, from its program or the GPU.
std::uint32_t StrideAfterSamples(std::uint64_t launch, bool is_ahead) {
  std::uint32_t stride = 1;
  for (int i = 0; i < 10; ++i) {
    const auto marks = static_cast<std::uint32_t>(kSample / (launch * stride));
    stride = NextStride(stride, {marks, kSample, is_ahead, is_ahead}, kPace);
  }
  return stride;
}

TEST(MarkStride, WorkBetweenMarksIsAPartOfThePace) {
  for (const bool is_ahead : {false, true})
    for (const std::uint64_t launch :
         {1'000u, 2'000u, 5'000u, 10'000u, 30'000u, 100'000u, 1'000'000u, 20'000'000u}) {
      const auto stride = StrideAfterSamples(launch, is_ahead);
      const auto most = is_ahead ? kMaxMarkStride : kMaxMarkStrideNotAhead;
      EXPECT_TRUE(stride == 1 || stride * launch <= kPace / 4) << launch;
      EXPECT_TRUE(stride == most || stride * launch >= kPace / 16) << launch;
    }
}

TEST(MarkStride, LongWorkHasAMarkEachWhetherItsProgramRunsAheadOrNot) {
  EXPECT_EQ(StrideAfterSamples(20'000'000, /*is_ahead=*/true), 1u);
  EXPECT_EQ(StrideAfterSamples(20'000'000, /*is_ahead=*/false), 1u);
  EXPECT_EQ(NextStride(16, {4, kSample, true, true}, kPace), 8u) << "it has become longer";
}

// Nothing tells how long the work of a burst is: marks are close until that has been seen.
TEST(MarkStride, ABurstHasAMarkEach) {
  EXPECT_EQ(NextStride(16, {0, kSample, false, false}, kPace), 1u) << "before, the stream was idle";
  EXPECT_EQ(NextStride(16, {0, kSample, true, true}, kPace), 1u) << "the GPU is at one long launch";
  EXPECT_EQ(NextStride(16, {500, kSample, true, false}, kPace), 1u) << "it has just begun to run ahead";
  EXPECT_EQ(NextStride(16, {500, kSample, false, false}, kPace), kMaxMarkStrideNotAhead) << "one may begin";
  EXPECT_EQ(StrideNow(16, kMarksAhead, /*was_ahead=*/false), 1u) << "and between two samples";
  EXPECT_EQ(StrideNow(16, kMarksAhead, /*was_ahead=*/true), 16u);
  EXPECT_EQ(StrideNow(16, kMarksAhead - 1, /*was_ahead=*/false), 16u);
}

}  // namespace
}  // namespace gpuman::shim

#include "mover/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace gpuman::mover {
namespace {

using ::testing::ElementsAre;

constexpr std::uint64_t kMiB = 1 << 20;

Layout Example() {
  return {{7, 8}, "GPU-1", {{4096, 96 * kMiB}, {8192, 2 * kMiB}}, {{11, 64 * kMiB}, {12, 64 * kMiB}}};
}

TEST(Layout, PiecesLieOneAfterTheOtherAndAreCutWhereASegmentEnds) {
  EXPECT_THAT(SlicesOf(Example()),
              ElementsAre(Slice{0, 0, 0, 0, 64 * kMiB}, Slice{0, 1, 64 * kMiB, 0, 32 * kMiB},
                          Slice{1, 1, 0, 32 * kMiB, 2 * kMiB}));
}

TEST(Layout, OfSegmentsThatAreTooSmallThereIsNone) {
  Layout layout = Example();
  layout.segments.pop_back();
  EXPECT_TRUE(SlicesOf(layout).empty());
  EXPECT_FALSE(ParseLayout(SerializeLayout(layout)));
}

TEST(Layout, SegmentsAreLargeOnesAndSmallOnesForTheRest) {
  EXPECT_TRUE(SegmentSizes(0).empty());
  EXPECT_THAT(SegmentSizes(1), ElementsAre(kSmallSegment));
  EXPECT_THAT(SegmentSizes(kSegment + kSmallSegment + 1),
              ElementsAre(kSegment, kSmallSegment, kSmallSegment));
}

TEST(Layout, ComesBackAsItWasWrittenOrNotAtAll) {
  const std::string text = SerializeLayout(Example());
  const auto again = ParseLayout(text);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, Example());
  for (std::size_t i = 0; i < text.size(); ++i) EXPECT_FALSE(ParseLayout(text.substr(0, i))) << i;
  std::string damaged = text;
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  EXPECT_FALSE(ParseLayout(damaged));
}

TEST(LayoutProperty, EveryByteHasAPlaceOfItsOwn) {
  EXPECT_TRUE(rc::check("any pieces", [] {
    Layout layout;
    for (int i = *rc::gen::inRange(1, 20); i > 0; --i)
      layout.pieces.push_back({1, *rc::gen::inRange<std::uint64_t>(1, 400) * kMiB});
    for (const auto size : SegmentSizes(BytesOf(layout.pieces))) layout.segments.push_back({1, size});
    std::uint64_t sum = 0, piece = 0, in_piece = 0, segment = 0, in_segment = 0;
    for (const Slice& slice : SlicesOf(layout)) {
      if (slice.piece != piece) piece = slice.piece, in_piece = 0;
      if (slice.segment != segment) segment = slice.segment, in_segment = 0;
      RC_ASSERT(slice.in_piece == in_piece && slice.in_segment == in_segment && slice.bytes > 0);
      in_piece += slice.bytes;
      in_segment += slice.bytes;
      RC_ASSERT(in_piece <= layout.pieces[piece].bytes && in_segment <= layout.segments[segment].bytes);
      sum += slice.bytes;
    }
    RC_ASSERT(sum == BytesOf(layout.pieces));
  }));
}

}  // namespace
}  // namespace gpuman::mover

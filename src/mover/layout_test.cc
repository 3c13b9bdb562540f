#include "mover/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/hash.h"

namespace gpuman::mover {
namespace {

using ::testing::ElementsAre;

constexpr std::uint64_t kMiB = 1 << 20;

Layout Example() {
  return {{7, 8},
          "GPU-1",
          {{4096, 96 * kMiB}, {8192, 2 * kMiB}},
          {{11, 64 * kMiB}, {12, 64 * kMiB}},
          {{0, 0, 0, 0, 64 * kMiB}, {0, 1, 64 * kMiB, 2 * kMiB, 32 * kMiB}, {1, 1, 0, 0, 2 * kMiB}}};
}

// The format of earlier movers, in which pieces lie one after the other.
std::string FirstFormat(const Layout& layout) {
  struct {
    std::uint32_t magic = 0x474d5047, pid = 0;
    std::uint64_t start_time = 0, pieces = 0, segments = 0, checksum = 0;
    char gpu[48] = {};
  } fixed;
  std::string lists;
  for (const Piece& piece : layout.pieces) lists.append(reinterpret_cast<const char*>(&piece), sizeof piece);
  for (const SegmentName& name : layout.segments)
    lists.append(reinterpret_cast<const char*>(&name), sizeof name);
  fixed.pid = static_cast<std::uint32_t>(layout.process.pid);
  fixed.start_time = layout.process.start_time;
  fixed.pieces = layout.pieces.size();
  fixed.segments = layout.segments.size();
  fixed.checksum = base::Fnv1a(lists);
  layout.gpu.copy(fixed.gpu, sizeof fixed.gpu - 1);
  return std::string(reinterpret_cast<const char*>(&fixed), sizeof fixed) + lists;
}

TEST(Layout, FirstFormatIsReadAsConsecutiveSlicesCutAtSegmentEnds) {
  const auto read = ParseLayout(FirstFormat(Example()));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->pieces, Example().pieces);
  EXPECT_THAT(read->slices,
              ElementsAre(PieceExtent{0, 0, 0, 0, 64 * kMiB}, PieceExtent{0, 1, 64 * kMiB, 0, 32 * kMiB},
                          PieceExtent{1, 1, 0, 32 * kMiB, 2 * kMiB}));
  Layout small = Example();
  small.segments.pop_back();
  EXPECT_FALSE(ParseLayout(FirstFormat(small)));
}

TEST(Layout, SlicesThatDoNotCoverEachPieceAreRefused) {
  const auto refused = [](auto change) {
    Layout layout = Example();
    change(layout.slices);
    return !ParseLayout(SerializeLayout(layout));
  };
  using Slices = std::vector<PieceExtent>;
  EXPECT_FALSE(refused([](Slices&) {}));
  EXPECT_TRUE(refused([](Slices& slices) { slices.pop_back(); }));
  EXPECT_TRUE(refused([](Slices& slices) { slices.erase(slices.begin()); }));
  EXPECT_TRUE(refused([](Slices& slices) { std::swap(slices[0], slices[1]); }));
  EXPECT_TRUE(refused([](Slices& slices) { slices.push_back(slices[2]); }));
  EXPECT_TRUE(refused([](Slices& slices) { slices[0].segment = 2; }));
  EXPECT_TRUE(refused([](Slices& slices) { slices[0].bytes -= kMiB; }));
  EXPECT_TRUE(refused([](Slices& slices) { slices[0].bytes = 0; }));
  EXPECT_TRUE(refused([](Slices& slices) { slices[1].bytes += kMiB; }));
  EXPECT_TRUE(refused([](Slices& slices) { slices[1].in_piece += kMiB; }));
  EXPECT_TRUE(refused([](Slices& slices) { slices[1].in_segment = 33 * kMiB; }));
  EXPECT_TRUE(refused([](Slices& slices) { slices[1].in_segment = -kMiB; }));
  EXPECT_TRUE(refused([](Slices& slices) { slices[2].piece = 0; }));
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
  EXPECT_EQ(ParseLayout(text + "what comes after it"), Example());
  std::string damaged = text;
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  EXPECT_FALSE(ParseLayout(damaged));
}

}  // namespace
}  // namespace gpuman::mover

// Which parts of host memory are in use, with segments of the simulated driver's machine.
#include "mover/host_arena.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstring>
#include <map>
#include <random>

#include "gpus_fixture.h"
#include "mover/chunk_hash.h"
#include "mover/layout.h"

namespace gpuman::mover {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kSmall = kSmallSegment;

class HostArenaTest : public GpusTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(GpusTest::SetUp());
    pool.emplace(*gpus);
    arena.emplace(*pool);
  }
  Extents Allocate(std::uint64_t bytes) {
    auto place = arena->Allocate(0, bytes);
    EXPECT_TRUE(place) << place.error().message;
    return place ? *place : Extents();
  }

  std::optional<SegmentPool> pool;
  std::optional<HostArena> arena;
};

TEST_F(HostArenaTest, ASegmentGoesBackToThePoolWithItsLastPart) {
  const Extents one = Allocate(10 * kMiB), other = Allocate(kSmall);
  EXPECT_EQ(BytesOf(one), 10 * kMiB);
  EXPECT_EQ(BytesOf(other), kSmall);
  EXPECT_EQ(SegmentsOf({one, other}).size(), 2u) << "the second lies in what the first left, and in one more";
  arena->Free(one);
  EXPECT_EQ(pool->free_bytes(), 0u);
  arena->Free(other);
  EXPECT_EQ(pool->free_bytes(), 2 * kSmall);
}

TEST_F(HostArenaTest, APartThatIsNoWholeChunkTakesAWholeOne) {
  Extents place = Allocate(kChunk + 1);
  EXPECT_EQ(BytesOf(place), 2 * kChunk);
  EXPECT_FALSE(TakeFirst(place, 2 * kChunk + 1));
  EXPECT_EQ(BytesOf(*TakeFirst(place, 1)), kChunk);
  EXPECT_EQ(BytesOf(place), kChunk);
  EXPECT_TRUE(TakeFirst(place, 0)->empty());
}

TEST_F(HostArenaTest, WhatNoSegmentCanBeMadeForTakesNothing) {
  const Extents place = Allocate(kSmall / 2);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto refused = arena->Allocate(0, kSmall);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_FALSE(refused);
  EXPECT_EQ(SegmentsOf({place, Allocate(kSmall / 2)}).size(), 1u) << "what was free is free again";
}

// The page of an earlier mover, and its segments opened again.
TEST_F(HostArenaTest, GoesOnWithThePlacesThatAPageNames) {
  const std::vector<Extents> places{Allocate(40 * kMiB), Allocate(40 * kMiB)};
  Layout layout{base::SelfId(), "GPU-1", {{1, 40 * kMiB}, {2, 39 * kMiB}}, {}, {}};
  DescribeExtents(places, layout);
  ASSERT_EQ(ParseLayout(SerializeLayout(layout)), layout);
  std::memset(places[1].front().at(), 7, kMiB);
  HostArena later(*pool);
  const auto open = [&] {
    std::vector<Segment> segments;
    for (const Segment* const segment : SegmentsOf(places)) {
      auto opened = Segment::Open(std::move(*segment->OpenForOthers()), segment->bytes());
      EXPECT_TRUE(opened);
      segments.push_back(std::move(*opened));
    }
    return segments;
  };
  const auto again = later.Adopt(open(), layout);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->at(1).front().at()[kMiB - 1], 7);
  EXPECT_EQ(BytesOf(again->at(0)), 40 * kMiB);
  EXPECT_EQ(BytesOf(again->at(1)), 39 * kMiB);
  const auto twice = later.Adopt(open(), layout);
  ASSERT_FALSE(twice) << "the same parts belong to somebody";
  EXPECT_EQ(twice.error().code, base::ErrorCode::kCorrupt);
  Layout rest{base::SelfId(), "GPU-1", {{3, 8 * kMiB}}, layout.segments, {{0, 1, 0, 20 * kMiB, 8 * kMiB}}};
  const auto beside = later.Adopt(open(), rest);
  ASSERT_TRUE(beside) << beside.error().message;
  EXPECT_EQ(beside->front().front().segment, again->at(1).back().segment)
      << "one segment, however many pages";
}

TEST_F(HostArenaTest, NoTwoPlacesOverlapAndNothingIsLost) {
  std::mt19937 random(23);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same sequence each time
  std::map<unsigned, Extents> places;
  std::uint64_t in_use = 0;
  for (unsigned step = 0; step < 400; ++step) {
    if (places.empty() || (in_use < 6 * kSmall && random() % 2 == 0)) {
      const std::uint64_t bytes = (1 + random() % 40) * kChunk;
      places[step] = Allocate(bytes);
      ASSERT_EQ(BytesOf(places[step]), bytes);
      in_use += bytes;
    } else {
      const auto one = std::next(places.begin(), static_cast<std::ptrdiff_t>(random() % places.size()));
      in_use -= BytesOf(one->second);
      arena->Free(one->second);
      places.erase(one);
    }
    std::map<const std::uint8_t*, std::uint64_t> parts;
    std::uint64_t sum = 0;
    for (const auto& [number, place] : places) {
      for (const Extent& extent : place) {
        EXPECT_EQ(extent.in_segment % kChunk, 0u);
        EXPECT_LE(extent.in_segment + extent.bytes, extent.segment->bytes());
        EXPECT_TRUE(parts.emplace(extent.at(), extent.bytes).second);
        sum += extent.bytes;
      }
    }
    ASSERT_EQ(sum, in_use);
    const std::uint8_t* end = nullptr;
    for (const auto& [at, bytes] : parts) {
      ASSERT_GE(at, end) << "at step " << step;
      end = at + bytes;
    }
  }
  for (const auto& [number, place] : places) arena->Free(place);
  EXPECT_GT(pool->free_bytes(), 0u);
  EXPECT_EQ(pool->free_bytes() % kSmall, 0u) << "each segment came back whole";
}

}  // namespace
}  // namespace gpuman::mover

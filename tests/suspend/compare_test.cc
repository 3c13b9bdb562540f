// What the hash takes for unchanged, compared byte by byte, on the simulated driver.
#include "mover/compare.h"

#include <gtest/gtest.h>

#include <vector>

#include "gpus_fixture.h"
#include "mover/host_arena.h"
#include "mover/segments.h"

namespace gpuman::mover {
namespace {

using State = ChunkRecord::State;

class CompareTest : public GpusTest {
 protected:
  // Four chunks on the GPU, of which each has its number as bytes.
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(GpusTest::SetUp());
    pool.emplace(*gpus);
    arena.emplace(*pool);
    piece = *gpus->Create(0, kChunks * kChunk);
    for (std::size_t i = 0; i < kChunks; ++i)
      ASSERT_EQ(
          cuda->calls().cuMemsetD8_v2(piece.address() + i * kChunk, static_cast<unsigned char>(i), kChunk),
          driver::abi::CUDA_SUCCESS);
    copy = EmptyCopy(kChunks * kChunk, *arena->Allocate(0, kChunks * kChunk));
    for (std::size_t i = 0; i < kChunks; ++i) std::fill_n(Host(i), kChunk, static_cast<std::uint8_t>(i));
  }
  std::uint8_t* Host(std::size_t chunk) { return copy.extents.front().at() + chunk * kChunk; }
  std::size_t Compare() {
    std::vector<std::uint8_t> scratch(kChunk);
    auto stream = CopyStream::Open(*gpus, 0, Direction::kOut);
    EXPECT_TRUE(stream);
    const auto wrong = CompareSkipped(*stream, piece.address(), copy, scratch.data());
    EXPECT_TRUE(wrong);
    return wrong.value_or(99);
  }

  static constexpr std::size_t kChunks = 4;
  std::optional<SegmentPool> pool;
  std::optional<HostArena> arena;
  DeviceMemory piece;
  HostCopy copy;
};

TEST_F(CompareTest, WhatIsTheSameStaysKnown) {
  copy.chunks[0].state = State::kZero;
  for (const std::size_t i : {1u, 2u, 3u}) copy.chunks[i].state = State::kHeld;
  EXPECT_EQ(Compare(), 0u);
  EXPECT_EQ(copy.chunks[0].state, State::kZero);
  EXPECT_EQ(copy.chunks[3].state, State::kHeld);
}

TEST_F(CompareTest, AByteThatDiffersIsFoundAndTheHostCopyHasItAfterwards) {
  copy.chunks[0].state = State::kHeld;
  copy.chunks[1].state = State::kHeld;
  Host(1)[kChunk - 1] = 77;
  copy.chunks[2].state = State::kZero;  // it is none
  std::fill_n(Host(2), kChunk, std::uint8_t{0});
  EXPECT_EQ(Compare(), 2u);
  EXPECT_EQ(copy.chunks[0].state, State::kHeld);
  for (const std::size_t i : {1u, 2u}) {
    EXPECT_EQ(copy.chunks[i].state, State::kUnknown) << i;
    EXPECT_TRUE(std::all_of(Host(i), Host(i) + kChunk, [i](std::uint8_t byte) { return byte == i; })) << i;
  }
}

TEST_F(CompareTest, WhatIsCopiedInAnyCaseIsNotComparedAgain) {
  copy.chunks[1].state = State::kCopying;
  std::fill_n(Host(1), kChunk, std::uint8_t{77});  // the copy is under way
  EXPECT_EQ(Compare(), 0u);
  EXPECT_EQ(Host(1)[0], 77);
}

}  // namespace
}  // namespace gpuman::mover

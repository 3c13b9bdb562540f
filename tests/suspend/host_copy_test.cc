// What of a piece is copied, and which copies are kept.
#include "mover/host_copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "gpus_fixture.h"
#include "mover/kept_copies.h"
#include "mover/layout.h"

namespace gpuman::mover {
namespace {

using ::testing::ElementsAre;
using ::testing::FieldsAre;
using ::testing::IsEmpty;
using State = ChunkRecord::State;

constexpr driver::abi::CUdeviceptr kDevice = 0x7000000000;

ChunkHash Hash(std::uint32_t number) { return {{number, 0, 0, 0}}; }

class HostCopyTest : public GpusTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(GpusTest::SetUp());
    pool.emplace(*gpus);
    arena.emplace(*pool);
  }
  HostCopy Make(std::uint64_t bytes) { return Make(*arena, bytes); }
  static HostCopy Make(HostArena& from, std::uint64_t bytes) {
    auto place = from.Allocate(0, bytes);
    EXPECT_TRUE(place);
    return EmptyCopy(bytes, std::move(*place));
  }
  // As after one way out with these hashes, and back.
  HostCopy Held(const std::vector<ChunkHash>& hashes) { return Held(*arena, hashes); }
  HostCopy Held(HostArena& from, const std::vector<ChunkHash>& hashes) const {
    HostCopy copy = Make(from, hashes.size() * kChunk);
    PlanCopyOut(copy, hashes, key, [](const Segment*) { return true; });
    Confirm(copy);
    return copy;
  }

  const HashKey key = HashKey::Of(1);
  std::optional<Pool> pool;
  std::optional<HostArena> arena;
};

TEST_F(HostCopyTest, TheFirstTimeAllIsCopiedButZeros) {
  HostCopy copy = Make(4 * kChunk + 5);
  const std::uint8_t* const at = copy.extents.front().at();
  PlanCopyOut(copy, std::vector{Hash(1), key.of_zeros(), key.of_zeros(), Hash(2)}, key,
              [](const Segment*) { return true; });
  EXPECT_THAT(CopiesOut(kDevice, copy),
              ElementsAre(FieldsAre(kDevice, at, kChunk),
                          FieldsAre(kDevice + 3 * kChunk, at + 3 * kChunk, kChunk + 5)));
  EXPECT_THAT(CopiesIn(kDevice, copy),
              ElementsAre(FieldsAre(kDevice, at, kChunk), FieldsAre(kDevice + kChunk, nullptr, 2 * kChunk),
                          FieldsAre(kDevice + 3 * kChunk, at + 3 * kChunk, kChunk + 5)));
  EXPECT_EQ(ZeroBytes(copy), 2 * kChunk);
  EXPECT_THAT(ZerosOf(copy), ElementsAre(false, true, true, false));
}

TEST_F(HostCopyTest, LaterOnlyWhatHasChangedIs) {
  HostCopy copy = Held({Hash(1), Hash(2), Hash(3)});
  PlanCopyOut(copy, std::vector{Hash(1), Hash(7), Hash(3)}, key, [](const Segment*) { return true; });
  EXPECT_THAT(CopiesOut(kDevice, copy),
              ElementsAre(FieldsAre(kDevice + kChunk, copy.extents.front().at() + kChunk, kChunk)));
  EXPECT_EQ(copy.chunks[1].state, State::kCopying) << "not held before it is copied";
  Confirm(copy);
  PlanCopyOut(copy, std::vector{Hash(1), Hash(7), Hash(3)}, key, [](const Segment*) { return true; });
  EXPECT_THAT(CopiesOut(kDevice, copy), IsEmpty());
}

// The copy of the chunk begins, and fails: its host memory may hold anything, also if the chunk has its old
// bytes again.
TEST_F(HostCopyTest, WhatWasOverwrittenIsNotHeldAnyMore) {
  HostCopy copy = Held({Hash(1)});
  PlanCopyOut(copy, std::vector{Hash(2)}, key, [](const Segment*) { return true; });
  PlanCopyOut(copy, std::vector{Hash(1)}, key, [](const Segment*) { return true; });
  EXPECT_EQ(BytesOf(CopiesOut(kDevice, copy)), kChunk);
}

TEST_F(HostCopyTest, TheHostMemoryOfZerosHoldsNothing) {
  HostCopy copy = Held({Hash(1)});
  PlanCopyOut(copy, std::vector{key.of_zeros()}, key, [](const Segment*) { return true; });
  EXPECT_THAT(CopiesOut(kDevice, copy), IsEmpty());
  EXPECT_FALSE(IsWorthKeeping(copy));
  PlanCopyOut(copy, std::vector{Hash(1)}, key, [](const Segment*) { return true; });
  EXPECT_EQ(BytesOf(CopiesOut(kDevice, copy)), kChunk);
}

TEST_F(HostCopyTest, OfASegmentThatOthersHaveNothingIsBelieved) {
  HostCopy copy = Held({Hash(1), Hash(2)});
  PlanCopyOut(copy, std::vector{Hash(1), Hash(7)}, key, [](const Segment*) { return false; });
  EXPECT_EQ(BytesOf(CopiesOut(kDevice, copy)), 2 * kChunk);
}

TEST_F(HostCopyTest, WithoutHashesAllIsCopied) {
  HostCopy copy = Held({Hash(1), key.of_zeros()});
  PlanWholeCopy(copy);
  EXPECT_EQ(BytesOf(CopiesOut(kDevice, copy)), 2 * kChunk);
  Confirm(copy);
  EXPECT_FALSE(IsWorthKeeping(copy));
}

TEST_F(HostCopyTest, ASegmentIsOursAloneUntilAnotherGetsIt) {
  const HostCopy copy = Make(kChunk);
  const Segment& segment = *copy.extents.front().segment;
  EXPECT_TRUE(segment.IsOursAlone());
  auto theirs = segment.OpenForOthers();
  ASSERT_TRUE(theirs);
  EXPECT_FALSE(segment.IsOursAlone());
  void* const map = ::mmap(nullptr, kChunk, PROT_READ | PROT_WRITE, MAP_SHARED, theirs->get(), 0);
  theirs->Close();
  EXPECT_FALSE(segment.IsOursAlone()) << "mapped";
  ::munmap(map, kChunk);
  EXPECT_TRUE(segment.IsOursAlone());
}

class KeptCopiesTest : public HostCopyTest {
 protected:
  KeptCopiesBudget budget;
};

TEST_F(KeptCopiesTest, IsClaimedOnceByAPieceOfItsAddressAndSize) {
  KeptCopies kept(budget, *arena);
  budget.SetLimit(kSmallSegment);
  kept.Keep(1, Held({Hash(1)}));
  kept.Keep(2, Held({Hash(2), Hash(3)}));
  EXPECT_EQ(budget.bytes(), 3 * kChunk);
  EXPECT_FALSE(kept.Claim(3, kChunk));
  const auto copy = kept.Claim(2, 2 * kChunk);
  ASSERT_TRUE(copy);
  EXPECT_EQ(copy->chunks[1].hash, Hash(3));
  EXPECT_FALSE(kept.Claim(2, 2 * kChunk));
  EXPECT_FALSE(kept.Claim(1, 2 * kChunk)) << "another piece at the address";
  EXPECT_EQ(budget.bytes(), 0u) << "which makes the copy useless";
  arena->Free(copy->extents);
  EXPECT_EQ(pool->free_bytes(), kSmallSegment);
}

TEST_F(KeptCopiesTest, ASecondCopyOfAnAddressReplacesTheFirst) {
  KeptCopies kept(budget, *arena);
  budget.SetLimit(kSmallSegment);
  kept.Keep(1, Held({Hash(1), Hash(1)}));
  kept.Keep(1, Held({Hash(2)}));
  EXPECT_EQ(budget.bytes(), kChunk);
  EXPECT_EQ(kept.Claim(1, kChunk)->chunks[0].hash, Hash(2));
}

TEST_F(KeptCopiesTest, NothingIsKeptOverTheLimitAndTheOldestGoesFirst) {
  KeptCopies kept(budget, *arena);
  kept.Keep(1, Held({Hash(1)}));
  EXPECT_EQ(budget.bytes(), 0u) << "nobody has allowed anything";
  budget.SetLimit(2 * kChunk);
  for (std::uint64_t address = 1; address <= 3; ++address) kept.Keep(address, Held({Hash(1)}));
  EXPECT_EQ(budget.bytes(), 2 * kChunk);
  EXPECT_FALSE(kept.Claim(1, kChunk));
  budget.SetLimit(kChunk);
  EXPECT_FALSE(kept.Claim(2, kChunk));
  EXPECT_TRUE(kept.Claim(3, kChunk));
}

TEST_F(KeptCopiesTest, TheTransferThatHadChangedMostGivesWayFirst) {
  HostArena other_arena(*pool);
  KeptCopies training(budget, *arena), server(budget, other_arena);
  budget.SetLimit(kSmallSegment);
  for (const std::uint64_t address : {1U, 2U}) {
    server.Keep(address, Held(other_arena, {Hash(1)}));
    training.Keep(address, Held({Hash(1)}));
  }
  training.SetChanged(90, 100);
  server.SetChanged(2, 100);
  EXPECT_TRUE(budget.GiveWay(kChunk + 1));
  EXPECT_EQ(training.bytes(), 0u);
  EXPECT_EQ(server.bytes(), 2 * kChunk);
  EXPECT_TRUE(budget.GiveWay(100 * kChunk));
  EXPECT_EQ(budget.bytes(), 0u);
  EXPECT_FALSE(budget.GiveWay(1)) << "there is nothing left";
}

}  // namespace
}  // namespace gpuman::mover

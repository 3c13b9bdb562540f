// What of a piece is copied, and which copies are kept.
#include "mover/host_copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <thread>

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
  std::optional<SegmentPool> pool;
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

// A kept copy of which the machine may damage a bit.
class CheckedCopiesTest : public KeptCopiesTest {
 protected:
  using Clock = KeptCopiesBudget::Clock;
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(KeptCopiesTest::SetUp());
    budget.SetLimit(kSmallSegment);
    kept.emplace(budget, *arena);
  }
  // Keeps a copy of chunks with these bytes, zeros among them.
  void Keep(std::uint64_t address, const std::vector<std::uint8_t>& values) {
    HostCopy copy = Make(values.size() * kChunk);
    std::vector<ChunkHash> hashes;
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::uint8_t* const at = copy.extents.front().at() + i * kChunk;
      std::fill_n(at, kChunk, values[i]);
      places[address].push_back(at);
      hashes.push_back(HashOf(key, at));
    }
    PlanCopyOut(copy, hashes, key, [](const Segment*) { return true; });
    Confirm(copy);
    kept->Keep(address, std::move(copy));
  }
  std::optional<KeptCopiesBudget::CheckedCopy> Check(const std::function<bool()>& go_on = [] {
    return true;
  }) {
    return budget.CheckOldest(key, Clock::now(), go_on);
  }

  std::optional<KeptCopies> kept;
  std::map<std::uint64_t, std::vector<std::uint8_t*>> places;
};

TEST_F(CheckedCopiesTest, AreAllReadTheOldestFirstAndOnceBeforeTheyAreDueAgain) {
  EXPECT_FALSE(Check()) << "there is none";
  Keep(1, {1, 0, 2});
  Keep(2, {3});
  const auto before = Clock::now();
  EXPECT_THAT(Check(), ::testing::Optional(FieldsAre(2, 0))) << "zeros are nowhere in host memory";
  EXPECT_THAT(Check(), ::testing::Optional(FieldsAre(1, 0)));
  EXPECT_FALSE(budget.CheckOldest(key, before, [] { return true; }));
  EXPECT_TRUE(Check()) << "they are due again";
}

TEST_F(CheckedCopiesTest, WhatHasChangedIsCopiedAgain) {
  Keep(1, {1, 2, 3});
  places[1][1][12345] ^= 0x10;
  EXPECT_THAT(Check(), ::testing::Optional(FieldsAre(3, 1)));
  const auto copy = kept->Claim(1, 3 * kChunk);
  ASSERT_TRUE(copy);
  EXPECT_THAT(CopiesOut(kDevice, *copy), ElementsAre(FieldsAre(kDevice + kChunk, places[1][1], kChunk)));
}

TEST_F(CheckedCopiesTest, OneThatIsWantedIsGivenUpAfterAChunk) {
  Keep(1, {1, 2, 3, 4});
  std::thread claims;
  std::optional<HostCopy> claimed;
  std::atomic<bool> begun = false;
  const auto checked = Check([&] {
    if (!claims.joinable())
      claims = std::thread([&] {
        begun = true;
        claimed = kept->Claim(1, 4 * kChunk);
      });
    while (!begun) std::this_thread::yield();
    return true;
  });
  claims.join();
  EXPECT_TRUE(claimed);
  EXPECT_TRUE(checked);
  EXPECT_FALSE(Check()) << "it is not kept any more";
}

TEST_F(CheckedCopiesTest, ATransferThatEndsWaitsForTheCheckOfItsCopy) {
  Keep(1, {1, 2, 3, 4});
  std::thread ends;
  (void)Check([&] {
    if (!ends.joinable()) ends = std::thread([&] { kept.reset(); });
    return true;
  });
  ends.join();
  EXPECT_FALSE(kept);
  EXPECT_FALSE(Check());
}

TEST_F(CheckedCopiesTest, OneThatIsBrokenOffIsReadAgain) {
  Keep(1, {1, 2});
  EXPECT_THAT(Check([] { return false; }), ::testing::Optional(FieldsAre(1, 0)));
  EXPECT_THAT(Check(), ::testing::Optional(FieldsAre(2, 0)));
}

}  // namespace
}  // namespace gpuman::mover

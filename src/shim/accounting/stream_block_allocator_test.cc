#include "shim/accounting/stream_block_allocator.h"
#include "shim/accounting/test_units.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <vector>

namespace gpuman::shim {
namespace {

constexpr std::uint64_t kSegment = 32 * kMiB;
constexpr std::uint64_t kContext = 4096;
constexpr StreamKey kFirst{1, true}, kSecond{2, true}, kUnsure{3, false};

class StreamBlockAllocatorTest : public testing::Test {
 protected:
  ~StreamBlockAllocatorTest() override { blocks_.Reset(); }

  std::uint64_t Take(std::uint64_t size, const StreamKey& stream) {
    std::uint64_t address = 0;
    return blocks_.Take(size, stream, kContext, address) ? address : 0;
  }
  bool FreeBehind(std::uint64_t address, const StreamKey& stream, std::uint64_t event) {
    return blocks_.Free(address, stream, {event, kContext});
  }
  std::set<std::uint64_t> Spent() {
    std::set<std::uint64_t> spent;
    for (EventAfterFree one{}; blocks_.TakeSpent(one);) spent.insert(one.event);
    return spent;
  }

  StreamBlockAllocator blocks_{};
};

TEST_F(StreamBlockAllocatorTest, GiveStepsAndTellWhatWasAsked) {
  EXPECT_EQ(Take(1, kFirst), 0u);
  ASSERT_TRUE(blocks_.AddSegment(kAt, kSegment));
  const auto one = Take(1000, kFirst), other = Take(1, kSecond);
  EXPECT_EQ(one, kAt);
  EXPECT_EQ(other, kAt + 1024);
  EXPECT_EQ(blocks_.used(), 1536u);
  EXPECT_EQ(blocks_.reserved(), kSegment);
  StreamBlockAllocator::Block block{};
  ASSERT_TRUE(blocks_.Find(kAt, one + 999, block));
  EXPECT_EQ(block.address, one);
  EXPECT_EQ(block.size, 1000u);
  EXPECT_FALSE(blocks_.Find(kAt, one + 1000, block)) << "beyond what was asked for";
  EXPECT_FALSE(blocks_.Find(kAt, other + 512, block)) << "free";
  EXPECT_FALSE(blocks_.Free(one + 512, kFirst, {}));
  EXPECT_TRUE(blocks_.Free(one, kFirst, {}));
  EXPECT_FALSE(blocks_.Free(one, kFirst, {})) << "twice";
  EXPECT_EQ(Take(UINT64_MAX, kFirst), 0u);
}

TEST_F(StreamBlockAllocatorTest, AreUsedAgainInTheirStreamAtOnceAndElsewhereAfterTheEvent) {
  ASSERT_TRUE(blocks_.AddSegment(kAt, 2 * kMiB));
  const auto address = Take(2 * kMiB, kFirst);
  ASSERT_TRUE(FreeBehind(address, kFirst, 7));
  EXPECT_EQ(Take(kMiB, kSecond), 0u);
  const auto half = Take(kMiB, kFirst);
  EXPECT_EQ(half, address);
  EXPECT_TRUE(Spent().empty()) << "the other half waits for it";
  blocks_.CheckEvents([](const EventAfterFree& behind) { return behind.event == 7; });
  EXPECT_EQ(Spent(), std::set<std::uint64_t>{7});
  EXPECT_EQ(Take(kMiB, kSecond), address + kMiB);
}

TEST_F(StreamBlockAllocatorTest, OfAStreamThatIsNotSureWaitInItToo) {
  ASSERT_TRUE(blocks_.AddSegment(kAt, kMiB));
  const auto address = Take(kMiB, kUnsure);
  FreeBehind(address, kUnsure, 7);
  EXPECT_EQ(Take(kMiB, kUnsure), 0u);
  EventAfterFree behind{};
  EXPECT_EQ(blocks_.FindAfter(kMiB, kFirst, FreedBy::kSameStream, behind), 0u) << "of its own number alone";
  const auto found = blocks_.FindAfter(kMiB, kUnsure, FreedBy::kSameStream, behind);
  ASSERT_NE(found, 0u);
  EXPECT_EQ(behind.event, 7u);
  std::uint64_t again = 0;
  blocks_.TakeAfter(found, kMiB, kContext, again);
  EXPECT_EQ(again, address);
  EXPECT_EQ(Spent(), std::set<std::uint64_t>{7});
}

TEST_F(StreamBlockAllocatorTest, OfOneStreamBecomeOneBehindTheLaterEvent) {
  ASSERT_TRUE(blocks_.AddSegment(kAt, 3 * kMiB));
  const auto a = Take(kMiB, kFirst), b = Take(kMiB, kFirst), c = Take(kMiB, kFirst);
  FreeBehind(b, kFirst, 1);
  FreeBehind(a, kFirst, 2);
  EXPECT_EQ(Spent(), std::set<std::uint64_t>{1});
  FreeBehind(c, kSecond, 3);
  EXPECT_TRUE(Spent().empty()) << "of another stream";
  EXPECT_EQ(blocks_.pending(), 2u);
  EXPECT_EQ(Take(2 * kMiB, kFirst), a);
  EXPECT_EQ(Take(kMiB, kFirst), 0u);
  blocks_.Free(a, kFirst, {});
  blocks_.CheckEvents([](const EventAfterFree&) { return true; });
  EXPECT_EQ(Take(3 * kMiB, kSecond), a) << "what waits for nothing is one as well";
}

TEST_F(StreamBlockAllocatorTest, GiveASegmentBackThatNothingIsInAndThatWaitsForNothing) {
  std::uint64_t bytes = 0;
  ASSERT_TRUE(blocks_.AddSegment(kAt, kSegment));
  const auto address = Take(kMiB, kFirst);
  EXPECT_EQ(blocks_.TakeIdle(bytes), 0u);
  FreeBehind(address, kFirst, 1);
  EXPECT_EQ(blocks_.TakeIdle(bytes), 0u);
  blocks_.CheckEvents([](const EventAfterFree&) { return true; });
  EXPECT_EQ(blocks_.TakeIdle(bytes), kAt);
  EXPECT_EQ(bytes, kSegment);
  EXPECT_EQ(blocks_.reserved(), 0u);
  EXPECT_EQ(Take(1, kFirst), 0u);
}

// A model of streams: each does its work at some time, and waits for others where the test tells it to.
class Streams {
 public:
  static constexpr unsigned kCount = 4;
  // A point in a stream: the stream, and the place in its order.
  struct Point {
    unsigned stream = 0;
    std::uint64_t place = 0;
  };

  Point Record(unsigned stream) { return {stream, ++placed_[stream]}; }
  void Wait(unsigned stream, const Point& point) {
    for (unsigned i = 0; i < kCount; ++i)
      knows_[stream][i] = std::max(knows_[stream][i], i == point.stream ? point.place : std::uint64_t{0});
  }
  void Finish(unsigned stream) { done_[stream] = placed_[stream]; }
  bool Done(const Point& point) const { return point.place <= done_[point.stream]; }
  bool IsBefore(const Point& point, unsigned stream) const {
    return Done(point) || point.stream == stream || point.place <= knows_[stream][point.stream];
  }

 private:
  std::uint64_t placed_[kCount] = {}, done_[kCount] = {}, knows_[kCount][kCount] = {};
};

TEST_F(StreamBlockAllocatorTest, AreNeverUsedBeforeWhatWasThereIsDone) {
  struct Held {
    std::uint64_t size;
    unsigned stream;
  };
  std::mt19937 chance(17);
  Streams streams;
  std::map<std::uint64_t, Held> held;
  std::map<std::uint64_t, Streams::Point> last;  // by step: the last free of the memory there
  std::vector<Streams::Point> events(1);
  std::set<std::uint64_t> unused;
  unsigned segments = 0, waited = 0, idle = 0;
  const auto key = [](unsigned stream) { return StreamKey{stream + 1, stream != 3}; };
  for (int i = 0; i < 30'000; ++i) {
    const unsigned stream = chance() % Streams::kCount;
    const unsigned what = chance() % 16;
    if (what < 8) {
      const std::uint64_t size = 1 + (chance() % 8 == 0 ? chance() % kMiB : chance() % 20'000);
      std::uint64_t address = Take(size, key(stream));
      EventAfterFree behind{};
      if (address == 0) {
        const FreedBy by = chance() % 2 == 0 ? FreedBy::kSameStream : FreedBy::kAnyStream;
        if (const auto found = blocks_.FindAfter(size, key(stream), by, behind)) {
          streams.Wait(stream, events[behind.event]);
          blocks_.TakeAfter(found, size, kContext, address);
          ASSERT_NE(address, 0u);
          ++waited;
        } else if (segments < 6) {
          ASSERT_TRUE(blocks_.AddSegment(kAt + segments++ * kSegment, 2 * kMiB));
          continue;
        } else {
          continue;
        }
      }
      const auto after = held.lower_bound(address);
      ASSERT_TRUE(after == held.end() || address + size <= after->first);
      if (after != held.begin()) {
        ASSERT_LE(std::prev(after)->first + std::prev(after)->second.size, address);
      }
      for (std::uint64_t at = address; at < address + size; at += StreamBlockAllocator::kStep) {
        const auto before = last.find(at);
        ASSERT_TRUE(before == last.end() || streams.IsBefore(before->second, stream)) << i;
      }
      held[address] = {size, stream};
    } else if (what < 14 && !held.empty()) {
      const auto one = std::next(held.begin(), static_cast<long>(chance() % held.size()));
      const auto [address, block] = *one;
      StreamBlockAllocator::Block found{};
      const std::uint64_t segment = kAt + (address - kAt) / kSegment * kSegment;
      ASSERT_TRUE(blocks_.Find(segment, address + chance() % block.size, found));
      ASSERT_EQ(found.address, address);
      ASSERT_EQ(found.size, block.size);
      // A program that frees in another stream has made that stream wait before.
      const auto freed = streams.Record(stream);
      for (std::uint64_t at = address; at < address + block.size; at += StreamBlockAllocator::kStep) {
        const auto before = last.find(at);
        if (before != last.end()) streams.Wait(stream, before->second);
        last[at] = freed;
      }
      std::uint64_t event = events.size();
      if (unused.empty()) {
        events.push_back(freed);
      } else {
        event = *unused.begin();
        unused.erase(event);
        events[event] = freed;
      }
      ASSERT_TRUE(FreeBehind(address, key(stream), event));
      held.erase(one);
    } else if (what == 14) {
      streams.Finish(stream);
    } else {
      blocks_.CheckEvents([&](const EventAfterFree& behind) { return streams.Done(events[behind.event]); });
      std::uint64_t bytes = 0;
      if (const auto address = blocks_.TakeIdle(bytes); address != 0) {
        ++idle;
        for (auto at = last.lower_bound(address); at != last.end() && at->first < address + bytes;) {
          ASSERT_TRUE(streams.Done(at->second));
          at = last.erase(at);
        }
        ASSERT_TRUE(blocks_.AddSegment(address, bytes));
      }
    }
    for (const auto event : Spent()) ASSERT_TRUE(unused.insert(event).second);
  }
  EXPECT_GT(waited, 100u);
  std::uint64_t used = 0;
  for (const auto& [address, block] : held) used += (block.size + 511) / 512 * 512;
  EXPECT_EQ(blocks_.used(), used);
  for (unsigned stream = 0; stream < Streams::kCount; ++stream) streams.Finish(stream);
  for (const auto& [address, block] : held) blocks_.Free(address, key(block.stream), {});
  blocks_.CheckEvents([](const EventAfterFree&) { return true; });
  std::uint64_t bytes = 0;
  while (blocks_.TakeIdle(bytes) != 0) ++idle;
  EXPECT_EQ(blocks_.reserved(), 0u);
  EXPECT_GE(idle, 6u);
  for (const auto event : Spent()) unused.insert(event);
  EXPECT_EQ(unused.size() + 1, events.size()) << "every event comes back";
}

}  // namespace
}  // namespace gpuman::shim

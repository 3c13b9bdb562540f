#include "trace/replay.h"

#include <gmock/gmock.h>

#include "trace/test_trace.h"

namespace gpuman::trace {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

ProcessTrace Parsed(const TraceBytes& bytes, unsigned number = 0) {
  auto trace = ParseTrace(bytes.bytes);
  EXPECT_TRUE(trace);
  trace->number = number;
  return std::move(*trace);
}

double HeldBy(const Moment& moment, std::size_t process, std::uint32_t stack) {
  const auto found = moment.held.find({process, stack});
  return found == moment.held.end() ? 0 : found->second.bytes;
}

TEST(Replay, TellsWhoHeldMostAtThePeakAndAtTheLastRefusal) {
  TraceBytes bytes;
  bytes.Device(0, 1).Stack({1}).Stack({2}).Stack({3});
  bytes.Allocated(1010, 1, 8 * kMiB, 0).Allocated(1020, 2, 4 * kMiB, 1).Allocated(1030, 3, 4 * kMiB, 1);
  bytes.Refused(1040, 64 * kMiB, 2).Freed(1050, 1).Refused(1060, 32 * kMiB, 2);
  bytes.Allocated(1070, 4, 2 * kMiB, 0);
  const auto gpus = Replay({Parsed(bytes)});
  ASSERT_EQ(gpus.size(), 1u);
  EXPECT_EQ(gpus[0].peak.at, 1030u);
  EXPECT_DOUBLE_EQ(gpus[0].peak.bytes, 16 * kMiB);
  EXPECT_DOUBLE_EQ(HeldBy(gpus[0].peak, 0, 0), 8 * kMiB);
  EXPECT_DOUBLE_EQ(HeldBy(gpus[0].peak, 0, 1), 8 * kMiB);
  EXPECT_DOUBLE_EQ(gpus[0].peak.held.at({0, 1}).allocations, 2);
  ASSERT_TRUE(gpus[0].refusal);
  EXPECT_EQ(gpus[0].refusal->bytes, 32 * kMiB);
  EXPECT_EQ(gpus[0].refusal->stack, (StackRef{0, 2}));
  EXPECT_DOUBLE_EQ(gpus[0].refusal->then.bytes, 8 * kMiB);
  EXPECT_DOUBLE_EQ(HeldBy(gpus[0].refusal->then, 0, 0), 0);
}

TEST(Replay, AddsUpProcessesByTimeAndKeepsGpusApart) {
  TraceBytes first, second;
  first.Device(0, 1).Stack({1}).Allocated(1010, 1, 8 * kMiB, 0).Freed(1040, 1).Allocated(1050, 1, kMiB, 0);
  second.Device(3, 1).Device(4, 2).Stack({1});
  second.Allocated(1020, 1, 4 * kMiB, 0, 3).Allocated(1030, 2, 64 * kMiB, 0, 4);
  const auto gpus = Replay({Parsed(first, 0), Parsed(second, 1)});
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_TRUE(gpus[0].gpu.ends_with("02"));
  EXPECT_DOUBLE_EQ(gpus[0].peak.bytes, 64 * kMiB);
  EXPECT_DOUBLE_EQ(gpus[1].peak.bytes, 12 * kMiB);
  EXPECT_DOUBLE_EQ(HeldBy(gpus[1].peak, 1, 0), 4 * kMiB);
  EXPECT_FALSE(gpus[1].refusal);
}

TEST(Replay, ForgetsWhatAProcessHeldThatHasEnded) {
  TraceBytes first, second;
  first.Device(0, 1).Stack({1}).Allocated(1010, 1, 8 * kMiB, 0);
  second.Gone(1015, 5).Device(0, 1).Stack({1}).Allocated(1020, 1, 9 * kMiB, 0);
  const auto gpus = Replay({Parsed(first, 5), Parsed(second, 6)});
  EXPECT_DOUBLE_EQ(gpus[0].peak.bytes, 9 * kMiB);
}

TEST(Replay, TakesAnAddressThatIsGivenOutAgainAsFree) {
  TraceBytes bytes;
  bytes.Device(0, 1).Stack({1}).Allocated(1010, 1, 8 * kMiB, 0).Allocated(1020, 1, 4 * kMiB, 0);
  EXPECT_DOUBLE_EQ(Replay({Parsed(bytes)})[0].peak.bytes, 8 * kMiB);
}

TEST(Replay, WeighsSamplesAndKnowsTheWhole) {
  TraceBytes bytes;
  bytes.Device(0, 1).Stack({1}).Stack({2}).Allocated(1010, 1, 2 * kMiB, 0);
  bytes.Unseen(2 * kMiB).Allocated(1020, 2, 4096, 1, 0, 2 * kMiB);  // stands for 2 MiB of its kind
  const auto peak = Replay({Parsed(bytes)})[0].peak;
  EXPECT_DOUBLE_EQ(peak.bytes, 4 * kMiB + 4096);
  EXPECT_NEAR(HeldBy(peak, 0, 0), 2 * kMiB, 4096);
  EXPECT_NEAR(HeldBy(peak, 0, 1), 2 * kMiB, 4096);
  EXPECT_NEAR(peak.held.at({0, 1}).allocations, 512.5, 2);
  EXPECT_FALSE(peak.averaged);
}

// Two stacks take turns with allocations that one sample in a hundred is drawn of: at each moment one of them
// seems to have everything.
TEST(Replay, AveragesMomentsNearThePeakWhereSamplesAreFew) {
  TraceBytes bytes;
  bytes.Device(0, 1).Stack({1}).Stack({2}).Unseen(1000 * kMiB);
  for (std::uint64_t i = 0; i < 400; ++i) {
    bytes.Allocated(2000 + 10 * i, 1, kMiB, i % 4 == 0 ? 0 : 1, 0, 100 * kMiB);
    bytes.Unseen(static_cast<std::int64_t>((i % 10) * kMiB))
        .Unseen(-static_cast<std::int64_t>((i % 10) * kMiB));
    bytes.Allocated(2001 + 10 * i, 2, kMiB, 1, 0, 100 * kMiB).Freed(2004 + 10 * i, 2).Freed(2005 + 10 * i, 1);
  }
  const auto peak = Replay({Parsed(bytes)})[0].peak;
  EXPECT_DOUBLE_EQ(peak.bytes, 1002 * kMiB);
  EXPECT_TRUE(peak.averaged);
  EXPECT_NEAR(HeldBy(peak, 0, 0), 250 * kMiB, 10 * kMiB);
  EXPECT_NEAR(HeldBy(peak, 0, 1), 752 * kMiB, 10 * kMiB);
}

TEST(Replay, OfARefusalAloneTellsThatNothingWasHeld) {
  TraceBytes bytes;
  bytes.Device(0, 1).Stack({1}).Refused(1010, kMiB, 0);
  const auto gpus = Replay({Parsed(bytes)});
  ASSERT_EQ(gpus.size(), 1u);
  EXPECT_EQ(gpus[0].refusal->then.bytes, 0);
  EXPECT_TRUE(Replay({}).empty());
}

}  // namespace
}  // namespace gpuman::trace

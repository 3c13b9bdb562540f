#include "ledger/wire/slot_balance.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <vector>

namespace gpuman::ledger::wire {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

class SlotBalanceTest : public testing::Test {
 protected:
  SlotBalanceTest() {
    ledger_.gpus = 2;
    for (Gpu& gpu : ledger_.gpu) gpu.limit = gpu.soft = kNoLimit;
  }
  std::unique_ptr<Ledger> memory_ = std::make_unique<Ledger>();
  Ledger& ledger_ = *memory_;
};

TEST_F(SlotBalanceTest, CountWhatIsReservedAndGivenBack) {
  EXPECT_EQ(Reserve(ledger_, 0, 5, 6 * kMiB), ChargeOutcome::kDone);
  EXPECT_EQ(Reserve(ledger_, 0, 7, 2 * kMiB), ChargeOutcome::kDone);
  EXPECT_EQ(Reserve(ledger_, 1, 5, kMiB), ChargeOutcome::kDone);
  EXPECT_EQ(TotalOf(ledger_, 0), 8 * kMiB);
  EXPECT_EQ(BytesOf(ledger_, 0, 5), 6 * kMiB);
  EXPECT_EQ(GiveBack(ledger_, 0, 5, 4 * kMiB), ChargeOutcome::kDone);
  EXPECT_EQ(BytesOf(ledger_, 0, 5), 2 * kMiB);
  EXPECT_EQ(BytesOf(ledger_, 0, 7), 2 * kMiB);
  EXPECT_EQ(TotalOf(ledger_, 0), 4 * kMiB);
  EXPECT_EQ(TotalOf(ledger_, 1), kMiB);
}

TEST_F(SlotBalanceTest, CountTheHostsMemoryAsAnAccountOfItsOwn) {
  ledger_.host_budget = 4 * kMiB;
  EXPECT_EQ(Reserve(ledger_, kHost, 5, 3 * kMiB), ChargeOutcome::kDone);
  EXPECT_EQ(Reserve(ledger_, kHost, 6, 2 * kMiB), ChargeOutcome::kRefused);
  EXPECT_EQ(Reserve(ledger_, 0, 6, 2 * kMiB), ChargeOutcome::kDone);
  EXPECT_EQ(TotalOf(ledger_, kHost), 3 * kMiB);
  ledger_.slot[5].order = 3;
  ledger_.slot[5].evicted = kMiB;
  ledger_.slot[5].call_grant = ledger_.slot[5].grant_report = ledger_.slot[5].rest =
      ledger_.slot[5].rest_state = 1;
  EXPECT_EQ(Clear(ledger_, 5), ChargeOutcome::kDone);
  EXPECT_EQ(TotalOf(ledger_, kHost), 0u);
  EXPECT_EQ(ledger_.slot[5].order, 0u);
  EXPECT_EQ(ledger_.slot[5].evicted, 0u);
  const Slot& free = ledger_.slot[5];
  EXPECT_EQ(free.call_grant | free.grant_report | free.rest | free.rest_state, 0u);
  EXPECT_EQ(TotalOf(ledger_, 0), 2 * kMiB);
}

TEST_F(SlotBalanceTest, RefuseTheFirstByteBeyondTheLimit) {
  ledger_.gpu[0].limit = 10 * kMiB;
  EXPECT_EQ(Reserve(ledger_, 0, 1, 10 * kMiB + 1), ChargeOutcome::kRefused);
  EXPECT_EQ(Reserve(ledger_, 0, 1, 10 * kMiB), ChargeOutcome::kDone);
  EXPECT_EQ(Reserve(ledger_, 0, 2, 1), ChargeOutcome::kRefused);
  EXPECT_EQ(TotalOf(ledger_, 0), 10 * kMiB);
}

TEST_F(SlotBalanceTest, LeaveTheLimitToWhatTheDriverAloneSees) {
  ledger_.gpu[0].limit = 10 * kMiB;
  ledger_.gpu[0].outside = 4 * kMiB;
  EXPECT_EQ(Reserve(ledger_, 0, 1, 7 * kMiB), ChargeOutcome::kRefused);
  EXPECT_EQ(Reserve(ledger_, 0, 1, 6 * kMiB), ChargeOutcome::kDone);
  ledger_.gpu[0].outside = 20 * kMiB;
  EXPECT_EQ(Reserve(ledger_, 0, 1, 1), ChargeOutcome::kRefused);
}

TEST_F(SlotBalanceTest, ALoweredLimitRefusesWhatIsNewAndTakesWhatComesBack) {
  EXPECT_EQ(Reserve(ledger_, 0, 1, 8 * kMiB), ChargeOutcome::kDone);
  ledger_.gpu[0].limit = 4 * kMiB;
  EXPECT_EQ(Reserve(ledger_, 0, 1, kUnit), ChargeOutcome::kRefused);
  EXPECT_EQ(GiveBack(ledger_, 0, 1, 5 * kMiB), ChargeOutcome::kDone);
  EXPECT_EQ(Reserve(ledger_, 0, 1, kMiB), ChargeOutcome::kDone);
}

TEST_F(SlotBalanceTest, ChargeWhatTheDeviceGaveWhateverTheLimit) {
  ledger_.gpu[0].limit = kMiB;
  EXPECT_EQ(Charge(ledger_, 0, 1, 3 * kMiB), ChargeOutcome::kDone);
  EXPECT_EQ(TotalOf(ledger_, 0), 3 * kMiB);
}

TEST_F(SlotBalanceTest, RefuseSizesThatNoCountHolds) {
  for (const std::uint64_t bytes : {std::uint64_t{1} << 63, UINT64_MAX, std::uint64_t{1} << 44})
    EXPECT_EQ(Reserve(ledger_, 0, 1, bytes), ChargeOutcome::kRefused) << bytes;
  EXPECT_EQ(TotalOf(ledger_, 0), 0u);
}

TEST_F(SlotBalanceTest, NeverGiveBackMoreThanASlotHas) {
  EXPECT_EQ(Reserve(ledger_, 0, 1, kMiB), ChargeOutcome::kDone);
  EXPECT_EQ(Reserve(ledger_, 0, 2, kMiB), ChargeOutcome::kDone);
  EXPECT_EQ(GiveBack(ledger_, 0, 1, 5 * kMiB), ChargeOutcome::kDone);
  EXPECT_EQ(TotalOf(ledger_, 0), kMiB);
}

TEST_F(SlotBalanceTest, ClearGivesBackEverythingOfASlotAndFreesIt) {
  ledger_.slot[3].pid = 77;
  Reserve(ledger_, 0, 3, kMiB);
  Reserve(ledger_, 1, 3, 2 * kMiB);
  Reserve(ledger_, 1, 4, 4 * kMiB);
  EXPECT_EQ(Clear(ledger_, 3), ChargeOutcome::kDone);
  EXPECT_EQ(ledger_.slot[3].pid, 0u);
  EXPECT_EQ(TotalOf(ledger_, 0), 0u);
  EXPECT_EQ(TotalOf(ledger_, 1), 4 * kMiB);
}

// The process was killed right after it had exchanged the total: its slot does not have the change yet.
TEST_F(SlotBalanceTest, AChangeThatItsProcessDidNotComeToEnterIsEnteredByTheNext) {
  Reserve(ledger_, 0, 3, kMiB);
  const SlotBalance before{ledger_.slot[3].gpu[0].books};
  Reserve(ledger_, 0, 3, 2 * kMiB);
  ledger_.slot[3].gpu[0].books = before.word;
  Reserve(ledger_, 0, 4, kMiB);
  EXPECT_EQ(BytesOf(ledger_, 0, 3), 3 * kMiB);
  EXPECT_EQ(TotalOf(ledger_, 0), 4 * kMiB);
}

// The process was killed before the exchange: the change was announced, but it never happened.
TEST_F(SlotBalanceTest, AChangeThatWasOnlyAnnouncedNeverHappens) {
  Reserve(ledger_, 0, 3, kMiB);
  const SlotBalance books{ledger_.slot[3].gpu[0].books};
  ledger_.slot[3].gpu[0].intent = Pack(9999, books.number() + 1);
  Reserve(ledger_, 0, 4, kMiB);
  EXPECT_EQ(BytesOf(ledger_, 0, 3), kMiB);
  EXPECT_EQ(Clear(ledger_, 3), ChargeOutcome::kDone);
  EXPECT_EQ(TotalOf(ledger_, 0), kMiB);
}

TEST_F(SlotBalanceTest, NumbersOfChangesWrapWithoutHarm) {
  for (const std::uint32_t number : {(1u << kNumberBits) - 2, UINT32_MAX - 2}) {
    ledger_.slot[9].gpu[0] = {Pack(0, number), Pack(0, number)};
    for (int i = 0; i < 6; ++i) {
      ASSERT_EQ(Reserve(ledger_, 0, 9, 2 * kMiB), ChargeOutcome::kDone);
      ASSERT_EQ(Reserve(ledger_, 0, 8, kMiB), ChargeOutcome::kDone);
      ASSERT_EQ(GiveBack(ledger_, 0, 9, kMiB), ChargeOutcome::kDone);
    }
    EXPECT_EQ(BytesOf(ledger_, 0, 9), 6 * kMiB);
    Clear(ledger_, 9);
    Clear(ledger_, 8);
    EXPECT_EQ(TotalOf(ledger_, 0), 0u);
  }
}

TEST_F(SlotBalanceTest, FindsAGpuByItsUuidOnly) {
  std::memset(ledger_.gpu[1].uuid, 0xab, 16);
  std::uint8_t uuid[16];
  std::memset(uuid, 0xab, sizeof uuid);
  EXPECT_EQ(FindGpu(ledger_, uuid), 1);
  uuid[15] = 0;
  EXPECT_EQ(FindGpu(ledger_, uuid), -1);
  ledger_.gpus = 0xffffffff;  // overwritten
  EXPECT_EQ(FindGpu(ledger_, uuid), -1);
}

// Whatever a program writes into the page, calls end and stay inside it (the sanitizers watch).
TEST_F(SlotBalanceTest, AnOverwrittenPageHurtsNobody) {
  std::mt19937_64 random(42);
  auto* const bytes = reinterpret_cast<unsigned char*>(&ledger_);
  for (int round = 0; round < 200; ++round) {
    for (int i = 0; i < 5000; ++i) bytes[random() % 6000] = static_cast<unsigned char>(random());
    const unsigned slot = static_cast<unsigned>(random() % 4), gpu = static_cast<unsigned>(random() % 16);
    (void)Reserve(ledger_, gpu, slot, random());
    (void)GiveBack(ledger_, gpu, slot, random() % kMiB);
    (void)Clear(ledger_, slot);
    (void)TotalOf(ledger_, gpu);
  }
  std::memset(bytes, 0xff, sizeof ledger_);
  EXPECT_NE(Reserve(ledger_, 0, 0, kMiB), ChargeOutcome::kDone);
}

RC_GTEST_PROP(SlotBalanceProperty, TotalIsTheSumOfTheSlotsAndNeverPassesTheLimit, ()) {
  const auto memory = std::make_unique<Ledger>();
  Ledger& ledger = *memory;
  ledger.gpus = 1;
  ledger.gpu[0].limit = *rc::gen::inRange<std::uint64_t>(0, 64) * kUnit;
  std::map<unsigned, std::uint64_t> model;
  const auto steps = *rc::gen::container<std::vector<std::tuple<bool, unsigned, unsigned>>>(
      rc::gen::tuple(rc::gen::arbitrary<bool>(), rc::gen::inRange(0u, 4u), rc::gen::inRange(0u, 40u)));
  for (const auto& [take, slot, units] : steps) {
    std::uint64_t sum = 0;
    for (const auto& [_, held] : model) sum += held;
    if (take) {
      const bool fits = (sum + units) * kUnit <= ledger.gpu[0].limit || units == 0;
      RC_ASSERT((Reserve(ledger, 0, slot, units * kUnit) == ChargeOutcome::kDone) == fits);
      if (fits) model[slot] += units;
    } else {
      RC_ASSERT(GiveBack(ledger, 0, slot, units * kUnit) == ChargeOutcome::kDone);
      model[slot] -= std::min<std::uint64_t>(model[slot], units);
    }
    sum = 0;
    for (const auto& [which, held] : model) {
      RC_ASSERT(BytesOf(ledger, 0, which) == held * kUnit);
      sum += held;
    }
    RC_ASSERT(TotalOf(ledger, 0) == sum * kUnit);
    RC_ASSERT(TotalOf(ledger, 0) <= ledger.gpu[0].limit);
  }
}

}  // namespace
}  // namespace gpuman::ledger::wire

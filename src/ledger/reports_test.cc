// Tests what a ledger reports: peaks and refusals.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "ledger/test_ledger.h"
#include "ledger/wire/peaks.h"
#include "ledger/wire/slot_balance.h"
#include "ledger/wire/slot_lock.h"

namespace gpuman::ledger {
namespace {

TEST(Ledgers, TellTheMostThatAJobHadOnEachGpu) {
  Ledgers ledgers;
  EXPECT_TRUE(ledgers.PeaksOf(kOwnedJob).empty());
  ASSERT_TRUE(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 1), Limit(kSecond, 1)}));
  auto joined = ledgers.Join(kOwnedJob, base::SelfId());
  ASSERT_TRUE(joined);
  const Mapped mapped(joined->owner);
  wire::RaisePeak(*mapped, 1, 8192);
  wire::RaisePeak(*mapped, 1, 4096);
  const auto peaks = ledgers.PeaksOf(kOwnedJob);
  ASSERT_EQ(peaks.size(), 2u);
  EXPECT_EQ(peaks[0].used.count, 0u);
  EXPECT_EQ(peaks[1].used.count, 8192u);
  wire::RaisePeak(*mapped, 0, UINT64_MAX);
  EXPECT_EQ(ledgers.PeaksOf(kOwnedJob).at(0).used.count, 0u) << "no job can have had that";
}

void Tell(wire::AtRefusal& at, std::uint64_t number, std::uint64_t sum) {
  at = {number, 100, wire::kUnknownBytes, {{1000, 200, 30, 4, 5}, 61, sum}};
}

TEST(Ledgers, ARefusalSaysWhatTheMemoryWasWhereThatIsKnown) {
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 8192)}));
  auto joined = ledgers.Join(kOwnedJob, base::SelfId());
  const Mapped mapped(joined->owner);
  const auto by = static_cast<std::uint32_t>(wire::RefusedBy::kLimit);
  wire::GpuPeakAndRefusals& detail = *wire::DetailOf(*mapped, 0);
  (*mapped).gpu[0].refusal = {5, 4096, 1400, 8192, 77, by, 0};
  detail.first = {3, 512, 1300, 8192, 70, by, 0};
  Tell(detail.at_last, 5, 1300);
  Tell(detail.at_first, 3, 1300);
  auto told = ledgers.RefusalsOf(kOwnedJob).at(0);
  EXPECT_EQ(told.last.parts, (base::MemoryParts{{1000}, {200}, {30}, {4}, {5}, {61}, {100}}));
  EXPECT_EQ(told.last.pools_unused, base::Bytes{100});
  EXPECT_EQ(told.last.device_free, std::nullopt);
  ASSERT_TRUE(told.first);
  EXPECT_EQ(told.first->asked, base::Bytes{512});
  EXPECT_EQ(told.first->parts->uncounted, base::Bytes{0});
  EXPECT_EQ(told.first->pools_unused, base::Bytes{100});
  EXPECT_EQ(told.first->device_free, std::nullopt);

  Tell(detail.at_last, 4, 1300);
  EXPECT_EQ(ledgers.RefusalsOf(kOwnedJob).at(0).last.parts, std::nullopt) << "it is of another refusal";
  EXPECT_EQ(ledgers.RefusalsOf(kOwnedJob).at(0).last.pools_unused, std::nullopt);
  Tell(detail.at_last, 5, 1299);
  EXPECT_EQ(ledgers.RefusalsOf(kOwnedJob).at(0).last.parts, std::nullopt) << "two have written it";
  (*mapped).gpu[0].refusal.used = 1299;
  Tell(detail.at_last, 5, 1300);
  EXPECT_EQ(ledgers.RefusalsOf(kOwnedJob).at(0).last.parts, std::nullopt) << "more than all";

  ledgers.ForgetFirstRefusals(kOwnedJob, 70);
  EXPECT_TRUE(ledgers.RefusalsOf(kOwnedJob).at(0).first) << "the daemon has come back";
  ledgers.ForgetFirstRefusals(kOwnedJob, 71);
  EXPECT_FALSE(ledgers.RefusalsOf(kOwnedJob).at(0).first) << "of an earlier run";
  Tell(detail.at_first, 9, 1300);
  EXPECT_FALSE(ledgers.RefusalsOf(kOwnedJob).at(0).first) << "not written yet";
  detail.pid = 1;
  EXPECT_FALSE(ledgers.RefusalsOf(kOwnedJob).at(0).last.parts) << "a process of an older ledger has the slot";
}

TEST(Ledgers, APeakSaysWhatItWas) {
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 8192)}));
  auto joined = ledgers.Join(kOwnedJob, base::SelfId());
  const Mapped mapped(joined->owner);
  EXPECT_EQ(ledgers.PartsOfPeak(kOwnedJob, kFirst), std::nullopt);
  wire::Write(wire::DetailOf(*mapped, 0)->peak, {{1000, 200, 30, 4, 5}, 61, 1300});
  EXPECT_EQ(ledgers.PartsOfPeak(kOwnedJob, kFirst), std::nullopt) << "of an earlier peak";
  (*mapped).gpu[0].peak = 1300;
  EXPECT_EQ(ledgers.PartsOfPeak(kOwnedJob, kFirst),
            (base::MemoryParts{{1000}, {200}, {30}, {4}, {5}, {61}, {}}));
  EXPECT_EQ(ledgers.PartsOfPeak(kOwnedJob, kSecond), std::nullopt);
  EXPECT_EQ(ledgers.PartsOfPeak({99}, kFirst), std::nullopt);
}

// The shim of the process writes this into its slot.
wire::ProcessPeak* Claim(const Mapped& mapped, unsigned slot, unsigned gpu = 0) {
  std::uint64_t name[2] = {};
  std::memcpy(name, "python3\n", 8);
  return wire::ClaimPeak(*mapped, slot, gpu, name);
}

TEST(Ledgers, TheMostThatAProcessHadOutlivesIt) {
  constexpr std::uint64_t kUnit = wire::kUnit;
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 8192), Limit(kSecond, 8192)}));
  EXPECT_TRUE(ledgers.ProcessPeaksOf(kOwnedJob).empty());
  EXPECT_TRUE(ledgers.ProcessPeaksOf({99}).empty());
  {
    auto joined = ledgers.Join(kOwnedJob, base::SelfId());
    const Mapped mapped(joined->owner);
    wire::ProcessPeak* const first = Claim(mapped, joined->slot);
    ASSERT_TRUE(first);
    EXPECT_TRUE(ledgers.ProcessPeaksOf(kOwnedJob).empty()) << "nothing was told yet";
    wire::WritePeak(*first, {kUnit, 0, 0, 0, 1});
    wire::WritePeak(*first, {3 * kUnit, 0, 0, 0, kUnit});
    wire::WritePeak(*Claim(mapped, joined->slot, 1), {5 * kUnit, 0, 0, 0, 0});
  }
  auto joined = ledgers.Join(kOwnedJob, base::SelfId());  // has its slot now
  const Mapped mapped(joined->owner);
  const auto peaks = ledgers.ProcessPeaksOf(kOwnedJob);
  ASSERT_EQ(peaks.size(), 2u);
  EXPECT_EQ(peaks[0].uuid, kSecond) << "the larger one first";
  EXPECT_EQ(peaks[1].uuid, kFirst);
  EXPECT_EQ(peaks[1].pid, base::SelfId().pid);
  EXPECT_EQ(peaks[1].program, "python3") << "a control character is left out";
  EXPECT_EQ(peaks[1].parts, (base::MemoryParts{{3 * kUnit}, {}, {}, {}, {kUnit}, {}, {}}));

  auto& written = *reinterpret_cast<wire::ProcessPeakArray*>(&(*mapped).slot[wire::kProcessSlots]);
  written.peak[0].parts[1].sum = 0;  // it was killed while it wrote the last one
  EXPECT_EQ(ledgers.ProcessPeaksOf(kOwnedJob).at(1).parts.Sum(), base::Bytes{2 * kUnit})
      << "the one before it";
  written.peak[0].owner = UINT64_MAX;
  EXPECT_EQ(ledgers.ProcessPeaksOf(kOwnedJob).size(), 1u) << "a program has written it";
  written.pid = 1;
  EXPECT_TRUE(ledgers.ProcessPeaksOf(kOwnedJob).empty()) << "a process of an older ledger has the slot";
}

// A daemon that takes over a job that has ended knows no GPU yet.
TEST(Ledgers, BeforeLimitsAreGivenReportsAreOfTheGpusThatTheLedgerNames) {
  const std::string instance = "MIG-0f112233-4455-6677-8899-aabbccddeeff";
  Ledgers before;
  ASSERT_TRUE(before.Create(kOwnedJob, std::vector{Limit(instance, 8192), Limit(kFirst, 8192)}));
  auto joined = before.Join(kOwnedJob, base::SelfId());
  const base::Fd file = std::move(joined->file);
  const Mapped mapped(joined->owner);
  (*mapped).gpu[0].peak = 8192;
  (*mapped).gpu[1].peak = 4096;
  wire::Write(wire::DetailOf(*mapped, 1)->peak, {{4096, 0, 0, 0, 0}, 0, 4096});
  wire::WritePeak(*Claim(mapped, joined->slot), {8192, 0, 0, 0, 0});
  const auto by = static_cast<std::uint32_t>(wire::RefusedBy::kLimit);
  (*mapped).gpu[1].refusal = {5, 4096, 1400, 8192, 77, by, 0};

  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Adopt(kOwnedJob, base::Fd(::fcntl(file.get(), F_DUPFD_CLOEXEC, 0)), {}));
  const auto peaks = ledgers.PeaksOf(kOwnedJob);
  ASSERT_EQ(peaks.size(), 2u);
  EXPECT_EQ(peaks[0].uuid, instance);
  EXPECT_EQ(peaks[0].used.count, 8192u);
  EXPECT_EQ(peaks[1].uuid, kFirst);
  EXPECT_TRUE(ledgers.PartsOfPeak(kOwnedJob, kFirst));
  ASSERT_EQ(ledgers.ProcessPeaksOf(kOwnedJob).size(), 1u);
  EXPECT_EQ(ledgers.ProcessPeaksOf(kOwnedJob)[0].uuid, instance);
  ASSERT_EQ(ledgers.RefusalsOf(kOwnedJob).size(), 1u);
  EXPECT_EQ(ledgers.RefusalsOf(kOwnedJob)[0].last.uuid, kFirst);

  (*mapped).gpus = UINT32_MAX;  // a program has written it
  EXPECT_EQ(ledgers.PeaksOf(kOwnedJob).size(), wire::kMaxGpus);
  (*mapped).gpus = 2;
  ASSERT_TRUE(ledgers.SetLimits(kOwnedJob, std::vector{Limit(kFirst, 8192)}));
  ASSERT_EQ(ledgers.PeaksOf(kOwnedJob).size(), 1u) << "the daemon knows the GPUs, and this is all of them";
  EXPECT_EQ(ledgers.PeaksOf(kOwnedJob)[0].uuid, kFirst);
}

TEST(Ledgers, OfMoreProcessesThanHaveRoomThePeaksOfTheLargestStay) {
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 8192)}));
  auto lasting = ledgers.Join(kOwnedJob, base::SelfId());
  const Mapped its(lasting->owner);
  wire::WritePeak(*Claim(its, lasting->slot), {1, 0, 0, 0, 0});
  for (unsigned i = 1; i <= 10 * wire::kPeaks; ++i) {
    auto joined = ledgers.Join(kOwnedJob, base::SelfId());
    const Mapped mapped(joined->owner);
    wire::ProcessPeak* const peak = Claim(mapped, joined->slot);
    ASSERT_TRUE(peak) << i;
    wire::WritePeak(*peak, {((i * 7919) % 10'007 + 2) * wire::kUnit, 0, 0, 0, 0});
  }
  const auto peaks = ledgers.ProcessPeaksOf(kOwnedJob);
  std::vector<std::uint64_t> largest;
  for (unsigned i = 1; i <= 10 * wire::kPeaks; ++i) largest.push_back((i * 7919) % 10'007 + 2);
  std::ranges::sort(largest, std::greater{});
  for (unsigned i = 0; i < wire::kPeaks / 4; ++i)
    EXPECT_EQ(peaks.at(i).parts.Sum().count, largest[i] * wire::kUnit) << i;
  EXPECT_EQ(peaks.back().parts.Sum().count, wire::kUnit) << "it lives";
}

TEST(Ledgers, AShimTellsAnOlderDaemonNoPeak) {
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 8192)}));
  auto joined = ledgers.Join(kOwnedJob, base::SelfId());
  const Mapped mapped(joined->owner);
  (*mapped).features = wire::kFeatureHomes;
  EXPECT_EQ(Claim(mapped, joined->slot), nullptr);
}

TEST(Ledgers, TheLastRefusalOnEachGpuIsRead) {
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 8192), Limit(kSecond, 8192)}));
  EXPECT_TRUE(ledgers.RefusalsOf(kOwnedJob).empty()) << "there was none, or its shim is an older one";
  EXPECT_TRUE(ledgers.RefusalsOf({99}).empty());
  auto joined = ledgers.Join(kOwnedJob, base::SelfId());
  const Mapped mapped(joined->owner);
  const auto by = static_cast<std::uint32_t>(wire::RefusedBy::kSharing);
  (*mapped).gpu[1].refusal = {3, 4096, 1024, wire::kNoLimit, 77, by, 0};
  const auto refusals = ledgers.RefusalsOf(kOwnedJob);
  ASSERT_EQ(refusals.size(), 1u);
  EXPECT_EQ(refusals[0].last.uuid, kSecond);
  EXPECT_EQ(refusals[0].last.number, 3u);
  EXPECT_EQ(refusals[0].last.asked, base::Bytes{4096});
  EXPECT_EQ(refusals[0].last.used, base::Bytes{1024});
  EXPECT_EQ(refusals[0].last.limit, std::nullopt);
  EXPECT_EQ(refusals[0].last.at, 77u);
  EXPECT_TRUE(refusals[0].last.by == wire::RefusedBy::kSharing);
  (*mapped).gpu[1].refusal.by = 99;
  EXPECT_TRUE(ledgers.RefusalsOf(kOwnedJob).empty()) << "a program has written that";
  EXPECT_TRUE(ledgers.Intact(kOwnedJob)) << "it is the shims' to write";
}

}  // namespace
}  // namespace gpuman::ledger

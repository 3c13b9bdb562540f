#include "ledger/ledgers.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include "ledger/test_ledger.h"
#include "ledger/test_reclaim.h"
#include "ledger/wire/peaks.h"
#include "ledger/wire/slot_balance.h"
#include "ledger/wire/slot_lock.h"

namespace gpuman::ledger {
namespace {

TEST(ParseUuid, ReadsThirtyTwoDigitsAndNothingElse) {
  ASSERT_TRUE(ParseUuid(kFirst));
  EXPECT_EQ((*ParseUuid(kFirst))[1], 0x11);
  EXPECT_EQ((*ParseUuid(kFirst))[15], 0xff);
  EXPECT_TRUE(ParseUuid("MIG-00112233-4455-6677-8899-AABBCCDDEEFF"));
  for (const char* bad :
       {"", "GPU-", "GPU-00112233-4455-6677-8899-aabbccddeef", "0", "GPU-zz112233445566778899aabbccddeeff",
        "GPU-00112233-4455-6677-8899-aabbccddeeff0"})
    EXPECT_FALSE(ParseUuid(bad)) << bad;
}

TEST(Ledgers, RefuseLimitsThatMakeNoSense) {
  Ledgers ledgers;
  EXPECT_FALSE(ledgers.Create(kOwnedJob, std::vector{Limit("0", 1)}));
  EXPECT_FALSE(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 1), Limit(kFirst, 2)}));
  EXPECT_FALSE(ledgers.Create(kOwnedJob, std::vector<GpuLimit>(17, Limit(kFirst, 1))));
  ASSERT_TRUE(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 1)}));
  EXPECT_EQ(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 1)}).error().code,
            base::ErrorCode::kAlreadyExists);
  EXPECT_EQ(ledgers.SetLimits({8}, {}).error().code, base::ErrorCode::kNotFound);
  EXPECT_EQ(ledgers.Join({8}, base::SelfId()).error().code, base::ErrorCode::kNotFound);
}

TEST(Ledgers, AProcessReadsWhenItsGpuWasSampledWhereverTheGpuCameIntoTheLedger) {
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 1)}));
  auto joined = ledgers.Join(kOwnedJob, base::SelfId());
  ASSERT_TRUE(joined);
  const Mapped mapped(joined->owner);
  EXPECT_EQ(wire::Load((*mapped).gpu[0].sampled_at), 0u) << "never sampled";
  ledgers.SetSampled(kFirst, base::MonoTime(std::chrono::nanoseconds(5)));
  ledgers.SetSampled(kSecond, base::MonoTime(std::chrono::nanoseconds(6)));
  ledgers.SetSampled("no UUID", base::MonoTime(std::chrono::nanoseconds(7)));
  EXPECT_EQ(wire::Load((*mapped).gpu[0].sampled_at), 5u);
  ASSERT_TRUE(ledgers.SetLimits(kOwnedJob, std::vector{Limit(kFirst, 1), Limit(kSecond, 1)}));
  EXPECT_EQ(wire::Load((*mapped).gpu[1].sampled_at), 6u);
}

TEST(Ledgers, AProcessHoldsItsSlotByItsMappingAlone) {
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 1 << 20)}));
  auto joined = ledgers.Join(kOwnedJob, base::SelfId());
  ASSERT_TRUE(joined);
  {
    const Mapped mapped(joined->owner);
    EXPECT_EQ(wire::Reserve(*mapped, 0, joined->slot, 4096), wire::ChargeOutcome::kDone);
    EXPECT_TRUE(ledgers.Registered(kOwnedJob, base::SelfId()));
    EXPECT_EQ(ReclaimEnded(kOwnedJob), 0u);
    EXPECT_EQ(ledgers.UsageOf(kOwnedJob).at(0).used.count, 4096u);
    auto other = ledgers.Join(kOwnedJob, base::SelfId());
    ASSERT_TRUE(other);
    EXPECT_NE(other->slot, joined->slot);
  }
  EXPECT_FALSE(ledgers.Registered(kOwnedJob, base::SelfId()));
  EXPECT_EQ(ReclaimEnded(kOwnedJob), 2u);
  EXPECT_EQ(ledgers.UsageOf(kOwnedJob).at(0).used.count, 0u);
}

TEST(Ledgers, TakeAsMuchMemoryAsTheyHaveProcesses) {
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 1 << 20)}));
  const auto joined = ledgers.Join(kOwnedJob, base::SelfId());
  ASSERT_TRUE(joined);
  EXPECT_EQ(ledgers.SlotStatusesOf(kOwnedJob).size(), 1u);
  struct stat status {};
  ASSERT_EQ(::fstat(joined->file.get(), &status), 0);
  EXPECT_LE(status.st_blocks * 512, 4 * 4096) << "the limits, and a process";
}

TEST(Ledgers, ASlotThatComesToAnotherProcessIsEmpty) {
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 1 << 20)}));
  auto first = ledgers.Join(kOwnedJob, base::SelfId());
  const unsigned slot = first->slot;
  {
    const Mapped mapped(first->owner);
    wire::Reserve(*mapped, 0, slot, 4096);
  }
  auto second = ledgers.Join(kOwnedJob, base::SelfId());
  ASSERT_TRUE(second);
  EXPECT_EQ(second->slot, slot);
  EXPECT_EQ(ledgers.UsageOf(kOwnedJob).at(0).used.count, 0u);
}

TEST(Ledgers, HaveRoomForAThousandProcessesAndSayWhenItIsGone) {
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 1 << 20)}));
  std::vector<std::unique_ptr<Mapped>> processes;
  for (unsigned i = 0; i < wire::kProcessSlots; ++i) {
    auto joined = ledgers.Join(kOwnedJob, base::SelfId());
    ASSERT_TRUE(joined) << i;
    processes.push_back(std::make_unique<Mapped>(joined->owner));
  }
  EXPECT_EQ(ledgers.Join(kOwnedJob, base::SelfId()).error().code, base::ErrorCode::kExhausted);
  processes.pop_back();
  EXPECT_TRUE(ledgers.Join(kOwnedJob, base::SelfId()));
}

TEST(Ledgers, LimitsChangeWhileProcessesRun) {
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 8192)}));
  auto joined = ledgers.Join(kOwnedJob, base::SelfId());
  const Mapped mapped(joined->owner);
  EXPECT_EQ(wire::Reserve(*mapped, 0, joined->slot, 16384), wire::ChargeOutcome::kRefused);
  const auto changes = (*mapped).changes;
  ASSERT_TRUE(ledgers.SetLimits(kOwnedJob, std::vector{Limit(kFirst, 16384), Limit(kSecond, 4096)}));
  EXPECT_NE((*mapped).changes, changes);
  EXPECT_EQ(wire::Reserve(*mapped, 0, joined->slot, 16384), wire::ChargeOutcome::kDone);
  EXPECT_EQ((*mapped).gpu[1].limit, 4096u);
  ASSERT_TRUE(ledgers.SetLimits(kOwnedJob, std::vector{Limit(kSecond, 4096)}));
  EXPECT_EQ((*mapped).gpu[0].limit, wire::kNoLimit);
}

TEST(Ledgers, NoticeThatAProgramHasOverwrittenTheLedger) {
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 8192)}));
  auto joined = ledgers.Join(kOwnedJob, base::SelfId());
  const Mapped mapped(joined->owner);
  EXPECT_TRUE(ledgers.Intact(kOwnedJob));
  (*mapped).gpu[0].limit = 1 << 30;
  EXPECT_FALSE(ledgers.Intact(kOwnedJob));
  ASSERT_TRUE(ledgers.SetLimits(kOwnedJob, std::vector{Limit(kFirst, 8192)}));
  EXPECT_TRUE(ledgers.Intact(kOwnedJob));
  (*mapped).gpus = 4000;
  EXPECT_FALSE(ledgers.Intact(kOwnedJob));
  EXPECT_EQ(ledgers.UsageOf(kOwnedJob).size(), 1u);
}

TEST(Ledgers, NobodyCanChangeTheSizeOfTheFile) {
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kOwnedJob, std::vector{Limit(kFirst, 8192)}));
  auto joined = ledgers.Join(kOwnedJob, base::SelfId());
  EXPECT_NE(::ftruncate(joined->file.get(), 0), 0);
  EXPECT_NE(::fcntl(joined->file.get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
}

TEST(Ledgers, ANewDaemonThatKnowsNoGpusYetLeavesTheLimitsAsTheyStand) {
  auto before = std::make_unique<Ledgers>();
  ASSERT_TRUE(before->Create(kOwnedJob, std::vector{Limit(kFirst, 8192)}));
  auto joined = before->Join(kOwnedJob, base::SelfId());
  const Mapped mapped(joined->owner);
  before.reset();
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Adopt(kOwnedJob, std::move(joined->file), {}));
  EXPECT_EQ((*mapped).gpu[0].limit, 8192u);
  EXPECT_TRUE(ledgers.Intact(kOwnedJob));
}

TEST(Ledgers, ANewDaemonTakesOverTheLedgerThatProcessesUse) {
  auto before = std::make_unique<Ledgers>();
  ASSERT_TRUE(before->Create(kOwnedJob, std::vector{Limit(kFirst, 8192)}));
  auto joined = before->Join(kOwnedJob, base::SelfId());
  const Mapped mapped(joined->owner);
  wire::Reserve(*mapped, 0, joined->slot, 4096);
  before.reset();
  Ledgers ledgers;
  EXPECT_FALSE(ledgers.Adopt({8}, base::Fd(::fcntl(joined->file.get(), F_DUPFD_CLOEXEC, 0)), {}));
  EXPECT_FALSE(ledgers.Adopt(kOwnedJob, base::Fd(::open("/dev/null", O_RDWR)), {}));
  EXPECT_FALSE(ledgers.Adopt(kOwnedJob, base::Fd(::memfd_create("x", 0)), {}));
  ASSERT_TRUE(ledgers.Adopt(kOwnedJob, std::move(joined->file), std::vector{Limit(kFirst, 4096)}));
  EXPECT_EQ(ledgers.UsageOf(kOwnedJob).at(0).used.count, 4096u);
  EXPECT_EQ(ledgers.OnGpuOf(kOwnedJob, base::SelfId(), kFirst), base::Bytes{4096})
      << "who sits there is known again";
  EXPECT_EQ(ReclaimEnded(kOwnedJob), 0u);
  EXPECT_EQ(wire::Reserve(*mapped, 0, joined->slot, 4096), wire::ChargeOutcome::kRefused);
}

TEST(Ledgers, OneWhoseProcessesHaveEndedIsMadeAgainFromItsBytes) {
  auto before = std::make_unique<Ledgers>();
  ASSERT_TRUE(before->Create(kOwnedJob, std::vector{Limit(kFirst, 8192)}));
  auto joined = before->Join(kOwnedJob, base::SelfId());
  const Mapped mapped(joined->owner);
  wire::Reserve(*mapped, 0, joined->slot, 4096);
  const auto file = before->FileOf(kOwnedJob);
  ASSERT_TRUE(file);
  std::string bytes(sizeof(wire::Ledger), '\0');
  ASSERT_EQ(::pread(file->get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  EXPECT_EQ(before->FileOf({8}).error().code, base::ErrorCode::kNotFound);
  before.reset();
  Ledgers ledgers;
  EXPECT_FALSE(ledgers.Restore({8}, bytes, {})) << "it is another job's";
  EXPECT_FALSE(ledgers.Restore(kOwnedJob, std::string_view(bytes).substr(1), {}));
  EXPECT_FALSE(ledgers.Restore(kOwnedJob, "", {}));
  EXPECT_FALSE(ledgers.Has(kOwnedJob));
  ASSERT_TRUE(ledgers.Restore(kOwnedJob, bytes, std::vector{Limit(kFirst, 8192)}));
  EXPECT_EQ(ledgers.UsageOf(kOwnedJob).at(0).used.count, 4096u);
  EXPECT_TRUE(ledgers.Intact(kOwnedJob));
}

TEST(Ledgers, AGpuThatChangesItsPlaceWithAnInstanceKeepsItsName) {
  const std::string instance = "MIG-0f112233-4455-6677-8899-aabbccddeeff";
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kOwnedJob, std::vector{Limit(instance, 8192), Limit(kFirst, 8192)}));
  auto joined = ledgers.Join(kOwnedJob, base::SelfId());
  const base::Fd file = std::move(joined->file);  // the slot is this process's while it has that
  const Mapped mapped(joined->owner);
  EXPECT_EQ(UuidAt(*mapped, 0), instance);
  EXPECT_EQ(UuidAt(*mapped, 1), kFirst);
  ASSERT_EQ(wire::Reserve(*mapped, 0, joined->slot, wire::kUnit), wire::ChargeOutcome::kDone);
  ASSERT_EQ(ledgers.FollowMove(kOwnedJob, kFirst), instance);
  EXPECT_EQ(UuidAt(*mapped, 0), kFirst);
  EXPECT_EQ(UuidAt(*mapped, 1), instance);
}

TEST(Ledgers, WhatAJobCountsMovesWithItToAnotherGpu) {
  constexpr std::uint64_t kUnit = wire::kUnit;
  Ledgers ledgers;
  const std::vector limits{Limit(kFirst, 8 * kUnit), Limit(kSecond, 16 * kUnit)};
  ASSERT_TRUE(ledgers.Create(kOwnedJob, limits));
  auto joined = ledgers.Join(kOwnedJob, base::SelfId());
  const base::Fd file = std::move(joined->file);  // the slot is this process's while it has that
  const Mapped mapped(joined->owner);
  EXPECT_FALSE(ledgers.FollowMove(kOwnedJob, kSecond)) << "it counts nothing";
  ASSERT_EQ(wire::Reserve(*mapped, 0, joined->slot, 3 * kUnit), wire::ChargeOutcome::kDone);
  wire::RaisePeak(*mapped, 0, 3 * kUnit);
  ledgers.SetUncounted(kOwnedJob, kFirst, base::Bytes{kUnit});
  ledgers.SetUncounted(kOwnedJob, kSecond, base::Bytes{2 * kUnit});
  ledgers.SetRoom(kOwnedJob, kFirst, base::Bytes{5 * kUnit});
  const auto changes = wire::Load((*mapped).changes);

  EXPECT_FALSE(ledgers.FollowMove(kOwnedJob, kFirst)) << "it is there";
  EXPECT_FALSE(ledgers.FollowMove(kOwnedJob, "GPU-0f112233-4455-6677-8899-aabbccddeeff"))
      << "not in the ledger";
  EXPECT_FALSE(ledgers.FollowMove({99}, kSecond)) << "no such job";
  EXPECT_EQ(ledgers.FollowMove(kOwnedJob, kSecond), kFirst);
  EXPECT_EQ(ledgers.OnGpuOf(kOwnedJob, base::SelfId(), kSecond), base::Bytes{3 * kUnit});
  EXPECT_EQ(ledgers.OnGpuOf(kOwnedJob, base::SelfId(), kFirst), base::Bytes{});
  EXPECT_EQ(ledgers.PeaksOf(kOwnedJob).at(1).used, base::Bytes{3 * kUnit});
  EXPECT_EQ((*mapped).gpu[0].limit, 16 * kUnit) << "the other GPU's";
  EXPECT_EQ((*mapped).gpu[0].outside, 2 * kUnit);
  EXPECT_EQ((*mapped).gpu[0].room, wire::kNoLimit);
  EXPECT_EQ((*mapped).gpu[1].limit, 8 * kUnit);
  EXPECT_EQ((*mapped).gpu[1].outside, kUnit);
  EXPECT_EQ((*mapped).gpu[1].room, 5 * kUnit);
  EXPECT_NE(wire::Load((*mapped).changes), changes) << "processes look again";
  EXPECT_TRUE(ledgers.Intact(kOwnedJob));
  EXPECT_FALSE(ledgers.FollowMove(kOwnedJob, kSecond)) << "once is enough";

  ASSERT_EQ(wire::Reserve(*mapped, 1, joined->slot, kUnit), wire::ChargeOutcome::kDone);
  EXPECT_FALSE(ledgers.FollowMove(kOwnedJob, kFirst)) << "it counts on both";
  wire::GiveBack(*mapped, 1, joined->slot, kUnit);
  EXPECT_EQ(ledgers.FollowMove(kOwnedJob, kFirst), kSecond) << "and back";
  EXPECT_EQ(ledgers.OnGpuOf(kOwnedJob, base::SelfId(), kFirst), base::Bytes{3 * kUnit});
}

}  // namespace
}  // namespace gpuman::ledger

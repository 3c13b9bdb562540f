#include "daemon/sharing/job_demand.h"

#include <gtest/gtest.h>

namespace gpuman::daemon {
namespace {

using base::MiB;
using base::Millis;
using ledger::wire::Activity;
using ledger::wire::MemoryResidency;
using share::TenantActivity;

constexpr base::ProcessId kOne{11, 1}, kOther{12, 1};

share::MemoryDemand Demand(base::Bytes resident, base::Bytes away, base::Bytes pinned, base::Bytes wants = {},
                           base::Bytes managed = {}) {
  return {resident, away, pinned, wants, managed};
}

// Processes of a job that may use the GPUs "a" and "b".
class JobDemandTest : public ::testing::Test {
 protected:
  // The memory that the process counts on the GPU is `evictable`, `evicted` and `rest`.
  static ledger::SlotStatus Slot(base::ProcessId process, const std::string& gpu, base::Bytes evictable,
                                 base::Bytes evicted, base::Bytes rest = {}) {
    ledger::SlotStatus slot;
    slot.process = process;
    slot.homes = {{.uuid = gpu, .evictable = evictable, .evicted = evicted}};
    slot.held = {{gpu, evictable + evicted + rest}};
    return slot;
  }
  share::MemoryDemands Of(const std::vector<ledger::SlotStatus>& slots) const {
    return DemandOf(slots, gpus_,
                    {.at_work = at_work_,
                     .loaded =
                         [this](const ProcessGpu& of) {
                           const auto found = loaded_.find(of);
                           return found == loaded_.end() ? base::Bytes{} : found->second;
                         },
                     .uncounted = [this](const std::string& gpu) { return gpu == "a" ? uncounted_ : MiB(0); },
                     .context = [this](const std::string&) { return context_; }});
  }

  std::vector<std::string> gpus_{"a", "b"};
  std::set<base::ProcessId> at_work_;
  std::map<ProcessGpu, base::Bytes> loaded_;
  base::Bytes uncounted_{}, context_{};
};

TEST_F(JobDemandTest, OfSeveralProcessesIsTheSumOnEachGpu) {
  auto both = Slot(kOther, "b", MiB(7), MiB(0));
  both.homes.push_back({.uuid = "a", .evictable = MiB(2), .wants = MiB(4)});
  both.held.push_back({"a", MiB(3)});
  const auto demand = Of({Slot(kOne, "a", MiB(10), MiB(20), MiB(5)), both});
  ASSERT_EQ(demand.size(), 2u);
  EXPECT_EQ(demand.at("a"), Demand(MiB(12), MiB(20), MiB(6), MiB(4)));
  EXPECT_EQ(demand.at("b"), Demand(MiB(7), MiB(0), MiB(0)));
}

TEST_F(JobDemandTest, OfAJobThatHasNothingYetIsOnItsOnlyGpu) {
  EXPECT_TRUE(Of({}).empty()) << "it may come to either";
  gpus_ = {"b"};
  EXPECT_EQ(Of({}), (share::MemoryDemands{{"b", {}}}));
}

TEST_F(JobDemandTest, WhatTheMoverHasLoadedIsOnTheGpu) {
  loaded_[{kOne, "a"}] = MiB(8);
  EXPECT_EQ(Of({Slot(kOne, "a", MiB(0), MiB(20))}).at("a"), Demand(MiB(8), MiB(12), MiB(0)));
  loaded_[{kOne, "a"}] = MiB(30);
  EXPECT_EQ(Of({Slot(kOne, "a", MiB(0), MiB(20))}).at("a"), Demand(MiB(20), MiB(0), MiB(0)))
      << "the process has taken a part of it";
}

TEST_F(JobDemandTest, MemoryOfAProcessThatDoesNotComeToRestStays) {
  at_work_ = {kOne};
  const auto demand = Of({Slot(kOne, "a", MiB(10), MiB(1)), Slot(kOther, "a", MiB(3), MiB(0))});
  EXPECT_EQ(demand.at("a"), Demand(MiB(3), MiB(1), MiB(10)));
}

TEST_F(JobDemandTest, ManagedMemoryIsSubtractedFromTheFirstGpus) {
  auto one = Slot(kOne, "a", MiB(10), MiB(0), MiB(4));
  one.homes.push_back({.uuid = "b"});
  one.held.push_back({"b", MiB(9)});
  one.managed = MiB(6);
  const auto demand = Of({one});
  EXPECT_EQ(demand.at("a"), Demand(MiB(10), MiB(0), MiB(0), {}, MiB(4)));
  EXPECT_EQ(demand.at("b"), Demand(MiB(0), MiB(0), MiB(7), {}, MiB(2)));
}

TEST_F(JobDemandTest, EachProcessWithMemoryHasAContextWhateverTheDriverShows) {
  context_ = MiB(500);
  uncounted_ = MiB(3);
  const auto slots = std::vector{Slot(kOne, "a", MiB(10), MiB(0)), Slot(kOther, "a", MiB(0), MiB(1))};
  EXPECT_EQ(Of(slots).at("a").pinned, MiB(1'000));
  uncounted_ = MiB(1'200);
  EXPECT_EQ(Of(slots).at("a").pinned, MiB(1'200));
  uncounted_ = {};
  EXPECT_EQ(Of({Slot(kOne, "a", MiB(0), MiB(0))}).at("a").pinned, MiB(0)) << "it has made none yet";
}

TEST_F(JobDemandTest, MemoryOnAGpuFromWhichNothingLeavesIsPinned) {
  auto one = Slot(kOne, "a", MiB(10), MiB(0));
  one.held.push_back({"c", MiB(2)});
  EXPECT_EQ(Of({one}).at("c"), Demand(MiB(0), MiB(0), MiB(2)));
}

// Memory of a job on the GPU "a".
class PinnedMemoryFilterTest : public ::testing::Test {
 protected:
  share::MemoryDemand Filtered(base::Bytes resident, base::Bytes pinned) {
    share::MemoryDemands demand{{"a", Demand(resident, MiB(0), pinned)}};
    filter_.Apply(demand, open_, now_);
    return demand.at("a");
  }

  PinnedMemoryFilter filter_;
  bool open_ = true;
  base::MonoTime now_{Millis(1'000)};
};

TEST_F(PinnedMemoryFilterTest, AnAllocationUnderWayIsTakenForEvictable) {
  EXPECT_EQ(Filtered(MiB(10), MiB(2)), Demand(MiB(12), MiB(0), MiB(0)));
  now_ += Millis(10);
  EXPECT_EQ(Filtered(MiB(12), MiB(0)), Demand(MiB(12), MiB(0), MiB(0))) << "it is listed now";
  now_ += Millis(245);
  EXPECT_EQ(Filtered(MiB(12), MiB(1)), Demand(MiB(13), MiB(0), MiB(0))) << "another one";
}

TEST_F(PinnedMemoryFilterTest, PinnedMemoryCountsOnceItLasts) {
  Filtered(MiB(10), MiB(5));
  now_ += Millis(249);
  EXPECT_EQ(Filtered(MiB(10), MiB(3)), Demand(MiB(13), MiB(0), MiB(0)));
  now_ += Millis(1);
  EXPECT_EQ(Filtered(MiB(10), MiB(4)), Demand(MiB(11), MiB(0), MiB(3))) << "the least that was shown";
  EXPECT_EQ(Filtered(MiB(10), MiB(1)), Demand(MiB(10), MiB(0), MiB(1))) << "less is believed at once";
}

TEST_F(PinnedMemoryFilterTest, BehindAClosedGateAllOfItIsPinned) {
  open_ = false;
  EXPECT_EQ(Filtered(MiB(10), MiB(5)), Demand(MiB(10), MiB(0), MiB(5)));
  open_ = true;
  EXPECT_EQ(Filtered(MiB(10), MiB(5)), Demand(MiB(10), MiB(0), MiB(5)));
}

ledger::SlotStatus Doing(Activity activity, std::uint64_t since = 0, base::ProcessId process = kOne) {
  ledger::SlotStatus slot;
  slot.process = process;
  slot.residency = MemoryResidency::kOnGpu;
  slot.activity = activity;
  slot.activity_since = since;
  return slot;
}

TEST(JobActivity, WaitingProcessDecidesBeforeWorkingProcess) {
  const std::vector<std::pair<Activity, TenantActivity>> falling{
      {Activity::kAtGate, TenantActivity::kWaiting},
      {Activity::kForRoom, TenantActivity::kWaiting},
      {Activity::kBusy, TenantActivity::kBusy},
      {Activity::kUnknown, TenantActivity::kUnknown},
      {Activity::kIdle, TenantActivity::kIdle}};
  for (std::size_t i = 0; i < falling.size(); ++i)
    for (std::size_t j = i; j < falling.size(); ++j) {
      const auto one = Doing(falling[i].first), other = Doing(falling[j].first);
      EXPECT_EQ(ActivityOf({one, other}).activity, falling[i].second) << i << ' ' << j;
      EXPECT_EQ(ActivityOf({other, one}).activity, falling[i].second) << i << ' ' << j;
    }
}

TEST(JobActivity, SinceIsTheLastChangeOfAnyProcess) {
  EXPECT_EQ(ActivityOf({Doing(Activity::kBusy, 5), Doing(Activity::kIdle, 9)}).since, 9u);
  EXPECT_EQ(ActivityOf({}).since, 0u);
}

TEST(JobActivity, OfAJobWithoutAProcessThatUsesTheGpuIsIdle) {
  EXPECT_EQ(ActivityOf({}).activity, TenantActivity::kIdle);
  auto one = Doing(Activity::kUnknown);
  one.residency = MemoryResidency::kNone;
  EXPECT_EQ(ActivityOf({one}).activity, TenantActivity::kIdle);
}

TEST(CompletedCallCounter, CountsFromTheFirstFigureOfEachProcess) {
  CompletedCallCounter counter;
  auto one = Doing(Activity::kBusy), other = Doing(Activity::kBusy, 0, kOther);
  one.completed = 100;
  EXPECT_EQ(counter.Count({one}), 0u);
  one.completed = 103;
  other.completed = 50;
  EXPECT_EQ(counter.Count({one, other}), 3u);
  other.completed = 57;
  EXPECT_EQ(counter.Count({other, one}), 7u);
  other.completed = 3;
  EXPECT_EQ(counter.Count({other}), 0u) << "a program can write any figure";
  other.completed = 4;
  one.completed = 110;
  EXPECT_EQ(counter.Count({other, one}), 1u) << "the one had gone, and begins anew";
}

}  // namespace
}  // namespace gpuman::daemon

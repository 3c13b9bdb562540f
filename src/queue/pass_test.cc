// Tests which jobs a pass starts, and why the other jobs wait.
#include "queue/pass.h"

#include <gtest/gtest.h>

#include <cmath>

#include "queue/priority.h"
#include "queue/test_lab.h"

namespace gpuman::queue {
namespace {

using namespace std::chrono_literals;

TEST(QueuePass, JobsStartInTheOrderTheyCame) {
  Lab lab(2);
  lab.Waits(Lab::Gpus(1));
  lab.Waits(Lab::Gpus(1));
  const JobId third = lab.Waits(Lab::Gpus(1));
  EXPECT_EQ(Text(lab.Decide().starts), "1:0 2:1");
  EXPECT_EQ(lab.Of(third).reason, WaitReason::kResources);
  EXPECT_EQ(lab.Of(third).position, 1u);
  EXPECT_EQ(lab.Why(third), "wants 1 GPU; 0 of 2 GPUs can be used now");
}

TEST(QueuePass, GpusThatAreNotKnownAreNotCounted) {
  Lab lab(0);
  const JobId job = lab.Waits(Lab::Gpus(1));
  EXPECT_EQ(Text(lab.Decide().starts), "");
  EXPECT_EQ(lab.Of(job).reason, WaitReason::kResources);
  EXPECT_EQ(lab.Why(job), "wants 1 GPU; no GPU of this machine is known now");
}

TEST(QueuePass, AJobWithoutGpusStartsWhereNoneIsFree) {
  Lab lab(1);
  lab.Runs(Lab::Gpus(1), {0});
  lab.Waits(Lab::Gpus(1));
  lab.Waits(Lab::Gpus(0));
  EXPECT_EQ(Text(lab.Decide().starts), "3:");
}

TEST(QueuePass, TheReasonOfAWaitingJobIsNamed) {
  Lab lab(4);
  lab.updater.SetQuota(AccountKind::kUser, "cat", {.running = 0});
  struct Row {
    Request request;
    WaitReason reason;
    const char* why;
    const char* user = "ann";
  };
  const std::vector<Row> rows{
      {With(Lab::Gpus(1), [](Request& r) { r.hold = true; }), WaitReason::kHeld,
       "held until somebody releases it (gpuman job release 1)"},
      {With(Lab::Gpus(1), [](Request& r) { r.begin = kStart + 2h; }), WaitReason::kBeginTime, "in 2h"},
      {Lab::Gpus(1), WaitReason::kQuota, "user cat runs 0 jobs; the quota allows 0", "cat"},
      {Lab::Gpus(5), WaitReason::kResources, "wants 5 GPUs; 4 of 4 GPUs can be used now"},
  };
  std::vector<JobId> ids;
  ids.reserve(rows.size());
  for (const Row& row : rows) ids.push_back(lab.Waits(row.request, row.user));
  const Plan plan = lab.Decide();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(lab.Of(ids[i]).reason, rows[i].reason) << i;
    EXPECT_NE(lab.Why(ids[i]).find(rows[i].why), std::string::npos) << lab.Why(ids[i]);
  }
  EXPECT_EQ(plan.wake_at, kStart + 2h);
}

TEST(QueuePass, DependenciesHoldAndCancel) {
  Lab lab(4);
  const JobId waits = lab.Waits(Lab::Gpus(1));
  const JobId never = lab.Waits(Lab::Gpus(1));
  const JobId stays = lab.Waits(With(Lab::Gpus(1), [](Request& r) { r.auto_cancel = false; }));
  lab.updater.SetDependency(waits, DependencyState::kWaits);
  lab.updater.SetDependency(never, DependencyState::kImpossible);
  lab.updater.SetDependency(stays, DependencyState::kImpossible);
  const Plan plan = lab.Decide();
  EXPECT_TRUE(plan.starts.empty());
  ASSERT_EQ(plan.cancels.size(), 1u);
  EXPECT_EQ(plan.cancels[0].job, never);
  EXPECT_EQ(lab.Of(waits).reason, WaitReason::kDependency);
  EXPECT_EQ(lab.Of(stays).reason, WaitReason::kDependencyNever);
  lab.updater.SetDependency(waits, DependencyState::kMet);
  EXPECT_EQ(Text(lab.Decide().starts), "1:0");
}

TEST(QueuePass, ARetryWaitsForItsDelay) {
  Lab lab(1);
  lab.updater.PutWaiting({.id = {1}, .user = "ann", .since = kStart - 1h, .not_before = kStart + 30s},
                         Lab::Gpus(1));
  EXPECT_EQ(lab.Decide().wake_at, kStart + 30s);
  EXPECT_EQ(lab.Of({1}).reason, WaitReason::kRetryDelay);
  lab.now = kStart + 30s;
  EXPECT_EQ(Text(lab.Decide().starts), "1:0");
}

TEST(QueuePass, NothingStartsWhileTheQueueIsPaused) {
  Lab lab(1);
  const JobId job = lab.Waits(Lab::Gpus(1));
  lab.updater.SetPaused(true);
  EXPECT_TRUE(lab.Decide().starts.empty());
  EXPECT_EQ(lab.Of(job).reason, WaitReason::kPaused);
}

TEST(QueuePass, ArraysAndGroupsRunAtMostAsManyAsTheySay) {
  Lab lab(8);
  for (int task = 0; task < 4; ++task)
    lab.Waits(With(Lab::Gpus(1), [&](Request& r) { r.array = ArrayTask{{1}, task, 2}; }));
  const auto one_at_a_time = [](Request& r) { r.group = "sweep", r.max_concurrent = 1; };
  for (int i = 0; i < 3; ++i) lab.Waits(With(Lab::Gpus(1), one_at_a_time));
  lab.Waits(With(Lab::Gpus(1), one_at_a_time), "cat");
  EXPECT_EQ(Text(lab.Decide().starts), "1:0 2:1 5:2 8:3");
  EXPECT_EQ(lab.Of({3}).reason, WaitReason::kArrayLimit);
  EXPECT_EQ(lab.Why({3}), "2 tasks of array 1 run; at most 2 may");
  EXPECT_EQ(lab.Of({6}).reason, WaitReason::kGroupLimit);
  EXPECT_EQ(lab.Why({6}), "1 job of the group sweep run; at most 1 may");
}

TEST(QueuePass, QuotasOfUsersAndProjectsHold) {
  Lab lab(8);
  lab.updater.SetQuota(AccountKind::kUser, "ann", {.gpus = 3});
  lab.updater.SetQuota(AccountKind::kProject, "vision", {.running = 1});
  const auto vision = [](Request& r) { r.project = "vision"; };
  lab.Waits(Lab::Gpus(2));
  const JobId too_many = lab.Waits(Lab::Gpus(2));
  lab.Waits(Lab::Gpus(1));
  lab.Waits(With(Lab::Gpus(1), vision), "cat");
  const JobId second = lab.Waits(With(Lab::Gpus(1), vision), "dan");
  EXPECT_EQ(Text(lab.Decide().starts), "1:0,1 3:2 4:3");
  EXPECT_EQ(lab.Of(too_many).reason, WaitReason::kQuota);
  EXPECT_EQ(lab.Why(too_many), "user ann has 3 GPUs and this job wants 2; the quota allows 3");
  EXPECT_EQ(lab.Why(second), "project vision runs 1 job; the quota allows 1");
}

TEST(QueuePass, GpuHoursCountWhatRunningJobsMayStillUse) {
  Lab lab(8);
  lab.updater.SetQuota(AccountKind::kUser, "ann", {.gpu_hours = 10});
  lab.updater.SetWindow(AccountKind::kUser, "ann", 4 * 3600, kStart + 5h);
  lab.Runs(Lab::Gpus(2, 2h), {0, 1}, "ann");
  const JobId large = lab.Waits(Lab::Gpus(1, 150min));
  const JobId small = lab.Waits(Lab::Gpus(1, 2h));
  const JobId endless = lab.Waits(Lab::Gpus(1));
  EXPECT_EQ(Text(lab.Decide().starts), "3:2");
  EXPECT_EQ(lab.Why(large),
            "user ann used 4 GPU-hours within 1d00h, what runs may use 6 more and this job 2.5; the quota "
            "allows 10");
  EXPECT_EQ(lab.Of(small).reason, WaitReason::kStarts);
  EXPECT_NE(lab.Why(endless).find("no time limit"), std::string::npos);
  EXPECT_EQ(lab.plan.wake_at, kStart + 5h);
}

TEST(QueuePass, HostMemoryAndProcessorsAreHandedOut) {
  Lab lab(4);
  lab.updater.SetHost({base::GiB(100), 16});
  lab.Runs(With(Lab::Gpus(1), [](Request& r) { r.host_memory = base::GiB(50), r.cpus = 8; }), {0});
  const JobId memory = lab.Waits(With(Lab::Gpus(1), [](Request& r) { r.host_memory = base::GiB(51); }));
  const JobId cpus = lab.Waits(With(Lab::Gpus(1), [](Request& r) { r.cpus = 9; }));
  lab.Waits(With(Lab::Gpus(1), [](Request& r) { r.host_memory = base::GiB(50), r.cpus = 8; }));
  lab.settings.patience = 24h;
  EXPECT_EQ(Text(lab.Decide().starts), "4:1");
  EXPECT_EQ(lab.Why(memory), "wants 51GiB of the machine's memory; 0B is free");
  EXPECT_EQ(lab.Why(cpus), "wants 9 processors; 0 are free; 1 job in front");
}

// --- which GPUs

TEST(QueuePass, ExactDevicesModelsAndFreeMemory) {
  Lab lab(3);
  lab.machine[2].model = "NVIDIA H200";
  lab.machine[1].foreign = base::GiB(30);
  lab.updater.SetGpus(lab.machine);
  lab.Waits(Lab::Exactly({0}));
  lab.Waits(With(Lab::Gpus(1), [](Request& r) { r.gpus.model = "h200"; }));
  const JobId roomy = lab.Waits(With(Lab::Gpus(1), [](Request& r) {
    r.gpus.free_memory = base::SizeSpec{base::GiB(60), 0};
  }));
  EXPECT_EQ(Text(lab.Decide().starts), "1:0 2:2");
  EXPECT_EQ(lab.Why(roomy), "wants 1 GPU with 60GiB free; 0 of 3 GPUs can be used now");
}

TEST(QueuePass, SharedJobsArePackedWhereLeastIsLeft) {
  Lab lab(3);
  lab.Runs(Lab::Part(20), {0});
  lab.Runs(Lab::Part(50), {1});
  lab.Waits(Lab::Part(30));
  lab.Waits(Lab::Part(30));
  lab.Waits(Lab::Gpus(1));
  const JobId large = lab.Waits(Lab::Part(40));
  EXPECT_EQ(Text(lab.Decide().starts), "3:1 4:0 5:2");
  EXPECT_EQ(lab.Why(large), "wants 40GiB of a GPU, shared; 0 of 3 GPUs can be used now");
}

TEST(QueuePass, SharedAndExclusiveJobsAreNeverOnOneGpu) {
  Lab lab(2);
  lab.settings.patience = 24h;
  lab.Runs(Lab::Gpus(1), {0});
  lab.Runs(Lab::Part(10), {1});
  lab.Waits(Lab::Gpus(1));
  lab.Waits(Lab::Part(10));
  lab.Waits(Lab::Part(10, 0ms, 2));
  EXPECT_EQ(Text(lab.Decide().starts), "4:1");
}

TEST(QueuePass, GpusThatOthersUseAreNotHandedOut) {
  Lab lab(2);
  lab.updater.SetForeign(Lab::Uuid(0), base::GiB(30), true, "pid 7 (python, user eve)");
  lab.Waits(Lab::Gpus(1));
  const JobId two = lab.Waits(Lab::Gpus(2));
  const JobId part = lab.Waits(Lab::Part(40));
  EXPECT_EQ(Text(lab.Decide().starts), "1:1");
  EXPECT_EQ(lab.Of(part).reason, WaitReason::kUnmanaged);
  EXPECT_NE(lab.Why(part).find("in use by others: GPU 0"), std::string::npos) << lab.Why(part);
  EXPECT_EQ(lab.Of(two).reason, WaitReason::kResources);
  lab.settings.share_unmanaged = true;
  EXPECT_EQ(Text(lab.Decide().starts), "1:1 3:0");
  lab.updater.SetForeign(Lab::Uuid(0), base::GiB(60), true, "");
  EXPECT_EQ(Text(lab.Decide().starts), "1:1");
}

TEST(QueuePass, ClosedGpusAreNotHandedOutAndKeepNothingBack) {
  Lab lab(3);
  lab.machine[0].drained = lab.machine[1].restricted = true;
  lab.updater.SetGpus(lab.machine);
  const JobId two = lab.Waits(Lab::Gpus(2));
  lab.Waits(Lab::Gpus(1));
  EXPECT_EQ(Text(lab.Decide().starts), "2:2");
  EXPECT_EQ(lab.Of(two).reason, WaitReason::kUnavailable);
  EXPECT_NE(lab.Why(two).find("drained: GPU 0; restricted: GPU 1"), std::string::npos) << lab.Why(two);
}

TEST(QueuePass, AnUnhealthyGpuIsNotCalledDrained) {
  Lab lab(3);
  lab.machine[0].unhealthy = lab.machine[0].drained = lab.machine[1].drained = true;
  lab.updater.SetGpus(lab.machine);
  const JobId two = lab.Waits(Lab::Gpus(2));
  lab.Decide();
  EXPECT_NE(lab.Why(two).find("; drained: GPU 1; unhealthy: GPU 0"), std::string::npos) << lab.Why(two);
}

TEST(QueuePass, AJobThatWaitsForOthersIsToldOfGpusThatNobodyGets) {
  Lab lab(3);
  lab.machine[0].drained = true;
  lab.machine[1].split = lab.machine[1].drained = true;
  lab.updater.SetGpus(lab.machine);
  lab.Runs(Lab::Gpus(1), {2});
  const JobId two = lab.Waits(Lab::Gpus(2));
  lab.Decide();
  EXPECT_EQ(lab.Why(two),
            "wants 2 GPUs; 0 of 3 GPUs can be used now; drained: GPU 0; split into instances (MIG): GPU 1");
}

// --- order

TEST(QueuePass, PriorityIsWorthWaitingTime) {
  Lab lab(1);
  lab.settings.priority_step = 1h;
  lab.Waits(Lab::Gpus(1));
  lab.Waits(With(Lab::Gpus(1), [](Request& r) { r.priority = 129; }));
  EXPECT_EQ(Text(lab.Decide().starts), "2:0");
}

TEST(QueuePass, TheUserWhoUsedLessGoesFirst) {
  Lab lab(1);
  lab.updater.Charge("ann", "", {4, 4}, kStart - 24h, kStart - 1h);
  lab.Waits(Lab::Gpus(1), "ann");
  lab.Waits(Lab::Gpus(1), "cat");
  EXPECT_EQ(Text(lab.Decide().starts), "2:0");
}

TEST(QueuePass, SharesSayWhoseUseIsMuch) {
  Lab lab(1);
  lab.updater.Charge("ann", "", {2, 2}, kStart - 24h, kStart - 1h);
  lab.updater.Charge("cat", "", {1, 1}, kStart - 24h, kStart - 1h);
  lab.updater.SetShares(AccountKind::kUser, "ann", 4);
  lab.Waits(Lab::Gpus(1), "cat");
  lab.Waits(Lab::Gpus(1), "ann");
  EXPECT_EQ(Text(lab.Decide().starts), "2:0");
}

Request Of(std::string project) {
  return With(Lab::Gpus(1), [&](Request& request) { request.project = std::move(project); });
}

TEST(QueuePass, AProjectThatUsedLessGoesFirst) {
  Lab lab(1);
  lab.updater.Charge("ann", "vision", {4, 4}, kStart - 24h, kStart - 1h);
  lab.updater.Charge("ann", "speech", {1, 1}, kStart - 24h, kStart - 1h);
  lab.Waits(Of("vision"), "ann");
  lab.Waits(Of("speech"), "ann");
  EXPECT_EQ(Text(lab.Decide().starts), "1:0") << "names that nobody gave shares mean nothing";
  for (const char* project : {"vision", "speech"}) lab.updater.SetShares(AccountKind::kProject, project, 1);
  EXPECT_EQ(Text(lab.Decide().starts), "2:0");
}

TEST(QueuePass, WithinAProjectWhoUsedLessGoesFirst) {
  Lab lab(1);
  lab.updater.Charge("ann", "vision", {4, 4}, kStart - 24h, kStart - 1h);
  lab.updater.Charge("cat", "vision", {1, 1}, kStart - 24h, kStart - 1h);
  lab.updater.Charge("ann", "speech", {1, 1}, kStart - 24h, kStart - 1h);
  for (const char* project : {"vision", "speech"}) lab.updater.SetShares(AccountKind::kProject, project, 1);
  lab.Waits(Of("vision"), "ann");
  lab.Waits(Of("vision"), "cat");
  EXPECT_EQ(Text(lab.Decide().starts), "2:0");
}

TEST(QueuePass, SharesOfAProjectSayWhatIsMuchForIt) {
  Lab lab(1);
  lab.updater.Charge("ann", "vision", {2, 2}, kStart - 24h, kStart - 1h);
  lab.updater.Charge("cat", "speech", {1, 1}, kStart - 24h, kStart - 1h);
  lab.updater.SetShares(AccountKind::kProject, "vision", 4);
  lab.updater.SetShares(AccountKind::kProject, "speech", 1);
  lab.Waits(Of("speech"), "cat");
  lab.Waits(Of("vision"), "ann");
  EXPECT_EQ(Text(lab.Decide().starts), "2:0");
}

// The example of docs/scheduler.md.
TEST(QueuePass, FairSharesArePartsOfPartsAndAMeanOfBothLevels) {
  Lab lab(1);
  lab.settings.half_life = 24h * 36500;
  lab.View();
  lab.updater.Charge("ann", "vision", {1, 1}, kStart - 60h, kStart);
  lab.updater.Charge("bob", "vision", {1, 1}, kStart - 20h, kStart);
  lab.updater.Charge("cat", "speech", {1, 1}, kStart - 20h, kStart);
  lab.updater.SetShares(AccountKind::kProject, "vision", 3);
  lab.updater.SetShares(AccountKind::kProject, "speech", 1);
  for (const auto& [user, project] : {std::pair("ann", "vision"), {"bob", "vision"}, {"cat", "speech"}})
    lab.Waits(Of(project), user);
  const FairShares fair = FairSharesOf(lab.View(), kStart);
  constexpr double kNear = 1e-3;
  EXPECT_NEAR(fair.projects[0].entitled, 0.75, kNear);
  EXPECT_NEAR(fair.projects[0].used, 0.8, kNear);
  EXPECT_NEAR(fair.projects[0].factor, std::exp2(-0.8 / 0.75), kNear);
  EXPECT_NEAR(fair.members[0].entitled, 0.375, kNear);
  EXPECT_NEAR(fair.members[0].used, 0.6, kNear);
  EXPECT_NEAR(fair.members[0].factor, (std::exp2(-0.8 / 0.75) + std::exp2(-1.5)) / 2, kNear);
  EXPECT_NEAR(fair.members[2].factor, (std::exp2(-0.8) + std::exp2(-1.0)) / 2, kNear);
}

TEST(QueuePass, ANameMadeUpForEachJobIsWorthNothing) {
  Lab lab(1);
  lab.updater.Charge("ann", "a", {1, 1}, kStart - 48h, kStart);
  lab.updater.Charge("bob", "", {1, 1}, kStart - 24h, kStart);
  lab.Waits(Of("new"), "ann");
  lab.Waits(Of(""), "bob");
  EXPECT_EQ(Text(lab.Decide().starts), "2:0");
}

TEST(QueuePass, AJobWithoutATimeLimitStandsLikeOneOfHours) {
  Lab lab(1);
  lab.Waits(Lab::Gpus(1, 24h));
  lab.Waits(Lab::Gpus(1));
  lab.Waits(Lab::Gpus(1, 10min));
  EXPECT_EQ(Text(lab.Decide().starts), "3:0");
  EXPECT_EQ(lab.Of({2}).position, 1U);
}

TEST(QueuePass, ShortJobsGoBeforeLongOnes) {
  Lab lab(1);
  lab.Waits(Lab::Gpus(1, 24h));
  lab.Waits(Lab::Gpus(1, 10min));
  EXPECT_EQ(Text(lab.Decide().starts), "2:0");
}

}  // namespace
}  // namespace gpuman::queue

// Tests what a pass does for jobs for which the machine has no room: it keeps GPUs, preempts jobs, or moves
// jobs.
#include <gtest/gtest.h>

#include "queue/forecast.h"
#include "queue/test_lab.h"

namespace gpuman::queue {
namespace {

using namespace std::chrono_literals;

// --- backfill

TEST(QueuePassRoom, AJobThatEndsBeforeTheFirstBlockedJobBeginsMayStart) {
  Lab lab(4);
  lab.Runs(Lab::Gpus(2, 3h), {0, 1});  // 2 h left
  const JobId wide = lab.Waits(Lab::Gpus(4, 1h));
  const JobId longer = lab.Waits(Lab::Gpus(1, 121min));
  const JobId endless = lab.Waits(Lab::Gpus(1));
  lab.Waits(Lab::Gpus(1, 2h));
  EXPECT_EQ(Text(lab.Decide().starts), "5:2");
  EXPECT_EQ(lab.Of(wide).reason, WaitReason::kResources);
  EXPECT_EQ(lab.Of(wide).start, kStart + 2h);
  for (const JobId job : {longer, endless}) {
    EXPECT_EQ(lab.Of(job).reason, WaitReason::kPriority);
    EXPECT_NE(lab.Why(job).find("kept for a job in front"), std::string::npos) << lab.Why(job);
    EXPECT_EQ(lab.BlockersOf(job).in_front.front(), wide);
    EXPECT_TRUE(lab.BlockersOf(job).holders.empty()) << "a GPU is free";
  }
  EXPECT_EQ(lab.BlockersOf(endless).in_front, (std::vector{wide, longer}));
  EXPECT_TRUE(lab.BlockersOf(wide).in_front.empty());
  EXPECT_EQ(lab.BlockersOf(wide).holders.size(), 2u);
}

TEST(QueuePassRoom, GpusBeyondThoseOfTheFirstBlockedJobAreForEverybody) {
  Lab lab(4);
  lab.Runs(Lab::Gpus(2, 3h), {0, 1});
  lab.Waits(Lab::Gpus(3, 1h));
  lab.Waits(Lab::Gpus(1));
  lab.Waits(Lab::Gpus(1));
  EXPECT_EQ(Text(lab.Decide().starts).size(), 3u);
}

TEST(QueuePassRoom, WhereNoEndIsKnownGpusAreKeptAfterTheFirstHasWaitedLong) {
  Lab lab(2);
  lab.settings.patience = 2h;
  lab.Runs(Lab::Gpus(1), {0});
  const JobId wide = lab.Waits(Lab::Gpus(2));  // submitted an hour ago
  lab.Waits(Lab::Gpus(1));
  Plan plan = lab.Decide();
  EXPECT_EQ(Text(plan.starts), "3:1");
  EXPECT_EQ(lab.Of(wide).start, kNever);
  ASSERT_TRUE(plan.wake_at);
  lab.now = *plan.wake_at;
  EXPECT_TRUE(lab.Decide().starts.empty());
}

// The job has waited for an hour. One GPU will be free for it in half an hour, or in two hours.
TEST(QueuePassRoom, GpusAreKeptEarlierForAJobThatIsNearlyThere) {
  for (const bool near : {true, false}) {
    Lab lab(2);
    lab.settings.patience = 48h;
    lab.settings.keep_ratio = 1;
    lab.Runs(Lab::Gpus(1, near ? 90min : 3h), {0});
    const JobId wide = lab.Waits(Lab::Gpus(2, 1h));
    lab.Waits(Lab::Gpus(1, 150min));
    const Plan plan = lab.Decide();
    EXPECT_EQ(Text(plan.starts), near ? "" : "3:1");
    EXPECT_EQ(lab.Of(wide).start, near ? kStart + 30min : kNever);
    if (near) continue;
    ASSERT_TRUE(plan.wake_at);
    EXPECT_EQ(*plan.wake_at, kStart + 30min + 1s);
    lab.settings.keep_ratio = 0;
    EXPECT_EQ(*lab.Decide().wake_at, kStart + 47h + 2s);
  }
}

TEST(QueuePassRoom, ASharedJobMayStartBesideTheOneThatTheGpuIsKeptFor) {
  Lab lab(1);
  lab.Runs(Lab::Part(50, 3h), {0});
  lab.Waits(Lab::Part(60, 1h));
  lab.Waits(Lab::Part(21));
  lab.Waits(Lab::Part(20));
  EXPECT_EQ(Text(lab.Decide().starts), "4:0");
}

TEST(QueuePassRoom, HostMemoryIsKeptForTheFirstBlockedJobToo) {
  Lab lab(4);
  lab.updater.SetHost({base::GiB(100), std::nullopt});
  const auto memory = [](std::uint64_t gib) { return [gib](Request& r) { r.host_memory = base::GiB(gib); }; };
  lab.Runs(With(Lab::Gpus(1, 3h), memory(60)), {0});
  lab.Waits(With(Lab::Gpus(1, 1h), memory(90)));
  lab.Waits(With(Lab::Gpus(1), memory(11)));
  lab.Waits(With(Lab::Gpus(1), memory(10)));
  lab.Waits(With(Lab::Gpus(1, 1h), memory(20)));
  const Plan plan = lab.Decide();
  EXPECT_EQ(lab.Of({2}).start, kStart + 2h);
  EXPECT_EQ(Text(plan.starts), "5:1 4:2");  // the short job first
}

// --- reservations

TEST(QueuePassRoom, NothingOfOthersStartsThatCouldRunIntoAReservation) {
  Lab lab(2);
  lab.updater.SetReservations({{1, "demo", {Lab::Uuid(0)}, kStart + 1h, kStart + 2h, {"cat"}}});
  const JobId blocked = lab.Waits(Lab::Exactly({0}, 61min));
  Plan plan = lab.Decide();
  EXPECT_TRUE(plan.starts.empty());
  EXPECT_EQ(lab.Of(blocked).reason, WaitReason::kReservation);
  EXPECT_EQ(lab.Of(blocked).start, kStart + 2h);
  EXPECT_EQ(plan.wake_at, kStart + 1h);
  lab.Waits(Lab::Exactly({0}, 1h));
  lab.Waits(Lab::Gpus(1));
  EXPECT_EQ(Text(lab.Decide().starts), "2:0 3:1");
}

TEST(QueuePassRoom, AReservationIsForItsUsers) {
  Lab lab(1);
  lab.updater.SetReservations({{1, "demo", {Lab::Uuid(0)}, kStart - 1h, kStart + 2h, {"cat"}}});
  const JobId other = lab.Waits(Lab::Gpus(1, 1min), "ann");
  EXPECT_TRUE(lab.Decide().starts.empty());
  EXPECT_EQ(lab.Of(other).reason, WaitReason::kReservation);
  const JobId later = lab.Waits(Lab::Gpus(1, 3h), "cat");  // from then on it is kept for the other job
  EXPECT_TRUE(lab.Decide().starts.empty());
  EXPECT_EQ(lab.Of(later).reason, WaitReason::kPriority);
  lab.Waits(Lab::Gpus(1, 2h), "cat");
  EXPECT_EQ(Text(lab.Decide().starts), "3:0");
  lab.now = kStart + 2h;
  EXPECT_EQ(Text(lab.Decide().starts), "1:0");
}

// --- preemption and moves

Request Preemptible(Request request) {
  request.preemptible = true;
  return request;
}

TEST(QueuePassRoom, PreemptibleJobsLeaveForOthersAndTheRoomIsKept) {
  Lab lab(2);
  lab.Runs(Lab::Gpus(1), {0});
  const JobId victim = lab.Runs(Preemptible(Lab::Gpus(1)), {1});
  const JobId job = lab.Waits(Lab::Gpus(1));
  Plan plan = lab.Decide();
  ASSERT_EQ(plan.preempts.size(), 1u);
  EXPECT_EQ(plan.preempts[0].job, victim);
  EXPECT_FALSE(plan.preempts[0].requeue);
  EXPECT_EQ(plan.preempts[0].for_job, job);
  EXPECT_EQ(lab.Of(job).reason, WaitReason::kMakingRoom);

  // While it leaves, no other job is told to leave.
  lab.updater.PutRunning(
      {.id = victim, .user = "bob", .phase = RunningPhase::kLeaving, .gpus = {Lab::Uuid(1)}},
      Preemptible(Lab::Gpus(1)));
  plan = lab.Decide();
  EXPECT_TRUE(plan.preempts.empty());
  EXPECT_EQ(lab.Of(job).reason, WaitReason::kMakingRoom);

  lab.updater.PutRunning(
      {.id = victim, .user = "bob", .phase = RunningPhase::kSuspended, .wants_back = true, .since = kStart},
      Preemptible(Lab::Gpus(1)));
  plan = lab.Decide();
  EXPECT_EQ(Text(plan.starts), "3:1");
  EXPECT_TRUE(plan.resumes.empty());
}

TEST(QueuePassRoom, VictimsAreSuspendableThenLowerPriorityThenNewer) {
  Lab lab(4);
  const auto one = Preemptible(Lab::Gpus(1));
  const auto low = With(one, [](Request& r) { r.priority = 10; });
  lab.Runs(low, {0}, "bob", [](RunningJob& job) { job.suspendable = false; });
  lab.Runs(one, {1});
  const JobId newer =
      lab.Runs(one, {2}, "bob", [](RunningJob& job) { job.on_since = base::MonoTime{} - 10min; });
  const JobId lowest = lab.Runs(low, {3});
  const auto victims = [&] {
    std::vector<JobId> jobs;
    for (const PreemptDecision& each : lab.Decide().preempts) jobs.push_back(each.job);
    return jobs;
  };
  lab.Waits(Lab::Gpus(1));
  EXPECT_EQ(victims().size(), 1u);
  lab.Waits(Lab::Gpus(2));
  EXPECT_EQ(victims().size(), 3u);
  lab.Waits(Lab::Gpus(1));
  const auto all = victims();
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all.back(), JobId{1});
  EXPECT_TRUE(lab.plan.preempts.back().requeue);
  EXPECT_NE(std::find(all.begin(), all.end(), newer), all.end());
  EXPECT_NE(std::find(all.begin(), all.end(), lowest), all.end());
}

TEST(QueuePassRoom, AJobKeepsItsGpuForAWhileBeforeItIsPreempted) {
  Lab lab(1);
  lab.Runs(Preemptible(Lab::Gpus(1)), {0}, "bob",
           [](RunningJob& job) { job.on_since = base::MonoTime{} - 20s; });
  lab.Waits(Lab::Gpus(1));
  const Plan plan = lab.Decide();
  EXPECT_TRUE(plan.preempts.empty());
  EXPECT_EQ(plan.wake_at, kStart + 40s);
}

TEST(QueuePassRoom, IdleJobsArePreemptedBeforeOthers) {
  Lab lab(2);
  lab.Runs(Preemptible(Lab::Gpus(1)), {0});
  const JobId idle = lab.Runs(Preemptible(With(Lab::Gpus(1), [](Request& r) { r.priority = 200; })), {1},
                              "bob", [](RunningJob& job) { job.idle = true; });
  lab.Waits(With(Lab::Gpus(1), [](Request& r) { r.priority = 250; }));
  const Plan plan = lab.Decide();
  ASSERT_EQ(plan.preempts.size(), 1u);
  EXPECT_EQ(plan.preempts.front().job, idle);
}

TEST(QueuePassRoom, WithoutHigherPriorityAJobPreemptsAfterItHasWaited) {
  Lab lab(1);
  lab.settings.preempt_wait = 2h;
  lab.Runs(Preemptible(Lab::Gpus(1)), {0});
  const JobId job = lab.Waits(Lab::Gpus(1));
  const Plan plan = lab.Decide();
  EXPECT_TRUE(plan.preempts.empty());
  ASSERT_TRUE(plan.wake_at);
  lab.now = *plan.wake_at;
  EXPECT_EQ(lab.Decide().preempts.size(), 1u);
  lab.now = kStart;
  lab.updater.Erase(job);
  lab.Waits(With(Lab::Gpus(1), [](Request& r) { r.priority = 129; }));
  EXPECT_EQ(lab.Decide().preempts.size(), 1u);
}

TEST(QueuePassRoom, NobodyIsPreemptedWhoWouldBeBackFirst) {
  Lab lab(1);
  lab.settings.priority_step = 1h;
  lab.Runs(With(Preemptible(Lab::Gpus(1)), [](Request& r) { r.priority = 200; }), {0});
  lab.Waits(Lab::Gpus(1));
  EXPECT_TRUE(lab.Decide().preempts.empty());
}

TEST(QueuePassRoom, WhereNoEndIsKnownShortJobsStillStart) {
  Lab lab(2);
  lab.settings.slack = 1h;
  lab.Runs(Lab::Gpus(1), {0});
  lab.Waits(Lab::Gpus(2));
  lab.Waits(Lab::Gpus(1, 2h));
  lab.Waits(Lab::Gpus(1, 1h));
  EXPECT_EQ(Text(lab.Decide().starts), "4:1");
}

TEST(QueuePassRoom, PreemptibleJobsPreemptOnlyThoseOfLowerPriority) {
  Lab lab(1);
  lab.Runs(Preemptible(Lab::Gpus(1)), {0});
  lab.Waits(Preemptible(Lab::Gpus(1)));
  EXPECT_TRUE(lab.Decide().preempts.empty());
  lab.Waits(With(Preemptible(Lab::Gpus(1)), [](Request& r) { r.priority = 129; }));
  EXPECT_EQ(lab.Decide().preempts.size(), 1u);
}

TEST(QueuePassRoom, PreemptibleJobsFillWhatIsKeptForOthers) {
  Lab lab(2);
  lab.Runs(Lab::Gpus(1, 3h), {0});
  lab.Waits(Lab::Gpus(2, 1h));
  lab.Waits(Lab::Gpus(1));
  lab.Waits(Preemptible(Lab::Gpus(1)));
  EXPECT_EQ(Text(lab.Decide().starts), "4:1");
}

TEST(QueuePassRoom, ASuspendedJobComesBackWhenThereIsRoom) {
  Lab lab(2);
  const auto off = [](RunningJob& job) {
    job.phase = RunningPhase::kSuspended;
    job.wants_back = true;
    job.on_since.reset();
    job.since = kStart - 10min;
  };
  lab.Runs(Lab::Gpus(1), {1});
  lab.Runs(Preemptible(Lab::Gpus(1)), {1}, "bob", off);
  EXPECT_TRUE(lab.Decide().resumes.empty());  // it cannot be moved, and its GPU is taken
  lab.Runs(Preemptible(Lab::Gpus(1)), {1}, "bob", [&](RunningJob& job) {
    off(job);
    job.movable = true;
  });
  const Plan plan = lab.Decide();
  ASSERT_EQ(plan.resumes.size(), 1u);
  EXPECT_EQ(plan.resumes[0].job, JobId{3});
  EXPECT_EQ(plan.resumes[0].gpus, Set({0}));
}

TEST(QueuePassRoom, PreemptibleJobsLeaveAReservationWhenItBegins) {
  Lab lab(1);
  lab.Runs(Preemptible(Lab::Gpus(1)), {0});
  lab.updater.SetReservations({{1, "demo", {Lab::Uuid(0)}, kStart + 1h, kStart + 2h, {"cat"}}});
  EXPECT_TRUE(lab.Decide().preempts.empty());
  lab.now = kStart + 1h;
  EXPECT_EQ(lab.Decide().preempts.size(), 1u);
}

TEST(QueuePassRoom, AJobIsMovedWhereThatMakesRoom) {
  Lab lab(2);
  const auto movable = [](RunningJob& job) { job.movable = true; };
  const JobId small = lab.Runs(Lab::Part(10), {0}, "bob", movable);
  lab.Runs(Lab::Part(20), {1}, "bob", movable);
  const JobId job = lab.Waits(Lab::Gpus(1));
  const Plan plan = lab.Decide();
  ASSERT_EQ(plan.moves.size(), 1u);
  EXPECT_EQ(plan.moves[0].job, small);
  EXPECT_EQ(plan.moves[0].from, Set({0}));
  EXPECT_EQ(plan.moves[0].to, Set({1}));
  EXPECT_EQ(lab.Of(job).reason, WaitReason::kMakingRoom);
}

TEST(QueuePassRoom, AJobIsMovedOffAGpuThatSomebodyNames) {
  Lab lab(2);
  lab.Runs(Lab::Gpus(1), {0}, "bob", [](RunningJob& job) { job.movable = true; });
  lab.Waits(Lab::Exactly({0}));
  const Plan plan = lab.Decide();
  ASSERT_EQ(plan.moves.size(), 1u);
  EXPECT_EQ(plan.moves[0].to, Set({1}));
}

TEST(QueuePassRoom, OnlyWhatIsNeededIsMovedAndNothingInVain) {
  Lab lab(2);
  const auto movable = [](RunningJob& job) { job.movable = true; };
  lab.Runs(Lab::Part(40), {0}, "bob", movable);
  lab.Runs(Lab::Part(20), {0}, "bob", movable);
  lab.Runs(Lab::Part(50), {1}, "bob", movable);
  lab.Waits(Lab::Part(40));
  const Plan plan = lab.Decide();
  ASSERT_EQ(plan.moves.size(), 1u);
  EXPECT_EQ(plan.moves[0].job, JobId{2});
  lab.Waits(Lab::Gpus(2));
  EXPECT_EQ(lab.Decide().moves.size(), 1u);
}

// --- what stays of suspended jobs

// A job that is suspended, and of which so much stays on GPU 0.
JobId SuspendedWith(Lab& lab, const Request& request, std::uint64_t left, bool wants_back = false) {
  return lab.Runs(request, {0}, "bob", [&](RunningJob& job) {
    job.phase = RunningPhase::kSuspended;
    job.wants_back = wants_back;
    job.on_since.reset();
    job.since = kStart - 2h;
    if (left > 0) job.left = {{Lab::Uuid(0), base::GiB(left)}};
  });
}

Request WithFree(std::uint64_t gib) {
  return With(Lab::Gpus(1), [&](Request& r) { r.gpus.free_memory = base::SizeSpec{base::GiB(gib), 0}; });
}

TEST(QueuePassRoom, MemoryThatASuspendedJobKeepsIsNotFree) {
  const Request limited = With(Lab::Gpus(1), [](Request& r) { r.memory_on_each = base::GiB(51); });
  for (const auto& [request, starts] : {std::pair(Lab::Gpus(1), true),
                                        {WithFree(50), true},
                                        {WithFree(51), false},
                                        {limited, false},
                                        {Lab::Part(50), true},
                                        {Lab::Part(51), false}}) {
    Lab lab(1);
    SuspendedWith(lab, Lab::Gpus(1), 30);
    const JobId job = lab.Waits(request);
    EXPECT_EQ(lab.Decide().starts.size(), starts ? 1u : 0u) << Describe(lab.updater.NeedOf(request));
    if (starts) continue;
    EXPECT_EQ(lab.Of(job).reason, WaitReason::kResources);
    EXPECT_NE(lab.Why(job).find("it asks for 51GiB on each, and 30GiB of suspended job 1 stay on GPU 0"),
              std::string::npos)
        << lab.Why(job);
    EXPECT_EQ(Forecast(lab.View(), lab.plan, lab.now, 10).starts.at(0), kNever) << "it may stay for ever";
  }
}

TEST(QueuePassRoom, KeptMemoryCountsForEachSuspendedJobOnly) {
  Lab lab(1);
  SuspendedWith(lab, Lab::Gpus(1), 10);
  const JobId other = SuspendedWith(lab, Lab::Gpus(1), 5);
  lab.Waits(Lab::Part(65));
  EXPECT_EQ(lab.Decide().starts.size(), 1u);
  lab.Waits(Lab::Part(1));
  EXPECT_EQ(lab.Decide().starts.size(), 1u) << "there is no more";
  RunningJob back{.id = other, .user = "bob", .gpus = {Lab::Uuid(0)}, .left = {{Lab::Uuid(0), base::GiB(5)}}};
  lab.updater.PutRunning(back, Lab::Part(4));
  EXPECT_EQ(lab.Decide().starts.size(), 2u) << "its memory of 4 GiB has what stayed";
}

TEST(QueuePassRoom, ASuspendedJobComesBackToWhatStayedOfItself) {
  Lab lab(1);
  SuspendedWith(lab, Preemptible(Lab::Part(80)), 30, true);
  lab.Waits(Lab::Part(1));
  const Plan plan = lab.Decide();
  EXPECT_EQ(plan.resumes.size(), 1u) << "it needs no room beside itself";
  EXPECT_TRUE(plan.starts.empty()) << "and has all of the GPU";
}

TEST(QueuePassRoom, AGpuIsNotKeptForAJobThatDoesNotFitBesideWhatStays) {
  Lab lab(1);
  SuspendedWith(lab, Lab::Gpus(1), 30);
  const JobId big = lab.Waits(WithFree(60));
  lab.Waits(Lab::Gpus(1));
  EXPECT_EQ(Text(lab.Decide().starts), "3:0");
  EXPECT_EQ(lab.Of(big).reason, WaitReason::kResources);
}

TEST(QueuePassRoom, KeptMemoryFollowsTheGpuWhateverItsIndex) {
  Lab lab(2);
  SuspendedWith(lab, Lab::Gpus(1), 30);
  std::swap(lab.machine[0], lab.machine[1]);
  lab.updater.SetGpus(lab.machine);
  lab.Waits(WithFree(60));
  EXPECT_EQ(Text(lab.Decide().starts), "2:0");
}

// A preemptible job on GPU 0, of which so much would stay if it were suspended.
JobId WouldLeave(Lab& lab, std::uint64_t left, const Request& request = Lab::Gpus(1)) {
  return lab.Runs(Preemptible(request), {0}, "bob", [&](RunningJob& job) {
    job.left = {{Lab::Uuid(0), base::GiB(left)}};
  });
}

TEST(QueuePassRoom, AJobIsSuspendedWhereEnoughLeavesAndElseEnded) {
  for (const auto& [request, ends] : {std::pair(WithFree(50), false),
                                      {WithFree(51), true},
                                      {Lab::Gpus(1), false},
                                      {Lab::Part(50), false},
                                      {Lab::Part(51), true}}) {
    Lab lab(1);
    const JobId victim = WouldLeave(lab, 30);
    const JobId job = lab.Waits(request);
    const Plan plan = lab.Decide();
    ASSERT_EQ(plan.preempts.size(), 1u);
    EXPECT_EQ(plan.preempts[0].job, victim);
    EXPECT_EQ(plan.preempts[0].requeue, ends) << Describe(lab.updater.NeedOf(request));
    EXPECT_EQ(plan.preempts[0].left, ends ? base::GiB(30) : base::Bytes{});
    EXPECT_EQ(lab.Of(job).reason, WaitReason::kMakingRoom);
  }
}

TEST(QueuePassRoom, NobodyLeavesForAJobThatWouldNotFitAllTheSame) {
  Lab lab(1);
  SuspendedWith(lab, Lab::Gpus(1), 40);
  WouldLeave(lab, 30);
  const JobId job = lab.Waits(WithFree(41));
  EXPECT_TRUE(lab.Decide().preempts.empty());
  EXPECT_EQ(lab.Of(job).reason, WaitReason::kResources);
  EXPECT_NE(lab.Why(job).find("40GiB of suspended job 1 stay"), std::string::npos) << lab.Why(job);
}

TEST(QueuePassRoom, AJobThatFreesEnoughLeavesBeforeOneThatWouldEnd) {
  Lab lab(2);
  WouldLeave(lab, 30);
  const JobId plain = lab.Runs(Preemptible(Lab::Gpus(1)), {1});
  lab.Waits(WithFree(60));
  const Plan plan = lab.Decide();
  ASSERT_EQ(plan.preempts.size(), 1u);
  EXPECT_EQ(plan.preempts[0].job, plain);
  EXPECT_FALSE(plan.preempts[0].requeue);
}

TEST(QueuePassRoom, OfSeveralThatLeaveThoseAreEndedThatLeaveMost) {
  Lab lab(1);
  const JobId small = WouldLeave(lab, 5, Lab::Part(40));
  const JobId large = WouldLeave(lab, 10, Lab::Part(40));
  lab.Waits(WithFree(75));
  Plan plan = lab.Decide();
  std::sort(plan.preempts.begin(), plan.preempts.end(), [](auto& a, auto& b) { return a.job < b.job; });
  ASSERT_EQ(plan.preempts.size(), 2u);
  EXPECT_EQ(std::pair(plan.preempts[0].job, plan.preempts[0].requeue), std::pair(small, false));
  EXPECT_EQ(std::pair(plan.preempts[1].job, plan.preempts[1].requeue), std::pair(large, true));
}

TEST(QueuePassRoom, MemoryThatALeavingJobKeepsIsNotWaitedFor) {
  Lab lab(1);
  const JobId goes = lab.Runs(Preemptible(Lab::Gpus(1)), {0}, "bob", [](RunningJob& job) {
    job.phase = RunningPhase::kLeaving;
    job.left = {{Lab::Uuid(0), base::GiB(30)}};
  });
  const JobId fits = lab.Waits(WithFree(50));
  lab.Decide();
  EXPECT_EQ(lab.Of(fits).reason, WaitReason::kMakingRoom);
  lab.updater.Erase(fits);
  const JobId big = lab.Waits(WithFree(51));
  lab.Decide();
  EXPECT_EQ(lab.Of(big).reason, WaitReason::kResources);
  lab.updater.PutRunning({.id = goes,
                          .user = "bob",
                          .phase = RunningPhase::kLeaving,
                          .suspendable = false,
                          .gpus = {Lab::Uuid(0)},
                          .left = {{Lab::Uuid(0), base::GiB(30)}}},
                         Preemptible(Lab::Gpus(1)));
  lab.Decide();
  EXPECT_EQ(lab.Of(big).reason, WaitReason::kMakingRoom) << "it ends";
}

TEST(QueuePassRoom, ASuspendedJobThatCannotBeMovedWaitsForItsOwnGpu) {
  Lab lab(2);
  lab.Runs(Lab::Gpus(1), {0});
  SuspendedWith(lab, Preemptible(Lab::Gpus(1)), 30, true);
  EXPECT_TRUE(lab.Decide().resumes.empty());
}

}  // namespace
}  // namespace gpuman::queue

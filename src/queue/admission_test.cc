// Tests whether a user can send a job to a GPU, and the bound on dependencies. (src/daemon/queue and
// tests/integration/queue_test.py test refused submissions.)
#include "queue/admission.h"

#include <gtest/gtest.h>

#include "queue/test_lab.h"

namespace gpuman::queue {
namespace {

using namespace std::chrono_literals;

std::string Answer(Lab& lab, JobId job, std::size_t gpu) {
  const auto may = MayGoTo(lab.View(), *lab.updater.RowOfRunning(job), gpu, lab.now);
  if (may) return "may";
  EXPECT_EQ(may.error().code, base::ErrorCode::kConflict);
  return may.error().message;
}

void Suspended(RunningJob& job) { job.phase = RunningPhase::kSuspended; }

TEST(QueueAdmission, ASuspendedJobComesBackToAGpuThatNobodyHas) {
  Lab lab(2);
  const JobId job = lab.Runs(Lab::Exactly({0}), {0}, "ann", Suspended);
  EXPECT_EQ(Answer(lab, job, 0), "may");
  EXPECT_EQ(Answer(lab, job, 1), "may");
  lab.Runs(Lab::Gpus(1), {0});
  EXPECT_EQ(Answer(lab, job, 0), "job 1 cannot go to GPU 0 now: it has no room beside job 2");
}

TEST(QueueAdmission, SharedJobsGoWhereTheirMemoryFits) {
  Lab lab(2);
  const JobId job = lab.Runs(Lab::Part(40), {0}, "ann");
  lab.Runs(Lab::Part(40), {1});
  EXPECT_EQ(Answer(lab, job, 1), "may");
  lab.Runs(Lab::Part(10), {1});
  EXPECT_EQ(Answer(lab, job, 1), "job 1 cannot go to GPU 1 now: it has no room beside job 2, 3");
}

TEST(QueueAdmission, MemoryThatSuspendedJobsKeepIsNamed) {
  Lab lab(2);
  const JobId job = lab.Runs(Lab::Part(60), {0}, "ann", [](RunningJob& row) {
    Suspended(row);
    row.left = {{Lab::Uuid(0), base::GiB(5)}};
  });
  lab.Runs(Lab::Part(60), {1}, "bob", [](RunningJob& row) {
    Suspended(row);
    row.left = {{Lab::Uuid(1), base::GiB(30)}};
  });
  EXPECT_EQ(Answer(lab, job, 0), "may");
  EXPECT_EQ(Answer(lab, job, 1),
            "job 1 cannot go to GPU 1 now: too little of its memory is free: 30GiB of suspended job 2 stay "
            "there");
}

TEST(QueueAdmission, ReservedDrainedAndUnmanagedGpusAreNotForIt) {
  Lab lab(4);
  const JobId job = lab.Runs(Lab::Gpus(1), {0}, "ann", Suspended);
  lab.machine[2].drained = true;
  lab.machine[3].unmanaged = true;
  lab.machine[3].holder = "pid 7 (x, user y)";
  lab.updater.SetGpus(lab.machine);
  lab.updater.SetReservations({{1, "demo", {Lab::Uuid(1)}, kStart + 1h, kStart + 2h, {"cat"}}});
  const std::string no = "job 1 cannot go to GPU ";
  EXPECT_EQ(Answer(lab, job, 1), no + "1 now: it is reserved for others while the job may run");
  EXPECT_EQ(Answer(lab, job, 2), no + "2 now: it is drained");
  lab.machine[2].unhealthy = true;
  lab.updater.SetGpus(lab.machine);
  EXPECT_EQ(Answer(lab, job, 2), no + "2 now: it is unhealthy");
  EXPECT_EQ(Answer(lab, job, 3), no + "3 now: it is in use by pid 7 (x, user y)");
}

TEST(QueueAdmission, AQuotaHoldsForAJobThatComesBack) {
  Lab lab(2);
  const JobId job = lab.Runs(Lab::Gpus(1), {0}, "ann", Suspended);
  lab.Runs(Lab::Gpus(1), {1}, "ann");
  lab.updater.SetQuota(AccountKind::kUser, "ann", {.gpus = 1});
  EXPECT_EQ(
      Answer(lab, job, 0),
      "job 1 cannot go to GPU 0 now: the quota of its user or project allows it no GPU beside the others");
}

TEST(QueueAdmission, AJobOfSeveralGpusStaysWithThem) {
  Lab lab(3);
  const JobId job = lab.Runs(Lab::Gpus(2), {0, 1}, "ann", Suspended);
  EXPECT_EQ(Answer(lab, job, 2), "job 1 cannot go to GPU 2 now: it has 2 GPUs, not one");
}

TEST(QueueAdmission, TheDependenciesOfAUserHaveABound) {
  EXPECT_TRUE(MayDepend("ann", kMaxDependenciesOfUser - 2, 2));
  EXPECT_TRUE(MayDepend("ann", kMaxDependenciesOfUser + 5, 0)) << "it adds none";
  const auto refused = MayDepend("ann", kMaxDependenciesOfUser - 2, 3);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, base::ErrorCode::kUnsatisfiable);
  EXPECT_EQ(refused.error().message,
            "depends: the waiting jobs of user ann have 999998 dependencies; with 3 more that passes the "
            "bound of 1000000");
  EXPECT_NE(refused.error().hint.find("put a job between"), std::string::npos) << refused.error().hint;
}

}  // namespace
}  // namespace gpuman::queue

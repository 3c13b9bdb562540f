#include "jobs/launch_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuman::jobs {
namespace {

using ::testing::Contains;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::StartsWith;

Job Asked() {
  Job job;
  job.id = {7};
  job.tag = "train";
  job.owner = JobOwner{1000, 1001, {27}, "lab1"};
  job.command = {"python", "train.py"};
  job.directory = std::string("/home/lab1");
  job.environment = Variables{{"PATH", "/bin"}, {"LD_LIBRARY_PATH", "/opt/lib"}};
  return job;
}

LaunchSettings OnTwoGpus() {
  LaunchSettings settings;
  settings.log_dir = "/state/logs";
  settings.all_gpus = {"GPU-a", "GPU-b"};
  settings.gpu_indices = {{"GPU-a", 0}, {"GPU-b", 1}};
  return settings;
}

TEST(LaunchPlan, RunsTheCommandAsItsOwnerWithItsEnvironment) {
  const keeper::Spec spec = PlanLaunch(Asked(), OnTwoGpus());
  EXPECT_TRUE(keeper::Validate(spec));
  EXPECT_EQ(spec.argv, (std::vector<std::string>{"python", "train.py"}));
  EXPECT_EQ(spec.uid, 1000U);
  EXPECT_EQ(spec.gid, 1001U);
  EXPECT_EQ(spec.groups, std::vector<gid_t>{27});
  EXPECT_EQ(spec.cwd, "/home/lab1");
  EXPECT_EQ(spec.log.path, "/state/logs/7.log");
  EXPECT_THAT(keeper::MergedEnvironment(spec), IsSupersetOf({"PATH=/bin", "LD_LIBRARY_PATH=/opt/lib",
                                                             "GPUMAN_JOB_ID=7", "GPUMAN_JOB_TAG=train"}));
}

TEST(LaunchPlan, HasADirectoryForTracesWhereTheyAreAskedForAndThereIsALibraryThatWritesThem) {
  LaunchSettings settings = OnTwoGpus();
  settings.trace_dir = "/state/traces";
  settings.shim = "/lib/libgpuman.so";
  Job job = Asked();
  const std::string variable = "GPUMAN_SHIM_TRACE=/state/traces/7";
  EXPECT_TRUE(PlanLaunch(job, settings).traces.empty());
  EXPECT_THAT(keeper::MergedEnvironment(PlanLaunch(job, settings)), Not(Contains(variable)));
  spec::JobSpec spec;
  spec.trace_allocations = true;
  job.spec = spec;
  EXPECT_EQ(PlanLaunch(job, settings).traces, "/state/traces/7");
  EXPECT_THAT(keeper::MergedEnvironment(PlanLaunch(job, settings)), Contains(variable));
  spec.preload = false;
  job.spec = spec;
  job.environment = Variables{{"GPUMAN_SHIM_TRACE", "/state/traces/6"}};
  EXPECT_TRUE(PlanLaunch(job, settings).traces.empty());
  EXPECT_THAT(keeper::MergedEnvironment(PlanLaunch(job, settings)),
              Not(Contains(StartsWith("GPUMAN_SHIM_TRACE="))));
}

TEST(LaunchPlan, ShowsTheChosenGpusAloneWhateverTheCallerHadSet) {
  Job job = Asked();
  job.gpus = {"GPU-b"};
  job.environment = Variables{{"CUDA_VISIBLE_DEVICES", "0"}};
  EXPECT_THAT(keeper::MergedEnvironment(PlanLaunch(job, OnTwoGpus())),
              IsSupersetOf({"CUDA_VISIBLE_DEVICES=GPU-b", "CUDA_DEVICE_ORDER=PCI_BUS_ID"}));
}

TEST(LaunchPlan, NamesGpusByTheirIndicesWhereTheJobWishesIt) {
  Job job = Asked();
  job.gpus = {"GPU-b"};
  job.environment = Variables{{"GPUMAN_VISIBLE_DEVICES", "index"}};
  LaunchSettings settings = OnTwoGpus();
  EXPECT_THAT(keeper::MergedEnvironment(PlanLaunch(job, settings)),
              IsSupersetOf({"CUDA_VISIBLE_DEVICES=1", "CUDA_DEVICE_ORDER=PCI_BUS_ID"}));
  job.gpus = {"GPU-b", "GPU-a"};
  EXPECT_THAT(keeper::MergedEnvironment(PlanLaunch(job, settings)), Contains("CUDA_VISIBLE_DEVICES=1,0"));
  job.gpus = {"GPU-gone"};
  EXPECT_THAT(keeper::MergedEnvironment(PlanLaunch(job, settings)),
              Contains("CUDA_VISIBLE_DEVICES=GPU-gone"));
  settings.gpu_indices.clear();
  job.gpus = {"GPU-b"};
  EXPECT_THAT(keeper::MergedEnvironment(PlanLaunch(job, settings)), Contains("CUDA_VISIBLE_DEVICES=GPU-b"))
      << "some GPU is split";
  job.environment = Variables{{"GPUMAN_VISIBLE_DEVICES", "uuid"}};
  EXPECT_THAT(keeper::MergedEnvironment(PlanLaunch(job, OnTwoGpus())),
              Contains("CUDA_VISIBLE_DEVICES=GPU-b"));
}

TEST(LaunchPlan, ShowsEveryGpuWhenNoneWasChosen) {
  EXPECT_THAT(keeper::MergedEnvironment(PlanLaunch(Asked(), OnTwoGpus())),
              Contains("CUDA_VISIBLE_DEVICES=GPU-a,GPU-b"));
}

TEST(LaunchPlan, LeavesTheCallersOwnChoiceOfGpus) {
  Job job = Asked();
  job.environment = Variables{{"CUDA_VISIBLE_DEVICES", "1"}};
  const auto environment = keeper::MergedEnvironment(PlanLaunch(job, OnTwoGpus()));
  EXPECT_THAT(environment, Contains("CUDA_VISIBLE_DEVICES=1"));
  EXPECT_THAT(environment, Not(Contains(StartsWith("CUDA_DEVICE_ORDER="))));
}

TEST(LaunchPlan, HidesNothingOnAMachineWhoseGpusAreUnknown) {
  LaunchSettings settings = OnTwoGpus();
  settings.all_gpus.clear();
  EXPECT_THAT(keeper::MergedEnvironment(PlanLaunch(Asked(), settings)),
              Not(Contains(StartsWith("CUDA_VISIBLE_DEVICES="))));
}

TEST(LaunchPlan, AClientOfMpsFindsItsServerAndStaysOnItsGpu) {
  Job job = Asked();
  job.spec.Change([&](auto& spec) { spec.share = true; });
  LaunchSettings settings = OnTwoGpus();
  settings.shim = "/lib/libgpuman.so";
  settings.shared_memory = "managed";
  EXPECT_THAT(keeper::MergedEnvironment(PlanLaunch(job, settings)), Contains("GPUMAN_SHIM_EVICTABLE=1"));
  job.spec.Change([&](auto& spec) { spec.mps = true; });
  settings.mps = {"CUDA_MPS_PIPE_DIRECTORY=/run/pipe"};
  const auto environment = keeper::MergedEnvironment(PlanLaunch(job, settings));
  EXPECT_THAT(environment, Contains("CUDA_MPS_PIPE_DIRECTORY=/run/pipe"));
  EXPECT_THAT(environment, Not(Contains(StartsWith("GPUMAN_SHIM_EVICTABLE="))));
  EXPECT_THAT(environment, Not(Contains(StartsWith("GPUMAN_SHIM_MEMORY="))));
}

TEST(LaunchPlan, AJobThatMayLeaveWhenIdleGetsAGateAndNoTurns) {
  Job job = Asked();
  LaunchSettings settings = OnTwoGpus();
  settings.shim = "/lib/libgpuman.so";
  settings.shared_memory = "managed";
  job.gated = true;
  const auto environment = keeper::MergedEnvironment(PlanLaunch(job, settings));
  EXPECT_THAT(environment, Contains("GPUMAN_SHIM_EVICTABLE=1"));
  EXPECT_THAT(environment, Not(Contains(StartsWith("GPUMAN_SHIM_MEMORY="))));
  job.spec.Change([&](auto& spec) { spec.preload = false; });
  EXPECT_THAT(keeper::MergedEnvironment(PlanLaunch(job, settings)), Not(Contains("GPUMAN_SHIM_EVICTABLE=1")));
}

TEST(LaunchPlan, TellsTheShimWhatMemoryIsToBeMadeOf) {
  Job job = Asked();
  LaunchSettings settings = OnTwoGpus();
  settings.shim = "/lib/libgpuman.so";
  const auto memory = [&] { return Contains(StartsWith("GPUMAN_SHIM_MEMORY=")); };
  EXPECT_THAT(keeper::MergedEnvironment(PlanLaunch(job, settings)), Not(memory()));
  settings.shared_memory = "managed";
  EXPECT_THAT(keeper::MergedEnvironment(PlanLaunch(job, settings)), Not(memory())) << "it does not share";
  job.spec.Change([&](auto& spec) { spec.share = true; });
  EXPECT_THAT(keeper::MergedEnvironment(PlanLaunch(job, settings)), Contains("GPUMAN_SHIM_MEMORY=managed"));
  job.spec.Change([&](auto& spec) { spec.oversubscribe = true; });
  EXPECT_THAT(keeper::MergedEnvironment(PlanLaunch(job, settings)),
              Contains("GPUMAN_SHIM_MEMORY=oversubscribe"));
  job.spec.Change([&](auto& spec) { spec.preload = false; });
  EXPECT_THAT(keeper::MergedEnvironment(PlanLaunch(job, settings)), Not(memory()));
}

TEST(LaunchPlan, TheJobsGraceGoesBeforeTheDaemons) {
  Job job = Asked();
  EXPECT_EQ(PlanLaunch(job, OnTwoGpus()).stop_grace, base::Millis(10'000));
  job.spec.Change([&](auto& spec) { spec.grace = base::Millis(1); });
  EXPECT_EQ(PlanLaunch(job, OnTwoGpus()).stop_grace, base::Millis(1));
}

TEST(LaunchPlan, EachIncarnationHasADirectoryOfItsOwn) {
  Job job = Asked();
  EXPECT_EQ(JobDirectory("/state/jobs", job), "/state/jobs/7");
  job.incarnation = 2;
  EXPECT_EQ(JobDirectory("/state/jobs", job), "/state/jobs/7.2");
}

Job Queued() {
  Job job = Asked();
  job.queued = true;
  job.array = {{5}, 2, 0};
  return job;
}

TEST(LaunchPlan, AJobOfTheQueueSeesTheGpusItWasGivenAndNoOthers) {
  Job job = Queued();
  EXPECT_THAT(PlanLaunch(job, OnTwoGpus()).extra_environment, Contains("CUDA_VISIBLE_DEVICES="));
  job.gpus = {"GPU-b"};
  EXPECT_THAT(PlanLaunch(job, OnTwoGpus()).extra_environment, Contains("CUDA_VISIBLE_DEVICES=GPU-b"));
}

TEST(LaunchPlan, ATaskOfAnArrayKnowsWhichItIs) {
  EXPECT_THAT(PlanLaunch(Queued(), OnTwoGpus()).extra_environment,
              IsSupersetOf({"GPUMAN_ARRAY_JOB_ID=5", "GPUMAN_ARRAY_TASK_ID=2"}));
}

TEST(LaunchPlan, TimeLimitAndFilesAreThoseOfTheSpec) {
  Job job = Queued();
  spec::JobSpec asked;
  asked.time_limit = base::Millis(5000);
  asked.warn_signal = spec::Signal{10};
  asked.warn_before = base::Millis(100);
  asked.host_memory = base::GiB(8);
  asked.cpus = 4;
  asked.stdout_file = "out-%A_%a-%j-%x-100%%-%q%";
  job.spec = asked;
  const keeper::Spec spec = PlanLaunch(job, OnTwoGpus());
  EXPECT_EQ(spec.time_limit, (keeper::TimeLimit{base::Millis(5000), 10, base::Millis(100)}));
  EXPECT_EQ(spec.standard_output, "out-5_2-7-train-100%-%q%");
  EXPECT_TRUE(keeper::Validate(spec));
}

TEST(LaunchPlan, AJobThatTheQueueAcceptsIsValidForTheKeeper) {
  Job job = Queued();
  spec::JobSpec asked;
  asked.time_limit = std::chrono::hours(24 * 366 * 10);
  asked.warn_before = *asked.time_limit;
  ASSERT_TRUE(spec::Validate(asked));
  job.spec = asked;
  EXPECT_TRUE(keeper::Validate(PlanLaunch(job, OnTwoGpus())));
}

}  // namespace
}  // namespace gpuman::jobs

#include "daemon/device/device_profile_assigner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuman::daemon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

class DeviceProfileAssignerTest : public ::testing::Test {
 protected:
  DeviceProfileAssignerTest() {
    for (unsigned i = 0; i < 2; ++i) {
      gpu::Gpu gpu;
      gpu.index = i;
      gpu.uuid = "GPU-" + std::to_string(i);
      inventory.gpus.push_back(gpu);
      statuses[gpu.uuid].gpu = gpu;
    }
  }
  // These are all processes on the GPU now. A process outside all jobs has no `job`.
  void See(const std::string& uuid, std::vector<gpu::AttributedProcess> processes) {
    auto& status = statuses[uuid];
    status.processes = std::move(processes);
    status.sample.taken_at += base::Millis(1000);
  }
  static gpu::AttributedProcess Process(pid_t pid, std::optional<base::JobId> job) {
    gpu::AttributedProcess process{{pid, 1}, job};
    process.name = "python";
    return process;
  }
  DeviceProfileAssigner::Decision Follow(const std::vector<RunningJob>& running) {
    auto decision = profiles.Follow(running, inventory, statuses, [this](const std::string& uuid) {
      const auto it = in_force.find(uuid);
      return it == in_force.end() ? std::nullopt : std::optional(it->second);
    });
    in_force.clear();
    for (const auto& [uuid, profile] : decision.given) in_force[uuid] = profile.job;
    return decision;
  }

  gpu::Inventory inventory;
  std::map<std::string, guard::GpuStatus> statuses;
  std::map<std::string, std::int64_t> in_force;
  DeviceProfileAssigner profiles;
};

const RunningJob kBench{{7}, "benchmark", std::vector<std::string>{"GPU-0"}};
const RunningJob kOtherAsker{{8}, "", std::vector<std::string>{"GPU-0"}};

TEST_F(DeviceProfileAssignerTest, AJobAloneGetsItsProfileOnItsGpusOnly) {
  See("GPU-0", {Process(70, base::JobId{7})});
  EXPECT_THAT(Follow({kBench}).given, ElementsAre(Pair("GPU-0", JobDeviceProfile{7, "benchmark"})));
  EXPECT_THAT(profiles.NotesOf({7}), IsEmpty());
}

TEST_F(DeviceProfileAssignerTest, AJobThatNamesNoGpuHasAllWholeGpus) {
  EXPECT_EQ(Follow({{{7}, "benchmark", std::nullopt}}).given.size(), 2U);
}

TEST_F(DeviceProfileAssignerTest, AnotherJobIsCompanyAndThatIsToldOnce) {
  const auto decision = Follow({kBench, kOtherAsker});
  EXPECT_THAT(decision.given, IsEmpty());
  EXPECT_THAT(decision.refused, ElementsAre(Pair(base::JobId{7}, HasSubstr("job 8 runs there too"))));
  EXPECT_THAT(Follow({kBench, kOtherAsker}).refused, IsEmpty());
  EXPECT_THAT(profiles.NotesOf({7}), ElementsAre(HasSubstr("on GPU 0")));
  EXPECT_THAT(Follow({kBench}).given, ElementsAre(Pair("GPU-0", JobDeviceProfile{7, "benchmark"})));
  EXPECT_THAT(profiles.NotesOf({7}), IsEmpty());
}

TEST_F(DeviceProfileAssignerTest, AForeignProcessThatIsSeenOnceTakesNothingAwayOneSeenTwiceDoes) {
  Follow({kBench});
  See("GPU-0", {Process(70, std::nullopt)});
  EXPECT_EQ(Follow({kBench}).given.size(), 1U) << "it may turn out to be the job's";
  EXPECT_EQ(Follow({kBench}).given.size(), 1U) << "the same look";
  See("GPU-0", {Process(70, std::nullopt)});
  const auto decision = Follow({kBench});
  EXPECT_THAT(decision.given, IsEmpty());
  EXPECT_THAT(decision.refused, ElementsAre(Pair(base::JobId{7}, HasSubstr("pid 70 (python) uses it too"))));
}

TEST_F(DeviceProfileAssignerTest, AStrangerThatWasThereFirstKeepsItAway) {
  See("GPU-0", {Process(70, std::nullopt)});
  EXPECT_THAT(Follow({kBench}).given, IsEmpty());
}

TEST_F(DeviceProfileAssignerTest, GpumansOwnAreNoCompany) {
  auto mover = Process(70, std::nullopt);
  mover.ours = true;
  See("GPU-0", {mover});
  EXPECT_EQ(Follow({kBench}).given.size(), 1U);
}

TEST_F(DeviceProfileAssignerTest, AnInstanceHasNoSettings) {
  gpu::Gpu instance;
  instance.uuid = "MIG-0";
  instance.mig = gpu::Instance{"GPU-0", 0, 1, 0, "1g.18gb"};
  inventory.gpus.push_back(instance);
  const auto decision = Follow({{{7}, "benchmark", std::vector<std::string>{"MIG-0"}}});
  EXPECT_THAT(decision.given, IsEmpty());
  EXPECT_THAT(decision.refused, ElementsAre(Pair(base::JobId{7}, HasSubstr("GPU 0:0 is an instance (MIG)"))));
}

TEST_F(DeviceProfileAssignerTest, ARefusalIsRememberedUntilTheRunIsOver) {
  profiles.SetRefused({7}, "on GPU-0: no permission");
  Follow({kBench});
  EXPECT_THAT(profiles.NotesOf({7}), ElementsAre("on GPU-0: no permission"));
  profiles.Forget({7});
  EXPECT_THAT(profiles.NotesOf({7}), IsEmpty());
}

}  // namespace
}  // namespace gpuman::daemon

// Tests reading and changing through the simulated driver, which refuses what the real driver refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "mig/applier.h"
#include "mig/reader.h"
#include "mig/test_tables.h"
#include "sim/state/lifecycle.h"
#include "sim/state/mig.h"
#include "sim/state/test_state.h"

namespace gpuman::mig {
namespace {

namespace abi = driver::abi;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class SimulatedMig : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "the driver lets root alone look and change";
  }
  void Boot(const char* profile = "h200", const char* driver = "580.159.04", const char* folder = "") {
    state_ =
        std::make_unique<sim::TestState>(sim::CreateOptions{.profile = profile, .driver_version = driver});
    setenv(sim::kDirectoryVariable, state_->directory().c_str(), 1);
    auto loaded = driver::Nvml::Load(std::string(GPUMAN_SIM_LIBRARIES) + folder + "/libnvidia-ml.so.1");
    ASSERT_TRUE(loaded) << loaded.error().message;
    nvml_ = *std::move(loaded);
    uuid_ = nvml_->Info(nvml_->DeviceAt(0).value()).value().uuid;
  }
  void TearDown() override {
    nvml_.reset();
    unsetenv(sim::kDirectoryVariable);
  }

  base::Result<ApplyResult> Make(const std::vector<std::string>& items, bool enabled = true) {
    return Apply(*nvml_, uuid_, {enabled, *ParseItems(items)}, {});
  }
  GpuMigState Read() { return ReadDevice(*nvml_, uuid_).value(); }
  std::vector<std::string> Now() {
    const auto device = Read();
    std::vector<std::string> names;
    for (const auto& item : ItemsOf(device.geometry, device.instances)) names.push_back(FormatItem(item));
    return names;
  }
  sim::GpuDynamic& gpu() { return state_->shared().gpu[0]; }
  // A process of this test that computes in the compute instance until the returned object is destroyed.
  std::unique_ptr<sim::Child> Compute(const std::string& uuid) {
    return std::make_unique<sim::Child>([&] {
      static sim::Client client(state_->state());
      const auto device = sim::FindMigDevice(state_->shared(), uuid);
      if (!device || client.Slot() == nullptr) return false;
      client.Slot()->gpu[device->instance.device()].compute_instance.store(device->compute.id);
      client.ContextCreated(device->instance.device());
      return client.ReserveDeviceBytes(device->instance.device(), 64u << 20);
    });
  }

  std::unique_ptr<sim::TestState> state_;
  std::unique_ptr<driver::Nvml> nvml_;
  std::string uuid_;
};

TEST_F(SimulatedMig, TellsTheTablesOfItsKind) {
  for (const auto& [profile, kind] :
       {std::pair{"h200", sim::MigKind::kH200}, {"a100", sim::MigKind::kA100With80}}) {
    Boot(profile);
    const auto device = Read();
    EXPECT_FALSE(device.enabled);
    EXPECT_THAT(device.geometry, testing::UnorderedElementsAreArray(GeometryOf(kind)));
    nvml_.reset();
  }
}

TEST_F(SimulatedMig, GivesNamesToProfilesWhereTheDriverHasNone) {
  Boot("a100", "470.256.02", "/driver-470");
  EXPECT_EQ(nvml_->calls().nvmlDeviceGetGpuInstanceProfileInfoV, nullptr);
  EXPECT_THAT(Read().geometry, testing::UnorderedElementsAreArray(GeometryOf(sim::MigKind::kA100With80)));
}

TEST_F(SimulatedMig, IsSplitAsItWasAskedTo) {
  Boot();
  const auto applied = Make({"3g.71gb", "2x1g.18gb"});
  ASSERT_TRUE(applied) << applied.error().message;
  EXPECT_EQ(applied->plan.steps.size(), 7u);  // the mode, and two for each
  EXPECT_EQ(applied->needs_reset, "");
  EXPECT_THAT(Now(), ElementsAre("3g.71gb", "2x1g.18gb"));
  const auto device = Read();
  for (const auto& instance : device.instances) {
    ASSERT_EQ(instance.compute.size(), 1u);
    const auto mig = nvml_->DeviceByUuid(instance.compute[0].uuid);
    ASSERT_TRUE(mig) << instance.compute[0].uuid;
    EXPECT_EQ(nvml_->Memory(*mig)->total, device.geometry[instance.profile].memory);
    abi::nvmlDeviceAttributes_t attributes{};
    ASSERT_EQ(nvml_->calls().nvmlDeviceGetAttributes_v2(*mig, &attributes), abi::NVML_SUCCESS);
    EXPECT_EQ(attributes.multiprocessorCount, device.geometry[instance.profile].multiprocessors);
  }
  EXPECT_TRUE(Make({"2x1g.18gb", "3g.71gb"})->plan.steps.empty());
}

TEST_F(SimulatedMig, SharesAGpuInstanceOut) {
  Boot();
  ASSERT_TRUE(Make({"1c.3g.71gb", "2c.3g.71gb"}));
  EXPECT_THAT(Now(), ElementsAre("1c.3g.71gb", "2c.3g.71gb"));
  EXPECT_EQ(Read().instances.size(), 1u);
  ASSERT_TRUE(Make({"3g.71gb"}));
  EXPECT_THAT(Now(), ElementsAre("3g.71gb"));
}

TEST_F(SimulatedMig, IsLeftAloneWhileAProcessIsInTheWay) {
  Boot();
  ASSERT_TRUE(Make({"1g.18gb", "3g.71gb"}));
  const auto busy = Compute(Read().instances.back().compute[0].uuid);
  ASSERT_TRUE(busy->succeeded());
  const auto device = Read();
  ASSERT_EQ(device.processes.size(), 1u);
  EXPECT_EQ(device.processes[0].pid, busy->pid());
  EXPECT_EQ(device.processes[0].instance, device.instances.back().id);
  const auto refused = Make({"7g.141gb"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, base::ErrorCode::kConflict);
  EXPECT_THAT(refused.error().message, HasSubstr(std::to_string(busy->pid())));
  EXPECT_THAT(Now(), testing::UnorderedElementsAre("3g.71gb", "1g.18gb"));
  EXPECT_FALSE(Make({}, false));
  // The plan may destroy the instance in which the process does not run.
  EXPECT_TRUE(Make({"1g.18gb"}));
  EXPECT_THAT(Now(), ElementsAre("1g.18gb"));
}

TEST_F(SimulatedMig, IsAsBeforeWhenAStepFails) {
  Boot();
  ASSERT_TRUE(Make({"3g.71gb", "1c.2g.35gb", "1g.18gb"}));
  const auto before = Read();
  gpu().mig_create_fails_in.store(2);
  const auto failed = Make({"3g.71gb", "1g.35gb", "2x1g.18gb"});
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, base::ErrorCode::kExhausted);
  EXPECT_THAT(failed.error().message, HasSubstr("it is as it was before"));
  EXPECT_EQ(Read(), before);
}

TEST_F(SimulatedMig, SaysWhatItCouldNotUndo) {
  Boot();
  ASSERT_TRUE(Make({"4g.71gb"}));
  gpu().mig_create_fails_in.store(1);
  gpu().mig_create_fails_for_good.store(1);
  const auto failed = Make({"7g.141gb"});
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message, HasSubstr("not undone: "));
  EXPECT_THAT(failed.error().message, HasSubstr("destroy 4g.71gb at slice 0"));
  EXPECT_THAT(Now(), IsEmpty());
}

TEST_F(SimulatedMig, SaysThatAResetIsNeededAndHasIt) {
  Boot();
  gpu().mig_needs_reset.store(1);
  const auto pending = Make({"7g.141gb"});
  ASSERT_TRUE(pending) << pending.error().message;
  EXPECT_THAT(pending->needs_reset, HasSubstr("from the next reset"));
  EXPECT_FALSE(Read().enabled);
  EXPECT_TRUE(Read().pending);
  sim::ResetGpu(state_->shared(), 0);
  EXPECT_TRUE(Make({"7g.141gb"})->needs_reset.empty());
  EXPECT_THAT(Now(), ElementsAre("7g.141gb"));
}

TEST_F(SimulatedMig, ForgetsItsInstancesWithAReset) {
  Boot();
  ASSERT_TRUE(Make({"7x1g.18gb"}));
  EXPECT_EQ(Read().instances.size(), 7u);
  sim::ResetGpu(state_->shared(), 0);
  EXPECT_TRUE(Read().enabled);
  EXPECT_TRUE(Read().instances.empty());
  ASSERT_TRUE(Make({}, false));
  EXPECT_FALSE(Read().enabled);
}

TEST_F(SimulatedMig, RefusesWhatTheRealOneRefuses) {
  Boot();
  const auto& calls = nvml_->calls();
  auto* const device = nvml_->DeviceAt(0).value();
  abi::nvmlGpuInstance_t instance = nullptr;
  EXPECT_EQ(calls.nvmlDeviceCreateGpuInstance(device, 19, &instance), abi::NVML_ERROR_NOT_SUPPORTED);
  ASSERT_TRUE(Make({}));
  EXPECT_EQ(calls.nvmlDeviceCreateGpuInstance(device, 77, &instance), abi::NVML_ERROR_INVALID_ARGUMENT);
  const abi::nvmlGpuInstancePlacement_t odd{1, 4};
  EXPECT_EQ(calls.nvmlDeviceCreateGpuInstanceWithPlacement(device, 9, &odd, &instance),
            abi::NVML_ERROR_INVALID_ARGUMENT);
  unsigned left = 0;
  EXPECT_EQ(calls.nvmlDeviceGetGpuInstanceRemainingCapacity(device, 19, &left), abi::NVML_SUCCESS);
  EXPECT_EQ(left, 7u);
  ASSERT_EQ(calls.nvmlDeviceCreateGpuInstance(device, 9, &instance), abi::NVML_SUCCESS);
  abi::nvmlGpuInstance_t other = nullptr;
  EXPECT_EQ(calls.nvmlDeviceCreateGpuInstance(device, 0, &other), abi::NVML_ERROR_INSUFFICIENT_RESOURCES);
  EXPECT_EQ(calls.nvmlDeviceGetGpuInstanceRemainingCapacity(device, 19, &left), abi::NVML_SUCCESS);
  EXPECT_EQ(left, 3u);
  abi::nvmlComputeInstance_t compute = nullptr;
  ASSERT_EQ(calls.nvmlGpuInstanceCreateComputeInstance(instance, 1, &compute), abi::NVML_SUCCESS);
  EXPECT_EQ(calls.nvmlGpuInstanceCreateComputeInstance(instance, 1, &compute),
            abi::NVML_ERROR_INSUFFICIENT_RESOURCES);
  EXPECT_EQ(calls.nvmlGpuInstanceDestroy(instance), abi::NVML_ERROR_IN_USE);
  abi::nvmlReturn_t activation{};
  EXPECT_EQ(calls.nvmlDeviceSetMigMode(device, 0, &activation), abi::NVML_SUCCESS);
  EXPECT_EQ(activation, abi::NVML_ERROR_IN_USE);
  EXPECT_EQ(calls.nvmlComputeInstanceDestroy(compute), abi::NVML_SUCCESS);
  EXPECT_EQ(calls.nvmlComputeInstanceDestroy(compute), abi::NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(calls.nvmlGpuInstanceDestroy(instance), abi::NVML_SUCCESS);
}

TEST_F(SimulatedMig, TellsOfAnInstanceWhatIsItsOwn) {
  Boot();
  ASSERT_TRUE(Make({"1g.18gb", "1c.3g.71gb"}));
  const auto before = Read();
  ASSERT_EQ(before.geometry[before.instances[0].profile].name, "3g.71gb");
  const auto& big = before.instances[0].compute[0].uuid;
  const auto& small = before.instances[1].compute[0].uuid;
  const auto busy = Compute(big);
  ASSERT_TRUE(busy->succeeded());
  auto* const idle = nvml_->DeviceByUuid(small).value();
  auto* const used = nvml_->DeviceByUuid(big).value();
  auto* const whole = nvml_->DeviceAt(0).value();
  EXPECT_TRUE(nvml_->ComputeProcesses(idle)->empty());
  const auto processes = nvml_->ComputeProcesses(used).value();
  ASSERT_EQ(processes.size(), 1u);
  EXPECT_EQ(processes[0].pid, busy->pid());
  EXPECT_EQ(processes[0].gpu_instance, before.instances[0].id);
  EXPECT_EQ(processes[0].compute_instance, before.instances[0].compute[0].id);
  EXPECT_EQ(nvml_->Memory(idle)->used.count, 0u);
  EXPECT_GE(nvml_->Memory(used)->used.count, 64u << 20);
  EXPECT_EQ(nvml_->Memory(whole)->used, nvml_->Memory(used)->used);
  char name[96] = "";
  EXPECT_EQ(nvml_->calls().nvmlDeviceGetName(used, name, sizeof name), abi::NVML_SUCCESS);
  EXPECT_STREQ(name, "NVIDIA H200 MIG 1c.3g.71gb");
}

TEST_F(SimulatedMig, OfASplitGpuTellsNoUtilizationAndOfAnInstanceNoTemperature) {
  Boot();
  ASSERT_TRUE(Make({"1g.18gb"}));
  auto* const whole = nvml_->DeviceAt(0).value();
  auto* const instance = nvml_->DeviceByUuid(Read().instances[0].compute[0].uuid).value();
  using driver::NvmlFailure;
  EXPECT_EQ(nvml_->Utilization(whole).error().failure, NvmlFailure::kNotSupported);
  EXPECT_EQ(nvml_->BusyProcesses(whole, 0).error().failure, NvmlFailure::kNotSupported);
  EXPECT_TRUE(nvml_->Temperature(whole));
  EXPECT_TRUE(nvml_->PowerMilliwatts(whole));
  EXPECT_EQ(nvml_->Utilization(instance).error().failure, NvmlFailure::kNotSupported);
  EXPECT_EQ(nvml_->Temperature(instance).error().failure, NvmlFailure::kNotSupported);
  EXPECT_EQ(nvml_->PowerMilliwatts(instance).error().failure, NvmlFailure::kNotSupported);
}

TEST_F(SimulatedMig, CannotBeHadOfALaptop) {
  Boot("rtx4050");
  EXPECT_EQ(ReadDevice(*nvml_, uuid_).error().code, base::ErrorCode::kNotSupported);
}

TEST(MigNames, AreThoseOfTheTools) {
  EXPECT_EQ(NameOf(1, base::MiB(9728), base::MiB(81920), "+me"), "1g.10gb+me");
  EXPECT_EQ(NameOf(2, base::MiB(33024), base::MiB(143771), ""), "2g.35gb");
  EXPECT_EQ(NameOf(3, base::MiB(71168), base::MiB(143771), ""), "3g.71gb");
  EXPECT_EQ(NameOf(7, base::MiB(143104), base::MiB(143771), ""), "7g.141gb");
}

}  // namespace
}  // namespace gpuman::mig

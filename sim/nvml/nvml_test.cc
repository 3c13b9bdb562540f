// The simulated library as a client uses it, through the product's wrapper.
#include "driver/nvml.h"

#include <fcntl.h>

#include <memory>
#include <string>
#include <thread>

#include "sim/state/lifecycle.h"
#include "sim/state/test_state.h"

namespace gpuman::sim {
namespace {

using namespace driver;  // NOLINT(google-build-using-namespace)

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kGiB = 1 << 30;

class Machine {
 public:
  explicit Machine(const CreateOptions& options = {}, const char* folder = "")
      : state_(options), folder_(folder) {
    setenv(kDirectoryVariable, state_.directory().c_str(), 1);
  }
  ~Machine() { unsetenv(kDirectoryVariable); }

  NvmlResult<std::unique_ptr<Nvml>> Load() const {
    return Nvml::Load(std::string(GPUMAN_SIM_LIBRARIES) + folder_ + "/libnvidia-ml.so.1");
  }
  State& state() { return state_.state(); }
  const std::string& directory() const { return state_.directory(); }
  Shared& shared() { return state_.shared(); }

 private:
  TestState state_;
  std::string folder_;
};

// A machine with the library loaded, and its first device.
class SimulatedNvml : public ::testing::Test {
 protected:
  void Boot(const CreateOptions& options = {}, const char* folder = "") {
    nvml_.reset();
    machine_.reset();
    machine_ = std::make_unique<Machine>(options, folder);
    auto loaded = machine_->Load();
    ASSERT_TRUE(loaded) << loaded.error().message;
    nvml_ = *std::move(loaded);
    if (options.gpus != 0) device_ = nvml_->DeviceAt(0).value();
  }
  const NvmlCalls& calls() const { return nvml_->calls(); }
  Shared& shared() { return machine_->shared(); }

  // Makes a process hold this many bytes of the first GPU.
  bool Hold(std::uint64_t bytes) {
    static Client client(machine_->state());
    client.ContextCreated(0);
    return client.ReserveDeviceBytes(0, bytes);
  }

  std::unique_ptr<Machine> machine_;
  std::unique_ptr<Nvml> nvml_;
  NvmlDevice device_ = nullptr;
};

TEST_F(SimulatedNvml, AnswersAsTheH200OfTheProfileDoes) {
  Boot({.profile = "h200"});
  const NvmlDeviceInfo info = nvml_->Info(device_).value();
  EXPECT_EQ(info.uuid, "GPU-93f6e897-3b2d-3c8a-a1c7-4a689d9a62b6");
  EXPECT_EQ(info.name, "NVIDIA H200");
  EXPECT_EQ(info.pci_bus_id, "00000000:00:06.0");
  EXPECT_EQ(info.minor, 0u);
  EXPECT_EQ(nvml_->DriverVersion().value(), "580.159.04");
  EXPECT_EQ(nvml_->CudaVersion().value(), 13000);
  EXPECT_EQ(nvml_->Temperature(device_).value(), 33);
  EXPECT_EQ(nvml_->PowerMilliwatts(device_).value(), 78'290u);

  const NvmlMemory memory = nvml_->Memory(device_).value();
  EXPECT_EQ(memory.total.count, 143771 * kMiB);
  EXPECT_EQ(memory.used.count, 0u);
  EXPECT_EQ((memory.free.count + kMiB - 1) / kMiB, 143156u);
  EXPECT_EQ((memory.reserved.count + kMiB - 1) / kMiB, 616u);

  unsigned mhz = 0, least = 0, most = 0;
  EXPECT_EQ(calls().nvmlDeviceGetClockInfo(device_, abi::NVML_CLOCK_SM, &mhz), abi::NVML_SUCCESS);
  EXPECT_EQ(mhz, 345u);
  EXPECT_EQ(calls().nvmlDeviceGetMaxClockInfo(device_, abi::NVML_CLOCK_VIDEO, &mhz), abi::NVML_SUCCESS);
  EXPECT_EQ(mhz, 1545u);
  EXPECT_EQ(calls().nvmlDeviceGetPowerManagementLimitConstraints(device_, &least, &most), abi::NVML_SUCCESS);
  EXPECT_EQ(least, 200'000u);
  EXPECT_EQ(most, 700'000u);
  unsigned long long reasons = 0;
  EXPECT_EQ(calls().nvmlDeviceGetCurrentClocksEventReasons(device_, &reasons), abi::NVML_SUCCESS);
  EXPECT_EQ(reasons, abi::nvmlClocksEventReasonGpuIdle);
  abi::nvmlEnableState_t persistence{};
  EXPECT_EQ(calls().nvmlDeviceGetPersistenceMode(device_, &persistence), abi::NVML_SUCCESS);
  EXPECT_EQ(persistence, abi::NVML_FEATURE_ENABLED);
  abi::nvmlFieldValue_t field{};
  field.fieldId = abi::NVML_FI_DEV_POWER_AVERAGE;
  EXPECT_EQ(calls().nvmlDeviceGetFieldValues(device_, 1, &field), abi::NVML_SUCCESS);
  EXPECT_EQ(field.value.uiVal, 98'890u);
  unsigned count = 0;
  unsigned long long page = 0;
  EXPECT_EQ(calls().nvmlDeviceGetRetiredPages(device_, abi::NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR,
                                              &count, &page),
            abi::NVML_ERROR_NOT_SUPPORTED);
}

TEST_F(SimulatedNvml, SaysWhatALaptopLacks) {
  Boot({.profile = "rtx4050"});
  abi::nvmlEnableState_t on{}, pending{};
  unsigned milliwatts = 0;
  EXPECT_EQ(calls().nvmlDeviceGetEccMode(device_, &on, &pending), abi::NVML_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(calls().nvmlDeviceGetPowerManagementLimit(device_, &milliwatts), abi::NVML_ERROR_NOT_SUPPORTED);
  const auto mig = nvml_->MigMode(device_);
  ASSERT_FALSE(mig);
  EXPECT_EQ(mig.error().failure, NvmlFailure::kNotSupported);
  EXPECT_EQ(mig.error().code, base::ErrorCode::kNotSupported);
}

TEST_F(SimulatedNvml, TellsHowDevicesAreConnected) {
  Boot({.profile = "h200", .gpus = 8, .nvlink = "0-3,1-2"});
  const auto at = [&](unsigned index) { return nvml_->DeviceAt(index).value(); };
  EXPECT_TRUE(nvml_->HaveNvLink(at(0), at(3)).value());
  EXPECT_TRUE(nvml_->HaveNvLink(at(2), at(1)).value());
  EXPECT_FALSE(nvml_->HaveNvLink(at(0), at(1)).value());
  EXPECT_EQ(nvml_->CommonAncestor(at(0), at(1)).value(), abi::NVML_TOPOLOGY_SINGLE);
  EXPECT_EQ(nvml_->CommonAncestor(at(0), at(2)).value(), abi::NVML_TOPOLOGY_NODE);
  EXPECT_EQ(nvml_->CommonAncestor(at(3), at(4)).value(), abi::NVML_TOPOLOGY_SYSTEM);
  Boot({.profile = "a100", .gpus = 2});
  EXPECT_TRUE(nvml_->HaveNvLink(at(0), at(1)).value()) << "as the profile has it";
  Boot({.profile = "rtx4050", .gpus = 2});
  EXPECT_FALSE(nvml_->HaveNvLink(at(0), at(1)).value());
}

TEST_F(SimulatedNvml, TellsWhichDevicesReachEachOther) {
  for (const auto& [profile, expected] : {std::pair{"h200", abi::NVML_P2P_STATUS_OK},
                                          std::pair{"rtx4050", abi::NVML_P2P_STATUS_NOT_SUPPORTED}}) {
    Boot({.profile = profile, .gpus = 2});
    for (const auto access : {abi::NVML_P2P_CAPS_INDEX_READ, abi::NVML_P2P_CAPS_INDEX_WRITE}) {
      auto status = abi::NVML_P2P_STATUS_UNKNOWN;
      EXPECT_EQ(calls().nvmlDeviceGetP2PStatus(nvml_->DeviceAt(0).value(), nvml_->DeviceAt(1).value(), access,
                                               &status),
                abi::NVML_SUCCESS);
      EXPECT_EQ(status, expected) << profile;
    }
  }
}

TEST_F(SimulatedNvml, TellsWhoHadTheDeviceWorking) {
  Boot();
  EXPECT_TRUE(nvml_->BusyProcesses(device_, 0).value().empty());
  EXPECT_GT(nvml_->EnergyMillijoules(device_).value(), 0u);
  Boot({.profile = "rtx4050"});
  EXPECT_FALSE(nvml_->EnergyMillijoules(device_));
}

TEST_F(SimulatedNvml, CountsMoreEnergyWhileAKernelRuns) {
  Boot();
  sim::Client client(machine_->state());
  const auto began = sim::MonotonicNs();
  const auto before = nvml_->EnergyMillijoules(device_).value();
  client.KernelBegan(0);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const auto meanwhile = nvml_->EnergyMillijoules(device_).value();
  EXPECT_GE(meanwhile - before, 50'000U) << "500 W for a tenth of a second";
  client.KernelEnded(0);
  const auto ended = sim::MonotonicNs();
  const auto after = nvml_->EnergyMillijoules(device_).value();
  EXPECT_LE(static_cast<double>(after - before), static_cast<double>(sim::MonotonicNs() - began) * 700e-6)
      << "not more than its limit";
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const auto rested = nvml_->EnergyMillijoules(device_).value();
  EXPECT_GT(rested, after);
  EXPECT_LE(static_cast<double>(rested - after), static_cast<double>(sim::MonotonicNs() - ended) * 100e-6);
}

TEST_F(SimulatedNvml, DrawsMoreWithAContextAndForAWhileAfterTheLastOne) {
  Boot();
  sim::Client client(machine_->state());
  const auto energy_of = [this](std::chrono::milliseconds time) {
    const auto began = sim::MonotonicNs();
    const auto before = nvml_->EnergyMillijoules(device_).value();
    std::this_thread::sleep_for(time);
    const auto used = static_cast<double>(nvml_->EnergyMillijoules(device_).value() - before);
    return 1e6 * used / static_cast<double>(sim::MonotonicNs() - began);  // watts
  };
  EXPECT_NEAR(energy_of(std::chrono::milliseconds(200)), 78.3, 2);
  client.ContextCreated(0);
  EXPECT_EQ(nvml_->PowerMilliwatts(device_).value(), 126'500u);
  EXPECT_NEAR(energy_of(std::chrono::milliseconds(200)), 126.5, 2);
  const auto seen = sim::MonotonicNs();  // it stays awake for 2.1 s after the last look at the context
  (void)nvml_->PowerMilliwatts(device_);
  client.ContextDestroyed(0);
  const double after = energy_of(std::chrono::milliseconds(200));
  if (sim::MonotonicNs() - seen < 2'100'000'000) {
    EXPECT_NEAR(after, 126.5, 2);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(2'000));
  EXPECT_EQ(nvml_->PowerMilliwatts(device_).value(), 78'290u);
  EXPECT_NEAR(energy_of(std::chrono::milliseconds(200)), 78.3, 2);
}

TEST_F(SimulatedNvml, IsNotThereOutsideOfAMachine) {
  Boot();
  nvml_.reset();
  const std::string directory = getenv(kDirectoryVariable);
  unsetenv(kDirectoryVariable);
  const auto loaded = machine_->Load();
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().failure, NvmlFailure::kNoDriver);
  EXPECT_EQ(loaded.error().status, abi::NVML_ERROR_DRIVER_NOT_LOADED);
  setenv(kDirectoryVariable, directory.c_str(), 1);
  EXPECT_TRUE(machine_->Load());

  const auto missing = Nvml::Load("/nowhere/libnvidia-ml.so.1");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().failure, NvmlFailure::kNoDriver);
  EXPECT_FALSE(missing.error().hint.empty());
  EXPECT_EQ(Nvml::Load("libm.so.6").error().failure, NvmlFailure::kNoDriver) << "a library that is no NVML";
}

TEST_F(SimulatedNvml, MayHaveNoDevices) {
  Boot({.gpus = 0});
  EXPECT_EQ(nvml_->DeviceCount().value(), 0u);
  EXPECT_FALSE(nvml_->DeviceAt(0));
}

TEST_F(SimulatedNvml, FindsDevicesByEachOfTheirNames) {
  Boot({.gpus = 2});
  EXPECT_EQ(nvml_->DeviceCount().value(), 2u);
  const NvmlDevice second = nvml_->DeviceAt(1).value();
  EXPECT_EQ(nvml_->DeviceByUuid(nvml_->Info(second)->uuid).value(), second);
  EXPECT_EQ(nvml_->DeviceByUuid("GPU-none").error().failure, NvmlFailure::kNotFound);
  EXPECT_EQ(nvml_->DeviceAt(2).error().failure, NvmlFailure::kInvalid);
  NvmlDevice found = nullptr;
  for (const char* bus_id : {"00000000:00:07.0", "0000:00:07.0"}) {
    EXPECT_EQ(calls().nvmlDeviceGetHandleByPciBusId_v2(bus_id, &found), abi::NVML_SUCCESS);
    EXPECT_EQ(found, second);
  }
  EXPECT_EQ(nvml_->Memory(nullptr).error().failure, NvmlFailure::kInvalid);
}

TEST_F(SimulatedNvml, SeesTheMemoryOfAnotherProcessUntilItDies) {
  Boot({.profile = "a100"});
  Child child([&] { return Hold(3 * kGiB); });
  ASSERT_TRUE(child.succeeded());
  const auto processes = nvml_->ComputeProcesses(device_).value();
  ASSERT_EQ(processes.size(), 1u);
  EXPECT_EQ(processes[0].pid, child.pid());
  EXPECT_EQ(processes[0].memory, base::GiB(3));
  EXPECT_EQ(nvml_->Memory(device_)->used, base::GiB(3));
  EXPECT_TRUE(nvml_->GraphicsProcesses(device_)->empty());
  child.Kill(SIGKILL);
  EXPECT_TRUE(nvml_->ComputeProcesses(device_)->empty());
  EXPECT_EQ(nvml_->Memory(device_)->used.count, 0u);
}

TEST_F(SimulatedNvml, ListsMoreProcessesThanFitAtFirst) {
  Boot();
  std::vector<std::unique_ptr<Child>> children;
  children.reserve(70);
  for (int i = 0; i < 70; ++i) children.push_back(std::make_unique<Child>([&] { return Hold(kMiB); }));
  unsigned count = 0;
  EXPECT_EQ(calls().nvmlDeviceGetComputeRunningProcesses_v3(device_, &count, nullptr),
            abi::NVML_ERROR_INSUFFICIENT_SIZE);
  EXPECT_EQ(count, 70u);
  EXPECT_EQ(nvml_->ComputeProcesses(device_)->size(), 70u);
}

TEST_F(SimulatedNvml, OfAnOldDriverLacksTheNewerFunctions) {
  Boot({.driver_version = "470.82.1"}, "/driver-470");
  EXPECT_EQ(calls().nvmlDeviceGetMemoryInfo_v2, nullptr);
  EXPECT_EQ(calls().nvmlDeviceGetComputeRunningProcesses_v3, nullptr);
  EXPECT_EQ(calls().nvmlDeviceGetTemperatureV, nullptr);
  EXPECT_EQ(nvml_->CudaVersion().value(), 11040);
  Child child([&] { return Hold(kGiB); });
  const NvmlMemory memory = nvml_->Memory(device_).value();
  EXPECT_EQ(memory.reserved.count, 0u);
  EXPECT_EQ(memory.used.count, kGiB + shared().gpu_static[0].memory_reserved) << "v1 counts the driver's own";
  EXPECT_EQ(nvml_->ComputeProcesses(device_)->size(), 1u);
}

TEST_F(SimulatedNvml, HoldsLimitsForCgroupsFromDriver615On) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  Boot({.driver_version = "580.159.04"}, "/driver-580");
  EXPECT_FALSE(nvml_->HasMemoryLimits());
  EXPECT_EQ(nvml_->MemoryLimits(device_, "/").error().failure, NvmlFailure::kNoFunction);
  EXPECT_EQ(nvml_->SetMemoryLimits(device_, "/", {}).error().failure, NvmlFailure::kNoFunction);

  Boot({.driver_version = "615.10", .gpus = 2}, "/driver-615");
  ASSERT_TRUE(nvml_->HasMemoryLimits());
  const std::string group = machine_->directory();  // any directory: this is about what is kept
  const NvmlMemoryLimits wanted{base::GiB(1), base::GiB(2)};
  EXPECT_EQ(nvml_->MemoryLimits(device_, group).value(), NvmlMemoryLimits{});
  ASSERT_TRUE(nvml_->SetMemoryLimits(device_, group, wanted));
  EXPECT_EQ(nvml_->MemoryLimits(device_, group).value(), wanted);
  EXPECT_EQ(nvml_->MemoryLimits(nvml_->DeviceAt(1).value(), group).value(), NvmlMemoryLimits{});
  const auto refused = [&](const std::string& at, const NvmlMemoryLimits& limits) {
    return nvml_->SetMemoryLimits(device_, at, limits).error().status;
  };
  EXPECT_EQ(refused(group, {base::GiB(3), base::GiB(2)}), abi::NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(refused(group, {{}, base::GiB(999)}), abi::NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(refused(group + "/none", wanted), abi::NVML_ERROR_OPERATING_SYSTEM);
  EXPECT_EQ(nvml_->MemoryLimits(device_, group + "/none").error().failure, NvmlFailure::kNotFound);
  EXPECT_EQ(nvml_->MemoryLimits(device_, group).value(), wanted) << "what was refused changed nothing";
  ASSERT_TRUE(nvml_->SetMemoryLimits(device_, group, {}));
  EXPECT_EQ(nvml_->MemoryLimits(device_, group).value(), NvmlMemoryLimits{});
}

TEST_F(SimulatedNvml, ChecksTheVersionOfAStructure) {
  Boot();
  abi::nvmlMemory_v2_t memory{};
  memory.version = abi::nvmlMemory_v2 + 1;
  EXPECT_EQ(calls().nvmlDeviceGetMemoryInfo_v2(device_, &memory), abi::NVML_ERROR_FUNCTION_NOT_FOUND);
  abi::nvmlTemperature_v1_t temperature{};
  EXPECT_EQ(calls().nvmlDeviceGetTemperatureV(device_, &temperature),
            abi::NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
  memory.version = abi::nvmlMemory_v2;
  EXPECT_EQ(calls().nvmlDeviceGetMemoryInfo_v2(device_, &memory), abi::NVML_SUCCESS);
  EXPECT_EQ(calls().nvmlDeviceGetMemoryInfo_v2(device_, nullptr), abi::NVML_ERROR_INVALID_ARGUMENT);
  char text[4];
  EXPECT_EQ(calls().nvmlDeviceGetName(device_, text, sizeof text), abi::NVML_ERROR_INSUFFICIENT_SIZE);
}

TEST_F(SimulatedNvml, LetsOnlyRootChangeSettings) {
  if (geteuid() != 0) GTEST_SKIP() << "needs to be root to become somebody else";
  Boot();
  EXPECT_EQ(calls().nvmlDeviceSetPowerManagementLimit(device_, 300'000), abi::NVML_SUCCESS);
  EXPECT_EQ(calls().nvmlDeviceSetPowerManagementLimit(device_, 199'999), abi::NVML_ERROR_INVALID_ARGUMENT);
  Child somebody([&] {
    return seteuid(65534) == 0 &&
           calls().nvmlDeviceSetPowerManagementLimit(device_, 400'000) == abi::NVML_ERROR_NO_PERMISSION &&
           calls().nvmlDeviceSetPersistenceMode(device_, abi::NVML_FEATURE_DISABLED) ==
               abi::NVML_ERROR_NO_PERMISSION;
  });
  EXPECT_TRUE(somebody.succeeded());
  EXPECT_EQ(shared().gpu[0].power_limit_mw.load(), 300'000u);
}

TEST_F(SimulatedNvml, ForgetsSettingsWithTheDriverUnlessPersistenceIsOn) {
  if (geteuid() != 0) GTEST_SKIP() << "only root changes settings";
  Boot({.profile = "a100"});
  const auto mode_after_reload = [&] {
    EXPECT_EQ(calls().nvmlDeviceSetComputeMode(device_, abi::NVML_COMPUTEMODE_EXCLUSIVE_PROCESS),
              abi::NVML_SUCCESS);
    nvml_.reset();
    nvml_ = machine_->Load().value();
    device_ = nvml_->DeviceAt(0).value();
    abi::nvmlComputeMode_t mode{};
    EXPECT_EQ(calls().nvmlDeviceGetComputeMode(device_, &mode), abi::NVML_SUCCESS);
    return mode;
  };
  EXPECT_EQ(mode_after_reload(), abi::NVML_COMPUTEMODE_DEFAULT);
  EXPECT_EQ(calls().nvmlDeviceSetPersistenceMode(device_, abi::NVML_FEATURE_ENABLED), abi::NVML_SUCCESS);
  EXPECT_EQ(mode_after_reload(), abi::NVML_COMPUTEMODE_EXCLUSIVE_PROCESS);
}

TEST_F(SimulatedNvml, ChangesTheMigModeOnlyOfAnIdleDevice) {
  if (geteuid() != 0) GTEST_SKIP() << "only root changes settings";
  Boot();
  abi::nvmlReturn_t activation{};
  {
    Child child([&] { return Hold(kMiB); });
    EXPECT_EQ(calls().nvmlDeviceSetMigMode(device_, 1, &activation), abi::NVML_SUCCESS);
    EXPECT_EQ(activation, abi::NVML_ERROR_IN_USE);
    EXPECT_FALSE(nvml_->MigMode(device_)->enabled);
    EXPECT_TRUE(nvml_->MigMode(device_)->pending);
  }
  EXPECT_EQ(calls().nvmlDeviceSetMigMode(device_, 1, &activation), abi::NVML_SUCCESS);
  EXPECT_EQ(activation, abi::NVML_SUCCESS);
  EXPECT_TRUE(nvml_->MigMode(device_)->enabled);
}

TEST_F(SimulatedNvml, WaitsForAnXidOfAnotherProcess) {
  Boot({.gpus = 2});
  const NvmlDevice second = nvml_->DeviceAt(1).value();
  NvmlEventSet events = nvml_->CreateEventSet().value();
  EXPECT_TRUE(events.Add(second, abi::nvmlEventTypeXidCriticalError));
  EXPECT_EQ(events.Wait(base::Millis{0}).value(), std::nullopt);
  Child child([&] {
    PostEvent(shared(), 0, abi::nvmlEventTypeXidCriticalError, 13);
    PostEvent(shared(), 1, abi::nvmlEventTypeXidCriticalError, 79);
    return true;
  });
  const auto event = events.Wait(base::Millis{60'000}).value();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->device, second);
  EXPECT_EQ(event->type, abi::nvmlEventTypeXidCriticalError);
  EXPECT_EQ(event->data, 79u);
}

TEST_F(SimulatedNvml, RefusesToWaitForWhatTheDeviceDoesNotReport) {
  Boot({.profile = "rtx4050"});
  EXPECT_EQ(nvml_->SupportedEvents(device_).value() & abi::nvmlEventTypeDoubleBitEccError, 0u);
  NvmlEventSet unsupported = nvml_->CreateEventSet().value();
  EXPECT_EQ(unsupported.Add(device_, abi::nvmlEventTypeDoubleBitEccError).error().failure,
            NvmlFailure::kNotSupported);
}

TEST_F(SimulatedNvml, ALostGpuIsLostForEveryCall) {
  Boot({.gpus = 2});
  shared().gpu[0].lost.store(1);
  EXPECT_EQ(nvml_->Memory(device_).error().failure, NvmlFailure::kGpuLost);
  EXPECT_EQ(nvml_->Info(device_).error().failure, NvmlFailure::kGpuLost);
  EXPECT_EQ(nvml_->DeviceAt(0).error().failure, NvmlFailure::kGpuLost);
  EXPECT_TRUE(nvml_->Memory(nvml_->DeviceAt(1).value()));
}

TEST_F(SimulatedNvml, ACallHangsWhileAFaultSaysSo) {
  Boot({.gpus = 2});
  SlowCall& call = shared().faults.slow_calls[0];
  call.gpu.store(0);
  call.hang.store(1);
  call.active.store(1);
  shared().faults.slow_calls_active.store(1);
  std::atomic<bool> returned = false;
  std::thread reader([&] {
    EXPECT_TRUE(nvml_->Memory(device_));
    returned = true;
  });
  EXPECT_TRUE(nvml_->Memory(nvml_->DeviceAt(1).value())) << "the other GPU answers";
  EXPECT_FALSE(returned);
  ClearFaults(shared(), kAllGpus);
  reader.join();
  EXPECT_TRUE(returned);
}

TEST_F(SimulatedNvml, ShowsInjectedReadingsAndCounters) {
  Boot();
  GpuDynamic& gpu = shared().gpu[0];
  gpu.temperature_c.store(91);
  gpu.power_mw.store(650'000);
  gpu.throttle_reasons.store(0x40);
  gpu.utilization_gpu.store(77);
  gpu.ecc[0][1][abi::NVML_MEMORY_LOCATION_DRAM].store(2);
  gpu.remapped_uncorrectable.store(3);
  EXPECT_EQ(nvml_->Temperature(device_).value(), 91);
  EXPECT_EQ(nvml_->PowerMilliwatts(device_).value(), 650'000u);
  EXPECT_EQ(nvml_->Utilization(device_)->gpu, 77u);
  unsigned long long value = 0;
  EXPECT_EQ(calls().nvmlDeviceGetTotalEccErrors(device_, abi::NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                                                abi::NVML_VOLATILE_ECC, &value),
            abi::NVML_SUCCESS);
  EXPECT_EQ(value, 2u);
  unsigned correctable = 0, uncorrectable = 0, pending = 0, failed = 0;
  EXPECT_EQ(calls().nvmlDeviceGetRemappedRows(device_, &correctable, &uncorrectable, &pending, &failed),
            abi::NVML_SUCCESS);
  EXPECT_EQ(uncorrectable, 3u);
}

TEST_F(SimulatedNvml, NeedsInitialisationAgainAfterTheLastShutdown) {
  Boot();
  EXPECT_EQ(calls().nvmlInit_v2(), abi::NVML_SUCCESS);
  EXPECT_EQ(calls().nvmlShutdown(), abi::NVML_SUCCESS);
  EXPECT_TRUE(nvml_->DeviceCount()) << "the first initialisation still counts";
  EXPECT_EQ(calls().nvmlShutdown(), abi::NVML_SUCCESS);
  EXPECT_EQ(nvml_->DeviceCount().error().status, abi::NVML_ERROR_UNINITIALIZED);
  EXPECT_EQ(calls().nvmlShutdown(), abi::NVML_ERROR_UNINITIALIZED);
  EXPECT_STREQ(calls().nvmlErrorString(abi::NVML_ERROR_GPU_IS_LOST), "GPU is lost");
}

}  // namespace
}  // namespace gpuman::sim

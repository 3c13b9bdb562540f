// NVML: start and end, devices, memory, processes, features that this device lacks, events.

#include "nvml_library.h"

#include <unistd.h>

#include <array>

#include "probe.h"

namespace gpuman::conformance {
namespace {

PROBE(nvml_before_init) {
  unsigned count = 0;
  std::array<char, 80> text{};
  Say("count", NvmlName(ML(nvmlDeviceGetCount_v2, &count)));
  Say("version", NvmlName(ML(nvmlSystemGetDriverVersion, text.data(), unsigned(text.size()))));
  Say("shutdown", NvmlName(ML(nvmlShutdown)));
  Say("init", NvmlName(ML(nvmlInit_v2)));
  Say("init_again", NvmlName(ML(nvmlInit_v2)));
  Say("shutdown_once", NvmlName(ML(nvmlShutdown)));
  Say("count_still", NvmlName(ML(nvmlDeviceGetCount_v2, &count)));
  Say("shutdown_twice", NvmlName(ML(nvmlShutdown)));
  Say("count_after", NvmlName(ML(nvmlDeviceGetCount_v2, &count)));
}

TEST(NvmlStart, IsCounted) {
  Probe probe("nvml_before_init");
  for (const char* what : {"count", "version", "shutdown", "count_after"})
    EXPECT_EQ(probe.Heard(what), "NVML_ERROR_UNINITIALIZED") << what;
  for (const char* what : {"init", "init_again", "shutdown_once", "count_still", "shutdown_twice"})
    EXPECT_EQ(probe.Heard(what), "NVML_SUCCESS") << what;
  EXPECT_EQ(probe.Wait(), 0);
}

class NvmlTest : public WithContext {
 protected:
  void SetUp() override {
    WithContext::SetUp();
    ASSERT_EQ(NvmlName(ML(nvmlInit_v2)), "NVML_SUCCESS");
    nvml_ = NvmlDeviceOfCuda();
    std::array<char, 96> name{};
    EXPECT_ML(NVML_SUCCESS, ML(nvmlDeviceGetName, nvml_, name.data(), unsigned(name.size())));
    h200_ = std::string(name.data()).find("H200") != std::string::npos;
  }
  void TearDown() override {
    EXPECT_ML(NVML_SUCCESS, ML(nvmlShutdown));
    WithContext::TearDown();
  }
  abi::nvmlDevice_t nvml_ = nullptr;
  bool h200_ = false;
};

TEST_F(NvmlTest, DevicesByIndexUuidAndBusAreTheSame) {
  unsigned count = 0;
  ASSERT_EQ(NvmlName(ML(nvmlDeviceGetCount_v2, &count)), "NVML_SUCCESS");
  std::string last;
  for (unsigned i = 0; i < count; ++i) {
    abi::nvmlDevice_t device = nullptr, same = nullptr;
    ASSERT_EQ(NvmlName(ML(nvmlDeviceGetHandleByIndex_v2, i, &device)), "NVML_SUCCESS");
    unsigned index = 99;
    EXPECT_ML(NVML_SUCCESS, ML(nvmlDeviceGetIndex, device, &index));
    EXPECT_EQ(index, i);
    std::array<char, 96> uuid{};
    EXPECT_ML(NVML_SUCCESS, ML(nvmlDeviceGetUUID, device, uuid.data(), unsigned(uuid.size())));
    EXPECT_THAT(std::string(uuid.data()),
                ::testing::MatchesRegex("GPU-[0-9a-f]+-[0-9a-f]+-[0-9a-f]+-[0-9a-f]+-[0-9a-f]+"));
    EXPECT_EQ(std::string(uuid.data()).size(), 40u);
    EXPECT_ML(NVML_SUCCESS, ML(nvmlDeviceGetHandleByUUID, uuid.data(), &same));
    EXPECT_EQ(device, same);
    abi::nvmlPciInfo_t pci{};
    EXPECT_ML(NVML_SUCCESS, ML(nvmlDeviceGetPciInfo_v3, device, &pci));
    EXPECT_ML(NVML_SUCCESS, ML(nvmlDeviceGetHandleByPciBusId_v2, pci.busId, &same));
    EXPECT_EQ(device, same);
    EXPECT_LT(last, std::string(pci.busId)) << "NVML's order is that of the bus";
    last = pci.busId;
    if (i == 0) Fact("nvml.bus_id", last + " legacy " + pci.busIdLegacy);
  }
  abi::nvmlDevice_t device = nullptr;
  EXPECT_ML(NVML_ERROR_INVALID_ARGUMENT, ML(nvmlDeviceGetHandleByIndex_v2, count, &device));
  EXPECT_ML(NVML_ERROR_INVALID_ARGUMENT, ML(nvmlDeviceGetHandleByIndex_v2, 0u, nullptr));
  EXPECT_ML(NVML_ERROR_NOT_FOUND,
            ML(nvmlDeviceGetHandleByUUID, "GPU-00000000-0000-0000-0000-000000000000", &device));
  Fact("nvml.uuid_nonsense", ML(nvmlDeviceGetHandleByUUID, "nonsense", &device));
}

TEST_F(NvmlTest, MemoryAddsUp) {
  abi::nvmlMemory_t one{};
  abi::nvmlMemory_v2_t two{};
  two.version = abi::nvmlMemory_v2;
  ASSERT_EQ(NvmlName(ML(nvmlDeviceGetMemoryInfo, nvml_, &one)), "NVML_SUCCESS");
  ASSERT_EQ(NvmlName(ML(nvmlDeviceGetMemoryInfo_v2, nvml_, &two)), "NVML_SUCCESS");
  EXPECT_EQ(one.total, two.total);
  EXPECT_EQ(one.free, two.free);
  EXPECT_EQ(one.total, one.used + one.free);
  EXPECT_EQ(two.total, two.used + two.free + two.reserved);
  EXPECT_EQ(one.used, two.used + two.reserved);
  Fact("nvml.memory_total", two.total);
  Fact("nvml.memory_reserved", two.reserved);
  Fact("nvml.memory_used_with_one_context", two.used);
  std::size_t cuda_total = 0;
  EXPECT_OK(CU(cuDeviceTotalMem_v2, &cuda_total, device_));
  Fact("nvml.total_less_cuda_total",
       std::to_string(static_cast<long long>(two.total) - static_cast<long long>(cuda_total)));
  Fact("nvml.free_less_cuda_free",
       std::to_string(static_cast<long long>(two.free) - static_cast<long long>(FreeBytes())));
  two.version = 0;
  EXPECT_ML(NVML_ERROR_FUNCTION_NOT_FOUND, ML(nvmlDeviceGetMemoryInfo_v2, nvml_, &two));
  EXPECT_ML(NVML_ERROR_INVALID_ARGUMENT, ML(nvmlDeviceGetMemoryInfo, nvml_, nullptr));
  EXPECT_ML(NVML_ERROR_INVALID_ARGUMENT, ML(nvmlDeviceGetMemoryInfo, nullptr, &one));
}

TEST_F(NvmlTest, ShowsThisProcessAndWhatItTakes) {
  const auto at_start = NvmlMemoryOf(::getpid());
  ASSERT_TRUE(at_start.has_value()) << "this process is not in NVML's list";
  Fact("nvml.context_overhead", *at_start);
  EXPECT_GT(*at_start, 0u);
  if (h200_) {
    EXPECT_GE(*at_start, 300 * kMiB);
    EXPECT_LE(*at_start, 700 * kMiB);
  }
  {
    DeviceMemory memory(256 * kMiB);
    EXPECT_EQ(NvmlMemoryOf(::getpid()), *at_start + 256 * kMiB);
  }
  EXPECT_EQ(NvmlMemoryOf(::getpid()), at_start);
}

TEST_F(NvmlTest, ManagedMemoryInTheProcessList) {
  const auto at_start = NvmlMemoryOf(::getpid()).value_or(0);
  abi::CUdeviceptr pointer = 0;
  ASSERT_OK(CU(cuMemAllocManaged, &pointer, 32 * kMiB, static_cast<unsigned>(abi::CU_MEM_ATTACH_GLOBAL)));
  EXPECT_OK(Fill(module_, pointer, 32 * kMiB, 1));
  EXPECT_OK(CU(cuCtxSynchronize));
  Fact("nvml.managed_32_mib_counts", NvmlMemoryOf(::getpid()).value_or(0) - at_start);
  EXPECT_OK(CU(cuMemFree_v2, pointer));
}

TEST_F(NvmlTest, TheProcessListSaysHowLongItIs) {
  unsigned count = 0;
  EXPECT_ML(NVML_ERROR_INSUFFICIENT_SIZE,
            ML(nvmlDeviceGetComputeRunningProcesses_v3, nvml_, &count, nullptr));
  Fact("nvml.process_count_told", count);
  EXPECT_GE(count, 1u);
  EXPECT_ML(NVML_ERROR_INVALID_ARGUMENT,
            ML(nvmlDeviceGetComputeRunningProcesses_v3, nvml_, nullptr, nullptr));
  std::array<abi::nvmlProcessInfo_v2_t, 64> entries{};
  count = entries.size();
  EXPECT_ML(NVML_SUCCESS, ML(nvmlDeviceGetComputeRunningProcesses_v3, nvml_, &count, entries.data()));
  ASSERT_GE(count, 1u);
  Fact("nvml.process_instance_ids",
       std::to_string(entries[0].gpuInstanceId) + " " + std::to_string(entries[0].computeInstanceId));
  unsigned old_count = 64;
  std::array<abi::nvmlProcessInfo_v1_t, 64> old_entries{};
  const auto old = ML(nvmlDeviceGetComputeRunningProcesses, nvml_, &old_count, old_entries.data());
  Fact("nvml.processes_v1", old);
  if (old == abi::NVML_SUCCESS) {
    EXPECT_EQ(old_count, count);
  }
  unsigned graphics = 0;
  Fact("nvml.graphics_processes",
       NvmlName(ML(nvmlDeviceGetGraphicsRunningProcesses_v3, nvml_, &graphics, nullptr)) + ", " +
           std::to_string(graphics));
}

TEST_F(NvmlTest, TextsNeedRoom) {
  std::array<char, 96> text{};
  EXPECT_ML(NVML_ERROR_INSUFFICIENT_SIZE, ML(nvmlDeviceGetName, nvml_, text.data(), 2u));
  EXPECT_ML(NVML_ERROR_INSUFFICIENT_SIZE, ML(nvmlDeviceGetUUID, nvml_, text.data(), 2u));
  EXPECT_ML(NVML_ERROR_INVALID_ARGUMENT, ML(nvmlDeviceGetName, nvml_, nullptr, 96u));
  EXPECT_ML(NVML_SUCCESS, ML(nvmlSystemGetDriverVersion, text.data(), unsigned(text.size())));
  Fact("nvml.driver_version", text.data());
  EXPECT_ML(NVML_SUCCESS, ML(nvmlSystemGetNVMLVersion, text.data(), unsigned(text.size())));
  Fact("nvml.nvml_version", text.data());
  int cuda = 0, driver = 0;
  EXPECT_ML(NVML_SUCCESS, ML(nvmlSystemGetCudaDriverVersion_v2, &cuda));
  EXPECT_OK(CU(cuDriverGetVersion, &driver));
  EXPECT_EQ(cuda, driver);
}

TEST_F(NvmlTest, UtilizationOfABusyDevice) {
  ASSERT_OK(Spin(module_, 1'500'000'000));
  ASSERT_OK(CU(cuCtxSynchronize));
  abi::nvmlUtilization_t all{};
  EXPECT_ML(NVML_SUCCESS, ML(nvmlDeviceGetUtilizationRates, nvml_, &all));
  Fact("nvml.utilization_after_a_busy_second", all.gpu);
  EXPECT_GT(all.gpu, 50u);
  std::array<abi::nvmlProcessUtilizationSample_t, 1024> samples{};
  unsigned count = samples.size();
  const auto result = ML(nvmlDeviceGetProcessUtilization, nvml_, samples.data(), &count, 0ull);
  Fact("nvml.process_utilization", NvmlName(result) + ", " + std::to_string(count));
  bool mine = false;
  for (unsigned i = 0; i < count && i < samples.size(); ++i)
    mine = mine || samples[i].pid == static_cast<unsigned>(::getpid());
  Fact("nvml.process_utilization_has_this_process", mine ? "yes" : "no");
}

TEST_F(NvmlTest, AWaitForEventsTimesOut) {
  abi::nvmlEventSet_t set = nullptr;
  unsigned long long types = 0;
  EXPECT_ML(NVML_SUCCESS, ML(nvmlDeviceGetSupportedEventTypes, nvml_, &types));
  Fact("nvml.supported_events", types);
  EXPECT_NE(types & abi::nvmlEventTypeXidCriticalError, 0u);
  ASSERT_EQ(NvmlName(ML(nvmlEventSetCreate, &set)), "NVML_SUCCESS");
  EXPECT_ML(NVML_SUCCESS, ML(nvmlDeviceRegisterEvents, nvml_, abi::nvmlEventTypeXidCriticalError, set));
  abi::nvmlEventData_t event{};
  EXPECT_ML(NVML_ERROR_TIMEOUT, ML(nvmlEventSetWait_v2, set, &event, 20u));
  EXPECT_ML(NVML_ERROR_TIMEOUT, ML(nvmlEventSetWait_v2, set, &event, 0u));  // polls, does not wait
  Fact("nvml.register_unsupported", ML(nvmlDeviceRegisterEvents, nvml_, 1ull << 40, set));
  EXPECT_ML(NVML_SUCCESS, ML(nvmlEventSetFree, set));
}

}  // namespace
}  // namespace gpuman::conformance

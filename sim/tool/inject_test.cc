// Each fault of gpuman-sim inject, as a client of NVML or CUDA sees it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "driver/nvml.h"
#include "sim/cuda/test_cuda.h"
#include "sim/state/test_state.h"

namespace gpuman::sim {
namespace {

using namespace driver;  // NOLINT(google-build-using-namespace)

class Injection : public ::testing::Test {
 protected:
  void SetUp() override { Boot(); }
  void TearDown() override { unsetenv(kDirectoryVariable); }

  void Boot(const CreateOptions& options = {.gpus = 2}) {
    nvml_.reset();
    state_ = std::make_unique<TestState>(options);
    setenv(kDirectoryVariable, state_->directory().c_str(), 1);
    auto loaded = Nvml::Load(GPUMAN_SIM_LIBRARIES "/libnvidia-ml.so.1");
    ASSERT_TRUE(loaded) << loaded.error().message;
    nvml_ = *std::move(loaded);
    device_ = nvml_->DeviceAt(0).value();
  }
  const NvmlCalls& calls() const { return nvml_->calls(); }

  // Exit status of gpuman-sim inject.
  static int Inject(const std::string& fault) {
    const int status = std::system(("'" GPUMAN_SIM_PROGRAM "' inject " + fault).c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  unsigned long long EccErrors(abi::nvmlMemoryErrorType_t type, abi::nvmlEccCounterType_t counter) {
    unsigned long long errors = ~0ull;
    EXPECT_EQ(calls().nvmlDeviceGetTotalEccErrors(device_, type, counter, &errors), abi::NVML_SUCCESS);
    return errors;
  }

  std::unique_ptr<TestState> state_;
  std::unique_ptr<Nvml> nvml_;
  NvmlDevice device_ = nullptr;
};

TEST_F(Injection, AnXidReachesAWaiter) {
  abi::nvmlEventSet_t set = nullptr;
  ASSERT_EQ(calls().nvmlEventSetCreate(&set), abi::NVML_SUCCESS);
  ASSERT_EQ(calls().nvmlDeviceRegisterEvents(device_, abi::nvmlEventTypeXidCriticalError, set),
            abi::NVML_SUCCESS);
  ASSERT_EQ(Inject("xid 48 --gpu 1"), 0) << "not this one's";
  ASSERT_EQ(Inject("xid 94"), 0);
  abi::nvmlEventData_t event{};
  EXPECT_EQ(calls().nvmlEventSetWait_v2(set, &event, 10'000), abi::NVML_SUCCESS);
  EXPECT_EQ(event.eventData, 94u);
  EXPECT_EQ(event.device, device_);
  EXPECT_EQ(calls().nvmlEventSetFree(set), abi::NVML_SUCCESS);
}

TEST_F(Injection, MemoryErrorsCountByKindAndStayInTheAggregate) {
  ASSERT_EQ(Inject("ecc --count 3"), 0);
  ASSERT_EQ(Inject("ecc --uncorrected"), 0);
  EXPECT_EQ(EccErrors(abi::NVML_MEMORY_ERROR_TYPE_CORRECTED, abi::NVML_VOLATILE_ECC), 3u);
  EXPECT_EQ(EccErrors(abi::NVML_MEMORY_ERROR_TYPE_UNCORRECTED, abi::NVML_VOLATILE_ECC), 1u);
  ASSERT_EQ(Inject("reset"), 0);
  EXPECT_EQ(EccErrors(abi::NVML_MEMORY_ERROR_TYPE_UNCORRECTED, abi::NVML_VOLATILE_ECC), 0u);
  EXPECT_EQ(EccErrors(abi::NVML_MEMORY_ERROR_TYPE_UNCORRECTED, abi::NVML_AGGREGATE_ECC), 1u);
  ASSERT_EQ(Inject("clear --counters"), 0);
  EXPECT_EQ(EccErrors(abi::NVML_MEMORY_ERROR_TYPE_UNCORRECTED, abi::NVML_AGGREGATE_ECC), 0u);
}

TEST_F(Injection, RowsAreRemapped) {
  ASSERT_EQ(Inject("row-remap --count 2 --pending --failed"), 0);
  unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
  EXPECT_EQ(calls().nvmlDeviceGetRemappedRows(device_, &corrected, &uncorrected, &pending, &failed),
            abi::NVML_SUCCESS);
  EXPECT_EQ(corrected, 0u);
  EXPECT_EQ(uncorrected, 2u);
  EXPECT_EQ(pending, 1u);
  EXPECT_EQ(failed, 1u);
}

TEST_F(Injection, ReadingsLastUntilCleared) {
  const auto temperature = nvml_->Temperature(device_).value();
  ASSERT_EQ(Inject("temperature 95"), 0);
  ASSERT_EQ(Inject("power 555"), 0);
  ASSERT_EQ(Inject("utilization 42"), 0);
  ASSERT_EQ(Inject("pcie-width 8"), 0);
  ASSERT_EQ(Inject("throttle --reasons 8"), 0);
  EXPECT_EQ(nvml_->Temperature(device_).value(), 95);
  EXPECT_EQ(nvml_->PowerMilliwatts(device_).value(), 555'000u);
  EXPECT_EQ(nvml_->Utilization(device_)->gpu, 42u);
  unsigned width = 0;
  unsigned long long reasons = 0;
  EXPECT_EQ(calls().nvmlDeviceGetCurrPcieLinkWidth(device_, &width), abi::NVML_SUCCESS);
  EXPECT_EQ(width, 8u);
  EXPECT_EQ(calls().nvmlDeviceGetCurrentClocksEventReasons(device_, &reasons), abi::NVML_SUCCESS);
  EXPECT_NE(reasons & 8, 0u);
  ASSERT_EQ(Inject("clear"), 0);
  EXPECT_EQ(nvml_->Temperature(device_).value(), temperature);
  EXPECT_EQ(calls().nvmlDeviceGetCurrentClocksEventReasons(device_, &reasons), abi::NVML_SUCCESS);
  EXPECT_EQ(reasons & 8, 0u);
}

TEST_F(Injection, PacketsAreSentAgainOnTheBus) {
  ASSERT_EQ(Inject("pcie-replays --count 7"), 0);
  unsigned replays = 0;
  EXPECT_EQ(calls().nvmlDeviceGetPcieReplayCounter(device_, &replays), abi::NVML_SUCCESS);
  EXPECT_EQ(replays, 7u);
}

TEST_F(Injection, ALostGpuComesBackWhenCleared) {
  ASSERT_EQ(Inject("lost"), 0);
  EXPECT_EQ(nvml_->Memory(device_).error().failure, NvmlFailure::kGpuLost);
  EXPECT_TRUE(nvml_->Memory(nvml_->DeviceAt(1).value()));
  ASSERT_EQ(Inject("clear"), 0);
  EXPECT_TRUE(nvml_->Memory(device_));
}

TEST_F(Injection, OneFunctionIsSlow) {
  ASSERT_EQ(Inject("nvml-slow --delay 60ms --function nvmlDeviceGetTemperature"), 0);
  const auto began = std::chrono::steady_clock::now();
  unsigned celsius = 0;
  EXPECT_EQ(calls().nvmlDeviceGetTemperature(device_, abi::NVML_TEMPERATURE_GPU, &celsius),
            abi::NVML_SUCCESS);
  EXPECT_GE(std::chrono::steady_clock::now() - began, std::chrono::milliseconds(60));
}

TEST_F(Injection, ACallHangsUntilCleared) {
  ASSERT_EQ(Inject("nvml-hang --gpu 0"), 0);
  std::atomic<bool> began = false, clearing = false;
  std::thread caller([&] {
    began = true;
    began.notify_all();
    EXPECT_TRUE(nvml_->Memory(device_));
    EXPECT_TRUE(clearing) << "it did not hang";
  });
  began.wait(false);
  EXPECT_TRUE(nvml_->Memory(nvml_->DeviceAt(1).value())) << "the other GPU answers";
  clearing = true;
  EXPECT_EQ(Inject("clear"), 0);
  caller.join();
}

TEST_F(Injection, TheNthAllocationFails) {
  EXPECT_TRUE(cuda::Forked([&] {
    using namespace driver::abi;  // NOLINT(google-build-using-namespace)
    using cuda::Gives;
    const cuda::Cuda cu;
    cuda::Start(cu);
    ASSERT_EQ(Inject("alloc-fail --nth 3"), 0);
    CUdeviceptr pointer = 0;
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    EXPECT_OK(cu.cuMemAlloc_v2(&pointer, 4 * cuda::kMegabyte));
    EXPECT_OK(cu.cuMemCreate(&handle, 2 * cuda::kMegabyte, &prop, 0));
    EXPECT_CU(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAllocManaged(&pointer, 4, CU_MEM_ATTACH_GLOBAL));
    EXPECT_OK(cu.cuMemAlloc_v2(&pointer, 4 * cuda::kMegabyte));
  }));
}

TEST_F(Injection, ModulesDoNotLoadUntilCleared) {
  EXPECT_TRUE(cuda::Forked([&] {
    using namespace driver::abi;  // NOLINT(google-build-using-namespace)
    using cuda::Gives;
    const cuda::Cuda cu;
    cuda::Start(cu);
    CUmodule module = nullptr;
    ASSERT_EQ(Inject("module-fail --gpu 1"), 0);
    EXPECT_OK(cu.cuModuleLoadData(&module, cuda::kTestKernels)) << "on GPU 0";
    ASSERT_EQ(Inject("module-fail --gpu 0"), 0);
    EXPECT_CU(CUDA_ERROR_JIT_COMPILER_NOT_FOUND, cu.cuModuleLoadData(&module, cuda::kTestKernels));
    ASSERT_EQ(Inject("clear"), 0);
    EXPECT_OK(cu.cuModuleLoadData(&module, cuda::kTestKernels));
  }));
}

TEST_F(Injection, AProcessLosesItsContextsAndNoOtherDoes) {
  EXPECT_TRUE(cuda::Forked([&] {
    using namespace driver::abi;  // NOLINT(google-build-using-namespace)
    using cuda::Gives;
    const cuda::Cuda cu;
    cuda::Start(cu);
    CUdeviceptr pointer = 0;
    ASSERT_EQ(Inject("contexts-lost --pid 1"), 0);
    EXPECT_OK(cu.cuMemAlloc_v2(&pointer, 4 * cuda::kMegabyte));
    ASSERT_EQ(Inject("contexts-lost --pid " + std::to_string(::getpid())), 0);
    EXPECT_CU(CUDA_ERROR_ECC_UNCORRECTABLE, cu.cuMemAlloc_v2(&pointer, 4 * cuda::kMegabyte));
    EXPECT_CU(CUDA_ERROR_ECC_UNCORRECTABLE, cu.cuCtxSynchronize());
  }));
}

}  // namespace
}  // namespace gpuman::sim

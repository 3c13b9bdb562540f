// Start-up, devices, contexts, and the lookup of functions.
#include <dlfcn.h>

#include "driver/abi/test_twin.h"
#include "sim/cuda/test_cuda.h"

// A library between a program and the driver defines such a function.
extern "C" __attribute__((visibility("default"), used)) int cuDeviceGetCount(int* count) {
  *count = 99;
  return 0;
}

namespace gpuman::sim::cuda {
namespace {

using testing::StartsWith;

TEST(SimCuda, ExportsEveryFunctionOfTheListAndEveryTwin) {
  const Cuda cu;
  for (const CudaFunction& function : kCudaFunctions) {
    const std::string symbol(function.symbol);
    EXPECT_NE(dlsym(cu.handle, symbol.c_str()), nullptr) << symbol;
    const std::string twin = symbol + std::string(TwinSuffix(function.twin));
    EXPECT_NE(dlsym(cu.handle, twin.c_str()), nullptr) << twin;
  }
}

TEST(SimCuda, ExportsNoFunctionOutsideTheList) {
  const Cuda cu;
  EXPECT_EQ(dlsym(cu.handle, "_ZN6gpuman3sim6ClientC1ERKNS0_5StateE"), nullptr);
}

TEST(SimCuda, AnswersNotInitializedBeforeCuInit) {
  OnState({}, [](Cuda& cu, TestState&) {
    int count = 0;
    CUdeviceptr pointer = 0;
    CUcontext context = nullptr;
    EXPECT_CU(CUDA_ERROR_NOT_INITIALIZED, cu.cuDeviceGetCount(&count));
    EXPECT_CU(CUDA_ERROR_NOT_INITIALIZED, cu.cuMemAlloc_v2(&pointer, 1));
    EXPECT_CU(CUDA_ERROR_NOT_INITIALIZED, cu.cuCtxGetCurrent(&context));
    EXPECT_CU(CUDA_ERROR_NOT_INITIALIZED, cu.cuCtxSynchronize());
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuInit(1));
    EXPECT_OK(cu.cuDriverGetVersion(&count));
    EXPECT_EQ(count, 13000);
    EXPECT_OK(cu.cuInit(0));
    EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT, cu.cuMemAlloc_v2(&pointer, 1));
  });
}

TEST(SimCuda, HasNoDeviceWithoutAState) {
  EXPECT_TRUE(Forked([] {
    unsetenv(kDirectoryVariable);
    const Cuda cu;
    EXPECT_CU(CUDA_ERROR_NO_DEVICE, cu.cuInit(0));
    setenv(kDirectoryVariable, "/nonexistent", 1);
    EXPECT_CU(CUDA_ERROR_NO_DEVICE, cu.cuInit(0));
  }));
}

TEST(SimCuda, ContextsDoNotSurviveAFork) {
  OnDevice([](Cuda& cu, TestState&) {
    EXPECT_TRUE(Forked([&] {
      CUdeviceptr pointer = 0;
      EXPECT_CU(CUDA_ERROR_NOT_INITIALIZED, cu.cuMemAlloc_v2(&pointer, 1));
      EXPECT_CU(CUDA_ERROR_NOT_INITIALIZED, cu.cuInit(0));
    }));
    Allocate(cu, 1);  // the parent goes on
  });
}

// The answers of an H200 with driver 580 (measured).
TEST(SimCuda, GetProcAddressAnswersByNameVersionAndFlags) {
  OnState({}, [](Cuda& cu, TestState&) {
    const auto find = [&](const char* name, int version, cuuint64_t flags) {
      void* found = nullptr;
      CUdriverProcAddressQueryResult status{};
      const CUresult result = cu.cuGetProcAddress_v2(name, &found, version, flags, &status);
      Dl_info info{};
      if (result != CUDA_SUCCESS) return NameOf(result);
      if (found == nullptr) return "status " + std::to_string(status);
      return dladdr(found, &info) != 0 && info.dli_sname != nullptr ? std::string(info.dli_sname) : "?";
    };
    EXPECT_EQ(find("cuMemAlloc", 12000, 0), "cuMemAlloc_v2");
    EXPECT_EQ(find("cuMemAlloc", 1000, 0), "status 2");
    EXPECT_EQ(find("cuMemAlloc_v2", 12000, 0), "status 1");
    EXPECT_EQ(find("cuNope", 12000, 0), "status 1");
    EXPECT_EQ(find("cuGetProcAddress", 11040, 0), "cuGetProcAddress");
    EXPECT_EQ(find("cuGetProcAddress", 12000, 0), "cuGetProcAddress_v2");
    EXPECT_EQ(find("cuMemPrefetchAsync", 12010, 0), "cuMemPrefetchAsync");
    EXPECT_EQ(find("cuMemPrefetchAsync", 12020, 2), "cuMemPrefetchAsync_v2_ptsz");
    EXPECT_EQ(find("cuCtxSynchronize", 12000, 0), "cuCtxSynchronize");
    EXPECT_EQ(find("cuCtxSynchronize", 13000, 0), "cuCtxSynchronize_v2");
    EXPECT_EQ(find("cuMemcpyHtoD", 12000, 2), "cuMemcpyHtoD_v2_ptds");
    EXPECT_EQ(find("cuMemcpyHtoD", 12000, 1), "cuMemcpyHtoD_v2");
    EXPECT_EQ(find("cuMemcpyHtoD", 6050, 2), "status 2");
    EXPECT_EQ(find("cuInit", 13010, 0), "CUDA_ERROR_INVALID_VALUE");
    EXPECT_EQ(find("cuInit", 12000, 4), "CUDA_ERROR_INVALID_VALUE");
    void* found = nullptr;
    EXPECT_CU(CUDA_ERROR_NOT_FOUND, cu.cuGetProcAddress("cuNope", &found, 12000, 0));
    EXPECT_OK(cu.cuGetProcAddress("cuInit", &found, 12000, 0));
    EXPECT_EQ(found, reinterpret_cast<void*>(cu.cuInit));
  });
}

TEST(SimCuda, ReachesItsOwnFunctionsWhateverTheProgramDefines) {
  OnState({}, [](Cuda& cu, TestState&) {
    ASSERT_NE(dlsym(RTLD_DEFAULT, "cuDeviceGetCount"), nullptr);
    void* found = nullptr;
    CUdriverProcAddressQueryResult status{};
    EXPECT_OK(cu.cuGetProcAddress_v2("cuDeviceGetCount", &found, 13000, 0, &status));
    EXPECT_EQ(found, dlsym(cu.handle, "cuDeviceGetCount"));
    EXPECT_NE(found, dlsym(RTLD_DEFAULT, "cuDeviceGetCount"));
  });
}

TEST(SimCuda, AnOlderDriverHidesNewerFunctions) {
  OnState({.driver_version = "550.90.07"}, [](Cuda& cu, TestState& state) {
    int version = 0;
    EXPECT_OK(cu.cuDriverGetVersion(&version));
    EXPECT_EQ(version, static_cast<int>(state.shared().cuda_version));
    void* found = &version;
    CUdriverProcAddressQueryResult status{};
    EXPECT_OK(cu.cuGetProcAddress_v2("cuCheckpointProcessLock", &found, version, 0, &status));
    EXPECT_EQ(found, nullptr);
    EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  });
}

TEST(SimCuda, TheLibraryOfAnOlderDriverDoesNotExportNewerFunctions) {
  void* const library = dlopen(GPUMAN_SIM_CUDA_550, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  for (const CudaFunction& function : kCudaFunctions) {
    const std::string symbol(function.symbol);
    const std::string twin = symbol + std::string(TwinSuffix(function.twin));
    EXPECT_EQ(dlsym(library, symbol.c_str()) != nullptr, function.version <= 12040) << symbol;
    EXPECT_EQ(dlsym(library, twin.c_str()) != nullptr, function.version <= 12040) << twin;
  }
}

TEST(SimCuda, ErrorsHaveNames) {
  const Cuda cu;
  const char* text = nullptr;
  EXPECT_OK(cu.cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
  EXPECT_STREQ(text, "CUDA_ERROR_OUT_OF_MEMORY");
  EXPECT_OK(cu.cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
  EXPECT_STREQ(text, "out of memory");
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuGetErrorName(static_cast<CUresult>(12345), &text));
  EXPECT_EQ(text, nullptr);
}

TEST(SimCuda, SeesTheDevicesThatCudaVisibleDevicesNames) {
  TestState state({.gpus = 4});
  std::vector<std::string> uuids;
  for (unsigned gpu = 0; gpu < 4; ++gpu) uuids.emplace_back(state.shared().gpu_static[gpu].uuid);
  const auto expect = [&](const std::string& variable, const std::vector<unsigned>& gpus) {
    const bool passed = Forked([&] {
      setenv(kDirectoryVariable, state.directory().c_str(), 1);
      setenv("CUDA_VISIBLE_DEVICES", variable.c_str(), 1);
      const Cuda cu;
      if (gpus.empty()) {
        EXPECT_CU(CUDA_ERROR_NO_DEVICE, cu.cuInit(0));
        return;
      }
      ASSERT_OK(cu.cuInit(0));
      int count = 0;
      EXPECT_OK(cu.cuDeviceGetCount(&count));
      ASSERT_EQ(count, static_cast<int>(gpus.size()));
      for (int i = 0; i < count; ++i) {
        int bus = 0;
        EXPECT_OK(cu.cuDeviceGetAttribute(&bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, i));
        const GpuStatic& info = state.shared().gpu_static[gpus[static_cast<std::size_t>(i)]];
        EXPECT_EQ(bus, static_cast<int>(info.pci_bus));
        CUuuid uuid{};
        EXPECT_OK(cu.cuDeviceGetUuid_v2(&uuid, i));
        char text[9];
        std::snprintf(text, sizeof text, "%02x%02x%02x%02x", uuid.bytes[0] & 0xff, uuid.bytes[1] & 0xff,
                      uuid.bytes[2] & 0xff, uuid.bytes[3] & 0xff);
        EXPECT_THAT(info.uuid, StartsWith("GPU-" + std::string(text)));
      }
    });
    EXPECT_TRUE(passed) << variable;
  };
  expect("2,0", {2, 0});
  expect("1,9,0", {1});
  expect(uuids[3] + "," + uuids[1], {3, 1});
  expect(uuids[2].substr(0, 12), {});  // all UUIDs begin so, so it names none
  expect("", {});
  expect("-1", {});
  expect("GPU-nope", {});
  expect("1,1", {});
}

TEST(SimCuda, ABeginningOfAUuidServesWhenOnlyOneDeviceHasIt) {
  OnState({}, [](Cuda& cu, TestState&) {
    setenv("CUDA_VISIBLE_DEVICES", "GPU-9", 1);
    EXPECT_OK(cu.cuInit(0));
  });
}

TEST(SimCuda, DescribesTheDeviceOfItsProfile) {
  OnState({.profile = "h200"}, [](Cuda& cu, TestState& state) {
    ASSERT_OK(cu.cuInit(0));
    char name[64];
    EXPECT_OK(cu.cuDeviceGetName(name, sizeof name, 0));
    EXPECT_STREQ(name, "NVIDIA H200");
    int value = 0;
    EXPECT_OK(cu.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
    EXPECT_EQ(value, 9);
    EXPECT_OK(cu.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
    EXPECT_EQ(value, 32);
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
              cu.cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(9999), 0));
    EXPECT_CU(CUDA_ERROR_INVALID_DEVICE, cu.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 7));
    CUdevice device = 0;
    EXPECT_CU(CUDA_ERROR_INVALID_DEVICE, cu.cuDeviceGet(&device, -1));
    std::size_t total = 0;
    EXPECT_OK(cu.cuDeviceTotalMem_v2(&total, 0));
    EXPECT_EQ(total, DeviceCapacity(state.shared(), 0));
    char bus[32];
    EXPECT_OK(cu.cuDeviceGetPCIBusId(bus, sizeof bus, 0));
    EXPECT_OK(cu.cuDeviceGetByPCIBusId(&device, bus));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuDeviceGetPCIBusId(bus, 4, 0));
  });
}

TEST(SimCuda, AContextCostsMemoryOfTheDeviceUntilItIsDestroyed) {
  OnState({.profile = "a100"}, [](Cuda& cu, TestState& state) {
    ASSERT_OK(cu.cuInit(0));
    const std::uint64_t overhead = state.shared().gpu_static[0].context_overhead;
    CUcontext first = nullptr, second = nullptr, now = nullptr;
    ASSERT_OK(cu.cuCtxCreate_v2(&first, 0, 0));
    EXPECT_EQ(DeviceUsed(state.shared(), 0), overhead);
    ASSERT_OK(cu.cuCtxCreate_v4(&second, nullptr, 0, 0));
    const CUdeviceptr pointer = Allocate(cu, 64 * kMegabyte);
    Allocate(cu, 100);
    EXPECT_EQ(DeviceUsed(state.shared(), 0), 2 * overhead + 66 * kMegabyte);
    EXPECT_OK(cu.cuCtxDestroy_v2(second));
    EXPECT_OK(cu.cuCtxGetCurrent(&now));
    EXPECT_EQ(now, first);
    EXPECT_EQ(DeviceUsed(state.shared(), 0), overhead);
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemFree_v2(pointer));
    EXPECT_OK(cu.cuCtxSetCurrent(second));  // accepted, but useless
    EXPECT_CU(CUDA_ERROR_CONTEXT_IS_DESTROYED, cu.cuCtxSynchronize());
    EXPECT_CU(CUDA_ERROR_CONTEXT_IS_DESTROYED, cu.cuCtxDestroy_v2(second));
    EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT, cu.cuCtxSetCurrent(reinterpret_cast<CUcontext>(0x1234)));
    EXPECT_OK(cu.cuCtxDestroy_v2(first));
    EXPECT_EQ(DeviceUsed(state.shared(), 0), 0u);
  });
}

TEST(SimCuda, ThePrimaryContextLivesAsLongAsItIsRetained) {
  OnState({}, [](Cuda& cu, TestState& state) {
    ASSERT_OK(cu.cuInit(0));
    CUcontext first = nullptr, second = nullptr;
    unsigned flags = 9;
    int active = 9;
    EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT, cu.cuDevicePrimaryCtxRelease_v2(0));
    EXPECT_OK(cu.cuDevicePrimaryCtxRetain(&first, 0));
    EXPECT_OK(cu.cuDevicePrimaryCtxRetain(&second, 0));
    EXPECT_EQ(first, second);
    EXPECT_OK(cu.cuCtxSetCurrent(first));
    EXPECT_OK(cu.cuDevicePrimaryCtxRelease_v2(0));
    EXPECT_OK(cu.cuCtxSynchronize());
    EXPECT_OK(cu.cuDevicePrimaryCtxGetState(0, &flags, &active));
    EXPECT_EQ(active, 1);
    EXPECT_OK(cu.cuDevicePrimaryCtxRelease_v2(0));
    EXPECT_CU(CUDA_ERROR_CONTEXT_IS_DESTROYED, cu.cuCtxSynchronize());
    EXPECT_EQ(DeviceUsed(state.shared(), 0), 0u);
    EXPECT_OK(cu.cuDevicePrimaryCtxRetain(&first, 0));
    EXPECT_OK(cu.cuCtxSetCurrent(first));
    Allocate(cu, 4);
  });
}

TEST(SimCuda, ALostGpuFailsEveryCall) {
  OnDevice([](Cuda& cu, TestState& state) {
    state.shared().gpu[0].lost.store(1);
    CUdeviceptr pointer = 0;
    EXPECT_CU(CUDA_ERROR_DEVICE_UNAVAILABLE, cu.cuMemAlloc_v2(&pointer, 1));
    EXPECT_CU(CUDA_ERROR_DEVICE_UNAVAILABLE, cu.cuCtxSynchronize());
  });
}

}  // namespace
}  // namespace gpuman::sim::cuda

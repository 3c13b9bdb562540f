// The driver's answers to wrong calls.

#include "conformance.h"
#include "kernels.h"

namespace gpuman::conformance {
namespace {

using ::testing::AnyOf;

class DriverErrors : public WithContext {};

TEST_F(DriverErrors, AllocationRefusesNothingAndTooMuch) {
  abi::CUdeviceptr pointer = 0;
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, CU(cuMemAlloc_v2, nullptr, kMiB));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, CU(cuMemAlloc_v2, &pointer, std::size_t{0}));
  EXPECT_CUDA(CUDA_ERROR_OUT_OF_MEMORY, CU(cuMemAlloc_v2, &pointer, std::size_t{1} << 63));
  EXPECT_CUDA(CUDA_ERROR_OUT_OF_MEMORY, CU(cuMemAlloc_v2, &pointer, std::size_t{1} << 44));
  const auto most = CU(cuMemAlloc_v2, &pointer, SIZE_MAX);
  Fact("alloc.size_max", most);
  EXPECT_THAT(CudaErrorName(most), AnyOf("CUDA_ERROR_OUT_OF_MEMORY", "CUDA_ERROR_INVALID_VALUE"));
}

TEST_F(DriverErrors, FreeRefusesWhatItDidNotGive) {
  abi::CUdeviceptr pointer = 0;
  ASSERT_OK(CU(cuMemAlloc_v2, &pointer, 4 * kMiB));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, CU(cuMemFree_v2, pointer + 256));
  ASSERT_OK(CU(cuMemFree_v2, pointer));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, CU(cuMemFree_v2, pointer));
  int on_stack = 0;
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, CU(cuMemFree_v2, reinterpret_cast<abi::CUdeviceptr>(&on_stack)));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, CU(cuMemFree_v2, abi::CUdeviceptr{0xdead0000}));
  Fact("free.null", CU(cuMemFree_v2, abi::CUdeviceptr{0}));
}

TEST_F(DriverErrors, MemGetInfoTakesNullPointers) {
  std::size_t free = 0, total = 0;
  EXPECT_OK(CU(cuMemGetInfo_v2, &free, nullptr));
  EXPECT_OK(CU(cuMemGetInfo_v2, nullptr, &total));
  EXPECT_GT(free, 0u);
  EXPECT_GE(total, free);
  Fact("mem_get_info.both_null", CU(cuMemGetInfo_v2, nullptr, nullptr));
}

TEST_F(DriverErrors, AddressRangeKnowsOnlyWhatIsAllocated) {
  DeviceMemory memory(5 * kMiB);
  abi::CUdeviceptr base = 0;
  std::size_t size = 0;
  EXPECT_OK(CU(cuMemGetAddressRange_v2, &base, &size, memory.get() + 100));
  EXPECT_EQ(base, memory.get());
  EXPECT_EQ(size, 5 * kMiB);
  EXPECT_OK(CU(cuMemGetAddressRange_v2, nullptr, &size, memory.get()));
  EXPECT_OK(CU(cuMemGetAddressRange_v2, &base, nullptr, memory.get()));
  const auto foreign = CU(cuMemGetAddressRange_v2, &base, &size, abi::CUdeviceptr{0xdead0000});
  Fact("address_range.foreign", foreign);
  EXPECT_THAT(CudaErrorName(foreign), AnyOf("CUDA_ERROR_NOT_FOUND", "CUDA_ERROR_INVALID_VALUE"));
}

TEST_F(DriverErrors, CopiesStayWithinAllocations) {
  DeviceMemory memory(2 * kMiB);
  std::vector<unsigned char> host(2 * kMiB);
  EXPECT_OK(CU(cuMemcpyHtoD_v2, memory.get(), host.data(), std::size_t{0}));
  EXPECT_OK(CU(cuMemcpyHtoD_v2, memory.get(), host.data(), host.size()));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, CU(cuMemcpyHtoD_v2, memory.get(), nullptr, std::size_t{16}));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, CU(cuMemcpyDtoH_v2, nullptr, memory.get(), std::size_t{16}));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE,
              CU(cuMemcpyHtoD_v2, abi::CUdeviceptr{0}, host.data(), std::size_t{16}));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE,
              CU(cuMemcpyHtoD_v2, abi::CUdeviceptr{0xdead0000}, host.data(), std::size_t{16}));
  // Beyond the end of an allocation that fills its granule.
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, CU(cuMemcpyHtoD_v2, memory.get() + kMiB, host.data(), host.size()));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, CU(cuMemsetD8_v2, abi::CUdeviceptr{0xdead0000},
                                           static_cast<unsigned char>(1), std::size_t{16}));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, CU(cuMemsetD32_v2, memory.get() + 2, 1u, std::size_t{16}));
  Fact("memset.zero", CU(cuMemsetD8_v2, memory.get(), static_cast<unsigned char>(1), std::size_t{0}));
}

TEST_F(DriverErrors, DevicesOutOfRange) {
  int device = 0, count = 0, value = 0;
  std::size_t bytes = 0;
  ASSERT_OK(CU(cuDeviceGetCount, &count));
  EXPECT_CUDA(CUDA_ERROR_INVALID_DEVICE, CU(cuDeviceGet, &device, -1));
  EXPECT_CUDA(CUDA_ERROR_INVALID_DEVICE, CU(cuDeviceGet, &device, count));
  EXPECT_CUDA(CUDA_ERROR_INVALID_DEVICE, CU(cuDeviceTotalMem_v2, &bytes, 99));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, CU(cuDeviceGetCount, nullptr));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE,
              CU(cuDeviceGetAttribute, &value, static_cast<abi::CUdevice_attribute>(0), device_));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE,
              CU(cuDeviceGetAttribute, &value, static_cast<abi::CUdevice_attribute>(9999), device_));
}

TEST_F(DriverErrors, ModulesAndFunctions) {
  abi::CUmodule module = nullptr;
  abi::CUfunction function = nullptr;
  const auto garbage = CU(cuModuleLoadData, &module, "this is no module");
  Fact("module.garbage", garbage);
  EXPECT_THAT(CudaErrorName(garbage), AnyOf("CUDA_ERROR_INVALID_IMAGE", "CUDA_ERROR_INVALID_PTX"));
  const auto broken =
      CU(cuModuleLoadData, &module,
         ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry k() { nonsense; }\n");
  Fact("module.broken_ptx", broken);
  EXPECT_CUDA(CUDA_ERROR_INVALID_PTX, broken);
  EXPECT_CUDA(CUDA_ERROR_NOT_FOUND, CU(cuModuleGetFunction, &function, module_, "no_such_kernel"));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, CU(cuModuleGetFunction, &function, module_, nullptr));
  Fact("module.null_image", CU(cuModuleLoadData, &module, nullptr));
}

TEST_F(DriverErrors, LaunchesOutOfRange) {
  abi::CUfunction spin = nullptr;
  ASSERT_OK(CU(cuModuleGetFunction, &spin, module_, "gpuman_spin"));
  std::uint64_t nanoseconds = 0;
  void* parameters[] = {&nanoseconds};
  const auto launch = [&](abi::CUfunction function, unsigned grid, unsigned block) {
    return CU(cuLaunchKernel, function, grid, 1u, 1u, block, 1u, 1u, 0u, nullptr, parameters, nullptr);
  };
  EXPECT_OK(launch(spin, 1, 1));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, launch(spin, 0, 1));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, launch(spin, 1, 0));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, launch(spin, 1, 2048));
  EXPECT_CUDA(CUDA_ERROR_INVALID_HANDLE, launch(nullptr, 1, 1));
  EXPECT_OK(CU(cuCtxSynchronize));
}

TEST_F(DriverErrors, FlagsOutOfRange) {
  abi::CUstream stream = nullptr;
  abi::CUevent event = nullptr;
  abi::CUcontext context = nullptr;
  abi::CUdeviceptr pointer = 0;
  void* host = nullptr;
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, CU(cuStreamCreate, &stream, 0x10u));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, CU(cuEventCreate, &event, 0x100u));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, CU(cuMemAllocManaged, &pointer, kMiB, 0u));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, CU(cuMemHostAlloc, &host, kMiB, 0x100u));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, CU(cuCtxCreate_v2, &context, 0x10000u, device_));
  const auto contradictory = CU(cuCtxCreate_v2, &context, 0x7u, device_);
  Fact("context.all_scheduling_flags", contradictory);
  if (contradictory == abi::CUDA_SUCCESS) {
    EXPECT_OK(CU(cuCtxDestroy_v2, context));
  }
  ASSERT_OK(CU(cuCtxSetCurrent, context_));
}

TEST_F(DriverErrors, ErrorTexts) {
  const char* text = nullptr;
  EXPECT_OK(CU(cuGetErrorName, abi::CUDA_ERROR_OUT_OF_MEMORY, &text));
  EXPECT_STREQ(text, "CUDA_ERROR_OUT_OF_MEMORY");
  EXPECT_OK(CU(cuGetErrorString, abi::CUDA_ERROR_OUT_OF_MEMORY, &text));
  EXPECT_STREQ(text, "out of memory");
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, CU(cuGetErrorName, static_cast<abi::CUresult>(123456), &text));
  EXPECT_EQ(text, nullptr);
}

TEST_F(DriverErrors, HostMemory) {
  void* host = nullptr;
  unsigned flags = 0;
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, CU(cuMemFreeHost, &flags));
  std::vector<unsigned char> plain(8 * kMiB);
  auto* aligned = reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(plain.data()) + 4095) & ~4095ul);
  EXPECT_OK(CU(cuMemHostRegister_v2, aligned, 4 * kMiB, 0u));
  EXPECT_CUDA(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, CU(cuMemHostRegister_v2, aligned, 4 * kMiB, 0u));
  EXPECT_OK(CU(cuMemHostUnregister, aligned));
  EXPECT_CUDA(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, CU(cuMemHostUnregister, aligned));
  ASSERT_OK(CU(cuMemHostAlloc, &host, kMiB, 0u));
  EXPECT_OK(CU(cuMemHostGetFlags, &flags, host));
  Fact("host_alloc.flags_of_0", flags);
  EXPECT_OK(CU(cuMemFreeHost, host));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, CU(cuMemFreeHost, host));
  Fact("host_alloc.zero", CU(cuMemHostAlloc, &host, std::size_t{0}, 0u));
}

}  // namespace
}  // namespace gpuman::conformance

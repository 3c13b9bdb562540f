// Each family of allocation takes the expected memory of the device, and exhaustion leaves no damage.

#include <functional>

#include "conformance.h"
#include "kernels.h"

namespace gpuman::conformance {
namespace {

class Accounting : public WithContext {};

// The bytes that `take` costs, by cuMemGetInfo.
std::uint64_t Cost(const std::function<void()>& take) {
  const auto before = FreeBytes();
  take();
  const auto after = FreeBytes();
  return before - after;  // wraps visibly if memory became free
}

std::uint64_t CostOfPlain(std::size_t bytes) {
  abi::CUdeviceptr pointer = 0;
  const auto cost = Cost([&] { EXPECT_OK(CU(cuMemAlloc_v2, &pointer, bytes)); });
  EXPECT_OK(CU(cuMemFree_v2, pointer));
  return cost;
}

TEST_F(Accounting, PlainMemoryComesInGranules) {
  const auto at_start = FreeBytes();
  for (const std::size_t bytes :
       {std::size_t{1}, 512 * std::size_t{1024}, kMiB, kMiB + 1, 2 * kMiB, 2 * kMiB + 1, 3 * kMiB}) {
    const auto cost = CostOfPlain(bytes);
    Fact("cost.plain." + std::to_string(bytes), cost);
    EXPECT_EQ(cost % kGranularity, 0u) << bytes;
  }
  for (const std::size_t bytes : {4 * kMiB, 64 * kMiB, 100 * kMiB + 1, 1024 * kMiB})
    EXPECT_EQ(CostOfPlain(bytes), Round(bytes)) << bytes;
  EXPECT_EQ(FreeBytes(), at_start);
}

TEST_F(Accounting, SmallPlainAllocationsShareAGranule) {
  abi::CUdeviceptr pointers[64] = {};
  const auto cost = Cost([&] {
    for (auto& pointer : pointers) EXPECT_OK(CU(cuMemAlloc_v2, &pointer, std::size_t{1000}));
  });
  Fact("cost.plain.64_of_1000_bytes", cost);
  EXPECT_LE(cost, kGranularity);
  for (const auto pointer : pointers) EXPECT_EQ(pointer % 256, 0u);
  Fact("plain.spacing_of_1000_bytes", pointers[1] - pointers[0]);
  for (const auto pointer : pointers) EXPECT_OK(CU(cuMemFree_v2, pointer));
}

TEST_F(Accounting, VirtualMemoryCostsItsHandles) {
  abi::CUmemAllocationProp prop{};
  prop.type = abi::CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {abi::CU_MEM_LOCATION_TYPE_DEVICE, device_};
  abi::CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(Cost([&] { EXPECT_OK(CU(cuMemCreate, &handle, 64 * kMiB, &prop, 0ull)); }), 64 * kMiB);
  const auto held = FreeBytes();
  EXPECT_OK(CU(cuMemRelease, handle));
  EXPECT_EQ(FreeBytes(), held + 64 * kMiB);
  abi::CUdeviceptr reserved = 0;
  EXPECT_EQ(
      Cost([&] {
        EXPECT_OK(CU(cuMemAddressReserve, &reserved, 1024 * kMiB, std::size_t{0}, abi::CUdeviceptr{0}, 0ull));
      }),
      0u);
  EXPECT_OK(CU(cuMemAddressFree, reserved, 1024 * kMiB));
}

TEST_F(Accounting, ManagedMemoryCostsWhatIsTouchedOnTheDevice) {
  constexpr std::size_t kBytes = 32 * kMiB;
  abi::CUdeviceptr pointer = 0;
  const auto at_alloc = Cost([&] {
    EXPECT_OK(CU(cuMemAllocManaged, &pointer, kBytes, static_cast<unsigned>(abi::CU_MEM_ATTACH_GLOBAL)));
  });
  const auto at_touch = Cost([&] {
    EXPECT_OK(Fill(module_, pointer, kBytes, 5));
    EXPECT_OK(CU(cuCtxSynchronize));
  });
  Fact("cost.managed.at_alloc", at_alloc);
  Fact("cost.managed.at_touch", at_touch);
  EXPECT_GE(at_touch, kBytes);  // the driver reserves more at the first use
  EXPECT_EQ(WrongOnHost(pointer, kBytes, 5), 0u);
  EXPECT_OK(CU(cuMemFree_v2, pointer));
}

TEST_F(Accounting, HostMemoryCostsTheDeviceNothing) {
  void* host = nullptr;
  const auto cost = Cost([&] { EXPECT_OK(CU(cuMemHostAlloc, &host, 64 * kMiB, 0u)); });
  Fact("cost.host_64_mib", cost);
  EXPECT_LE(cost, kGranularity);
  EXPECT_OK(CU(cuMemFreeHost, host));
}

TEST_F(Accounting, ArraysCostAtLeastTheirTexels) {
  for (const auto& [width, height] :
       {std::pair<std::size_t, std::size_t>{1024, 1024}, {4096, 1024}, {1000, 1000}}) {
    const abi::CUDA_ARRAY_DESCRIPTOR wanted{width, height, abi::CU_AD_FORMAT_UNSIGNED_INT32, 4};
    abi::CUarray array = nullptr;
    const auto cost = Cost([&] { EXPECT_OK(CU(cuArrayCreate_v2, &array, &wanted)); });
    Fact("cost.array." + std::to_string(width) + "x" + std::to_string(height) + "x16", cost);
    EXPECT_GE(cost, width * height * 16);
    EXPECT_EQ(cost % kGranularity, 0u);
    EXPECT_OK(CU(cuArrayDestroy, array));
  }
}

TEST_F(Accounting, PitchedMemoryCostsItsPadding) {
  abi::CUdeviceptr pointer = 0;
  std::size_t pitch = 0;
  const auto cost = Cost([&] {
    EXPECT_OK(CU(cuMemAllocPitch_v2, &pointer, &pitch, std::size_t{4000}, std::size_t{10000}, 8u));
  });
  EXPECT_EQ(cost, Round(pitch * 10000));
  EXPECT_OK(CU(cuMemFree_v2, pointer));
}

TEST_F(Accounting, ObjectsCost) {
  abi::CUcontext second = nullptr;
  const auto context = Cost([&] {
    EXPECT_OK(CU(cuCtxCreate_v2, &second, 0u, device_));
    EXPECT_OK(CU(cuCtxSetCurrent, context_));
  });
  Fact("cost.second_context", context);
  EXPECT_GT(context, 0u);
  EXPECT_OK(CU(cuCtxDestroy_v2, second));
  EXPECT_OK(CU(cuCtxSetCurrent, context_));
  abi::CUmodule module = nullptr;
  Fact("cost.module", Cost([&] { EXPECT_OK(CU(cuModuleLoadData, &module, load::kKernels)); }));
  EXPECT_OK(CU(cuModuleUnload, module));
  abi::CUstream stream = nullptr;
  Fact("cost.stream", Cost([&] { EXPECT_OK(CU(cuStreamCreate, &stream, 1u)); }));
  EXPECT_OK(CU(cuStreamDestroy_v2, stream));
  abi::CUevent event = nullptr;
  Fact("cost.event", Cost([&] { EXPECT_OK(CU(cuEventCreate, &event, 0u)); }));
  EXPECT_OK(CU(cuEventDestroy_v2, event));
}

TEST_F(Accounting, TotalsAgree) {
  std::size_t total = 0;
  EXPECT_OK(CU(cuDeviceTotalMem_v2, &total, device_));
  EXPECT_EQ(total, TotalBytes());
  Fact("device.total", total);
  Fact("device.free_with_one_context", FreeBytes());
}

TEST_F(Accounting, RunningOutIsCleanAndLeavesNoMark) {
  const auto before = FreeBytes();
  abi::CUdeviceptr pointer = 0;
  abi::CUmemGenericAllocationHandle handle = 0;
  abi::CUmemAllocationProp prop{};
  prop.type = abi::CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {abi::CU_MEM_LOCATION_TYPE_DEVICE, device_};
  std::size_t pitch = 0;
  const auto too_much = Round(TotalBytes());
  Stream stream;
  const auto steady = FreeBytes();
  for (int i = 0; i < 3; ++i) {
    EXPECT_CUDA(CUDA_ERROR_OUT_OF_MEMORY, CU(cuMemAlloc_v2, &pointer, too_much));
    EXPECT_CUDA(CUDA_ERROR_OUT_OF_MEMORY, CU(cuMemCreate, &handle, too_much, &prop, 0ull));
    EXPECT_CUDA(CUDA_ERROR_OUT_OF_MEMORY,
                CU(cuMemAllocPitch_v2, &pointer, &pitch, std::size_t{1} << 20, too_much >> 20, 4u));
    EXPECT_CUDA(CUDA_ERROR_OUT_OF_MEMORY, CU(cuMemAllocAsync, &pointer, too_much, stream.get()));
  }
  EXPECT_OK(CU(cuCtxSynchronize));
  EXPECT_GE(FreeBytes(), steady);  // a driver short of memory returns its own reserves
  Fact("oom.free_lost", before - FreeBytes());
  DeviceMemory memory(8 * kMiB);
  EXPECT_OK(Fill(module_, memory.get(), memory.size(), 9));
  EXPECT_EQ(Wrong(module_, memory.get(), memory.size(), 9), 0u);
}

TEST_F(Accounting, TheSimulatedDeviceIsFullAtExactlyItsCapacity) {
  if (!Simulated()) GTEST_SKIP() << "takes the whole device";
  abi::CUdeviceptr all = 0, more = 0;
  const auto free = FreeBytes() / kGranularity * kGranularity;
  EXPECT_CUDA(CUDA_ERROR_OUT_OF_MEMORY, CU(cuMemAlloc_v2, &more, free + kGranularity));
  ASSERT_OK(CU(cuMemAlloc_v2, &all, free));
  EXPECT_LT(FreeBytes(), kGranularity);
  EXPECT_CUDA(CUDA_ERROR_OUT_OF_MEMORY, CU(cuMemAlloc_v2, &more, kGranularity));
  EXPECT_OK(CU(cuMemFree_v2, all));
}

}  // namespace
}  // namespace gpuman::conformance

// Memory of every family, and copies.
#include <sys/mman.h>

#include <array>
#include <numeric>

#include "sim/cuda/test_cuda.h"

namespace gpuman::sim::cuda {
namespace {

TEST(SimCudaMemory, IsTakenInStepsOfTwoMegabytesAndSmallPiecesShareThem) {
  OnDevice([](Cuda& cu, TestState&) {
    std::uint64_t free = FreeBytes(cu);
    const auto took = [&](std::size_t bytes) {
      Allocate(cu, bytes);
      const std::uint64_t now = FreeBytes(cu), difference = free - now;
      free = now;
      return difference / kMegabyte;
    };
    EXPECT_EQ(took(1), 2u);
    EXPECT_EQ(took(512), 0u);
    EXPECT_EQ(took(kMegabyte), 0u);
    EXPECT_EQ(took(kMegabyte + 1), 2u);
    EXPECT_EQ(took(2 * kMegabyte + 1), 4u);
    EXPECT_EQ(took(5 * kMegabyte), 6u);
  });
}

TEST(SimCudaMemory, ComesBackWhenFreed) {
  OnDevice([](Cuda& cu, TestState&) {
    const std::uint64_t before = FreeBytes(cu);
    std::vector<CUdeviceptr> pointers;
    for (std::size_t size = 1; size <= 64 * kMegabyte; size = size * 3 + 1)
      pointers.push_back(Allocate(cu, size));
    for (const CUdeviceptr pointer : pointers) EXPECT_OK(cu.cuMemFree_v2(pointer));
    EXPECT_EQ(FreeBytes(cu), before);
    EXPECT_OK(cu.cuMemFree_v2(0));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemFree_v2(pointers[3]));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemFree_v2(0x1234560000));
  });
}

TEST(SimCudaMemory, RefusesBadSizesAndWhatDoesNotFit) {
  OnDevice([](Cuda& cu, TestState&) {
    CUdeviceptr pointer = 0;
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemAlloc_v2(&pointer, 0));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemAlloc_v2(nullptr, 4));
    EXPECT_CU(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc_v2(&pointer, ~std::size_t{0}));
    EXPECT_CU(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc_v2(&pointer, std::size_t{1} << 40));
    const std::uint64_t free = FreeBytes(cu) / (2 * kMegabyte) * (2 * kMegabyte);
    EXPECT_CU(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc_v2(&pointer, free + 1));
    EXPECT_OK(cu.cuMemAlloc_v2(&pointer, free));
    EXPECT_CU(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc_v2(&pointer, 2 * kMegabyte));
  });
}

TEST(SimCudaMemory, TheNthAllocationFailsOnDemand) {
  OnDevice([](Cuda& cu, TestState& state) {
    state.shared().faults.allocation_fails_in[0].store(2);
    CUdeviceptr pointer = 0;
    EXPECT_OK(cu.cuMemAlloc_v2(&pointer, 4 * kMegabyte));
    EXPECT_CU(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc_v2(&pointer, 4 * kMegabyte));
    EXPECT_OK(cu.cuMemAlloc_v2(&pointer, 4 * kMegabyte));
  });
}

TEST(SimCudaMemory, TheNthCopyOfPageLockedMemoryFailsOnDemand) {
  OnDevice([](Cuda& cu, TestState& state) {
    const CUdeviceptr device = Allocate(cu, 4096);
    void* locked = nullptr;
    ASSERT_OK(cu.cuMemHostAlloc(&locked, 4096, 0));
    std::vector<char> pageable(4096);
    Faults& faults = state.shared().faults;
    faults.copy_fails_in[0].store(2);
    EXPECT_OK(cu.cuMemcpyHtoD_v2(device, pageable.data(), 4096));
    EXPECT_OK(cu.cuMemcpyHtoD_v2(device, locked, 4096));
    EXPECT_OK(cu.cuMemcpyDtoH_v2(locked, device, 4095)) << "small copies are not struck";
    EXPECT_CU(CUDA_ERROR_UNKNOWN, cu.cuMemcpyDtoH_v2(locked, device, 4096));
    EXPECT_OK(cu.cuMemcpyDtoH_v2(locked, device, 4096));
    faults.copy_fails_for_good[0].store(1);
    faults.copy_fails_in[0].store(1);
    EXPECT_CU(CUDA_ERROR_ECC_UNCORRECTABLE, cu.cuMemcpyDtoH_v2(locked, device, 4096));
    EXPECT_CU(CUDA_ERROR_ECC_UNCORRECTABLE, cu.cuCtxSynchronize());
  });
}

TEST(SimCudaMemory, CopiesCheckTheirBounds) {
  OnDevice([](Cuda& cu, TestState&) {
    const CUdeviceptr device = Allocate(cu, 1000);
    std::vector<char> host(4096);
    EXPECT_OK(cu.cuMemcpyHtoD_v2(device, host.data(), 1000));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemcpyHtoD_v2(device, host.data(), 1001));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemcpyHtoD_v2(device + 999, host.data(), 2));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemcpyHtoD_v2(0x1234560000, host.data(), 4));
    EXPECT_OK(cu.cuMemcpyHtoD_v2(0x1234560000, host.data(), 0));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemcpyHtoD_v2(device, nullptr, 4));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemcpyDtoD_v2(device, 0x1234560000, 4));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
              cu.cuMemcpyDtoD_v2(device, reinterpret_cast<CUdeviceptr>(host.data()), 4));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemcpyHtoD_v2(device, host.data(), ~std::size_t{0} - 5));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemsetD8_v2(device, 0, 1001));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemsetD32_v2(device + 1, 0, 4));
    EXPECT_OK(cu.cuMemcpy(reinterpret_cast<CUdeviceptr>(host.data()),
                          reinterpret_cast<CUdeviceptr>(&host[100]), 4));
    // A wild host pointer is an error, too, and does not damage the context.
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemcpyHtoD_v2(device, reinterpret_cast<void*>(0x10), 4));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemcpyDtoH_v2(reinterpret_cast<void*>(0x10), device, 4));
    EXPECT_OK(cu.cuCtxSynchronize());
  });
}

TEST(SimCudaMemory, DescribesItsPointers) {
  OnDevice([](Cuda& cu, TestState&) {
    const CUdeviceptr device = Allocate(cu, 1000);
    CUdeviceptr base = 0;
    std::size_t size = 0;
    EXPECT_OK(cu.cuMemGetAddressRange_v2(&base, &size, device + 999));
    EXPECT_EQ(base, device);
    EXPECT_EQ(size, 1000u);
    EXPECT_OK(cu.cuMemGetAddressRange_v2(nullptr, nullptr, device));
    EXPECT_CU(CUDA_ERROR_NOT_FOUND, cu.cuMemGetAddressRange_v2(&base, &size, device + 1000));
    unsigned type = 0;
    EXPECT_OK(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device));
    EXPECT_EQ(type, CU_MEMORYTYPE_DEVICE);
    int on_stack = 0, ordinal = 0;
    const auto host = reinterpret_cast<CUdeviceptr>(&on_stack);
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
              cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, host));
    std::array<CUpointer_attribute, 2> attributes{CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                                  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    std::array<void*, 2> data{&type, &ordinal};
    EXPECT_OK(cu.cuPointerGetAttributes(2, attributes.data(), data.data(), host));
    EXPECT_EQ(type, 0u);
    EXPECT_EQ(ordinal, CU_DEVICE_INVALID);
    void* pinned = nullptr;
    EXPECT_OK(cu.cuMemHostAlloc(&pinned, 100, 0));
    EXPECT_OK(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                       reinterpret_cast<CUdeviceptr>(pinned)));
    EXPECT_EQ(type, CU_MEMORYTYPE_HOST);
  });
}

TEST(SimCudaMemory, HostMemoryIsPinnedAndRegisteredOnce) {
  OnDevice([](Cuda& cu, TestState&) {
    void* pinned = nullptr;
    CUdeviceptr seen = 0;
    EXPECT_OK(cu.cuMemHostAlloc(&pinned, 5000, CU_MEMHOSTALLOC_PORTABLE));
    EXPECT_OK(cu.cuMemHostGetDevicePointer_v2(&seen, pinned, 0));
    EXPECT_EQ(seen, reinterpret_cast<CUdeviceptr>(pinned));
    EXPECT_OK(Launch(cu, "fill", 1, 32, nullptr, seen, 5u));  // kernels reach it
    EXPECT_OK(cu.cuCtxSynchronize());
    EXPECT_EQ(static_cast<std::uint32_t*>(pinned)[31], 36u);
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemFreeHost(static_cast<char*>(pinned) + 1));
    EXPECT_OK(cu.cuMemFreeHost(pinned));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemFreeHost(pinned));
    std::vector<char> own(1 << 16);
    EXPECT_OK(cu.cuMemHostRegister_v2(own.data(), own.size(), 0));
    EXPECT_CU(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cu.cuMemHostRegister_v2(own.data(), own.size(), 0));
    EXPECT_OK(cu.cuMemHostUnregister(own.data()));
    EXPECT_CU(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cu.cuMemHostUnregister(own.data()));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemHostRegister_v2(reinterpret_cast<void*>(0x1000), 4096, 0));
  });
}

TEST(SimCudaMemory, PitchedRowsAreCopiedInTwoDimensions) {
  OnDevice([](Cuda& cu, TestState&) {
    CUdeviceptr device = 0;
    std::size_t pitch = 0;
    ASSERT_OK(cu.cuMemAllocPitch_v2(&device, &pitch, 100, 10, 4));
    EXPECT_EQ(pitch, 512u);
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemAllocPitch_v2(&device, &pitch, 100, 10, 3));
    ASSERT_OK(cu.cuMemsetD8_v2(device, 0xcc, pitch * 10 - 412));
    std::array<unsigned char, 1000> out{}, in{};
    std::iota(in.begin(), in.end(), static_cast<unsigned char>(0));
    CUDA_MEMCPY2D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = in.data();
    copy.srcPitch = 100;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = device;
    copy.dstPitch = pitch;
    copy.WidthInBytes = 100;
    copy.Height = 10;
    EXPECT_OK(cu.cuMemcpy2D_v2(&copy));
    std::swap(copy.srcMemoryType, copy.dstMemoryType);
    copy.srcDevice = device;
    copy.dstHost = out.data();
    std::swap(copy.srcPitch, copy.dstPitch);
    EXPECT_OK(cu.cuMemcpy2D_v2(&copy));
    EXPECT_EQ(in, out);
    unsigned char padding = 0;
    EXPECT_OK(cu.cuMemcpyDtoH_v2(&padding, device + 100, 1));
    EXPECT_EQ(padding, 0xcc);
    copy.Height = 11;  // beyond the allocation
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemcpy2D_v2(&copy));
  });
}

TEST(SimCudaMemory, ArraysKeepWhatIsCopiedIntoThem) {
  OnDevice([](Cuda& cu, TestState&) {
    const std::uint64_t before = FreeBytes(cu);
    CUarray array = nullptr;
    CUDA_ARRAY3D_DESCRIPTOR shape{30, 20, 10, CU_AD_FORMAT_UNSIGNED_INT32, 2, 0};
    ASSERT_OK(cu.cuArray3DCreate_v2(&array, &shape));
    std::vector<std::uint64_t> in(30 * 20 * 10), out(in.size());
    std::iota(in.begin(), in.end(), 1000u);
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = in.data();
    copy.srcPitch = 240;
    copy.srcHeight = 20;
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.dstArray = array;
    copy.WidthInBytes = 240;
    copy.Height = 20;
    copy.Depth = 10;
    EXPECT_OK(cu.cuMemcpy3D_v2(&copy));
    CUDA_MEMCPY3D back{};
    back.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    back.srcArray = array;
    back.dstMemoryType = CU_MEMORYTYPE_HOST;
    back.dstHost = out.data();
    back.dstPitch = 240;
    back.dstHeight = 20;
    back.WidthInBytes = 240;
    back.Height = 20;
    back.Depth = 10;
    EXPECT_OK(cu.cuMemcpy3D_v2(&back));
    EXPECT_EQ(in, out);
    back.srcZ = 1;
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemcpy3D_v2(&back));
    EXPECT_OK(cu.cuArray3DGetDescriptor_v2(&shape, array));
    EXPECT_EQ(shape.Depth, 10u);
    EXPECT_OK(cu.cuArrayDestroy(array));
    EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cu.cuArrayDestroy(array));
    CUmipmappedArray mipmap = nullptr;
    shape = {1024, 1024, 0, CU_AD_FORMAT_FLOAT, 4, 0};
    EXPECT_OK(cu.cuMipmappedArrayCreate(&mipmap, &shape, 11));
    EXPECT_GE(before - FreeBytes(cu), 22 * kMegabyte);
    EXPECT_OK(cu.cuMipmappedArrayGetLevel(&array, mipmap, 10));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMipmappedArrayGetLevel(&array, mipmap, 11));
    EXPECT_OK(cu.cuMipmappedArrayDestroy(mipmap));
    EXPECT_EQ(FreeBytes(cu), before);
  });
}

TEST(SimCudaMemory, ManagedMemoryIsTheHostsAsWell) {
  OnDevice([](Cuda& cu, TestState&) {
    CUdeviceptr managed = 0;
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemAllocManaged(&managed, 4, 0));
    ASSERT_OK(cu.cuMemAllocManaged(&managed, 4 * kMegabyte, CU_MEM_ATTACH_GLOBAL));
    auto* const words = reinterpret_cast<std::uint32_t*>(managed);
    words[3] = 5;
    EXPECT_OK(Launch(cu, "add", 1, 32, nullptr, managed, 10u));
    EXPECT_OK(cu.cuCtxSynchronize());
    EXPECT_EQ(words[3], 15u);
    EXPECT_OK(cu.cuMemPrefetchAsync(managed, 4 * kMegabyte, 0, nullptr));
    EXPECT_OK(cu.cuMemAdvise(managed, 4 * kMegabyte, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_DEVICE_CPU));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemPrefetchAsync(managed, 4 * kMegabyte + 1, 0, nullptr));
    EXPECT_OK(cu.cuMemFree_v2(managed));
  });
}

TEST(SimCudaMemory, ManagedMemoryCountsWhereItWasTouchedLast) {
  OnDevice([](Cuda& cu, TestState& state) {
    FunctionNamed(cu, "store");  // a module costs memory as well
    const std::uint64_t before = FreeBytes(cu);
    const auto listed = [&] {
      Client onlooker(state.state());
      return HeldBy(state.shared(), *onlooker.SlotOf(static_cast<std::uint32_t>(getpid())), 0);
    };
    const std::uint64_t listed_before = listed();
    CUdeviceptr managed = 0;
    ASSERT_OK(cu.cuMemAllocManaged(&managed, 64 * kMegabyte, CU_MEM_ATTACH_GLOBAL));
    EXPECT_EQ(FreeBytes(cu), before);
    EXPECT_OK(Launch(cu, "store", 1, 1, nullptr, managed + 5 * kMegabyte));
    EXPECT_OK(cu.cuCtxSynchronize());
    EXPECT_EQ(before - FreeBytes(cu), 2 * kMegabyte);
    EXPECT_OK(cu.cuMemsetD32_v2(managed, 7, 16 * kMegabyte));
    EXPECT_EQ(before - FreeBytes(cu), 64 * kMegabyte);
    EXPECT_EQ(listed(), listed_before) << "the process list does not show it";
    EXPECT_OK(cu.cuMemPrefetchAsync(managed, 32 * kMegabyte, CU_DEVICE_CPU, nullptr));
    EXPECT_OK(cu.cuStreamSynchronize(nullptr));
    EXPECT_EQ(before - FreeBytes(cu), 32 * kMegabyte);
    EXPECT_TRUE(AllWordsAre(cu, managed, 16 * kMegabyte, 7u));
    EXPECT_OK(cu.cuMemFree_v2(managed));
    EXPECT_EQ(FreeBytes(cu), before);
  });
}

TEST(SimCudaMemory, ManagedMemoryGivesWayToOther) {
  OnDevice(
      [](Cuda& cu, TestState& state) {
        const std::uint64_t free = FreeBytes(cu) / (2 * kMegabyte) * (2 * kMegabyte);
        CUdeviceptr managed = 0;
        ASSERT_OK(cu.cuMemAllocManaged(&managed, 2 * free, CU_MEM_ATTACH_GLOBAL));
        EXPECT_OK(cu.cuMemPrefetchAsync(managed, 2 * free, 0, nullptr));
        EXPECT_OK(cu.cuCtxSynchronize());
        EXPECT_EQ(FreeBytes(cu), 0u);
        EXPECT_EQ(DeviceUsed(state.shared(), 0), DeviceCapacity(state.shared(), 0));
        const CUdeviceptr plain = Allocate(cu, free);
        CUdeviceptr more = 0;
        EXPECT_CU(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc_v2(&more, 2 * kMegabyte));
        EXPECT_OK(cu.cuMemFree_v2(managed));
        EXPECT_LT(FreeBytes(cu), 2 * kMegabyte);
        EXPECT_OK(cu.cuMemFree_v2(plain));
      },
      {.memory_total = 4096 * kMegabyte});
}

TEST(SimCudaMemory, FreeingNeedsNoCurrentContext) {
  OnDevice([](Cuda& cu, TestState&) {
    const std::uint64_t before = FreeBytes(cu);
    const CUdeviceptr plain = Allocate(cu, 8 * kMegabyte);
    CUcontext context = nullptr;
    ASSERT_OK(cu.cuCtxPopCurrent_v2(&context));
    EXPECT_OK(cu.cuMemFree_v2(plain));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemFree_v2(plain));
    EXPECT_OK(cu.cuCtxPushCurrent_v2(context));
    EXPECT_EQ(FreeBytes(cu), before);
  });
}

TEST(SimCudaMemory, CopiesTakeTheTimeOfTheBus) {
  OnDevice(
      [](Cuda& cu, TestState&) {
        void* pinned = nullptr;
        ASSERT_OK(cu.cuMemHostAlloc(&pinned, 16 * kMegabyte, 0));
        const CUdeviceptr device = Allocate(cu, 16 * kMegabyte);
        const std::uint64_t began = MonotonicNs();
        EXPECT_OK(cu.cuMemcpyHtoDAsync_v2(device, pinned, 16 * kMegabyte, nullptr));
        EXPECT_OK(cu.cuStreamSynchronize(nullptr));
        EXPECT_GE(MonotonicNs() - began, 16 * kMegabyte * 5);  // 5 ns a byte
      },
      {.bus_to_device = {200'000'000}});
}

TEST(SimCudaMemory, EachDeviceHasABusOfItsOwnSpeed) {
  constexpr std::uint64_t kSize = 16 * kMegabyte;
  OnState({.gpus = 2, .bus_to_device = {1'000, 200'000'000}}, [](Cuda& cu, TestState&) {
    ASSERT_OK(cu.cuInit(0));
    CUcontext second = nullptr;
    ASSERT_OK(cu.cuDevicePrimaryCtxRetain(&second, 1));
    ASSERT_OK(cu.cuCtxSetCurrent(second));
    void* pinned = nullptr;
    ASSERT_OK(cu.cuMemHostAlloc(&pinned, kSize, 0));
    const CUdeviceptr device = Allocate(cu, kSize);
    const std::uint64_t began = MonotonicNs();
    EXPECT_OK(cu.cuMemcpyHtoD_v2(device, pinned, kSize));  // hours, if it went by the first one's bus
    EXPECT_GE(MonotonicNs() - began, kSize * 5);
  });
}

TEST(SimCudaMemory, AnotherDevicesMemoryIsCopiedAlwaysAndReachedByKernelsOnceEnabled) {
  OnState({.gpus = 2}, [](Cuda& cu, TestState&) {
    ASSERT_OK(cu.cuInit(0));
    CUcontext first = nullptr, second = nullptr;
    ASSERT_OK(cu.cuDevicePrimaryCtxRetain(&second, 1));
    ASSERT_OK(cu.cuCtxSetCurrent(second));
    const CUdeviceptr theirs = Allocate(cu, 4096);
    EXPECT_OK(cu.cuMemsetD32_v2(theirs, 5, 1024));
    ASSERT_OK(cu.cuDevicePrimaryCtxRetain(&first, 0));
    ASSERT_OK(cu.cuCtxSetCurrent(first));
    const CUdeviceptr ours = Allocate(cu, 4096);
    EXPECT_OK(cu.cuMemcpyPeer(ours, first, theirs, second, 4096));
    EXPECT_TRUE(AllWordsAre(cu, ours, 1024, 5));
    int can = 0;
    EXPECT_OK(cu.cuDeviceCanAccessPeer(&can, 0, 1));
    EXPECT_EQ(can, 1);
    EXPECT_CU(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, cu.cuCtxEnablePeerAccess(first, 0));
    EXPECT_OK(cu.cuCtxEnablePeerAccess(second, 0));
    EXPECT_CU(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cu.cuCtxEnablePeerAccess(second, 0));
    EXPECT_OK(Launch(cu, "add", 1, 32, nullptr, theirs, 1u));
    EXPECT_EQ(ReadWords(cu, theirs, 1).front(), 6u);
    EXPECT_OK(cu.cuCtxDisablePeerAccess(second));
    EXPECT_OK(Launch(cu, "add", 1, 32, nullptr, theirs, 1u));
    EXPECT_CU(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuCtxSynchronize());
  });
}

}  // namespace
}  // namespace gpuman::sim::cuda

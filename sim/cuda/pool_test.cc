// Stream-ordered memory.
#include "sim/cuda/test_cuda.h"

namespace gpuman::sim::cuda {
namespace {

TEST(SimCudaPools, APoolGrowsByPiecesAndGivesThemBackWhenSynchronized) {
  OnDevice([](Cuda& cu, TestState&) {
    const std::uint64_t before = FreeBytes(cu);
    CUdeviceptr small = 0, large = 0;
    CUmemoryPool pool = nullptr;
    ASSERT_OK(cu.cuDeviceGetDefaultMemPool(&pool, 0));
    EXPECT_OK(cu.cuMemAllocAsync(&small, 1000, nullptr));
    EXPECT_EQ(before - FreeBytes(cu), 32 * kMegabyte);
    EXPECT_OK(cu.cuMemAllocAsync(&large, 100 * kMegabyte, nullptr));
    EXPECT_EQ(before - FreeBytes(cu), 128 * kMegabyte);
    EXPECT_OK(cu.cuMemsetD32Async(large, 77, 25 * kMegabyte, nullptr));
    EXPECT_TRUE(AllWordsAre(cu, large + 99 * kMegabyte, kMegabyte / 4, 77u));
    EXPECT_OK(cu.cuMemFreeAsync(large, nullptr));
    EXPECT_OK(cu.cuStreamSynchronize(nullptr));
    EXPECT_EQ(before - FreeBytes(cu), 32 * kMegabyte);
    cuuint64_t value = ~cuuint64_t{0};
    EXPECT_OK(cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value));
    EXPECT_OK(cu.cuMemAllocAsync(&large, 100 * kMegabyte, nullptr));
    EXPECT_OK(cu.cuMemFreeAsync(large, nullptr));
    EXPECT_OK(cu.cuMemFree_v2(small));
    EXPECT_OK(cu.cuCtxSynchronize());
    EXPECT_EQ(before - FreeBytes(cu), 128 * kMegabyte);
    EXPECT_OK(cu.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value));
    EXPECT_EQ(value, 1000u) << "cuMemFree's are told as used for ever";
    EXPECT_OK(cu.cuMemPoolTrimTo(pool, 0));
    EXPECT_EQ(FreeBytes(cu), before);
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemPoolDestroy(pool));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemFreeAsync(0x123400000, nullptr));
  });
}

TEST(SimCudaPools, APoolOfTheHostTakesNothingOfTheDevice) {
  OnDevice([](Cuda& cu, TestState&) {
    const std::uint64_t before = FreeBytes(cu);
    CUmemPoolProps props{};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location = {CU_MEM_LOCATION_TYPE_HOST, 0};
    CUmemoryPool pool = nullptr;
    CUdeviceptr pointer = 0;
    ASSERT_OK(cu.cuMemPoolCreate(&pool, &props));
    EXPECT_OK(cu.cuMemAllocFromPoolAsync(&pointer, 100 * kMegabyte, pool, nullptr));
    EXPECT_EQ(FreeBytes(cu), before);
    EXPECT_OK(cu.cuMemFreeAsync(pointer, nullptr));
    EXPECT_OK(cu.cuStreamSynchronize(nullptr));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuDeviceSetMemPool(0, pool));
    EXPECT_OK(cu.cuMemPoolDestroy(pool));
  });
}

TEST(SimCudaPools, AskingAPoolSpoilsACaptureUnlessTheThreadIsRelaxed) {
  OnDevice([](Cuda& cu, TestState&) {
    CUmemoryPool pool = nullptr;
    ASSERT_OK(cu.cuDeviceGetDefaultMemPool(&pool, 0));
    for (const bool relaxed : {true, false}) {
      CUstream stream = nullptr;
      CUgraph graph = nullptr;
      cuuint64_t value = 0;
      ASSERT_OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
      ASSERT_OK(cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
      CUstreamCaptureMode mode = relaxed ? CU_STREAM_CAPTURE_MODE_RELAXED : CU_STREAM_CAPTURE_MODE_GLOBAL;
      EXPECT_OK(cu.cuThreadExchangeStreamCaptureMode(&mode));
      const CUresult expected = relaxed ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
      EXPECT_CU(expected, cu.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &value));
      EXPECT_CU(expected, cu.cuMemPoolTrimTo(pool, 0));
      EXPECT_OK(cu.cuThreadExchangeStreamCaptureMode(&mode));
      EXPECT_CU(relaxed ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
                cu.cuStreamEndCapture(stream, &graph));
    }
  });
}

TEST(SimCudaPools, ADestroyedPoolLivesUntilItsLastAllocation) {
  OnDevice([](Cuda& cu, TestState&) {
    const std::uint64_t before = FreeBytes(cu);
    CUmemPoolProps properties{};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUmemoryPool pool = nullptr;
    CUdeviceptr pointer = 0;
    ASSERT_OK(cu.cuMemPoolCreate(&pool, &properties));
    ASSERT_OK(cu.cuMemAllocFromPoolAsync(&pointer, kMegabyte, pool, nullptr));
    EXPECT_OK(cu.cuMemPoolDestroy(pool));
    EXPECT_EQ(before - FreeBytes(cu), 32 * kMegabyte);
    EXPECT_OK(cu.cuMemsetD8_v2(pointer, 1, kMegabyte));
    EXPECT_OK(cu.cuMemFreeAsync(pointer, nullptr));
    EXPECT_OK(cu.cuCtxSynchronize());
    EXPECT_EQ(FreeBytes(cu), before);
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemAllocFromPoolAsync(&pointer, 4, pool, nullptr));
  });
}

}  // namespace
}  // namespace gpuman::sim::cuda

// Stream-ordered allocation, pitch and arrays.

#include "conformance.h"

namespace gpuman::conformance {
namespace {

class Pools : public WithContext {
 protected:
  static std::uint64_t Attribute(abi::CUmemoryPool pool, abi::CUmemPool_attribute attribute) {
    std::uint64_t value = UINT64_MAX;
    EXPECT_OK(CU(cuMemPoolGetAttribute, pool, attribute, static_cast<void*>(&value)));
    return value;
  }
  static abi::CUmemoryPool Default() {
    abi::CUmemoryPool pool = nullptr;
    EXPECT_OK(CU(cuDeviceGetDefaultMemPool, &pool, device_));
    return pool;
  }
};

TEST_F(Pools, TheDefaultPoolIsTheCurrentOneAndKeepsNothing) {
  abi::CUmemoryPool current = nullptr;
  EXPECT_OK(CU(cuDeviceGetMemPool, &current, device_));
  EXPECT_EQ(current, Default());
  EXPECT_EQ(Attribute(Default(), abi::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD), 0u);
}

TEST_F(Pools, UsedAndReservedMove) {
  Stream stream;
  const auto pool = Default();
  const auto at_start = FreeBytes();
  abi::CUdeviceptr pointer = 0;
  ASSERT_OK(CU(cuMemAllocAsync, &pointer, 10 * kMiB, stream.get()));
  EXPECT_OK(CU(cuStreamSynchronize, stream.get()));
  Fact("pool.used_after_10_mib", Attribute(pool, abi::CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
  const auto reserved = Attribute(pool, abi::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
  Fact("pool.reserved_after_10_mib", reserved);
  Fact("pool.cost_of_10_mib", at_start - FreeBytes());
  EXPECT_EQ(at_start - FreeBytes(), reserved);
  EXPECT_GE(Attribute(pool, abi::CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 10 * kMiB);
  EXPECT_OK(Fill(module_, pointer, 10 * kMiB, 1, stream.get()));
  EXPECT_OK(CU(cuStreamSynchronize, stream.get()));
  EXPECT_EQ(Wrong(module_, pointer, 10 * kMiB, 1), 0u);
  EXPECT_OK(CU(cuMemFreeAsync, pointer, stream.get()));
  EXPECT_OK(CU(cuStreamSynchronize, stream.get()));
  EXPECT_EQ(Attribute(pool, abi::CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0u);
  Fact("pool.reserved_after_synchronize", Attribute(pool, abi::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
  EXPECT_OK(CU(cuMemPoolTrimTo, pool, std::size_t{0}));
  EXPECT_EQ(Attribute(pool, abi::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0u);
  EXPECT_EQ(FreeBytes(), at_start);
}

TEST_F(Pools, AThresholdKeepsMemoryUntilATrim) {
  Stream stream;
  abi::CUmemPoolProps props{};
  props.allocType = abi::CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location = {abi::CU_MEM_LOCATION_TYPE_DEVICE, device_};
  abi::CUmemoryPool pool = nullptr;
  const auto at_start = FreeBytes();
  ASSERT_OK(CU(cuMemPoolCreate, &pool, &props));
  std::uint64_t keep = UINT64_MAX;
  EXPECT_OK(
      CU(cuMemPoolSetAttribute, pool, abi::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, static_cast<void*>(&keep)));
  abi::CUdeviceptr pointer = 0, again = 0;
  ASSERT_OK(CU(cuMemAllocFromPoolAsync, &pointer, 64 * kMiB, pool, stream.get()));
  EXPECT_OK(CU(cuMemFreeAsync, pointer, stream.get()));
  EXPECT_OK(CU(cuStreamSynchronize, stream.get()));
  EXPECT_LE(FreeBytes(), at_start - 64 * kMiB) << "the pool keeps it";
  ASSERT_OK(CU(cuMemAllocFromPoolAsync, &again, 64 * kMiB, pool, stream.get()));
  EXPECT_EQ(pointer, again) << "the pool reuses it";
  EXPECT_OK(CU(cuMemFreeAsync, again, stream.get()));
  EXPECT_OK(CU(cuStreamSynchronize, stream.get()));
  EXPECT_OK(CU(cuMemPoolTrimTo, pool, std::size_t{0}));
  EXPECT_EQ(FreeBytes(), at_start);
  EXPECT_OK(CU(cuMemPoolDestroy, pool));
}

TEST_F(Pools, FreeingAcrossKinds) {
  Stream stream;
  abi::CUdeviceptr pointer = 0;
  ASSERT_OK(CU(cuMemAllocAsync, &pointer, kMiB, stream.get()));
  EXPECT_OK(CU(cuStreamSynchronize, stream.get()));
  EXPECT_OK(CU(cuMemFree_v2, pointer));
  ASSERT_OK(CU(cuMemAlloc_v2, &pointer, kMiB));
  const auto plain = CU(cuMemFreeAsync, pointer, stream.get());
  Fact("free_async.of_plain_memory", plain);
  EXPECT_OK(CU(cuStreamSynchronize, stream.get()));
  if (plain != abi::CUDA_SUCCESS) {
    EXPECT_OK(CU(cuMemFree_v2, pointer));
  }
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, CU(cuMemFreeAsync, abi::CUdeviceptr{0xdead0000}, stream.get()));
  Fact("alloc_async.zero", CU(cuMemAllocAsync, &pointer, std::size_t{0}, stream.get()));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, CU(cuMemAllocAsync, nullptr, kMiB, stream.get()));
}

// The shim's own pools answer in the same way.
TEST_F(Pools, PoolMemoryNamesItsPoolAndHasNoLegacyIpc) {
  Stream stream;
  abi::CUdeviceptr small = 0, large = 0;
  ASSERT_OK(CU(cuMemAllocAsync, &small, std::size_t{100}, stream.get()));
  EXPECT_OK(CU(cuStreamSynchronize, stream.get()));
  Fact("pool.used_after_100_bytes", Attribute(Default(), abi::CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
  ASSERT_OK(CU(cuMemAllocAsync, &large, 4 * kMiB, stream.get()));
  EXPECT_OK(CU(cuStreamSynchronize, stream.get()));
  abi::CUipcMemHandle handle{};
  const auto shared = CU(cuIpcGetMemHandle, &handle, large);
  Fact("ipc.of_pool_memory", shared);
  EXPECT_NE(shared, abi::CUDA_SUCCESS);
  abi::CUmemoryPool pool = nullptr;
  EXPECT_OK(CU(cuPointerGetAttribute, static_cast<void*>(&pool), abi::CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
               large + kMiB));
  EXPECT_EQ(pool, Default());
  unsigned capable = 7;
  EXPECT_OK(CU(cuPointerGetAttribute, static_cast<void*>(&capable),
               abi::CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, large));
  EXPECT_EQ(capable & 0xff, 0u);
  abi::CUcontext context = nullptr;
  Fact("pool.context_of_its_memory",
       CU(cuPointerGetAttribute, static_cast<void*>(&context), abi::CU_POINTER_ATTRIBUTE_CONTEXT, large));
  Fact("pool.memory_has_a_context", std::uint64_t{context != nullptr});
  for (const abi::CUdeviceptr at : {small, large}) {
    abi::CUdeviceptr base = 0;
    std::size_t size = 0;
    EXPECT_OK(CU(cuMemGetAddressRange_v2, &base, &size, at + 50));
    EXPECT_EQ(base, at);
    Fact(at == small ? "pool.range_of_100_bytes" : "pool.range_of_4_mib", size);
    EXPECT_OK(CU(cuMemFreeAsync, at, stream.get()));
  }
  EXPECT_OK(CU(cuStreamSynchronize, stream.get()));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, CU(cuMemFreeAsync, large, stream.get())) << "twice";
}

class Pitch : public WithContext {};

TEST_F(Pitch, RowsAreAligned) {
  for (const std::size_t width : {1ul, 500ul, 512ul, 513ul, 4000ul, 65536ul}) {
    for (const unsigned element : {4u, 8u, 16u}) {
      abi::CUdeviceptr pointer = 0;
      std::size_t pitch = 0;
      ASSERT_OK(CU(cuMemAllocPitch_v2, &pointer, &pitch, width, std::size_t{100}, element));
      EXPECT_EQ(pitch, (width + 511) / 512 * 512) << width;
      EXPECT_OK(CU(cuMemFree_v2, pointer));
    }
  }
}

TEST_F(Pitch, RefusesOddElementsAndEmptyRows) {
  abi::CUdeviceptr pointer = 0;
  std::size_t pitch = 0;
  const auto alloc = [&](std::size_t width, std::size_t height, unsigned element) {
    return CU(cuMemAllocPitch_v2, &pointer, &pitch, width, height, element);
  };
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, alloc(100, 100, 3));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, alloc(0, 100, 4));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, alloc(100, 0, 4));
}

class Arrays : public WithContext {};

TEST_F(Arrays, CopiesKeepTheBytes) {
  constexpr std::size_t kWidth = 256, kHeight = 64, kRow = kWidth * 16;
  const abi::CUDA_ARRAY_DESCRIPTOR wanted{kWidth, kHeight, abi::CU_AD_FORMAT_UNSIGNED_INT32, 4};
  abi::CUarray array = nullptr;
  ASSERT_OK(CU(cuArrayCreate_v2, &array, &wanted));
  DeviceMemory in(kRow * kHeight), out(kRow * kHeight);
  ASSERT_OK(Fill(module_, in.get(), in.size(), 11));
  abi::CUDA_MEMCPY2D copy{};
  copy.WidthInBytes = kRow;
  copy.Height = kHeight;
  copy.srcMemoryType = abi::CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = in.get();
  copy.srcPitch = kRow;
  copy.dstMemoryType = abi::CU_MEMORYTYPE_ARRAY;
  copy.dstArray = array;
  EXPECT_OK(CU(cuMemcpy2D_v2, &copy));
  abi::CUDA_MEMCPY2D back{};
  back.WidthInBytes = kRow;
  back.Height = kHeight;
  back.srcMemoryType = abi::CU_MEMORYTYPE_ARRAY;
  back.srcArray = array;
  back.dstMemoryType = abi::CU_MEMORYTYPE_DEVICE;
  back.dstDevice = out.get();
  back.dstPitch = kRow;
  EXPECT_OK(CU(cuMemcpy2D_v2, &back));
  EXPECT_EQ(Wrong(module_, out.get(), out.size(), 11), 0u);
  abi::CUDA_ARRAY_DESCRIPTOR told{};
  EXPECT_OK(CU(cuArrayGetDescriptor_v2, &told, array));
  EXPECT_EQ(told.Width, kWidth);
  EXPECT_EQ(told.Height, kHeight);
  EXPECT_EQ(told.NumChannels, 4u);
  EXPECT_OK(CU(cuArrayDestroy, array));
}

TEST_F(Arrays, RefusesWhatNoArrayCanBe) {
  abi::CUarray array = nullptr;
  const auto create = [&](abi::CUDA_ARRAY_DESCRIPTOR wanted) {
    return CU(cuArrayCreate_v2, &array, &wanted);
  };
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, create({0, 16, abi::CU_AD_FORMAT_FLOAT, 1}));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, create({16, 16, abi::CU_AD_FORMAT_FLOAT, 3}));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, create({16, 16, static_cast<abi::CUarray_format>(77), 1}));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, create({1u << 20, 16, abi::CU_AD_FORMAT_FLOAT, 1}));
}

}  // namespace
}  // namespace gpuman::conformance

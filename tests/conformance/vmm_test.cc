// Virtual memory management: what eviction and restore of a program's memory rely on.

#include <unistd.h>

#include <cstring>

#include "conformance.h"
#include "kernels.h"
#include "probe.h"

namespace gpuman::conformance {
namespace {

using ::testing::AnyOf;
using Handle = abi::CUmemGenericAllocationHandle;

constexpr std::size_t kSize = 8 * kMiB;

class Vmm : public WithContext {
 protected:
  static abi::CUmemAllocationProp Prop(
      abi::CUmemAllocationHandleType handles = abi::CU_MEM_HANDLE_TYPE_NONE) {
    abi::CUmemAllocationProp prop{};
    prop.type = abi::CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.requestedHandleTypes = handles;
    prop.location = {abi::CU_MEM_LOCATION_TYPE_DEVICE, device_};
    return prop;
  }
  static Handle Create(std::size_t size = kSize) {
    const auto prop = Prop();
    Handle handle = 0;
    EXPECT_OK(CU(cuMemCreate, &handle, size, &prop, 0ull));
    return handle;
  }
  static abi::CUdeviceptr Reserve(std::size_t size) {
    abi::CUdeviceptr address = 0;
    EXPECT_OK(CU(cuMemAddressReserve, &address, size, std::size_t{0}, abi::CUdeviceptr{0}, 0ull));
    return address;
  }
  static void Map(abi::CUdeviceptr address, Handle handle, std::size_t size = kSize) {
    EXPECT_OK(CU(cuMemMap, address, size, std::size_t{0}, handle, 0ull));
    Allow(address, size);
  }
  static void Allow(abi::CUdeviceptr address, std::size_t size) {
    const abi::CUmemAccessDesc access{{abi::CU_MEM_LOCATION_TYPE_DEVICE, device_},
                                      abi::CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    EXPECT_OK(CU(cuMemSetAccess, address, size, &access, std::size_t{1}));
  }
};

TEST_F(Vmm, TheGranularityIsTwoMebibytes) {
  const auto prop = Prop();
  std::size_t size = 0;
  EXPECT_OK(CU(cuMemGetAllocationGranularity, &size, &prop, abi::CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  EXPECT_EQ(size, kGranularity);
  EXPECT_OK(CU(cuMemGetAllocationGranularity, &size, &prop, abi::CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  EXPECT_EQ(size, kGranularity);
}

TEST_F(Vmm, SizesMustBeGranules) {
  const auto prop = Prop();
  Handle handle = 0;
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, CU(cuMemCreate, &handle, std::size_t{0}, &prop, 0ull));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, CU(cuMemCreate, &handle, kMiB, &prop, 0ull));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, CU(cuMemCreate, &handle, kGranularity + 1, &prop, 0ull));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, CU(cuMemCreate, &handle, kSize, &prop, 1ull));
  abi::CUdeviceptr address = 0;
  const auto reserve = [&](std::size_t size, std::size_t alignment) {
    return CU(cuMemAddressReserve, &address, size, alignment, abi::CUdeviceptr{0}, 0ull);
  };
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, reserve(0, 0));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, reserve(kGranularity, 3 * kMiB));
  const auto odd = reserve(kMiB, 0);
  Fact("reserve.one_mebibyte", odd);
  if (odd == abi::CUDA_SUCCESS) CU(cuMemAddressFree, address, kMiB);
  EXPECT_OK(reserve(kGranularity, 64 * kMiB));
  EXPECT_EQ(address % (64 * kMiB), 0u);
  EXPECT_OK(CU(cuMemAddressFree, address, kGranularity));
}

TEST_F(Vmm, ARemapKeepsTheBytes) {
  const auto first = Create(), second = Create();
  const auto address = Reserve(2 * kSize);
  Map(address, first);
  Map(address + kSize, second);
  ASSERT_OK(Fill(module_, address, kSize, 1));
  ASSERT_OK(Fill(module_, address + kSize, kSize, 2));
  ASSERT_OK(CU(cuCtxSynchronize));
  EXPECT_OK(CU(cuMemUnmap, address, kSize));
  EXPECT_OK(CU(cuMemUnmap, address + kSize, kSize));
  Map(address, second);
  Map(address + kSize, first);
  EXPECT_EQ(Wrong(module_, address, kSize, 2), 0u);
  EXPECT_EQ(Wrong(module_, address + kSize, kSize, 1), 0u);
  EXPECT_EQ(WrongOnHost(address, kSize, 2), 0u);
  EXPECT_OK(CU(cuMemUnmap, address, 2 * kSize));
  EXPECT_OK(CU(cuMemRelease, first));
  EXPECT_OK(CU(cuMemRelease, second));
  EXPECT_OK(CU(cuMemAddressFree, address, 2 * kSize));
}

TEST_F(Vmm, EvictAndRestoreAtTheSameAddress) {
  const auto address = Reserve(kSize);
  auto handle = Create();
  Map(address, handle);
  ASSERT_OK(Fill(module_, address, kSize, 3));
  std::vector<unsigned char> saved(kSize);
  ASSERT_OK(CU(cuMemcpyDtoH_v2, saved.data(), address, kSize));
  const auto before = FreeBytes();
  EXPECT_OK(CU(cuMemUnmap, address, kSize));
  EXPECT_OK(CU(cuMemRelease, handle));
  EXPECT_EQ(FreeBytes(), before + kSize);
  handle = Create();
  Map(address, handle);
  EXPECT_NE(Wrong(module_, address, kSize, 3), 0u) << "new memory holds the old bytes";
  ASSERT_OK(CU(cuMemcpyHtoD_v2, address, saved.data(), kSize));
  ASSERT_OK(AddOne(module_, address, kSize));
  EXPECT_EQ(Wrong(module_, address, kSize, 3, 1), 0u);
  EXPECT_OK(CU(cuMemUnmap, address, kSize));
  EXPECT_OK(CU(cuMemRelease, handle));
  EXPECT_OK(CU(cuMemAddressFree, address, kSize));
}

TEST_F(Vmm, MemoryStaysWhileAHandleOrAMappingLives) {
  const auto address = Reserve(kSize);
  const auto at_start = FreeBytes();
  auto handle = Create();
  Map(address, handle);
  EXPECT_OK(CU(cuMemRelease, handle));
  EXPECT_EQ(FreeBytes(), at_start - kSize) << "the mapping lives";
  EXPECT_OK(Fill(module_, address, kSize, 4));
  EXPECT_EQ(Wrong(module_, address, kSize, 4), 0u);
  EXPECT_OK(CU(cuMemUnmap, address, kSize));
  EXPECT_EQ(FreeBytes(), at_start);

  handle = Create();
  Map(address, handle);
  EXPECT_OK(CU(cuMemUnmap, address, kSize));
  EXPECT_EQ(FreeBytes(), at_start - kSize) << "the handle lives";
  EXPECT_OK(CU(cuMemRelease, handle));
  EXPECT_EQ(FreeBytes(), at_start);
  EXPECT_OK(CU(cuMemAddressFree, address, kSize));
}

TEST_F(Vmm, ARetainedHandleIsCounted) {
  const auto address = Reserve(kSize);
  const auto at_start = FreeBytes();
  const auto handle = Create();
  Map(address, handle);
  Handle again = 0;
  EXPECT_OK(CU(cuMemRetainAllocationHandle, &again, reinterpret_cast<void*>(address + 4096)));
  Fact("vmm.retain_gives_the_same_handle", again == handle ? "yes" : "no");
  EXPECT_OK(CU(cuMemRelease, handle));
  EXPECT_OK(CU(cuMemUnmap, address, kSize));
  EXPECT_EQ(FreeBytes(), at_start - kSize);
  EXPECT_OK(CU(cuMemRelease, again));
  EXPECT_EQ(FreeBytes(), at_start);
  Fact("vmm.release_too_often", CU(cuMemRelease, again));
  EXPECT_OK(CU(cuMemAddressFree, address, kSize));
}

// The shim relies on these for a program's own memory.
TEST_F(Vmm, PlainMemoryHasNoHandleAndAccessCanBeAskedBeforeItIsSet) {
  const DeviceMemory plain(kSize);
  Handle handle = 0;
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE,
              CU(cuMemRetainAllocationHandle, &handle, reinterpret_cast<void*>(plain.get())));
  const auto address = Reserve(kSize);
  handle = Create();
  EXPECT_OK(CU(cuMemMap, address, kSize, std::size_t{0}, handle, 0ull));
  unsigned long long flags = 77;
  const abi::CUmemLocation here{abi::CU_MEM_LOCATION_TYPE_DEVICE, device_};
  Fact("access.before_it_was_set", CU(cuMemGetAccess, &flags, &here, address));
  Fact("access.before_it_was_set.flags", std::to_string(flags));
  EXPECT_OK(CU(cuMemUnmap, address, kSize));
  EXPECT_OK(CU(cuMemRelease, handle));
  EXPECT_OK(CU(cuMemAddressFree, address, kSize));
}

TEST_F(Vmm, OneHandleAtTwoAddresses) {
  const auto address = Reserve(2 * kSize);
  const auto handle = Create();
  Map(address, handle);
  Map(address + kSize, handle);
  ASSERT_OK(Fill(module_, address, kSize, 6));
  EXPECT_EQ(Wrong(module_, address + kSize, kSize, 6), 0u);
  EXPECT_OK(CU(cuMemUnmap, address, 2 * kSize));
  EXPECT_OK(CU(cuMemRelease, handle));
  EXPECT_OK(CU(cuMemAddressFree, address, 2 * kSize));
}

TEST_F(Vmm, AnAddressRangeIsTheMappingNotTheReservation) {
  const auto address = Reserve(4 * kSize);
  const auto first = Create(), second = Create();
  Map(address, first);
  Map(address + kSize, second);
  abi::CUdeviceptr base = 0;
  std::size_t size = 0;
  EXPECT_OK(CU(cuMemGetAddressRange_v2, &base, &size, address + kSize + 12345));
  EXPECT_EQ(base, address + kSize);
  EXPECT_EQ(size, kSize);
  const auto unmapped = CU(cuMemGetAddressRange_v2, &base, &size, address + 3 * kSize);
  Fact("address_range.reserved_only", unmapped);
  EXPECT_NE(unmapped, abi::CUDA_SUCCESS);
  unsigned long long flags = 0;
  const abi::CUmemLocation here{abi::CU_MEM_LOCATION_TYPE_DEVICE, device_};
  EXPECT_OK(CU(cuMemGetAccess, &flags, &here, address));
  EXPECT_EQ(flags, static_cast<unsigned long long>(abi::CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  EXPECT_OK(CU(cuMemUnmap, address, 2 * kSize));
  EXPECT_OK(CU(cuMemRelease, first));
  EXPECT_OK(CU(cuMemRelease, second));
  EXPECT_OK(CU(cuMemAddressFree, address, 4 * kSize));
}

TEST_F(Vmm, CopiesAndKernelsCrossMappings) {
  const auto address = Reserve(2 * kSize);
  const auto first = Create(), second = Create();
  EXPECT_OK(CU(cuMemMap, address, kSize, std::size_t{0}, first, 0ull));
  EXPECT_OK(CU(cuMemMap, address + kSize, kSize, std::size_t{0}, second, 0ull));
  Allow(address, 2 * kSize);
  ASSERT_OK(Fill(module_, address, 2 * kSize, 7));
  EXPECT_EQ(Wrong(module_, address, 2 * kSize, 7), 0u);
  EXPECT_EQ(WrongOnHost(address, 2 * kSize, 7), 0u);
  EXPECT_OK(CU(cuMemsetD8_v2, address + kSize - 8, static_cast<unsigned char>(0), std::size_t{16}));
  EXPECT_EQ(Wrong(module_, address, 2 * kSize, 7), 2u);
  EXPECT_OK(CU(cuMemUnmap, address, 2 * kSize));
  EXPECT_OK(CU(cuMemRelease, first));
  EXPECT_OK(CU(cuMemRelease, second));
  EXPECT_OK(CU(cuMemAddressFree, address, 2 * kSize));
}

TEST_F(Vmm, MapsThatAreRefused) {
  const auto address = Reserve(2 * kSize);
  const auto handle = Create();
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, CU(cuMemMap, address, std::size_t{0}, std::size_t{0}, handle, 0ull));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, CU(cuMemMap, address + 4096, kSize, std::size_t{0}, handle, 0ull));
  const auto too_large = CU(cuMemMap, address, 2 * kSize, std::size_t{0}, handle, 0ull);
  Fact("map.more_than_the_handle", too_large);
  EXPECT_THAT(CudaErrorName(too_large), AnyOf("CUDA_ERROR_INVALID_VALUE", "CUDA_ERROR_NOT_SUPPORTED"));
  const auto part = CU(cuMemMap, address, kGranularity, std::size_t{0}, handle, 0ull);
  Fact("map.part_of_a_handle", part);
  if (part == abi::CUDA_SUCCESS) CU(cuMemUnmap, address, kGranularity);
  const auto offset = CU(cuMemMap, address, kGranularity, kGranularity, handle, 0ull);
  Fact("map.offset", offset);
  if (offset == abi::CUDA_SUCCESS) CU(cuMemUnmap, address, kGranularity);
  Map(address, handle);
  const auto twice = CU(cuMemMap, address, kSize, std::size_t{0}, handle, 0ull);
  Fact("map.over_a_mapping", twice);
  EXPECT_NE(twice, abi::CUDA_SUCCESS);
  const auto half = CU(cuMemUnmap, address, kSize / 2);
  Fact("unmap.part_of_a_mapping", half);
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, half);
  const auto busy = CU(cuMemAddressFree, address, 2 * kSize);
  Fact("address_free.while_mapped", busy);
  if (busy != abi::CUDA_SUCCESS) {
    EXPECT_OK(CU(cuMemUnmap, address, kSize));
    Fact("unmap.unmapped", CU(cuMemUnmap, address, kSize));
    const auto part_free = CU(cuMemAddressFree, address, kSize);
    Fact("address_free.part", part_free);
    if (part_free != abi::CUDA_SUCCESS) {
      EXPECT_OK(CU(cuMemAddressFree, address, 2 * kSize));
    }
  }
  EXPECT_OK(CU(cuMemRelease, handle));
}

// Therefore a handle of the shim does no harm in a program without the shim.
TEST_F(Vmm, LegacyIpcRefusesHandlesThatNoDriverMade) {
  abi::CUipcMemHandle handle{};
  std::memcpy(&handle, "gpumIPC1", 8);
  abi::CUdeviceptr pointer = 0;
  const auto refused =
      CU(cuIpcOpenMemHandle_v2, &pointer, handle, unsigned{abi::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS});
  Fact("ipc.handle_of_nobody", refused);
  EXPECT_NE(refused, abi::CUDA_SUCCESS);
  EXPECT_EQ(pointer, 0u);
  EXPECT_OK(CU(cuCtxSynchronize)) << "the context is none the worse for it";
}

TEST_F(Vmm, LegacyIpcRefusesVirtualMemory) {
  const auto address = Reserve(kSize);
  const auto handle = Create();
  Map(address, handle);
  abi::CUipcMemHandle ipc{};
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, CU(cuIpcGetMemHandle, &ipc, address));
  DeviceMemory plain(kSize);
  EXPECT_OK(CU(cuIpcGetMemHandle, &ipc, plain.get()));
  EXPECT_OK(CU(cuMemUnmap, address, kSize));
  EXPECT_OK(CU(cuMemRelease, handle));
  EXPECT_OK(CU(cuMemAddressFree, address, kSize));
}

TEST_F(Vmm, AHandleTravelsAsADescriptor) {
  const auto prop = Prop(abi::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  Handle handle = 0, imported = 0;
  ASSERT_OK(CU(cuMemCreate, &handle, kSize, &prop, 0ull));
  int fd = -1;
  ASSERT_OK(
      CU(cuMemExportToShareableHandle, &fd, handle, abi::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0ull));
  const auto before = FreeBytes();
  ASSERT_OK(CU(cuMemImportFromShareableHandle, &imported, reinterpret_cast<void*>(std::uintptr_t(fd)),
               abi::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  EXPECT_EQ(FreeBytes(), before) << "importing takes no memory";
  ::close(fd);
  const auto address = Reserve(2 * kSize);
  Map(address, handle);
  Map(address + kSize, imported);
  ASSERT_OK(Fill(module_, address, kSize, 8));
  EXPECT_EQ(Wrong(module_, address + kSize, kSize, 8), 0u);
  EXPECT_OK(CU(cuMemUnmap, address, 2 * kSize));
  EXPECT_OK(CU(cuMemRelease, handle));
  EXPECT_EQ(FreeBytes(), before) << "the import lives";
  EXPECT_OK(CU(cuMemRelease, imported));
  EXPECT_EQ(FreeBytes(), before + kSize);
  EXPECT_OK(CU(cuMemAddressFree, address, 2 * kSize));

  const auto plain = Create();
  Fact("export.not_asked_for",
       CU(cuMemExportToShareableHandle, &fd, plain, abi::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0ull));
  EXPECT_OK(CU(cuMemRelease, plain));
}

PROBE(no_access) {
  CU(cuInit, 0u);
  abi::CUcontext context = nullptr;
  CU(cuCtxCreate_v2, &context, 0u, 0);
  abi::CUmemAllocationProp prop{};
  prop.type = abi::CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {abi::CU_MEM_LOCATION_TYPE_DEVICE, 0};
  Handle handle = 0;
  abi::CUdeviceptr address = 0;
  CU(cuMemCreate, &handle, kSize, &prop, 0ull);
  CU(cuMemAddressReserve, &address, kSize, std::size_t{0}, abi::CUdeviceptr{0}, 0ull);
  unsigned char byte = 1;
  Say("copy_to_reserved", CudaErrorName(CU(cuMemcpyHtoD_v2, address, &byte, std::size_t{1})));
  Say("map", CudaErrorName(CU(cuMemMap, address, kSize, std::size_t{0}, handle, 0ull)));
  Say("copy", CudaErrorName(CU(cuMemcpyHtoD_v2, address, &byte, std::size_t{1})));
  abi::CUmodule module = nullptr;
  CU(cuModuleLoadData, &module, load::kKernels);
  Say("launch", CudaErrorName(Fill(module, address, kSize, 1)));
  Say("synchronize", CudaErrorName(CU(cuCtxSynchronize)));
}

TEST_F(Vmm, MappedMemoryWithoutAccessCannotBeReached) {
  Probe probe("no_access");
  EXPECT_EQ(probe.Heard("map"), "CUDA_SUCCESS");
  for (const char* what : {"copy_to_reserved", "copy"}) {
    Fact(std::string("no_access.") + what, probe.Heard(what));
    EXPECT_THAT(probe.Heard(what), AnyOf("CUDA_ERROR_INVALID_VALUE", "CUDA_ERROR_ILLEGAL_ADDRESS")) << what;
  }
  Fact("no_access.synchronize", probe.Heard("synchronize"));
  EXPECT_EQ(probe.Heard("synchronize"), "CUDA_ERROR_ILLEGAL_ADDRESS");
  EXPECT_EQ(probe.Wait(), 0);
}

}  // namespace
}  // namespace gpuman::conformance

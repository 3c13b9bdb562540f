// Virtual memory: bytes belong to their handle, wherever it is mapped.
#include <fcntl.h>
#include <rapidcheck.h>

#include <array>
#include <map>

#include "sim/cuda/test_cuda.h"

namespace gpuman::sim::cuda {
namespace {

constexpr std::size_t kGranule = 2 * kMegabyte;
constexpr std::size_t kWords = kGranule / 4;

CUmemAllocationProp OnDeviceZero(unsigned handle_types = 0) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  properties.requestedHandleTypes = static_cast<CUmemAllocationHandleType>(handle_types);
  return properties;
}

CUmemAccessDesc Access(CUmemAccess_flags flags, int device = 0) {
  return {{CU_MEM_LOCATION_TYPE_DEVICE, device}, flags};
}

CUdeviceptr Reserve(const Cuda& cu, std::size_t granules) {
  CUdeviceptr begin = 0;
  EXPECT_OK(cu.cuMemAddressReserve(&begin, granules * kGranule, 0, 0, 0));
  return begin;
}

CUmemGenericAllocationHandle Create(const Cuda& cu, std::size_t granules, unsigned handle_types = 0) {
  CUmemGenericAllocationHandle handle = 0;
  const CUmemAllocationProp properties = OnDeviceZero(handle_types);
  EXPECT_OK(cu.cuMemCreate(&handle, granules * kGranule, &properties, 0));
  return handle;
}

void MapReadWrite(const Cuda& cu, CUdeviceptr at, std::size_t granules, CUmemGenericAllocationHandle handle) {
  const CUmemAccessDesc access = Access(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  EXPECT_OK(cu.cuMemMap(at, granules * kGranule, 0, handle, 0));
  EXPECT_OK(cu.cuMemSetAccess(at, granules * kGranule, &access, 1));
}

TEST(SimCudaVirtual, BytesStayWhileTheirHandleLivesAndComeBackAtAnyAddress) {
  OnDevice([](Cuda& cu, TestState&) {
    const CUdeviceptr first = Reserve(cu, 4), second = Reserve(cu, 4);
    const auto handle = Create(cu, 2);
    MapReadWrite(cu, first, 2, handle);
    EXPECT_OK(cu.cuMemsetD32_v2(first, 0xabcd, 2 * kWords));
    EXPECT_OK(cu.cuMemUnmap(first, 2 * kGranule));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemsetD32_v2(first, 1, 4));
    MapReadWrite(cu, second + kGranule, 2, handle);
    EXPECT_TRUE(AllWordsAre(cu, second + kGranule, 2 * kWords, 0xabcdu));
    MapReadWrite(cu, first, 2, handle);  // both see the same bytes
    EXPECT_OK(cu.cuMemsetD32_v2(first + kGranule, 0x1234, 1));
    EXPECT_EQ(ReadWords(cu, second + 2 * kGranule, 1).front(), 0x1234u);
  });
}

TEST(SimCudaVirtual, MemoryStaysWhileAHandleOrAMappingLives) {
  OnDevice([](Cuda& cu, TestState&) {
    const std::uint64_t before = FreeBytes(cu);
    const CUdeviceptr at = Reserve(cu, 2);
    EXPECT_EQ(FreeBytes(cu), before);
    const auto handle = Create(cu, 2);
    EXPECT_EQ(before - FreeBytes(cu), 2 * kGranule);
    MapReadWrite(cu, at, 2, handle);
    EXPECT_OK(cu.cuMemsetD8_v2(at, 7, 100));
    EXPECT_OK(cu.cuMemRelease(handle));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemRelease(handle));
    EXPECT_EQ(before - FreeBytes(cu), 2 * kGranule);
    CUmemGenericAllocationHandle again = 0;
    EXPECT_OK(cu.cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(at + kGranule)));
    EXPECT_OK(cu.cuMemUnmap(at, 2 * kGranule));
    EXPECT_EQ(before - FreeBytes(cu), 2 * kGranule);
    EXPECT_OK(cu.cuMemRelease(again));
    EXPECT_EQ(FreeBytes(cu), before);
    EXPECT_OK(cu.cuMemAddressFree(at, 2 * kGranule));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemAddressFree(at, 2 * kGranule));
  });
}

TEST(SimCudaVirtual, InvalidRequestsGetTheErrorsOfTheRealDriver) {
  OnDevice([](Cuda& cu, TestState&) {
    const CUmemAllocationProp properties = OnDeviceZero();
    CUmemAllocationProp bad = properties;
    CUdeviceptr begin = 0;
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemAddressReserve(&begin, kGranule + 1, 0, 0, 0));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemAddressReserve(&begin, kGranule, 3, 0, 0));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemCreate(&handle, kGranule + 1, &properties, 0));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemCreate(&handle, 0, &properties, 0));
    EXPECT_CU(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemCreate(&handle, std::size_t{1} << 40, &properties, 0));
    bad.location.id = 99;
    EXPECT_CU(CUDA_ERROR_INVALID_DEVICE, cu.cuMemCreate(&handle, kGranule, &bad, 0));
    bad.type = CU_MEM_ALLOCATION_TYPE_INVALID;
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemCreate(&handle, kGranule, &bad, 0));
    begin = Reserve(cu, 8);
    handle = Create(cu, 2);
    EXPECT_CU(CUDA_ERROR_NOT_SUPPORTED, cu.cuMemMap(begin, kGranule, kGranule, handle, 0));
    EXPECT_CU(CUDA_ERROR_NOT_SUPPORTED, cu.cuMemMap(begin, kGranule, 0, handle, 0));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemMap(0x1234000000, 2 * kGranule, 0, handle, 0));
    EXPECT_OK(cu.cuMemMap(begin + kGranule, 2 * kGranule, 0, handle, 0));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemMap(begin, 2 * kGranule, 0, handle, 0));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemAddressFree(begin, 8 * kGranule));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemUnmap(begin + kGranule, kGranule));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemFree_v2(begin + kGranule));
    EXPECT_OK(cu.cuMemUnmap(begin, 8 * kGranule));  // holes are no error
    EXPECT_OK(cu.cuMemAddressFree(begin, 8 * kGranule));
  });
}

TEST(SimCudaVirtual, NothingIsReachedWithoutAccess) {
  OnDevice([](Cuda& cu, TestState&) {
    const CUdeviceptr at = Reserve(cu, 4);
    MapReadWrite(cu, at + kGranule, 1, Create(cu, 1));
    EXPECT_OK(cu.cuMemMap(at + 2 * kGranule, kGranule, 0, Create(cu, 1), 0));
    std::vector<char> host(2 * kGranule);
    const CUdeviceptr closed = at + 2 * kGranule;
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemcpyHtoD_v2(closed, host.data(), 4));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemcpyHtoD_v2(at + kGranule, host.data(), kGranule + 4));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemsetD8_v2(at, 1, 4));
    CUdeviceptr base = 0;
    std::size_t size = 0;
    EXPECT_CU(CUDA_ERROR_NOT_FOUND, cu.cuMemGetAddressRange_v2(&base, &size, closed));
    CUmemAccessDesc access = Access(CU_MEM_ACCESS_FLAGS_PROT_READ);
    EXPECT_OK(cu.cuMemSetAccess(closed, kGranule, &access, 1));
    EXPECT_OK(cu.cuMemcpyDtoH_v2(host.data(), closed, 4));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemcpyHtoD_v2(closed, host.data(), 4));
    unsigned long long flags = 0;
    const CUmemLocation where{CU_MEM_LOCATION_TYPE_DEVICE, 0};
    EXPECT_OK(cu.cuMemGetAccess(&flags, &where, closed));
    EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_READ);
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemGetAccess(&flags, &where, at));
    access = Access(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuMemSetAccess(at, 4 * kGranule, &access, 1));
    EXPECT_OK(cu.cuMemSetAccess(at + kGranule, 2 * kGranule, &access, 1));
    EXPECT_OK(cu.cuMemcpyHtoD_v2(at + kGranule, host.data(), 2 * kGranule));
    // The result is the mapping, not the reservation.
    EXPECT_OK(cu.cuMemGetAddressRange_v2(&base, &size, closed + 5));
    EXPECT_EQ(base, closed);
    EXPECT_EQ(size, kGranule);
    CUipcMemHandle handle{};
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuIpcGetMemHandle(&handle, closed));
  });
}

TEST(SimCudaVirtual, AKernelWithoutAccessFaults) {
  OnDevice([](Cuda& cu, TestState&) {
    const CUdeviceptr at = Reserve(cu, 1);
    EXPECT_OK(cu.cuMemMap(at, kGranule, 0, Create(cu, 1), 0));
    EXPECT_OK(Launch(cu, "store", 1, 1, nullptr, at));
    EXPECT_CU(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuCtxSynchronize());
  });
}

TEST(SimCudaVirtual, ADescriptorCarriesMemoryToAnotherProcess) {
  TestState state;
  setenv(kDirectoryVariable, state.directory().c_str(), 1);
  std::array<int, 2> descriptors{};
  ASSERT_EQ(pipe(descriptors.data()), 0);
  const bool passed = Forked([&] {
    Cuda cu;
    const pid_t importer = fork();  // before cuInit, so that it may have a driver of its own
    if (importer == 0) {
      int sent = -1;
      EXPECT_EQ(read(descriptors[0], &sent, sizeof sent), static_cast<ssize_t>(sizeof sent));
      Start(cu);
      const int own =
          open(("/proc/" + std::to_string(getppid()) + "/fd/" + std::to_string(sent)).c_str(), O_RDWR);
      CUmemGenericAllocationHandle handle = 0;
      EXPECT_OK(cu.cuMemImportFromShareableHandle(&handle,
                                                  reinterpret_cast<void*>(static_cast<std::intptr_t>(own)),
                                                  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
      const CUdeviceptr at = Reserve(cu, 1);
      MapReadWrite(cu, at, 1, handle);
      EXPECT_EQ(ReadWords(cu, at, 1).front(), 99u);
      EXPECT_OK(cu.cuMemsetD32_v2(at, 100, 1));
      EXPECT_OK(cu.cuCtxSynchronize());
      std::fflush(nullptr);
      _exit(testing::Test::HasFailure() ? 1 : 0);
    }
    Start(cu);
    const auto handle = Create(cu, 1, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    const CUdeviceptr at = Reserve(cu, 1);
    MapReadWrite(cu, at, 1, handle);
    EXPECT_OK(cu.cuMemsetD32_v2(at, 99, 1));
    EXPECT_OK(cu.cuCtxSynchronize());
    int descriptor = -1;
    EXPECT_OK(
        cu.cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
              cu.cuMemExportToShareableHandle(&descriptor, Create(cu, 1),
                                              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    EXPECT_EQ(write(descriptors[1], &descriptor, sizeof descriptor), static_cast<ssize_t>(sizeof descriptor));
    int status = 1;
    waitpid(importer, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(ReadWords(cu, at, 1).front(), 100u);
  });
  EXPECT_TRUE(passed);
}

// A model of the expected state: handles with one value for each granule, mappings of handles to places.
struct Model {
  struct Handle {
    CUmemGenericAllocationHandle handle;
    std::vector<std::uint32_t> values;
  };
  std::vector<Handle> handles;
  std::map<std::size_t, std::size_t> mappings;  // first granule -> index of the handle
};

void Step(const Cuda& cu, CUdeviceptr base, std::size_t places, Model& model, unsigned what, unsigned which,
          std::size_t where, std::uint32_t value) {
  const auto mapped_at = [&](std::size_t place) {
    for (const auto& [first, index] : model.mappings) {
      if (place >= first && place < first + model.handles[index].values.size())
        return model.mappings.find(first);
    }
    return model.mappings.end();
  };
  switch (what % 4) {
    case 0:
      if (model.handles.size() < 6) {
        const std::size_t granules = 1 + which % 3;
        model.handles.push_back({Create(cu, granules), std::vector<std::uint32_t>(granules, 0)});
      }
      break;
    case 1: {
      if (model.handles.empty()) break;
      const std::size_t index = which % model.handles.size();
      const std::size_t granules = model.handles[index].values.size(), place = where % places;
      bool free = place + granules <= places;
      for (std::size_t i = 0; i < granules; ++i) free = free && mapped_at(place + i) == model.mappings.end();
      const CUresult expected = free ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
      EXPECT_CU(expected,
                cu.cuMemMap(base + place * kGranule, granules * kGranule, 0, model.handles[index].handle, 0));
      if (!free) break;
      const CUmemAccessDesc access = Access(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
      EXPECT_OK(cu.cuMemSetAccess(base + place * kGranule, granules * kGranule, &access, 1));
      model.mappings[place] = index;
      break;
    }
    case 2: {
      const auto mapping = mapped_at(where % places);
      if (mapping == model.mappings.end()) break;
      const std::size_t granules = model.handles[mapping->second].values.size();
      EXPECT_OK(cu.cuMemUnmap(base + mapping->first * kGranule, granules * kGranule));
      model.mappings.erase(mapping);
      break;
    }
    default: {
      const auto mapping = mapped_at(where % places);
      const CUdeviceptr at = base + where % places * kGranule;
      const CUresult expected = mapping != model.mappings.end() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
      EXPECT_CU(expected, cu.cuMemsetD32_v2(at + kGranule - 4096, value, 1024));
      if (mapping != model.mappings.end()) {
        model.handles[mapping->second].values[where % places - mapping->first] = value;
      }
      break;
    }
  }
}

TEST(SimCudaVirtual, DataIsRightAfterAnySequenceOfMapAndUnmap) {
  OnDevice([](Cuda& cu, TestState& state) {
    constexpr std::size_t kPlaces = 8;
    const std::uint64_t used = DeviceUsed(state.shared(), 0);
    const bool held =
        rc::check([&](const std::vector<std::tuple<unsigned, unsigned, std::size_t, std::uint32_t>>& steps) {
          const CUdeviceptr base = Reserve(cu, kPlaces);
          Model model;
          std::uint64_t bytes = 0;
          for (const auto& [what, which, where, value] : steps)
            Step(cu, base, kPlaces, model, what, which, where, value);
          for (const auto& [first, index] : model.mappings) {
            const auto& values = model.handles[index].values;
            for (std::size_t i = 0; i < values.size(); ++i) {
              RC_ASSERT(ReadWords(cu, base + (first + i + 1) * kGranule - 4096, 1024) ==
                        std::vector<std::uint32_t>(1024, values[i]));
            }
          }
          for (const auto& handle : model.handles) bytes += handle.values.size() * kGranule;
          RC_ASSERT(DeviceUsed(state.shared(), 0) == used + bytes);
          RC_ASSERT(cu.cuMemUnmap(base, kPlaces * kGranule) == CUDA_SUCCESS);
          for (const auto& handle : model.handles) RC_ASSERT(cu.cuMemRelease(handle.handle) == CUDA_SUCCESS);
          RC_ASSERT(cu.cuMemAddressFree(base, kPlaces * kGranule) == CUDA_SUCCESS);
          RC_ASSERT(DeviceUsed(state.shared(), 0) == used);
          RC_ASSERT(!testing::Test::HasFailure());
        });
    EXPECT_TRUE(held);
  });
}

}  // namespace
}  // namespace gpuman::sim::cuda

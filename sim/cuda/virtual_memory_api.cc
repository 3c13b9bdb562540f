// Virtual memory: addresses without memory, memory without addresses, and the mappings between them.
#include "sim/cuda/virtual_memory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <shared_mutex>

#include "sim/cuda/api.h"

namespace gpuman::sim::cuda {
namespace {

constexpr std::uint64_t kGranularity = kDeviceStep;  // minimum and recommended (measured)

VirtualHandle* Handle(CUmemGenericAllocationHandle handle) {
  return reinterpret_cast<VirtualHandle*>(handle);
}
CUmemGenericAllocationHandle Number(VirtualHandle* handle) {
  return reinterpret_cast<CUmemGenericAllocationHandle>(handle);
}

bool Aligned(std::uint64_t value) { return value % kGranularity == 0; }

CUresult CheckProperties(Driver& driver, const CUmemAllocationProp* prop, Device*& device) {
  if (prop == nullptr || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
      prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if ((prop->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0)
    return CUDA_ERROR_NOT_SUPPORTED;
  device = driver.FindDevice(prop->location.id);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  return (device->info().features & kFeatureVmm) != 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

// Removes one mapping; the addresses stay reserved.
void Unmap(Driver& driver, std::uint64_t begin) {
  std::optional<Block> block;  // its memory is freed after the lock is released
  const std::unique_lock execution(driver.execution);
  driver.memory.TakeAllocation(begin);
  block = driver.memory.TakeBlock(begin);
  if (block) UnmapAt(begin, block->end - block->begin);
}

}  // namespace

CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* prop,
                                       CUmemAllocationGranularity_flags option) {
  const Call call(__func__, Need::kInit);
  if (!call) return call.error();
  Device* device = nullptr;
  const CUresult checked = CheckProperties(call.driver(), prop, device);
  if (checked != CUDA_SUCCESS) return checked;
  if (granularity == nullptr || option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
    return CUDA_ERROR_INVALID_VALUE;
  *granularity = kGranularity;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* ptr, size_t size, size_t alignment, CUdeviceptr addr,
                             unsigned long long flags) {
  const Call call(__func__, Need::kHealthy);
  if (!call) return call.error();
  if (ptr == nullptr || size == 0 || !Aligned(size) || flags != 0 || (alignment & (alignment - 1)) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::uint64_t begin =
      ReserveAddresses(size, alignment > kGranularity ? alignment : kGranularity, addr);
  if (begin == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  call.driver().memory.AddReservation(begin, size);
  *ptr = begin;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size) {
  const Call call(__func__, Need::kHealthy);
  if (!call) return call.error();
  const std::lock_guard mappings(call.driver().mappings);
  if (!call.driver().memory.TakeReservation(ptr, size)) return CUDA_ERROR_INVALID_VALUE;
  FreeAddresses(ptr, size);
  return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size, const CUmemAllocationProp* prop,
                     unsigned long long flags) {
  const Call call(__func__, Need::kHealthy);
  if (!call) return call.error();
  Device* device = nullptr;
  const CUresult checked = CheckProperties(call.driver(), prop, device);
  if (checked != CUDA_SUCCESS) return checked;
  if (handle == nullptr || size == 0 || !Aligned(size) || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const bool shareable = prop->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE;
  auto created = std::make_shared<VirtualHandle>();
  created->properties = *prop;
  created->physical =
      Physical::Allocate(call.driver().heap, device, size,
                         shareable ? Physical::Sharing::kShareable : Physical::Sharing::kPrivate);
  if (created->physical == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *handle = Number(call.driver().virtual_handles.Add(std::move(created)));
  return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  const Call call(__func__, Need::kInit);
  if (!call) return call.error();
  const auto found = call.driver().virtual_handles.Find(Handle(handle));
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(found->mutex);
  if (found->references == 0) return CUDA_ERROR_INVALID_VALUE;
  if (--found->references == 0) call.driver().virtual_handles.Take(Handle(handle));
  return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* addr) {
  const Call call(__func__, Need::kHealthy);
  if (!call) return call.error();
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto block = call.driver().memory.FindBlock(reinterpret_cast<std::uint64_t>(addr));
  if (!block || block->kind != MemoryKind::kVirtual) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& known : call.driver().virtual_handles.All()) {
    if (known->physical != block->physical) continue;
    const std::lock_guard lock(known->mutex);
    if (known->references == 0) break;
    ++known->references;
    *handle = Number(known.get());
    return CUDA_SUCCESS;
  }
  // The program released all handles while the mapping kept the memory: make a new handle.
  auto again = std::make_shared<VirtualHandle>();
  again->physical = block->physical;
  again->properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  again->properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, block->device->ordinal()};
  if (block->physical->shareable()) {
    again->properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  }
  *handle = Number(call.driver().virtual_handles.Add(std::move(again)));
  return CUDA_SUCCESS;
}

// A part of a handle cannot be mapped: the real driver answers NOT_SUPPORTED (measured).
CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  const Call call(__func__, Need::kHealthy);
  if (!call) return call.error();
  Driver& driver = call.driver();
  const auto found = driver.virtual_handles.Find(Handle(handle));
  if (found == nullptr || size == 0 || flags != 0 || !Aligned(ptr) || !Aligned(size) || !Aligned(offset)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (offset != 0 || size != found->physical->size()) return CUDA_ERROR_NOT_SUPPORTED;
  const std::lock_guard mappings(driver.mappings);
  std::vector<std::uint64_t> mapped;
  if (!driver.memory.WholeMappings(ptr, size, mapped) || !mapped.empty()) return CUDA_ERROR_INVALID_VALUE;
  if (!MapAt(ptr, size, *found->physical, 0)) return CUDA_ERROR_OUT_OF_MEMORY;
  Device* const device = found->physical->device();
  driver.memory.AddBlock({.begin = ptr,
                          .end = ptr + size,
                          .kind = MemoryKind::kVirtual,
                          .device = device,
                          .physical = found->physical});
  driver.memory.AddAllocation({.begin = ptr, .size = size, .kind = MemoryKind::kVirtual, .device = device});
  return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size) {
  const Call call(__func__, Need::kHealthy);
  if (!call) return call.error();
  if (size == 0 || !Aligned(ptr) || !Aligned(size)) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard mappings(call.driver().mappings);
  std::vector<std::uint64_t> mapped;
  if (!call.driver().memory.WholeMappings(ptr, size, mapped)) return CUDA_ERROR_INVALID_VALUE;
  for (const std::uint64_t begin : mapped) Unmap(call.driver(), begin);
  return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc* desc, size_t count) {
  const Call call(__func__, Need::kHealthy);
  if (!call) return call.error();
  if (desc == nullptr || count == 0 || size == 0 || !Aligned(ptr) || !Aligned(size))
    return CUDA_ERROR_INVALID_VALUE;
  Driver& driver = call.driver();
  const std::lock_guard mappings(driver.mappings);
  for (std::size_t i = 0; i < count; ++i) {
    const CUmemAccess_flags flags = desc[i].flags;
    if (desc[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        (flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
         flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const Device* const device = driver.FindDevice(desc[i].location.id);
    if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    if (!driver.memory.SetAccess(ptr, size, 1u << device->ordinal(), flags != CU_MEM_ACCESS_FLAGS_PROT_NONE,
                                 flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return CUDA_SUCCESS;
}

CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr ptr) {
  const Call call(__func__, Need::kHealthy);
  if (!call) return call.error();
  if (flags == nullptr || location == nullptr || location->type != CU_MEM_LOCATION_TYPE_DEVICE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const Device* const device = call.driver().FindDevice(location->id);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  const auto block = call.driver().memory.FindBlock(ptr);
  if (!block || block->kind != MemoryKind::kVirtual) return CUDA_ERROR_INVALID_VALUE;
  const std::uint32_t bit = 1u << device->ordinal();
  *flags = (block->writers & bit) != 0   ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
           : (block->readers & bit) != 0 ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                         : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* prop,
                                                CUmemGenericAllocationHandle handle) {
  const Call call(__func__, Need::kHealthy);
  if (!call) return call.error();
  const auto found = call.driver().virtual_handles.Find(Handle(handle));
  if (prop == nullptr || found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *prop = found->properties;
  return CUDA_SUCCESS;
}

CUresult cuMemExportToShareableHandle(void* shareable_handle, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType handle_type, unsigned long long flags) {
  const Call call(__func__, Need::kHealthy);
  if (!call) return call.error();
  const auto found = call.driver().virtual_handles.Find(Handle(handle));
  if (shareable_handle == nullptr || found == nullptr || flags != 0 ||
      handle_type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || !found->physical->shareable() ||
      found->physical->imported()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int copy = fcntl(found->physical->descriptor(), F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *static_cast<int*>(shareable_handle) = copy;
  found->physical->Share();
  return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* os_handle,
                                        CUmemAllocationHandleType sh_handle_type) {
  const Call call(__func__, Need::kHealthy);
  if (!call) return call.error();
  if (handle == nullptr || sh_handle_type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return CUDA_ERROR_INVALID_VALUE;
  const int given = static_cast<int>(reinterpret_cast<std::intptr_t>(os_handle));
  struct stat status {};
  if (fstat(given, &status) != 0 || status.st_size <= 0 ||
      !Aligned(static_cast<std::uint64_t>(status.st_size)) || (fcntl(given, F_GET_SEALS) < 0)) {
    return CUDA_ERROR_UNKNOWN;  // measured: for a descriptor that is not the driver's
  }
  const auto gpu = GpuOfSharedFile(given);
  Device* device = nullptr;
  for (int ordinal = 0; Device* const one = call.driver().FindDevice(ordinal); ++ordinal)
    if (gpu && one->gpu() == *gpu) device = one;
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  // Measured: for a process that was restored on another GPU.
  if (!device->IsAtHome()) return CUDA_ERROR_NOT_INITIALIZED;
  const int copy = fcntl(given, F_DUPFD_CLOEXEC, 0);
  auto imported = std::make_shared<VirtualHandle>();
  // Memory of this process's own handle is imported as the memory that it already has, so that it counts
  // once.
  for (const auto& known : call.driver().virtual_handles.All()) {
    struct stat own {};
    if (known->physical->shareable() && fstat(known->physical->descriptor(), &own) == 0 &&
        own.st_ino == status.st_ino && own.st_dev == status.st_dev) {
      imported->physical = known->physical;
    }
  }
  if (imported->physical == nullptr) {
    imported->physical = Physical::Import(device, copy, 0, static_cast<std::uint64_t>(status.st_size), true);
  } else {
    close(copy);
  }
  imported->properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  imported->properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  imported->properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, imported->physical->device()->ordinal()};
  *handle = Number(call.driver().virtual_handles.Add(std::move(imported)));
  return CUDA_SUCCESS;
}

// The device has neither another to join nor a network card beside it.
CUresult cuMulticastBindMem(CUmemGenericAllocationHandle, size_t, CUmemGenericAllocationHandle, size_t,
                            size_t, unsigned long long) {
  const Call call(__func__, Need::kHealthy);
  return call ? CUDA_ERROR_NOT_SUPPORTED : call.error();
}

CUresult cuMulticastBindMem_v2(CUmemGenericAllocationHandle, CUdevice, size_t, CUmemGenericAllocationHandle,
                               size_t, size_t, unsigned long long) {
  const Call call(__func__, Need::kHealthy);
  return call ? CUDA_ERROR_NOT_SUPPORTED : call.error();
}

CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle, size_t, CUdeviceptr, size_t, unsigned long long) {
  const Call call(__func__, Need::kHealthy);
  return call ? CUDA_ERROR_NOT_SUPPORTED : call.error();
}

CUresult cuMulticastBindAddr_v2(CUmemGenericAllocationHandle, CUdevice, size_t, CUdeviceptr, size_t,
                                unsigned long long) {
  const Call call(__func__, Need::kHealthy);
  return call ? CUDA_ERROR_NOT_SUPPORTED : call.error();
}

// Returns a descriptor of the range, which keeps its memory while it is open.
CUresult cuMemGetHandleForAddressRange(void* handle, CUdeviceptr dptr, size_t size,
                                       CUmemRangeHandleType handle_type, unsigned long long) {
  const Call call(__func__, Need::kHealthy);
  if (!call) return call.error();
  const auto block = call.driver().memory.FindBlock(dptr);
  if (handle == nullptr || size == 0 || handle_type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || !block ||
      size > block->end - dptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int copy = fcntl(block->physical->descriptor(), F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *static_cast<int*>(handle) = copy;
  return CUDA_SUCCESS;
}

}  // namespace gpuman::sim::cuda

// Memory without addresses, and its mappings.
#include "shim/backing.h"
#include "shim/hooks.h"
#include "shim/meter.h"
#include "shim/pools.h"
#include "shim/program_memory.h"

namespace gpuman::shim {
namespace {

void Drop(Guest& guest, const VirtualReference& reference) {
  GivenBack back{};
  {
    const Locked lock(guest.books);
    back = guest.virtual_memory.Dropped(reference);
    if (back.imported) --guest.foreign;
  }
  if (back.imported) TellImported(guest);
  GiveBack(guest, back.device, back.bytes);
}

}  // namespace

namespace hook {

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size, const CUmemAllocationProp* prop,
                     unsigned long long flags) {
  auto* const real = GPUMAN_REAL(cuMemCreate);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const Visit visit;
  if (!visit || handle == nullptr || prop == nullptr || size == 0 ||
      prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return real(handle, size, prop, flags);
  const int device = prop->location.id;
  const std::uint64_t granule = GranuleOf(*visit, device);
  if (granule == 0) return real(handle, size, prop, flags);
  const std::uint64_t bytes = RoundUp(size, granule);
  const auto create = [&](bool& full) {
    if (!Reserve(*visit, device, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    const bool room = IsWithinRoom(*visit, device);
    const CUresult created =
        room ? CreateForProgram(*visit, handle, size, *prop, flags) : CUDA_ERROR_OUT_OF_MEMORY;
    full = created == CUDA_ERROR_OUT_OF_MEMORY;
    if (created != CUDA_SUCCESS) GiveBack(*visit, device, bytes);
    return created;
  };
  const CUresult result = WithRoom(*visit, device, bytes, [&](bool& full) {
    const CUresult created = create(full);
    if (created != CUDA_ERROR_OUT_OF_MEMORY || !TrimForOthers(*visit, device)) return created;
    full = false;
    return create(full);
  });
  if (result != CUDA_SUCCESS) return result;
  const Locked lock((*visit).books);
  (*visit).virtual_memory.Created(*handle, device, bytes);  // without an entry it counts to the end
  return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  auto* const real = GPUMAN_REAL(cuMemRelease);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const Visit visit;
  if (!visit) return real(handle);
  VirtualReference reference{};
  bool known = false;
  {
    const Locked lock((*visit).books);
    known = (*visit).virtual_memory.TakeHandle(handle, reference);
  }
  CUresult result{};
  if (!ReleaseHeld(*visit, handle, result)) result = real(handle);
  if (!known) return result;
  if (result == CUDA_SUCCESS) {
    Drop(*visit, reference);
  } else {
    const Locked lock((*visit).books);
    (*visit).virtual_memory.PutBackHandle(reference);
  }
  return result;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* addr) {
  auto* const real = GPUMAN_REAL(cuMemRetainAllocationHandle);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const CUresult result = real(handle, addr);
  const Visit visit;
  if (!visit || result != CUDA_SUCCESS) return result;
  // As of plain memory: by its handle it could be passed on.
  Found found{};
  if (FindBacked(*visit, reinterpret_cast<std::uintptr_t>(addr), found) || found.slab) {
    if (auto* const release = GPUMAN_REAL(cuMemRelease)) release(*handle);
    return CUDA_ERROR_INVALID_VALUE;
  }
  RetainHeld(*visit, *handle, reinterpret_cast<std::uintptr_t>(addr));
  const Locked lock((*visit).books);
  (*visit).virtual_memory.Retained(*handle, reinterpret_cast<std::uintptr_t>(addr));
  return result;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* os_handle,
                                        CUmemAllocationHandleType type) {
  auto* const real = GPUMAN_REAL(cuMemImportFromShareableHandle);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const CUresult result = real(handle, os_handle, type);
  const Visit visit;
  if (!visit || result != CUDA_SUCCESS) return result;
  {
    const Locked lock((*visit).books);
    if ((*visit).virtual_memory.Imported(*handle)) ++(*visit).foreign;
  }
  TellImported(*visit);
  return result;
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  auto* const real = GPUMAN_REAL(cuMemMap);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const Visit visit;
  if (!visit) return real(ptr, size, offset, handle, flags);
  const CUresult result = real(ptr, size, offset, HeldBy(*visit, handle).handle, flags);
  if (result != CUDA_SUCCESS) return result;
  {
    const Locked lock((*visit).books);
    (*visit).virtual_memory.Mapped(ptr, size, handle);
  }
  MappedHeld(*visit, ptr, size, handle);
  return result;
}

// One call may drop many mappings.
CUresult cuMemUnmap(CUdeviceptr ptr, size_t size) {
  auto* const real = GPUMAN_REAL(cuMemUnmap);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const Visit visit;
  if (!visit) return real(ptr, size);
  Table<VirtualReference> taken;
  {
    const Locked lock((*visit).books);
    VirtualReference reference{};
    while ((*visit).virtual_memory.TakeMapping(ptr, size, reference)) {
      VirtualReference* const entry = taken.Insert(reference.name);
      if (entry == nullptr) {
        (*visit).virtual_memory.PutBackMapping(reference);  // counts to the end
        break;
      }
      *entry = reference;
    }
  }
  Unmapping unmapping(*visit, ptr, size);
  const CUresult result = real(ptr, size);
  unmapping.End(result == CUDA_SUCCESS);
  taken.ForEach([&](std::uint64_t, const VirtualReference& reference) {
    if (result == CUDA_SUCCESS) return Drop(*visit, reference);
    const Locked lock((*visit).books);
    (*visit).virtual_memory.PutBackMapping(reference);
  });
  taken.Reset();
  return result;
}

}  // namespace hook

}  // namespace gpuman::shim

// Memory without addresses (cuMemCreate), and its mappings.
#include "shim/accounting/meter.h"
#include "shim/accounting/pools.h"
#include "shim/accounting/trace_memory.h"
#include "shim/backing/backing.h"
#include "shim/backing/program_memory.h"
#include "shim/gate/activity.h"
#include "shim/hooks/hooks.h"
#include "shim/hooks/process_state.h"
#include "shim/libc/lock.h"

namespace gpuman::shim {
namespace {

void Drop(ProcessState& state, const VirtualHandleOrMapping& reference) {
  ReleasedMemory back{};
  {
    const Locked lock(state.books);
    back = state.virtual_memory.Dropped(reference);
    if (back.imported) --state.foreign;
    if (back.bytes != 0) NoteFreed(state, TraceKey(TraceKeyKind::kVirtual, reference.memory));
  }
  if (back.imported) TellImported(state);
  GiveBack(state, back.device, MemoryKind::kVirtual, back.bytes);
}

}  // namespace

namespace hook {

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size, const CUmemAllocationProp* prop,
                     unsigned long long flags) {
  auto* const real = GPUMAN_REAL(cuMemCreate);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const HookErrnoScope scope;
  if (!scope || handle == nullptr || prop == nullptr || size == 0 ||
      prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return real(handle, size, prop, flags);
  const int device = prop->location.id;
  const std::uint64_t granule = GranuleOf(*scope, device);
  if (granule == 0) return real(handle, size, prop, flags);
  const std::uint64_t bytes = RoundUp(size, granule);
  const auto create = [&](bool& full) {
    if (!Reserve(*scope, device, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    const bool room = IsWithinRoom(*scope, device);
    const CUresult created =
        room ? CreateForProgram(*scope, handle, size, *prop, flags) : CUDA_ERROR_OUT_OF_MEMORY;
    full = created == CUDA_ERROR_OUT_OF_MEMORY;
    if (created == CUDA_SUCCESS)
      Granted(*scope, device, MemoryKind::kVirtual, bytes);
    else
      Withdraw(*scope, device, bytes);
    return created;
  };
  (void)IsBackedOn(*scope, device);  // the daemon has to know of this home before the program waits
  const CUresult result = WithRoom(*scope, device, bytes, [&](bool& full) {
    const CUresult created = create(full);
    if (created != CUDA_ERROR_OUT_OF_MEMORY || !TrimForOthers(*scope, device)) return created;
    full = false;
    return create(full);
  });
  if (result != CUDA_SUCCESS) return result;
  if (MemoryTokenTable::IsToken(*handle)) StartServiceThread(*scope);
  std::uint64_t memory = 0;
  {
    const Locked lock((*scope).books);
    (*scope).virtual_memory.Created(*handle, device, bytes);  // no entry: it counts for ever
    memory = (*scope).virtual_memory.MemoryOf(*handle);
  }
  NoteAllocated(*scope, device, TraceKey(TraceKeyKind::kVirtual, memory), bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  auto* const real = GPUMAN_REAL(cuMemRelease);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const HookErrnoScope scope;
  if (!scope) return real(handle);
  VirtualHandleOrMapping reference{};
  bool known = false;
  {
    const Locked lock((*scope).books);
    known = (*scope).virtual_memory.TakeHandle(handle, reference);
  }
  CUresult result{};
  if (!ReleaseHeld(*scope, handle, result)) result = real(handle);
  if (!known) return result;
  if (result == CUDA_SUCCESS) {
    Drop(*scope, reference);
  } else {
    const Locked lock((*scope).books);
    (*scope).virtual_memory.PutBackHandle(reference);
  }
  return result;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* addr) {
  auto* const real = GPUMAN_REAL(cuMemRetainAllocationHandle);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const CUresult result = real(handle, addr);
  const HookErrnoScope scope;
  if (!scope || result != CUDA_SUCCESS) return result;
  // The same answer as for plain memory: by the handle, the program could export the backed memory.
  FoundAllocation found{};
  if (FindBacked(*scope, reinterpret_cast<std::uintptr_t>(addr), found) || found.slab) {
    if (auto* const release = GPUMAN_REAL(cuMemRelease)) release(*handle);
    return CUDA_ERROR_INVALID_VALUE;
  }
  RetainHeld(*scope, *handle, reinterpret_cast<std::uintptr_t>(addr));
  const Locked lock((*scope).books);
  (*scope).virtual_memory.Retained(*handle, reinterpret_cast<std::uintptr_t>(addr));
  return result;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* os_handle,
                                        CUmemAllocationHandleType type) {
  auto* const real = GPUMAN_REAL(cuMemImportFromShareableHandle);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const CUresult result = real(handle, os_handle, type);
  const HookErrnoScope scope;
  if (!scope || result != CUDA_SUCCESS) return result;
  {
    const Locked lock((*scope).books);
    if ((*scope).virtual_memory.Imported(*handle)) ++(*scope).foreign;
  }
  TellImported(*scope);
  return result;
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  auto* const real = GPUMAN_REAL(cuMemMap);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const HookErrnoScope scope;
  if (!scope) return real(ptr, size, offset, handle, flags);
  const CUresult result = real(ptr, size, offset, InfoOf(*scope, handle).handle, flags);
  if (result != CUDA_SUCCESS) return result;
  {
    const Locked lock((*scope).books);
    (*scope).virtual_memory.Mapped(ptr, size, handle);
  }
  MappedHeld(*scope, ptr, size, handle);
  return result;
}

// One call may take away many mappings.
CUresult cuMemUnmap(CUdeviceptr ptr, size_t size) {
  auto* const real = GPUMAN_REAL(cuMemUnmap);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const HookErrnoScope scope;
  if (!scope) return real(ptr, size);
  HashTable<VirtualHandleOrMapping> taken;
  {
    const Locked lock((*scope).books);
    VirtualHandleOrMapping reference{};
    while ((*scope).virtual_memory.TakeMapping(ptr, size, reference)) {
      VirtualHandleOrMapping* const entry = taken.Insert(reference.name);
      if (entry == nullptr) {
        (*scope).virtual_memory.PutBackMapping(reference);  // it counts for ever
        break;
      }
      *entry = reference;
    }
  }
  Unmapping unmapping(*scope, ptr, size);
  const CUresult result = real(ptr, size);
  unmapping.End(result == CUDA_SUCCESS);
  taken.ForEach([&](std::uint64_t, const VirtualHandleOrMapping& reference) {
    if (result == CUDA_SUCCESS) return Drop(*scope, reference);
    const Locked lock((*scope).books);
    (*scope).virtual_memory.PutBackMapping(reference);
  });
  taken.Reset();
  return result;
}

}  // namespace hook

}  // namespace gpuman::shim

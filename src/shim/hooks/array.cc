// Arrays and mipmapped arrays.
#include "shim/accounting/meter.h"
#include "shim/accounting/refusal.h"
#include "shim/accounting/trace_memory.h"
#include "shim/hooks/hooks.h"
#include "shim/hooks/process_state.h"
#include "shim/libc/lock.h"

namespace gpuman::shim {
namespace {

// `bytes` is the most that the driver's call takes. `told` asks the driver afterwards; 0: the driver does not
// tell.
template <typename Handle, typename Create, typename ReportedMemory, typename Destroy>
CUresult CreateWithin(Handle* handle, std::uint64_t bytes, Create create, ReportedMemory told,
                      Destroy destroy) {
  const HookErrnoScope scope;
  AllocationTarget where{};
  if (!scope || handle == nullptr || bytes == 0 || !CurrentWhere(*scope, where)) return create();
  const std::uint64_t reserved = RoundUp(bytes, where.granule);
  const auto refuse = [&](CUresult result, bool full) {
    TellIfRefused(*scope, where.device, reserved, result, full);
    return result;
  };
  if (!Reserve(*scope, where.device, reserved)) return refuse(CUDA_ERROR_OUT_OF_MEMORY, /*full=*/false);
  const Handle before = *handle;
  const CUresult result = create();
  if (result != CUDA_SUCCESS) {
    Withdraw(*scope, where.device, reserved);
    return refuse(result, /*full=*/true);
  }
  ArrayEntry entry{bytes, where.context, where.granule, where.device};
  if (const std::uint64_t size = bytes > Arrays::kLargestSmall ? told(where.device) : 0; size != 0)
    entry.bytes = size;
  const std::uint64_t number = reinterpret_cast<std::uintptr_t>(*handle);
  std::uint64_t cost = 0;
  bool entered = false;
  {
    const Locked lock((*scope).books);
    entered = (*scope).arrays.Add(number, entry, cost);
  }
  if (entered && Commit(*scope, where.device, MemoryKind::kArray, reserved, cost)) {
    NoteAllocated(*scope, where.device, TraceKey(TraceKeyKind::kArray, number), entry.bytes);
    return CUDA_SUCCESS;
  }
  {
    const Locked lock((*scope).books);
    if (entered && (*scope).arrays.Take(number, entry)) (*scope).arrays.Freed(entry);
  }
  destroy(*handle);
  Withdraw(*scope, where.device, reserved);
  *handle = before;
  return refuse(CUDA_ERROR_OUT_OF_MEMORY, /*full=*/false);
}

template <typename Handle, typename Destroy>
CUresult DestroyAt(Handle handle, Destroy destroy) {
  const HookErrnoScope scope;
  if (!scope) return destroy();
  const std::uint64_t number = reinterpret_cast<std::uintptr_t>(handle);
  NoteFreed(*scope, TraceKey(TraceKeyKind::kArray, number));
  ArrayEntry entry{};
  bool known = false;
  {
    const Locked lock((*scope).books);
    known = (*scope).arrays.Take(number, entry);
  }
  const CUresult result = destroy();
  if (!known) return result;
  std::uint64_t bytes = 0;
  {
    const Locked lock((*scope).books);
    if (result == CUDA_SUCCESS)
      bytes = (*scope).arrays.Freed(entry);
    else
      (*scope).arrays.PutBack(number, entry);
  }
  GiveBack(*scope, entry.device, MemoryKind::kArray, bytes);
  return result;
}

std::uint64_t RequiredBytes(CUarray array, int device) {
  auto* const ask = GPUMAN_REAL(cuArrayGetMemoryRequirements);
  CUDA_ARRAY_MEMORY_REQUIREMENTS told{};
  return ask != nullptr && ask(&told, array, device) == CUDA_SUCCESS ? told.size : 0;
}

std::uint64_t RequiredBytes(CUmipmappedArray array, int device) {
  auto* const ask = GPUMAN_REAL(cuMipmappedArrayGetMemoryRequirements);
  CUDA_ARRAY_MEMORY_REQUIREMENTS told{};
  return ask != nullptr && ask(&told, array, device) == CUDA_SUCCESS ? told.size : 0;
}

template <typename Create>
CUresult CreateArray(CUarray* handle, const CUDA_ARRAY3D_DESCRIPTOR* shape, Create create) {
  return CreateWithin(
      handle, shape == nullptr ? 0 : ArrayBytes(*shape, 1), create,
      [&](int device) { return RequiredBytes(*handle, device); },
      [](CUarray array) {
        if (auto* const destroy = GPUMAN_REAL(cuArrayDestroy)) destroy(array);
      });
}

}  // namespace

namespace hook {

CUresult cuArrayCreate_v2(CUarray* handle, const CUDA_ARRAY_DESCRIPTOR* allocate_array) {
  auto* const real = GPUMAN_REAL(cuArrayCreate_v2);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  if (allocate_array != nullptr)
    shape = {allocate_array->Width,  allocate_array->Height,      0,
             allocate_array->Format, allocate_array->NumChannels, 0};
  return CreateArray(handle, allocate_array == nullptr ? nullptr : &shape,
                     [&] { return real(handle, allocate_array); });
}

CUresult cuArray3DCreate_v2(CUarray* handle, const CUDA_ARRAY3D_DESCRIPTOR* allocate_array) {
  auto* const real = GPUMAN_REAL(cuArray3DCreate_v2);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return CreateArray(handle, allocate_array, [&] { return real(handle, allocate_array); });
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray* handle, const CUDA_ARRAY3D_DESCRIPTOR* mipmapped_array_desc,
                                unsigned int num_mipmap_levels) {
  auto* const real = GPUMAN_REAL(cuMipmappedArrayCreate);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return CreateWithin(
      handle, mipmapped_array_desc == nullptr ? 0 : ArrayBytes(*mipmapped_array_desc, num_mipmap_levels),
      [&] { return real(handle, mipmapped_array_desc, num_mipmap_levels); },
      [&](int device) { return RequiredBytes(*handle, device); },
      [](CUmipmappedArray array) {
        if (auto* const destroy = GPUMAN_REAL(cuMipmappedArrayDestroy)) destroy(array);
      });
}

CUresult cuArrayDestroy(CUarray array) {
  auto* const real = GPUMAN_REAL(cuArrayDestroy);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return DestroyAt(array, [&] { return real(array); });
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray mipmapped_array) {
  auto* const real = GPUMAN_REAL(cuMipmappedArrayDestroy);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return DestroyAt(mipmapped_array, [&] { return real(mipmapped_array); });
}

}  // namespace hook

}  // namespace gpuman::shim

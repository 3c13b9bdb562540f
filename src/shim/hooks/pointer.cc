// What the program is told of backed memory: the allocation that it made, not the mappings behind it. The
// shim asks the driver first, so the driver's errors stay as they are.
#include "shim/backing/backing.h"
#include "shim/backing/program_memory.h"
#include "shim/hooks/hooks.h"
#include "shim/hooks/process_state.h"

namespace gpuman::shim {
namespace {

template <typename T>
void Answer(void* data, T value) {
  // NOLINTNEXTLINE(bugprone-sizeof-expression): the answer may be a pointer, such as a context
  __builtin_memcpy(data, &value, sizeof(T));
}

struct FoundPointer : FoundAllocation {
  bool own;
};

// Changes the driver's answer in `data` to the answer for plain memory.
void Mend(const FoundPointer& found, CUpointer_attribute attribute, void* data) {
  const Region& region = found.region;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return Answer(data, reinterpret_cast<CUcontext>(static_cast<std::uintptr_t>(region.context)));
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return Answer(data, CUdeviceptr{region.address});
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return Answer(data, std::size_t{region.size});
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      // The whole allocation has one id: that of its first piece, or a number that no driver counts up to.
      if (found.number != 0) return Answer(data, std::uint64_t{1} << 63 | found.number);
      if (auto* const real = GPUMAN_REAL(cuPointerGetAttribute))
        real(data, CU_POINTER_ATTRIBUTE_BUFFER_ID, region.address);
      return;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return Answer(data, std::uint64_t{CU_MEM_HANDLE_TYPE_NONE});
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return Answer(data, static_cast<unsigned>(found.own && region.pool == 0));
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      if (region.pool != 0) Answer(data, found.handle);
      return;
    default:
      return;
  }
}

// The shim makes the program's own memory so that it can be exported. This changes the driver's answer to the
// handle types that the program asked for.
void MendTypes(ProcessState& state, CUpointer_attribute attribute, void* data, CUdeviceptr pointer) {
  if (attribute != CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES) return;
  std::uint64_t types = 0;
  __builtin_memcpy(&types, data, sizeof types);
  Answer(data, types & TypesAt(state, pointer));
}

// Finds the memory at the pointer: allocated here, or opened from another process.
bool FindAny(ProcessState& state, CUdeviceptr pointer, FoundPointer& seen) {
  seen.own = FindBacked(state, pointer, seen);
  if (seen.own || seen.slab) return seen.own;
  OpenedExport opened{};
  if (!FindShared(state, pointer, seen.region.address, opened)) return false;
  seen.region.size = opened.bytes;
  seen.region.context = opened.context;
  return true;
}

}  // namespace

namespace hook {

CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* size, CUdeviceptr pointer) {
  auto* const real = GPUMAN_REAL(cuMemGetAddressRange_v2);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const CUresult result = real(base, size, pointer);
  const HookErrnoScope scope;
  FoundPointer found{};
  if (!scope || result != CUDA_SUCCESS) return result;
  if (!FindAny(*scope, pointer, found)) return found.slab ? CUDA_ERROR_NOT_FOUND : result;
  if (base != nullptr) *base = found.region.address;
  if (size != nullptr) *size = found.region.size;
  return result;
}

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr ptr) {
  auto* const real = GPUMAN_REAL(cuPointerGetAttribute);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const CUresult result = real(data, attribute, ptr);
  const HookErrnoScope scope;
  FoundPointer found{};
  if (!scope || result != CUDA_SUCCESS) return result;
  MendTypes(*scope, attribute, data, ptr);
  if (FindAny(*scope, ptr, found)) Mend(found, attribute, data);
  return found.slab && found.number == 0 ? CUDA_ERROR_INVALID_VALUE : result;
}

CUresult cuPointerGetAttributes(unsigned int num_attributes, CUpointer_attribute* attributes, void** data,
                                CUdeviceptr ptr) {
  auto* const real = GPUMAN_REAL(cuPointerGetAttributes);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const CUresult result = real(num_attributes, attributes, data, ptr);
  const HookErrnoScope scope;
  FoundPointer found{};
  if (!scope || result != CUDA_SUCCESS) return result;
  const bool backed = FindAny(*scope, ptr, found);
  for (unsigned i = 0; i < num_attributes; ++i) {
    MendTypes(*scope, attributes[i], data[i], ptr);
    if (backed) Mend(found, attributes[i], data[i]);
  }
  return result;
}

}  // namespace hook

}  // namespace gpuman::shim

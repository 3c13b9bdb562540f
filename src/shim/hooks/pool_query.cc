// What pools tell of themselves, and which devices may use them. The shim's memory of a pool is added to the
// driver's.
#include "shim/backing/stream_pools.h"
#include "shim/hooks/hooks.h"
#include "shim/hooks/process_state.h"
#include "shim/libc/lock.h"

namespace gpuman::shim {
namespace {

// Returns the shim's bytes of the pool; 0 where the attribute does not count bytes.
std::uint64_t BytesOf(const StreamPool& pool, CUmemPool_attribute attribute) {
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      return pool.blocks.reserved();
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      return pool.reserved_high;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      return pool.blocks.used();
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      return pool.used_high;
    default:
      return 0;
  }
}

}  // namespace

namespace hook {

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
  auto* const real = GPUMAN_REAL(cuMemPoolGetAttribute);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const CUresult result = real(pool, attr, value);
  const HookErrnoScope scope;
  if (!scope || result != CUDA_SUCCESS) return result;
  const Locked lock((*scope).pools);
  const StreamPool* const own = KnownPool(*scope, pool);
  const std::uint64_t more = own != nullptr ? BytesOf(*own, attr) : 0;
  if (more == 0) return result;
  cuuint64_t bytes = 0;
  __builtin_memcpy(&bytes, value, sizeof bytes);
  bytes += more;
  __builtin_memcpy(value, &bytes, sizeof bytes);
  return result;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
  auto* const real = GPUMAN_REAL(cuMemPoolSetAttribute);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const CUresult result = real(pool, attr, value);
  const HookErrnoScope scope;
  if (!scope || result != CUDA_SUCCESS) return result;
  const Locked lock((*scope).pools);
  if (StreamPool* const own = KnownPool(*scope, pool)) {
    if (attr == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) own->reserved_high = own->blocks.reserved();
    if (attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH) own->used_high = own->blocks.used();
  }
  return result;
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* map, size_t count) {
  auto* const real = GPUMAN_REAL(cuMemPoolSetAccess);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const CUresult result = real(pool, map, count);
  const HookErrnoScope scope;
  if (!scope || result != CUDA_SUCCESS) return result;
  const Locked lock((*scope).pools);
  OpenPoolTo(*scope, pool, map, count);
  return result;
}

}  // namespace hook

}  // namespace gpuman::shim

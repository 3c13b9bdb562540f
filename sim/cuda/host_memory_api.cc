// Pinned host memory, allocated or registered.
#include <sys/mman.h>

#include <shared_mutex>

#include "sim/cuda/api.h"

namespace gpuman::sim::cuda {
namespace {

constexpr std::uint64_t kHostPage = 4096;
constexpr unsigned kAllocFlags =
    CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
constexpr unsigned kRegisterFlags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                                    CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;

void Add(const Call& call, std::uint64_t begin, std::uint64_t size, MemoryKind kind, unsigned flags) {
  call.driver().memory.AddBlock({.begin = begin, .end = begin + size, .kind = kind});
  call.driver().memory.AddAllocation({.begin = begin,
                                      .size = size,
                                      .kind = kind,
                                      .device = &call.device(),
                                      .context = &call.context(),
                                      .flags = flags});
}

CUresult Allocate(const char* function, void** out, std::size_t bytes, unsigned flags) {
  const Call call(function, Need::kContextUncaught);
  if (!call) return call.error();
  if (out == nullptr || (flags & ~kAllocFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes == 0) {  // measured: succeeds
    *out = nullptr;
    return CUDA_SUCCESS;
  }
  if (bytes > std::uint64_t{1} << 45) return CUDA_ERROR_OUT_OF_MEMORY;
  void* const memory =
      mmap(nullptr, RoundUp(bytes, kHostPage), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  Add(call, reinterpret_cast<std::uint64_t>(memory), bytes, MemoryKind::kHost, flags);
  *out = memory;
  return CUDA_SUCCESS;
}

// Removes a record of the given kind once no operation uses the memory.
CUresult Remove(const Call& call, const void* pointer, MemoryKind kind, CUresult error, Allocation& removed) {
  Driver& driver = call.driver();
  const auto begin = reinterpret_cast<std::uint64_t>(pointer);
  const auto allocation = driver.memory.FindAllocation(begin);
  if (!allocation || allocation->begin != begin || allocation->kind != kind) return error;
  driver.SynchronizeAll();
  const std::unique_lock execution(driver.execution);
  const auto taken = driver.memory.TakeAllocation(begin);
  if (!taken) return error;
  driver.memory.TakeBlock(begin);
  removed = *taken;
  return CUDA_SUCCESS;
}

std::optional<Allocation> FindHost(const Call& call, const void* pointer) {
  const auto allocation = call.driver().memory.FindAllocation(reinterpret_cast<std::uint64_t>(pointer));
  return allocation && IsHostKind(allocation->kind) ? allocation : std::nullopt;
}

}  // namespace

CUresult cuMemHostAlloc(void** out, size_t bytes, unsigned int flags) {
  return Allocate(__func__, out, bytes, flags);
}
CUresult cuMemAllocHost_v2(void** out, size_t bytes) { return Allocate(__func__, out, bytes, 0); }

CUresult cuMemFreeHost(void* pointer) {
  const Call call(__func__, Need::kContextUncaught);
  if (!call) return call.error();
  if (pointer == nullptr) return CUDA_SUCCESS;
  Allocation removed;
  const CUresult result = Remove(call, pointer, MemoryKind::kHost, CUDA_ERROR_INVALID_VALUE, removed);
  if (result == CUDA_SUCCESS) munmap(pointer, RoundUp(removed.size, kHostPage));
  return result;
}

CUresult cuMemHostRegister_v2(void* pointer, size_t bytes, unsigned int flags) {
  const Call call(__func__, Need::kContextUncaught);
  if (!call) return call.error();
  const auto begin = reinterpret_cast<std::uint64_t>(pointer);
  if (pointer == nullptr || bytes == 0 || begin + bytes < begin || (flags & ~kRegisterFlags) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (call.driver().memory.Check(begin, bytes, false) != AddressSpace::Lookup::kUnknown) {
    return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  }
  // This memory is not mapped, so it cannot be pinned.
  if (msync(reinterpret_cast<void*>(begin / kHostPage * kHostPage), begin % kHostPage + bytes, MS_ASYNC) !=
      0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Add(call, begin, bytes, MemoryKind::kRegistered, flags);
  return CUDA_SUCCESS;
}
CUresult cuMemHostRegister(void* pointer, size_t bytes, unsigned int flags) {
  return cuMemHostRegister_v2(pointer, bytes, flags);
}

CUresult cuMemHostUnregister(void* pointer) {
  const Call call(__func__, Need::kContextUncaught);
  if (!call) return call.error();
  Allocation removed;
  return Remove(call, pointer, MemoryKind::kRegistered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, removed);
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* out, void* pointer, unsigned int flags) {
  const Call call(__func__);
  if (!call) return call.error();
  if (out == nullptr || flags != 0 || !FindHost(call, pointer)) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUdeviceptr>(pointer);
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned int* flags, void* pointer) {
  const Call call(__func__);
  if (!call) return call.error();
  const auto allocation = FindHost(call, pointer);
  if (flags == nullptr || !allocation) return CUDA_ERROR_INVALID_VALUE;
  *flags = allocation->flags | CU_MEMHOSTALLOC_DEVICEMAP;
  return CUDA_SUCCESS;
}

}  // namespace gpuman::sim::cuda

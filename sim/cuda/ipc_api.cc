// Legacy IPC: memory of cuMemAlloc, opened by another process through /proc/PID/fd.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "sim/cuda/api.h"
#include "sim/cuda/memory.h"
#include "sim/state/identity.h"

namespace gpuman::sim::cuda {
namespace {

constexpr std::uint32_t kMagic = 0x43504947;  // "GIPC"

// The content of a CUipcMemHandle.
struct Wire {
  std::uint32_t magic = kMagic;
  std::int32_t descriptor = -1;  // in the exporter
  std::uint64_t exporter = 0;    // MakeIdentity, so that a later process with the same pid does not match
  std::uint64_t file_offset = 0, block_bytes = 0;
  std::uint64_t within = 0, bytes = 0;  // the allocation within its block
  std::uint32_t gpu = 0;
};
static_assert(sizeof(Wire) <= sizeof(CUipcMemHandle));

Device* DeviceOfGpu(Driver& driver, unsigned gpu) {
  for (int ordinal = 0; Device* device = driver.FindDevice(ordinal); ++ordinal) {
    if (device->gpu() == gpu) return device;
  }
  return nullptr;
}

}  // namespace

CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr pointer) {
  const Call call(__func__);
  if (!call) return call.error();
  const auto allocation = call.driver().memory.FindAllocation(pointer);
  const auto block = call.driver().memory.FindBlock(pointer);
  if (handle == nullptr || !allocation || !block || allocation->kind != MemoryKind::kDevice) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Wire wire;
  wire.descriptor = block->physical->descriptor();
  wire.exporter = OwnIdentity();
  wire.file_offset = block->physical->offset();
  wire.block_bytes = block->physical->size();
  wire.within = allocation->begin - block->begin;
  wire.bytes = allocation->size;
  wire.gpu = block->device->gpu();
  *handle = {};
  std::memcpy(handle, &wire, sizeof wire);
  call.driver().uses_ipc = true;
  return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* out, CUipcMemHandle handle, unsigned int flags) {
  const Call call(__func__);
  if (!call) return call.error();
  Wire wire;
  std::memcpy(static_cast<void*>(&wire), &handle, sizeof wire);
  if (out == nullptr || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || wire.magic != kMagic ||
      wire.within + wire.bytes > wire.block_bytes || wire.block_bytes == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (wire.exporter == OwnIdentity()) return CUDA_ERROR_INVALID_CONTEXT;
  Device* const device = DeviceOfGpu(call.driver(), wire.gpu);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  const Device& own = call.context().device();
  if (device != &own && !own.CanAccess(*device)) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  const auto pid = Sight(call.driver().state().shared().machine_space).Find(wire.exporter);
  if (!pid || *pid == Sight::kElsewhere) return CUDA_ERROR_INVALID_VALUE;
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%u/fd/%d", *pid, wire.descriptor);
  const int descriptor = open(path, O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return CUDA_ERROR_INVALID_VALUE;
  std::uint64_t begin = 0;
  if (!MapNew(call.driver(), call.context(), MemoryKind::kImported, wire.block_bytes,
              Physical::Import(device, descriptor, wire.file_offset, wire.block_bytes, false), 0, begin,
              1u << own.ordinal())) {
    return CUDA_ERROR_MAP_FAILED;
  }
  call.driver().uses_ipc = true;
  *out = begin + wire.within;
  return CUDA_SUCCESS;
}
CUresult cuIpcOpenMemHandle(CUdeviceptr* out, CUipcMemHandle handle, unsigned int flags) {
  return cuIpcOpenMemHandle_v2(out, handle, flags);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr pointer) {
  const Call call(__func__, Need::kContextUncaught);
  if (!call) return call.error();
  Driver& driver = call.driver();
  const auto allocation = driver.memory.FindAllocation(pointer);
  if (!allocation || allocation->kind != MemoryKind::kImported) return CUDA_ERROR_INVALID_VALUE;
  driver.SynchronizeAll();
  if (!driver.memory.TakeAllocation(allocation->begin)) return CUDA_ERROR_INVALID_VALUE;
  DropBlock(driver, allocation->begin);
  return CUDA_SUCCESS;
}

}  // namespace gpuman::sim::cuda

// A libcuda.so.1 with one device that grants every request: enough for the shim to count.
#include <cstdlib>
#include <cstring>

#include "driver/abi/cuda.h"

namespace gpuman::driver::abi {
namespace {

constexpr std::size_t kDeviceBytes = std::size_t{1} << 36;
std::uintptr_t next = std::uintptr_t{1} << 32;
CUcontext current;

}  // namespace

extern "C" {

CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice) {
  std::memset(uuid, 0x11, sizeof *uuid);
  return CUDA_SUCCESS;
}
CUresult cuCtxCreate_v2(CUcontext* context, unsigned, CUdevice) {
  current = *context = reinterpret_cast<CUcontext>(&current);
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = current;
  return CUDA_SUCCESS;
}
CUresult cuCtxGetDevice(CUdevice* device) {
  *device = 0;
  return CUDA_SUCCESS;
}
CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  *free = *total = kDeviceBytes;
  return CUDA_SUCCESS;
}
CUresult cuMemAlloc_v2(CUdeviceptr* pointer, size_t bytes) {
  *pointer = next;
  next += (bytes + 0x1fffff) / 0x200000 * 0x200000;
  return CUDA_SUCCESS;
}
CUresult cuMemFree_v2(CUdeviceptr) { return CUDA_SUCCESS; }

// Accepts work and does nothing.
CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        CUstream, void**, void**) {
  return CUDA_SUCCESS;
}

}  // extern "C"

}  // namespace gpuman::driver::abi

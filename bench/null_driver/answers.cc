// The answers that a program needs before it can launch kernels and allocate memory: one device, one context,
// functions by name, addresses without memory.
#include <array>
#include <atomic>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "functions.h"

namespace gpuman::driver::abi {
namespace {

constexpr int kVersion = 13000;
constexpr std::size_t kMemory = std::size_t{141} << 30;
constexpr CUdeviceptr kFirstAddress = CUdeviceptr{1} << 45;
constexpr CUdeviceptr kApart = CUdeviceptr{1} << 30;  // larger than any allocation of the benchmark

char something;  // handles point to it

struct Function {
  std::string_view name;
  int version;
  void* function;
  void* twin;
};

#define GPUMAN_NULL_NONE(symbol) nullptr
#define GPUMAN_NULL_PTDS(symbol) reinterpret_cast<void*>(&symbol##_ptds)
#define GPUMAN_NULL_PTSZ(symbol) reinterpret_cast<void*>(&symbol##_ptsz)
#define GPUMAN_NULL_ROW(name, symbol, version, twin, parameters, arguments) \
  Function{#name, version, reinterpret_cast<void*>(&symbol), GPUMAN_NULL_##twin(symbol)},
const auto functions = std::to_array<Function>({GPUMAN_CUDA_FUNCTIONS(GPUMAN_NULL_ROW)});

template <typename Handle>
CUresult Give(Handle* out) {
  *out = reinterpret_cast<Handle>(&something);
  return CUDA_SUCCESS;
}

template <typename Value>
CUresult Tell(Value* out, std::type_identity_t<Value> value) {
  if (out != nullptr) *out = value;
  return CUDA_SUCCESS;
}

std::atomic<CUdeviceptr> next{kFirstAddress};
std::atomic<CUdeviceptr> spare{0};  // the next allocation reuses the last freed address, as drivers do

}  // namespace

extern "C" {

CUresult cuDriverGetVersion(int* version) { return Tell(version, kVersion); }

CUresult cuGetProcAddress_v2(const char* symbol, void** out, int cuda_version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  const bool twins = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  int found = 0;
  *out = nullptr;
  for (const Function& row : functions) {
    if (row.name != symbol || row.version > cuda_version || row.version <= found) continue;
    found = row.version;
    *out = twins && row.twin != nullptr ? row.twin : row.function;
  }
  return Tell(status, found != 0 ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
}

CUresult cuGetProcAddress(const char* symbol, void** out, int cuda_version, cuuint64_t flags) {
  const CUresult result = cuGetProcAddress_v2(symbol, out, cuda_version, flags, nullptr);
  return *out == nullptr ? CUDA_ERROR_NOT_FOUND : result;
}

CUresult cuDeviceGetCount(int* count) { return Tell(count, 1); }
CUresult cuDeviceGet(CUdevice* device, int) { return Tell(device, 0); }
CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice) { return Tell(bytes, kMemory); }
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute, CUdevice) { return Tell(value, 1); }

CUresult cuDeviceGetName(char* name, int length, CUdevice) {
  if (length > 0) *name = '\0';
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice) {
  std::memset(uuid->bytes, 0x11, sizeof uuid->bytes);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) { return cuDeviceGetUuid_v2(uuid, device); }

CUresult cuGetErrorName(CUresult, const char** text) { return Tell(text, ""); }
CUresult cuGetErrorString(CUresult, const char** text) { return Tell(text, ""); }

CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice) { return Give(out); }
CUresult cuCtxCreate_v2(CUcontext* out, unsigned int, CUdevice) { return Give(out); }
CUresult cuCtxGetCurrent(CUcontext* out) { return Give(out); }
CUresult cuCtxGetDevice(CUdevice* device) { return Tell(device, 0); }
CUresult cuModuleLoadData(CUmodule* module, const void*) { return Give(module); }
CUresult cuModuleGetFunction(CUfunction* function, CUmodule, const char*) { return Give(function); }
CUresult cuStreamCreate(CUstream* stream, unsigned int) { return Give(stream); }

CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp*,
                                       CUmemAllocationGranularity_flags) {
  return Tell(granularity, std::size_t{2} << 20);
}

CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  Tell(free, kMemory);
  return Tell(total, kMemory);
}

CUresult cuMemAlloc_v2(CUdeviceptr* pointer, size_t) {
  const CUdeviceptr freed = spare.exchange(0, std::memory_order_relaxed);
  *pointer = freed != 0 ? freed : next.fetch_add(kApart, std::memory_order_relaxed);
  return CUDA_SUCCESS;
}

CUresult cuMemAllocManaged(CUdeviceptr* pointer, size_t bytes, unsigned int) {
  return cuMemAlloc_v2(pointer, bytes);
}

CUresult cuMemAddressReserve(CUdeviceptr* pointer, size_t bytes, size_t, CUdeviceptr, unsigned long long) {
  return cuMemAlloc_v2(pointer, bytes);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t, const CUmemAllocationProp*,
                     unsigned long long) {
  return Tell(handle, 1);
}

CUresult cuMemFree_v2(CUdeviceptr pointer) {
  spare.store(pointer, std::memory_order_relaxed);
  return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr pointer, size_t) { return cuMemFree_v2(pointer); }

}  // extern "C"
}  // namespace gpuman::driver::abi
